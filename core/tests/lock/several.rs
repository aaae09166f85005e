//! Several names in one acquire: all of them or none, in one transaction, without a deadlock.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use leasehold::{All, Client, Code, LostReason};
use leasehold_etcd::{Cluster, eventually};

use crate::support::{client, etcd, soon};

fn all<const N: usize>(client: &Client, names: [&str; N]) -> All {
    client.all(names.map(|name| client.lock(name)))
}

async fn nothing_is_left(cluster: &Cluster) {
    eventually("nothing is left", || async { cluster.keys("/").await.unwrap().is_empty() }).await;
}

/// Seen to fail with a transaction for each name, in and out.
#[tokio::test]
async fn all_names_are_put_and_left_by_one_transaction() {
    let cluster = etcd().await;
    let client = client(&cluster);
    client.lock("/warm").acquire().await.unwrap().release().await.unwrap();
    let revision = cluster.revision().await.unwrap();
    let guard = all(&client, ["/c", "/a", "/b"]).acquire().await.unwrap();
    assert_eq!(cluster.revision().await.unwrap(), revision + 1);
    assert_eq!(guard.token(), revision + 1);
    let keys = guard.keys();
    assert!(keys[0].starts_with("/c/") && keys[1].starts_with("/a/") && keys[2].starts_with("/b/"), "{keys:?}");
    assert_eq!((guard.key(), guard.name()), (keys[0].clone(), "/c"));
    for name in ["/a", "/b", "/c"] {
        assert!(client.lock(name).try_acquire().await.unwrap().is_none(), "{name}");
    }
    guard.put("/data", "written").await.unwrap();
    for key in ["/a/x", "/b/x", "/c/x"] {
        assert_eq!(guard.put(key, "").await.unwrap_err().code(), Code::InvalidArgument, "{key}");
    }
    let revision = cluster.revision().await.unwrap();
    guard.release().await.unwrap();
    assert_eq!(cluster.revision().await.unwrap(), revision + 1);
    assert_eq!(cluster.keys("/").await.unwrap(), ["/data"]);
}

/// Seen to fail with a try that keeps what it got.
#[tokio::test]
async fn a_try_and_a_limit_take_all_or_nothing() {
    let cluster = etcd().await;
    let [one, two] = [client(&cluster), client(&cluster)];
    let taken = one.lock("/b").acquire().await.unwrap();
    let revision = cluster.revision().await.unwrap();
    let wanted = || two.all([two.lock("/a"), two.lock("/b").shared(), two.semaphore("/c", 2)]);
    assert!(wanted().try_acquire().await.unwrap().is_none());
    assert_eq!(cluster.revision().await.unwrap(), revision, "it wrote nothing");
    let error = wanted().acquire_within(Duration::from_millis(500)).await.unwrap_err();
    assert_eq!(error.code(), Code::NotAcquired);
    assert!(error.message().contains("\"/b\"") && error.message().contains(&taken.key()), "{error}");
    assert_eq!(cluster.keys("/").await.unwrap(), [taken.key()]);
    taken.release().await.unwrap();
    let reader = one.lock("/b").shared().acquire().await.unwrap();
    // A nested name is nobody's obstacle, and a reader none to another.
    let nested = one.lock("/a/nested").acquire().await.unwrap();
    let guard = wanted().try_acquire().await.unwrap().expect("all can be had");
    drop((reader, nested, guard));
    nothing_is_left(&cluster).await;
}

/// What is admitted stays admitted while the rest is awaited, and whoever comes later waits for all of it.
#[tokio::test]
async fn a_name_whose_turn_has_come_stays_ours_while_we_wait_for_the_others() {
    let cluster = etcd().await;
    let [one, two] = [client(&cluster), client(&cluster)];
    let taken = one.lock("/b").acquire().await.unwrap();
    let waiter = tokio::spawn(all(&two, ["/a", "/b"]).acquire());
    eventually("it stands in both queues", || async { cluster.keys("/").await.unwrap().len() == 3 }).await;
    assert!(one.lock("/a").try_acquire().await.unwrap().is_none());
    taken.release().await.unwrap();
    soon(waiter).await.unwrap().unwrap().release().await.unwrap();
    nothing_is_left(&cluster).await;
}

