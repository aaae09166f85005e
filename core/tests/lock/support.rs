//! What every test of the lock needs: a cluster and clients.

use std::time::Duration;

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

/// The end of `future`, which must come soon.
pub async fn soon<F: Future>(future: F) -> F::Output {
    tokio::time::timeout(Duration::from_secs(60), future).await.expect("it takes too long")
}
