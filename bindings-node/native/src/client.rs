//! The client: options in, operations out.

use std::{rc::Rc, sync::Arc};

use leasehold_bridge::{AcquireOptions, Claim, Client, HostOptions, LocalFirst, client::milliseconds};
use napi::{
    Env, Status,
    bindgen_prelude::{BigInt, Either, FromNapiValue, Function, Uint8Array},
    sys,
};
use napi_derive::napi;

use crate::{Result, as_number, enter, environment::Shared, metrics::Measured, starter};

/// The options of a client. Milliseconds below 0 are those of a default.
#[napi(object)]
pub struct OpenOptions {
    pub endpoints: Vec<String>,
    pub ttl: Option<i64>,
    pub namespace: Option<String>,
    pub identity: Option<String>,
    pub user: Option<String>,
    pub password: Option<String>,
    pub plaintext_password: Option<bool>,
    pub ca_file: Option<String>,
    pub cert_file: Option<String>,
    pub key_file: Option<String>,
    pub connect_timeout: Option<i64>,
    pub request_timeout: Option<i64>,
}

impl From<OpenOptions> for HostOptions {
    fn from(from: OpenOptions) -> Self {
        Self {
            url: from.endpoints.join(","),
            ttl: from.ttl.and_then(milliseconds),
            namespace: from.namespace,
            identity: from.identity,
            user: from.user,
            password: from.password,
            plaintext_password: from.plaintext_password,
            ca_file: from.ca_file,
            cert_file: from.cert_file,
            key_file: from.key_file,
            connect_timeout: from.connect_timeout.and_then(milliseconds),
            request_timeout: from.request_timeout.and_then(milliseconds),
        }
    }
}

/// A name, and what is claimed of it: all, if nothing else is said.
#[napi(object, object_to_js = false)]
pub struct Wanted {
    pub name: String,
    pub shared: Option<bool>,
    pub permits: Option<u32>,
    pub limit: Option<u32>,
}

impl Wanted {
    fn claim(&self) -> Claim {
        match (self.shared, self.permits, self.limit) {
            (Some(true), ..) => Claim::Shared,
            (_, Some(permits), Some(limit)) => Claim::Permits { permits, limit },
            _ => Claim::Exclusive,
        }
    }
}

/// How a lock is acquired: `[wait, ttl, linger, renew, requeue, local first, its turns, its time]`, as numbers in a list, because
/// an object with names takes several times as long. Milliseconds and turns below 0 are those of nothing said.
pub struct Acquiring(AcquireOptions);

impl FromNapiValue for Acquiring {
    unsafe fn from_napi_value(env: sys::napi_env, value: sys::napi_value) -> napi::Result<Self> {
        // SAFETY: the same contract as ours: `env` is the current environment.
        let how: Vec<i64> = unsafe { FromNapiValue::from_napi_value(env, value)? };
        let &[wait, ttl, linger, renew, requeue, is_local_first, turns, time] = how.as_slice() else {
            return Err(napi::Error::new(Status::InvalidArg, "this is not how a lock is acquired"));
        };
        let usual = LocalFirst::default();
        let local_first = LocalFirst {
            turns: if turns < 0 { usual.turns } else { u32::try_from(turns).unwrap_or(u32::MAX) },
            time: milliseconds(time).unwrap_or(usual.time),
        };
        Ok(Self(AcquireOptions {
            wait: milliseconds(wait),
            ttl: milliseconds(ttl),
            renew: renew != 0,
            requeue: requeue != 0,
            local_first: (is_local_first != 0).then_some(local_first),
            linger: milliseconds(linger),
        }))
    }
}

/// A client. Every operation completes under the tag that is its first parameter, and returns what cancels it.
#[napi]
pub struct ClientHandle {
    client: Arc<Client>,
    shared: Rc<Shared>,
}

impl ClientHandle {
    pub(crate) fn new(client: Arc<Client>, shared: Rc<Shared>) -> Self {
        Self { client, shared }
    }
}

#[napi]
impl ClientHandle {
    /// Who it says it is.
    #[napi(getter)]
    pub fn identity(&self) -> String {
        self.client.identity()
    }

    /// A function that brings the handle of a guard. A name by itself claims all of it.
    #[napi(getter, ts_return_type = "(tag: number, names: string | Array<Wanted>, how: number[]) => number")]
    pub fn acquire<'env>(&self, env: &'env Env) -> napi::Result<Function<'env, (), f64>> {
        let (client, shared) = (self.client.clone(), self.shared.clone());
        starter(env, "acquire", move |call| {
            let (wanted, how): (Either<String, Vec<Wanted>>, Acquiring) = (call.get(1)?, call.get(2)?);
            let names = match &wanted {
                Either::A(name) => vec![(name.as_str(), Claim::Exclusive)],
                Either::B(several) => several.iter().map(|wanted| (&*wanted.name, wanted.claim())).collect(),
            };
            Ok(shared.start(call.get(0)?, |sink| client.acquire(&names, &how.0, None, sink)))
        })
    }

    /// Brings the handle of a guard.
    #[napi]
    pub fn campaign(
        &self,
        tag: f64,
        name: String,
        value: Uint8Array,
        #[napi(ts_arg_type = "number[]")] how: Acquiring,
    ) -> Result<f64> {
        self.shared.start(tag, |sink| self.client.campaign(&name, &value, &how.0, None, sink))
    }

    /// Brings who leads, or nothing.
    #[napi]
    pub fn leader(&self, tag: f64, name: String) -> Result<f64> {
        self.shared.start(tag, |sink| self.client.leader(&name, None, sink))
    }

    /// Brings who leads, at once and at each change, until it is cancelled, and nothing at its end. Whoever waits for one of them
    /// says so by `hold`.
    #[napi]
    pub fn observe(&self, tag: f64, name: String) -> Result<f64> {
        enter(|| Ok(as_number(self.client.observe(&name, None, self.shared.sink(tag)).0)))
    }

    /// What it has counted and timed.
    #[napi]
    pub fn metrics(&self) -> Result<Measured> {
        enter(|| Ok(self.client.metrics().into()))
    }

    /// Brings nothing.
    #[napi]
    pub fn ping(&self, tag: f64) -> Result<f64> {
        self.shared.start(tag, |sink| self.client.ping(None, sink))
    }

    /// Brings a list of contenders.
    #[napi]
    pub fn queue(&self, tag: f64, name: String) -> Result<f64> {
        self.shared.start(tag, |sink| self.client.queue(&name, None, sink))
    }

    /// Brings nothing.
    #[napi]
    pub fn force_release(&self, tag: f64, name: String, token: BigInt) -> Result<f64> {
        // A token beyond the range of etcd's revisions belongs to nobody, and neither does 0.
        let (token, is_lossless) = token.get_i64();
        let token = if is_lossless { token } else { 0 };
        self.shared.start(tag, |sink| self.client.force_release(&name, token, None, sink))
    }

    /// Brings states, and nothing when the client is closed.
    #[napi]
    pub fn on_state(&self, tag: f64) -> Result<f64> {
        enter(|| Ok(as_number(self.client.on_state(self.shared.sink(tag)).0)))
    }

    /// Brings nothing.
    #[napi]
    pub fn close(&self, tag: f64) -> Result<f64> {
        self.shared.start(tag, |sink| self.client.close(sink))
    }
}
