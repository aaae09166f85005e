//! A TCP proxy on loopback whose traffic can be delayed, held and cut while it runs.

use std::{
    future::pending,
    io,
    net::{Ipv4Addr, SocketAddr},
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::{mpsc, watch},
    task::AbortHandle,
    time::{Instant, sleep, sleep_until},
};

use crate::{Error, background, error::Doing};

/// Which way bytes travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the client to the server.
    ToServer,
    /// From the server to the client.
    ToClient,
}

impl Direction {
    const fn index(self) -> usize {
        match self {
            Self::ToServer => 0,
            Self::ToClient => 1,
        }
    }
}

/// Forwards connections on loopback to one address. Dropping it resets its connections.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    link: Arc<Link>,
    accepting: AbortHandle,
}

impl Proxy {
    /// A proxy for `target` on a free port, which passes everything for now.
    ///
    /// # Errors
    /// [`Error::Io`] when no port can be had.
    pub fn start(target: SocketAddr) -> Result<Self, Error> {
        let link = Arc::new(Link::default());
        let shared = Arc::clone(&link);
        let (address, accepting) = listen(move |client, _, _| {
            let link = Arc::clone(&shared);
            async move { link.serve(client, target).await }
        })?;
        Ok(Self { address, link, accepting })
    }

    /// The address to connect to instead of the target's.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Passes everything from now on, without delay; what was held goes first.
    pub fn pass(&self) {
        self.link.pass();
    }

    /// Keeps connections open but lets no byte through that way, as a network does that loses every packet: the sender's
    /// bytes wait, and arrive after [`Proxy::pass`]. New connections are accepted, and held the same way.
    pub fn hold(&self, direction: Direction) {
        self.link.hold(direction);
    }

    /// Holds both ways.
    pub fn hold_all(&self) {
        self.link.hold_all();
    }

    /// Lets every byte arrive `delay` later that way; rounded to whole milliseconds.
    pub fn delay(&self, direction: Direction, delay: Duration) {
        self.link.rules.send_modify(|rules| rules.delay[direction.index()] = delay);
    }

    /// Resets every connection, and new ones too until [`Proxy::pass`].
    pub fn cut(&self) {
        self.link.cut();
    }

    /// Resets every connection; new ones are welcome.
    pub fn reset(&self) {
        self.link.rules.send_modify(|rules| rules.resets += 1);
    }

    /// The number of open connections.
    pub fn open(&self) -> usize {
        self.link.open.load(Ordering::Acquire)
    }

    /// The number of connections that were ever accepted, also those that were cut at once.
    pub fn accepted(&self) -> usize {
        self.link.accepted.load(Ordering::Acquire)
    }

    /// The number of bytes that were passed on that way.
    pub fn bytes(&self, direction: Direction) -> u64 {
        self.link.bytes[direction.index()].load(Ordering::Acquire)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
        self.link.cut();
    }
}

/// The rules for some connections, changed while they run.
#[derive(Debug, Default)]
pub(crate) struct Link {
    rules: watch::Sender<Rules>,
    open: AtomicUsize,
    accepted: AtomicUsize,
    bytes: [AtomicU64; 2],
}

#[derive(Clone, Copy, Debug, Default)]
struct Rules {
    held: [bool; 2],
    delay: [Duration; 2],
    /// New connections are reset.
    refuse: bool,
    /// Grows with every reset: a connection of an earlier count ends.
    resets: u64,
}

impl Link {
    pub(crate) fn pass(&self) {
        self.rules.send_modify(|rules| *rules = Rules { resets: rules.resets, ..Rules::default() });
    }

    fn hold(&self, direction: Direction) {
        self.rules.send_modify(|rules| rules.held[direction.index()] = true);
    }

    pub(crate) fn hold_all(&self) {
        self.rules.send_modify(|rules| rules.held = [true; 2]);
    }

    pub(crate) fn cut(&self) {
        self.rules.send_modify(|rules| {
            rules.refuse = true;
            rules.resets += 1;
        });
    }

    /// Serves one connection until both sides have ended it, one has broken it, or it is reset.
    pub(crate) async fn serve(&self, mut client: TcpStream, target: SocketAddr) {
        self.accepted.fetch_add(1, Ordering::AcqRel);
        self.open.fetch_add(1, Ordering::AcqRel);
        if self.carry(&mut client, target).await.is_err() {
            // A reset, not an orderly end, is what a broken connection looks like.
            let _ = client.set_zero_linger();
        }
        self.open.fetch_sub(1, Ordering::AcqRel);
    }

