//! From results of operations to Python values. The package makes its own classes of the tuples.

use leasehold_bridge::{Code, Contender, Error, Outcome, Result, completion::session_state};
use pyo3::{
    IntoPyObjectExt,
    prelude::*,
    types::{PyBytes, PyTuple},
};

use crate::{errors, guard::Guard};

pub fn result(py: Python<'_>, result: Result<Outcome>) -> PyResult<Py<PyAny>> {
    value(py, result.map_err(|error| errors::raise(py, error))?)
}

fn value(py: Python<'_>, outcome: Outcome) -> PyResult<Py<PyAny>> {
    match outcome {
        Outcome::Done | Outcome::Released => Ok(py.None()),
        Outcome::Guard(guard) => Guard::new(guard).into_py_any(py),
        Outcome::Flag(flag) => flag.into_py_any(py),
        Outcome::Revision(revision) => revision.into_py_any(py),
        Outcome::Committed(done) => {
            let values: Vec<_> = done.values.iter().map(|value| value.as_ref().map(|v| PyBytes::new(py, v))).collect();
            (done.revision, done.deleted, PyTuple::new(py, values)?).into_py_any(py)
        }
        Outcome::Contenders(contenders) => {
            let contenders = contenders.into_iter().map(contender).collect::<Vec<_>>();
            contenders.into_py_any(py)
        }
        Outcome::Lost(reason) => reason.number().into_py_any(py),
        Outcome::State(state) => {
            let (name, reason) = session_state(state);
            (name, reason.map(|reason| reason.number())).into_py_any(py)
        }
        Outcome::Log(record) => (record.level as u8, record.target, record.message.as_str()).into_py_any(py),
        Outcome::Text(text) => text.into_py_any(py),
        other => {
            let message = format!("Python knows no {other:?}, please report it");
            Err(errors::raise(py, Error::new(Code::Internal, message)))
        }
    }
}

type ContenderFields =
    (String, i64, Option<String>, Option<String>, Option<String>, Option<u32>, Option<String>, Option<String>, bool);

fn contender(contender: Contender) -> ContenderFields {
    let Contender { key, token, lease, identity, host, pid, since, version, foreign, .. } = contender;
    (key, token, lease, identity, host, pid, since, version, foreign)
}
