//! `leasehold._native`: the private, native half of the Python package. It converts values and starts operations, and that is
//! all: names, defaults, types and documentation are those of the package around it.
//!
//! Every operation is a `Call` that either blocks its thread or completes into a `Queue` that a
//! Python thread or event loop drains. No thread of ours ever enters Python.

mod call;
mod client;
mod convert;
mod errors;
mod future;
mod guard;
mod process;
mod queue;
#[cfg(feature = "testing")]
mod testing;

/// Nothing here needs the GIL: what several threads use is behind a lock of its own.
#[pyo3::pymodule(gil_used = false)]
mod _native {
    #[cfg(feature = "testing")]
    #[pymodule_export]
    use crate::testing::testing;
    #[pymodule_export]
    use crate::{
        call::{Call, Cancel, cancel},
        client::Client,
        errors::would_deadlock,
        future::Future,
        guard::Guard,
        process::{close_all, listen_to_logs, live, stop_logs},
        queue::Queue,
    };

    /// The version of every package of the project.
    #[pymodule_export]
    #[expect(non_upper_case_globals, reason = "Python's name for it")]
    const __version__: &str = leasehold_bridge::VERSION;
}
