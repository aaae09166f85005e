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
//! A place can go from one caller to the next of the same client; see [`tenure`] and [`arrivals`].
//!
//! A caller knows what it is owed and until when; it stands above the queues, because it may need places in several.

pub(super) mod arrivals;
mod leaving;
pub(super) mod tenure;

use std::{sync::Arc, time::Duration};

use super::{Acquire, Action, Hold, Hub, RpcId, Stage as HubStage, Want, company::Joining};
use crate::{
    backoff::{Backoff, mix},
    clock::Moment,
    error::{Code, Error, LostReason},
    queue::{Input, place::Entrant, wire},
    store::{ErrorKind, Key, LeaseId, StoreError},
    terms::{Mode, PlaceId, QueueId, SessionId, Sharing, Ticket},
    text,
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
    /// It was released and answered. Its place lingers and is lent out, and looked after then, or it is recalled.
    Lent(Option<Moment>),
    /// Its place was recalled, and nobody holds it. Only in the middle of an input.
    Vacant,
    /// Its places are left; answered then at the latest.
    Leaving(Owed, Moment),
}

/// A place that a caller needs.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Needed {
    queue: QueueId,
    place: PlaceId,
    /// Which of the names it is for.
    want: usize,
    /// Whether its queue wants it to be sent, or it is on its way.
    is_joining: bool,
    /// Whether its key stands.
    stands: bool,
    /// Key and create revision, once it is its turn.
    admitted: Option<(Key, i64)>,
}

/// An acquire and, after it won, its hold.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Caller {
    wants: Vec<Want>,
    mode: Mode,
    ttl: Duration,
    renew: bool,
    requeue: bool,
    sharing: Sharing,
    value: Arc<[u8]>,
    is_candidate: bool,
    /// When the wait ends without the lock.
    limit: Option<Moment>,
    /// When an acquire fails that could not even join a queue.
    join_by: Moment,
    stage: Stage,
    session: SessionId,
    places: Vec<Needed>,
    /// The request that puts its places, while it waits its turn to be sent.
    unsent: Option<RpcId>,
    /// The how-manieth it is of all that came.
    arrival: u64,
    /// Whether it waits for the place of another caller.
    is_heir: bool,
    /// Whether a guarded write of its hold may still take effect.
    is_unsettled: bool,
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

    /// A queue wants this place of its to be sent: returns all of them if it is the last one.
    pub(super) fn ask_to_join(&mut self, place: PlaceId) -> Option<Vec<(QueueId, PlaceId)>> {
        if let Some(needed) = self.places.iter_mut().find(|needed| needed.place == place) {
            needed.is_joining = true;
        }
        let is_complete = self.places.len() == self.wants.len() && self.places.iter().all(|needed| needed.is_joining);
        is_complete.then(|| self.places().collect())
    }

    /// The request that puts its places waits its turn, or has been sent.
    pub(super) fn note_unsent(&mut self, unsent: Option<RpcId>) {
        self.unsent = unsent;
    }

    /// The answer about this place of its is here.
    pub(super) fn join_answered(&mut self, place: PlaceId) {
        if let Some(needed) = self.places.iter_mut().find(|needed| needed.place == place) {
            needed.is_joining = false;
        }
    }

    /// Whether its places were put together, and only some of them stand.
    pub(super) fn is_torn(&self) -> bool {
        let stand = self.places.iter().filter(|needed| needed.stands).count();
        self.is_waiting() && stand > 0 && stand < self.wants.len()
    }

    /// The name of this place of its; the first one, if it is none.
    fn name_of(&self, place: PlaceId) -> &str {
        let want = self.places.iter().find(|needed| needed.place == place).map_or(0, |needed| needed.want);
        self.wants.get(want).map_or("", |want| &want.name)
    }

    /// What it is called by: the first of its names.
    pub(super) fn name(&self) -> &str {
        self.wants.first().map_or("", |want| &want.name)
    }

    /// Its places.
    pub(super) fn places(&self) -> impl Iterator<Item = (QueueId, PlaceId)> {
        self.places.iter().map(|needed| (needed.queue, needed.place))
    }

    pub(super) fn is_holding(&self) -> bool {
        self.stage == Stage::Holding
    }

    /// Whether it holds, or its place is kept for whoever comes next.
    pub(super) fn is_keeping(&self) -> bool {
        matches!(self.stage, Stage::Holding | Stage::Lent(_) | Stage::Vacant)
    }

    pub(super) fn session(&self) -> SessionId {
        self.session
    }

    /// The how-manieth it is of all that came.
    pub(super) fn arrival(&self) -> u64 {
        self.arrival
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
            Stage::Lent(at) => at,
            Stage::Holding | Stage::Vacant => None,
        }
    }
}

