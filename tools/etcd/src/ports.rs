//! Ports on loopback that are ours for as long as a cluster lives.
//!
//! A reservation is a socket that is bound and never listens. While it stands, the kernel gives its port to nobody who
//! asks for any port, and picks it for no outgoing connection: not in this process, not in another, whoever it belongs to, also
//! while the member is down for a restart. It ends with the process at the latest. The member itself can listen there: both
//! sockets are marked `SO_REUSEADDR`, as the Go runtime marks every listener. Who asks for just this port by its number,
//! with that mark, could have it while the member does not listen; so a start looks at who listens, too.

use std::{
    collections::VecDeque,
    net::{Ipv4Addr, SocketAddr},
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use tokio::net::TcpSocket;

use crate::{Error, error::Doing};

/// How long a port is kept after its cluster is gone: a client that outlives the cluster goes on asking there for a while,
/// and must not meet the next one.
const REST: Duration = Duration::from_secs(60);
/// At most so many rest at a time: each is an open file.
const RESTING: usize = 128;

static RESTS: Mutex<VecDeque<(Instant, TcpSocket)>> = Mutex::new(VecDeque::new());

/// A port on loopback, reserved until this is dropped.
#[derive(Debug)]
pub(crate) struct Reservation {
    address: SocketAddr,
    /// Gone only while it is dropped.
    socket: Option<TcpSocket>,
}

impl Reservation {
    /// Any port that is free.
    pub(crate) fn new() -> Result<Self, Error> {
        let reserve = || {
            let socket = TcpSocket::new_v4()?;
            socket.set_reuseaddr(true)?;
            socket.bind((Ipv4Addr::LOCALHOST, 0).into())?;
            Ok::<_, std::io::Error>((socket.local_addr()?, socket))
        };
        let (address, socket) = reserve().doing(|| "could not reserve a port on loopback".into())?;
        Ok(Self { address, socket: Some(socket) })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let mut rests = RESTS.lock().unwrap_or_else(PoisonError::into_inner);
        rests.extend(self.socket.take().map(|socket| (Instant::now(), socket)));
        while rests.len() > RESTING || rests.front().is_some_and(|(since, _)| since.elapsed() > REST) {
            rests.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    /// What somebody gets who asks for that port alone, without `SO_REUSEADDR`.
    fn ask(address: SocketAddr) -> std::io::Result<()> {
        TcpSocket::new_v4().and_then(|socket| socket.bind(address))
    }

    /// Seen to fail with a socket that is closed once its port is known, and with one that is closed by the drop.
    #[test]
    fn a_port_is_kept_from_others_and_can_be_listened_on_while_it_is_reserved_and_a_while_longer() {
        let reservation = Reservation::new().expect("a port");
        let address = reservation.address();
        assert!(ask(address).is_err(), "somebody else got it");
        // What a member does, twice: the standard library marks its listeners as Go does.
        for _ in 0..2 {
            drop(TcpListener::bind(address).expect("the member gets it"));
            assert!(ask(address).is_err(), "somebody else got it");
        }
        drop(reservation);
        assert!(ask(address).is_err(), "somebody else got it at once");
    }
}
