//! Which process this is, and state that a forked child must not share with its parent.
//!
//! In a child of a fork only the thread that forked runs on. A lock that another thread held at that moment stays locked for
//! ever, and the runtime's thread is gone. So a child neither locks, nor wakes, nor drops what its parent used: it starts
//! with fresh state, found without taking any lock.

use std::{
    num::NonZeroUsize,
    sync::atomic::{AtomicU32, AtomicU64, Ordering},
};

use once_cell::race::{OnceBox, OnceNonZeroUsize};

/// Forks between the first process and this one, as far as somebody told us.
static FORKS: AtomicU32 = AtomicU32::new(0);

/// A process. Two of them are never equal, a parent and its child least of all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Process {
    pid: u32,
    /// Process ids are equal where both sides of a fork are the first in their namespaces.
    forks: u32,
}

/// The process that calls. Costs a read of memory, where the kernel helps: each operation asks several times.
pub fn current() -> Process {
    let Some(memory) = memory() else { return ask() };
    match memory.load(Ordering::Relaxed) {
        0 => {
            let me = ask();
            memory.store(u64::from(me.forks) << 32 | u64::from(me.pid), Ordering::Relaxed);
            me
        }
        // The halves of what is stored above.
        known => Process { pid: known as u32, forks: (known >> 32) as u32 },
    }
}

/// Notes that this process is the child of a fork. Safe in a handler of `pthread_atfork`: it changes atomics.
pub fn note_fork() {
    FORKS.fetch_add(1, Ordering::Relaxed);
    if let Some(memory) = PAGE.get().and_then(at) {
        memory.store(0, Ordering::Relaxed);
    }
}

fn ask() -> Process {
    Process { pid: std::process::id(), forks: FORKS.load(Ordering::Relaxed) }
}

/// The address of [`memory`], or [`NO_PAGE`].
static PAGE: OnceNonZeroUsize = OnceNonZeroUsize::new();
const NO_PAGE: NonZeroUsize = NonZeroUsize::MIN;

/// Where this process remembers which it is: memory that the kernel empties in the child of any fork, handlers or not. A
/// process id is never 0. `None` where the kernel has no such memory.
fn memory() -> Option<&'static AtomicU64> {
    // Two threads that come first at the same time both map a page; one of the two pages is used.
    at(PAGE.get_or_init(|| map().unwrap_or(NO_PAGE)))
}

#[cfg(target_os = "linux")]
fn map() -> Option<NonZeroUsize> {
    // What is asked for is rounded up to a page.
    const LENGTH: usize = size_of::<AtomicU64>();
    const ACCESS: libc::c_int = libc::PROT_READ | libc::PROT_WRITE;
    const KIND: libc::c_int = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: a new mapping at an address of the kernel's choice touches nothing that exists.
    let page = unsafe { libc::mmap(std::ptr::null_mut(), LENGTH, ACCESS, KIND, -1, 0) };
    // SAFETY: it is only looked at if the page was mapped, and nobody has a reference into it.
    let is_ours = page != libc::MAP_FAILED && unsafe { libc::madvise(page, LENGTH, libc::MADV_WIPEONFORK) } == 0;
    NonZeroUsize::new(page.expose_provenance()).filter(|_| is_ours)
}

#[cfg(not(target_os = "linux"))]
fn map() -> Option<NonZeroUsize> {
    None
}

fn at(page: NonZeroUsize) -> Option<&'static AtomicU64> {
    let address = std::ptr::with_exposed_provenance::<AtomicU64>(page.get());
    // SAFETY: `map` has mapped the page for reading and writing, it is never unmapped, and it is aligned for anything.
    (page != NO_PAGE).then(|| unsafe { &*address })
}

/// A value that is `T::default()` at its first use in each process. What a parent left in it is neither read nor dropped.
#[derive(Debug, Default)]
pub struct PerProcess<T> {
    /// One node for each process from the first one down to this; a chain because a fork copies what is there.
    first: OnceBox<Node<T>>,
}

#[derive(Debug)]
struct Node<T> {
    owner: Process,
    /// Always there, until it is dropped.
    value: Option<T>,
    next: OnceBox<Node<T>>,
}

impl<T> PerProcess<T> {
    /// A value that no process has used yet.
    pub const fn new() -> Self {
        Self { first: OnceBox::new() }
    }
}

impl<T: Default> PerProcess<T> {
    /// This process's value.
    pub fn get(&self) -> &T {
        let me = current();
        let mut link = &self.first;
        loop {
            let fresh = || Box::new(Node { owner: me, value: Some(T::default()), next: OnceBox::new() });
            let node = link.get_or_init(fresh);
            match &node.value {
                Some(value) if node.owner == me => return value,
                _ => link = &node.next,
            }
        }
    }
}

impl<T> Drop for Node<T> {
    fn drop(&mut self) {
        if self.owner != current() {
            // The parent's: dropping it could wake its runtime or wait for a lock that nobody will release.
            std::mem::forget(self.value.take());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[test]
    fn a_value_stays_within_its_process() {
        let cell = PerProcess::<Mutex<u32>>::new();
        *cell.get().lock().unwrap() = 7;
        assert_eq!(*cell.get().lock().unwrap(), 7);
        // Held across the fork, as another thread might.
        let held = cell.get().lock().unwrap();
        // SAFETY: the child only looks at the cell and exits.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let is_fresh = cell.get().try_lock().is_ok_and(|value| *value == 0);
            // SAFETY: ends the child at once, without the handlers of the test runner.
            unsafe { libc::_exit(if is_fresh { 0 } else { 1 }) };
        }
        let mut status = 0;
        // SAFETY: `status` is ours, and `child` has not been waited for.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert_eq!(status, 0, "the child saw its parent's value or lock");
        drop(held);
    }

    #[test]
    fn a_child_is_another_process_without_any_handler() {
        let parent = current();
        assert_eq!(current(), parent);
        // SAFETY: the child only compares and exits.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let is_another = current() != parent && current() == ask();
            // SAFETY: ends the child at once, without the handlers of the test runner.
            unsafe { libc::_exit(if is_another { 0 } else { 1 }) };
        }
        let mut status = 0;
        // SAFETY: `status` is ours, and `child` has not been waited for.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert_eq!(status, 0, "the child took itself for its parent");
        assert_eq!(current(), parent);
    }
}
