//! Leases: how long they last, what ends them, and what becomes of who holds or waits.

use std::{
    thread,
    time::{Duration, Instant},
};

use leasehold::{Code, Guard, Lock, LostReason, SessionState};
use leasehold_etcd::{Cluster, Proxy, eventually};
use tokio::{task::JoinHandle, time::sleep};

use crate::support::{client, etcd, options, soon};

const TTL: Duration = Duration::from_secs(2);

/// Acquires in the background, and waits until so many are queued in `/lock/a`.
async fn wait_as(number: usize, cluster: &Cluster, lock: Lock) -> JoinHandle<leasehold::Result<Guard>> {
    let waiter = tokio::spawn(async move { lock.acquire().await });
    eventually("the waiter is queued", || async { cluster.keys("/lock/a/").await.unwrap().len() == number }).await;
    waiter
}

/// Seen to fail without renewals: both lose their places.
#[tokio::test]
async fn a_waiter_that_outlasts_three_ttls_keeps_its_key_and_its_place() {
    let cluster = etcd().await;
    let [one, two, three] = [(); 3].map(|()| options(&cluster).ttl(TTL).build().unwrap());
    let guard = one.lock("/lock/a").acquire().await.unwrap();
    let first = wait_as(2, &cluster, two.lock("/lock/a")).await;
    let second = wait_as(3, &cluster, three.lock("/lock/a")).await;
    let queue = one.lock("/lock/a").queue().await.unwrap();
    sleep(3 * TTL + Duration::from_millis(500)).await;
    assert_eq!(one.lock("/lock/a").queue().await.unwrap(), queue);
    guard.release().await.unwrap();
    for (waiter, place) in [(first, 1), (second, 2)] {
        let guard = soon(waiter).await.unwrap().unwrap();
        assert_eq!((guard.key(), guard.token()), (queue[place].key.clone(), queue[place].token));
        guard.release().await.unwrap();
    }
}

/// Seen to fail with a key that is not watched while it is held.
#[tokio::test]
async fn a_loss_has_its_reason() {
    let cluster = etcd().await;
    let expect = async |guard: Guard, reason| {
        assert_eq!(soon(guard.lost()).await, reason);
        assert!(!guard.is_held() && guard.remaining().is_zero());
        let error = guard.put("/data", "late").await.unwrap_err();
        assert_eq!((error.code(), error.reason()), (Code::Lost, Some(reason)));
        let error = guard.extend(TTL).await.unwrap_err();
        assert_eq!((error.code(), error.reason()), (Code::Lost, Some(reason)));
        let error = guard.release().await.unwrap_err();
        assert_eq!((error.code(), error.reason()), (Code::Lost, Some(reason)));
    };
    let client = client(&cluster);
    let guard = client.lock("/lock/a").acquire().await.unwrap();
    cluster.ctl(&["lease", "revoke", &guard.lease()]).await.unwrap();
    expect(guard, LostReason::LeaseRevoked).await;

    let guard = client.lock("/lock/a").acquire().await.unwrap();
    cluster.ctl(&["del", &guard.key()]).await.unwrap();
    expect(guard, LostReason::KeyDeleted).await;

    let guard = client.lock("/lock/a").acquire().await.unwrap();
    client.close().await.unwrap();
    expect(guard, LostReason::ClientClosed).await;
    assert_eq!(client.lock("/lock/a").acquire().await.unwrap_err().code(), Code::Closed);
    assert!(cluster.keys("").await.unwrap().is_empty());
    assert!(cluster.leases().await.unwrap().is_empty());
}

/// Seen to fail with a policy that is not looked at.
#[tokio::test]
async fn a_waiter_whose_key_dies_queues_again_or_fails_as_it_was_told() {
    let cluster = etcd().await;
    let holder = client(&cluster);
    let guard = holder.lock("/lock/a").acquire().await.unwrap();
    for revoke in [true, false] {
        let [patient, strict] = [(); 2].map(|()| client(&cluster));
        let strict_waiter = wait_as(2, &cluster, strict.lock("/lock/a").requeue(false)).await;
        let patient_waiter = wait_as(3, &cluster, patient.lock("/lock/a")).await;
        let before = holder.lock("/lock/a").queue().await.unwrap();
        for contender in &before[1..] {
            let lease = contender.lease.as_deref().unwrap();
            let end = if revoke { vec!["lease", "revoke", lease] } else { vec!["del", &contender.key] };
            cluster.ctl(&end).await.unwrap();
        }
        let error = soon(strict_waiter).await.unwrap().unwrap_err();
        assert_eq!(error.code(), Code::Lost, "{error}");
        // With its lease goes its key, and it is the end of the key that a waiter is told of.
        assert!(error.reason() == Some(LostReason::KeyDeleted) || revoke, "{error}");
        let queued_anew = || async {
            let now = holder.lock("/lock/a").queue().await.unwrap();
            now.len() == 2 && now[1].token > before[2].token
        };
        eventually("it queues again", queued_anew).await;
        patient_waiter.abort();
        for client in [patient, strict] {
            client.close().await.unwrap();
        }
    }
    guard.release().await.unwrap();
}