/// Seen to fail with a guard that goes on with the names that are left.
#[tokio::test]
async fn whatever_takes_one_name_takes_all() {
    let cluster = etcd().await;
    let [one, two] = [client(&cluster), client(&cluster)];
    let guard = all(&one, ["/a", "/b"]).acquire().await.unwrap();
    // A guard is watched when it has been held for a moment.
    tokio::time::sleep(Duration::from_secs(2)).await;
    two.lock("/b").force_release(guard.token()).await.unwrap();
    assert_eq!(soon(guard.lost()).await, LostReason::KeyDeleted);
    assert_eq!(guard.put("/data", "x").await.unwrap_err().code(), Code::Lost);
    soon(all(&two, ["/a", "/b"]).acquire()).await.unwrap().release().await.unwrap();
    // So it is for whoever waits: it stands at the end of all queues, or fails.
    let taken = one.lock("/b").acquire().await.unwrap();
    for requeue in [true, false] {
        let waiter = tokio::spawn(all(&two, ["/a", "/b"]).requeue(requeue).acquire());
        eventually("it stands in both queues", || async { cluster.keys("/").await.unwrap().len() == 3 }).await;
        let token = one.lock("/a").queue().await.unwrap()[0].token;
        one.lock("/a").force_release(token).await.unwrap();
        if requeue {
            let again = || async { one.lock("/a").queue().await.unwrap().iter().any(|it| it.token > token) };
            eventually("it stands there again", again).await;
            assert_eq!(one.lock("/b").queue().await.unwrap().len(), 2, "and once only");
            waiter.abort();
        } else {
            let error = soon(waiter).await.unwrap().unwrap_err();
            assert_eq!((error.code(), error.reason()), (Code::Lost, Some(LostReason::KeyDeleted)), "{error}");
        }
        eventually("only the holder is left", || async { cluster.keys("/").await.unwrap() == [taken.key()] }).await;
    }
}

/// Seen to fail with names that are taken one after the other.
#[tokio::test(flavor = "multi_thread")]
async fn names_in_any_order_never_deadlock() {
    let cluster = etcd().await;
    let clients = [(); 4].map(|()| client(&cluster));
    let held: Arc<[AtomicUsize; 5]> = Arc::default();
    let tasks = (0..16_usize).map(|task| {
        let (client, held) = (clients[task % 4].clone(), held.clone());
        tokio::spawn(async move {
            let mut rng = fastrand::Rng::with_seed(task as u64);
            for _ in 0..20 {
                let mut names: Vec<usize> = (0..5).collect();
                rng.shuffle(&mut names);
                names.truncate(rng.usize(2..=5));
                let locks = names.iter().map(|name| client.lock(&format!("/{name}")));
                let guard = client.all(locks).acquire_within(Duration::from_secs(60)).await.unwrap();
                for name in &names {
                    assert_eq!(held[*name].fetch_add(1, Ordering::SeqCst), 0);
                }
                tokio::task::yield_now().await;
                for name in &names {
                    held[*name].fetch_sub(1, Ordering::SeqCst);
                }
                guard.release().await.unwrap();
            }
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await.unwrap();
    }
    nothing_is_left(&cluster).await;
}

#[tokio::test]
async fn thirty_two_names_are_taken_at_once_and_bad_lists_are_refused_at_the_door() {
    let cluster = etcd().await;
    let [one, other] = [client(&cluster), client(&cluster)];
    let names = |count| (0..count).map(|n| one.lock(&format!("/{n}")));
    let guard = one.all(names(32)).acquire().await.unwrap();
    assert_eq!(guard.keys().len(), 32);
    guard.release().await.unwrap();
    let guard = one.all(names(32)).try_acquire().await.unwrap().expect("free");
    drop(guard);
    nothing_is_left(&cluster).await;
    let revision = cluster.revision().await.unwrap();
    let bad = [
        one.all(names(0)),
        one.all(names(33)),
        all(&one, ["/a", "/b", "/a"]),
        one.all([one.lock("/a"), one.lock("/a").shared()]),
        one.all([one.lock("/a"), other.lock("/b")]),
        one.all([one.lock("/a"), one.lock("/b").ttl(Duration::from_secs(9))]),
        one.all([one.lock("/a"), one.semaphore("/b", 0)]),
        one.all([one.lock("/a"), one.lock("")]),
    ];
    for all in bad {
        assert_eq!(all.acquire().await.unwrap_err().code(), Code::InvalidArgument, "{all:?}");
    }
    assert_eq!(cluster.revision().await.unwrap(), revision);
}

/// Seen to fail with a mismatch that leaves the other name's key.
#[tokio::test]
async fn a_mismatch_of_one_name_leaves_none() {
    let cluster = etcd().await;
    let [one, two] = [client(&cluster), client(&cluster)];
    let reader = one.lock("/b").shared().acquire().await.unwrap();
    for limit in [None, Some(Duration::ZERO)] {
        let wanted = two.all([two.lock("/a"), two.semaphore("/b", 2)]);
        let refused = match limit {
            Some(limit) => soon(wanted.acquire_within(limit)).await,
            None => soon(wanted.acquire()).await,
        };
        let error = refused.unwrap_err();
        assert_eq!(error.code(), Code::LimitMismatch, "{error}");
        assert!(error.message().contains("\"/b\""), "{error}");
        assert_eq!(cluster.keys("/").await.unwrap(), [reader.key()]);
    }
}
