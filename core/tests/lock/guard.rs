//! Writes under the fencing token.

use std::time::Duration;

use leasehold::{Code, End, LostReason};
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

/// Seen to fail when they were sent: the key became a contender that no lease ends, and the lock was nobody's for ever.
#[tokio::test]
async fn nothing_is_written_where_contenders_stand() {
    let cluster = etcd().await;
    let client = options(&cluster).namespace("/shop").build().unwrap();
    let guard = client.lock("/lock/a").acquire().await.unwrap();
    let own = guard.key().strip_prefix("/shop").unwrap().to_owned();
    for key in ["/lock/a/", "/lock/a/data", "/lock/a/b/data", &own] {
        for result in [
            guard.put(key, "1").await.map(drop),
            guard.delete(key).await.map(drop),
            guard.txn().get("/data").put("/data", "1").delete(key).commit().await.map(drop),
        ] {
            let error = result.expect_err("refused");
            assert_eq!(error.code(), Code::InvalidArgument, "{error}");
            assert!(error.message().contains("/lock/a"), "{error}");
        }
    }
    assert_eq!(cluster.keys("").await.unwrap(), [guard.key()]);
    for beside in ["/lock/a", "/lock/ab", "/lock/", "/lock/a0"] {
        guard.put(beside, "1").await.unwrap();
    }
    let read = guard.txn().get(own).commit().await.unwrap();
    assert_eq!(read.values.len(), 1, "reading is free");
    guard.release().await.unwrap();
    client.lock("/lock/a").try_acquire().await.unwrap().expect("free").release().await.unwrap();
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

/// Seen to fail with a release that does not say how the hold ended.
#[tokio::test]
async fn an_end_always_comes_and_tells_release_from_loss() {
    let cluster = etcd().await;
    let client = client(&cluster);
    let lock = client.lock("/lock/a");
    let released = lock.acquire().await.unwrap();
    let ends = [released.ended(), released.ended()];
    released.release().await.unwrap();
    for end in ends {
        assert_eq!(soon(end).await, End::Released);
    }
    let dropped = lock.acquire().await.unwrap();
    let end = dropped.ended();
    drop(dropped);
    assert_eq!(soon(end).await, End::Released);
    let robbed = lock.acquire().await.unwrap();
    let end = robbed.ended();
    lock.force_release(robbed.token()).await.unwrap();
    // A young hold is not watched: the release finds it.
    assert_eq!(robbed.release().await.unwrap_err().code(), Code::Lost);
    assert_eq!(soon(end).await, End::Lost(LostReason::KeyDeleted));
    let open = lock.acquire().await.unwrap();
    let end = open.ended();
    client.close().await.unwrap();
    assert_eq!(soon(end).await, End::Lost(LostReason::ClientClosed));
    assert_eq!(soon(open.ended()).await, End::Lost(LostReason::ClientClosed), "also for one who asks late");
}

/// Seen to fail with a `run` that only looks at the end of the work.
#[tokio::test]
async fn work_stops_when_its_lock_is_lost() {
    let cluster = etcd().await;
    let client = client(&cluster);
    let lock = client.lock("/lock/a");
    let guard = lock.acquire().await.unwrap();
    assert_eq!(guard.run(async { 7 }).await.unwrap(), 7);
    let (stopped, mut is_dropped) = tokio::sync::oneshot::channel::<()>();
    let work = async {
        let _stopped = stopped;
        lock.force_release(guard.token()).await.unwrap();
        std::future::pending::<()>().await;
    };
    let error = soon(guard.run(work)).await.unwrap_err();
    assert_eq!((error.code(), error.reason()), (Code::Lost, Some(LostReason::KeyDeleted)), "{error}");
    assert!(is_dropped.try_recv().is_err_and(|error| error == tokio::sync::oneshot::error::TryRecvError::Closed));
    let begun = std::cell::Cell::new(false);
    assert_eq!(guard.run(async { begun.set(true) }).await.unwrap_err().code(), Code::Lost);
    assert!(!begun.get(), "work without the lock");
    assert_eq!(guard.release().await.unwrap_err().code(), Code::Lost);
}

/// Seen to fail with futures that borrow the lock: this does not compile then.
#[tokio::test]
async fn an_acquire_owns_what_it_needs_and_is_withdrawn_when_dropped() {
    let cluster = etcd().await;
    let client = client(&cluster);
    let guard = tokio::spawn(client.lock("/lock/a").acquire()).await.unwrap().unwrap();
    let waiting = tokio::spawn(client.lock("/lock/a").acquire());
    let queue = client.lock("/lock/a");
    eventually("it waits", || async { queue.queue().await.unwrap().len() == 2 }).await;
    waiting.abort();
    eventually("its key is withdrawn", || async { queue.queue().await.unwrap().len() == 1 }).await;
    assert!(client.lock("/lock/a").try_acquire().await.unwrap().is_none());
    guard.release().await.unwrap();
}

/// Seen to fail with a blocking form that needs a runtime.
#[test]
fn threads_without_a_runtime_block() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let cluster = runtime.block_on(etcd());
    let client = client(&cluster);
    let lock = client.lock("/lock/a");
    let first = lock.blocking_acquire().unwrap();
    assert!(lock.blocking_try_acquire().unwrap().is_none());
    assert!(lock.blocking_acquire_within(Duration::from_millis(50)).unwrap_err().is_not_acquired());
    let waiter = std::thread::spawn({
        let lock = lock.clone();
        move || lock.blocking_acquire().unwrap().token()
    });
    let token = first.token();
    first.blocking_release().unwrap();
    assert!(waiter.join().unwrap() > token);
    client.blocking_close().unwrap();
}
