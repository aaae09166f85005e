//! The network between members, which can be cut without any privilege.
//!
//! Members reach each other through proxies: one stands before each member's peer port, and its address is the one
//! that the cluster knows. To cut a member off, the connections that it *opened* must be held, too: raft messages travel
//! on streams that the receiver opened and on requests that the sender opened. Who opened a connection is asked of the
//! kernel, by the port that it comes from, and only when something is cut.

use std::{
    collections::HashMap,
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};

use tokio::task::AbortHandle;

use crate::{
    Error,
    process::Process,
    proxy::{Link, listen},
    sockets::{self, Socket},
};

/// The proxies between the members of one cluster.
#[derive(Debug)]
pub(crate) struct Network {
    addresses: Vec<SocketAddr>,
    accepting: Vec<AbortHandle>,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    members: Arc<[Process]>,
    /// The members that are cut off.
    cut: Vec<usize>,
    connections: Vec<Connection>,
}

/// One connection to a member's peer port.
#[derive(Debug)]
struct Connection {
    /// The port that it comes from, and that of the proxy.
    ports: (u16, u16),
    /// The member that it goes to.
    to: usize,
    /// Gone with the connection.
    link: Weak<Link>,
}

impl Network {
    /// A proxy before each of the peer ports; everything passes.
    pub(crate) fn start(targets: &[SocketAddr]) -> Result<Self, Error> {
        let mut network = Self { addresses: Vec::new(), accepting: Vec::new(), state: Arc::default() };
        for (to, target) in targets.iter().enumerate() {
            let (state, target) = (Arc::clone(&network.state), *target);
            let (address, accepting) = listen(move |client, peer, proxy| {
                let link = Arc::new(Link::default());
                let ports = (peer.port(), proxy.port());
                lock(&state).open(Connection { ports, to, link: Arc::downgrade(&link) });
                async move { link.serve(client, target).await }
            })?;
            network.addresses.push(address);
            network.accepting.push(accepting);
        }
        Ok(network)
    }

    /// The peer addresses to advertise.
    pub(crate) fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Says which processes the members are, before they start.
    pub(crate) fn connect(&self, members: &Arc<[Process]>) {
        lock(&self.state).members = Arc::clone(members);
    }

    /// Nothing passes between `member` and the others, in either direction; connections stay open.
    pub(crate) fn cut_off(&self, member: usize) {
        let mut state = lock(&self.state);
        if !state.cut.contains(&member) {
            state.cut.push(member);
            state.apply();
        }
    }

    /// Everything passes again; what was on its way arrives late, as with TCP after an outage.
    pub(crate) fn reconnect(&self, member: usize) {
        let mut state = lock(&self.state);
        state.cut.retain(|other| *other != member);
        state.apply();
    }

    /// Whether the member is cut off.
    pub(crate) fn is_cut_off(&self, member: usize) -> bool {
        lock(&self.state).cut.contains(&member)
    }
}

impl State {
    fn open(&mut self, connection: Connection) {
        self.connections.retain(|connection| connection.link.strong_count() > 0);
        self.connections.push(connection);
        if !self.cut.is_empty() {
            self.apply();
        }
    }

    /// Holds every connection from or to a member that is cut off, and lets all others pass.
    fn apply(&self) {
        let owners = if self.cut.is_empty() { HashMap::new() } else { owners(&self.members) };
        for Connection { ports, to, link } in &self.connections {
            let Some(link) = link.upgrade() else { continue };
            match owners.get(ports) {
                _ if self.cut.is_empty() => link.pass(),
                // Nobody has it open any more: its end is on the way.
                None => link.cut(),
                Some(from) if self.cut.contains(from) || self.cut.contains(to) => link.hold_all(),
                Some(_) => link.pass(),
            }
        }
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        self.accepting.iter().for_each(AbortHandle::abort);
        let state = lock(&self.state);
        state.connections.iter().filter_map(|connection| connection.link.upgrade()).for_each(|link| link.cut());
    }
}

/// A panic elsewhere must not keep us from cutting the connections.
fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The members that opened connections, by the connections' local and remote ports. Nobody where the kernel does not say.
fn owners(members: &[Process]) -> HashMap<(u16, u16), usize> {
    let pids: Vec<_> = members.iter().map(Process::pid).collect();
    let sockets = sockets::of(&pids).unwrap_or_default();
    let of_member = |(i, sockets): (usize, Vec<Socket>)| sockets.into_iter().map(move |it| ((it.local, it.remote), i));
    sockets.into_iter().enumerate().flat_map(of_member).collect()
}
