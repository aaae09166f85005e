//! A key of ours that nobody here has: a request took effect when whoever sent it had given up.

use std::time::{Duration, Instant};

use leasehold::ClientOptions;

use crate::support::{client, etcd};

/// The promise is 70 seconds. What is judged is that nobody waits for the end of the lease.
const LIMIT: Duration = Duration::from_secs(300);
const TTL: Duration = Duration::from_secs(600);

/// With a long TTL, and nothing that would have told the client: only its routine finds the key.
#[tokio::test]
async fn it_is_gone_in_about_a_minute_however_long_its_lease_is() {
    let cluster = etcd().await;
    let owner = ClientOptions::from_endpoints(cluster.endpoints()).ttl(TTL).build().unwrap();
    let guard = owner.lock("/lock/a").acquire().await.unwrap();
    let ghost = format!("/lock/b/{}-1", guard.lease());
    cluster.ctl(&["put", &format!("--lease={}", guard.lease()), &ghost, "{}"]).await.unwrap();
    let begun = Instant::now();
    let other = client(&cluster);
    let waiter = tokio::time::timeout(LIMIT, other.lock("/lock/b").acquire()).await;
    let after = waiter.expect("a ghost blocks for as long as its lease lives").unwrap();
    println!("the ghost of a client with a TTL of {TTL:?} was gone after {:.1?}", begun.elapsed());
    after.release().await.unwrap();
    assert!(guard.is_held());
    guard.release().await.unwrap();
    owner.close().await.unwrap();
    assert!(cluster.keys("/lock/").await.unwrap().is_empty());
}
