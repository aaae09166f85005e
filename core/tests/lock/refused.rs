//! Renewals that etcd refuses.

use std::{
    fmt,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use leasehold::{ClientOptions, LostReason};
use leasehold_etcd::{Cluster, User, Version, eventually};
use tracing::{
    Event, Level, Metadata,
    field::Field,
    span::{Attributes, Id, Record},
};

use crate::support::soon;

/// A lease with a key on it that its user must not write is not renewed by etcd. Seen to fail when that was told to nobody and the
/// session was kept: each acquire under it was lost after its TTL.
#[tokio::test]
async fn a_session_whose_renewals_are_refused_is_replaced_and_it_is_told_why() {
    let warnings = Warnings::default();
    tracing::subscriber::set_global_default(warnings.clone()).expect("the only test that listens");
    let users = [User::new("alice", "secret").prefix("/lock/")];
    let cluster = Cluster::builder().version(Version::V3_7).auth("root-password", users).start().await.unwrap();
    let options = ClientOptions::from_endpoints(cluster.endpoints()).ttl(Duration::from_secs(3));
    let client = options.user("alice", "secret").build().unwrap();
    let guard = client.lock("/lock/a").acquire().await.unwrap();
    let refused = guard.lease();
    cluster.ctl(&["put", "/not-hers", "x", &format!("--lease={refused}")]).await.unwrap();
    // While somebody holds with it, it is tried until the end, and the end is told.
    assert_eq!(soon(guard.lost()).await, LostReason::Expired);
    let told = || async { warnings.0.lock().unwrap().iter().any(|text| text.contains("PERMISSION_DENIED")) };
    eventually("it is told", told).await;
    // Where nobody does, it is replaced before anybody needs it.
    let idle = client.lock("/lock/a").acquire().await.unwrap();
    let lease = idle.lease();
    assert_ne!(lease, refused);
    idle.release().await.unwrap();
    cluster.ctl(&["put", "/not-hers", "x", &format!("--lease={lease}")]).await.unwrap();
    let gone = || async { !cluster.leases().await.unwrap().contains(&lease) };
    eventually("the session is given up", gone).await;
    let guard = client.lock("/lock/a").acquire().await.unwrap();
    assert_ne!(guard.lease(), lease);
    let until = || Instant::now() + guard.remaining();
    let before = until();
    eventually("it is renewed", || async { until() > before + Duration::from_millis(500) }).await;
    assert!(guard.is_held());
    guard.release().await.unwrap();
    client.close().await.unwrap();
}

/// What is logged as a warning.
#[derive(Clone, Default)]
struct Warnings(Arc<Mutex<Vec<String>>>);

impl tracing::Subscriber for Warnings {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= Level::WARN
    }

    fn event(&self, event: &Event<'_>) {
        let mut text = String::new();
        event.record(&mut |field: &Field, value: &dyn fmt::Debug| text += &format!("{field}={value:?} "));
        self.0.lock().unwrap().push(text);
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}
