//! A guard. Nobody may have taken it yet: dropped, it releases. One that the user has and forgot is abandoned instead.

use std::{
    mem::ManuallyDrop,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use leasehold_bridge::{self as bridge, guard::TxnOp};
use pyo3::prelude::*;

use crate::call::Call;

/// A guard. Shared with the calls that use it, which may outlast the object.
#[pyclass(frozen, module = "leasehold._native")]
pub struct Guard(Arc<Owned>);

struct Owned {
    core: ManuallyDrop<bridge::Guard>,
    is_abandoned: AtomicBool,
}

impl Drop for Owned {
    fn drop(&mut self) {
        // SAFETY: it is taken once, here, and nobody sees `self` any more.
        let core = unsafe { ManuallyDrop::take(&mut self.core) };
        if self.is_abandoned.load(Ordering::Acquire) {
            core.abandon();
        }
    }
}

impl Guard {
    pub fn new(core: bridge::Guard) -> Self {
        Self(Arc::new(Owned { core: ManuallyDrop::new(core), is_abandoned: AtomicBool::new(false) }))
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
        let guard = self.0.clone();
        Call::new(move |sink| guard.core.release(None, sink))
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
        Call::new(move |sink| guard.core.lost(sink))
    }

    fn abandon(&self) {
        self.0.is_abandoned.store(true, Ordering::Release);
    }
}
