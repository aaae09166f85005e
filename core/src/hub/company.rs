//! What concerns several queues goes in one transaction: the places of one caller are put, and left, together.
//!
//! All keys that one acquire puts have one create revision. So every queue orders two such acquires alike, whatever the order in
//! which their names were given, and no cycle of waiting can come about.

use super::{Action, Asked, Hub};
use crate::{
    clock::Moment,
    error::{Error, LostReason},
    queue::{Input, wire},
    store::{Reply, StoreError, Txn},
    terms::{PlaceId, QueueId},
};

/// Deletes in one transaction. etcd allows 128 operations by default; half of that keeps a commit short.
const MAX_DELETES: usize = 64;

/// A place that is put, and how many operations of the transaction are about it where its conditions hold, and where they do not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Joining {
    pub(super) queue: QueueId,
    pub(super) place: PlaceId,
    shape: (usize, usize),
}

/// The deletes that one queue asks for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Deletes {
    queue: QueueId,
    places: Vec<PlaceId>,
}

impl Hub {
    /// A queue wants this place to be sent. It is, with the others of its caller, once all of them are to be.
    pub(super) fn on_join_asked(&mut self, now: Moment, place: PlaceId, out: &mut Vec<Action>) {
        let Some(caller) = self.owners.get(&place).and_then(|ticket| self.callers.get_mut(ticket)) else { return };
        let Some(places) = caller.ask_to_join(place) else { return };
        let joining = places.into_iter().map(|(queue, place)| Joining { queue, place, shape: (0, 0) }).collect();
        let rpc = self.call_in_turn(now, Asked::Join(joining), None, out);
        let is_unsent = self.calls.is_unsent(rpc);
        if let Some(caller) = self.owners.get(&place).and_then(|ticket| self.callers.get_mut(ticket)) {
            caller.note_unsent(is_unsent.then_some(rpc));
        }
    }

    /// The transaction that puts all these places or none, as things stand now.
    pub(super) fn join_request(&self, all: &mut [Joining]) -> Option<Txn> {
        let mut whole = Txn::default();
        for Joining { queue, place, shape } in all {
            let Txn { conditions, then, otherwise } = self.queues.get(*queue)?.request(*place)?;
            *shape = (then.len(), otherwise.len());
            whole.conditions.extend(conditions);
            whole.then.extend(then);
            whole.otherwise.extend(otherwise);
        }
        Some(whole)
    }

    pub(super) fn on_join_answered(
        &mut self,
        now: Moment,
        all: &[Joining],
        result: Result<Reply, StoreError>,
        out: &mut Vec<Action>,
    ) {
        for Joining { place, .. } in all {
            if let Some(caller) = self.owners.get(place).and_then(|ticket| self.callers.get_mut(ticket)) {
                caller.join_answered(*place);
            }
        }
        if let [Joining { queue, place, .. }] = *all {
            return self.with_queue(now, queue, Input::Joined(place, result), out);
        }
        let shapes: Vec<_> = all.iter().map(|joining| joining.shape).collect();
        let results = wire::joined_each(result, &shapes);
        self.together(now, out, |hub, out| {
            for (Joining { queue, place, .. }, result) in all.iter().zip(results) {
                hub.with_queue(now, *queue, Input::Joined(*place, result), out);
            }
        });
        // What an earlier attempt put may have been deleted in part since: the rest does not wait for it.
        let torn = all.iter().find_map(|joining| self.owners.get(&joining.place)).copied();
        if let Some((ticket, name)) = torn.and_then(|ticket| {
            self.callers.get(&ticket).filter(|caller| caller.is_torn()).map(|caller| (ticket, caller.name().to_owned()))
        }) {
            self.queue_again(now, ticket, &Error::lost(&name, LostReason::KeyDeleted), out);
        }
    }

    /// Runs `act`, and then sends what queues want deleted by it in as few transactions as can be.
    pub(super) fn together(
        &mut self,
        now: Moment,
        out: &mut Vec<Action>,
        act: impl FnOnce(&mut Self, &mut Vec<Action>),
    ) {
        let is_outermost = self.together.is_none();
        self.together.get_or_insert_default();
        act(self, out);
        if !is_outermost {
            return;
        }
        let mut batch: Vec<Deletes> = Vec::new();
        for deletes in self.together.take().unwrap_or_default() {
            let keys: usize = batch.iter().map(|it| it.places.len()).sum();
            if keys + deletes.places.len() > MAX_DELETES {
                self.send_deletes(now, std::mem::take(&mut batch), out);
            }
            batch.push(deletes);
        }
        self.send_deletes(now, batch, out);
    }

    /// A queue wants the keys of these places deleted.
    pub(super) fn on_delete_asked(&mut self, now: Moment, queue: QueueId, places: Vec<PlaceId>, out: &mut Vec<Action>) {
        let deletes = Deletes { queue, places };
        match &mut self.together {
            Some(together) => together.push(deletes),
            None => self.send_deletes(now, vec![deletes], out),
        }
    }

    fn send_deletes(&mut self, now: Moment, all: Vec<Deletes>, out: &mut Vec<Action>) {
        if all.is_empty() {
            return;
        }
        let places = all.into_iter().map(|deletes| (deletes.queue, deletes.places)).collect();
        self.call_in_turn(now, Asked::Delete(places), None, out);
    }

    /// The transaction that deletes the keys of all these places.
    pub(super) fn delete_request(&self, all: &[(QueueId, Vec<PlaceId>)]) -> Txn {
        let queues = all.iter().filter_map(|(queue, places)| Some((self.queues.get(*queue)?, places)));
        let keys: Vec<_> = queues.flat_map(|(queue, places)| queue.keys_of(places)).collect();
        wire::delete(&keys)
    }

    pub(super) fn on_delete_answered(
        &mut self,
        now: Moment,
        all: Vec<(QueueId, Vec<PlaceId>)>,
        result: Result<Reply, StoreError>,
        out: &mut Vec<Action>,
    ) {
        let counts: Vec<usize> = all.iter().map(|(_, places)| places.len()).collect();
        let results = wire::deleted_each(result, &counts);
        for ((queue, places), result) in all.into_iter().zip(results) {
            self.with_queue(now, queue, Input::Deleted(places, result), out);
        }
    }
}
