//! A week of one client's life in virtual time: names that never come again, many TTLs, every kind of lock, lost replies, late copies,
//! foreign contenders, administrators. After each day, when all is given back, the client must need no more memory than before.
//!
//! With LEASEHOLD_FULL in the environment it lives through ten million acquires; else through a few thousand.

mod stage;

use std::{
    alloc::{GlobalAlloc, Layout, System},
    collections::BTreeMap,
    env,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use fastrand::Rng;
use leasehold::{
    Claim, Code, Error,
    clock::Moment,
    hub::{Acquire, Action, Input, Loan, Returned, Want},
    queue::wire,
    store::{Key, Keys, LeaseId, Op, Pick, Range, Renewed, Request, Txn, WatchId, WatchReply, memory::matching},
    terms::{LocalFirst, Mode, Sharing, Ticket},
};

use self::stage::Stage;

/// What is allocated now, in bytes.
static LIVE: AtomicUsize = AtomicUsize::new(0);

#[global_allocator]
static COUNTING: Counting = Counting;

/// The system's allocator, and how much of it is in use.
struct Counting;

// SAFETY: everything is left to the system's allocator, with what came in.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LIVE.fetch_add(layout.size(), Ordering::Relaxed);
        // SAFETY: what the caller promises is what the system's allocator asks for.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: it came from there, with this layout.
        unsafe { System.dealloc(place, layout) }
    }
}

/// The name at which somebody always stands: what others leave in its queue is not forgotten with it.
const BUSY: &str = "/busy";
/// Who that is.
const STANDING: Ticket = Ticket(u64::MAX);
/// Its TTL, and nobody else's.
const LONG: Duration = Duration::from_secs(1_000);
/// The TTL that a client has by itself.
const USUAL: Duration = Duration::from_secs(15);
const DAYS: u64 = 7;
const DAY: Duration = Duration::from_secs(24 * 3600);
/// How long after the last acquire nothing of a day is left: the session of an unusual TTL outlives its last use by a minute, and a
/// lease that somebody else left ends by itself.
const EVENING: Duration = Duration::from_secs(3600);
/// What a day consists of.
#[derive(Debug, Default)]
struct Tally {
    won: u64,
    failed: u64,
    lost: u64,
    lent: u64,
    copies: u64,
    foreign: u64,
}

/// One client, its etcd, and everybody who has to do with them.
struct Life {
    stage: Stage,
    rng: Rng,
    watches: BTreeMap<WatchId, Keys>,
    lent: BTreeMap<Ticket, Loan>,
    /// Who waits.
    waiting: BTreeMap<Ticket, ()>,
    holds: BTreeMap<Ticket, Vec<Key>>,
    /// The lease of whoever stands at the busy name all the time.
    long_lease: Option<LeaseId>,
    /// What happens by itself, and when.
    due: BTreeMap<(Moment, u64), Due>,
    numbers: u64,
    tally: Tally,
}

enum Due {
    Release(Ticket),
    GiveUp(Ticket),
    /// A request takes effect again.
    Copy(Request),
    /// A foreign contender leaves.
    Leave(Key),
}

