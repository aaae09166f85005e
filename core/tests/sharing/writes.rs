//! Guarded writes compare what owners of one place share: none takes effect in the turn of the next one.

use std::{sync::Arc, time::Duration};

use leasehold::{ClientOptions, Code};
use leasehold_etcd::{Cluster, eventually};

use crate::{LONG, acquire, client, etcd, gauge, queued, soon, waiting};

/// Seen to fail with guards that look at nothing but the key.
#[tokio::test]
async fn whoever_has_released_writes_nothing_any_more() {
    let cluster = etcd().await;
    let client = client(&cluster);
    for lock in [client.lock("/lock/a").linger(LONG), client.lock("/lock/b").local_first()] {
        let guard = Arc::new(lock.acquire().await.unwrap());
        let waiter = acquire(&lock);
        if lock.name() == "/lock/b" {
            waiting(&client, 1).await;
        }
        let (answer, released) = tokio::sync::oneshot::channel();
        guard.release_then(|result| drop(answer.send(result)));
        released.await.unwrap().unwrap();
        let next = soon(waiter).await.unwrap().unwrap();
        for error in [
            guard.put("/data/x", "late").await.unwrap_err(),
            guard.delete("/data/x").await.unwrap_err(),
            guard.txn().get("/data/x").commit().await.unwrap_err(),
        ] {
            assert_eq!(error.code(), Code::NotHeld, "{error}");
        }
        assert!(cluster.keys("/data/").await.unwrap().is_empty());
        next.put("/data/y", "in time").await.unwrap();
        next.delete("/data/y").await.unwrap();
    }
}

/// Seen to fail with a place that is passed on, or stays, whatever its owner has still on its way.
#[tokio::test]
async fn a_place_is_given_up_whose_owner_may_still_write() {
    let cluster = etcd().await;
    let client = slow_client(&cluster);
    let lock = client.lock("/lock/a").local_first().linger(LONG);
    for is_lent in [false, true] {
        let mut guard = lock.acquire().await.unwrap();
        if is_lent {
            guard.release().await.unwrap();
            guard = lock.acquire().await.unwrap();
            assert!(guard.sequence() > 0);
        }
        let token = guard.token();
        let waiter = acquire(&lock);
        waiting(&client, 1).await;
        // A write whose answer nobody waits for any more.
        cluster.freeze(0).unwrap();
        let write = tokio::time::timeout(Duration::from_millis(200), guard.put("/data/x", "late")).await;
        assert!(write.is_err(), "nobody answers");
        drop(guard);
        eventually("the release is taken in", || async { gauge(&client, "leasehold_held") == 0 }).await;
        cluster.thaw(0).unwrap();
        let next = soon(waiter).await.unwrap().unwrap();
        assert!(next.token() > token, "it has a place of its own");
        assert_eq!(next.sequence(), 0);
        next.release().await.unwrap();
        eventually("one stays", || async { cluster.keys("/lock/a/").await.unwrap().len() == 1 }).await;
    }
}

/// Seen to fail with a count of writes that is never taken back.
#[tokio::test]
async fn a_write_that_was_answered_costs_the_place_nothing() {
    let cluster = etcd().await;
    let client = client(&cluster);
    let lock = client.lock("/lock/a").local_first().linger(LONG);
    for sequence in 0..10 {
        let guard = lock.acquire().await.unwrap();
        assert_eq!(guard.sequence(), sequence);
        guard.put("/data/x", "y").await.unwrap();
        guard.txn().get("/data/x").delete("/data/x").commit().await.unwrap();
        guard.release().await.unwrap();
    }
    queued(&cluster, 1).await;
}

fn slow_client(cluster: &Cluster) -> leasehold::Client {
    let options = ClientOptions::from_endpoints(cluster.endpoints()).ttl(Duration::from_secs(20));
    options.build().expect("good options")
}
