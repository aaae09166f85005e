//! A client: its options, and the operations that need no guard.

use std::{sync::Arc, time::Duration};

use leasehold_bridge::{self as bridge, AcquireOptions, HostOptions};
use pyo3::prelude::*;

use crate::{
    call::{Call, Cancel},
    errors,
};

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

    fn acquire(
        &self,
        name: String,
        wait_ms: Option<u64>,
        ttl_ms: Option<u64>,
        renew: bool,
        requeue: bool,
        cancel: Option<&Cancel>,
    ) -> Call {
        let client = self.0.clone();
        let cancel = cancel.map(Cancel::token);
        let options = AcquireOptions {
            wait: wait_ms.map(Duration::from_millis),
            ttl: ttl_ms.map(Duration::from_millis),
            renew,
            requeue,
        };
        Call::new(move |sink| client.acquire(&name, &options, cancel.as_ref(), sink))
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
