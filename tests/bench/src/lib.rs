//! What the benchmark and its worker share: the smallest event loop over a queue of the bridge.

use std::{io, os::fd::BorrowedFd};

use leasehold_bridge::{Completion, Queue};
use rustix::event::{PollFd, PollFlags, poll};

/// Waits until the queue's descriptor is readable, and takes what there is.
///
/// # Errors
/// Those of `poll`, and a queue without descriptor.
pub fn turn(queue: &Queue) -> io::Result<Vec<Completion>> {
    let fd = queue.fd().ok_or(io::ErrorKind::InvalidInput)?;
    // SAFETY: the queue keeps the descriptor open as long as it is borrowed here.
    let fd = unsafe { BorrowedFd::borrow_raw(fd) };
    poll(&mut [PollFd::new(&fd, PollFlags::IN)], None)?;
    Ok(queue.drain(64))
}
