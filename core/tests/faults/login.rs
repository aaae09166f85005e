//! Users whose tokens expire, and certificates.

use std::time::Duration;

use leasehold::{Client, ClientOptions};
use leasehold_etcd::{Cluster, Tls, User, Version, eventually};
use tokio::time::sleep;

use crate::{SLACK, expect_nothing_left, is_lost, soon};

/// Holds and waits for `span`, then hands over: the key in the queue is the same all the time.
async fn outlast(cluster: &Cluster, holder: Client, waiter: Client, span: Duration) {
    let guard = holder.lock("/lock/a").acquire().await.unwrap();
    let waiting = tokio::spawn({
        let lock = waiter.lock("/lock/a");
        async move { lock.acquire().await.unwrap() }
    });
    eventually("the waiter is queued", || async { cluster.keys("/lock/a/").await.unwrap().len() == 2 }).await;
    let queued = cluster.keys("/lock/a/").await.unwrap();
    sleep(span).await;
    assert!(guard.is_held() && !is_lost(&guard).await, "lost within {span:?}");
    assert_eq!(cluster.keys("/lock/a/").await.unwrap(), queued);
    guard.put("/lock/data", "the owner's").await.unwrap();
    assert!(guard.delete("/lock/data").await.unwrap());
    guard.release().await.unwrap();
    let guard = soon(waiting).await.unwrap();
    assert!(queued.contains(&guard.key()), "the same place in the queue");
    guard.release().await.unwrap();
    for client in [holder, waiter] {
        client.close().await.unwrap();
    }
    expect_nothing_left(cluster, SLACK).await;
}

/// Seen to fail with streams that go on under the token they were opened with, and with renewals without a token.
#[tokio::test]
async fn tokens_that_expire_cost_no_lock() {
    let users = [User::new("alice", "secret").prefix("/lock/")];
    let builder = Cluster::builder().version(Version::V3_7).auth("root-password", users);
    let cluster = builder.arg("--auth-token-ttl=2").start().await.unwrap();
    let client = || {
        let options = ClientOptions::from_endpoints(cluster.endpoints()).ttl(Duration::from_secs(2));
        options.user("alice", "secret").build().unwrap()
    };
    outlast(&cluster, client(), client(), Duration::from_secs(7)).await;
}

/// Seen to fail without the client's certificate.
#[tokio::test]
async fn a_lock_works_over_tls_with_client_certificates() {
    let cluster = Cluster::builder().tls(Tls::Mutual).start().await.unwrap();
    let files = cluster.certificates().unwrap();
    let client = || {
        let options = ClientOptions::from_endpoints(cluster.endpoints()).ttl(Duration::from_secs(2));
        options.ca_file(&files.ca_file).cert_file(&files.cert_file).key_file(&files.key_file).build().unwrap()
    };
    outlast(&cluster, client(), client(), Duration::from_secs(3)).await;
}
