//! What a task of asyncio awaits: an operation that was started, with the methods of asyncio's own futures.
//!
//! One of those wakes its task by way of the loop's list of callbacks, a turn of the loop later. This one can do so at once, in
//! the callback that found the result: no task runs there.

use std::sync::{
    Mutex, MutexGuard, PoisonError,
    atomic::{AtomicBool, AtomicU64, Ordering},
};

use leasehold_bridge::{self as bridge, OpId, Outcome, operation};
use pyo3::{
    exceptions::{
        PyBaseException, PyRuntimeError, PyStopIteration,
        asyncio::{CancelledError, InvalidStateError},
    },
    prelude::*,
    pyclass::{PyTraverseError, PyVisit},
    sync::PyOnceLock,
    types::{PyDict, PyTraceback},
};

use crate::convert;

/// An operation that a task awaits. Whoever stops awaiting it cancels it.
#[pyclass(frozen, module = "leasehold._native")]
pub struct Future {
    /// Its number; known once it has started, which may be after it is over.
    operation: AtomicU64,
    event_loop: Py<PyAny>,
    /// Asyncio's mark on a future that a coroutine has just yielded, until its task has taken note.
    is_blocking: AtomicBool,
    state: Mutex<State>,
}

/// Never locked while Python runs, not even to free something.
#[derive(Default)]
struct State {
    end: End,
    callbacks: Vec<Callback>,
}

#[derive(Default)]
enum End {
    #[default]
    Pending,
    Value(Py<PyAny>),
    Error(Py<PyBaseException>),
    /// With the message, if there is one.
    Cancelled(Option<Py<PyAny>>),
    /// Whoever awaited it has the value, or awaits it no more.
    Gone,
}

impl End {
    fn clone_ref(&self, py: Python<'_>) -> Self {
        match self {
            Self::Pending => Self::Pending,
            Self::Value(value) => Self::Value(value.clone_ref(py)),
            Self::Error(error) => Self::Error(error.clone_ref(py)),
            Self::Cancelled(message) => Self::Cancelled(message.as_ref().map(|message| message.clone_ref(py))),
            Self::Gone => Self::Gone,
        }
    }

    /// The value or the error that came of it; raises what asyncio's futures raise if neither did.
    fn into_result(self) -> PyResult<Result<Py<PyAny>, Py<PyBaseException>>> {
        match self {
            Self::Value(value) => Ok(Ok(value)),
            Self::Error(error) => Ok(Err(error)),
            Self::Cancelled(None) => Err(CancelledError::new_err(())),
            Self::Cancelled(Some(message)) => Err(CancelledError::new_err((message,))),
            Self::Pending | Self::Gone => Err(InvalidStateError::new_err("there is no result")),
        }
    }
}

/// What to call with the future once it is done, and in which context.
struct Callback {
    function: Py<PyAny>,
    context: Py<PyAny>,
}

impl Future {
    /// Of an operation that is about to start; see [`Self::set_operation`].
    pub fn new(event_loop: Py<PyAny>) -> Self {
        let (operation, is_blocking) = (AtomicU64::new(0), AtomicBool::new(false));
        Self { operation, event_loop, is_blocking, state: Mutex::default() }
    }

    /// Notes which operation it is, before anybody has the future.
    pub fn set_operation(&self, id: OpId) {
        self.operation.store(id.0, Ordering::Release);
    }

    fn id(&self) -> OpId {
        OpId(self.operation.load(Ordering::Acquire))
    }

    /// Ends it. Its task goes on before this returns if that may be `at_once`: what it raises then is Ctrl-C or the like.
    pub fn complete(this: &Bound<'_, Self>, result: bridge::Result<Outcome>, at_once: bool) -> PyResult<()> {
        let py = this.py();
        let end = match convert::result(py, result) {
            Ok(value) => End::Value(value),
            Err(error) => End::Error(error.into_value(py)),
        };
        // Nothing, if it was cancelled: a guard that came nevertheless has no taker, which releases it.
        let callbacks = this.get().end(end).unwrap_or_default();
        match &*callbacks {
            [callback] if at_once => {
                callback.context.bind(py).call_method1("run", (&callback.function, this))?;
                Ok(())
            }
            _ => callbacks.into_iter().try_for_each(|callback| Self::call_soon(this, callback)),
        }
    }

    fn call_soon(this: &Bound<'_, Self>, callback: Callback) -> PyResult<()> {
        let options = PyDict::new(this.py());
        options.set_item("context", callback.context)?;
        this.get().event_loop.bind(this.py()).call_method("call_soon", (callback.function, this), Some(&options))?;
        Ok(())
    }

    /// Ends it so, and tells who is to be called; `None` if it had ended before.
    fn end(&self, end: End) -> Option<Vec<Callback>> {
        let mut state = self.state();
        if !matches!(state.end, End::Pending) {
            return None;
        }
        state.end = end;
        Some(std::mem::take(&mut state.callbacks))
    }

    /// Nobody awaits it any more.
    fn abandon(&self, py: Python<'_>) {
        operation::cancel(self.id());
        drop(self.take(py));
    }

    /// How it ended. It keeps no value: whether a guard is still needed is up to whoever has it.
    fn take(&self, py: Python<'_>) -> End {
        let mut state = self.state();
        match &state.end {
            End::Pending | End::Value(_) => std::mem::replace(&mut state.end, End::Gone),
            other => other.clone_ref(py),
        }
    }

