//! The end of a caller: it gives up, releases, runs out of time or loses its places, and it is answered exactly once.

use std::time::Duration;

use super::{super::Alarms, Action, Caller, Hub, Needed, Owed, Stage, not_held, tenure::Tenures};
use crate::{
    clock::Moment,
    error::{Code, Error, LostReason},
    queue::{Blocker, Input, place::Departure},
    store::{ErrorKind, StoreError},
    terms::{PlaceId, Ticket},
    text,
};

/// How long a caller that gave up waits for its key to be deleted before it is answered all the same.
const LEAVE_GRACE: Duration = Duration::from_secs(1);
/// How long a release waits for its delete to be confirmed before the caller is told that it goes on in the background. Where
/// requests wait their turn, longer, as long as etcd answers anybody.
const RELEASE_GRACE: Duration = Duration::from_secs(5);
impl Hub {
    /// A place that was left is gone. The last one answers the caller.
    pub(in crate::hub) fn on_gone(&mut self, now: Moment, place: PlaceId, departure: Departure, out: &mut Vec<Action>) {
        let Some(ticket) = self.owners.remove(&place) else { return };
        let Some(caller) = self.callers.get_mut(&ticket) else { return };
        let name = caller.name_of(place).to_owned();
        caller.places.retain(|needed| needed.place != place);
        let found = match departure {
            Departure::Missing if !caller.has_outlived_session => Some(LostReason::KeyDeleted),
            Departure::WithLease => Some(LostReason::Expired),
            Departure::Unjoined | Departure::Deleted | Departure::Missing => None,
        };
        let Stage::Leaving(owed, _) = &mut caller.stage else { return };
        if let (Owed::Release(result @ Ok(())), Some(reason)) = (&mut *owed, found) {
            *result = Err(Error::lost(&name, reason));
        }
        if caller.places.is_empty() {
            let (answer, session) = (owed.clone().answer(ticket), caller.session);
            out.push(answer);
            self.forget(ticket);
            self.unseat(now, ticket, session, out);
        }
    }

    /// The delete of a place's key goes on in the background.
    pub(in crate::hub) fn on_unconfirmed(&mut self, place: PlaceId, error: &StoreError) {
        if let Some(caller) = self.owners.get(&place).and_then(|ticket| self.callers.get_mut(ticket)) {
            caller.last_error = Some(Error::from_store(error, "the delete of the lock's key is not confirmed"));
        }
    }

    /// The client closes: everybody is answered.
    pub(in crate::hub) fn close_callers(&mut self, out: &mut Vec<Action>) {
        for (ticket, caller) in std::mem::take(&mut self.callers) {
            out.push(match caller.stage {
                Stage::Holding | Stage::Lent(_) | Stage::Vacant => Action::Lost(ticket, LostReason::ClientClosed),
                Stage::Leaving(owed, _) => owed.answer(ticket),
                Stage::Seating | Stage::Queueing | Stage::BackingOff(_) => {
                    let message = "the client was closed while this acquire was waiting";
                    Action::Failed(ticket, Error::new(Code::Closed, message))
                }
            });
        }
        self.owners.clear();
        self.tenures = Tenures::default();
        self.caller_alarms = Alarms::new();
    }

    pub(in crate::hub) fn tick_callers(&mut self, now: Moment, out: &mut Vec<Action>) {
        for ticket in self.caller_alarms.due(now) {
            self.on_alarm(now, ticket, out);
        }
    }

