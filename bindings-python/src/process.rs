//! What concerns the whole process: its logs, its end, and what lives in it.

use std::time::Duration;

use leasehold_bridge::{live as counters, logs, logs::Level, shutdown};
use pyo3::prelude::*;

use crate::queue::{Queue, Taker};

/// Closes every client, for at most `limit_ms`. Returns whether all were closed in time.
#[pyfunction]
pub fn close_all(py: Python<'_>, limit_ms: u64) -> bool {
    py.detach(|| shutdown::close_all(Duration::from_millis(limit_ms)))
}

/// Sends log records of `level` (1 error to 5 trace) and worse to `queue`, where `handler` takes them.
#[pyfunction]
pub fn listen_to_logs(py: Python<'_>, level: u8, queue: &Queue, handler: Py<PyAny>) -> PyResult<()> {
    let level = Level::from_number(level.into()).unwrap_or(Level::Trace);
    queue.start(py, Taker::Handler(handler), |sink| logs::listen(level, sink))
}

/// Sends no more log records.
#[pyfunction]
pub fn stop_logs() {
    logs::stop();
}

/// How many clients, guards, operations and queues there are.
#[pyfunction]
pub fn live() -> (u64, u64, u64, u64) {
    let live = counters::count();
    (live.clients, live.guards, live.operations, live.queues)
}
