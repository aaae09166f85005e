//! What becomes of a shared place when its key, its lease, its client or its engine goes.

use std::time::Duration;

use leasehold::{Code, End, LostReason};

use crate::{LONG, acquire, client, etcd, queued, soon, waiting};

/// Seen to fail with heirs that wait for a place that is gone, and with a policy that is not theirs.
#[tokio::test]
async fn a_key_that_is_deleted_ends_the_hold_and_its_heirs_queue_again_or_fail() {
    let cluster = etcd().await;
    let (client, operator) = (client(&cluster), client(&cluster));
    let lock = client.lock("/lock/a").local_first();
    let holder = lock.acquire().await.unwrap();
    let heir = acquire(&lock);
    waiting(&client, 1).await;
    let strict = acquire(&lock.clone().requeue(false));
    waiting(&client, 2).await;
    operator.lock("/lock/a").force_release(holder.token()).await.unwrap();
    assert_eq!(soon(holder.lost()).await, LostReason::KeyDeleted);
    let next = soon(heir).await.unwrap().unwrap();
    assert!(next.token() > holder.token());
    assert_eq!(next.sequence(), 0);
    let error = soon(strict).await.unwrap().unwrap_err();
    assert_eq!((error.code(), error.reason()), (Code::Lost, Some(LostReason::KeyDeleted)), "{error}");
    assert_eq!(holder.release().await.unwrap_err().code(), Code::Lost);
    next.release().await.unwrap();

    // The same while the place waits.
    let other = operator.lock("/lock/a").acquire().await.unwrap();
    let first = acquire(&lock);
    queued(&cluster, 2).await;
    let second = acquire(&lock);
    waiting(&client, 2).await;
    let token = operator.lock("/lock/a").queue().await.unwrap()[1].token;
    operator.lock("/lock/a").force_release(token).await.unwrap();
    let is_replaced = || async {
        let queue = operator.lock("/lock/a").queue().await.unwrap();
        queue.len() == 2 && queue[1].token > token
    };
    leasehold_etcd::eventually("it has another place", is_replaced).await;
    other.release().await.unwrap();
    let first = soon(first).await.unwrap().unwrap();
    assert!(!second.is_finished(), "the order inside is kept");
    first.release().await.unwrap();
    let second = soon(second).await.unwrap().unwrap();
    assert_eq!(second.sequence(), 1);
    second.release().await.unwrap();
    queued(&cluster, 0).await;
}

/// Seen to fail with a loan that nobody ends when its key goes.
#[tokio::test]
async fn a_place_that_lingers_and_is_deleted_is_not_taken() {
    let cluster = etcd().await;
    let (client, operator) = (client(&cluster), client(&cluster));
    let lock = client.lock("/lock/a").linger(LONG);
    for is_held in [false, true] {
        let guard = lock.acquire().await.unwrap();
        let token = guard.token();
        guard.release().await.unwrap();
        let held = if is_held { Some(lock.acquire().await.unwrap()) } else { None };
        operator.lock("/lock/a").force_release(token).await.unwrap();
        if let Some(held) = held {
            assert_eq!(soon(held.lost()).await, LostReason::KeyDeleted);
            assert!(!held.is_held());
            assert_eq!(held.release().await.unwrap_err().code(), Code::Lost);
        } else {
            // The watch tells in its own time: until then, nobody could know.
            let is_told = || async {
                let guard = lock.acquire().await.unwrap();
                let is_new = guard.token() > token;
                let _ = guard.release().await;
                is_new
            };
            leasehold_etcd::eventually("it is not taken any more", is_told).await;
        }
        let next = soon(lock.acquire()).await.unwrap();
        assert!(next.token() > token);
        next.release().await.unwrap();
        soon(operator.lock("/lock/a").acquire()).await.unwrap().release().await.unwrap();
    }
}

