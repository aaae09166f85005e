//! Forks: a child starts anew, and what it inherited cannot hang it.
//!
//! Most of that is the core's ([`leasehold::process`]). Here are the handlers that tell it, and that keep the table of handles
//! whole: another thread may be changing it at the moment of the fork.

use std::sync::atomic::{AtomicBool, Ordering};

use leasehold::process;

use crate::handles;

/// Watches for forks from now on. Called by everything that makes state which a fork could harm.
pub fn watch() {
    static IS_WATCHED: AtomicBool = AtomicBool::new(false);
    if IS_WATCHED.load(Ordering::Relaxed) || IS_WATCHED.swap(true, Ordering::AcqRel) {
        return;
    }
    // SAFETY: the handlers are functions that live for ever, take no argument and do not unwind.
    let status = unsafe { libc::pthread_atfork(Some(before), Some(after_in_parent), Some(after_in_child)) };
    if status != 0 {
        // Out of memory. The process id still tells a child from its parent.
        tracing::warn!(status, "could not register the fork handlers");
    }
}

extern "C" fn before() {
    handles::hold();
}

extern "C" fn after_in_parent() {
    handles::let_go();
}

extern "C" fn after_in_child() {
    process::note_fork();
    handles::let_go();
}
