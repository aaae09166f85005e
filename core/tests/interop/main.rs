//! One queue with clients that know nothing of us, on every version of etcd.

mod by_hand;
mod copied;
mod election;
mod etcdctl;
mod mutex;
mod route_one;
mod service;
#[path = "../support/warnings.rs"]
mod warnings;

use std::time::Duration;

use leasehold::{Client, ClientOptions, Guard};
use leasehold_etcd::{Cluster, Storage, Version, eventually};
use tokio::{task::JoinHandle, time::timeout};

/// The end of `future`, which must come soon.
async fn soon<F: Future>(future: F) -> F::Output {
    timeout(Duration::from_secs(60), future).await.expect("it takes too long")
}

async fn etcd(version: Version) -> Cluster {
    Cluster::builder().version(version).storage(Storage::Memory).start().await.expect("an etcd starts")
}

fn client(cluster: &Cluster, ttl: u64) -> Client {
    ClientOptions::from_endpoints(cluster.endpoints()).ttl(Duration::from_secs(ttl)).build().expect("good options")
}

/// Waits until so many keys stand in the queue of `/lock/a`.
async fn queued(cluster: &Cluster, count: usize) {
    let are_queued = || async { cluster.keys("/lock/a/").await.unwrap().len() == count };
    eventually(&format!("{count} are queued"), are_queued).await;
}

/// Queues for `/lock/a` in the background.
fn waiter(client: &Client) -> JoinHandle<Guard> {
    let lock = client.lock("/lock/a");
    tokio::spawn(async move { lock.acquire().await.unwrap() })
}
