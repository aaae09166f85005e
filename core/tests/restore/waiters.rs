//! What becomes of those who wait, in the holder's client and in others.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use leasehold::{Client, ClientOptions, LostReason};
use leasehold_etcd::{Backup, Cluster, Past, eventually};
use tokio::{
    sync::mpsc,
    time::{sleep, timeout},
};

use crate::{Counted, MOST_WRITES, SERVED, client, etcd, expect_loss, set_back, soon, warm_up};

/// When the backup is made.
#[derive(Clone, Copy, PartialEq)]
enum Made {
    /// Before any client was there.
    BeforeLeases,
    /// When all had a lease and nobody had queued.
    BeforeKeys,
    /// When the holder held.
    BeforeWaiters,
    /// When all waited.
    Last,
    /// Never: all is gone.
    Never,
}

/// A holder and waiters of three clients, two each; etcd goes back; all are served, one after the other and in the order of their
/// tokens, and the holder is told.
async fn play(made: Made) {
    const EACH: usize = 2;
    let cluster = etcd().await;
    let mut backup: Option<Backup> = None;
    let mut save = async |cluster: &Cluster, now: Made| {
        if now == made {
            backup = Some(cluster.backup().await.unwrap());
        }
    };
    save(&cluster, Made::BeforeLeases).await;
    let clients: Vec<(Client, Arc<Counted>)> = (0..3).map(|_| client(&cluster)).collect();
    for (client, _) in &clients {
        warm_up(client).await;
    }
    save(&cluster, Made::BeforeKeys).await;
    let guard = clients[0].0.lock("/lock/a").acquire().await.unwrap();
    save(&cluster, Made::BeforeWaiters).await;
    let (is_owned, (served, mut tokens)) = (Arc::new(AtomicBool::new(false)), mpsc::unbounded_channel());
    for number in 0..EACH * clients.len() {
        let (client, is_owned, served) = (clients[number % 3].0.clone(), is_owned.clone(), served.clone());
        tokio::spawn(async move {
            let guard = client.lock("/lock/a").acquire().await.expect("every waiter is served");
            assert!(!is_owned.swap(true, Ordering::SeqCst), "two owners");
            sleep(Duration::from_millis(50)).await;
            assert!(guard.is_held(), "the new ones keep it");
            assert!(is_owned.swap(false, Ordering::SeqCst), "two owners");
            served.send((number, guard.token())).unwrap();
            guard.release().await.expect("held");
        });
        let queued = || async { cluster.keys("/lock/a/").await.unwrap().len() == number + 2 };
        eventually("it is queued", queued).await;
    }
    save(&cluster, Made::Last).await;
    // So that everybody has seen more than the backup has, and so much more that those who are back first, and write again, do not
    // pass it: to whom they do, and whose key the backup has, etcd is as it was, and it rightly goes on.
    let (stranger, _) = client(&cluster);
    for _ in 0..MOST_WRITES {
        warm_up(&stranger).await;
    }
    stranger.close().await.unwrap();
    for (client, _) in &clients {
        warm_up(client).await;
    }
    let past = backup.as_ref().map_or(Past::Nothing, Past::Backup);
    let back = set_back(&cluster, past).await;
    let holder = expect_loss(&guard, back);
    let all = async {
        let mut order = Vec::new();
        for _ in 0..EACH * clients.len() {
            order.push(tokens.recv().await.expect("served"));
        }
        order
    };
    let (reason, order) =
        tokio::join!(holder, async { timeout(SERVED, all).await.expect("all are served again in time") });
    println!("all served {:?} after etcd's return: {order:?}", back.elapsed());
    assert_eq!(reason, LostReason::StoreRestored);
    assert!(order.is_sorted_by_key(|(_, token)| *token), "out of order: {order:?}");
    for (number, (client, writes)) in clients.iter().enumerate() {
        let most = writes.most_writes();
        assert!(most <= MOST_WRITES, "client {number} wrote {most} times in a second");
        client.close().await.unwrap();
    }
    assert_eq!(cluster.keys("/lock/").await.unwrap(), Vec::<String>::new());
    assert_eq!(cluster.leases().await.unwrap(), Vec::<String>::new(), "what the backup brought back is gone");
}

