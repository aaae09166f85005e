//! Read-write locks and semaphores: who is admitted beside whom, and in which order.

use std::time::Duration;

use leasehold::{Claim, Client, Code, Guard, Lock, Result};
use leasehold_etcd::{Cluster, eventually, undisturbed};
use tokio::task::JoinHandle;

use crate::support::{client, etcd, soon};

/// Starts an acquire and waits until it stands in the queue.
async fn queued(cluster: &Cluster, lock: Lock) -> JoinHandle<Result<Guard>> {
    let before = cluster.keys("/").await.unwrap().len();
    let waiter = tokio::spawn(lock.acquire());
    eventually("it stands in the queue", || async { cluster.keys("/").await.unwrap().len() > before }).await;
    waiter
}

async fn is_waiting(waiter: &JoinHandle<Result<Guard>>) -> bool {
    tokio::time::sleep(Duration::from_millis(100)).await;
    !waiter.is_finished()
}

async fn won(waiter: JoinHandle<Result<Guard>>) -> Guard {
    soon(waiter).await.unwrap().unwrap()
}

async fn leave_nothing(cluster: &Cluster, clients: &[&Client]) {
    eventually("nothing is left", || async { cluster.keys("/").await.unwrap().is_empty() }).await;
    for client in clients {
        client.close().await.unwrap();
    }
    assert!(cluster.leases().await.unwrap().is_empty());
}

/// Seen to fail with a reader that looks only at who holds.
#[tokio::test]
async fn readers_hold_together_and_wait_for_a_writer_that_came_before() {
    let cluster = etcd().await;
    let [one, two] = [client(&cluster), client(&cluster)];
    let first = one.lock("/lock/a").shared().acquire().await.unwrap();
    let second = soon(two.lock("/lock/a").shared().acquire()).await.unwrap();
    assert!(first.key().ends_with('r') && second.token() > first.token());
    let writer = queued(&cluster, two.lock("/lock/a")).await;
    let late = queued(&cluster, one.lock("/lock/a").shared()).await;
    assert!(is_waiting(&writer).await && is_waiting(&late).await);
    assert!(one.lock("/lock/a").shared().try_acquire().await.unwrap().is_none(), "a writer waits");
    first.release().await.unwrap();
    assert!(is_waiting(&writer).await);
    second.release().await.unwrap();
    let writer = won(writer).await;
    assert!(is_waiting(&late).await);
    let told: Vec<_> = one.lock("/lock/a").queue().await.unwrap();
    let told: Vec<_> = told.iter().map(|contender| (contender.claim, contender.is_holder)).collect();
    assert_eq!(told, [(Claim::Exclusive, true), (Claim::Shared, false)]);
    let token = writer.token();
    writer.release().await.unwrap();
    let late = won(late).await;
    assert!(late.token() > token);
    late.release().await.unwrap();
    leave_nothing(&cluster, &[&one, &two]).await;
}

/// Seen to fail with a glance of eight keys for readers, too.
#[tokio::test]
async fn a_hundred_readers_need_a_request_each() {
    let cluster = etcd().await;
    let clients: Vec<Client> = (0..20).map(|_| client(&cluster)).collect();
    for client in &clients {
        client.lock("/warm").acquire().await.unwrap().release().await.unwrap();
    }
    let requests = |clients: &[Client]| -> u64 { clients.iter().map(transactions).sum() };
    let (cluster, clients) = (&cluster, &clients);
    undisturbed(|round| async move {
        let (name, before, revision) = (format!("/lock/{round}"), requests(clients), cluster.revision().await.unwrap());
        let readers = (0..100).map(|n| tokio::spawn(clients[n % 20].lock(&name).shared().acquire()));
        let readers: Vec<_> = readers.collect();
        let mut guards = Vec::new();
        for reader in readers {
            guards.push(won(reader).await);
        }
        let asked = requests(clients) - before;
        assert_eq!(cluster.revision().await.unwrap() - revision, 100);
        for guard in guards {
            guard.release().await.unwrap();
        }
        if asked == 100 { Ok(()) } else { Err(format!("{asked} requests for 100 readers")) }
    })
    .await;
}

/// Transactions and reads that a client has sent.
fn transactions(client: &Client) -> u64 {
    let metrics = client.metrics().to_string();
    let lines = metrics.lines().filter(|line| line.starts_with("leasehold_requests_total"));
    let counted = lines.filter(|line| line.contains("txn") || line.contains("range"));
    counted.map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap() as u64).sum()
}