    async fn carry(&self, client: &mut TcpStream, target: SocketAddr) -> io::Result<()> {
        let mut rules = self.rules.subscribe();
        let Rules { refuse, resets, .. } = *rules.borrow();
        if refuse {
            return Err(io::ErrorKind::ConnectionReset.into());
        }
        let reset = async { rules.wait_for(|rules| rules.resets != resets).await.map(drop) };
        let work = async {
            let mut server = TcpStream::connect(target).await?;
            server.set_nodelay(true)?;
            client.set_nodelay(true)?;
            let (from_client, to_client) = client.split();
            let (from_server, to_server) = server.split();
            let both = tokio::try_join!(
                self.pump(Direction::ToServer, resets, from_client, to_server),
                self.pump(Direction::ToClient, resets, from_server, to_client),
            );
            if both.is_err() {
                let _ = server.set_zero_linger();
            }
            both.map(drop)
        };
        tokio::select! {
            result = work => result,
            _ = reset => Err(io::ErrorKind::ConnectionReset.into()),
        }
    }

    /// Carries bytes one way, of a connection since so many resets. Reading runs ahead of writing, so that a delay costs latency
    /// and not throughput.
    async fn pump(
        &self,
        direction: Direction,
        resets: u64,
        mut from: impl AsyncRead + Unpin,
        mut to: impl AsyncWrite + Unpin,
    ) -> io::Result<()> {
        const CHUNK: usize = 16 * 1024;
        const AHEAD: usize = 64;
        let (queue, mut queued) = mpsc::channel::<(Instant, Vec<u8>)>(AHEAD);
        let read = async move {
            loop {
                let mut chunk = vec![0; CHUNK];
                let length = from.read(&mut chunk).await?;
                chunk.truncate(length);
                if length == 0 || queue.send((Instant::now(), chunk)).await.is_err() {
                    return Ok::<_, io::Error>(());
                }
            }
        };
        let mut rules = self.rules.subscribe();
        let index = direction.index();
        let write = async {
            while let Some((arrived, chunk)) = queued.recv().await {
                let delay = rules.borrow().delay[index];
                if delay > Duration::ZERO {
                    sleep_until(arrived + delay).await;
                }
                released(&mut rules, index, resets).await?;
                // First, so that whoever has read the bytes finds them counted.
                self.bytes[index].fetch_add(chunk.len() as u64, Ordering::AcqRel);
                to.write_all(&chunk).await?;
            }
            released(&mut rules, index, resets).await?;
            to.shutdown().await
        };
        tokio::try_join!(read, write).map(drop)
    }
}

/// Waits until nothing is held that way. What was held when the connection was reset never passes, also where new connections
/// may pass by then.
async fn released(rules: &mut watch::Receiver<Rules>, index: usize, resets: u64) -> io::Result<()> {
    let now = rules.wait_for(|rules| !rules.held[index] || rules.resets != resets).await.map(|rules| rules.resets);
    match now {
        Ok(now) if now == resets => Ok(()),
        Ok(_) => Err(io::ErrorKind::ConnectionReset.into()),
        // The link is gone, and this connection is about to be.
        Err(_) => pending().await,
    }
}

/// Listens on a free port; `serve` gets each connection with its two addresses, the client's and ours.
pub(crate) fn listen<F: Future<Output = ()> + Send + 'static>(
    serve: impl Fn(TcpStream, SocketAddr, SocketAddr) -> F + Send + 'static,
) -> Result<(SocketAddr, AbortHandle), Error> {
    let doing = || "could not open a proxy on loopback".into();
    let runtime = background::handle()?;
    let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).doing(doing)?;
    listener.set_nonblocking(true).doing(doing)?;
    let address = listener.local_addr().doing(doing)?;
    let listener = {
        let _context = runtime.enter();
        TcpListener::from_std(listener).doing(doing)?
    };
    let accepting = runtime.spawn(async move {
        loop {
            match listener.accept().await {
                Ok((client, peer)) => drop(tokio::spawn(serve(client, peer, address))),
                // Out of file descriptors, most likely: some will be closed.
                Err(_) => sleep(Duration::from_millis(10)).await,
            }
        }
    });
    Ok((address, accepting.abort_handle()))
}
