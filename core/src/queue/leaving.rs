//! Leaving a queue: a key is withdrawn or released, and deleted until that is sure.

use super::{
    Effect, Queue,
    place::{Departure, Life, Place},
    wire,
};
use crate::{
    store::{ErrorKind, Key, Reply, StoreError},
    terms::PlaceId,
};

/// Deletes in one transaction. etcd allows 128 operations by default; half of that keeps a commit short.
const MAX_DELETES: usize = 64;

impl Queue {
    pub(super) fn leave(&mut self, id: PlaceId, out: &mut Vec<Effect>) {
        match self.places.get(&id).map(|place| place.life) {
            Some(Life::Blocked(_) | Life::Unsent) => self.drop_unjoined(id, out),
            // Never drop a transaction on its way: it finishes, then the key is withdrawn.
            Some(Life::Sending { .. }) => self.set_life(id, Life::Sending { is_withdrawn: true }),
            Some(Life::Waiting | Life::Admitted(_)) => self.depart(id),
            Some(Life::Leaving(_) | Life::Gone(_)) | None => {}
        }
    }

    /// The lease is over: nothing is left of the place. One that leaves is ended by the cleaner, or by the delete on its way.
    pub(super) fn abandon(&mut self, id: PlaceId, out: &mut Vec<Effect>) {
        let Some(place) = self.places.get(&id).filter(|place| !place.has_left()) else { return };
        if matches!(place.life, Life::Sending { is_withdrawn: true }) {
            out.push(Effect::Gone(id, Departure::Unjoined));
        }
        self.remove(id);
    }

    /// A place whose key stands is left: from now on it counts as gone, and its key is to be deleted.
    pub(super) fn depart(&mut self, id: PlaceId) {
        self.departures += 1;
        self.set_life(id, Life::Leaving(self.departures));
        self.undeleted.push_back(id);
    }

    /// Ends a place that has no key in the queue, as far as we know; if it may have one all the same, the cleaner looks.
    pub(super) fn drop_unjoined(&mut self, id: PlaceId, out: &mut Vec<Effect>) {
        if let Some(Place { key, entrant, is_ambiguous: true, .. }) = self.places.get(&id) {
            out.push(Effect::Clean(key.clone(), entrant.lease, None));
        }
        out.push(Effect::Gone(id, Departure::Unjoined));
        self.remove(id);
    }

    /// Sends the deletes that have come together since the last one was answered.
    pub(super) fn delete_next(&mut self, out: &mut Vec<Effect>) {
        if self.is_deleting || self.undeleted.is_empty() {
            return;
        }
        let count = self.undeleted.len().min(MAX_DELETES);
        out.push(Effect::Delete(self.undeleted.drain(..count).collect()));
        self.is_deleting = true;
    }

    /// The keys of these places, each with the revision at which it was created.
    pub fn keys_of(&self, ids: &[PlaceId]) -> impl Iterator<Item = (Key, i64)> {
        ids.iter().filter_map(|id| self.places.get(id)).map(|place| (place.key.clone(), place.revision))
    }

    pub(super) fn on_deleted(&mut self, ids: Vec<PlaceId>, result: Result<Reply, StoreError>, out: &mut Vec<Effect>) {
        self.is_deleting = false;
        let revision = result.as_ref().map_or(0, |reply| reply.revision);
        let stood = result.and_then(|reply| {
            wire::deleted(&reply, ids.len()).ok_or_else(|| {
                StoreError::ambiguous(ErrorKind::Internal, "etcd's reply to a delete has an unknown shape")
            })
        });
        match stood {
            Ok(stood) => {
                for (id, stood) in ids.into_iter().zip(stood) {
                    let departure = if stood { Departure::Deleted } else { Departure::Missing };
                    self.on_gone(id, departure, revision, out);
                }
            }
            Err(error) => {
                for id in ids {
                    let Some(Place { key, revision, entrant, .. }) = self.places.get(&id) else { continue };
                    out.push(Effect::Unconfirmed(id, error.clone()));
                    out.push(Effect::Clean(key.clone(), entrant.lease, Some((id, *revision))));
                }
            }
        }
        self.unblock(out);
    }

    /// The cleaner is done with the key of a place that left: it is gone as of `revision`, or with its lease (`None`).
    pub(super) fn on_cleaned(&mut self, id: PlaceId, revision: Option<i64>, out: &mut Vec<Effect>) {
        match revision {
            Some(revision) => self.on_gone(id, Departure::Deleted, revision, out),
            None => self.on_gone(id, Departure::WithLease, 0, out),
        }
        self.unblock(out);
    }

    /// The key of a place that left is gone. An earlier attempt to write it may still take effect, or the view shows that one did.
    fn on_gone(&mut self, id: PlaceId, departure: Departure, revision: i64, out: &mut Vec<Effect>) {
        let Some(place) = self.places.get_mut(&id) else { return };
        if !matches!(place.life, Life::Leaving(_)) {
            return;
        }
        out.push(Effect::Gone(id, departure));
        if departure != Departure::WithLease {
            // Its number must not be used again either.
            place.is_ambiguous |= self.view.place_of(&place.key).is_some_and(|at| at != place.revision);
            if place.is_ambiguous {
                out.push(Effect::Clean(place.key.clone(), place.entrant.lease, None));
            }
        }
        self.set_life(id, Life::Gone(revision));
    }

    /// Forgets places whose deletion the view has seen, or that no view needs to see.
    pub(super) fn forget_seen(&mut self) {
        let is_seen = |id: &PlaceId| self.view.place_of(&self.places[id].key).is_none();
        let seen: Vec<PlaceId> = if self.view.is_on() {
            let told = self.gone.keys().take_while(|(revision, _)| self.sees_all_up_to(*revision));
            told.map(|(_, id)| *id).filter(is_seen).collect()
        } else {
            self.gone.keys().map(|(_, id)| *id).collect()
        };
        for id in seen {
            self.remove(id);
        }
    }
}