/// Seen to fail with a session that ends and leaves what it lent.
#[tokio::test]
async fn a_session_that_is_lost_takes_what_it_lent_and_heirs_queue_again() {
    let cluster = etcd().await;
    let client = client(&cluster);
    let lock = client.lock("/lock/a").local_first().linger(LONG);
    lock.acquire().await.unwrap().release().await.unwrap();
    let held = lock.acquire().await.unwrap();
    assert_eq!(held.sequence(), 1);
    let heir = acquire(&lock);
    waiting(&client, 1).await;
    cluster.ctl(&["lease", "revoke", &held.lease()]).await.unwrap();
    let reason = soon(held.lost()).await;
    assert!(matches!(reason, LostReason::LeaseRevoked | LostReason::KeyDeleted), "{reason:?}");
    let next = soon(heir).await.unwrap().unwrap();
    assert!(next.token() > held.token() && next.lease() != held.lease());
    next.release().await.unwrap();

    // Lent, and held by nobody.
    cluster.ctl(&["lease", "revoke", &lock.acquire().await.unwrap().lease()]).await.unwrap();
    let is_new = || async {
        let guard = lock.acquire().await.unwrap();
        let is_new = guard.lease() != held.lease() && guard.is_held();
        is_new && guard.release().await.is_ok()
    };
    leasehold_etcd::eventually("it is not taken any more", is_new).await;
}

/// Seen to fail with a deadline that is not looked at when the place is taken.
#[tokio::test]
async fn nobody_takes_a_place_whose_session_has_little_time_left() {
    let cluster = etcd().await;
    let client = client(&cluster);
    let lock = client.lock("/lock/a").linger(LONG);
    let guard = lock.acquire().await.unwrap();
    let ended = guard.ended();
    guard.release().await.unwrap();
    assert_eq!(soon(ended).await, End::Released);
    cluster.freeze(0).unwrap();
    // Renewals stay out: within the TTL nobody may hold by it any more.
    let mut refused = false;
    for _ in 0..100 {
        tokio::time::sleep(Duration::from_millis(100)).await;
        match lock.acquire_within(Duration::from_millis(50)).await {
            Ok(guard) => {
                assert!(guard.remaining() >= Duration::from_millis(700), "{:?}", guard.remaining());
                assert!(!refused, "it comes to life again");
                guard.release().await.unwrap();
            }
            Err(_) => refused = true,
        }
    }
    assert!(refused);
    cluster.thaw(0).unwrap();
    soon(lock.acquire()).await.unwrap().release().await.unwrap();
}

/// Seen to fail with a client that closes and leaves what it lent.
#[tokio::test]
async fn closing_ends_what_is_lent_and_tells_whoever_holds_or_waits() {
    let cluster = etcd().await;
    for (is_held, waits) in [(false, false), (true, false), (true, true)] {
        let client = client(&cluster);
        let lock = client.lock("/lock/a").local_first().linger(LONG);
        lock.acquire().await.unwrap().release().await.unwrap();
        let held = if is_held { Some(lock.acquire().await.unwrap()) } else { None };
        let heir = if waits { Some(acquire(&lock)) } else { None };
        waiting(&client, i64::from(waits)).await;
        client.close().await.unwrap();
        if let Some(held) = held {
            assert_eq!(soon(held.lost()).await, LostReason::ClientClosed);
            assert_eq!(held.release().await.unwrap_err().code(), Code::Lost);
        }
        if let Some(heir) = heir {
            assert_eq!(soon(heir).await.unwrap().unwrap_err().code(), Code::Closed);
        }
        assert_eq!(lock.acquire().await.unwrap_err().code(), Code::Closed);
        assert!(cluster.keys("/lock/").await.unwrap().is_empty() && cluster.leases().await.unwrap().is_empty());
    }
}

/// Seen to fail with a client that lives as long as something of it lingers.
#[tokio::test]
async fn nothing_lingers_when_the_last_handle_is_gone() {
    let cluster = etcd().await;
    {
        let client = client(&cluster);
        let lock = client.lock("/lock/a").linger(LONG);
        lock.acquire().await.unwrap().release().await.unwrap();
        let guard = lock.acquire().await.unwrap();
        drop((client, lock));
        assert!(guard.is_held(), "the guard keeps its client");
        queued(&cluster, 1).await;
    }
    queued(&cluster, 0).await;
    leasehold_etcd::eventually("no lease is left", || async { cluster.leases().await.unwrap().is_empty() }).await;
}