#[tokio::test]
async fn the_backup_knows_nobody() {
    play(Made::BeforeLeases).await;
}

#[tokio::test]
async fn the_backup_has_leases_and_no_keys() {
    play(Made::BeforeKeys).await;
}

#[tokio::test]
async fn the_backup_has_the_holder_and_no_waiters() {
    play(Made::BeforeWaiters).await;
}

#[tokio::test]
async fn the_backup_has_all() {
    play(Made::Last).await;
}

#[tokio::test]
async fn nothing_is_left() {
    play(Made::Never).await;
}

/// The backup was made while a client held that does nothing any more but renew its lease. Seen to fail with clients that ask only
/// where they hold or wait: the key came back and stood until the second routine sweep.
#[tokio::test]
async fn a_key_that_comes_back_of_an_idle_client_blocks_nobody() {
    let cluster = etcd().await;
    let (next, _) = client(&cluster);
    // Renewed every second, and so connected after the first.
    let idle = ClientOptions::new(cluster.endpoint(0)).ttl(Duration::from_secs(3)).build().unwrap();
    let guard = idle.lock("/lock/a").acquire().await.unwrap();
    let backup = cluster.backup().await.unwrap();
    guard.release().await.unwrap();
    // The next one's few writes must not hide from it that etcd went back: whom they do waits for the second routine sweep.
    for _ in 0..MOST_WRITES {
        warm_up(&next).await;
    }
    // It has renewed then, and so seen all that, and its queue is forgotten.
    sleep(Duration::from_millis(1500)).await;
    let back = set_back(&cluster, Past::Backup(&backup)).await;
    let left = SERVED.saturating_sub(back.elapsed());
    let guard = timeout(left, next.lock("/lock/a").acquire()).await.expect("served in time").unwrap();
    guard.release().await.unwrap();
    idle.close().await.unwrap();
}

/// Three clients that take the lock again and again get it again and again, all of them.
#[tokio::test]
async fn three_clients_go_on_taking_turns() {
    let cluster = etcd().await;
    let clients: Vec<_> = (0..3).map(|_| client(&cluster)).collect();
    for (client, _) in &clients {
        warm_up(client).await;
    }
    let backup = cluster.backup().await.unwrap();
    let turns: Arc<[AtomicUsize; 3]> = Arc::default();
    let stop = Arc::new(AtomicBool::new(false));
    let mut tasks = Vec::new();
    for (number, (client, _)) in clients.iter().enumerate() {
        let (client, turns, stop) = (client.clone(), turns.clone(), stop.clone());
        tasks.push(tokio::spawn(async move {
            while !stop.load(Ordering::Relaxed) {
                let Ok(guard) = client.lock("/lock/a").acquire().await else { continue };
                sleep(Duration::from_millis(20)).await;
                turns[number].fetch_add(1, Ordering::Relaxed);
                let _ = guard.release().await;
            }
        }));
    }
    let counts = || turns.each_ref().map(|count| count.load(Ordering::Relaxed));
    eventually("all have turns", || async { counts().iter().all(|count| *count >= 5) }).await;
    let back = set_back(&cluster, Past::Backup(&backup)).await;
    let before = counts();
    let all = || async { counts().iter().zip(before).all(|(now, before)| *now >= before + 5) };
    eventually("all have turns again", all).await;
    assert!(back.elapsed() < SERVED, "after {:?}", back.elapsed());
    stop.store(true, Ordering::Relaxed);
    let started = Instant::now();
    for task in tasks {
        soon(task).await.unwrap();
    }
    assert!(started.elapsed() < SERVED);
}
