//! What a member says about itself at its metrics address: plain HTTP, whatever TLS and users its clients need.

use std::{io, net::SocketAddr, time::Duration};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::{Instant, sleep, timeout},
};

/// A frozen or cut-off member does not answer: ask again rather than wait.
const LIMIT: Duration = Duration::from_secs(2);

/// The pauses between looks at something that is to come: short at first, then longer, for a busy machine has better to
/// do than to answer us.
#[derive(Debug)]
pub(crate) struct Patience {
    deadline: Instant,
    pause: Duration,
}

impl Patience {
    pub(crate) fn new(limit: Duration) -> Self {
        Self { deadline: Instant::now() + limit, pause: Duration::from_millis(4) }
    }

    /// Whether there is time for another look, after the pause.
    pub(crate) async fn another(&mut self) -> bool {
        const LONGEST: Duration = Duration::from_millis(100);
        sleep(self.pause).await;
        self.pause = LONGEST.min(self.pause.mul_f32(1.2));
        Instant::now() < self.deadline
    }
}

/// Whether the member answers at all, with a quorum or without.
pub(crate) async fn answers(address: SocketAddr) -> bool {
    get(address, "/health").await.is_ok()
}

/// Whether the member serves requests; that includes a leader.
pub(crate) async fn is_healthy(address: SocketAddr) -> bool {
    get(address, "/health").await.is_ok_and(|answer| answer.contains(r#""health":"true""#))
}

/// Whether the member takes itself for the leader.
pub(crate) async fn is_leader(address: SocketAddr) -> bool {
    metrics(address).await.is_ok_and(|answer| answer.lines().any(|line| line == "etcd_server_is_leader 1"))
}

/// What the member counts, in the text format of Prometheus.
pub(crate) async fn metrics(address: SocketAddr) -> io::Result<String> {
    get(address, "/metrics").await
}

/// Head and body of the answer. HTTP/1.0, so that the server neither chunks it nor keeps the connection.
async fn get(address: SocketAddr, path: &str) -> io::Result<String> {
    let exchange = async {
        let mut stream = TcpStream::connect(address).await?;
        stream.write_all(format!("GET {path} HTTP/1.0\r\n\r\n").as_bytes()).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        if answer.is_empty() { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(answer) }
    };
    timeout(LIMIT, exchange).await?
}
