//! Who shares a queue with a lock class that queues by itself is told so, once.

use etcd_client::PutOptions;
use leasehold_etcd::{Version, eventually};

use crate::{client, etcd, queued, soon, waiter, warnings::Warnings};

/// Seen to fail without the warning, with one for every key, and with one for keys of Go's sessions.
#[tokio::test]
async fn a_class_that_queues_by_itself_is_told_of_once() {
    let warnings = Warnings::default();
    tracing::subscriber::set_global_default(warnings.clone()).expect("nobody else listens in this program");
    let told = |word: &str| {
        warnings.told().iter().filter(|line| line.contains("queues by itself") && line.contains(word)).count()
    };
    let cluster = etcd(Version::V3_7).await;
    let mut foreign = etcd_client::Client::connect(cluster.endpoints(), None).await.unwrap();
    let lease = foreign.lease_grant(60, None).await.unwrap().id();
    let mut put = async |key: String| {
        foreign.put(key.as_str(), "", Some(PutOptions::new().with_lease(lease))).await.unwrap();
        key
    };
    let ours = client(&cluster, 5);

    // As Go's sessions name their keys.
    put(format!("/lock/a/{lease:x}")).await;
    let waiting = waiter(&ours);
    queued(&cluster, 2).await;
    put("/lock/a/copied-1".into()).await;
    eventually("it is told", async || told("/lock/a/copied-1") == 1).await;
    put("/lock/a/copied-2".into()).await;
    queued(&cluster, 4).await;
    foreign.lease_revoke(lease).await.unwrap();
    soon(waiting).await.unwrap().release().await.unwrap();
    assert_eq!(told("/lock/a/copied-"), 1, "once is enough");
}
