//! A completion queue, and who takes what comes out of it: drained by an event loop that its file descriptor wakes, or by a
//! thread that blocks in it.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use leasehold_bridge::{self as bridge, Completion, Sink};
use pyo3::{
    exceptions::PyException,
    prelude::*,
    pyclass::{PyTraverseError, PyVisit},
};

use crate::{convert, errors, future::Future};

/// How many completions are handed out before a loop gets its turn.
const MOST: usize = 256;

/// A completion queue. Freed, it closes: results that nobody took are dropped, and guards among them are released.
#[pyclass(frozen, module = "leasehold._native")]
pub struct Queue {
    core: Arc<bridge::Queue>,
    next_tag: AtomicU64,
    /// By tag. Never locked while Python runs, not even to free something.
    takers: Mutex<HashMap<u64, Taker>>,
}

/// Who takes the results of an operation.
pub enum Taker {
    /// A task that awaits the only one.
    Future(Py<Future>),
    /// Called with a value, or the error in its place, and whether it is the last.
    Handler(Py<PyAny>),
}

impl Taker {
    fn clone_ref(&self, py: Python<'_>) -> Self {
        match self {
            Self::Future(future) => Self::Future(future.clone_ref(py)),
            Self::Handler(handler) => Self::Handler(handler.clone_ref(py)),
        }
    }
}

impl Queue {
    /// Starts an operation by `begin`, whose results `taker` takes.
    pub fn start<T>(&self, py: Python<'_>, taker: Taker, begin: impl FnOnce(Sink) -> bridge::Result<T>) -> PyResult<T> {
        let tag = self.next_tag.fetch_add(1, Ordering::Relaxed);
        // First: without a GIL, another thread may hand the result out before this one goes on.
        self.takers().insert(tag, taker);
        begin(self.core.sink(tag)).map_err(|error| {
            let never_told = self.takers().remove(&tag);
            drop(never_told);
            errors::raise(py, error)
        })
    }

    /// Hands out what has come. What a callback raises goes to `complain`, so that the others are served; only Ctrl-C and its
    /// like are raised, when all are served.
    fn hand_out(&self, py: Python<'_>, completions: Vec<Completion>, complain: &Bound<'_, PyAny>) -> PyResult<()> {
        // Several tasks are woken by way of the loop: what one does must not hold up the others.
        let at_once = completions.len() == 1;
        let mut raised = None;
        for completion in completions {
            let handed = self.hand(py, completion, at_once).or_else(|error| {
                let is_callbacks = error.is_instance_of::<PyException>(py);
                if is_callbacks { complain.call1((error.into_value(py),)).map(drop) } else { Err(error) }
            });
            if let Err(error) = handed
                && let Some(before) = raised.replace(error)
            {
                before.write_unraisable(py, None);
            }
        }
        raised.map_or(Ok(()), Err)
    }

    fn hand(&self, py: Python<'_>, completion: Completion, at_once: bool) -> PyResult<()> {
        let Completion { tag, is_last, result } = completion;
        match self.taker(py, tag, is_last) {
            Some(Taker::Future(future)) => Future::complete(future.bind(py), result, at_once),
            Some(Taker::Handler(handler)) => {
                let (value, error) = match convert::result(py, result) {
                    Ok(value) => (Some(value), None),
                    Err(error) => (None, Some(error.into_value(py))),
                };
                handler.call1(py, (value, error, is_last)).map(drop)
            }
            None => Ok(()),
        }
    }

    fn taker(&self, py: Python<'_>, tag: u64, is_last: bool) -> Option<Taker> {
        let mut takers = self.takers();
        if is_last { takers.remove(&tag) } else { takers.get(&tag).map(|taker| taker.clone_ref(py)) }
    }

    fn takers(&self) -> MutexGuard<'_, HashMap<u64, Taker>> {
        self.takers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        // Operations that are under way share it; they must not fill it for nobody.
        self.core.close();
    }
}

#[pymethods]
impl Queue {
    /// A queue for a loop if it `has_fd`, for a thread that blocks otherwise.
    #[new]
    fn new(py: Python<'_>, has_fd: bool) -> PyResult<Self> {
        let core = if has_fd { bridge::Queue::with_fd() } else { Ok(bridge::Queue::new()) };
        let core = core.map_err(|error| errors::raise(py, error))?;
        Ok(Self { core, next_tag: AtomicU64::new(1), takers: Mutex::default() })
    }

    /// Readable while there is something to drain; closed with the queue.
    #[getter]
    fn fd(&self) -> Option<i32> {
        self.core.fd()
    }

    /// Hands out what is there. `complain` hears of callbacks that failed.
    fn drain(&self, py: Python<'_>, complain: &Bound<'_, PyAny>) -> PyResult<()> {
        self.hand_out(py, self.core.drain(MOST), complain)
    }

    /// Hands out what is there, or comes within `limit_ms`; false when the queue is closed.
    fn take(&self, py: Python<'_>, limit_ms: u64, complain: &Bound<'_, PyAny>) -> PyResult<bool> {
        match py.detach(|| self.core.take(MOST, Duration::from_millis(limit_ms))) {
            Some(completions) => self.hand_out(py, completions, complain).map(|()| true),
            None => Ok(false),
        }
    }

    fn close(&self) {
        self.core.close();
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        // Locked, it is in use, and what is not visited is kept.
        let Ok(takers) = self.takers.try_lock() else { return Ok(()) };
        takers.values().try_for_each(|taker| match taker {
            Taker::Future(future) => visit.call(future),
            Taker::Handler(handler) => visit.call(handler),
        })
    }

    fn __clear__(&self) {
        // Freed after the lock.
        let _takers = std::mem::take(&mut *self.takers());
    }
}
