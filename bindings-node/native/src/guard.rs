//! The guard: what it knows, and what it can do while it holds.

use std::{ffi::c_void, ops::Deref, ptr, rc::Rc};

use leasehold_bridge::{Guard, client::milliseconds, guard::TxnOp, panics};
use napi::{
    Env, Status,
    bindgen_prelude::{BigInt, FromNapiValue, Function, ToNapiValue, Uint8Array},
    check_status, sys,
};
use napi_derive::napi;

use crate::{
    Result, as_number, enter,
    environment::{Environment, Leaving, Shared},
    starter,
};

/// Tells the values of guards from those of other native modules. Chosen at random.
static GUARD: sys::napi_type_tag = sys::napi_type_tag { lower: 0x9d1c_6a0e_52b7_4f83, upper: 0x3e85_c9f4_a1d6_0b27 };

/// A guard, as JavaScript keeps it: an external value, which costs a fraction of an object of a class.
pub struct GuardHandle {
    guard: Guard,
    shared: Rc<Shared>,
}

/// A guard that JavaScript passes to a function. It lives as long as the call.
pub struct Passed(ptr::NonNull<GuardHandle>);

impl GuardHandle {
    pub(crate) fn new(guard: Guard, shared: Rc<Shared>) -> Self {
        Self { guard, shared }
    }

    /// A guard that was released or lost is done with. One that still holds and was forgotten stays held, and renewed, until
    /// its client is closed: whether the work that it protects is over, nobody knows.
    fn forget(self) {
        let Self { guard, shared } = self;
        match shared.leaving() {
            // Nobody is left to work under it: dropped, it is released.
            Leaving::WorkerEnds => {}
            _ if !guard.is_held() => {}
            Leaving::ProcessEnds => guard.abandon(),
            Leaving::Forgotten => {
                shared.forget(guard.name());
                guard.abandon();
            }
        }
    }
}

impl ToNapiValue for GuardHandle {
    unsafe fn to_napi_value(env: sys::napi_env, handle: Self) -> napi::Result<sys::napi_value> {
        let handle = Box::into_raw(Box::new(handle));
        let mut value = ptr::null_mut();
        // SAFETY: `env` is the current environment, by the contract of this function. The value owns the handle.
        let status =
            unsafe { sys::napi_create_external(env, handle.cast(), Some(collected), ptr::null_mut(), &raw mut value) };
        check_status!(status).inspect_err(|_| {
            // SAFETY: it was boxed above, and there is no value that owns it.
            drop(unsafe { Box::from_raw(handle) });
        })?;
        // SAFETY: as above.
        check_status!(unsafe { sys::napi_type_tag_object(env, value, &raw const GUARD) })?;
        Ok(value)
    }
}

/// Nobody can reach the value of a guard any more, or its environment ends.
unsafe extern "C" fn collected(_: sys::napi_env, handle: *mut c_void, _: *mut c_void) {
    // SAFETY: it was boxed for this value, whose end this is.
    let handle = unsafe { Box::from_raw(handle.cast::<GuardHandle>()) };
    drop(panics::catch(|| {
        handle.forget();
        Ok(())
    }));
}

impl FromNapiValue for Passed {
    unsafe fn from_napi_value(env: sys::napi_env, value: sys::napi_value) -> napi::Result<Self> {
        let (mut handle, mut is_guard) = (ptr::null_mut(), false);
        // SAFETY: `env` is the current environment, by the contract of this function.
        check_status!(unsafe { sys::napi_get_value_external(env, value, &raw mut handle) })?;
        // SAFETY: as above.
        check_status!(unsafe { sys::napi_check_object_type_tag(env, value, &raw const GUARD, &raw mut is_guard) })?;
        let handle = ptr::NonNull::new(handle.cast()).filter(|_| is_guard);
        handle.map(Self).ok_or_else(|| napi::Error::new(Status::InvalidArg, "this value is no guard of leasehold"))
    }
}

impl Deref for Passed {
    type Target = GuardHandle;

    fn deref(&self) -> &GuardHandle {
        // SAFETY: its tag says that it is the value of a guard, and a value is not collected while it is a parameter of a call.
        unsafe { self.0.as_ref() }
    }
}

/// A step of a guarded transaction: a put if it has a value.
#[napi(object, object_to_js = false)]
pub struct Step {
    /// `put`, `delete` or `get`.
    pub kind: String,
    /// Where, below the client's namespace.
    pub key: Uint8Array,
    /// What to put there.
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
impl Environment {
    /// A function that starts the release of a guard, which brings nothing.
    #[napi(getter, ts_return_type = "(tag: number, guard: object) => number")]
    pub fn release<'env>(&self, env: &'env Env) -> napi::Result<Function<'env, (), f64>> {
        starter(env, "release", |call| {
            let handle: Passed = call.get(1)?;
            Ok(handle.shared.start(call.get(0)?, |sink| handle.guard.release(None, sink)))
        })
    }
}

