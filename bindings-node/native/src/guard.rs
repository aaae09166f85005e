//! The guard: what it knows, and what it can do while it holds.

use std::rc::Rc;

use leasehold_bridge::{Guard, client::milliseconds, guard::TxnOp};
use napi::bindgen_prelude::{BigInt, Uint8Array};
use napi_derive::napi;

use crate::{
    enter,
    environment::{Leaving, Shared},
    number,
};

/// A guard. Every operation completes under the tag that is its first parameter, and returns what cancels it.
#[napi]
pub struct GuardHandle {
    /// Always there, until it is collected.
    guard: Option<Guard>,
    shared: Rc<Shared>,
}

impl GuardHandle {
    pub(crate) fn new(guard: Guard, shared: Rc<Shared>) -> Self {
        Self { guard: Some(guard), shared }
    }

    fn with<T>(&self, act: impl FnOnce(&Guard) -> T) -> leasehold_bridge::Result<T> {
        self.guard.as_ref().map(act).ok_or_else(|| leasehold_bridge::client::stale("guard"))
    }
}

/// A step of a guarded transaction: a put if it has a value.
#[napi(object, object_to_js = false)]
pub struct Step {
    pub kind: String,
    pub key: Uint8Array,
    pub value: Option<Uint8Array>,
}

impl From<Step> for TxnOp {
    fn from(step: Step) -> Self {
        let key = step.key.to_vec();
        match (step.kind.as_str(), step.value) {
            (_, Some(value)) => Self::Put { key, value: value.to_vec() },
            ("delete", None) => Self::Delete { key },
            _ => Self::Get { key },
        }
    }
}

#[napi]
impl GuardHandle {
    /// The name of the lock.
    #[napi(getter)]
    pub fn name(&self) -> Result<String, napi::Error<&'static str>> {
        enter(|| self.with(|guard| guard.name().to_owned()))
    }

    /// The fencing token.
    #[napi(getter)]
    pub fn token(&self) -> Result<BigInt, napi::Error<&'static str>> {
        enter(|| self.with(|guard| BigInt::from(guard.token())))
    }

    /// Tells holds apart that share a token.
    #[napi(getter)]
    pub fn sequence(&self) -> Result<BigInt, napi::Error<&'static str>> {
        enter(|| self.with(|guard| BigInt::from(guard.sequence())))
    }

    /// The key in etcd.
    #[napi(getter)]
    pub fn key(&self) -> Result<String, napi::Error<&'static str>> {
        enter(|| self.with(Guard::key))
    }

    /// The lease, in lower-case hexadecimal.
    #[napi(getter)]
    pub fn lease(&self) -> Result<String, napi::Error<&'static str>> {
        enter(|| self.with(Guard::lease))
    }

    /// Whether the lock is certainly still held.
    #[napi(getter)]
    pub fn held(&self) -> Result<bool, napi::Error<&'static str>> {
        enter(|| self.with(Guard::is_held))
    }

    /// For how many milliseconds more, if no renewal succeeds from now on.
    #[napi(getter)]
    pub fn remaining(&self) -> Result<f64, napi::Error<&'static str>> {
        enter(|| self.with(|guard| (guard.remaining().as_secs_f64() * 1000.0).floor()))
    }

    /// Why the lock is not held any more; nothing while it is, and if it was released in time.
    #[napi(getter)]
    pub fn lost_reason(&self) -> Result<Option<&'static str>, napi::Error<&'static str>> {
        enter(|| self.with(|guard| guard.loss_reason().map(|reason| reason.name())))
    }

    /// Brings nothing.
    #[napi]
    pub fn release(&self, tag: f64) -> Result<f64, napi::Error<&'static str>> {
        enter(|| self.with(|guard| number(guard.release(None, self.shared.sink(tag)))))
    }

    /// Brings nothing.
    #[napi]
    pub fn extend(&self, tag: f64, span: i64) -> Result<f64, napi::Error<&'static str>> {
        // Below 0 is refused like 0: with a message that says what is possible.
        let span = milliseconds(span).unwrap_or_default();
        enter(|| self.with(|guard| number(guard.extend(span, None, self.shared.sink(tag)))))
    }

    /// Brings the revision of the write.
    #[napi]
    pub fn put(&self, tag: f64, key: Uint8Array, value: Uint8Array) -> Result<f64, napi::Error<&'static str>> {
        let (key, value) = (key.to_vec(), value.to_vec());
        enter(|| self.with(|guard| number(guard.put(key, value, None, self.shared.sink(tag)))))
    }

    /// Brings whether there was such a key.
    #[napi]
    pub fn delete(&self, tag: f64, key: Uint8Array) -> Result<f64, napi::Error<&'static str>> {
        let key = key.to_vec();
        enter(|| self.with(|guard| number(guard.delete(key, None, self.shared.sink(tag)))))
    }

    /// Brings what the transaction did.
    #[napi]
    pub fn txn(&self, tag: f64, steps: Vec<Step>) -> Result<f64, napi::Error<&'static str>> {
        let steps = steps.into_iter().map(TxnOp::from).collect();
        enter(|| self.with(|guard| number(guard.txn(steps, None, self.shared.sink(tag)))))
    }

    /// Brings the reason of a loss, or nothing if it is released before.
    #[napi]
    pub fn lost(&self, tag: f64) -> Result<f64, napi::Error<&'static str>> {
        enter(|| self.with(|guard| number(guard.lost(self.shared.sink(tag)))))
    }
}

impl Drop for GuardHandle {
    /// A guard that was released or lost is done with. One that still holds and was forgotten stays held, and renewed, until
    /// its client is closed: whether the work that it protects is over, nobody knows.
    fn drop(&mut self) {
        let Some(guard) = self.guard.take() else { return };
        if !guard.is_held() {
            return;
        }
        match self.shared.leaving() {
            Leaving::WorkerEnds => return,
            Leaving::ProcessEnds => {}
            Leaving::Forgotten => tracing::warn!(
                name = guard.name(),
                "a guard was garbage collected while it held its lock, which stays locked until its client is closed; \
                 release guards in `finally`, or use withLock"
            ),
        }
        guard.abandon();
    }
}
