//! From errors to exceptions. The classes are the package's: one function of it makes them all.

use leasehold_bridge::{self as bridge, Error};
use pyo3::{exceptions::PyBaseException, prelude::*, sync::PyOnceLock};

/// The exception for an error; or the one that came up while making it.
pub fn raise(py: Python<'_>, error: Error) -> PyErr {
    exception(py, &error).map_or_else(|raised| raised, PyErr::from_value)
}

/// The exception of a scope inside a scope of the same name.
#[pyfunction]
pub fn would_deadlock(py: Python<'_>, name: &str) -> PyResult<Py<PyBaseException>> {
    Ok(raise(py, bridge::would_deadlock(name)).into_value(py))
}

fn exception<'py>(py: Python<'py>, error: &Error) -> PyResult<Bound<'py, PyAny>> {
    static MAKE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let make = MAKE.import(py, "leasehold._errors", "from_native")?;
    make.call1((error.code().number(), error.message(), error.reason().map(|reason| reason.number())))
}
