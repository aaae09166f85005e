//! The callers of a client: each is one acquire and, after it won, its hold.
//!
//! ```text
//!            the session has a lease            the turn of all its places, and the session has time
//!  Seating ------------------------> Queueing ----------------------------------------------> Holding
//!     ^                               |  ^  \                                                    |
//!     |                    a place    |  |   \ cancelled, limit passed,                          | released
//!     |                    failed to  v  |    \ refused                                          v
//!     |                    join    BackingOff  +----------------------------------------------> Leaving
//!     +-- session lost, a key vanished (policy requeue) --+                         its places are gone: answered
//! ```
//!
//! A caller knows what it is owed and until when; it stands above the queues, because it may need places in several.

mod leaving;

use std::{sync::Arc, time::Duration};

use super::{Acquire, Action, Hold, Hub, RpcId, Stage as HubStage};
use crate::{
    backoff::{Backoff, mix},
    clock::Moment,
    error::{Code, Error, LostReason},
    queue::{Input, admission::Claim, place::Entrant},
    store::{ErrorKind, Key, LeaseId, StoreError},
    terms::{Mode, PlaceId, QueueId, SessionId, Ticket},
};

/// Pauses before a place that failed to join is sent again.
const BACKOFF: Backoff = Backoff::new(Duration::from_millis(40), Duration::from_secs(1));

/// What is owed to a caller when its places are gone.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Owed {
    /// The acquire failed with this error.
    Failure(Error),
    /// The hold was released; an error says what was found instead.
    Release(Result<(), Error>),
}

impl Owed {
    fn answer(self, ticket: Ticket) -> Action {
        match self {
            Self::Failure(error) => Action::Failed(ticket, error),
            Self::Release(result) => Action::Released(ticket, result),
        }
    }
}

/// How far a caller has come; see the diagram above.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Stage {
    /// Waits for the lease of its session; it has no place yet.
    Seating,
    /// Its places join their queues, or stand there.
    Queueing,
    /// A place failed to join, and is sent again then.
    BackingOff(Moment),
    /// It holds.
    Holding,
    /// Its places are left; answered then at the latest.
    Leaving(Owed, Moment),
}

/// A place that a caller needs.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Needed {
    queue: QueueId,
    place: PlaceId,
    /// The request that enqueues it, while it waits its turn to be sent.
    unsent: Option<RpcId>,
    /// Key and create revision, once it is its turn.
    admitted: Option<(Key, i64)>,
}

/// An acquire and, after it won, its hold.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Caller {
    name: Arc<str>,
    mode: Mode,
    ttl: Duration,
    renew: bool,
    requeue: bool,
    value: Arc<[u8]>,
    /// When the wait ends without the lock.
    limit: Option<Moment>,
    /// When an acquire fails that could not even join a queue.
    join_by: Moment,
    stage: Stage,
    session: SessionId,
    places: Vec<Needed>,
    /// Whether it once stood in its queues.
    has_queued: bool,
    /// Joins that failed one after the other.
    failures: u32,
    /// The last error, for the message when the time is up.
    last_error: Option<Error>,
    /// Whether its session ran out while it released: the lease may have taken the key first.
    has_outlived_session: bool,
    alarm: Option<Moment>,
}

impl Caller {
    fn is_waiting(&self) -> bool {
        matches!(self.stage, Stage::Seating | Stage::Queueing | Stage::BackingOff(_))
    }

    /// Its places.
    pub(super) fn places(&self) -> impl Iterator<Item = (QueueId, PlaceId)> {
        self.places.iter().map(|needed| (needed.queue, needed.place))
    }

    pub(super) fn is_holding(&self) -> bool {
        self.stage == Stage::Holding
    }

    pub(super) fn session(&self) -> SessionId {
        self.session
    }

    pub(super) fn seat_wanted(&self) -> (Duration, bool) {
        (self.ttl, self.renew)
    }

    pub(super) fn sit_down(&mut self, session: SessionId) {
        self.session = session;
        self.stage = Stage::Seating;
    }

    pub(super) fn note_error(&mut self, error: Error) {
        self.last_error = Some(error);
    }

    /// The next moment at which something happens to it by itself.
    fn next_alarm(&self) -> Option<Moment> {
        let join_by = (!self.has_queued).then_some(self.join_by);
        let give_up = self.limit.into_iter().chain(join_by).min();
        match self.stage {
            Stage::Seating | Stage::Queueing => give_up,
            Stage::BackingOff(at) => Some(give_up.map_or(at, |give_up| give_up.min(at))),
            Stage::Leaving(_, at) => Some(at),
            Stage::Holding => None,
        }
    }
}

