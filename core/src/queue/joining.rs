//! Joining a queue: the transaction that writes a place's key, and what its reply means.

use std::sync::Arc;

use super::{
    Effect, Host, Queue, admission,
    admission::Claim,
    place::{Departure, Entrant, Life, Place},
    wire,
    wire::Joined,
};
use crate::{
    clock::Moment,
    store::{ErrorKind, Key, Reply, StoreError, Txn},
    terms::{Mode, PlaceId},
};

/// How often a try steps around nested names before it queues instead, and how many of them at most.
const MAX_TRY_ROUNDS: u32 = 2;

impl Queue {
    pub(super) fn join(&mut self, id: PlaceId, entrant: Entrant, host: &impl Host, out: &mut Vec<Effect>) {
        let lease = entrant.lease;
        let key_of = |number| self.prefix.contender(lease, number);
        let (number, key) = self.numbers.entry(lease).or_default().take(host.taints(lease), key_of);
        let is_try = entrant.mode == Mode::Try;
        self.keys.insert(key.clone(), id);
        self.places.insert(id, Place::new(key, number, entrant));
        match self.leaving.last_key_value() {
            Some((last, _)) if is_try => self.set_life(id, Life::Blocked(*last)),
            _ => self.send(id, out),
        }
    }

    /// Sends the tries that waited for our own deletes, as far as these are done.
    pub(super) fn unblock(&mut self, out: &mut Vec<Effect>) {
        let next = self.leaving.first_key_value().map_or(u64::MAX, |(number, _)| *number);
        while let Some((behind, id)) = self.blocked.first().copied()
            && behind < next
        {
            self.send(id, out);
        }
    }

    pub(super) fn resend(&mut self, id: PlaceId, out: &mut Vec<Effect>) {
        if self.places.get(&id).is_some_and(|place| place.life == Life::Unsent) {
            self.send(id, out);
        }
    }

    fn send(&mut self, id: PlaceId, out: &mut Vec<Effect>) {
        let Some(place) = self.places.get_mut(&id) else { return };
        place.attempts += 1;
        out.push(Effect::Join(id));
        self.set_life(id, Life::Sending { is_withdrawn: false });
    }

    /// The transaction that enqueues a place, as things stand now.
    pub fn request(&self, id: PlaceId) -> Option<Txn> {
        let place = self.places.get(&id)?;
        let Place { key, nested, entrant: Entrant { lease, value, .. }, .. } = place;
        Some(if place.tries() {
            wire::try_enqueue(&self.prefix, key, value, *lease, nested)
        } else if self.knows_more_than_a_glance() {
            wire::enqueue_unseen(key, value, *lease)
        } else {
            wire::enqueue(&self.prefix, key, value, *lease)
        })
    }

    /// Whether a look at the first keys of the queue would tell nothing: all of it is watched, and it is longer than that.
    fn knows_more_than_a_glance(&self) -> bool {
        self.view.is_complete() && self.view.watches_all(&self.prefix) && self.view.size() > wire::GLANCE
    }

    pub(super) fn on_joined(
        &mut self,
        now: Moment,
        id: PlaceId,
        result: Result<Reply, StoreError>,
        out: &mut Vec<Effect>,
    ) {
        let Some(place) = self.places.get_mut(&id) else { return };
        let Life::Sending { is_withdrawn } = place.life else { return };
        let joined = result.and_then(|reply| {
            wire::joined(reply, &place.key, place.tries()).ok_or_else(|| {
                StoreError::ambiguous(ErrorKind::Internal, "etcd's reply to an enqueue has an unknown shape")
            })
        });
        match joined {
            // Nobody but an earlier attempt of this place may have written its key, and there was none.
            Ok(joined) if joined.revision.is_some() && !joined.is_new && !place.is_ambiguous => {
                self.on_ghost_found(id, is_withdrawn, out);
            }
            Ok(Joined { revision: Some(revision), glance, is_whole, .. }) => {
                place.revision = revision;
                place.entrant.value = Arc::default();
                place.nested = Vec::new();
                if is_withdrawn {
                    self.depart(id);
                } else {
                    self.on_stands(
                        now,
                        id,
                        is_whole.then_some(glance.iter().map(|kv| (kv.create_revision, &kv.key))),
                        out,
                    );
                }
            }
            Ok(_) if is_withdrawn => self.drop_unjoined(id, out),
            Ok(joined) => self.on_try_failed(id, joined, out),
            Err(error) => {
                place.is_ambiguous |= error.ambiguous;
                if error.ambiguous {
                    out.push(Effect::Ambiguous(place.key.clone(), place.entrant.lease));
                }
                if is_withdrawn {
                    self.drop_unjoined(id, out);
                } else {
                    self.set_life(id, Life::Unsent);
                    out.push(Effect::Failed(id, error));
                }
            }
        }
    }

