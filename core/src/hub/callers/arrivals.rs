//! First come, first served among the callers of one client: whatever place of theirs is admitted first goes to the one that came
//! first.
//!
//! Requests that are on their way at the same time reach etcd in any order, and so do the keys of two acquires that a program
//! starts one after the other. etcd's order tells clients apart, and to all others it is the same which of our callers has which
//! of our places. So they exchange them, with all that there is to say of them, as long as nobody holds by either.

use std::mem;

use super::{Caller, Hub, Stage};
use crate::{
    few::Few,
    terms::{Mode, PlaceId, Ticket},
};

/// The callers that wait in one queue and may exchange their places, in the order in which they came.
pub(in crate::hub) type Arrivals = Few<u64, Ticket>;

/// How many of the first are looked at for one that wants the same: they may want something else.
const MOST_LOOKED_AT: usize = 16;

impl Caller {
    /// Whether its place is as good as another one in the same queue. One that is shared in turns is passed on in an order of its
    /// own, those of several names go together, and the key of a candidate says what that one proclaims.
    fn may_exchange(&self) -> bool {
        self.mode == Mode::Wait && self.wants.len() == 1 && !self.sharing.is_some() && !self.is_candidate
    }

    /// Whether it waits for what `other` has been admitted to: the same claim, and a key with the same lease.
    fn waits_for_the_same_as(&self, other: &Self) -> bool {
        let is_waiting = matches!(self.stage, Stage::Queueing | Stage::BackingOff(_));
        is_waiting
            && self.places.iter().all(|needed| needed.admitted.is_none())
            && self.session == other.session
            && self.wants.iter().map(|want| want.claim).eq(other.wants.iter().map(|want| want.claim))
    }
}

impl Hub {
    /// The caller has a place and waits.
    pub(super) fn note_arrival(&mut self, ticket: Ticket) {
        if let Some(caller) = self.callers.get(&ticket).filter(|caller| caller.may_exchange())
            && let Some((queue, _)) = caller.places().next()
            && let Some(arrivals) = self.queues.arrivals_mut(queue)
        {
            arrivals.insert(caller.arrival, ticket);
        }
    }

    /// The caller holds, or gives up its place.
    pub(super) fn strike_arrival(&mut self, ticket: Ticket) {
        if let Some(caller) = self.callers.get(&ticket)
            && let Some((queue, _)) = caller.places().next()
            && let Some(arrivals) = self.queues.arrivals_mut(queue)
        {
            arrivals.remove(&caller.arrival);
        }
    }

    /// It is the turn of this place: the first caller that waits for one like it gets it.
    pub(super) fn exchange_places(&mut self, place: PlaceId) {
        let Some(owner) = self.owners.get(&place).copied() else { return };
        let Some(first) = self.first_like(owner) else { return };
        let Some(mut caller) = self.callers.remove(&first) else { return };
        if let Some(owner) = self.callers.get_mut(&owner) {
            let (one, other) = (&mut *caller, &mut **owner);
            mem::swap(&mut one.places, &mut other.places);
            mem::swap(&mut one.unsent, &mut other.unsent);
            mem::swap(&mut one.stage, &mut other.stage);
            mem::swap(&mut one.failures, &mut other.failures);
            mem::swap(&mut one.last_error, &mut other.last_error);
            mem::swap(&mut one.has_queued, &mut other.has_queued);
            mem::swap(&mut one.join_by, &mut other.join_by);
        }
        self.callers.insert(first, caller);
        for ticket in [first, owner] {
            let places: Vec<_> = self.callers[&ticket].places().collect();
            self.owners.extend(places.into_iter().map(|(_, place)| (place, ticket)));
            self.set_alarm(ticket);
        }
    }

    /// Who came before `owner` and waits for what it has been admitted to.
    fn first_like(&self, owner: Ticket) -> Option<Ticket> {
        let caller = self.callers.get(&owner)?;
        let arrivals = self.queues.arrivals(caller.places().next()?.0)?;
        arrivals.get(&caller.arrival)?;
        let mut before = arrivals.iter().take_while(|(arrival, _)| **arrival < caller.arrival).take(MOST_LOOKED_AT);
        let waits = |first: &Ticket| self.callers.get(first).is_some_and(|first| first.waits_for_the_same_as(caller));
        before.find(|(_, first)| waits(first)).map(|(_, first)| *first)
    }
}
