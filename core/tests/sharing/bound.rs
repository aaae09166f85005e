//! How long others wait for those that share a place.

use std::time::{Duration, Instant};

use leasehold::{Client, LocalFirst};
use leasehold_etcd::{Cluster, on_every_version};

use crate::{LONG, acquire, client, etcd, queued, soon, waiting};

/// Two that take turns without end until they are told to stop.
fn busy(client: &Client, bound: LocalFirst) -> tokio::task::JoinSet<()> {
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..8 {
        let lock = client.lock("/lock/a").local_first_within(bound);
        tasks.spawn(async move {
            while let Ok(guard) = lock.acquire().await {
                tokio::task::yield_now().await;
                if guard.release().await.is_err() {
                    return;
                }
            }
        });
    }
    tasks
}

/// Seen to fail with a bound on turns that is not looked at.
#[tokio::test]
async fn after_so_many_turns_it_is_the_turn_of_whoever_waits_elsewhere() {
    let cluster = etcd().await;
    let (one, two) = (client(&cluster), client(&cluster));
    let lock = one.lock("/lock/a").local_first_within(LocalFirst { turns: 3, time: LONG / 10 });
    let first = lock.acquire().await.unwrap();
    let token = first.token();
    let mut waiters = Vec::new();
    for count in 1..=5 {
        waiters.push(acquire(&lock));
        waiting(&one, count).await;
    }
    let other = acquire(&two.lock("/lock/a"));
    queued(&cluster, 2).await;
    first.release().await.unwrap();
    let mut waiters = waiters.into_iter();
    for sequence in 1..=2 {
        let guard = soon(waiters.next().unwrap()).await.unwrap().unwrap();
        assert_eq!((guard.token(), guard.sequence()), (token, sequence));
        guard.release().await.unwrap();
    }
    // Three turns were taken. The rest queue behind the other one, with a place of their own.
    let other = soon(other).await.unwrap().unwrap();
    queued(&cluster, 2).await;
    assert!(waiters.as_slice().iter().all(|waiter| !waiter.is_finished()));
    let between = other.token();
    other.release().await.unwrap();
    for sequence in 0..=2 {
        let guard = soon(waiters.next().unwrap()).await.unwrap().unwrap();
        assert!(guard.token() > between);
        assert_eq!(guard.sequence(), sequence);
        guard.release().await.unwrap();
    }
    queued(&cluster, 0).await;
}

/// Seen to fail with a bound in time that is not looked at.
#[tokio::test]
async fn after_so_much_time_it_is_the_turn_of_whoever_waits_elsewhere() {
    let cluster = etcd().await;
    let (one, two) = (client(&cluster), client(&cluster));
    let bound = LocalFirst { turns: u32::MAX, time: Duration::from_millis(100) };
    let tasks = busy(&one, bound);
    for _ in 0..20 {
        // The bound, the hold that goes on meanwhile, and time for a busy machine.
        let guard = tokio::time::timeout(Duration::from_secs(5), two.lock("/lock/a").acquire()).await;
        guard.expect("its turn comes within the bound").unwrap().release().await.unwrap();
    }
    drop(tasks);
}

/// Seen to fail with a client that never looks who else stands in the queue.
#[tokio::test]
async fn foreign_clients_get_their_turn_on_every_version() {
    on_every_version(|version| async move {
        let cluster =
            Cluster::builder().version(version).storage(leasehold_etcd::Storage::Memory).start().await.unwrap();
        let one = client(&cluster);
        let tasks = busy(&one, LocalFirst::default());
        for _ in 0..5 {
            let begun = Instant::now();
            let echo = cluster.ctl(&["lock", "/lock/a", "echo", "mine"]);
            let said = tokio::time::timeout(Duration::from_secs(20), echo).await.expect("its turn comes").unwrap();
            assert!(said.contains("mine"), "etcd {version}: {said}");
            println!("etcd {version}: etcdctl lock had its turn after {:?}", begun.elapsed());
        }
        drop(tasks);
    })
    .await;
}

/// Seen to fail with a linger that looks at nobody.
#[tokio::test]
async fn a_place_that_lingers_goes_as_soon_as_anybody_else_stands_in_the_queue() {
    let cluster = etcd().await;
    let (one, two) = (client(&cluster), client(&cluster));
    two.lock("/lock/warm").acquire().await.unwrap().release().await.unwrap();
    let lock = one.lock("/lock/a").linger(LONG);
    for _ in 0..20 {
        let guard = lock.acquire().await.unwrap();
        guard.release().await.unwrap();
        let guard = lock.acquire().await.unwrap();
        guard.release().await.unwrap();
        soon(two.lock("/lock/a").acquire()).await.unwrap().release().await.unwrap();
    }
    // Also while it is held.
    let held = lock.acquire().await.unwrap();
    let other = acquire(&two.lock("/lock/a"));
    queued(&cluster, 2).await;
    held.release().await.unwrap();
    soon(other).await.unwrap().unwrap().release().await.unwrap();
    // And where it was taken and given back without a word to the engine in between.
    let held = lock.acquire().await.unwrap();
    held.release().await.unwrap();
    let held = lock.acquire().await.unwrap();
    assert!(held.sequence() > 0);
    let other = acquire(&two.lock("/lock/a"));
    queued(&cluster, 2).await;
    held.release().await.unwrap();
    soon(other).await.unwrap().unwrap().release().await.unwrap();
}
