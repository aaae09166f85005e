//! What every step of the sweep plays: all that a lock does, by two clients on one name, the first with a fault.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use leasehold::{Guard, Lock, store::etcd::EtcdStore};
use tokio::{
    sync::MutexGuard,
    time::{Instant, timeout},
};

use crate::{
    party::{ANSWER, CALM, Door, HASTY, Party, Referee, TTL, answered, documented, keys, leave_nothing, until},
    tally::{Kind, Planted},
};

/// How long a wait limit, or a caller's patience, lasts in the scenario: less than an attempt, so faults outlast it.
const SHORT: Duration = Duration::from_millis(60);
/// A dead key of a living session is found at the next renewal, and deleted; a reply may be late in between. The rest is for a busy
/// machine.
const SWEEP: Duration = Duration::from_secs(15);
/// How often a step is played until its fault finds a place.
pub const ATTEMPTS: usize = 4;

/// How often the lock goes to the second client and back.
const ROUNDS: usize = 2;

/// What a step saw.
pub struct Seen {
    /// What the first client asked.
    pub asked: BTreeMap<Kind, usize>,
    /// Whether there was a place for the fault.
    pub has_hit: bool,
}

pub async fn play(ground: &Ground, name: &str, planted: Option<Planted>) -> Seen {
    let etcd = &ground.etcd;
    let one = Party::new(&ground.door, &ground.endpoints, name, HASTY);
    let two = Party::new(&Door::Store, &ground.endpoints, name, CALM);
    if let Some(planted) = planted {
        one.tally.plant(planted);
    }
    let referee = Referee::default();
    let mut rounds = ROUNDS;

    // Taken, with somebody behind: a try, a wait limit and a dropped acquire that come to nothing.
    let first = referee.enter(acquire(one.lock.clone()).await);
    let waiting = tokio::spawn(only_acquire(two.lock.clone()));
    until(ANSWER, "the second client has queued", || async { two.tally.answered(Kind::Enqueue) > 0 }).await;
    visit(&referee, documented(answered("a try", one.lock.try_acquire()).await).flatten()).await;
    visit(&referee, documented(answered("a limited acquire", one.lock.acquire_within(SHORT)).await)).await;
    visit(&referee, timeout(SHORT, one.lock.acquire()).await.ok().and_then(documented)).await;

    // From the first to the second and back, behind it, and once more: a fault can spoil the second wait after the first.
    documented(referee.leave(first).await);
    let mut theirs = referee.enter(waiting.await.expect("it does not panic"));
    let mut ours;
    loop {
        let sent = one.tally.answered(Kind::Enqueue);
        let waiting = tokio::spawn(acquire(one.lock.clone()));
        until(ANSWER, "the first client has queued again", || async {
            one.tally.answered(Kind::Enqueue) > sent || waiting.is_finished()
        })
        .await;
        referee.leave(theirs).await.expect("the second client has no faults");
        ours = referee.enter(waiting.await.expect("it does not panic"));
        rounds -= 1;
        if rounds == 0 {
            break;
        }
        documented(referee.leave(ours).await);
        theirs = referee.enter(only_acquire(two.lock.clone()).await);
    }
    let renewed = one.tally.answered(Kind::RenewalReply);
    until(ANSWER, "a renewal is acknowledged", || async {
        one.tally.answered(Kind::RenewalReply) > renewed || !referee.is_held(ours)
    })
    .await;
    documented(referee.leave(ours).await);
    visit(&referee, documented(answered("a try", one.lock.try_acquire()).await).flatten()).await;

    // Whatever came late or never: nobody is kept out by it, and nothing is left while the sessions live on.
    one.tally.settled().await;
    let last = timeout(TTL + SWEEP, only_acquire(two.lock.clone())).await.expect("a free lock is had in time");
    referee.leave(referee.enter(last)).await.expect("the second client has no faults");
    until(SWEEP, "0 keys are left of living sessions", || async { keys(etcd, name).await == 0 }).await;

    leave_nothing(etcd, name, &[&one, &two]).await;
    Seen { asked: one.tally.all_asked(), has_hit: one.tally.has_hit() }
}

/// Acquires, in spite of faults: one can spoil an attempt, and a busy machine the next ones.
pub async fn acquire(lock: Lock) -> Guard {
    let patience = Instant::now() + ANSWER;
    while Instant::now() < patience {
        if let Some(guard) = documented(answered("an acquire", lock.acquire()).await) {
            return guard;
        }
    }
    panic!("every acquire fails for {ANSWER:?}");
}

/// Acquires without faults of its own.
async fn only_acquire(lock: Lock) -> Guard {
    answered("an acquire", lock.acquire()).await.expect("the second client has no faults")
}

/// A guard that need not be: where the first hold was lost, a try may win.
async fn visit(referee: &Referee, guard: Option<Guard>) {
    if let Some(guard) = guard {
        documented(referee.leave(referee.enter(guard)).await);
    }
}

/// All steps of a sweep at `door`: each fault at each of what was `asked` without one.
pub fn steps(asked: &BTreeMap<Kind, usize>, door: &Door) -> Vec<Planted> {
    let places = asked.iter().flat_map(|(kind, count)| (1..=*count).map(|number| (*kind, number)));
    places
        .flat_map(|(kind, number)| kind.faults(door).into_iter().map(move |fault| Planted { kind, number, fault }))
        .collect()
}

/// What the tasks of a sweep share.
pub struct Ground {
    pub endpoints: Vec<String>,
    pub etcd: EtcdStore,
    /// Where the faults of the first client are played.
    pub door: Door,
    /// Held by tests that start many servers: one at a time.
    pub _turn: Option<MutexGuard<'static, ()>>,
}

/// Plays a step until its fault has hit, for the number of reads and of watch replies varies a little with time.
pub async fn play_until_hit(ground: Arc<Ground>, number: usize, planted: Planted) -> bool {
    for attempt in 0..ATTEMPTS {
        let name = format!("/sweep/{number}-{attempt}");
        if play(&ground, &name, Some(planted)).await.has_hit {
            return true;
        }
    }
    false
}
