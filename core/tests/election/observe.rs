//! What observers are told while nothing goes wrong: everything, in order.

use leasehold::Code;

use crate::{client, etcd, next, soon, standing, told};

#[tokio::test]
async fn an_observer_is_told_every_proclamation_and_every_leader_in_order() {
    let cluster = etcd().await;
    let (candidates, observers) = (client(&cluster), client(&cluster));
    let election = candidates.election("/e");
    let mut observer = observers.election("/e").observe();
    assert_eq!(told(&mut observer).await, None);
    let first = election.campaign("first").await.unwrap();
    let second = tokio::spawn(election.campaign("second"));
    standing(&candidates, &election, 2).await;
    for n in 0..500 {
        first.proclaim(n.to_string()).await.unwrap();
    }
    let mut late = observers.election("/e").observe();
    assert_eq!(told(&mut late).await, Some((first.token(), "499".to_owned())), "it begins with what is so now");
    let token = first.token();
    first.release().await.unwrap();
    let second = soon(second).await.unwrap().unwrap();
    second.proclaim("second, again").await.unwrap();
    let after = second.token();
    second.release().await.unwrap();

    assert_eq!(told(&mut observer).await, Some((token, "first".to_owned())));
    for n in 0..500 {
        assert_eq!(told(&mut observer).await, Some((token, n.to_string())));
    }
    for observer in [&mut observer, &mut late] {
        // Where the second proclaims before the key of the first is gone, it begins with that.
        let mut seen = told(observer).await;
        if seen == Some((after, "second".to_owned())) {
            seen = told(observer).await;
        }
        assert_eq!(seen, Some((after, "second, again".to_owned())));
        assert_eq!(told(observer).await, None);
    }
}

/// Seen to fail with nested names counted.
#[tokio::test]
async fn nothing_is_told_that_changes_nothing() {
    let cluster = etcd().await;
    let client = client(&cluster);
    let election = client.election("/e");
    let mut observer = election.observe();
    assert_eq!(told(&mut observer).await, None);
    let nested = client.election("/e/nested").campaign("nested").await.unwrap();
    let leader = election.campaign("leader").await.unwrap();
    let other = tokio::spawn(election.campaign("other"));
    standing(&client, &election, 2).await;
    other.abort();
    standing(&client, &election, 1).await;
    nested.proclaim("still nested").await.unwrap();
    cluster.ctl(&["put", "/e", "beside"]).await.unwrap();
    leader.proclaim("leader").await.unwrap();
    assert_eq!(told(&mut observer).await, Some((leader.token(), "leader".to_owned())));
    let again = next(&mut observer).await.leader.unwrap();
    assert_eq!(again.value, b"leader", "the same words, said again");
    assert!(again.revision > again.token);
    leader.release().await.unwrap();
    assert_eq!(told(&mut observer).await, None);
    nested.release().await.unwrap();
}

#[tokio::test]
async fn closing_the_client_ends_its_observers_and_nobody_elses() {
    let cluster = etcd().await;
    let (candidate, observers) = (client(&cluster), client(&cluster));
    let mut ends = observers.election("/e").observe();
    let mut goes_on = candidate.election("/e").observe();
    assert_eq!(told(&mut ends).await, None);
    assert_eq!(told(&mut goes_on).await, None);
    let guard = candidate.election("/e").campaign("v").await.unwrap();
    assert_eq!(told(&mut goes_on).await, Some((guard.token(), "v".to_owned())));
    observers.close().await.unwrap();
    let mut seen = Vec::new();
    let why = loop {
        match soon(ends.next()).await {
            Ok(observed) => seen.push(observed.leader.map(|leader| leader.value)),
            Err(why) => break why,
        }
    };
    assert_eq!(why.code(), Code::Closed, "{why}");
    assert!(seen.is_empty() || seen == [Some(b"v".to_vec())], "{seen:?}");
    assert_eq!(observers.election("/e").observe().next().await.unwrap_err().code(), Code::Closed);
    guard.release().await.unwrap();
    assert_eq!(told(&mut goes_on).await, None);
}

#[test]
fn threads_without_a_runtime_campaign_and_observe() {
    let client = leasehold::Client::new("memory://blocking-elections").unwrap();
    let election = client.election("/e");
    let mut observer = election.observe();
    assert_eq!(observer.blocking_next().unwrap().leader, None);
    let guard = election.blocking_campaign("a").unwrap();
    guard.blocking_proclaim("b").unwrap();
    assert_eq!(election.blocking_leader().unwrap().unwrap().value, b"b");
    for value in ["a", "b"] {
        assert_eq!(observer.blocking_next().unwrap().leader.unwrap().value, value.as_bytes());
    }
    let refused = election.blocking_campaign_within("c", std::time::Duration::ZERO).unwrap_err();
    assert_eq!(refused.code(), Code::NotAcquired);
    guard.blocking_release().unwrap();
    assert_eq!(observer.blocking_next().unwrap().leader, None);
    client.blocking_close().unwrap();
}
