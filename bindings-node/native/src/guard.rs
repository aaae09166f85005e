//! The guard: what it knows, and what it can do while it holds.

use std::rc::Rc;

use leasehold_bridge::{Guard, client::milliseconds, guard::TxnOp};
use napi::{
    Env,
    bindgen_prelude::{BigInt, ObjectFinalize, Uint8Array},
};
use napi_derive::napi;

use crate::{
    Result, as_number, enter,
    environment::{Leaving, Shared},
};

/// A guard. Every operation completes under the tag that is its first parameter, and returns what cancels it.
#[napi(custom_finalize)]
pub struct GuardHandle {
    guard: Guard,
    shared: Rc<Shared>,
}

impl GuardHandle {
    pub(crate) fn new(guard: Guard, shared: Rc<Shared>) -> Self {
        Self { guard, shared }
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
    pub fn name(&self) -> Result<String> {
        enter(|| Ok(self.guard.name().to_owned()))
    }

    /// The fencing token.
    #[napi(getter)]
    pub fn token(&self) -> Result<BigInt> {
        enter(|| Ok(BigInt::from(self.guard.token())))
    }

    /// Tells holds apart that share a token.
    #[napi(getter)]
    pub fn sequence(&self) -> Result<BigInt> {
        enter(|| Ok(BigInt::from(self.guard.sequence())))
    }

    /// The key in etcd.
    #[napi(getter)]
    pub fn key(&self) -> Result<String> {
        enter(|| Ok(self.guard.key()))
    }

    /// The lease, in lower-case hexadecimal.
    #[napi(getter)]
    pub fn lease(&self) -> Result<String> {
        enter(|| Ok(self.guard.lease()))
    }

    /// Whether the lock is certainly still held.
    #[napi(getter)]
    pub fn held(&self) -> Result<bool> {
        enter(|| Ok(self.guard.is_held()))
    }

    /// For how many milliseconds more, if no renewal succeeds from now on.
    #[napi(getter)]
    pub fn remaining(&self) -> Result<f64> {
        enter(|| Ok((self.guard.remaining().as_secs_f64() * 1000.0).floor()))
    }

    /// Why the lock is not held any more; nothing while it is, and if it was released in time.
    #[napi(getter)]
    pub fn lost_reason(&self) -> Result<Option<&'static str>> {
        enter(|| Ok(self.guard.loss_reason().map(|reason| reason.name())))
    }

    /// Brings nothing.
    #[napi]
    pub fn release(&self, tag: f64) -> Result<f64> {
        self.shared.start(tag, |sink| self.guard.release(None, sink))
    }

    /// Brings nothing.
    #[napi]
    pub fn extend(&self, tag: f64, span: i64) -> Result<f64> {
        // Below 0 is refused like 0: with a message that says what is possible.
        let span = milliseconds(span).unwrap_or_default();
        self.shared.start(tag, |sink| self.guard.extend(span, None, sink))
    }

    /// Brings the revision of the write.
    #[napi]
    pub fn put(&self, tag: f64, key: Uint8Array, value: Uint8Array) -> Result<f64> {
        let (key, value) = (key.to_vec(), value.to_vec());
        self.shared.start(tag, |sink| self.guard.put(key, value, None, sink))
    }

    /// Brings whether there was such a key.
    #[napi]
    pub fn delete(&self, tag: f64, key: Uint8Array) -> Result<f64> {
        let key = key.to_vec();
        self.shared.start(tag, |sink| self.guard.delete(key, None, sink))
    }

    /// Brings what the transaction did.
    #[napi]
    pub fn txn(&self, tag: f64, steps: Vec<Step>) -> Result<f64> {
        let steps = steps.into_iter().map(TxnOp::from).collect();
        self.shared.start(tag, |sink| self.guard.txn(steps, None, sink))
    }

    /// Brings the reason of a loss, or nothing if it is released before.
    #[napi]
    pub fn lost(&self, tag: f64) -> Result<f64> {
        enter(|| Ok(as_number(self.guard.lost(self.shared.sink(tag)).0)))
    }
}

impl ObjectFinalize for GuardHandle {
    /// A guard that was released or lost is done with. One that still holds and was forgotten stays held, and renewed, until
    /// its client is closed: whether the work that it protects is over, nobody knows.
    fn finalize(self, _: Env) -> napi::Result<()> {
        let Self { guard, shared } = self;
        match shared.leaving() {
            // Nobody is left to work under it: dropped, it is released.
            Leaving::WorkerEnds => {}
            _ if !guard.is_held() => {}
            Leaving::ProcessEnds => guard.abandon(),
            Leaving::Forgotten => {
                tracing::warn!(
                    name = guard.name(),
                    "a guard was garbage collected while it held its lock, which stays locked until its client is closed; \
                     release guards in `finally`, or use withLock"
                );
                guard.abandon();
            }
        }
        Ok(())
    }
}