/// Seen to fail with a count of those that hold instead of all ahead.
#[tokio::test]
async fn permits_are_given_in_order_up_to_the_limit() {
    let cluster = etcd().await;
    let [one, two] = [client(&cluster), client(&cluster)];
    let first = one.semaphore("/lock/s", 3).acquire().await.unwrap();
    let second = soon(two.semaphore("/lock/s", 3).acquire()).await.unwrap();
    assert!(second.key().ends_with("p1.3"));
    let large = queued(&cluster, one.semaphore("/lock/s", 3).permits(2)).await;
    let small = queued(&cluster, two.semaphore("/lock/s", 3)).await;
    assert!(is_waiting(&large).await && is_waiting(&small).await, "one is left, but it is not its turn");
    assert!(two.semaphore("/lock/s", 3).try_acquire().await.unwrap().is_none());
    first.release().await.unwrap();
    let large = won(large).await;
    assert!(is_waiting(&small).await);
    second.release().await.unwrap();
    let small = won(small).await;
    assert!(one.semaphore("/lock/s", 3).try_acquire().await.unwrap().is_none(), "none is left");
    large.release().await.unwrap();
    let third = one.semaphore("/lock/s", 3).permits(2).try_acquire().await.unwrap().expect("two are left");
    drop((small, third));
    leave_nothing(&cluster, &[&one, &two]).await;
}

/// Seen to fail with a try that queues whoever stands there.
#[tokio::test]
async fn a_try_shares_with_readers_and_leaves_no_key_behind_a_writer() {
    let cluster = etcd().await;
    let [one, two] = [client(&cluster), client(&cluster)];
    let writer = one.lock("/lock/a").acquire().await.unwrap();
    let revision = cluster.revision().await.unwrap();
    assert!(two.lock("/lock/a").shared().try_acquire().await.unwrap().is_none());
    assert_eq!(cluster.revision().await.unwrap(), revision, "it wrote nothing");
    writer.release().await.unwrap();
    let first = two.lock("/lock/a").shared().try_acquire().await.unwrap().expect("nobody stands there");
    let second = one.lock("/lock/a").shared().try_acquire().await.unwrap().expect("only a reader stands there");
    assert!(one.lock("/lock/a").try_acquire().await.unwrap().is_none());
    drop((first, second));
    leave_nothing(&cluster, &[&one, &two]).await;
}

/// Seen to fail with a mismatch that waits, and with one that leaves its key.
#[tokio::test]
async fn claims_that_cannot_be_weighed_are_told_at_once() {
    let cluster = etcd().await;
    let [one, two] = [client(&cluster), client(&cluster)];
    let reader = one.lock("/lock/a").shared().acquire().await.unwrap();
    let writer = queued(&cluster, two.lock("/lock/a")).await;
    for client in [&one, &two] {
        let semaphore = client.semaphore("/lock/a", 2);
        for refused in [soon(semaphore.acquire()).await, soon(semaphore.acquire_within(Duration::ZERO)).await] {
            let error = refused.unwrap_err();
            assert_eq!(error.code(), Code::LimitMismatch, "{error}");
            assert!(error.message().contains(&reader.key()) && error.message().contains("1 of 2 permits"), "{error}");
        }
    }
    assert_eq!(cluster.keys("/").await.unwrap().len(), 2);
    reader.release().await.unwrap();
    won(writer).await.release().await.unwrap();
    let permit = one.semaphore("/lock/a", 2).acquire().await.unwrap();
    for refused in [two.semaphore("/lock/a", 3), two.lock("/lock/a").shared()] {
        assert_eq!(soon(refused.acquire()).await.unwrap_err().code(), Code::LimitMismatch);
    }
    drop(permit);
    leave_nothing(&cluster, &[&one, &two]).await;
}

#[tokio::test]
async fn bad_numbers_are_refused_at_the_door() {
    let client = Client::new("http://127.0.0.1:1").unwrap();
    let semaphore = |limit| client.semaphore("/lock/a", limit);
    let bad = [
        semaphore(0),
        semaphore(2).permits(0),
        semaphore(2).permits(3),
        semaphore(Claim::MAX_LIMIT + 1),
        semaphore(2).shared(),
        client.lock("/lock/a").permits(1),
        client.lock("/lock/a").shared().permits(1),
    ];
    for lock in bad {
        assert_eq!(lock.acquire().await.unwrap_err().code(), Code::InvalidArgument, "{lock:?}");
    }
}

/// Go's Mutex, etcdctl and older versions write keys that say nothing: they are exclusive, ahead and behind.
#[tokio::test]
async fn foreign_keys_are_exclusive_among_readers_and_permits() {
    let cluster = etcd().await;
    let [one, two] = [client(&cluster), client(&cluster)];
    for lock in [one.lock("/lock/a").shared(), one.semaphore("/lock/a", 9)] {
        let before = lock.acquire().await.unwrap();
        let lease = cluster.ctl(&["lease", "grant", "60"]).await.unwrap();
        let lease = lease.split(' ').nth(1).unwrap().to_owned();
        cluster.ctl(&["put", &format!("/lock/a/{lease}"), "", &format!("--lease={lease}")]).await.unwrap();
        let behind = match lock.name() {
            _ if before.key().ends_with('r') => two.lock("/lock/a").shared(),
            _ => two.semaphore("/lock/a", 9),
        };
        assert!(behind.try_acquire().await.unwrap().is_none(), "a foreign client waits");
        let behind = queued(&cluster, behind).await;
        before.release().await.unwrap();
        assert!(is_waiting(&behind).await, "a foreign client holds");
        cluster.ctl(&["lease", "revoke", &lease]).await.unwrap();
        won(behind).await.release().await.unwrap();
    }
    leave_nothing(&cluster, &[&one, &two]).await;
}
