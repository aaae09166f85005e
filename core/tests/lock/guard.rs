//! Writes under the fencing token.

use std::time::Duration;

use leasehold::{Code, LostReason};
use leasehold_etcd::eventually;
use tokio::time::timeout;

use crate::support::{client, etcd, options, soon};

/// Seen to fail with keys outside the namespace.
#[tokio::test]
async fn the_owner_reads_and_writes_below_its_namespace() {
    let cluster = etcd().await;
    let client = options(&cluster).namespace("/shop").build().unwrap();
    let guard = client.lock("/lock/a").acquire().await.unwrap();
    let first = guard.put("/data/x", "1").await.unwrap();
    let committed =
        guard.txn().get("/data/x").get("/data/y").put("/data/y", "2").delete("/data/x").commit().await.unwrap();
    assert!(committed.revision > first);
    assert_eq!((committed.deleted, committed.values), (1, vec![Some(b"1".to_vec()), None]));
    assert_eq!(cluster.keys("").await.unwrap(), ["/shop/data/y", &guard.key()]);
    assert!(guard.delete("/data/y").await.unwrap());
    assert!(!guard.delete("/data/y").await.unwrap(), "it was gone already");
    guard.release().await.unwrap();
}

/// Seen to fail with a guarded write without its condition.
#[tokio::test]
async fn etcd_refuses_what_a_stale_owner_sends() {
    let cluster = etcd().await;
    let [one, two] = [(); 2].map(|()| client(&cluster));
    let stale = one.lock("/lock/a").acquire().await.unwrap();
    // A key is not watched in its first second: nobody but etcd knows that this one is gone.
    two.lock("/lock/a").force_release(stale.token()).await.unwrap();
    let owner = two.lock("/lock/a").try_acquire().await.unwrap().expect("free");
    assert!(owner.token() > stale.token());
    owner.put("/data", "the owner's").await.unwrap();
    for result in [
        stale.txn().commit().await.map(drop),
        stale.put("/data", "stale").await.map(drop),
        stale.delete("/data").await.map(drop),
        stale.txn().put("/data", "stale").delete("/other").commit().await.map(drop),
    ] {
        let error = result.unwrap_err();
        assert_eq!((error.code(), error.reason()), (Code::Lost, Some(LostReason::KeyDeleted)), "{error}");
    }
    assert_eq!(cluster.ctl(&["get", "/data", "--print-value-only"]).await.unwrap(), "the owner's\n");
    assert_eq!(stale.release().await.unwrap_err().code(), Code::Lost);
    assert_eq!(cluster.keys("/lock/").await.unwrap(), [owner.key()], "a stale release deletes nothing of the owner's");
}

/// Seen to fail with a guard that does nothing when it is dropped.
#[tokio::test]
async fn a_dropped_guard_releases_in_the_background_and_is_not_lost() {
    let cluster = etcd().await;
    let client = client(&cluster);
    let guard = client.lock("/lock/a").acquire().await.unwrap();
    let lost = tokio::spawn(guard.lost());
    drop(guard);
    eventually("its key is gone", || async { cluster.keys("").await.unwrap().is_empty() }).await;
    soon(client.lock("/lock/a").acquire()).await.unwrap().release().await.unwrap();
    assert!(timeout(Duration::from_millis(200), lost).await.is_err(), "a release is no loss");
}
