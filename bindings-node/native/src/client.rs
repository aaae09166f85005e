//! The client: options in, operations out.

use std::{rc::Rc, sync::Arc};

use leasehold_bridge::{AcquireOptions, Client, HostOptions, client::milliseconds};
use napi::{
    Env,
    bindgen_prelude::{BigInt, Function},
};
use napi_derive::napi;

use crate::{Result, as_number, enter, environment::Shared, starter};

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

    /// A function that brings the handle of a guard. Milliseconds below 0 are those of nothing said.
    #[napi(
        getter,
        ts_return_type = "(tag: number, name: string, wait: number, ttl: number, renew: boolean, requeue: boolean) => number"
    )]
    pub fn acquire<'env>(&self, env: &'env Env) -> napi::Result<Function<'env, (), f64>> {
        let (client, shared) = (self.client.clone(), self.shared.clone());
        starter(env, "acquire", move |call| {
            let (wait, ttl) = (milliseconds(call.get(2)?), milliseconds(call.get(3)?));
            let options = AcquireOptions { wait, ttl, renew: call.get(4)?, requeue: call.get(5)? };
            let name: String = call.get(1)?;
            Ok(shared.start(call.get(0)?, |sink| client.acquire(&name, &options, None, sink)))
        })
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
