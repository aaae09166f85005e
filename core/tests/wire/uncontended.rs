//! Acquire, release and try, with nobody in the way.

use std::collections::BTreeMap;

use leasehold_etcd::{on_every_version, undisturbed};

use crate::{
    etcd,
    relay::{Record, Relay},
    warm_client,
};

/// That exactly these requests were sent, no more and no fewer.
fn is_exactly<const N: usize>(record: &Record, requests: [(&str, usize); N]) -> Result<(), String> {
    let sent = record.unary();
    if sent == BTreeMap::from(requests) { Ok(()) } else { Err(format!("{sent:?}")) }
}

/// Seen to fail with a read added to each release, and with a lease for each lock.
#[tokio::test]
async fn acquire_and_release_are_two_requests_and_two_writes() {
    const PAIRS: usize = 10;
    on_every_version(|version| async move {
        let cluster = etcd(version).await;
        let relay = Relay::start(&cluster);
        let client = warm_client(&relay).await;
        let (cluster, relay, client) = (&cluster, &relay, &client);
        undisturbed(|_| async move {
            let (before, mark) = (cluster.revision().await.unwrap(), relay.mark());
            for _ in 0..PAIRS {
                client.lock("/lock/a").acquire().await.unwrap().release().await.unwrap();
            }
            let record = relay.since(mark);
            let writes = cluster.revision().await.unwrap() - before;
            assert_eq!(writes, 2 * PAIRS as i64, "etcd {version}");
            println!("etcd {}: {PAIRS} × acquire+release: {:?}, {writes} writes", cluster.release(), record.unary());
            is_exactly(&record, [("Txn", 2 * PAIRS)])
        })
        .await;
    })
    .await;
}

/// Seen to fail with a try that queues as an acquire does.
#[tokio::test]
async fn a_failed_try_is_one_request_and_leaves_no_key() {
    on_every_version(|version| async move {
        let cluster = etcd(version).await;
        let relay = Relay::start(&cluster);
        let client = warm_client(&relay).await;
        let holder = warm_client(&relay).await;
        let (cluster, relay, client, holder) = (&cluster, &relay, &client, &holder);
        undisturbed(|_| async move {
            let guard = holder.lock("/lock/a").acquire().await.unwrap();
            let (before, mark) = (cluster.revision().await.unwrap(), relay.mark());
            assert!(client.lock("/lock/a").try_acquire().await.unwrap().is_none());
            let record = relay.since(mark);
            assert_eq!(cluster.revision().await.unwrap(), before, "etcd {version}: nothing was written");
            assert_eq!(cluster.keys("/lock/").await.unwrap(), [guard.key()]);
            guard.release().await.unwrap();
            is_exactly(&record, [("Txn", 1)])
        })
        .await;
    })
    .await;
}

/// Seen to fail with a try that takes the key of a nested name for a contender.
#[tokio::test]
async fn a_try_where_only_nested_names_stand_is_two_requests_and_succeeds() {
    on_every_version(|version| async move {
        let cluster = etcd(version).await;
        let relay = Relay::start(&cluster);
        let client = warm_client(&relay).await;
        let (relay, client) = (&relay, &client);
        undisturbed(|_| async move {
            let nested = client.lock("/lock/a/b").acquire().await.unwrap();
            let mark = relay.mark();
            let guard = client.lock("/lock/a").try_acquire().await.unwrap().expect("nobody has it");
            let record = relay.since(mark);
            assert!(nested.is_held() && guard.is_held());
            guard.release().await.unwrap();
            nested.release().await.unwrap();
            is_exactly(&record, [("Txn", 2)])
        })
        .await;
    })
    .await;
}
