//! The network between members, which can be cut without any privilege.
//!
//! Members reach each other through proxies: one stands before each member's peer port, and its address is the one
//! that the cluster knows. To cut a member off, the connections that it *opens* must break, too: raft messages travel
//! on streams that the receiver opened and on requests that the sender opened. So each connection is ascribed to the
//! member that opened it: the kernel's table of sockets says which, by the port that it comes from.

use std::{
    fs,
    net::SocketAddr,
    sync::{Arc, OnceLock},
};

use rustix::process::Pid;
use tokio::task::AbortHandle;

use crate::{
    Error,
    process::Process,
    proxy::{Direction, Link, listen},
};

/// The processes of the members, known once they are made.
type Members = Arc<OnceLock<Arc<[Process]>>>;

#[derive(Debug)]
pub(crate) struct Network {
    /// `links[from][to]`.
    links: Vec<Vec<Arc<Link>>>,
    addresses: Vec<SocketAddr>,
    accepting: Vec<AbortHandle>,
    members: Members,
}

impl Network {
    /// A proxy before each of the peer ports; all pass.
    pub(crate) fn start(ports: &[SocketAddr]) -> Result<Self, Error> {
        let links = || ports.iter().map(|_| Arc::new(Link::default())).collect::<Vec<_>>();
        let mut network = Self {
            links: ports.iter().map(|_| links()).collect(),
            addresses: Vec::new(),
            accepting: Vec::new(),
            members: Members::default(),
        };
        for (to, target) in ports.iter().enumerate() {
            let members = Arc::clone(&network.members);
            let inbound: Vec<_> = network.links.iter().map(|row| Arc::clone(&row[to])).collect();
            let choose = move |peer, proxy| {
                let inode = socket_inode(peer, proxy)?;
                let from = members.get()?.iter().position(|member| member.pid().is_some_and(|pid| owns(pid, inode)))?;
                inbound.get(from).cloned()
            };
            let (address, accepting) = listen(*target, choose)?;
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
        let _ = self.members.set(Arc::clone(members));
    }

    /// Nothing passes between `member` and the others, in either direction; connections stay open.
    pub(crate) fn cut_off(&self, member: usize) {
        for link in self.links_of(member) {
            link.hold(Direction::ToServer);
            link.hold(Direction::ToClient);
        }
    }

    /// Everything passes again; what was on its way arrives late, as with TCP after an outage.
    pub(crate) fn reconnect(&self, member: usize) {
        self.links_of(member).for_each(Link::pass);
    }

    fn links_of(&self, member: usize) -> impl Iterator<Item = &Link> {
        let pairs = self
            .links
            .iter()
            .enumerate()
            .flat_map(|(from, row)| row.iter().enumerate().map(move |(to, link)| (from, to, link.as_ref())));
        pairs.filter(move |(from, to, _)| *from == member || *to == member).map(|(_, _, link)| link)
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        self.accepting.iter().for_each(AbortHandle::abort);
        self.links.iter().flatten().for_each(|link| link.cut());
    }
}

/// The inode of the socket at the other end of a connection from `peer` to `proxy`.
fn socket_inode(peer: SocketAddr, proxy: SocketAddr) -> Option<u64> {
    let table = fs::read_to_string("/proc/net/tcp").ok()?;
    let port = |field: &str| u16::from_str_radix(field.split_once(':')?.1, 16).ok();
    table.lines().skip(1).find_map(|line| {
        let mut fields = line.split_ascii_whitespace();
        let (local, remote) = (port(fields.nth(1)?)?, port(fields.next()?)?);
        let inode = fields.nth(6)?.parse().ok()?;
        ((local, remote) == (peer.port(), proxy.port()) && inode != 0).then_some(inode)
    })
}

/// Whether the process has the socket open.
fn owns(pid: Pid, inode: u64) -> bool {
    let descriptors = fs::read_dir(format!("/proc/{}/fd", pid.as_raw_nonzero()));
    let socket = format!("socket:[{inode}]");
    descriptors
        .into_iter()
        .flatten()
        .flatten()
        .any(|descriptor| fs::read_link(descriptor.path()).is_ok_and(|target| target.as_os_str() == socket.as_str()))
}
