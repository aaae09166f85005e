//! A request that reaches its member seconds late, after the client went on through another one: what it does to a lock that was
//! taken, released or taken again meanwhile, while the session lives on.

use std::{cell::Cell, time::Duration};

use leasehold::{
    Guard,
    store::{Change, Keys, Store, WatchId, WatchReply, WatchRequest, WatchStream},
};
use leasehold_etcd::{Cluster, undisturbed};
use tokio::time::Instant;

use crate::{
    ground,
    party::{Party, STEADY, answered, keys, leave_nothing, until},
    scenario::{Ground, acquire},
    tally::{Fault, Kind},
    wire,
};

/// After the operation would have been given up and the session would have ended, and far later still.
const TIMES: [Duration; 2] = [Duration::from_millis(6_500), Duration::from_secs(11)];
/// A sweep comes after a third of the TTL of 6 s, and the one that confirms it soon after. The rest is for a busy machine: without a
/// sweep, nothing would ever end a ghost.
const BOUND: Duration = Duration::from_secs(30);
/// For what happens at once, on such a machine.
const SOON: Duration = Duration::from_secs(15);

/// A client whose next request of a kind is late, and a look at what etcd does with the keys of its lock.
struct Stage<'a> {
    ground: &'a Ground,
    name: String,
    party: Party,
    changes: WatchStream,
    /// Of another lock of the same session.
    kept: Guard,
}

impl<'a> Stage<'a> {
    async fn new(ground: &'a Ground, name: String) -> Self {
        let party = Party::new(&ground.door, &ground.endpoints, &name, STEADY);
        let mut changes = ground.etcd.watches();
        let keys = Keys::prefix(format!("{name}/").into());
        changes.requests.send(WatchRequest::Create(WatchId(1), keys)).expect("it is open");
        let created = answered("a watch", changes.replies.recv()).await;
        assert!(matches!(created, Some(Ok(WatchReply::Created { .. }))), "{created:?}");
        let kept = answered("an acquire", party.client.lock(&format!("{name}-kept")).acquire()).await.expect("free");
        Self { ground, name, party, changes, kept }
    }

    /// The next request of `kind` is to be late, and its client to go on through another member.
    fn hold_up(&self, kind: Kind, late: Duration) -> usize {
        self.party.tally.plant_next(kind, Fault::LateRequest(late));
        self.members()
    }

    /// How many members were asked for anything.
    fn members(&self) -> usize {
        self.party.wire.as_ref().expect("it is on the wire").requests().iter().filter(|count| **count > 0).count()
    }

    async fn acquire(&self) -> Guard {
        acquire(self.party.lock.clone()).await
    }

    async fn arrival(&self) -> Instant {
        assert!(self.party.tally.has_hit(), "a request was held up");
        assert!(self.members() > 1, "the client went on through another member");
        self.party.tally.settled().await;
        Instant::now()
    }

    /// The puts and the deletes of keys of the lock since the last look.
    fn changes(&mut self) -> (usize, usize) {
        let (mut puts, mut deletes) = (0, 0);
        while let Ok(reply) = self.changes.replies.try_recv() {
            let WatchReply::Events { events, .. } = reply.expect("the watch stands") else { continue };
            for event in events {
                match event.change {
                    Change::Put { .. } => puts += 1,
                    Change::Delete => deletes += 1,
                }
            }
        }
        (puts, deletes)
    }

    async fn stands(&self) -> i64 {
        keys(&self.ground.etcd, &self.name).await
    }

    /// The session is still the first one, the lock is free, and nothing is left.
    async fn end(self) {
        assert!(self.kept.is_held(), "the session lives on");
        self.acquire().await.release().await.expect("held");
        assert!(self.kept.is_held(), "the session lives on");
        self.kept.release().await.expect("held");
        leave_nothing(&self.ground.etcd, &self.name, &[&self.party]).await;
    }
}

/// Enqueued by another member, held and released; then the first enqueue puts its key again. How long that stood, in a round in which
/// the release came before the late request, as it does unless the machine stands still.
async fn after_the_release(ground: &Ground, name: String, kind: Kind, late: Duration) -> Duration {
    let stood = Cell::new(Duration::ZERO);
    undisturbed(async |round| {
        stood.set(one_release(ground, format!("{name}/{round}"), kind, late).await?);
        Ok(())
    })
    .await;
    stood.get()
}