/// Seen to fail with a hold that is renewed all the same.
#[tokio::test]
async fn a_hold_without_renewal_ends_at_its_ttl_and_frees_the_lock() {
    let cluster = etcd().await;
    let [one, two] = [(); 2].map(|()| client(&cluster));
    let started = Instant::now();
    let guard = one.lock("/lock/a").ttl(TTL).renew(false).acquire().await.unwrap();
    // By the clock that `is_held` and every write ask: on a busy machine the word of it can come later.
    let end = started.elapsed() + guard.remaining();
    assert!(end > TTL * 3 / 4 && end < TTL, "ends after {end:?}");
    let waiter = wait_as(2, &cluster, two.lock("/lock/a")).await;
    assert!(guard.is_held());
    assert_eq!(soon(guard.lost()).await, LostReason::Expired);
    let lost = started.elapsed();
    let next = soon(waiter).await.unwrap().unwrap();
    let taken = started.elapsed();
    assert!(lost >= end, "lost after {lost:?}, and it had until {end:?}");
    // Sooner than etcd itself would have found out: whoever ends frees its key.
    println!("etcd {}: TTL {TTL:?} without renewal: lost after {lost:?}, taken after {taken:?}", cluster.release());
    assert!(taken > lost && taken - lost < Duration::from_secs(2));
    next.release().await.unwrap();

    // An extension moves the end.
    let started = Instant::now();
    let guard = one.lock("/lock/a").ttl(TTL).renew(false).acquire().await.unwrap();
    guard.extend(2 * TTL).await.unwrap();
    assert_eq!(soon(guard.lost()).await, LostReason::Expired);
    let lost = started.elapsed();
    assert!(lost > TTL * 7 / 4 && lost < 3 * TTL, "lost after {lost:?}");
    for client in [one, two] {
        client.close().await.unwrap();
    }
    assert!(cluster.leases().await.unwrap().is_empty());
}

/// Seen to fail with a TTL of the client's for all.
#[tokio::test]
async fn an_acquire_can_have_a_ttl_of_its_own() {
    let cluster = etcd().await;
    let client = client(&cluster);
    let usual = client.lock("/lock/a").acquire().await.unwrap();
    let short = client.lock("/lock/b").ttl(Duration::from_millis(6100)).acquire().await.unwrap();
    let same = client.lock("/lock/c").ttl(Duration::from_secs(7)).acquire().await.unwrap();
    assert_ne!(usual.lease(), short.lease());
    assert_eq!(short.lease(), same.lease(), "one lease for each TTL");
    let told = cluster.ctl(&["lease", "timetolive", &short.lease()]).await.unwrap();
    assert!(told.contains("granted with TTL(7s)"), "rounded up to whole seconds: {told}");
    assert!(usual.remaining() < Duration::from_secs(5) && short.remaining() > Duration::from_secs(5));
}

/// Seen to fail with a health that only knows its end.
#[tokio::test]
async fn a_session_is_suspect_before_it_is_lost_and_well_again() {
    let cluster = etcd().await;
    let proxy = Proxy::start(cluster.address(0)).unwrap();
    let client = leasehold::ClientOptions::new(format!("http://{}", proxy.address()));
    let client = client.ttl(Duration::from_secs(6)).build().unwrap();
    let mut states = client.states();
    let now =
        |client: &leasehold::Client| client.sessions().into_iter().map(|one| (one.ttl, one.state)).collect::<Vec<_>>();
    assert!(now(&client).is_empty(), "no acquire, no session");
    let guard = client.lock("/lock/a").acquire().await.unwrap();
    let ttl = Duration::from_secs(6);
    assert_eq!(now(&client), [(ttl, SessionState::Ok)]);
    proxy.hold_all();
    let change = soon(states.next()).await.unwrap();
    assert_eq!((change.ttl, change.state), (ttl, SessionState::Suspect));
    assert_eq!(now(&client), [(ttl, SessionState::Suspect)]);
    assert!(guard.is_held(), "there is time left to stop in good order");
    proxy.pass();
    assert_eq!(soon(states.next()).await.unwrap().state, SessionState::Ok);
    assert_eq!(now(&client), [(ttl, SessionState::Ok)]);
    assert!(guard.is_held());
    guard.put("/data", "x").await.unwrap();
    guard.release().await.unwrap();
}

/// Seen to fail with an engine on the caller's runtime.
#[tokio::test]
async fn a_caller_that_blocks_its_runtime_keeps_its_lock() {
    let cluster = etcd().await;
    let client = options(&cluster).ttl(TTL).build().unwrap();
    let guard = client.lock("/lock/a").acquire().await.unwrap();
    thread::sleep(2 * TTL);
    assert!(guard.is_held());
    assert_eq!(cluster.keys("/lock/").await.unwrap(), [guard.key()]);
    guard.release().await.unwrap();
}

/// Seen to fail with an engine on the caller's runtime.
#[tokio::test]
async fn a_thread_without_a_runtime_can_lock() {
    let cluster = etcd().await;
    let client = client(&cluster);
    let other = client.clone();
    let elsewhere = thread::spawn(move || {
        pollster::block_on(async {
            assert!(tokio::runtime::Handle::try_current().is_err());
            other.ping().await?;
            let guard = other.lock("/lock/a").acquire_within(Duration::from_secs(20)).await?;
            guard.put("/data", "x").await?;
            guard.extend(Duration::from_secs(5)).await?;
            other.lock("/lock/a").queue().await?;
            guard.release().await?;
            drop(other.lock("/lock/a").acquire().await?);
            Ok::<_, leasehold::Error>(())
        })
    });
    elsewhere.join().unwrap().unwrap();
    client.close().await.unwrap();
    assert_eq!(cluster.keys("").await.unwrap(), ["/data"]);
}
