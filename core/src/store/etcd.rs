//! A real etcd cluster.
//!
//! One tonic channel per endpoint, and the protocol types of the `etcd-client` crate on them, but not its client, because
//! - its balanced channel never drops a dead member: with one of three dead, a third of the requests fail;
//! - it renews an expired token for unary calls only, though since 0.21.1 it sends one with lease calls too: a stream of renewals or
//!   watches ends with its token;
//! - its lease keeper carries one lease and does not reconnect.
//!
//! What is ours instead: the connections (`connect`), which endpoint next (`endpoints`), the token (`auth`), what a failure
//! means (`errors`), the streams (`streams`). A request is sent once; another endpoint is asked only if the first surely had no
//! part in it (`cluster`).

mod auth;
mod cluster;
mod config;
mod connect;
mod convert;
mod endpoints;
mod errors;
mod member;
mod shared;
mod streams;
mod unary;
mod version;

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use etcd_client::proto::{
    PbEvent, PbLeaseGrantRequest, PbLeaseRevokeRequest, PbLeaseRevokeResponse, PbLeaseTimeToLiveRequest,
};
use prost::Message;
use tokio::time::Instant;

use self::{cluster::Cluster, convert::Nonsense, errors::Phase, member::Call};
use super::{RenewalStream, Reply, ReplyBody, Request, Store, StoreError, StoreFuture, WatchEvent, WatchStream};
use crate::error::Result;

pub use self::config::{EtcdConfig, TlsConfig};

/// The longest time limit that makes a difference; the clock cannot add every duration.
const LONGEST: Duration = Duration::from_secs(365 * 24 * 3600);

/// A store that is a real etcd cluster. Cheap to clone; clones share connections and the token.
#[derive(Clone)]
pub struct EtcdStore {
    cluster: Arc<Cluster>,
}

impl EtcdStore {
    /// Checks `config`. Opens nothing and needs no runtime; the first call does.
    ///
    /// # Errors
    /// [`Code::InvalidArgument`](crate::Code::InvalidArgument) with a message that says what is wrong.
    pub fn new(config: EtcdConfig) -> Result<Self> {
        Ok(Self { cluster: Arc::new(Cluster::new(config)?) })
    }

    /// The store that others of this process use who were told the same, so that all of them share connections, the token, and what
    /// is known of the endpoints; a new one if nobody uses one. With `shuffle`, a random number, it begins with any of the endpoints,
    /// otherwise with the first. Only for whoever runs on the thread of [`crate::runtime`], to which connections belong.
    ///
    /// # Errors
    /// As [`EtcdStore::new`].
    pub(crate) fn shared(config: &EtcdConfig, shuffle: Option<u64>) -> Result<Self> {
        Ok(Self { cluster: shared::cluster(config, shuffle)? })
    }
}

impl fmt::Debug for EtcdStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EtcdStore ")?;
        f.debug_list().entries(self.cluster.names()).finish()
    }
}

impl Store for EtcdStore {
    fn call(&self, request: Request, timeout: Duration) -> StoreFuture<Reply> {
        let cluster = Arc::clone(&self.cluster);
        Box::pin(async move { call(&cluster, request, Instant::now() + timeout.min(LONGEST)).await })
    }

    fn renewals(&self, hedge: u32) -> RenewalStream {
        streams::renewals(&self.cluster, hedge)
    }

    fn watches(&self) -> WatchStream {
        streams::watches(&self.cluster)
    }
}

async fn call(cluster: &Arc<Cluster>, request: Request, deadline: Instant) -> std::result::Result<Reply, StoreError> {
    let reads = |path| Call { path, effect: Phase::Read, deadline };
    let writes = |path| Call { path, effect: Phase::Write, deadline };
    match request {
        Request::Txn(txn) => {
            let path = "/etcdserverpb.KV/Txn";
            let call = if convert::only_reads(&txn) { reads(path) } else { writes(path) };
            cluster.call(call, || convert::txn(&txn), |reply| convert::txn_reply(reply, &txn)).await
        }
        Request::Range(range) => {
            let call = reads("/etcdserverpb.KV/Range");
            cluster.call(call, || convert::range(&range), |reply| convert::range_reply(reply, &range)).await
        }
        Request::LeaseGrant { lease, ttl } => {
            let message = || PbLeaseGrantRequest { id: lease.0, ttl };
            let call = writes("/etcdserverpb.Lease/LeaseGrant");
            cluster.call(call, message, |reply| convert::grant_reply(reply, lease)).await
        }
        Request::LeaseRevoke { lease } => {
            let message = || PbLeaseRevokeRequest { id: lease.0 };
            let call = writes("/etcdserverpb.Lease/LeaseRevoke");
            cluster.call(call, message, revoke_reply).await
        }
        Request::LeaseTimeToLive { lease } => {
            let message = || PbLeaseTimeToLiveRequest { id: lease.0, keys: true };
            let call = reads("/etcdserverpb.Lease/LeaseTimeToLive");
            cluster.call(call, message, |reply| convert::time_to_live_reply(reply, lease)).await
        }
    }
}

/// What a server says with `message` to `request`: the way of every reply, without a network.
///
/// # Errors
/// It is no message of that kind, or none that an etcd sends.
pub(crate) fn understood(request: &Request, message: &[u8]) -> std::result::Result<Reply, String> {
    fn of<M: Message + Default>(
        message: &[u8],
        convert: impl FnOnce(M) -> std::result::Result<Reply, Nonsense>,
    ) -> std::result::Result<Reply, String> {
        let message = M::decode(message).map_err(|error| error.to_string())?;
        convert(message).map_err(str::to_owned)
    }
    match request {
        Request::Txn(txn) => of(message, |reply| convert::txn_reply(reply, txn)),
        Request::Range(range) => of(message, |reply| convert::range_reply(reply, range)),
        Request::LeaseGrant { lease, .. } => of(message, |reply| convert::grant_reply(reply, *lease)),
        Request::LeaseRevoke { .. } => of(message, revoke_reply),
        Request::LeaseTimeToLive { lease } => of(message, |reply| convert::time_to_live_reply(reply, *lease)),
    }
}

/// What a watch tells with `message`, as in [`understood`].
///
/// # Errors
/// It is no event, or none that an etcd sends.
pub(crate) fn understood_event(message: &[u8]) -> std::result::Result<WatchEvent, String> {
    let event = PbEvent::decode(message).map_err(|error| error.to_string())?;
    convert::watch_event(event).map_err(str::to_owned)
}

fn revoke_reply(reply: PbLeaseRevokeResponse) -> std::result::Result<Reply, Nonsense> {
    let (revision, cluster) = convert::header(reply.header)?;
    Ok(Reply { revision, cluster, body: ReplyBody::LeaseRevoke })
}

/// Locks a mutex that guards plain values. They are whole between any two statements, so a panic elsewhere did not break them.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
