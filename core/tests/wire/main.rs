//! What the lock costs, counted on the wire between clients and a real etcd of every version.

mod crowd;
mod handoff;
mod linger;
mod relay;
mod renewals;
mod uncontended;

use std::time::Duration;

use leasehold::{Client, ClientOptions};
use leasehold_etcd::{Cluster, Direction, Storage, Version, eventually};

use self::relay::Relay;

/// The shortest time between two reads by which a waiter makes sure of the queue, whatever the watch says.
const RECHECK: Duration = Duration::from_secs(2);

async fn etcd(version: Version) -> Cluster {
    Cluster::builder().version(version).storage(Storage::Memory).start().await.expect("an etcd starts")
}

/// Longer than a busy machine keeps anybody waiting.
const PATIENCE: Duration = Duration::from_secs(60);
/// A client that waits for answers longer than a machine can be busy.
fn patient(url: String) -> Client {
    ClientOptions::new(url).request_timeout(PATIENCE).build().expect("good options")
}

/// A client behind `relay` that has done with everything it does once.
async fn warm_client(relay: &Relay) -> Client {
    let client = patient(relay.url());
    client.lock("/warm").acquire().await.expect("free").release().await.expect("held");
    // Once for all clients of one process that go the same way.
    eventually("it has asked for the server's version", || async {
        relay.all().count("Status", Direction::ToClient) > 0
    })
    .await;
    client
}

/// How many reads `waiters` clients may add in `span`, only to make sure of the queue.
fn rechecks(waiters: usize, span: Duration) -> usize {
    waiters * (span.as_millis() / RECHECK.as_millis()) as usize
}