impl Hub {
    pub(super) fn acquire(&mut self, now: Moment, ticket: Ticket, acquire: Acquire, out: &mut Vec<Action>) {
        if self.stage != HubStage::Open {
            out.push(Action::Failed(ticket, Error::new(Code::Closed, "the client is closed; open another one")));
            return;
        }
        if let Some(want) = acquire.wants.first() {
            self.history.remember(&want.name);
        }
        let caller = Caller {
            arrival: self.next_id(),
            wants: acquire.wants,
            mode: acquire.mode,
            ttl: acquire.ttl,
            renew: acquire.renew,
            requeue: acquire.requeue,
            // A hold without renewal has a lease of its own, and so has a place of its own.
            sharing: if acquire.renew { acquire.sharing } else { Sharing::default() },
            value: acquire.value,
            is_candidate: acquire.is_candidate,
            limit: acquire.wait.map(|wait| now + wait),
            join_by: now + self.config.request_timeout,
            stage: Stage::Seating,
            session: SessionId(0),
            places: Vec::new(),
            unsent: None,
            is_heir: false,
            is_unsettled: false,
            has_queued: false,
            failures: 0,
            last_error: None,
            has_outlived_session: false,
            alarm: None,
        };
        self.callers.insert(ticket, Box::new(caller));
        self.seat(now, ticket, out);
        self.set_alarm(ticket);
    }

    pub(super) fn cancel(&mut self, now: Moment, ticket: Ticket, error: Error, out: &mut Vec<Action>) {
        if self.callers.get(&ticket).is_some_and(|caller| caller.is_waiting()) {
            self.bequeath(now, ticket, out);
            self.leave(now, ticket, Owed::Failure(error), out);
        }
    }

    pub(super) fn release(&mut self, now: Moment, ticket: Ticket, out: &mut Vec<Action>) {
        if self.callers.get(&ticket).is_some_and(|caller| caller.is_holding()) {
            self.hand_on(now, ticket, out);
        } else {
            out.push(Action::Released(ticket, Err(not_held())));
        }
    }

    pub(super) fn extend(&mut self, now: Moment, ticket: Ticket, span: Duration, out: &mut Vec<Action>) {
        match self.callers.get(&ticket).filter(|caller| caller.is_holding()).map(|caller| caller.session()) {
            Some(session) => self.extend_session(now, session, ticket, span, out),
            None => out.push(Action::Extended(ticket, Err(not_held()))),
        }
    }

    /// The lease is there: the caller's places join their queues, all at once.
    pub(super) fn enter(&mut self, now: Moment, ticket: Ticket, lease: LeaseId, out: &mut Vec<Action>) {
        if self.callers.get(&ticket).is_none_or(|caller| caller.stage != Stage::Seating)
            || self.finds_place(now, ticket, out)
        {
            return;
        }
        let Some(caller) = self.callers.get(&ticket) else { return };
        let (wants, mode, value) = (caller.wants.clone(), caller.mode, caller.value.clone());
        let company = wants.len();
        let mut places = Vec::with_capacity(company);
        let mut entrants = Vec::with_capacity(company);
        for (want, Want { name, claim }) in wants.into_iter().enumerate() {
            let (queue, place) = (self.queue_of(&name), PlaceId(self.next_id()));
            self.owners.insert(place, ticket);
            places.push(Needed { queue, place, want, is_joining: false, stands: false, admitted: None });
            entrants.push((queue, place, Entrant { lease, claim, mode, company, value: value.clone() }));
        }
        if let Some(caller) = self.callers.get_mut(&ticket) {
            caller.stage = Stage::Queueing;
            caller.places = places;
        }
        self.note_arrival(ticket);
        for (queue, place, entrant) in entrants {
            self.with_queue(now, queue, Input::Join(place, entrant), out);
        }
    }

