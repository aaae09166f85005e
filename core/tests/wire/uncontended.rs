//! Acquire, release and try, with nobody in the way.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use leasehold_etcd::on_every_version;

use crate::{
    etcd,
    relay::{Record, Relay},
    warm_client,
};

/// A hold that gets as old as that has its key watched, which begins with a read.
const SETTLED: Duration = Duration::from_secs(1);

/// What was asked since `mark`, without reads where a hold may have been there for so long since `start`: on a machine that
/// is that busy nothing is said about them.
fn asked(record: &Record, start: Instant) -> BTreeMap<&str, usize> {
    let mut asked = record.unary();
    asked.retain(|method, _| *method != "Range" || start.elapsed() < SETTLED);
    asked
}

/// Seen to fail with a read added to each release, and with a lease for each lock.
#[tokio::test]
async fn acquire_and_release_are_two_requests_and_two_writes() {
    const PAIRS: usize = 10;
    on_every_version(|version| async move {
        let cluster = etcd(version).await;
        let relay = Relay::start(&cluster);
        let client = warm_client(&relay).await;
        let (before, mark, start) = (cluster.revision().await.unwrap(), relay.mark(), Instant::now());
        for _ in 0..PAIRS {
            client.lock("/lock/a").acquire().await.unwrap().release().await.unwrap();
        }
        let record = relay.since(mark);
        assert_eq!(asked(&record, start), BTreeMap::from([("Txn", 2 * PAIRS)]), "etcd {version}");
        let writes = cluster.revision().await.unwrap() - before;
        assert_eq!(writes, 2 * PAIRS as i64, "etcd {version}");
        println!("etcd {}: {PAIRS} × acquire+release: {:?}, {writes} writes", cluster.release(), record.unary());
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
        let start = Instant::now();
        let guard = holder.lock("/lock/a").acquire().await.unwrap();
        let (before, mark) = (cluster.revision().await.unwrap(), relay.mark());
        assert!(client.lock("/lock/a").try_acquire().await.unwrap().is_none());
        assert_eq!(asked(&relay.since(mark), start), BTreeMap::from([("Txn", 1)]), "etcd {version}");
        assert_eq!(cluster.revision().await.unwrap(), before, "etcd {version}: nothing was written");
        assert_eq!(cluster.keys("/lock/").await.unwrap(), [guard.key()]);
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
        let start = Instant::now();
        let nested = client.lock("/lock/a/b").acquire().await.unwrap();
        let mark = relay.mark();
        let guard = client.lock("/lock/a").try_acquire().await.unwrap().expect("nobody has it");
        assert_eq!(asked(&relay.since(mark), start), BTreeMap::from([("Txn", 2)]), "etcd {version}");
        assert!(nested.is_held() && guard.is_held());
    })
    .await;
}
