//! A client: its options, and the operations that need no guard.

use std::{sync::Arc, time::Duration};

use leasehold_bridge::{self as bridge, AcquireOptions, Claim, HostOptions, LocalFirst};
use pyo3::prelude::*;

use crate::{
    call::{Call, Cancel},
    convert, errors,
};

/// A name, whether its claim is shared, or its permits and their limit.
type Claimed = (String, bool, Option<(u32, u32)>);

/// How a lock is acquired: how long to wait for it, the TTL, whether to renew and to queue again, the turns and the time of
/// `local_first`, and how long to linger. Spans are whole milliseconds.
#[derive(FromPyObject)]
pub struct Options(Option<u64>, Option<u64>, bool, bool, Option<(u32, u64)>, Option<u64>);

impl From<Options> for AcquireOptions {
    fn from(Options(wait, ttl, renew, requeue, local_first, linger): Options) -> Self {
        Self {
            wait: wait.map(Duration::from_millis),
            ttl: ttl.map(Duration::from_millis),
            renew,
            requeue,
            local_first: local_first.map(|(turns, time)| LocalFirst { turns, time: Duration::from_millis(time) }),
            linger: linger.map(Duration::from_millis),
        }
    }
}

/// A client. Spans are whole milliseconds, checked by the package.
#[pyclass(frozen, module = "leasehold._native")]
pub struct Client(Arc<bridge::Client>);

#[pymethods]
impl Client {
    #[new]
    #[pyo3(signature = (url, *, ttl_ms, namespace, identity, user, password, plaintext_password, ca_file, cert_file, key_file, connect_timeout_ms, request_timeout_ms))]
    #[expect(clippy::too_many_arguments, reason = "one for each option, by name")]
    fn new(
        py: Python<'_>,
        url: String,
        ttl_ms: Option<u64>,
        namespace: Option<String>,
        identity: Option<String>,
        user: Option<String>,
        password: Option<String>,
        plaintext_password: Option<bool>,
        ca_file: Option<String>,
        cert_file: Option<String>,
        key_file: Option<String>,
        connect_timeout_ms: Option<u64>,
        request_timeout_ms: Option<u64>,
    ) -> PyResult<Self> {
        let options = HostOptions {
            url,
            ttl: ttl_ms.map(Duration::from_millis),
            namespace,
            identity,
            user,
            password,
            plaintext_password,
            ca_file,
            cert_file,
            key_file,
            connect_timeout: connect_timeout_ms.map(Duration::from_millis),
            request_timeout: request_timeout_ms.map(Duration::from_millis),
        };
        let client = options.try_into().and_then(bridge::Client::open);
        client.map(Self).map_err(|error| errors::raise(py, error))
    }

    #[getter]
    fn identity(&self) -> String {
        self.0.identity()
    }

    fn acquire(&self, names: Vec<Claimed>, options: Options, cancel: Option<&Cancel>) -> Call {
        let client = self.0.clone();
        let cancel = cancel.map(Cancel::token);
        Call::new(move |sink| {
            let claim = |is_shared, permits| match permits {
                Some((permits, limit)) => Claim::Permits { permits, limit },
                None if is_shared => Claim::Shared,
                None => Claim::Exclusive,
            };
            let names: Vec<_> =
                names.iter().map(|(name, shared, permits)| (&**name, claim(*shared, *permits))).collect();
            client.acquire(&names, &options.into(), cancel.as_ref(), sink)
        })
    }

    fn campaign(&self, name: String, value: Vec<u8>, options: Options, cancel: Option<&Cancel>) -> Call {
        let client = self.0.clone();
        let cancel = cancel.map(Cancel::token);
        Call::new(move |sink| client.campaign(&name, &value, &options.into(), cancel.as_ref(), sink))
    }

    fn leader(&self, name: String) -> Call {
        let client = self.0.clone();
        Call::new(move |sink| client.leader(&name, None, sink))
    }

    fn observe(&self, name: String) -> Call {
        let client = self.0.clone();
        Call::new(move |sink| client.observe(&name, None, sink))
    }

    /// Everything that it has counted and timed, and the same as OpenMetrics text.
    fn metrics(&self, py: Python<'_>) -> PyResult<(Py<PyAny>, String)> {
        let metrics = self.0.metrics();
        let text = metrics.to_string();
        Ok((convert::metrics(py, metrics)?, text))
    }

    fn ping(&self) -> Call {
        let client = self.0.clone();
        Call::new(move |sink| client.ping(None, sink))
    }

    fn queue(&self, name: String) -> Call {
        let client = self.0.clone();
        Call::new(move |sink| client.queue(&name, None, sink))
    }

    fn force_release(&self, name: String, token: i64) -> Call {
        let client = self.0.clone();
        Call::new(move |sink| client.force_release(&name, token, None, sink))
    }

    fn on_state(&self) -> Call {
        let client = self.0.clone();
        Call::new(move |sink| client.on_state(sink))
    }

    fn close(&self) -> Call {
        let client = self.0.clone();
        Call::new(move |sink| client.close(sink))
    }
}
