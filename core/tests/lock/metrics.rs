//! What a client counts, while it does what is counted.

use std::time::Duration;

use leasehold::{Client, Value};
use leasehold_etcd::eventually;

use crate::support::{etcd, options, soon};

/// The counter, gauge or number of observations with this name and these labels, as `a="b",c="d"`.
fn count(client: &Client, name: &str, labels: &str) -> i64 {
    let metrics = client.metrics();
    let family = metrics.families.iter().find(|family| family.name == name).expect("a family of that name");
    let is_it = |found: &[(&str, String)]| {
        found.iter().map(|(name, value)| format!("{name}=\"{value}\"")).collect::<Vec<_>>().join(",") == labels
    };
    family.samples.iter().find(|sample| is_it(&sample.labels)).map_or(0, |sample| match &sample.value {
        Value::Counter(count) => i64::try_from(*count).expect("few"),
        Value::Gauge(level) => *level,
        Value::Histogram { buckets, .. } => i64::try_from(buckets.last().expect("an infinite one").1).expect("few"),
        other => panic!("{other:?}"),
    })
}

/// Seen to fail with holds that are not counted when they are lost.
#[tokio::test]
async fn a_client_counts_what_it_does() {
    let cluster = etcd().await;
    let client = options(&cluster).ttl(Duration::from_secs(2)).build().unwrap();
    let lock = client.lock("/lock/a");
    assert_eq!(count(&client, "leasehold_acquire_seconds", "outcome=\"ok\""), 0);
    let guard = lock.acquire().await.unwrap();
    assert!(lock.try_acquire().await.unwrap().is_none());
    assert_eq!(count(&client, "leasehold_held", ""), 1);
    let waiting = tokio::spawn(lock.acquire());
    eventually("it waits", || async { lock.queue().await.unwrap().len() == 2 }).await;
    assert_eq!(count(&client, "leasehold_waiting", ""), 1);
    guard.release().await.unwrap();
    let second = soon(waiting).await.unwrap().unwrap();
    let lost = second.lost();
    lock.force_release(second.token()).await.unwrap();
    soon(lost).await;
    eventually("the loss is counted", || async { count(&client, "leasehold_held", "") == 0 }).await;
    assert_eq!(count(&client, "leasehold_waiting", ""), 0);
    assert_eq!(count(&client, "leasehold_acquire_seconds", "outcome=\"ok\""), 2);
    assert_eq!(count(&client, "leasehold_acquire_seconds", "outcome=\"not_acquired\""), 1);
    assert_eq!(count(&client, "leasehold_hold_seconds", ""), 2);
    assert_eq!(count(&client, "leasehold_lost", "reason=\"key_deleted\""), 1);
    assert_eq!(count(&client, "leasehold_requests", "request=\"lease_grant\",outcome=\"ok\""), 1);
    assert!(count(&client, "leasehold_requests", "request=\"txn\",outcome=\"ok\"") >= 4);
    eventually("a renewal is counted", || async { count(&client, "leasehold_renewals", "") > 0 }).await;
    assert!(count(&client, "leasehold_renewal_slack_seconds", "") > 0);
    let text = client.metrics().to_string();
    assert!(
        text.contains("leasehold_acquire_seconds_count{outcome=\"ok\"} 2\n") && text.ends_with("# EOF\n"),
        "{text}"
    );
}
