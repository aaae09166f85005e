//! What wakes a loop that waits for a file descriptor.

use std::{
    io,
    os::fd::{AsFd, AsRawFd, OwnedFd, RawFd},
};

use crate::sync::step;

/// A file descriptor that is readable while it is set: an eventfd, or a pipe where there is none.
pub(super) struct WakeFd {
    read: OwnedFd,
    /// The other end of the pipe; an eventfd is both.
    write: Option<OwnedFd>,
}

impl WakeFd {
    #[cfg(target_os = "linux")]
    pub(super) fn open() -> io::Result<Self> {
        use rustix::event::{EventfdFlags, eventfd};
        Ok(Self { read: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?, write: None })
    }

    #[cfg(not(target_os = "linux"))]
    pub(super) fn open() -> io::Result<Self> {
        use rustix::{fs::OFlags, pipe::pipe};
        let (read, write) = pipe()?;
        for end in [&read, &write] {
            rustix::fs::fcntl_setfl(end, OFlags::NONBLOCK)?;
            rustix::io::fcntl_setfd(end, rustix::io::FdFlags::CLOEXEC)?;
        }
        Ok(Self { read, write: Some(write) })
    }

    pub(super) fn set(&self) {
        step();
        let end = self.write.as_ref().unwrap_or(&self.read);
        // Fails only when it is full, and then it is set.
        let _ = rustix::io::write(end, &1u64.to_ne_bytes());
    }

    pub(super) fn clear(&self) {
        step();
        let mut buffer = [0; 64];
        // Fails only when there is nothing to read, and then it is clear. A pipe may hold more than one read takes: that is a
        // wake-up too many, not one too few.
        let _ = rustix::io::read(&self.read, &mut buffer);
    }

    pub(super) fn as_raw(&self) -> RawFd {
        self.read.as_fd().as_raw_fd()
    }
}
