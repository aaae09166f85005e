//! Waiters of one client take turns with one place.

use std::time::Duration;

use leasehold::{Code, LocalFirst};

use crate::{LONG, acquire, client, etcd, queued, revision, soon, waiting};

/// Seen to fail with a place for each waiter, and with a sequence that stands still.
#[tokio::test]
async fn waiters_of_a_client_share_one_place_in_the_order_in_which_they_came() {
    let cluster = etcd().await;
    let client = client(&cluster);
    let lock = client.lock("/lock/a").local_first();
    let first = lock.acquire().await.unwrap();
    assert_eq!(first.sequence(), 0);
    let mut waiters = Vec::new();
    for count in 1..=5 {
        waiters.push(acquire(&lock));
        waiting(&client, count).await;
    }
    queued(&cluster, 1).await;
    let before = revision(&cluster).await;
    let (token, key) = (first.token(), first.key());
    first.release().await.unwrap();
    for (sequence, waiter) in (1..).zip(waiters) {
        let guard = soon(waiter).await.unwrap().unwrap();
        assert_eq!((guard.token(), guard.sequence(), guard.key()), (token, sequence, key.clone()));
        assert!(guard.is_held());
        assert_eq!(revision(&cluster).await, before, "a hand-off in a client needs no etcd");
        guard.release().await.unwrap();
    }
    // Nobody waits: the place is given up.
    queued(&cluster, 0).await;
    let next = lock.acquire().await.unwrap();
    assert!(next.token() > token);
    assert_eq!(next.sequence(), 0);
}

/// Seen to fail with a place that goes with the caller who made it.
#[tokio::test]
async fn whoever_gives_up_waiting_leaves_the_place_to_the_others() {
    let cluster = etcd().await;
    let (one, two) = (client(&cluster), client(&cluster));
    let holder = one.lock("/lock/a").acquire().await.unwrap();
    let lock = two.lock("/lock/a").local_first();
    let first = acquire(&lock);
    queued(&cluster, 2).await;
    let keys = cluster.keys("/lock/a/").await.unwrap();
    let second = acquire(&lock);
    waiting(&two, 2).await;
    let limited = tokio::spawn(lock.acquire_within(Duration::from_millis(1)));
    let error = soon(limited).await.unwrap().unwrap_err();
    assert_eq!(error.code(), Code::NotAcquired, "{error}");
    assert!(error.message().contains("of this client"), "{error}");
    first.abort();
    waiting(&two, 1).await;
    assert_eq!(cluster.keys("/lock/a/").await.unwrap(), keys, "the place is the same");
    holder.release().await.unwrap();
    let guard = soon(second).await.unwrap().unwrap();
    assert_eq!(guard.sequence(), 0);
    guard.release().await.unwrap();
    queued(&cluster, 0).await;
}

/// Seen to fail with a try that waits, and with one that takes part in the order.
#[tokio::test]
async fn a_try_does_not_wait_for_others_of_its_client() {
    let cluster = etcd().await;
    let client = client(&cluster);
    let lock = client.lock("/lock/a").local_first();
    let guard = lock.try_acquire().await.unwrap().expect("free");
    assert!(lock.try_acquire().await.unwrap().is_none());
    assert!(client.lock("/lock/a").try_acquire().await.unwrap().is_none());
    guard.release().await.unwrap();
    let guard = lock.try_acquire().await.unwrap().expect("free again");
    drop(guard);
    assert!(lock.try_acquire().await.unwrap().is_some(), "it sees its own release");
}

/// Seen to fail with a place that is shared by all TTLs.
#[tokio::test]
async fn who_asks_for_something_else_has_a_place_of_its_own() {
    let cluster = etcd().await;
    let client = client(&cluster);
    let lock = client.lock("/lock/a").local_first();
    let holder = lock.acquire().await.unwrap();
    let plain = acquire(&client.lock("/lock/a"));
    queued(&cluster, 2).await;
    let ttl = acquire(&client.lock("/lock/a").local_first().ttl(Duration::from_secs(7)));
    queued(&cluster, 3).await;
    // It came later, but shares the place that is first.
    let turns = LocalFirst { turns: 2, time: LONG / 10 };
    let same = acquire(&client.lock("/lock/a").local_first_within(turns));
    waiting(&client, 3).await;
    let token = holder.token();
    holder.release().await.unwrap();
    let mut last = token;
    for (waiter, shares) in [(same, true), (plain, false), (ttl, false)] {
        let guard = soon(waiter).await.unwrap().unwrap();
        assert_eq!((guard.token() == last, guard.sequence()), (shares, u64::from(shares)));
        last = guard.token();
        guard.release().await.unwrap();
    }
}

/// Many tasks that cancel, try, wait and hold at random, in two clients.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crowd_of_all_kinds_overlaps_nowhere_and_leaves_nothing() {
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
    let cluster = etcd().await;
    let clients = [client(&cluster), client(&cluster)];
    let is_held: &'static AtomicBool = Box::leak(Box::default());
    let turns: &'static AtomicU64 = Box::leak(Box::default());
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..48_u64 {
        let client = clients[number as usize % 2].clone();
        tasks.spawn(async move {
            let mut random = fastrand::Rng::with_seed(number);
            for _ in 0..60 {
                let lock = client.lock("/lock/a");
                let lock = match random.u8(..6) {
                    0 => lock,
                    1 => lock.linger(Duration::from_millis(random.u64(1..20))),
                    2 => lock.local_first_within(LocalFirst { turns: 3, time: Duration::from_millis(5) }),
                    3 => lock.local_first().linger(Duration::from_millis(random.u64(1..20))),
                    _ => lock.local_first(),
                };
                let guard = match random.u8(..8) {
                    0 => lock.try_acquire().await.unwrap(),
                    1 => lock.acquire_within(Duration::from_millis(random.u64(1..10))).await.ok(),
                    2 => tokio::time::timeout(Duration::from_micros(random.u64(1..5_000)), lock.acquire())
                        .await
                        .ok()
                        .map(Result::unwrap),
                    _ => Some(lock.acquire().await.unwrap()),
                };
                let Some(guard) = guard else { continue };
                assert!(!is_held.swap(true, Ordering::SeqCst), "two owners");
                turns.fetch_add(1, Ordering::Relaxed);
                if random.bool() {
                    tokio::task::yield_now().await;
                }
                if random.u8(..8) == 0 {
                    guard.put("/data/x", "y").await.unwrap();
                }
                is_held.store(false, Ordering::SeqCst);
                if random.bool() { guard.release().await.unwrap() } else { drop(guard) }
            }
        });
    }
    let done = soon(tasks.join_all()).await;
    assert_eq!(done.len(), 48);
    assert!(turns.load(Ordering::Relaxed) > 1_000);
    queued(&cluster, 0).await;
    for client in clients {
        client.close().await.unwrap();
    }
    assert!(cluster.leases().await.unwrap().is_empty());
}
