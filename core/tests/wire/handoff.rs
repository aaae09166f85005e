//! From one owner to the next.

use std::time::Instant;

use leasehold::Client;
use leasehold_etcd::{Cluster, Direction, eventually, on_every_version, undisturbed};
use tokio::task::JoinSet;

use crate::{etcd, rechecks, relay::Relay, warm_client};

/// Queues one waiter after the other behind the owner, each of which releases at once when it owns the lock; `clients` take turns.
async fn queue_up(cluster: &Cluster, name: &str, clients: &[Client], count: usize) -> JoinSet<i64> {
    let (mut waiters, keys) = (JoinSet::new(), format!("{name}/"));
    for number in 0..count {
        let lock = clients[number % clients.len()].lock(name);
        waiters.spawn(async move {
            let guard = lock.acquire().await.unwrap();
            let token = guard.token();
            guard.release().await.unwrap();
            token
        });
        if clients.len() > 1 {
            // One after the other, so that each hand-off is to another client.
            let queued = || async { cluster.keys(&keys).await.unwrap().len() > number + 1 };
            eventually("the waiter is queued", queued).await;
        }
    }
    let all = || async { cluster.keys(&keys).await.unwrap().len() == count + 1 };
    eventually("all are queued", all).await;
    waiters
}

/// Seen to fail with a read after each release, and with a delete of its own for each released key.
#[tokio::test]
async fn between_waiters_of_one_client_nothing_is_read_and_deletes_share_transactions() {
    const WAITERS: usize = 60;
    on_every_version(|version| async move {
        let cluster = etcd(version).await;
        let relay = Relay::start(&cluster);
        let client = warm_client(&relay).await;
        let (cluster, relay, client) = (&cluster, &relay, &client);
        undisturbed(|round| async move {
            let (name, before) = (format!("/lock/{round}"), relay.mark());
            let guard = client.lock(&name).acquire().await.unwrap();
            // From here on, as each recheck comes so long after the one before, or after the first has queued.
            let started = Instant::now();
            let waiters = queue_up(cluster, &name, std::slice::from_ref(client), WAITERS).await;
            eventually("the first look at the queue is over", || async {
                relay.since(before).count("Range", Direction::ToClient) > 0
            })
            .await;
            let mark = relay.mark();
            guard.release().await.unwrap();
            waiters.join_all().await;
            let none = || async { cluster.keys(&format!("{name}/")).await.unwrap().is_empty() };
            eventually("all keys are gone", none).await;
            let record = relay.since(mark);
            let (reads, transactions) =
                (record.count("Range", Direction::ToServer), record.count("Txn", Direction::ToServer));
            let cost = format!("etcd {version}: {WAITERS} hand-offs in a client: {:?}", record.unary());
            // One for each key and one more would be one after the other.
            if reads > rechecks(1, started.elapsed()) || 2 * transactions >= WAITERS {
                return Err(cost);
            }
            println!("{cost}");
            Ok(())
        })
        .await;
    })
    .await;
}

/// Seen to fail with a snapshot after each event.
#[tokio::test]
async fn between_clients_a_hand_off_reads_at_most_once() {
    const WAITERS: usize = 20;
    on_every_version(|version| async move {
        let cluster = etcd(version).await;
        let relay = Relay::start(&cluster);
        let clients = [warm_client(&relay).await, warm_client(&relay).await];
        let (cluster, relay, clients) = (&cluster, &relay, &clients);
        undisturbed(|round| async move {
            let name = format!("/lock/{round}");
            let guard = clients[0].lock(&name).acquire().await.unwrap();
            let waiters = queue_up(cluster, &name, &[clients[1].clone(), clients[0].clone()], WAITERS).await;
            let (started, mark) = (Instant::now(), relay.mark());
            guard.release().await.unwrap();
            waiters.join_all().await;
            let record = relay.since(mark);
            let cost = format!("etcd {version}: {WAITERS} hand-offs between clients: {:?}", record.unary());
            if record.count("Range", Direction::ToServer) > WAITERS + rechecks(2, started.elapsed()) {
                return Err(cost);
            }
            println!("{cost}");
            Ok(())
        })
        .await;
    })
    .await;
}
