//! Acquire, try, wait, release, and what is left behind.

use std::{sync::Arc, time::Duration};

use leasehold::{Client, Code};
use leasehold_etcd::{Direction, Proxy, eventually};

use crate::support::{client, etcd};

#[tokio::test]
async fn a_lock_is_acquired_and_released_and_leaves_nothing() {
    let cluster = etcd().await;
    let client = client(&cluster);
    let guard = client.lock("/lock/a").acquire().await.unwrap();
    assert!(guard.is_held());
    assert!(guard.remaining() > Duration::from_secs(3));
    assert_eq!(cluster.keys("/lock/").await.unwrap(), [guard.key()]);
    assert!(guard.key().starts_with(&format!("/lock/a/{}-", guard.lease())));
    guard.release().await.unwrap();
    assert!(cluster.keys("/lock/").await.unwrap().is_empty());
    client.close().await.unwrap();
    assert!(cluster.leases().await.unwrap().is_empty());
}

#[tokio::test]
async fn waiters_are_served_in_order_with_growing_tokens() {
    let cluster = etcd().await;
    let clients = [client(&cluster), client(&cluster)];
    let first = clients[0].lock("/lock/a").acquire().await.unwrap();
    let mut last = first.token();
    let served = Arc::new(tokio::sync::Mutex::new(Vec::new()));
    let mut tasks = Vec::new();
    for number in 0..10 {
        let (lock, served) = (clients[number % 2].lock("/lock/a"), served.clone());
        let before = cluster.keys("/lock/a/").await.unwrap().len();
        tasks.push(tokio::spawn(async move {
            let guard = lock.acquire().await.unwrap();
            served.lock().await.push((number, guard.token()));
            guard.release().await.unwrap();
        }));
        eventually("the next waiter is queued", || async { cluster.keys("/lock/a/").await.unwrap().len() > before })
            .await;
    }
    first.release().await.unwrap();
    for task in tasks {
        task.await.unwrap();
    }
    for (place, (number, token)) in served.lock().await.iter().enumerate() {
        assert_eq!(place, *number);
        assert!(*token > last);
        last = *token;
    }
    for client in &clients {
        client.close().await.unwrap();
    }
    assert!(cluster.keys("").await.unwrap().is_empty());
    assert!(cluster.leases().await.unwrap().is_empty());
}

#[tokio::test]
async fn a_try_fails_at_once_and_leaves_no_key() {
    let cluster = etcd().await;
    let (one, two) = (client(&cluster), client(&cluster));
    let guard = one.lock("/lock/a").try_acquire().await.unwrap().expect("free");
    assert!(two.lock("/lock/a").try_acquire().await.unwrap().is_none());
    assert!(one.lock("/lock/a").try_acquire().await.unwrap().is_none());
    assert_eq!(cluster.keys("/lock/").await.unwrap(), [guard.key()]);
    drop(guard);
    // A client sees its own releases, dropped guards included.
    let again = one.lock("/lock/a").try_acquire().await.unwrap().expect("our own delete is on the way");
    again.release().await.unwrap();
}

#[tokio::test]
async fn a_wait_limit_ends_the_wait_and_withdraws_the_key() {
    let cluster = etcd().await;
    let (one, two) = (client(&cluster), client(&cluster));
    let guard = one.lock("/lock/a").acquire().await.unwrap();
    let error = two.lock("/lock/a").acquire_within(Duration::from_secs(2)).await.unwrap_err();
    assert_eq!(error.code(), Code::NotAcquired);
    assert!(error.message().contains(&guard.key()), "{error}");
    assert_eq!(cluster.keys("/lock/").await.unwrap(), [guard.key()]);
}

/// Seen to fail with the error of a request that has no answer, and with a late enqueue that nobody withdraws.
#[tokio::test]
async fn a_wait_limit_ends_the_wait_also_before_etcd_has_answered() {
    let cluster = etcd().await;
    let proxy = Proxy::start(cluster.address(0)).unwrap();
    let client = Client::new(format!("http://{}", proxy.address())).unwrap();
    client.ping().await.unwrap();
    // First it is the grant of the lease that has no answer, then the enqueue; on a busy machine, too, both are sent in time.
    for writes in [0, 1] {
        let (sent, before) = (proxy.bytes(Direction::ToServer), cluster.revision().await.unwrap());
        proxy.hold(Direction::ToClient);
        let error = client.lock("/lock/a").acquire_within(Duration::from_secs(1)).await.unwrap_err();
        assert_eq!(error.code(), Code::NotAcquired, "{error}");
        assert!(error.message().contains("before etcd had said"), "{error}");
        // What it did may have been taken back by now.
        assert!(proxy.bytes(Direction::ToServer) > sent);
        eventually("etcd has done its part", async || cluster.revision().await.unwrap() >= before + writes).await;
        proxy.pass();
        eventually("its key is gone", || async { cluster.keys("/lock/a/").await.unwrap().is_empty() }).await;
        client.lock("/lock/b").acquire().await.unwrap().release().await.unwrap();
    }
    client.close().await.unwrap();
    eventually("no lease is left", || async { cluster.leases().await.unwrap().is_empty() }).await;
}

#[tokio::test]
async fn a_dropped_acquire_withdraws_its_key() {
    let cluster = etcd().await;
    let (one, two) = (client(&cluster), client(&cluster));
    let guard = one.lock("/lock/a").acquire().await.unwrap();
    let waiter = tokio::spawn(async move { two.lock("/lock/a").acquire().await });
    eventually("the waiter is queued", || async { cluster.keys("/lock/").await.unwrap().len() == 2 }).await;
    waiter.abort();
    eventually("its key is gone", || async { cluster.keys("/lock/").await.unwrap() == [guard.key()] }).await;
}

#[tokio::test]
async fn the_same_holds_without_a_server() {
    let client = Client::new("memory://basics?ttl=5s").unwrap();
    let guard = client.lock("/lock/a").acquire().await.unwrap();
    assert!(client.lock("/lock/a").try_acquire().await.unwrap().is_none());
    let other = Client::new("memory://basics").unwrap();
    let waiter = tokio::spawn(async move { other.lock("/lock/a").acquire().await.unwrap().token() });
    eventually("two are queued", || async { client.lock("/lock/a").queue().await.unwrap().len() == 2 }).await;
    let token = guard.token();
    guard.release().await.unwrap();
    assert!(waiter.await.unwrap() > token);
    client.close().await.unwrap();
}