impl Life {
    fn number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }

    fn later(&mut self, most: Duration, what: Due) {
        let at = self.stage.now + most.mul_f64(self.rng.f64());
        let number = self.number();
        self.due.insert((at, number), what);
    }

    /// Somebody takes a share of the busy name, for ever.
    fn stand(&mut self) {
        let wants = vec![Want { name: Arc::from(BUSY), claim: Claim::Shared }];
        let acquire = Acquire {
            wants,
            ttl: LONG,
            renew: true,
            mode: Mode::Wait,
            wait: None,
            sharing: Sharing::default(),
            ..self.wish()
        };
        self.stage.feed(Input::Acquire(STANDING, acquire));
        self.serve();
    }

    /// Some callers come at one moment.
    fn burst(&mut self, callers: u64) {
        for _ in 0..callers {
            let ticket = Ticket(self.number());
            let acquire = self.wish();
            self.waiting.insert(ticket, ());
            self.stage.feed(Input::Acquire(ticket, acquire));
            if self.rng.u8(..) < 20 {
                self.later(Duration::from_secs(10), Due::GiveUp(ticket));
            }
        }
        match self.rng.u8(..) {
            0..60 => self.foreign(),
            60..80 => self.administrate(),
            _ => {}
        }
        self.serve();
    }

    fn wish(&mut self) -> Acquire {
        let names = if self.rng.u8(..) < 20 { self.rng.usize(2..5) } else { 1 };
        let mut wants = BTreeMap::new();
        for _ in 0..names {
            let (name, claim) = match self.rng.u8(..) {
                0..70 => (format!("/hot/{}", self.rng.u8(..20)), Claim::Exclusive),
                70..90 => (format!("/read/{}", self.rng.u8(..5)), Claim::Shared),
                90..100 => (format!("/read/{}", self.rng.u8(..5)), Claim::Exclusive),
                100..110 => (BUSY.to_owned(), Claim::Shared),
                110..120 => ("/permits".to_owned(), Claim::Permits { permits: self.rng.u32(1..3), limit: 5 }),
                _ => (format!("/order/{}", self.number()), Claim::Exclusive),
            };
            wants.insert(name, claim);
        }
        let is_single = wants.len() == 1;
        let renew = self.rng.u8(..) > 25;
        let mut sharing = Sharing::default();
        if is_single && renew && wants.values().all(|claim| *claim == Claim::Exclusive) {
            match self.rng.u8(..) {
                0..40 => sharing.local_first = Some(LocalFirst::default()),
                40..80 => sharing.linger = Duration::from_secs(2),
                _ => {}
            }
        }
        Acquire {
            wants: wants.into_iter().map(|(name, claim)| Want { name: Arc::from(name), claim }).collect(),
            mode: if self.rng.u8(..) < 40 { Mode::Try } else { Mode::Wait },
            ttl: if self.rng.u8(..) < 20 { Duration::from_secs(self.rng.u64(2..600)) } else { USUAL },
            renew,
            requeue: self.rng.bool(),
            wait: (self.rng.u8(..) < 40).then(|| Duration::from_millis(self.rng.u64(1..20_000))),
            sharing,
            value: Arc::default(),
            is_candidate: false,
        }
    }

    /// Somebody of whom we know nothing stands in a queue for a while.
    fn foreign(&mut self) {
        self.tally.foreign += 1;
        let number = self.number();
        let key = Key::from(format!("/hot/{}/foreign-{number}", self.rng.u8(..20)).as_str());
        let put = Op::Put { key: key.clone(), value: Arc::default(), lease: None };
        self.stage.apply(&Request::Txn(Txn { then: vec![put], ..Txn::default() })).expect("a foreign contender");
        self.later(Duration::from_secs(5), Due::Leave(key));
    }

    /// Somebody deletes the key of a hold, or revokes a lease, but not of the one that stands for ever.
    fn administrate(&mut self) {
        if self.rng.bool() {
            let holds = self.holds.iter().filter(|(ticket, _)| **ticket != STANDING);
            let keys: Vec<Key> = holds.flat_map(|(_, keys)| keys).cloned().collect();
            if let Some(key) = self.rng.choice(&keys) {
                self.stage.apply(&wire::delete_unseen(key)).expect("a delete");
            }
        } else {
            let leases: Vec<LeaseId> = self.stage.kv.leases().filter(|lease| Some(*lease) != self.long_lease).collect();
            if let Some(&lease) = self.rng.choice(&leases) {
                self.stage.apply(&Request::LeaseRevoke { lease }).expect("it is there");
            }
        }
    }

    /// Until nobody has anything to say.
    fn serve(&mut self) {
        loop {
            // Answered before anything else comes in.
            let recalls: Vec<_> = self.stage.told.extract_if(.., |told| matches!(told, Action::Recall(_))).collect();
            for recall in recalls {
                let Action::Recall(ticket) = recall else { continue };
                let Some(loan) = self.lent.remove(&ticket) else { continue };
                let returned =
                    Returned { sequence: loan.hold.sequence, sharing: loan.sharing, until: Some(loan.until) };
                self.stage.feed(Input::Recalled(ticket, returned));
            }
            if let Some(told) = (!self.stage.told.is_empty()).then(|| self.stage.told.remove(0)) {
                self.hear(told);
                continue;
            }
            let changes = self.stage.kv.take_changes();
            for (id, keys) in self.watches.clone() {
                let events = matching(&keys, &changes);
                if !events.is_empty() {
                    self.stage.feed(Input::Watch(WatchReply::Events { id, events }));
                }
            }
            if !changes.is_empty() {
                continue;
            }
            let Some((rpc, request)) = self.stage.calls.pop_front() else { break };
            match self.rng.u16(..1_000) {
                // The request is lost, or its reply.
                0..2 => self.stage.time_out(rpc),
                2..4 => {
                    // Whether it is refused, nobody learns.
                    let _ = self.stage.apply(&request);
                    self.stage.time_out(rpc);
                }
                luck => {
                    if luck < 6 {
                        self.tally.copies += 1;
                        self.later(Duration::from_secs(10), Due::Copy(request.clone()));
                    }
                    let reply = self.stage.apply(&request);
                    self.stage.feed(Input::Reply(rpc, reply));
                }
            }
        }
    }

    fn hear(&mut self, told: Action) {
        match told {
            Action::Watch(id, keys) => {
                self.watches.insert(id, keys);
                let revision = self.stage.kv.revision();
                self.stage.feed(Input::Watch(WatchReply::Created { id, revision }));
            }
            Action::Unwatch(id) => {
                self.watches.remove(&id);
            }
            Action::Renew(stream, lease) => {
                let ttl = self.stage.kv.renew(self.stage.now, lease);
                self.stage.feed(Input::Renewed(stream, Renewed { lease, ttl }));
            }
            Action::Lend(ticket, loan) => {
                self.tally.lent += 1;
                self.lent.insert(ticket, loan);
            }
            Action::Acquired(ticket, hold) => {
                self.tally.won += 1;
                self.waiting.remove(&ticket);
                self.holds.insert(ticket, hold.keys);
                if ticket == STANDING {
                    self.long_lease = Some(hold.lease);
                    return;
                }
                let most = if self.rng.u8(..) < 10 { Duration::from_secs(60) } else { Duration::from_millis(100) };
                self.later(most, Due::Release(ticket));
            }
            Action::Failed(ticket, _) => {
                self.tally.failed += 1;
                self.waiting.remove(&ticket);
            }
            Action::Lost(ticket, _) => {
                self.tally.lost += 1;
                self.lent.remove(&ticket);
                self.holds.remove(&ticket);
            }
            _ => {}
        }
    }

    /// Time passes, with everything that it brings.
    fn pass(&mut self, until: Moment) {
        loop {
            let due = self.due.keys().next().map(|(at, _)| *at);
            let next = [self.stage.hub.wake(), due, self.stage.kv.next_expiry()].into_iter().flatten().min();
            let Some(next) = next.filter(|next| *next <= until) else { break };
            self.stage.now = self.stage.now.max(next);
            self.stage.kv.expire(self.stage.now);
            self.stage.feed(Input::Wake);
            self.serve();
            while let Some(entry) = self.due.first_entry().filter(|entry| entry.key().0 <= self.stage.now) {
                match entry.remove() {
                    Due::Release(ticket) => {
                        if self.holds.remove(&ticket).is_some() {
                            self.stage.feed(Input::Release(ticket));
                        }
                    }
                    Due::GiveUp(ticket) => {
                        if self.waiting.contains_key(&ticket) {
                            self.stage.feed(Input::Cancel(ticket, Error::new(Code::Cancelled, "gave up")));
                        }
                    }
                    // Whether it is refused now, nobody learns.
                    Due::Copy(request) => drop(self.stage.apply(&request)),
                    Due::Leave(key) => drop(self.stage.apply(&wire::delete_unseen(&key))),
                }
                self.serve();
            }
        }
        self.stage.now = self.stage.now.max(until);
    }
}

