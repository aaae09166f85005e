//! A place that stays after a release.

use std::time::Duration;

use leasehold_etcd::eventually;

use crate::{LONG, acquire, client, etcd, queued, revision, soon, waiting};

/// Seen to fail with a place that is given up at each release.
#[tokio::test]
async fn the_next_acquire_needs_no_request() {
    let cluster = etcd().await;
    let client = client(&cluster);
    let lock = client.lock("/lock/a").linger(LONG);
    let first = lock.acquire().await.unwrap();
    let (token, key, lease) = (first.token(), first.key(), first.lease());
    first.release().await.unwrap();
    let before = revision(&cluster).await;
    for sequence in 1..=30 {
        let guard = match sequence % 4 {
            0 => lock.acquire().await.unwrap(),
            1 => lock.acquire_within(LONG).await.unwrap(),
            2 => lock.try_acquire().await.unwrap().expect("it is ours"),
            _ => client.lock("/lock/a").local_first().linger(LONG).acquire().await.unwrap(),
        };
        assert_eq!((guard.token(), guard.sequence()), (token, sequence));
        assert_eq!((guard.key(), guard.lease()), (key.clone(), lease.clone()));
        assert!(guard.is_held() && !guard.remaining().is_zero());
        match sequence % 3 {
            0 => drop(guard),
            _ => guard.release().await.unwrap(),
        }
    }
    assert_eq!(revision(&cluster).await, before);
    queued(&cluster, 1).await;
    let held = lock.acquire().await.unwrap();
    assert_eq!(held.sequence(), 31);
    held.extend(Duration::from_secs(5)).await.unwrap();
    held.put("/data/x", "y").await.unwrap();
    held.release().await.unwrap();
    client.close().await.unwrap();
    assert!(cluster.keys("/lock/").await.unwrap().is_empty() && cluster.leases().await.unwrap().is_empty());
}

/// Seen to fail with a place that stays until the client is closed, and with one whose time does not begin anew.
#[tokio::test]
async fn it_goes_when_nobody_has_taken_it_for_so_long() {
    let cluster = etcd().await;
    let client = client(&cluster);
    let lock = client.lock("/lock/a").linger(Duration::from_millis(1_500));
    lock.acquire().await.unwrap().release().await.unwrap();
    let mut last = 0;
    for _ in 0..10 {
        tokio::time::sleep(Duration::from_millis(300)).await;
        let guard = lock.acquire().await.unwrap();
        last = last.max(guard.sequence());
        guard.release().await.unwrap();
    }
    assert!(last > 3, "its time begins anew at each release");
    queued(&cluster, 0).await;
    // A hold that asked for no such thing ends it.
    lock.acquire().await.unwrap().release().await.unwrap();
    queued(&cluster, 1).await;
    client.lock("/lock/a").local_first().acquire().await.unwrap().release().await.unwrap();
    queued(&cluster, 0).await;
}

/// Seen to fail with a client that shares with whoever did not ask for it, and with one that waits for its own place.
#[tokio::test]
async fn whoever_does_not_share_gets_a_place_of_its_own_at_once() {
    let cluster = etcd().await;
    let client = client(&cluster);
    let lock = client.lock("/lock/a").linger(LONG);
    for turn in 0..20 {
        let lingering = lock.acquire().await.unwrap();
        let token = lingering.token();
        lingering.release().await.unwrap();
        let plain = client.lock("/lock/a");
        let guard = match turn % 4 {
            0 => soon(plain.acquire()).await.unwrap(),
            1 => soon(plain.try_acquire()).await.unwrap().expect("it sees its own releases"),
            2 => soon(plain.renew(false).try_acquire()).await.unwrap().expect("it sees its own releases"),
            _ => soon(client.lock("/lock/a").linger(LONG).ttl(Duration::from_secs(7)).try_acquire())
                .await
                .unwrap()
                .expect("it sees its own releases"),
        };
        assert!(guard.token() > token);
        assert_eq!(guard.sequence(), 0);
        guard.release().await.unwrap();
    }
}

/// Seen to fail with a place that is taken by two at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn threads_that_take_it_at_once_wait_for_one_another() {
    use std::sync::atomic::{AtomicBool, Ordering};
    let cluster = etcd().await;
    let client = client(&cluster);
    let is_held = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for number in 0..4_u32 {
            let lock = client.lock("/lock/a").linger(LONG);
            let lock = if number % 2 == 0 { lock.local_first() } else { lock };
            let is_held = &is_held;
            scope.spawn(move || {
                for turn in 0..500 {
                    let guard = lock.blocking_acquire().unwrap();
                    assert!(!is_held.swap(true, Ordering::SeqCst), "two owners");
                    std::hint::spin_loop();
                    is_held.store(false, Ordering::SeqCst);
                    if turn % 2 == 0 { drop(guard) } else { guard.blocking_release().unwrap() }
                }
            });
        }
    });
    client.close().await.unwrap();
    assert!(cluster.keys("/lock/").await.unwrap().is_empty());
}

/// Seen to fail with a heir that is not told when a hold is released without the engine.
#[tokio::test]
async fn whoever_waits_for_a_hold_that_the_engine_was_not_asked_for_gets_it() {
    let cluster = etcd().await;
    let client = client(&cluster);
    let lock = client.lock("/lock/a").local_first().linger(LONG);
    lock.acquire().await.unwrap().release().await.unwrap();
    let before = revision(&cluster).await;
    let held = lock.acquire().await.unwrap();
    let waiter = acquire(&lock);
    waiting(&client, 1).await;
    held.release().await.unwrap();
    let next = soon(waiter).await.unwrap().unwrap();
    assert_eq!(next.sequence(), 2);
    next.release().await.unwrap();
    let again = lock.acquire().await.unwrap();
    assert_eq!((again.sequence(), revision(&cluster).await), (3, before));
}

/// Seen to fail with an engine that forgets what it lent.
#[tokio::test]
async fn metrics_count_what_the_engine_was_not_asked_for() {
    let cluster = etcd().await;
    let client = client(&cluster);
    let lock = client.lock("/lock/a").linger(LONG);
    for _ in 0..10 {
        lock.acquire().await.unwrap().release().await.unwrap();
    }
    let text = client.metrics().to_string();
    for line in [
        "leasehold_acquire_seconds_count{outcome=\"ok\"} 10",
        "leasehold_hold_seconds_count 10",
        "leasehold_held 0",
        "leasehold_waiting 0",
    ] {
        eventually(line, || async { client.metrics().to_string().contains(line) }).await;
    }
    assert!(text.contains("leasehold_requests_total{request=\"txn\",outcome=\"ok\"} 1\n"), "{text}");
}