impl Hub {
    pub(super) fn acquire(&mut self, now: Moment, ticket: Ticket, acquire: Acquire, out: &mut Vec<Action>) {
        if self.stage != HubStage::Open {
            out.push(Action::Failed(ticket, Error::new(Code::Closed, "the client is closed; open another one")));
            return;
        }
        self.history.remember(&acquire.name);
        let caller = Caller {
            name: acquire.name,
            mode: acquire.mode,
            ttl: acquire.ttl,
            renew: acquire.renew,
            requeue: acquire.requeue,
            value: acquire.value,
            limit: acquire.wait.map(|wait| now + wait),
            join_by: now + self.config.request_timeout,
            stage: Stage::Seating,
            session: SessionId(0),
            places: Vec::new(),
            has_queued: false,
            failures: 0,
            last_error: None,
            has_outlived_session: false,
            alarm: None,
        };
        self.callers.insert(ticket, caller);
        self.seat(now, ticket, out);
        self.set_alarm(ticket);
    }

    pub(super) fn cancel(&mut self, now: Moment, ticket: Ticket, error: Error, out: &mut Vec<Action>) {
        if self.callers.get(&ticket).is_some_and(Caller::is_waiting) {
            self.leave(now, ticket, Owed::Failure(error), out);
        }
    }

    pub(super) fn release(&mut self, now: Moment, ticket: Ticket, out: &mut Vec<Action>) {
        if self.callers.get(&ticket).is_some_and(Caller::is_holding) {
            self.leave(now, ticket, Owed::Release(Ok(())), out);
        } else {
            out.push(Action::Released(ticket, Err(not_held())));
        }
    }

    pub(super) fn extend(&mut self, now: Moment, ticket: Ticket, span: Duration, out: &mut Vec<Action>) {
        match self.callers.get(&ticket).filter(|caller| caller.is_holding()).map(Caller::session) {
            Some(session) => self.extend_session(now, session, ticket, span, out),
            None => out.push(Action::Extended(ticket, Err(not_held()))),
        }
    }

    /// The lease is there: the caller's places join their queues.
    pub(super) fn enter(&mut self, now: Moment, ticket: Ticket, lease: LeaseId, out: &mut Vec<Action>) {
        let Some(caller) = self.callers.get(&ticket).filter(|caller| caller.stage == Stage::Seating) else { return };
        let (name, mode, value) = (caller.name.clone(), caller.mode, caller.value.clone());
        let queue = self.queue_of(&name);
        let place = PlaceId(self.next_id());
        self.owners.insert(place, ticket);
        if let Some(caller) = self.callers.get_mut(&ticket) {
            caller.stage = Stage::Queueing;
            caller.places = vec![Needed { queue, place, unsent: None, admitted: None }];
        }
        let entrant = Entrant { lease, claim: Claim::Exclusive, mode, value };
        self.with_queue(now, queue, Input::Join(place, entrant), out);
    }

    /// A place is to be sent: at once, or when it is its turn.
    pub(super) fn on_join_asked(&mut self, place: PlaceId, rpc: RpcId) {
        let is_unsent = self.calls.is_unsent(rpc);
        if let Some(needed) = self.needed(place) {
            needed.unsent = is_unsent.then_some(rpc);
        }
    }

    /// A place is sent. Until then, its caller has not waited for etcd.
    pub(super) fn on_join_sent(&mut self, now: Moment, place: PlaceId) {
        let join_by = now + self.config.request_timeout;
        let Some(ticket) = self.owners.get(&place).copied() else { return };
        if let Some(needed) = self.needed(place)
            && needed.unsent.take().is_some()
            && let Some(caller) = self.callers.get_mut(&ticket)
            && caller.failures == 0
        {
            caller.join_by = join_by;
            self.set_alarm(ticket);
        }
    }

    pub(super) fn on_stands(&mut self, place: PlaceId) {
        if let Some(ticket) = self.owners.get(&place).copied()
            && let Some(caller) = self.callers.get_mut(&ticket)
        {
            caller.has_queued = true;
            caller.failures = 0;
            self.set_alarm(ticket);
        }
    }

    pub(super) fn on_admitted(&mut self, now: Moment, place: PlaceId, key: (Key, i64), out: &mut Vec<Action>) {
        let Some(ticket) = self.owners.get(&place).copied() else { return };
        if let Some(needed) = self.needed(place) {
            needed.admitted = Some(key);
            self.try_hold(now, ticket, out);
        }
    }

    /// The caller holds if it is the turn of all its places and its session has enough time left. Otherwise that is renewed first.
    pub(super) fn try_hold(&mut self, now: Moment, ticket: Ticket, out: &mut Vec<Action>) {
        let Some(caller) = self.callers.get_mut(&ticket).filter(|caller| caller.stage == Stage::Queueing) else {
            return;
        };
        let Some((key, token)) = caller.places.first().and_then(|needed| needed.admitted.clone()) else { return };
        if caller.places.iter().any(|needed| needed.admitted.is_none()) {
            return;
        }
        let session = caller.session;
        if !self.sessions.can_hold(now, session) {
            self.await_time(now, ticket, session, out);
            return;
        }
        caller.stage = Stage::Holding;
        caller.value = Arc::default();
        caller.last_error = None;
        self.set_alarm(ticket);
        let Some((lease, deadline)) = self.begin_hold(session) else { return };
        out.push(Action::Deadline(session, deadline));
        out.push(Action::Acquired(ticket, Hold { key, token, session, lease }));
    }

