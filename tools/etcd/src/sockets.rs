//! Which sockets a process of ours has, as the kernel knows it.
//!
//! Reading the kernel's table takes milliseconds where there are many connections: only for those who need to know.

use std::{collections::HashMap, fs, io};

use rustix::process::Pid;

/// The state of a socket that listens, in the kernel's table.
const LISTEN: &str = "0A";

/// A TCP socket over IPv4 that some process has open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Socket {
    /// Its own port.
    pub(crate) local: u16,
    /// The port at the other end; 0 where it listens.
    pub(crate) remote: u16,
    pub(crate) listens: bool,
}

/// The sockets of each of these processes. One that has ended has none.
///
/// # Errors
/// Those of `/proc`.
pub(crate) fn of(pids: &[Option<Pid>]) -> io::Result<Vec<Vec<Socket>>> {
    // First the processes, then the table: who is in both at their times is what we took it for.
    let mut owners = HashMap::new();
    for (i, pid) in pids.iter().enumerate() {
        owners.extend(pid.iter().flat_map(|pid| open(*pid)).map(|inode| (inode, i)));
    }
    let mut sockets = vec![Vec::new(); pids.len()];
    // That of the thread: a process may have threads in several network namespaces.
    for line in fs::read_to_string("/proc/thread-self/net/tcp")?.lines() {
        if let Some((inode, socket)) = parse(line)
            && let Some(owner) = owners.get(&inode)
        {
            sockets[*owner].push(socket);
        }
    }
    Ok(sockets)
}

/// A line of the table: number, local address, remote address, state, queues, timer, retransmits, user, timeout, inode.
fn parse(line: &str) -> Option<(u64, Socket)> {
    let fields: Vec<_> = line.split_ascii_whitespace().take(10).collect();
    let port = |field: &str| u16::from_str_radix(field.split_once(':')?.1, 16).ok();
    let inode = fields.get(9)?.parse().ok()?;
    Some((inode, Socket { local: port(fields[1])?, remote: port(fields[2])?, listens: fields[3] == LISTEN }))
}

/// The inodes of the sockets that a process has open.
fn open(pid: Pid) -> impl Iterator<Item = u64> {
    let descriptors = fs::read_dir(format!("/proc/{}/fd", pid.as_raw_nonzero()));
    descriptors.into_iter().flatten().flatten().filter_map(|descriptor| {
        let target = fs::read_link(descriptor.path()).ok()?;
        target.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
    })
}