async fn one_release(ground: &Ground, name: String, kind: Kind, late: Duration) -> Result<Duration, String> {
    let mut stage = Stage::new(ground, name).await;
    let begun = Instant::now();
    stage.hold_up(kind, late);
    let guard = match kind {
        Kind::Try => answered("a try", stage.party.lock.try_acquire()).await.expect("etcd answers").expect("free"),
        _ => stage.acquire().await,
    };
    answered("a release", guard.release()).await.expect("held");
    let took = begun.elapsed();
    let stands = stage.stands().await;
    assert!(stands == 0 || begun.elapsed() > late, "the request has not arrived");
    let arrived = stage.arrival().await;
    until(BOUND, "the ghost is gone while the session lives on", || async { stage.stands().await == 0 }).await;
    let stood = arrived.elapsed();
    let (puts, deletes) = stage.changes();
    stage.end().await;
    if took >= late {
        return Err(format!("the release was only answered after {took:?}"));
    }
    assert!(puts >= 2 && puts == deletes, "the lock's own key came and went, and so did the ghost: {puts}, {deletes}");
    Ok(stood)
}

/// Enqueued by another member and still held when the first enqueue arrives: it changes nothing.
async fn during_the_hold(ground: &Ground, name: String, kind: Kind, late: Duration) {
    let mut stage = Stage::new(ground, name).await;
    stage.hold_up(kind, late);
    let guard = stage.acquire().await;
    stage.arrival().await;
    assert!(guard.is_held());
    assert_eq!(stage.stands().await, 1);
    let (puts, deletes) = stage.changes();
    assert_eq!(puts, deletes + 1, "only the key of the hold stands");
    answered("a release", guard.release()).await.expect("held");
    stage.end().await;
}

/// Released by another member and taken again when the first delete arrives: it changes nothing, for it is guarded, and the next
/// hold has another key.
async fn during_the_next_hold(ground: &Ground, name: String, late: Duration) {
    let mut stage = Stage::new(ground, name).await;
    let first = stage.acquire().await;
    stage.hold_up(Kind::Delete, late);
    answered("a release", first.release()).await.expect("another member answers");
    let second = stage.acquire().await;
    stage.arrival().await;
    assert!(second.is_held());
    assert_eq!(stage.stands().await, 1);
    let (puts, deletes) = stage.changes();
    assert_eq!(puts, deletes + 1, "only the key of the next hold stands");
    answered("a release", second.release()).await.expect("held");
    stage.end().await;
}

/// The enqueue and the deletion of its key are both late: the next hold has another key, so that neither touches it.
async fn with_its_deletion(ground: &Ground, name: String, late: Duration) {
    let mut stage = Stage::new(ground, name).await;
    stage.hold_up(Kind::Enqueue, Duration::from_secs(3));
    let caller = tokio::spawn({
        let lock = stage.party.lock.clone();
        async move { lock.acquire().await.map(drop) }
    });
    until(SOON, "the enqueue is held up", || async { stage.party.tally.has_hit() }).await;
    stage.hold_up(Kind::Clean, late);
    caller.abort();
    until(SOON, "the deletion is held up", || async { stage.party.tally.has_hit() }).await;
    let guard = stage.acquire().await;
    stage.arrival().await;
    assert!(guard.is_held(), "a deletion by name took away another key");
    until(BOUND, "only the key of the hold stands", || async { stage.stands().await == 1 }).await;
    answered("a release", guard.release()).await.expect("held");
    let (puts, deletes) = stage.changes();
    assert!(puts >= 2 && deletes >= 1, "{puts} puts, {deletes} deletes");
    stage.end().await;
}

/// Seen to fail without sweeps, with the number of a key used again too early, and with another key for each attempt.
#[tokio::test]
async fn a_late_request_that_another_member_overtook_does_no_harm() {
    let (cluster, ground): (Cluster, _) = ground(3, wire).await;
    let ground = &ground;
    let all = TIMES.into_iter().map(|late| async move {
        let name = |what: &str| format!("/late/{what}/{}", late.as_millis());
        let ((), (), (), enqueued, tried) = tokio::join!(
            during_the_hold(ground, name("held"), Kind::Enqueue, late),
            during_the_next_hold(ground, name("again"), late),
            with_its_deletion(ground, name("deletion"), late),
            after_the_release(ground, name("released"), Kind::Enqueue, late),
            after_the_release(ground, name("tried"), Kind::Try, late),
        );
        println!(
            "wire, {late:?} late, the client went on through another member: the ghost of an enqueue stood for {enqueued:?}, \
             of a try for {tried:?}"
        );
    });
    futures_util::future::join_all(all).await;
    assert!(cluster.leases().await.expect("etcd answers").is_empty());
}