    fn on_alarm(&mut self, now: Moment, ticket: Ticket, out: &mut Vec<Action>) {
        let is_unsent = self.is_unsent(ticket);
        let Some(caller) = self.callers.get_mut(&ticket) else { return };
        // Whoever waits for others to be answered waits as long as etcd answers anybody.
        let patient_until = self.calls.heard_at() + RELEASE_GRACE;
        let is_patient = self.calls.have_backlog() && now < patient_until;
        match &mut caller.stage {
            Stage::Holding | Stage::Vacant => {}
            Stage::Lent(Some(at)) if now >= *at => self.recall(ticket, out),
            Stage::Lent(_) => self.set_alarm(ticket),
            Stage::Leaving(Owed::Release(_), at) if now >= *at && is_patient => {
                *at = patient_until;
                self.set_alarm(ticket);
            }
            Stage::Leaving(owed, at) if now >= *at => {
                let owed = match owed.clone() {
                    Owed::Release(_) => {
                        let error = caller.last_error.clone().unwrap_or_else(|| unconfirmed(caller.name()));
                        Owed::Release(Err(error))
                    }
                    failure => failure,
                };
                out.push(owed.answer(ticket));
                let session = caller.session;
                self.forget(ticket);
                self.unseat(now, ticket, session, out);
            }
            _ if caller.limit.is_some_and(|limit| now >= limit) => {
                let error = self.not_in_time(ticket);
                self.bequeath(now, ticket, out);
                self.leave(now, ticket, Owed::Failure(error), out);
            }
            Stage::BackingOff(at) if now >= *at => {
                caller.stage = Stage::Queueing;
                for (queue, place) in caller.places().collect::<Vec<_>>() {
                    self.with_queue(now, queue, Input::Resend(place), out);
                }
                self.set_alarm(ticket);
            }
            _ if !caller.has_queued && now >= caller.join_by => {
                // Whoever waits for others to be answered waits as long as etcd answers anybody.
                let join_by = self.calls.heard_at() + self.config.request_timeout;
                if is_unsent && now < join_by {
                    caller.join_by = join_by;
                    self.set_alarm(ticket);
                    return;
                }
                let seen = caller.last_error.clone();
                let name = caller.name().to_owned();
                let error = seen.or_else(|| self.keepers_error(ticket)).unwrap_or_else(|| unanswered(&name));
                self.bequeath(now, ticket, out);
                self.leave(now, ticket, Owed::Failure(error), out);
            }
            _ => self.set_alarm(ticket),
        }
    }

    /// The caller gives up or releases: its places are left, and it is answered when they are gone, or after a while.
    pub(super) fn leave(&mut self, now: Moment, ticket: Ticket, owed: Owed, out: &mut Vec<Action>) {
        let Some(caller) = self.callers.get_mut(&ticket) else { return };
        if matches!(caller.stage, Stage::Leaving(..)) {
            return; // A caller that gives up twice is not made to wait longer.
        }
        if caller.stage == Stage::Seating || caller.places.is_empty() {
            if let Owed::Failure(error) = owed {
                out.push(Action::Failed(ticket, error));
            }
            let session = caller.session;
            self.forget(ticket);
            self.unseat(now, ticket, session, out);
            return;
        }
        let kept = self.kept_by(ticket);
        let Some(caller) = self.callers.get_mut(&ticket) else { return };
        let grace = if matches!(owed, Owed::Release(_)) { RELEASE_GRACE } else { LEAVE_GRACE };
        caller.stage = Stage::Leaving(owed, now + grace);
        self.set_alarm(ticket);
        self.leave_places(now, ticket, out);
        if let Some(kept) = kept {
            self.promote(now, &kept, out);
        }
    }

    /// Leaves the places of a caller, all in one transaction. What was not sent yet never is.
    fn leave_places(&mut self, now: Moment, ticket: Ticket, out: &mut Vec<Action>) {
        self.strike_arrival(ticket);
        let Some(caller) = self.callers.get_mut(&ticket) else { return };
        let is_withdrawn = caller.unsent.take().is_some_and(|rpc| self.calls.withdraw(rpc));
        let places = caller.places.clone();
        let was_sent = !is_withdrawn && places.iter().all(|needed| needed.is_joining);
        let leave = |hub: &mut Self, out: &mut Vec<Action>| {
            for Needed { queue, place, is_joining, .. } in places {
                hub.with_queue(now, queue, Input::Leave(place), out);
                if is_joining && !was_sent {
                    let never = StoreError::refused(ErrorKind::Closed, "the request was never sent");
                    hub.with_queue(now, queue, Input::Joined(place, Err(never)), out);
                }
            }
        };
        self.together(now, out, leave);
    }

