//! Standing in a queue: whose turn has come, and what becomes of a place whose key vanished.

use super::{
    Effect, Queue,
    place::{Life, Place},
};
use crate::{
    clock::Moment,
    terms::{Mode, PlaceId},
};

impl Queue {
    /// Lets in every place of ours whose turn has come by the complete order, and sends away those whom it shows to be out of place.
    pub(super) fn admit(&mut self, now: Moment, out: &mut Vec<Effect>) {
        if self.waiting.is_empty() || !self.view.is_complete() {
            return;
        }
        let mut turns = Vec::new();
        for (_, id) in self.waiting.keys() {
            // Those that the order does not show yet are not judged by it.
            let Some(place) = self.shown(*id) else { continue };
            if !self.view.line().admits(&place.position(), place.entrant.claim) {
                break; // and whoever stands behind waits for this one, too
            }
            turns.push(*id);
        }
        for id in turns {
            self.let_in(now, id, out);
        }
        let judged: Vec<PlaceId> = self.unjudged.keys().copied().filter(|id| self.shown(*id).is_some()).collect();
        for id in judged {
            self.unjudged.remove(&id);
            let Some(place) = self.places.get(&id) else { continue };
            if let Some((_, other)) = self.view.line().mismatch(&place.position(), place.entrant.claim) {
                out.push(Effect::Mismatch(id, other.clone()));
            } else if place.entrant.mode == Mode::Try {
                out.push(Effect::Refused(id));
            }
        }
    }

    /// A place that stands in the order.
    pub(super) fn shown(&self, id: PlaceId) -> Option<&Place> {
        self.places.get(&id).filter(|place| self.view.place_of(&place.key) == Some(place.revision))
    }

    /// It is the turn of a place.
    pub(super) fn let_in(&mut self, now: Moment, id: PlaceId, out: &mut Vec<Effect>) {
        let Some(Place { key, revision, .. }) = self.places.get(&id) else { return };
        out.push(Effect::Admitted(id, key.clone(), *revision));
        self.set_life(id, Life::Admitted(now));
    }

    /// The key of a place is gone, and not by us.
    pub(super) fn on_vanished(&mut self, id: PlaceId, out: &mut Vec<Effect>) {
        if self.places.get(&id).is_some_and(Place::stands) {
            out.push(Effect::Vanished(id));
            self.remove(id);
        }
    }
}
