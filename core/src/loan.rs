//! Places that linger: taken and given back by whoever comes next, on its own thread, without a word to the engine.
//!
//! The engine lends a place out and ends the loan when it wants to know who has it: because somebody else stands in the queue, time
//! is up, or a caller needs what only the engine can give. What both sides look at stands under one lock that is held for a few
//! instructions, so a place is either free, held by one guard, or back with the engine. Locks of a parent process are never
//! touched in a forked child: its client starts with none of this, and guards of the parent look at nothing.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::runtime::Handle;

use crate::{
    clock::{self, Moment},
    engine::Won,
    hold::{End, Fate, HoldState},
    hub::{Hold, Loan, Returned},
    metrics::Recorder,
    terms::{Sharing, Ticket},
};

/// The places that linger, by the name of their lock: no more than one each, as nobody else can own the name meanwhile.
#[derive(Debug, Default)]
pub(crate) struct Loans {
    by_name: Mutex<HashMap<Arc<str>, Arc<Lent>>>,
}

impl Loans {
    /// Takes the place of that name, if one lingers in the session of that TTL and there is time enough.
    pub(crate) fn take(&self, name: &str, ttl: Duration, sharing: Sharing) -> Option<Won> {
        let lent = locked(&self.by_name).get(name).filter(|lent| lent.loan.ttl == ttl)?.clone();
        lent.take(sharing)
    }

    pub(crate) fn insert(&self, lent: Arc<Lent>) {
        locked(&self.by_name).insert(lent.loan.name.clone(), lent);
    }

    pub(crate) fn remove(&self, lent: &Arc<Lent>) {
        let mut by_name = locked(&self.by_name);
        if by_name.get(&lent.loan.name).is_some_and(|known| Arc::ptr_eq(known, lent)) {
            by_name.remove(&lent.loan.name);
        }
    }
}

/// A place that is lent.
#[derive(Debug)]
pub(crate) struct Lent {
    ticket: Ticket,
    loan: Loan,
    /// The deadline of its session, in nanoseconds of [`Moment`]; written by the engine alone.
    deadline: Arc<AtomicU64>,
    runtime: Handle,
    recorder: Arc<Recorder>,
    desk: Mutex<Desk>,
}

/// Who has the place.
#[derive(Debug)]
struct Desk {
    seat: Seat,
    /// The number of the last hold.
    sequence: u64,
    /// How that shares its place.
    sharing: Sharing,
}

#[derive(Debug)]
enum Seat {
    /// Nobody; it may be taken until then.
    Free(Moment),
    /// Somebody, since then.
    Held(Moment, Arc<HoldState>),
    /// The engine.
    Ended,
}

impl Lent {
    pub(crate) fn new(
        ticket: Ticket,
        loan: Loan,
        deadline: Arc<AtomicU64>,
        runtime: Handle,
        recorder: Arc<Recorder>,
    ) -> Self {
        let desk = Desk { seat: Seat::Free(loan.until), sequence: loan.hold.sequence, sharing: loan.sharing };
        Self { ticket, loan, deadline, runtime, recorder, desk: Mutex::new(desk) }
    }

    fn take(self: &Arc<Self>, sharing: Sharing) -> Option<Won> {
        let mut desk = locked(&self.desk);
        let now = clock::now();
        let Seat::Free(until) = desk.seat else { return None };
        if now >= until || now + self.loan.slack > Moment::from_nanos(self.deadline.load(Ordering::Acquire)) {
            return None;
        }
        desk.sequence += 1;
        desk.sharing = sharing;
        let state = Arc::new(HoldState::new(self.deadline.clone(), self.runtime.clone()));
        desk.seat = Seat::Held(now, state.clone());
        self.recorder.acquire_begun();
        self.recorder.acquire_ended(Duration::ZERO, None);
        self.recorder.hold_begun();
        let hold = Hold { sequence: desk.sequence, ..self.loan.hold.clone() };
        Some(Won { ticket: self.ticket, hold, state, lent: Some(self.clone()) })
    }

    /// The holder releases, and has ended its writes. Says whether that was all: the place stays as long as the hold asked for. What
    /// is not as simple as that is the engine's.
    pub(crate) fn give_back(&self, state: &Arc<HoldState>) -> bool {
        let mut desk = locked(&self.desk);
        let now = clock::now();
        let until = now + desk.sharing.linger;
        let Seat::Held(since, holder) = &desk.seat else { return false };
        // The engine looks after the place when the time of the first hold is up, so it stays at least so long.
        let is_simple = Arc::ptr_eq(holder, state) && state.is_held() && state.is_settled() && until >= self.loan.until;
        if is_simple {
            self.recorder.hold_ended(now.since(*since), None);
            state.advance(Fate::Ended(End::Released));
            desk.seat = Seat::Free(until);
        }
        is_simple
    }

    /// Ends the loan. Says what became of the place, and who holds it since when, if anybody does.
    pub(crate) fn end(&self) -> (Returned, Option<(Moment, Arc<HoldState>)>) {
        let mut desk = locked(&self.desk);
        let (until, hold) = match std::mem::replace(&mut desk.seat, Seat::Ended) {
            Seat::Free(until) => (Some(until), None),
            Seat::Held(since, state) => (None, Some((since, state))),
            // Nobody ends it twice.
            Seat::Ended => (None, None),
        };
        (Returned { sequence: desk.sequence, sharing: desk.sharing, until }, hold)
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