/// The name of the lock.
#[napi]
pub fn guard_name(#[napi(ts_arg_type = "object")] handle: Passed) -> Result<String> {
    enter(|| Ok(handle.guard.name().to_owned()))
}

/// The fencing token.
#[napi]
pub fn guard_token(#[napi(ts_arg_type = "object")] handle: Passed) -> Result<BigInt> {
    enter(|| Ok(BigInt::from(handle.guard.token())))
}

/// Tells holds apart that share a token.
#[napi]
pub fn guard_sequence(#[napi(ts_arg_type = "object")] handle: Passed) -> Result<BigInt> {
    enter(|| Ok(BigInt::from(handle.guard.sequence())))
}

/// The key in etcd.
#[napi]
pub fn guard_key(#[napi(ts_arg_type = "object")] handle: Passed) -> Result<String> {
    enter(|| Ok(handle.guard.key()))
}

/// The keys of all its names, in the order in which they were asked for.
#[napi]
pub fn guard_keys(#[napi(ts_arg_type = "object")] handle: Passed) -> Result<Vec<String>> {
    enter(|| Ok(handle.guard.keys()))
}

/// The lease, in lower-case hexadecimal.
#[napi]
pub fn guard_lease(#[napi(ts_arg_type = "object")] handle: Passed) -> Result<String> {
    enter(|| Ok(handle.guard.lease()))
}

/// Whether the lock is certainly still held.
#[napi]
pub fn guard_held(#[napi(ts_arg_type = "object")] handle: Passed) -> Result<bool> {
    enter(|| Ok(handle.guard.is_held()))
}

/// For how many milliseconds more, if no renewal succeeds from now on.
#[napi]
pub fn guard_remaining(#[napi(ts_arg_type = "object")] handle: Passed) -> Result<f64> {
    enter(|| Ok((handle.guard.remaining().as_secs_f64() * 1000.0).floor()))
}

/// Why the lock is not held any more; nothing while it is, and if it was released in time.
#[napi]
pub fn guard_lost_reason(#[napi(ts_arg_type = "object")] handle: Passed) -> Result<Option<&'static str>> {
    enter(|| Ok(handle.guard.loss_reason().map(|reason| reason.name())))
}

/// Brings nothing.
#[napi]
pub fn guard_extend(tag: f64, #[napi(ts_arg_type = "object")] handle: Passed, span: i64) -> Result<f64> {
    // Below 0 is refused like 0: with a message that says what is possible.
    let span = milliseconds(span).unwrap_or_default();
    handle.shared.start(tag, |sink| handle.guard.extend(span, None, sink))
}

/// Brings nothing.
#[napi]
pub fn guard_proclaim(tag: f64, #[napi(ts_arg_type = "object")] handle: Passed, value: Uint8Array) -> Result<f64> {
    let value = value.to_vec();
    handle.shared.start(tag, |sink| handle.guard.proclaim(value, None, sink))
}

/// Brings the revision of the write.
#[napi]
pub fn guard_put(
    tag: f64,
    #[napi(ts_arg_type = "object")] handle: Passed,
    key: Uint8Array,
    value: Uint8Array,
) -> Result<f64> {
    let (key, value) = (key.to_vec(), value.to_vec());
    handle.shared.start(tag, |sink| handle.guard.put(key, value, None, sink))
}

/// Brings whether there was such a key.
#[napi]
pub fn guard_delete(tag: f64, #[napi(ts_arg_type = "object")] handle: Passed, key: Uint8Array) -> Result<f64> {
    let key = key.to_vec();
    handle.shared.start(tag, |sink| handle.guard.delete(key, None, sink))
}

/// Brings what the transaction did.
#[napi]
pub fn guard_txn(tag: f64, #[napi(ts_arg_type = "object")] handle: Passed, steps: Vec<Step>) -> Result<f64> {
    let steps = steps.into_iter().map(TxnOp::from).collect();
    handle.shared.start(tag, |sink| handle.guard.txn(steps, None, sink))
}

/// Brings the reason of a loss, or nothing if it is released before.
#[napi]
pub fn guard_lost(tag: f64, #[napi(ts_arg_type = "object")] handle: Passed) -> Result<f64> {
    enter(|| Ok(as_number(handle.guard.ended(handle.shared.sink(tag)).0)))
}
