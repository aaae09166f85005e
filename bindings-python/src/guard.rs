//! A guard. Nobody may have taken it yet: dropped, it releases. One that the user has and forgot is abandoned instead, with a
//! warning.

use std::{
    ffi::CString,
    mem::ManuallyDrop,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use leasehold_bridge::{self as bridge, LostReason, guard::TxnOp};
use pyo3::{
    exceptions::{PyKeyboardInterrupt, PyResourceWarning},
    ffi,
    prelude::*,
};

use crate::call::Call;

/// A guard. Shared with the calls that use it, which may outlast the object.
#[pyclass(frozen, module = "leasehold._native")]
pub struct Guard(Arc<Owned>);

struct Owned {
    core: ManuallyDrop<bridge::Guard>,
    is_claimed: AtomicBool,
}

impl Drop for Owned {
    /// Not a finaliser in Python: a signal whose handler raises in one is lost.
    fn drop(&mut self) {
        // SAFETY: it is taken once, here, and nobody sees `self` any more.
        let core = unsafe { ManuallyDrop::take(&mut self.core) };
        if self.is_claimed.load(Ordering::Acquire) && core.is_held() {
            // Not while the interpreter ends: there is nobody to warn.
            Python::try_attach(|py| warn(py, &core));
            core.abandon();
        }
    }
}

/// Warns of a guard that its user forgot. Whether the work that it protects is over, nobody knows: it stays held.
fn warn(py: Python<'_>, guard: &bridge::Guard) {
    let message = format!(
        "the guard of {:?} with the token {} was never released: it stays held until its client is closed; \
         use `with`, or release it",
        guard.name(),
        guard.token(),
    );
    // A name has no NUL, and quoted it could not have one.
    let message = CString::new(message).unwrap_or_default();
    // An exception may be what freed it.
    let raised = PyErr::take(py);
    match PyErr::warn(py, &py.get_type::<PyResourceWarning>(), &message, 1) {
        Ok(()) => {}
        // Ctrl-C while it was shown: to be raised where the program goes on.
        // SAFETY: it only sets a flag.
        Err(error) if error.is_instance_of::<PyKeyboardInterrupt>(py) => unsafe { ffi::PyErr_SetInterrupt() },
        // It is to be an error, or whoever shows it has failed: nobody is there to raise that to.
        Err(error) => error.write_unraisable(py, None),
    }
    if let Some(raised) = raised {
        raised.restore(py);
    }
}

impl Guard {
    pub fn new(core: bridge::Guard) -> Self {
        Self(Arc::new(Owned { core: ManuallyDrop::new(core), is_claimed: AtomicBool::new(false) }))
    }
}

#[pymethods]
impl Guard {
    #[getter]
    fn name(&self) -> &str {
        self.0.core.name()
    }

    #[getter]
    fn token(&self) -> i64 {
        self.0.core.token()
    }

    #[getter]
    fn sequence(&self) -> u64 {
        self.0.core.sequence()
    }

    #[getter]
    fn key(&self) -> String {
        self.0.core.key()
    }

    #[getter]
    fn keys(&self) -> Vec<String> {
        self.0.core.keys()
    }

    #[getter]
    fn lease(&self) -> String {
        self.0.core.lease()
    }

    fn is_held(&self) -> bool {
        self.0.core.is_held()
    }

    fn is_released(&self) -> bool {
        self.0.core.is_released()
    }

    /// In seconds.
    fn remaining(&self) -> f64 {
        self.0.core.remaining().as_secs_f64()
    }

    fn release(&self) -> Call {
        // Whoever asks for this has not forgotten it: if Ctrl-C comes before it starts, the guard that goes away releases.
        self.set_is_claimed(false);
        let guard = self.0.clone();
        Call::new(move |sink| guard.core.release(None, sink))
    }

    fn proclaim(&self, value: Vec<u8>) -> Call {
        let guard = self.0.clone();
        Call::new(move |sink| guard.core.proclaim(value, None, sink))
    }

    fn extend(&self, span_ms: u64) -> Call {
        let guard = self.0.clone();
        Call::new(move |sink| guard.core.extend(Duration::from_millis(span_ms), None, sink))
    }

    fn put(&self, key: Vec<u8>, value: Vec<u8>) -> Call {
        let guard = self.0.clone();
        Call::new(move |sink| guard.core.put(key, value, None, sink))
    }

    fn delete(&self, key: Vec<u8>) -> Call {
        let guard = self.0.clone();
        Call::new(move |sink| guard.core.delete(key, None, sink))
    }

    /// Each operation is a key, and a value if it is written; `reads` says of those without whether they are read or deleted.
    fn txn(&self, ops: Vec<(Vec<u8>, Option<Vec<u8>>, bool)>) -> Call {
        let guard = self.0.clone();
        let op = |(key, value, reads)| match value {
            Some(value) => TxnOp::Put { key, value },
            None if reads => TxnOp::Get { key },
            None => TxnOp::Delete { key },
        };
        let ops = ops.into_iter().map(op).collect();
        Call::new(move |sink| guard.core.txn(ops, None, sink))
    }

    fn lost(&self) -> Call {
        let guard = self.0.clone();
        Call::new(move |sink| guard.core.ended(sink))
    }

    fn is_forked(&self) -> bool {
        self.0.core.loss_reason() == Some(LostReason::Forked)
    }

    /// Notes that the user has it. An attribute, because setting one is the one step after which Python looks for no signals.
    #[setter]
    fn set_is_claimed(&self, is_claimed: bool) {
        self.0.is_claimed.store(is_claimed, Ordering::Release);
    }
}
