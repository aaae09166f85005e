//! The ghost: an enqueue that reaches etcd when its caller is gone and its key was deleted already, while the session lives on.
//!
//! The session renews its lease, so nothing but the sweep would ever free that key. On the wire, the key was deleted through
//! another member than the one that the enqueue is still on its way to.

use std::time::Duration;

use leasehold_etcd::Cluster;
use tokio::time::Instant;

use crate::{
    ground,
    party::{Door, LASTING, Party, answered, documented, keys, leave_nothing, until},
    scenario::{ATTEMPTS, Ground, acquire},
    tally::{Fault, Kind, LATE},
    wire,
};

/// A sweep comes after a third of the TTL and the one that confirms it soon after; with a fault in the sweep itself, 4 s later at
/// most. The rest is for a busy machine: without a sweep, nothing would ever end a ghost.
const BOUND: Duration = Duration::from_secs(30);

/// Lets a ghost appear and plays `fault` on its sweep; how long it stood. `None` if it was gone before the fault found a place: the
/// sweep can come at the same time.
async fn haunt(ground: &Ground, name: &str, fault: Option<(Kind, Fault)>) -> Option<Duration> {
    let party = Party::new(&ground.door, &ground.endpoints, name, LASTING);
    documented(answered("a release", acquire(party.lock.clone()).await.release()).await);
    party.tally.plant_next(Kind::Enqueue, Fault::LateRequest(LATE));
    let caller = tokio::spawn({
        let lock = party.lock.clone();
        async move { lock.acquire().await.map(drop) }
    });
    until(BOUND, "the request is held up", || async { party.tally.has_hit() }).await;
    caller.abort();
    until(BOUND, "the key that does not stand yet was deleted", || async { party.tally.answered(Kind::Clean) > 0 })
        .await;
    assert_eq!(keys(&ground.etcd, name).await, 0, "the request has not arrived");

    let deleted = party.tally.answered(Kind::Clean);
    party.tally.settled().await;
    let appeared = Instant::now();
    if let Some((kind, fault)) = fault {
        party.tally.plant_next(kind, fault);
    }
    until(BOUND, "the ghost is gone while the session lives on", || async { keys(&ground.etcd, name).await == 0 })
        .await;
    let stood = appeared.elapsed();
    let has_hit = party.tally.has_hit();
    until(BOUND, "its deletion is confirmed", || async { !has_hit || party.tally.answered(Kind::Clean) > deleted })
        .await;
    // The lock is free and the session lives; what was held up last may still be in the way.
    let guard = acquire(party.lock.clone()).await;
    documented(answered("a release", guard.release()).await);
    assert_eq!(party.tally.asked(Kind::Grant), 1, "it is still the same session");
    leave_nothing(&ground.etcd, name, &[&party]).await;
    has_hit.then_some(stood)
}

/// A ghost at the ground's door without another fault, and one for each fault of its sweep.
async fn haunt_all(cluster: &Cluster, ground: &Ground) {
    let mut faults = vec![None];
    for kind in [Kind::Sweep, Kind::Clean] {
        faults.extend(kind.faults(&ground.door).into_iter().map(|fault| Some((kind, fault))));
    }
    let door = if matches!(ground.door, Door::Store) { "store" } else { "wire" };
    let all = faults.iter().enumerate().map(|(number, fault)| async move {
        let mut attempts = 0..ATTEMPTS;
        let stood = loop {
            let attempt = attempts.next().expect("the fault finds a place");
            if let Some(stood) = haunt(ground, &format!("/ghost/{number}-{attempt}"), *fault).await {
                break stood;
            }
        };
        println!("{door}, an enqueue {LATE:?} late, fault in the sweep {fault:?}: it stood for {stood:?}");
    });
    futures_util::future::join_all(all).await;
    assert!(cluster.leases().await.expect("etcd answers").is_empty());
}

/// Seen to fail with a cleaner that deletes no keys.
#[tokio::test]
async fn a_ghost_is_swept_while_the_session_lives() {
    let (cluster, ground) = ground(1, |_| Door::Store).await;
    haunt_all(&cluster, &ground).await;
}

/// Seen to fail with a cleaner that deletes no keys.
#[tokio::test]
async fn a_ghost_that_another_member_was_asked_to_delete_is_swept() {
    let (cluster, ground) = ground(3, wire).await;
    haunt_all(&cluster, &ground).await;
}
