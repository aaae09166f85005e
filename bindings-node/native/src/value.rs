//! What operations bring, as values of JavaScript.

use std::{ptr, rc::Rc};

use leasehold_bridge::{Completion, Contender, Error, Outcome, SessionState, logs::LogRecord};
use napi::{
    bindgen_prelude::{BigInt, Buffer, ToNapiValue},
    sys,
};
use napi_derive::napi;

use crate::{as_number, environment::Shared, guard::GuardHandle};

/// The result of an operation. Without a failure, `value` is what it brought.
pub(crate) struct Completed {
    pub(crate) tag: f64,
    pub(crate) is_last: bool,
    pub(crate) failure: Option<Failure>,
    pub(crate) value: Value,
}

/// An error of the core.
#[napi(object, object_from_js = false)]
pub struct Failure {
    pub number: i32,
    pub code: &'static str,
    pub message: String,
    pub reason: Option<&'static str>,
}

/// Somebody in a queue.
#[napi(object, object_from_js = false)]
pub struct QueueEntry {
    pub key: String,
    pub token: BigInt,
    pub lease: Option<String>,
    pub identity: Option<String>,
    pub host: Option<String>,
    pub pid: Option<u32>,
    pub since: Option<String>,
    pub version: Option<String>,
    pub foreign: bool,
}

/// The state of a session.
#[napi(object, object_from_js = false)]
pub struct State {
    pub state: &'static str,
    pub reason: Option<&'static str>,
}

/// A line for the log.
#[napi(object, object_from_js = false)]
pub struct Record {
    pub level: u8,
    pub target: &'static str,
    pub message: String,
}

/// What a guarded transaction did.
#[napi(object, object_from_js = false)]
pub struct Written {
    pub revision: BigInt,
    pub deleted: i64,
    pub values: Vec<Option<Buffer>>,
}

/// What an operation brought.
pub enum Value {
    Nothing,
    Guard(GuardHandle),
    Flag(bool),
    Revision(BigInt),
    Written(Written),
    Contenders(Vec<QueueEntry>),
    Text(String),
    State(State),
    Record(Record),
}

impl Completed {
    pub(crate) fn new(completion: Completion, shared: &Rc<Shared>) -> Self {
        let Completion { tag, is_last, result } = completion;
        let (failure, value) = match result {
            Ok(Outcome::Guard(guard)) => (None, Value::Guard(GuardHandle::new(guard, shared.clone()))),
            Ok(outcome) => (None, Value::from(outcome)),
            Err(error) => (Some(error.into()), Value::Nothing),
        };
        Self { tag: as_number(tag), is_last, failure, value }
    }
}

impl From<Outcome> for Value {
    fn from(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Flag(flag) => Self::Flag(flag),
            Outcome::Revision(revision) => Self::Revision(revision.into()),
            Outcome::Committed(committed) => Self::Written(Written {
                revision: committed.revision.into(),
                deleted: committed.deleted,
                values: committed.values.into_iter().map(|value| value.map(Buffer::from)).collect(),
            }),
            Outcome::Contenders(contenders) => Self::Contenders(contenders.into_iter().map(QueueEntry::from).collect()),
            Outcome::Lost(reason) => Self::Text(reason.name().to_owned()),
            Outcome::State(state) => Self::State(state.into()),
            Outcome::Log(record) => Self::Record(record.into()),
            Outcome::Text(text) => Self::Text(text),
            // `Done`, `Released`, a guard (that has its own way), and what other languages may be brought one day.
            _ => Self::Nothing,
        }
    }
}

impl ToNapiValue for Value {
    unsafe fn to_napi_value(env: sys::napi_env, value: Self) -> napi::Result<sys::napi_value> {
        // SAFETY: the same contract as ours: `env` is the current environment.
        unsafe {
            match value {
                Self::Nothing => {
                    let mut undefined = ptr::null_mut();
                    sys::napi_get_undefined(env, &raw mut undefined);
                    Ok(undefined)
                }
                Self::Guard(guard) => GuardHandle::to_napi_value(env, guard),
                Self::Flag(flag) => bool::to_napi_value(env, flag),
                Self::Revision(revision) => BigInt::to_napi_value(env, revision),
                Self::Written(written) => Written::to_napi_value(env, written),
                Self::Contenders(contenders) => Vec::to_napi_value(env, contenders),
                Self::Text(text) => String::to_napi_value(env, text),
                Self::State(state) => State::to_napi_value(env, state),
                Self::Record(record) => Record::to_napi_value(env, record),
            }
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let code = error.code();
        Self {
            number: code.number(),
            code: code.name(),
            message: error.message().to_owned(),
            reason: error.reason().map(|reason| reason.name()),
        }
    }
}

impl From<Contender> for QueueEntry {
    fn from(contender: Contender) -> Self {
        Self {
            key: contender.key,
            token: contender.token.into(),
            lease: contender.lease,
            identity: contender.identity,
            host: contender.host,
            pid: contender.pid,
            since: contender.since,
            version: contender.version,
            foreign: contender.foreign,
        }
    }
}

impl From<SessionState> for State {
    fn from(state: SessionState) -> Self {
        match state {
            SessionState::Suspect => Self { state: "suspect", reason: None },
            SessionState::Lost(reason) => Self { state: "lost", reason: Some(reason.name()) },
            // A state that this module does not know yet can be trusted, or it would be a loss.
            _ => Self { state: "ok", reason: None },
        }
    }
}

impl From<LogRecord> for Record {
    fn from(mut record: LogRecord) -> Self {
        Self { level: record.level as u8, target: record.target, message: std::mem::take(&mut record.message) }
    }
}
