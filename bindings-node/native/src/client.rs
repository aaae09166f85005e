//! The client: options in, operations out.

use std::{rc::Rc, sync::Arc};

use leasehold_bridge::{AcquireOptions, Claim, Client, HostOptions, LocalFirst, client::milliseconds};
use napi::{
    Env,
    bindgen_prelude::{BigInt, Function, Uint8Array},
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

/// How a lock is acquired. Milliseconds below 0 are those of nothing said.
#[napi(object, object_to_js = false)]
pub struct Acquiring {
    pub wait: i64,
    pub ttl: i64,
    pub renew: bool,
    pub requeue: bool,
    pub local_first: Option<LocalFirstBound>,
    pub linger: i64,
}

/// How far callers of one client may pass a lock on among themselves; each has its default.
#[napi(object, object_to_js = false)]
pub struct LocalFirstBound {
    pub turns: Option<u32>,
    pub time: Option<i64>,
}

impl From<Acquiring> for AcquireOptions {
    fn from(from: Acquiring) -> Self {
        Self {
            wait: milliseconds(from.wait),
            ttl: milliseconds(from.ttl),
            renew: from.renew,
            requeue: from.requeue,
            local_first: from.local_first.map(LocalFirst::from),
            linger: milliseconds(from.linger),
        }
    }
}

impl From<LocalFirstBound> for LocalFirst {
    fn from(from: LocalFirstBound) -> Self {
        let Self { turns, time } = Self::default();
        Self { turns: from.turns.unwrap_or(turns), time: from.time.and_then(milliseconds).unwrap_or(time) }
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

    /// A function that brings the handle of a guard.
    #[napi(getter, ts_return_type = "(tag: number, names: Array<Wanted>, options: Acquiring) => number")]
    pub fn acquire<'env>(&self, env: &'env Env) -> napi::Result<Function<'env, (), f64>> {
        let (client, shared) = (self.client.clone(), self.shared.clone());
        starter(env, "acquire", move |call| {
            let (wanted, options): (Vec<Wanted>, Acquiring) = (call.get(1)?, call.get(2)?);
            let names: Vec<_> = wanted.iter().map(|wanted| (&*wanted.name, wanted.claim())).collect();
            Ok(shared.start(call.get(0)?, |sink| client.acquire(&names, &options.into(), None, sink)))
        })
    }

    /// Brings the handle of a guard.
    #[napi]
    pub fn campaign(&self, tag: f64, name: String, value: Uint8Array, options: Acquiring) -> Result<f64> {
        self.shared.start(tag, |sink| self.client.campaign(&name, &value, &options.into(), None, sink))
    }

    /// Brings who leads, or nothing.
    #[napi]
    pub fn leader(&self, tag: f64, name: String) -> Result<f64> {
        self.shared.start(tag, |sink| self.client.leader(&name, None, sink))
    }

    /// Brings who leads, at once and at each change, until it is cancelled, and nothing at its end.
    #[napi]
    pub fn observe(&self, tag: f64, name: String) -> Result<f64> {
        self.shared.start(tag, |sink| self.client.observe(&name, None, sink))
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
