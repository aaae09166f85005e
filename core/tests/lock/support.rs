//! What every test of the lock needs: a cluster, clients, and a look at what is left in etcd.

use std::time::{Duration, Instant};

use leasehold::{Client, ClientOptions};
use leasehold_etcd::{Cluster, Storage};

/// A single member with its data in memory: the fastest real etcd.
pub async fn etcd() -> Cluster {
    Cluster::builder().storage(Storage::Memory).start().await.expect("an etcd starts")
}

pub fn options(cluster: &Cluster) -> ClientOptions {
    ClientOptions::from_endpoints(cluster.endpoints()).ttl(Duration::from_secs(5))
}

pub fn client(cluster: &Cluster) -> Client {
    options(cluster).build().expect("good options")
}

/// The keys below `prefix`, as etcd's own tool sees them.
pub async fn keys(cluster: &Cluster, prefix: &str) -> Vec<String> {
    let listed = cluster.ctl(&["get", "--prefix", "--keys-only", prefix]).await.expect("etcdctl get");
    listed.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect()
}

/// The leases that etcd knows.
pub async fn leases(cluster: &Cluster) -> Vec<String> {
    let listed = cluster.ctl(&["lease", "list"]).await.expect("etcdctl lease list");
    listed.lines().skip(1).filter(|line| !line.is_empty()).map(str::to_owned).collect()
}

/// Waits until `condition` holds, for at most 30 s.
pub async fn eventually<F: Future<Output = bool>>(what: &str, mut condition: impl FnMut() -> F) {
    let started = Instant::now();
    while !condition().await {
        assert!(started.elapsed() < Duration::from_secs(30), "still not: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