/// Seen to fail with leases that a busy queue never forgets, with sessions of unused TTLs that are kept, and with a watch that
/// outlives its queue.
#[test]
fn a_week_leaves_nothing_behind() {
    let is_full = env::var_os("LEASEHOLD_FULL").is_some_and(|value| !value.is_empty());
    // Of each lease up to a thousand keys are remembered about which a lost request may still be on its way.
    let slack = if is_full { 160 * 1024 } else { 0 };
    let (most, mean) = (40, 20);
    let bursts = if is_full { 10_000_000 } else { 14_000 } / DAYS / mean;
    let mut life = Life {
        stage: Stage::new(),
        rng: Rng::with_seed(7),
        watches: BTreeMap::new(),
        lent: BTreeMap::new(),
        waiting: BTreeMap::new(),
        holds: BTreeMap::new(),
        long_lease: None,
        due: BTreeMap::new(),
        numbers: 0,
        tally: Tally::default(),
    };
    life.stand();
    let mut evenings = Vec::new();
    for day in 1..=DAYS {
        let morning = life.stage.now;
        for burst in 0..bursts {
            let at = (DAY - EVENING).mul_f64(burst as f64 / bursts as f64);
            life.pass(morning + at);
            let callers = life.rng.u64(1..most);
            life.burst(callers);
        }
        life.pass(morning + DAY);
        let tally = std::mem::take(&mut life.tally);
        assert!(life.waiting.is_empty() && life.lent.is_empty(), "day {day}: nobody waits");
        assert!(life.holds.keys().eq([&STANDING]), "day {day}: all but one is given back");
        let all = Range { keys: Keys::prefix(Key::from("/")), limit: 0, keys_only: true, pick: Pick::All };
        assert_eq!(life.stage.kv.range(&all).kvs.len(), 1, "day {day}: its key stands");
        assert!(life.stage.kv.leases().count() <= 2, "day {day}: no lease but its and the client's own");
        assert_eq!(life.watches.len(), 1, "day {day}: its key is watched");
        let live = LIVE.load(Ordering::Relaxed);
        println!("day {day}: {live} bytes, {tally:?}");
        let kinds = [tally.won, tally.failed, tally.lost, tally.lent, tally.copies, tally.foreign];
        assert!(kinds.iter().all(|count| *count > 0), "day {day}: everything happens: {tally:?}");
        evenings.push(live);
    }
    // It breathes from day to day. What grows is more in each.
    let (early, late) = (evenings[..3].iter().max(), evenings[4..].iter().min());
    assert!(late <= early.map(|early| early + slack).as_ref(), "it grows: {evenings:?} bytes");
}
