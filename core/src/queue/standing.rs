//! Standing in a queue: whose turn has come, and what becomes of a place whose key vanished.

use super::{
    Effect, Queue, admission,
    place::{Life, Place},
};
use crate::{clock::Moment, terms::PlaceId};

impl Queue {
    /// Lets in every place of ours whose turn has come by the complete order, and refuses the tries among the others.
    pub(super) fn admit(&mut self, now: Moment, out: &mut Vec<Effect>) {
        if self.waiting == 0 || !self.view.is_complete() {
            return;
        }
        let is_ours = |(revision, key): &(i64, _)| {
            let id = self.standing.get(revision)?;
            self.places.get(id).filter(|place| place.key == *key && place.life == Life::Waiting).map(|_| *id)
        };
        let turns: Vec<PlaceId> = admission::admitted(self.view.line()).into_iter().filter_map(is_ours).collect();
        for id in turns {
            self.let_in(now, id, out);
        }
        // Those that the order does not show yet are not judged by it.
        let is_behind = |id: &PlaceId| self.view.place_of(&self.places[id].key).is_some();
        let refused: Vec<PlaceId> = self.impatient.iter().copied().filter(is_behind).collect();
        for id in refused {
            self.impatient.remove(&id);
            out.push(Effect::Refused(id));
        }
    }

    /// It is the turn of a place.
    pub(super) fn let_in(&mut self, now: Moment, id: PlaceId, out: &mut Vec<Effect>) {
        let Some(Place { key, revision, .. }) = self.places.get(&id) else { return };
        out.push(Effect::Admitted(id, key.clone(), *revision));
        self.impatient.remove(&id);
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