    /// Places of one caller are sent. Until then, it has not waited for etcd.
    pub(super) fn on_join_sent(&mut self, now: Moment, places: &[Joining]) {
        let join_by = now + self.config.request_timeout;
        if let Some(ticket) = places.first().and_then(|joining| self.owners.get(&joining.place)).copied()
            && let Some(caller) = self.callers.get_mut(&ticket)
            && caller.unsent.take().is_some()
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
            if let Some(needed) = caller.places.iter_mut().find(|needed| needed.place == place) {
                needed.stands = true;
            }
            caller.has_queued = true;
            caller.failures = 0;
            self.set_alarm(ticket);
            self.on_tenure_stands(ticket);
        }
    }

    pub(super) fn on_admitted(&mut self, now: Moment, place: PlaceId, key: (Key, i64), out: &mut Vec<Action>) {
        if let Some(needed) = self.needed(place) {
            needed.admitted = Some(key);
            self.exchange_places(place);
        }
        if let Some(ticket) = self.owners.get(&place).copied() {
            self.try_hold(now, ticket, out);
        }
    }

    /// The caller holds if it is the turn of all its places and its session has enough time left. Otherwise that is renewed first.
    pub(super) fn try_hold(&mut self, now: Moment, ticket: Ticket, out: &mut Vec<Action>) {
        let Some(caller) = self.callers.get_mut(&ticket).filter(|caller| caller.stage == Stage::Queueing) else {
            return;
        };
        let admitted: Option<Vec<(Key, i64)>> = caller.places.iter().map(|needed| needed.admitted.clone()).collect();
        let Some((keys, tokens)) = admitted.map(|all| all.into_iter().unzip::<_, _, Vec<_>, Vec<_>>()) else { return };
        // They were put by one transaction.
        let Some(token) = tokens.first().copied() else { return };
        let session = caller.session;
        if !self.sessions.can_hold(now, session) {
            self.await_time(now, ticket, session, out);
            return;
        }
        caller.stage = Stage::Holding;
        caller.value = Arc::default();
        caller.last_error = None;
        self.strike_arrival(ticket);
        self.set_alarm(ticket);
        let sequence = self.begin_turn(now, ticket);
        let Some((lease, deadline)) = self.begin_hold(session) else { return };
        out.push(Action::Deadline(session, deadline));
        out.push(Action::Acquired(ticket, Hold { keys, token, session, lease, sequence }));
        self.follow_company(now, ticket, out);
    }

    /// A try found somebody in its way.
    pub(super) fn on_refused(&mut self, now: Moment, place: PlaceId, out: &mut Vec<Action>) {
        let Some(ticket) = self.owners.get(&place).copied() else { return };
        let Some(caller) = self.callers.get(&ticket).filter(|caller| caller.is_waiting()) else { return };
        let message =
            format!("the lock {} is taken; look who holds it with queue()", text::quoted(caller.name_of(place)));
        self.leave(now, ticket, Owed::Failure(Error::new(Code::NotAcquired, message)), out);
    }

    /// A key ahead claims what cannot be weighed against what this place claims.
    pub(super) fn on_mismatch(&mut self, now: Moment, place: PlaceId, other: &Key, out: &mut Vec<Action>) {
        let Some(ticket) = self.owners.get(&place).copied() else { return };
        let Some(caller) = self.callers.get(&ticket).filter(|caller| caller.is_waiting()) else { return };
        let want = caller.places.iter().find(|needed| needed.place == place).and_then(|it| caller.wants.get(it.want));
        let Some(Want { name, claim }) = want else { return };
        let message = format!(
            "this acquire of the lock {} claims {claim}, but the key {other} ahead of it claims {}; all who use a name must \
             agree on what it is, and a semaphore's on its limit",
            text::quoted(name),
            wire::claim_of(other)
        );
        self.leave(now, ticket, Owed::Failure(Error::new(Code::LimitMismatch, message)), out);
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
        // The others failed with the first.
        let caller = self.callers.get_mut(&ticket).filter(|caller| caller.stage == Stage::Queueing)?;
        caller.failures = caller.failures.saturating_add(1);
        let pause = BACKOFF.pause(caller.failures, self.config.seed ^ mix(ticket.0));
        let seen = Error::from_store(error, &format!("could not queue for the lock {}", text::quoted(caller.name())));
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

    /// The key of a place is gone, and not by us. With it goes what the caller has of its other names.
    pub(super) fn on_vanished(&mut self, now: Moment, place: PlaceId, out: &mut Vec<Action>) {
        let Some(ticket) = self.owners.get(&place).copied() else { return };
        let shared = self.dissolve(ticket);
        self.strike_arrival(ticket);
        let Some(caller) = self.callers.get_mut(&ticket) else { return };
        let name = caller.name_of(place).to_owned();
        caller.places.retain(|needed| needed.place != place);
        let (is_waiting, is_keeping, session) = (caller.is_waiting(), caller.is_keeping(), caller.session);
        self.owners.remove(&place);
        if is_waiting {
            self.queue_again(now, ticket, &Error::lost(&name, LostReason::KeyDeleted), out);
        } else if is_keeping {
            // The hold is over at once; whether its lease lives, etcd is asked.
            out.push(Action::Voided(ticket));
            self.begin_autopsy(ticket, session, out);
            self.detach(now, ticket, out);
            self.forget(ticket);
        }
        self.resettle(now, shared, LostReason::KeyDeleted, out);
    }

    /// The caller has lost its place in line: it needs others, unless its policy is to fail with `lost`.
    pub(super) fn queue_again(&mut self, now: Moment, ticket: Ticket, lost: &Error, out: &mut Vec<Action>) {
        self.detach(now, ticket, out);
        let Some(caller) = self.callers.get_mut(&ticket) else { return };
        let session = caller.session;
        if !caller.requeue && caller.has_queued {
            out.push(Action::Failed(ticket, lost.clone()));
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
            Stage::Holding | Stage::Lent(_) | Stage::Vacant => {
                out.push(Action::Lost(ticket, reason));
                self.abandon(now, ticket, out);
                self.forget(ticket);
            }
            Stage::Leaving(..) => {
                caller.has_outlived_session |= reason == LostReason::Expired;
                let lost = Error::lost(caller.name(), reason);
                if let (Stage::Leaving(Owed::Release(result @ Ok(())), _), LostReason::StoreRestored) =
                    (&mut caller.stage, reason)
                {
                    *result = Err(lost);
                }
                for Needed { queue, place, .. } in caller.places.clone() {
                    self.with_queue(now, queue, Input::Abandon(place), out);
                }
            }
            Stage::Seating | Stage::Queueing | Stage::BackingOff(_) => {
                let lost = Error::lost(caller.name(), reason);
                self.abandon(now, ticket, out);
                self.queue_again(now, ticket, &lost, out);
            }
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
