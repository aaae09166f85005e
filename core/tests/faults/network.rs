//! A connection through which nothing passes any more.

use std::time::{Duration, Instant};

use leasehold::{ClientOptions, LostReason, SessionState};
use leasehold_etcd::{Proxy, eventually};

use crate::{SCAN, SLACK, etcd, expect_nothing_left, options, soon};

/// Seen to fail with a deadline that counts from the acknowledgement's arrival plus a second.
#[tokio::test]
async fn a_holder_that_is_cut_off_knows_before_the_next_owner_is_there() {
    const TTL: Duration = Duration::from_secs(3);
    let cluster = etcd(1).await;
    let proxy = Proxy::start(cluster.address(0)).unwrap();
    let holder = ClientOptions::new(format!("http://{}", proxy.address())).ttl(TTL).build().unwrap();
    let heir = options(&cluster, 3).build().unwrap();
    let mut states = holder.on_state();
    let guard = holder.lock("/lock/a").acquire().await.unwrap();
    let taken_over = tokio::spawn({
        let lock = heir.lock("/lock/a");
        async move { (lock.acquire().await.unwrap(), Instant::now()) }
    });
    eventually("the heir is queued", || async { cluster.keys("/lock/a/").await.unwrap().len() == 2 }).await;
    proxy.hold_all();
    let cut = Instant::now();
    let lost = tokio::spawn({
        let lost = guard.lost();
        async move { (lost.await, Instant::now()) }
    });
    let mut told = Vec::new();
    while !matches!(told.last(), Some(SessionState::Lost(_))) {
        told.push(soon(states.next()).await.unwrap());
    }
    assert!(told.ends_with(&[SessionState::Suspect, SessionState::Lost(LostReason::Expired)]), "{told:?}");
    assert!(!guard.is_held());
    let (reason, lost_at) = soon(lost).await.unwrap();
    assert_eq!(reason, LostReason::Expired);
    let (new, taken_at) = soon(taken_over).await.unwrap();
    println!(
        "etcd {}: cut off, loss known after {:?}, taken over after {:?}, TTL {TTL:?}",
        cluster.release(),
        lost_at - cut,
        taken_at - cut
    );
    assert!(lost_at < taken_at, "lost {lost_at:?}, but taken over {taken_at:?}");
    assert!(taken_at - cut < TTL + SCAN + SLACK);
    assert!(new.token() > guard.token());
    // The old owner comes back: it stays lost, and queues behind the new one like anybody else.
    proxy.pass();
    assert!(guard.release().await.is_err());
    let again = tokio::spawn({
        let lock = holder.lock("/lock/a");
        async move { lock.acquire().await.unwrap() }
    });
    eventually("it is queued", || async { cluster.keys("/lock/a/").await.unwrap().len() == 2 }).await;
    new.release().await.unwrap();
    soon(again).await.unwrap().release().await.unwrap();
    for client in [holder, heir] {
        client.close().await.unwrap();
    }
    expect_nothing_left(&cluster, SLACK).await;
}
