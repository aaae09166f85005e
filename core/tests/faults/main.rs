//! What becomes of locks when processes, members, connections and logins fail; on a real etcd.

mod login;
mod members;
mod network;
mod processes;

use std::time::{Duration, Instant};

use leasehold::{ClientOptions, Guard};
use leasehold_etcd::{Cluster, Storage};
use tokio::time::timeout;

/// What etcd itself needs to notice the end of a lease: it looks twice a second.
const SCAN: Duration = Duration::from_millis(500);
/// Longer than any election and any TTL here.
const PATIENCE: Duration = Duration::from_secs(30);
/// What a busy machine may add.
const SLACK: Duration = Duration::from_secs(2);

/// The end of `future`, which must come soon.
async fn soon<F: Future>(future: F) -> F::Output {
    timeout(PATIENCE, future).await.expect("it takes too long")
}

async fn etcd(members: usize) -> Cluster {
    Cluster::builder().members(members).storage(Storage::Memory).start().await.expect("an etcd starts")
}

fn options(cluster: &Cluster, ttl: u64) -> ClientOptions {
    ClientOptions::from_endpoints(cluster.endpoints()).ttl(Duration::from_secs(ttl))
}

/// Nothing of ours is left, `within` that time: no key of a lock, no lease.
async fn expect_nothing_left(cluster: &Cluster, within: Duration) {
    let started = Instant::now();
    loop {
        let left = (cluster.keys("/lock/").await.unwrap(), cluster.leases().await.unwrap());
        if left.0.is_empty() && left.1.is_empty() {
            return;
        }
        assert!(started.elapsed() < within, "left in etcd after {within:?}: {left:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Whether the lock was lost so far.
async fn is_lost(guard: &Guard) -> bool {
    timeout(Duration::ZERO, guard.lost()).await.is_ok()
}