    /// The caller lets go of its places, and does not wait until their keys are gone.
    pub(super) fn detach(&mut self, now: Moment, ticket: Ticket, out: &mut Vec<Action>) {
        let Some(caller) = self.callers.get(&ticket) else { return };
        for (_, place) in caller.places() {
            self.owners.remove(&place);
        }
        self.leave_places(now, ticket, out);
        if let Some(caller) = self.callers.get_mut(&ticket) {
            caller.places.clear();
        }
    }

    /// The lease is over, and with it every key of the caller.
    pub(super) fn abandon(&mut self, now: Moment, ticket: Ticket, out: &mut Vec<Action>) {
        self.strike_arrival(ticket);
        let Some(caller) = self.callers.get_mut(&ticket) else { return };
        if let Some(rpc) = caller.unsent.take() {
            self.calls.withdraw(rpc);
        }
        for Needed { queue, place, .. } in std::mem::take(&mut caller.places) {
            self.owners.remove(&place);
            self.with_queue(now, queue, Input::Abandon(place), out);
        }
    }

    /// Forgets a caller that has its last answer. Its keys may still be on their way out.
    pub(super) fn forget(&mut self, ticket: Ticket) {
        self.strike_arrival(ticket);
        let Some(mut caller) = self.callers.remove(&ticket) else { return };
        self.caller_alarms.set(ticket, &mut caller.alarm, None);
        self.tenures.strike_out(&caller);
        for needed in caller.places {
            self.owners.remove(&needed.place);
        }
    }

    /// What a caller is told whose wait limit has passed.
    fn not_in_time(&self, ticket: Ticket) -> Error {
        let Some(caller) = self.callers.get(&ticket) else { return not_held() };
        let missing = caller.places.iter().find(|needed| needed.admitted.is_none());
        let name = text::quoted(missing.map_or(caller.name(), |needed| caller.name_of(needed.place)));
        let message = match &caller.last_error {
            _ if caller.is_heir && caller.has_queued => {
                format!(
                    "the lock {name} was not free within the wait limit: others of this client are ahead; wait longer, or see queue()"
                )
            }
            _ if caller.has_queued => {
                format!("the lock {name} was not free within the wait limit: {}", self.blocker(caller))
            }
            // Whoever skips what another has locked must not skip it because etcd is out of reach.
            Some(error) => return error.clone(),
            None => format!("the wait limit passed before etcd had said whether the lock {name} is free"),
        };
        Error::new(Code::NotAcquired, message)
    }

    /// Who stands in the way, and what can be done about it.
    fn blocker(&self, caller: &Caller) -> String {
        let needed = caller.places.iter().find(|needed| needed.admitted.is_none());
        match needed.and_then(|needed| self.queues.get(needed.queue)?.blocker(needed.place)) {
            Some(Blocker { key, token, has_no_lease: true, .. }) => format!(
                "the key {key} stands ahead and has no lease, so it never ends by itself; delete it or force_release({token})"
            ),
            Some(Blocker { key, token, holds, .. }) => {
                let does = if holds { "holds it" } else { "waits ahead for it" };
                format!("the key {key} {does} with token {token}; wait longer, or see queue()")
            }
            None => "wait longer, or look who holds it with queue()".to_owned(),
        }
    }
}

/// What a caller is told whose enqueue etcd has not answered.
fn unanswered(name: &str) -> Error {
    let name = text::quoted(name);
    let message =
        format!("etcd did not answer in time while queueing for the lock {name}; is it reachable and healthy?");
    Error::new(Code::DeadlineExceeded, message)
}

fn unconfirmed(name: &str) -> Error {
    Error::new(
        Code::DeadlineExceeded,
        format!(
            "etcd did not confirm the release of the lock {} in time; it is released here, and its key is deleted in the \
             background or, at the latest, when the lease ends",
            text::quoted(name)
        ),
    )
}