    /// The key that a place was given stands already: the ghost of one that had it before, by a request that took effect
    /// twice. It is deleted, never chosen again, and whoever wanted the place needs another one.
    fn on_ghost_found(&mut self, id: PlaceId, is_withdrawn: bool, out: &mut Vec<Effect>) {
        let Some(place) = self.places.get_mut(&id) else { return };
        place.is_ambiguous = true;
        let (key, lease) = (place.key.clone(), place.entrant.lease);
        out.push(Effect::Ambiguous(key.clone(), lease));
        out.push(Effect::Clean(key, lease, None));
        let told = if is_withdrawn { Effect::Gone(id, Departure::Unjoined) } else { Effect::Vanished(id) };
        out.push(told);
        self.remove(id);
    }

    /// The key stands. `all` is the whole queue at that moment, if the reply showed it: is it the turn of this place already?
    fn on_stands<'a>(
        &mut self,
        now: Moment,
        id: PlaceId,
        all: Option<impl Iterator<Item = (i64, &'a Key)>>,
        out: &mut Vec<Effect>,
    ) {
        self.set_life(id, Life::Waiting);
        out.push(Effect::Stands(id));
        let is_admitted = all.is_some_and(|all| self.is_admitted_by_reply(id, all.collect(), out));
        let Some(Place { key, revision, entrant, .. }) = self.places.get(&id) else { return };
        if self.view.is_complete() && self.sees_all_up_to(*revision) && self.view.place_of(key) != Some(*revision) {
            // The reply came after the event that says that the key is gone again.
            self.on_vanished(id, out);
        } else if is_admitted {
            self.let_in(now, id, out);
        } else {
            if entrant.mode == Mode::Try {
                // A try writes its key where nobody stands. One that it finds among others may come from a copy of an older request.
                self.impatient.insert(id);
            }
            if self.watching.is_crowd() {
                self.view.open_gap(); // no watch tells of our own key: a read does
            }
        }
    }

    /// Whether `all` that stood beside the key of this place let it in. What is not among them is gone: another place of ours
    /// that should be has lost its key.
    fn is_admitted_by_reply(&mut self, id: PlaceId, all: Vec<(i64, &Key)>, out: &mut Vec<Effect>) -> bool {
        let Some(Place { revision, entrant, .. }) = self.places.get(&id) else { return false };
        let (revision, claim) = (*revision, entrant.claim);
        let vanished: Vec<_> = (self.standing.range(..revision))
            .filter(|(at, id)| !all.contains(&(**at, &self.places[id].key)))
            .map(|(_, id)| *id)
            .collect();
        for id in vanished {
            self.on_vanished(id, out);
        }
        let ahead = all.into_iter().filter(|(at, key)| self.prefix.is_contender(key) && *at < revision);
        let counts = |key: &Key| !self.keys.get(key).is_some_and(|id| self.places[id].has_left());
        admission::admits(ahead.filter(|(_, key)| counts(key)).map(|(_, key)| Claim::of(key)), claim)
    }

    fn on_try_failed(&mut self, id: PlaceId, joined: Joined, out: &mut Vec<Effect>) {
        let Some(place) = self.places.get_mut(&id) else { return };
        if joined.glance.iter().any(|kv| self.prefix.is_contender(&kv.key)) {
            self.set_life(id, Life::Unsent);
            out.push(Effect::Refused(id));
            return;
        }
        if joined.is_whole && place.attempts <= MAX_TRY_ROUNDS {
            place.nested = joined.glance.into_iter().map(|kv| kv.key).collect();
        } else {
            place.is_impatient = true;
        }
        self.send(id, out);
    }
}
