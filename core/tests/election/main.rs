//! Elections as their users know them, on a real etcd.

mod campaign;
mod observe;
mod trouble;

use std::time::Duration;

use leasehold::{Client, ClientOptions, Election, Observed, Observer};
use leasehold_etcd::{Cluster, Storage, eventually};

/// A single member with its data in memory: the fastest real etcd.
async fn etcd() -> Cluster {
    Cluster::builder().storage(Storage::Memory).start().await.expect("an etcd starts")
}

fn options(cluster: &Cluster) -> ClientOptions {
    ClientOptions::from_endpoints(cluster.endpoints()).ttl(Duration::from_secs(5))
}

fn client(cluster: &Cluster) -> Client {
    options(cluster).build().expect("good options")
}

/// The end of `future`, which must come soon.
async fn soon<F: Future>(future: F) -> F::Output {
    tokio::time::timeout(Duration::from_secs(60), future).await.expect("it takes too long")
}

/// The next change that an observer tells.
async fn next(observer: &mut Observer) -> Observed {
    soon(observer.next()).await.expect("something to see")
}

/// The next change, which must not come after a gap: the token of the leader and what it proclaims.
async fn told(observer: &mut Observer) -> Option<(i64, String)> {
    let observed = next(observer).await;
    assert!(!observed.is_after_gap, "{observed:?}");
    observed.leader.map(|leader| (leader.token, String::from_utf8(leader.value).expect("a text")))
}

/// Waits until so many candidates stand.
async fn standing(client: &Client, election: &Election, count: usize) {
    let lock = client.lock(election.name());
    eventually(&format!("{count} candidates stand"), || async { lock.queue().await.unwrap().len() == count }).await;
}
