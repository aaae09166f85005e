//! From results of operations to Python values. The package makes its own classes of the tuples.

use std::{borrow::Cow, fmt::Debug};

use leasehold_bridge::{
    Claim, Code, Contender, Error, Family, Leader, Metrics, Outcome, Result, Sample, Value, completion::session_state,
};
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
        Outcome::Leader(led) => led.map(leader).into_py_any(py),
        Outcome::Observed(seen) => (seen.leader.map(leader), seen.is_after_gap).into_py_any(py),
        Outcome::Lost(reason) => reason.number().into_py_any(py),
        Outcome::State(state) => {
            let (name, reason) = session_state(state);
            (name, reason.map(|reason| reason.number())).into_py_any(py)
        }
        Outcome::Log(record) => (record.level as u8, record.target, record.message.as_str()).into_py_any(py),
        Outcome::Text(text) => text.into_py_any(py),
        other => Err(unknown(py, &other)),
    }
}

fn unknown(py: Python<'_>, value: &impl Debug) -> PyErr {
    errors::raise(py, Error::new(Code::Internal, format!("Python knows no {value:?}, please report it")))
}

type About = (Option<String>, Option<String>, Option<u32>, Option<String>, Option<String>);

/// The key, the token and the lease; what it says about itself; whether it is shared, or its permits and their limit; whether
/// it holds; whether it is foreign.
type ContenderFields = (String, i64, Option<String>, About, bool, Option<(u32, u32)>, bool, bool);

fn contender(contender: Contender) -> ContenderFields {
    let Contender { key, token, lease, identity, host, pid, since, version, claim, is_holder, foreign, .. } = contender;
    let permits = match claim {
        Claim::Permits { permits, limit } => Some((permits, limit)),
        Claim::Exclusive | Claim::Shared => None,
    };
    let about = (identity, host, pid, since, version);
    (key, token, lease, about, claim == Claim::Shared, permits, is_holder, foreign)
}

/// Its key, its token, what it proclaims, and since which revision.
fn leader(leader: Leader) -> (String, i64, Cow<'static, [u8]>, i64) {
    (leader.key, leader.token, leader.value.into(), leader.revision)
}

/// For each thing that is measured its name, its help, its unit, its kind, and its samples: labels, and a number, or the buckets
/// of a histogram with their sum.
pub fn metrics(py: Python<'_>, metrics: Metrics) -> PyResult<Py<PyAny>> {
    let sample = |sample: Sample| {
        let value = match sample.value {
            Value::Counter(count) => count.into_py_any(py),
            Value::Gauge(level) => level.into_py_any(py),
            Value::Histogram { buckets, sum } => (buckets, sum).into_py_any(py),
            other => Err(unknown(py, &other)),
        };
        Ok((sample.labels, value?))
    };
    let family = |family: Family| {
        let kind = family.kind();
        let samples = family.samples.into_iter().map(sample).collect::<PyResult<Vec<_>>>()?;
        Ok((family.name, family.help, family.unit, kind, samples))
    };
    metrics.families.into_iter().map(family).collect::<PyResult<Vec<_>>>()?.into_py_any(py)
}