    /// What it brought.
    fn ended(&self, py: Python<'_>) -> PyResult<Result<Py<PyAny>, Py<PyBaseException>>> {
        let end = self.state().end.clone_ref(py);
        end.into_result()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[pymethods]
impl Future {
    #[getter(_asyncio_future_blocking)]
    fn is_blocking(&self) -> bool {
        self.is_blocking.load(Ordering::Relaxed)
    }

    #[setter(_asyncio_future_blocking)]
    fn set_is_blocking(&self, is_blocking: bool) {
        self.is_blocking.store(is_blocking, Ordering::Relaxed);
    }

    fn get_loop(&self, py: Python<'_>) -> Py<PyAny> {
        self.event_loop.clone_ref(py)
    }

    fn done(&self) -> bool {
        !matches!(self.state().end, End::Pending)
    }

    fn cancelled(&self) -> bool {
        matches!(self.state().end, End::Cancelled(_))
    }

    fn result(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.ended(py)?.map_err(|error| raise(py, error))
    }

    fn exception(&self, py: Python<'_>) -> PyResult<Option<Py<PyBaseException>>> {
        Ok(self.ended(py)?.err())
    }

    #[pyo3(signature = (function, *, context = None))]
    fn add_done_callback(this: &Bound<'_, Self>, function: Py<PyAny>, context: Option<Py<PyAny>>) -> PyResult<()> {
        static COPY: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        let py = this.py();
        let context = match context {
            Some(context) => context,
            None => COPY.import(py, "contextvars", "copy_context")?.call0()?.unbind(),
        };
        let callback = Callback { function, context };
        let mut state = this.get().state();
        if matches!(state.end, End::Pending) {
            state.callbacks.push(callback);
            return Ok(());
        }
        drop(state);
        Self::call_soon(this, callback)
    }

    fn remove_done_callback(&self, py: Python<'_>, function: &Bound<'_, PyAny>) -> PyResult<usize> {
        // Comparing runs Python.
        let functions: Vec<_> = self.state().callbacks.iter().map(|callback| callback.function.clone_ref(py)).collect();
        let mut removed = Vec::new();
        for other in functions {
            if function.eq(&other)? {
                let mut state = self.state();
                let place = state.callbacks.iter().position(|callback| callback.function.is(&other));
                removed.extend(place.map(|place| state.callbacks.remove(place)));
            }
        }
        Ok(removed.len())
    }

    /// Cancels the operation, and does not wait for it.
    #[pyo3(signature = (msg = None))]
    fn cancel(this: &Bound<'_, Self>, msg: Option<Py<PyAny>>) -> PyResult<bool> {
        let Some(callbacks) = this.get().end(End::Cancelled(msg)) else { return Ok(false) };
        operation::cancel(this.get().id());
        callbacks.into_iter().try_for_each(|callback| Self::call_soon(this, callback))?;
        Ok(true)
    }

    fn __await__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this
    }

    fn __iter__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this
    }

    /// Itself, for the task to wait for; when it is done, what it brought.
    fn __next__(this: &Bound<'_, Self>) -> PyResult<Py<Self>> {
        let future = this.get();
        let state = future.state();
        if matches!(state.end, End::Pending) {
            if future.is_blocking.swap(true, Ordering::Relaxed) {
                drop(state);
                future.abandon(this.py());
                return Err(PyRuntimeError::new_err("it is awaited by something that does not know asyncio's futures"));
            }
            return Ok(this.clone().unbind());
        }
        drop(state);
        match future.take(this.py()).into_result()? {
            Ok(value) => Err(PyStopIteration::new_err((value,))),
            Err(error) => Err(raise(this.py(), error)),
        }
    }

    /// The task is cancelled, or told of the error.
    #[pyo3(signature = (raised, value = None, traceback = None))]
    fn throw(
        &self,
        raised: Bound<'_, PyAny>,
        value: Option<Bound<'_, PyAny>>,
        traceback: Option<Bound<'_, PyTraceback>>,
    ) -> PyResult<()> {
        let py = raised.py();
        self.abandon(py);
        let error = PyErr::from_value(match value {
            None => raised,
            Some(value) if value.is_instance_of::<PyBaseException>() => value,
            Some(value) => raised.call1((value,))?,
        });
        if traceback.is_some() {
            error.set_traceback(py, traceback);
        }
        Err(error)
    }

    /// The coroutine that awaits it goes away.
    fn close(&self, py: Python<'_>) {
        self.abandon(py);
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.event_loop)?;
        // Locked, it is in use, and what is not visited is kept.
        let Ok(state) = self.state.try_lock() else { return Ok(()) };
        match &state.end {
            End::Value(value) | End::Cancelled(Some(value)) => visit.call(value)?,
            End::Error(error) => visit.call(error)?,
            End::Pending | End::Cancelled(None) | End::Gone => {}
        }
        state.callbacks.iter().try_for_each(|callback| {
            visit.call(&callback.function)?;
            visit.call(&callback.context)
        })
    }

    fn __clear__(&self) {
        // Freed after the lock.
        let _state = std::mem::take(&mut *self.state());
    }
}

fn raise(py: Python<'_>, error: Py<PyBaseException>) -> PyErr {
    PyErr::from_value(error.into_bound(py).into_any())
}
