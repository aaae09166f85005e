//! An operation that is about to start: the same one blocks a thread or completes into a queue.

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

use leasehold_bridge::{self as bridge, Code, Error, OpId, Result, Sink, Waiter, operation, panics};
use pyo3::{prelude::*, sync::PyOnceLock};

use crate::{
    convert, errors,
    future::Future,
    queue::{Queue, Taker},
};

/// How often the main thread, blocked, looks for signals: Ctrl-C is answered within two of these.
const SLICE: Duration = Duration::from_millis(50);

type Start = Box<dyn FnOnce(Sink) -> OpId + Send>;

/// An operation that is started once, by `block` or `start`.
#[pyclass(frozen, module = "leasehold._native")]
pub struct Call(Mutex<Option<Start>>);

impl Call {
    pub fn new(start: impl FnOnce(Sink) -> OpId + Send + 'static) -> Self {
        Self(Mutex::new(Some(Box::new(start))))
    }

    fn begin(&self, sink: Sink) -> Result<OpId> {
        let start = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        let start = start.ok_or_else(|| Error::new(Code::Internal, "a call was started twice, please report it"))?;
        panics::catch(|| Ok(start(sink)))
    }
}

#[pymethods]
impl Call {
    /// Starts it and waits for its result without the GIL. A signal whose handler raises cancels it: an acquire withdraws its
    /// key, and a lock that was won at that moment is released, because nobody takes its guard.
    fn block(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        // Other threads handle no signals, so they need not take the GIL to look for them.
        let slice = if is_main_thread(py)? { SLICE } else { Duration::MAX };
        let waiter = Waiter::new();
        let id = self.begin(waiter.sink()).map_err(|error| errors::raise(py, error))?;
        loop {
            if let Some(result) = py.detach(|| waiter.wait_for(slice)) {
                return convert::result(py, result);
            }
            if let Err(raised) = py.check_signals() {
                operation::cancel(id);
                py.detach(|| drop(waiter.wait_for(SLICE)));
                return Err(raised);
            }
        }
    }

    /// Starts it; `handler` takes its results out of `queue`. Returns its id, for `cancel`.
    fn start(&self, py: Python<'_>, queue: &Queue, handler: Py<PyAny>) -> PyResult<u64> {
        queue.start(py, Taker::Handler(handler), |sink| self.begin(sink)).map(|id| id.0)
    }

    /// Starts it. What this returns is awaited in a task of `event_loop`, which drains `queue`.
    fn future(&self, py: Python<'_>, queue: &Queue, event_loop: Py<PyAny>) -> PyResult<Py<Future>> {
        let future = Py::new(py, Future::new(event_loop))?;
        let id = queue.start(py, Taker::Future(future.clone_ref(py)), |sink| self.begin(sink))?;
        future.get().set_operation(id);
        Ok(future)
    }
}

/// Whether this is the thread that handles signals.
fn is_main_thread(py: Python<'_>) -> PyResult<bool> {
    static MAIN: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    static IDENT: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let main = MAIN.import(py, "threading", "main_thread")?.call0()?.getattr("ident")?;
    IDENT.import(py, "_thread", "get_ident")?.call0()?.eq(main)
}

/// A way to cancel operations that were started with it, from any thread, before or after they were.
#[pyclass(frozen, module = "leasehold")]
pub struct Cancel(bridge::Cancel);

impl Cancel {
    pub fn token(&self) -> bridge::Cancel {
        self.0.clone()
    }
}

#[pymethods]
impl Cancel {
    #[new]
    fn new() -> Self {
        Self(bridge::Cancel::new())
    }

    /// Cancels everything that was or will be started with it: it raises `OperationCancelled`, unless it was done before.
    fn cancel(&self) {
        self.0.cancel();
    }

    /// Whether it was cancelled.
    #[getter]
    fn cancelled(&self) -> bool {
        self.0.is_cancelled()
    }
}

/// Cancels one operation. False if it is over, or was never started in this process.
#[pyfunction]
pub fn cancel(operation: u64) -> bool {
    operation::cancel(OpId(operation))
}