    /// A try found somebody in its way.
    pub(super) fn on_refused(&mut self, now: Moment, place: PlaceId, out: &mut Vec<Action>) {
        let Some(ticket) = self.owners.get(&place).copied() else { return };
        let Some(caller) = self.callers.get(&ticket).filter(|caller| caller.is_waiting()) else { return };
        let message = format!("the lock {:?} is taken; look who holds it with queue()", caller.name);
        self.leave(now, ticket, Owed::Failure(Error::new(Code::NotAcquired, message)), out);
    }

    /// A place could not join. Returns the session if etcd says that its lease does not exist.
    pub(super) fn on_join_failed(
        &mut self,
        now: Moment,
        place: PlaceId,
        error: &StoreError,
        out: &mut Vec<Action>,
    ) -> Option<SessionId> {
        let ticket = self.owners.get(&place).copied()?;
        let caller = self.callers.get_mut(&ticket).filter(|caller| caller.is_waiting())?;
        caller.failures = caller.failures.saturating_add(1);
        let pause = BACKOFF.pause(caller.failures, self.config.seed ^ mix(ticket.0));
        let seen = Error::from_store(error, &format!("could not queue for the lock {:?}", caller.name));
        if error.kind == ErrorKind::LeaseNotFound {
            // The session learns that it is lost, and with it this caller gets a new place or fails. No failure to report later.
            let session = caller.session;
            caller.stage = Stage::BackingOff(now + pause);
            self.set_alarm(ticket);
            return Some(session);
        }
        if error.is_transient() {
            caller.last_error = Some(seen);
            caller.stage = Stage::BackingOff(now + pause);
            self.set_alarm(ticket);
        } else {
            self.leave(now, ticket, Owed::Failure(seen), out);
        }
        None
    }

    /// The key of a place is gone, and not by us.
    pub(super) fn on_vanished(&mut self, now: Moment, place: PlaceId, out: &mut Vec<Action>) {
        let Some(ticket) = self.owners.remove(&place) else { return };
        let Some(caller) = self.callers.get_mut(&ticket) else { return };
        if caller.is_waiting() {
            self.queue_again(now, ticket, LostReason::KeyDeleted, out);
        } else if caller.is_holding() {
            // The hold is over at once; whether its lease lives, etcd is asked.
            let session = caller.session;
            out.push(Action::Voided(ticket));
            self.begin_autopsy(ticket, session, out);
            self.forget(ticket);
        }
    }

    /// The caller's places are dead, and with them its place in line: it needs others, unless its policy is to fail.
    pub(super) fn queue_again(&mut self, now: Moment, ticket: Ticket, reason: LostReason, out: &mut Vec<Action>) {
        self.abandon(now, ticket, out);
        let Some(caller) = self.callers.get_mut(&ticket) else { return };
        let session = caller.session;
        if !caller.requeue && caller.has_queued {
            out.push(Action::Failed(ticket, Error::lost(&caller.name, reason)));
            self.forget(ticket);
            self.unseat(now, ticket, session, out);
            return;
        }
        caller.failures = 0;
        self.unseat(now, ticket, session, out);
        self.seat(now, ticket, out);
        self.set_alarm(ticket);
    }

    /// The session of this caller is over.
    pub(super) fn on_seat_lost(&mut self, now: Moment, ticket: Ticket, reason: LostReason, out: &mut Vec<Action>) {
        let Some(caller) = self.callers.get_mut(&ticket) else { return };
        match caller.stage {
            Stage::Holding => {
                out.push(Action::Lost(ticket, reason));
                self.abandon(now, ticket, out);
                self.forget(ticket);
            }
            Stage::Leaving(ref mut owed, _) => {
                caller.has_outlived_session |= reason == LostReason::Expired;
                if let (Owed::Release(result @ Ok(())), LostReason::StoreRestored) = (owed, reason) {
                    *result = Err(Error::lost(&caller.name, reason));
                }
                for Needed { queue, place, .. } in caller.places.clone() {
                    self.with_queue(now, queue, Input::Abandon(place), out);
                }
            }
            Stage::Seating | Stage::Queueing | Stage::BackingOff(_) => self.queue_again(now, ticket, reason, out),
        }
    }

    fn needed(&mut self, place: PlaceId) -> Option<&mut Needed> {
        let ticket = self.owners.get(&place)?;
        self.callers.get_mut(ticket)?.places.iter_mut().find(|needed| needed.place == place)
    }

    fn set_alarm(&mut self, ticket: Ticket) {
        if let Some(caller) = self.callers.get_mut(&ticket) {
            let at = caller.next_alarm();
            self.caller_alarms.set(ticket, &mut caller.alarm, at);
        }
    }
}

fn not_held() -> Error {
    Error::new(Code::NotHeld, "this hold was released or lost before")
}
