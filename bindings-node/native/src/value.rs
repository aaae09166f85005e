//! What operations bring, as values of JavaScript.

use std::{ptr, rc::Rc};

use leasehold_bridge::{
    Claim, Completion, Contender, Error, Leader, Observed, Outcome, SessionState, completion::session_state,
    logs::LogRecord,
};
use napi::{
    bindgen_prelude::{BigInt, Buffer, JsValuesTupleIntoVec, ToNapiValue},
    sys,
};
use napi_derive::napi;

use crate::{environment::Shared, guard::GuardHandle};

/// The tag of what no operation brings: the name of a lock whose guard was collected while it held.
const FORGOTTEN: f64 = 0.0;

/// What operations of an environment brought, as the parameters of a function: see [`crate::environment::Environment::new`].
/// Nothing if the environment is gone.
pub struct Completions(pub(crate) Option<Rc<Shared>>);

/// An error of the core.
#[napi(object, object_from_js = false)]
pub struct Failure {
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
    pub shared: bool,
    pub permits: Option<u32>,
    pub limit: Option<u32>,
    pub is_holder: bool,
    pub foreign: bool,
}

/// Who leads an election, or nobody.
#[napi(object, object_from_js = false)]
pub struct Seen {
    pub leader: Option<Leading>,
    pub is_after_gap: bool,
}

/// Who leads an election.
#[napi(object, object_from_js = false)]
pub struct Leading {
    pub key: String,
    pub token: BigInt,
    #[napi(ts_type = "Buffer")]
    pub value: Buffer,
    pub revision: BigInt,
}

/// The state of a session.
#[napi(object, object_from_js = false)]
pub struct State {
    pub state: &'static str,
    pub reason: Option<&'static str>,
}

/// A line for the log. Levels go from 1 (error) to 5 (trace).
#[napi(object, object_from_js = false)]
pub struct LogLine {
    pub level: u8,
    pub target: &'static str,
    pub message: String,
}

/// What a guarded transaction did.
#[napi(object, object_from_js = false)]
pub struct Written {
    pub revision: BigInt,
    pub deleted: i64,
    #[napi(ts_type = "(Buffer | null)[]")]
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
    Leader(Seen),
    Text(String),
    State(State),
    Log(LogLine),
}

impl JsValuesTupleIntoVec for Completions {
    fn into_vec(self, env: sys::napi_env) -> napi::Result<Vec<sys::napi_value>> {
        let Some(shared) = self.0 else { return Ok(Vec::new()) };
        let mut flat = Vec::new();
        for (tag, Completion { is_last, result, .. }) in shared.drain() {
            let (failure, value) = match result {
                Ok(Outcome::Guard(guard)) => (None, Value::Guard(GuardHandle::new(guard, shared.clone()))),
                Ok(outcome) => (None, Value::from(outcome)),
                Err(error) => (Some(Failure::from(error)), Value::Nothing),
            };
            // SAFETY: whoever calls a function of JavaScript is on the thread of its environment, which `env` is.
            unsafe {
                flat.push(f64::to_napi_value(env, tag)?);
                flat.push(bool::to_napi_value(env, is_last)?);
                flat.push(Option::to_napi_value(env, failure)?);
                flat.push(Value::to_napi_value(env, value)?);
            }
        }
        for name in shared.forgotten() {
            // SAFETY: as above.
            unsafe {
                flat.push(f64::to_napi_value(env, FORGOTTEN)?);
                flat.push(bool::to_napi_value(env, false)?);
                flat.push(Option::<Failure>::to_napi_value(env, None)?);
                flat.push(String::to_napi_value(env, name)?);
            }
        }
        Ok(flat)
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
            Outcome::Leader(leader) => Self::Leader(Seen { leader: leader.map(Leading::from), is_after_gap: false }),
            Outcome::Observed(Observed { leader, is_after_gap, .. }) => {
                Self::Leader(Seen { leader: leader.map(Leading::from), is_after_gap })
            }
            Outcome::Lost(reason) => Self::Text(reason.name().to_owned()),
            Outcome::State(state) => Self::State(state.into()),
            Outcome::Log(record) => Self::Log(record.into()),
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
                Self::Leader(seen) => Seen::to_napi_value(env, seen),
                Self::Text(text) => String::to_napi_value(env, text),
                Self::State(state) => State::to_napi_value(env, state),
                Self::Log(line) => LogLine::to_napi_value(env, line),
            }
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self {
            code: error.code().name(),
            message: error.message().to_owned(),
            reason: error.reason().map(|reason| reason.name()),
        }
    }
}

impl From<Leader> for Leading {
    fn from(leader: Leader) -> Self {
        let Leader { key, token, value, revision, .. } = leader;
        Self { key, token: token.into(), value: value.into(), revision: revision.into() }
    }
}

impl From<Contender> for QueueEntry {
    fn from(contender: Contender) -> Self {
        let (permits, limit) = match contender.claim {
            Claim::Permits { permits, limit } => (Some(permits), Some(limit)),
            _ => (None, None),
        };
        Self {
            key: contender.key,
            token: contender.token.into(),
            lease: contender.lease,
            identity: contender.identity,
            host: contender.host,
            pid: contender.pid,
            since: contender.since,
            version: contender.version,
            shared: contender.claim == Claim::Shared,
            permits,
            limit,
            is_holder: contender.is_holder,
            foreign: contender.foreign,
        }
    }
}

impl From<SessionState> for State {
    fn from(state: SessionState) -> Self {
        let (state, reason) = session_state(state);
        Self { state, reason: reason.map(|reason| reason.name()) }
    }
}

impl From<LogRecord> for LogLine {
    fn from(mut record: LogRecord) -> Self {
        Self { level: record.level as u8, target: record.target, message: std::mem::take(&mut record.message) }
    }
}
