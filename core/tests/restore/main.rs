//! An etcd that goes back in time: restored from a backup, or wiped, at the same address and under the same id.
//!
//! Each test was seen to fail before clients noticed it: a holder that believed for ever, a next owner with the same token, waiters
//! that hung or were served from memory, and clients that wrote a thousand times a second.

mod counted;
mod holders;
mod waiters;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use leasehold::{Client, ClientOptions, Guard, LostReason, store::Store};
use leasehold_etcd::{Cluster, Past};
use tokio::time::timeout;

use self::counted::Counted;

/// A holder is told within this time of etcd's return.
const TOLD: Duration = Duration::from_secs(2);
/// Waiters are served again within this time of etcd's return.
const SERVED: Duration = Duration::from_secs(5);
/// Far beyond both: nothing here may happen because a lease ends.
const TTL: Duration = Duration::from_secs(60);
/// No client writes more often than that in any second.
const MOST_WRITES: usize = 50;

async fn etcd() -> Cluster {
    Cluster::builder().start().await.expect("an etcd starts")
}

/// A client, and how often it writes.
fn client(cluster: &Cluster) -> (Client, Arc<Counted>) {
    client_at(&cluster.endpoint(0))
}

fn client_at(endpoint: &str) -> (Client, Arc<Counted>) {
    let store = Counted::new(endpoint);
    let options = ClientOptions::new(endpoint).ttl(TTL);
    let client = Client::with_store(options, Arc::clone(&store) as Arc<dyn Store>).expect("good options");
    (client, store)
}

/// The end of `future`, which must come soon.
async fn soon<F: Future>(future: F) -> F::Output {
    timeout(Duration::from_secs(30), future).await.expect("it takes too long")
}

/// Takes a lock and gives it back: its client has a session then.
async fn warm_up(client: &Client) {
    client.lock("/warm").acquire().await.expect("free").release().await.expect("held");
}

/// Sets the cluster back; returns when it serves again, and the moment at which it did.
async fn set_back(cluster: &Cluster, past: Past<'_>) -> Instant {
    cluster.set_back(past).await.expect("set back");
    cluster.restart(0).await.expect("started");
    Instant::now()
}

/// Expects the loss of `guard` within [`TOLD`] of `since`, and answers its reason.
async fn expect_loss(guard: &Guard, since: Instant) -> LostReason {
    let reason = timeout(TOLD.saturating_sub(since.elapsed()), guard.lost()).await;
    let reason = reason.unwrap_or_else(|_| panic!("not told within {TOLD:?}; is_held: {}", guard.is_held()));
    assert!(!guard.is_held());
    println!("told {:?} after etcd's return: {reason}", since.elapsed());
    reason
}
