//! What observers are told when the way to etcd breaks, or etcd itself: the truth in the end, and that something may be missing.

use std::time::{Duration, Instant};

use leasehold::{ClientOptions, Code};
use leasehold_etcd::{Cluster, Past, Proxy, eventually};

use crate::{client, etcd, next, soon, told};

/// A client that reaches the cluster's first member through a proxy.
fn through(proxy: &Proxy) -> leasehold::Client {
    ClientOptions::new(format!("http://{}", proxy.address())).ttl(Duration::from_secs(5)).build().expect("good options")
}

#[tokio::test]
async fn a_connection_that_breaks_hides_nothing_for_long_and_a_gap_is_told_only_where_there_may_be_one() {
    let cluster = etcd().await;
    let proxy = Proxy::start(cluster.address(0)).unwrap();
    let candidate = client(&cluster);
    let observers = through(&proxy);
    let election = candidate.election("/e");
    let guard = election.campaign("0").await.unwrap();
    let mut observer = observers.election("/e").observe();
    assert_eq!(told(&mut observer).await, Some((guard.token(), "0".to_owned())));
    // Nothing happens while the connection is gone: nothing is told.
    let accepted = proxy.accepted();
    proxy.reset();
    eventually("it connects again", || async { proxy.accepted() > accepted }).await;
    guard.proclaim("1").await.unwrap();
    assert_eq!(next(&mut observer).await.leader.unwrap().value, b"1");

    proxy.hold_all();
    for n in 2..10 {
        guard.proclaim(n.to_string()).await.unwrap();
    }
    proxy.cut();
    proxy.pass();
    // Some may have come through before the connection was held.
    let mut last = b'1';
    while last != b'9' {
        let observed = next(&mut observer).await;
        let value = observed.leader.unwrap().value[0];
        assert!(value == last + 1 || observed.is_after_gap, "{value} after {last}");
        last = value;
    }
    // Who leads next is told without a gap again.
    let token = guard.token();
    guard.release().await.unwrap();
    assert_eq!(told(&mut observer).await, None);
    let guard = election.campaign("10").await.unwrap();
    assert!(guard.token() > token);
    assert_eq!(told(&mut observer).await, Some((guard.token(), "10".to_owned())));
    guard.release().await.unwrap();
}

#[tokio::test]
async fn compaction_and_a_restart_of_etcd_end_at_the_truth() {
    let cluster = Cluster::builder().start().await.expect("an etcd starts");
    let (candidate, observers) = (client(&cluster), client(&cluster));
    let election = candidate.election("/e");
    let guard = election.campaign("0").await.unwrap();
    let mut observer = observers.election("/e").observe();
    assert_eq!(told(&mut observer).await, Some((guard.token(), "0".to_owned())));
    let revision = cluster.revision().await.unwrap().to_string();
    cluster.ctl(&["compact", "--physical", &revision]).await.unwrap();
    guard.proclaim("1").await.unwrap();
    assert_eq!(told(&mut observer).await, Some((guard.token(), "1".to_owned())));
    cluster.kill(0).unwrap();
    cluster.restart(0).await.unwrap();
    soon(guard.proclaim("2")).await.unwrap();
    assert_eq!(next(&mut observer).await.leader.unwrap().value, b"2");
    guard.release().await.unwrap();
    assert_eq!(next(&mut observer).await.leader, None);
}

#[tokio::test]
async fn an_etcd_that_goes_back_in_time_is_seen_as_it_is() {
    let cluster = Cluster::builder().start().await.expect("an etcd starts");
    let (candidate, observers) = (client(&cluster), client(&cluster));
    for n in 0..20 {
        cluster.ctl(&["put", "/other", &n.to_string()]).await.unwrap();
    }
    let guard = candidate.election("/e").campaign("before").await.unwrap();
    let mut observer = observers.election("/e").observe();
    assert_eq!(told(&mut observer).await, Some((guard.token(), "before".to_owned())));
    cluster.set_back(Past::Nothing).await.unwrap();
    cluster.restart(0).await.unwrap();
    let observed = next(&mut observer).await;
    assert_eq!((observed.leader, observed.is_after_gap), (None, true));
    soon(guard.lost()).await;
    let guard = soon(candidate.election("/e").campaign("after")).await.unwrap();
    assert_eq!(told(&mut observer).await, Some((guard.token(), "after".to_owned())));
    guard.release().await.unwrap();
}

/// Seen to fail with an observer that waits for ever before it has seen anything.
#[tokio::test]
async fn an_etcd_that_is_not_there_is_told_in_time_and_only_at_first() {
    let cluster = etcd().await;
    let limit = Duration::from_secs(1);
    let unreachable = ClientOptions::new("http://127.0.0.1:1").request_timeout(limit).build().unwrap();
    let begun = Instant::now();
    let error = soon(unreachable.election("/e").observe().next()).await.unwrap_err();
    assert!(matches!(error.code(), Code::Unavailable | Code::DeadlineExceeded), "{error}");
    assert!(begun.elapsed() >= limit, "it gave up early: {error}");

    let proxy = Proxy::start(cluster.address(0)).unwrap();
    let options = ClientOptions::new(format!("http://{}", proxy.address())).request_timeout(limit);
    let observers = options.build().unwrap();
    let mut observer = observers.election("/e").observe();
    assert_eq!(told(&mut observer).await, None);
    proxy.hold_all();
    proxy.cut();
    let (mut waits, elsewhere) = (Box::pin(observer.next()), client(&cluster));
    // Longer than the request timeout: the observer goes on.
    assert!(tokio::time::timeout(3 * limit, &mut waits).await.is_err());
    let guard = elsewhere.election("/e").campaign("v").await.unwrap();
    proxy.pass();
    let observed = soon(waits).await.unwrap();
    assert_eq!((observed.leader.unwrap().token, observed.is_after_gap), (guard.token(), true));
    guard.release().await.unwrap();
}
