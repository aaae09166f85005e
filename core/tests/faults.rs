//! What becomes of a lock when members or logins fail, where a scenario of tests/conformance cannot say it.
//!
//! Everything else about processes, members and connections that fail is played there, by this crate's driver, too. What
//! remains here, and why:
//! - tokens that expire: a scenario cannot give etcd an argument of its own;
//! - a role that is taken away: a scenario cannot change what a user may do;
//! - a leader that is frozen: a scenario cannot choose which member a client speaks to, and it matters.

use std::time::{Duration, Instant};

use leasehold::{Client, ClientOptions, Code, Guard, LostReason, Sample, Value};
use leasehold_etcd::{Cluster, User, Version, eventually};
use tokio::time::{sleep, timeout};

/// What etcd counts of the tokens that it has given.
const LOGINS: &str = r#"grpc_server_handled_total{grpc_code="OK",grpc_method="Authenticate""#;
/// Longer than any election and any TTL here, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// The end of `future`, which must come soon.
async fn soon<F: Future>(future: F) -> F::Output {
    timeout(PATIENCE, future).await.expect("it takes too long")
}

/// Nothing of ours is left: no key of a lock, no lease.
async fn expect_nothing_left(cluster: &Cluster) {
    let is_empty =
        async || cluster.keys("/lock/").await.unwrap().is_empty() && cluster.leases().await.unwrap().is_empty();
    eventually("nothing is left", is_empty).await;
}

/// Waits until the client's session was renewed so many times more.
async fn renewed(client: &Client, times: u64) {
    let count = || {
        let families = client.metrics().families;
        let renewals = families.iter().find(|family| family.name == "leasehold_renewals").expect("counted");
        let [Sample { value: Value::Counter(count), .. }] = renewals.samples[..] else { panic!("{renewals:?}") };
        count
    };
    let wanted = count() + times;
    eventually("the session is renewed", async || count() >= wanted).await;
}

/// Whether the lock was lost so far.
async fn is_lost(guard: &Guard) -> bool {
    timeout(Duration::ZERO, guard.lost()).await.is_ok()
}

/// Seen to fail with streams that go on under the token they were opened with, and with renewals without a token.
#[tokio::test]
async fn tokens_that_expire_cost_no_lock() {
    // Two of them, for clients that log in alike share their token, and so keep it good.
    let users = ["alice", "bob"].map(|name| User::new(name, "secret").prefix("/lock/"));
    let builder = Cluster::builder().version(Version::V3_7).auth("root-password", users);
    // Each use prolongs a token by this, and the server looks once a second for those that are over: one that is used at each
    // renewal alone, every third of the TTL, is never good for two.
    let cluster = builder.arg("--auth-token-ttl=1").start().await.unwrap();
    let client = |user: &str| {
        let options = ClientOptions::from_endpoints(cluster.endpoints()).ttl(Duration::from_secs(7));
        options.user(user, "secret").build().unwrap()
    };
    let (holder, waiter) = (client("alice"), client("bob"));
    let guard = holder.lock("/lock/a").acquire().await.unwrap();
    let waiting = tokio::spawn({
        let lock = waiter.lock("/lock/a");
        async move { lock.acquire().await.unwrap() }
    });
    eventually("the waiter is queued", async || cluster.keys("/lock/a/").await.unwrap().len() == 2).await;
    let queued = cluster.keys("/lock/a/").await.unwrap();
    let logins = async || cluster.metric(0, LOGINS).await.unwrap();
    let before = logins().await;
    for client in [&holder, &waiter] {
        renewed(client, 2).await;
    }
    assert!(logins().await >= before + 4.0, "each needed a new token twice");
    assert!(guard.is_held() && !is_lost(&guard).await);
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
    expect_nothing_left(&cluster).await;
}

/// What docs/operations.md says of a role that is taken away: etcd refuses the renewals.
#[tokio::test]
async fn a_role_that_is_taken_away_ends_what_is_held() {
    for version in [Version::V3_5, Version::V3_7] {
        let users = [User::new("alice", "secret").prefix("/lock/")];
        let cluster = Cluster::builder().version(version).auth("root-password", users).start().await.unwrap();
        let options = ClientOptions::from_endpoints(cluster.endpoints()).ttl(Duration::from_secs(2));
        let client = options.user("alice", "secret").build().unwrap();
        let guard = client.lock("/lock/a").acquire().await.unwrap();
        cluster.ctl(&["user", "revoke-role", "alice", "alice"]).await.unwrap();
        assert_eq!(soon(guard.lost()).await, LostReason::Expired, "etcd {version}");
        let refused = client.lock("/lock/a").acquire().await.unwrap_err();
        assert_eq!(refused.code(), Code::PermissionDenied, "etcd {version}: {refused}");
        client.close().await.unwrap();
        // Nor may it remove anything; the end of the lease does.
        expect_nothing_left(&cluster).await;
    }
}

/// Seen to fail without hedged renewals.
#[tokio::test]
async fn a_lock_outlives_a_leader_that_is_frozen_for_longer_than_its_ttl() {
    let cluster = Cluster::builder().members(3).start().await.unwrap();
    let leader = cluster.leader().await.unwrap();
    // One speaks to the leader, the other to a follower that is well, where renewals wait for the leader.
    let clients = [leader, (leader + 1) % 3].map(|member| {
        let mut endpoints = cluster.endpoints();
        endpoints.rotate_left(member);
        ClientOptions::from_endpoints(endpoints).in_order().ttl(Duration::from_secs(5)).build().unwrap()
    });
    let mut guards = Vec::new();
    for (number, client) in clients.iter().enumerate() {
        guards.push(client.lock(&format!("/lock/{number}")).acquire().await.unwrap());
    }
    cluster.freeze(leader).unwrap();
    let frozen = Instant::now();
    while frozen.elapsed() < Duration::from_secs(8) {
        for guard in &guards {
            assert!(guard.is_held() && !is_lost(guard).await, "{guard:?} lost after {:?}", frozen.elapsed());
        }
        sleep(Duration::from_millis(50)).await;
    }
    for guard in guards {
        guard.put("/data", "still the owner's").await.unwrap();
        guard.release().await.unwrap();
    }
    // Only now: a leader that wakes up may have the leases revoked that it takes for expired (etcd#15247; seen with 3.7.3).
    // A lock that is held then is lost, and says so; no client can prevent it.
    cluster.thaw(leader).unwrap();
    for client in &clients {
        client.close().await.unwrap();
    }
    expect_nothing_left(&cluster).await;
}
