//! A completion queue: drained by an event loop that its file descriptor wakes, or by a thread that blocks in it.

use std::{sync::Arc, time::Duration};

use leasehold_bridge::{self as bridge, Completion, Sink};
use pyo3::prelude::*;

use crate::{
    convert::{self, Arrival},
    errors,
};

/// A completion queue. Freed, it closes: results that nobody took are dropped, and guards among them are released.
#[pyclass(frozen, module = "leasehold._native")]
pub struct Queue(Arc<bridge::Queue>);

impl Queue {
    pub fn sink(&self, tag: u64) -> Sink {
        self.0.sink(tag)
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        // Operations that are under way share it; they must not fill it for nobody.
        self.0.close();
    }
}

#[pymethods]
impl Queue {
    /// A queue for a loop if it `has_fd`, for a thread that blocks otherwise.
    #[new]
    fn new(py: Python<'_>, has_fd: bool) -> PyResult<Self> {
        if !has_fd {
            return Ok(Self(bridge::Queue::new()));
        }
        bridge::Queue::with_fd().map(Self).map_err(|error| errors::raise(py, error))
    }

    /// Readable while there is something to drain; closed with the queue.
    #[getter]
    fn fd(&self) -> Option<i32> {
        self.0.fd()
    }

    /// What is there, at most `most`.
    fn drain(&self, py: Python<'_>, most: usize) -> PyResult<Vec<Arrival>> {
        arrivals(py, self.0.drain(most))
    }

    /// What is there, or comes within `limit_ms`; `None` when the queue is closed.
    fn take(&self, py: Python<'_>, most: usize, limit_ms: u64) -> PyResult<Option<Vec<Arrival>>> {
        let taken = py.detach(|| self.0.take(most, Duration::from_millis(limit_ms)));
        taken.map(|completions| arrivals(py, completions)).transpose()
    }

    fn close(&self) {
        self.0.close();
    }
}

fn arrivals(py: Python<'_>, completions: Vec<Completion>) -> PyResult<Vec<Arrival>> {
    completions.into_iter().map(|completion| convert::arrival(py, completion)).collect()
}
