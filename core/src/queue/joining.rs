//! Joining a queue: the transaction that writes a place's key, and what its reply means.

use std::sync::Arc;

use super::{
    Effect, Host, Queue,
    admission::{Claim, Line},
    place::{Departure, Entrant, Life, Place},
    wire,
    wire::Joined,
};
use crate::{
    clock::Moment,
    store::{ErrorKind, Key, KeyValue, Reply, StoreError, Txn},
    terms::{Mode, PlaceId},
};

/// How often a try steps around nested names before it queues instead, and how many of them at most.
const MAX_TRY_ROUNDS: u32 = 2;
/// Around so many keys of nested names one transaction steps at most: each is a condition, and etcd allows 128 by default.
const MOST_NESTED: usize = 64;

impl Queue {
    pub(super) fn join(&mut self, id: PlaceId, entrant: Entrant, host: &impl Host, out: &mut Vec<Effect>) {
        let Entrant { lease, claim, .. } = entrant;
        let key_of = |number| self.prefix.contender(lease, number, claim);
        let (number, key) = self.numbers.get_or_default(lease).take(host.taints(lease), key_of);
        let is_try = entrant.mode == Mode::Try;
        self.keys.insert(key.clone(), id);
        self.places.insert(id, Place::new(key, number, entrant, host.seen()));
        match self.leaving.last_key_value() {
            Some((last, _)) if is_try => self.set_life(id, Life::Blocked(*last)),
            _ => self.send(id, out),
        }
    }

    /// Sends the tries that waited for our own deletes, as far as these are done.
    pub(super) fn unblock(&mut self, out: &mut Vec<Effect>) {
        let next = self.leaving.first_key_value().map_or(u64::MAX, |(number, _)| *number);
        while let Some((&(behind, id), ())) = self.blocked.first_key_value()
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

    /// Whether that transaction writes only where nobody stands.
    pub fn tries(&self, id: PlaceId) -> bool {
        self.places.get(&id).is_some_and(Place::tries)
    }

    /// The transaction that enqueues a place, as things stand now.
    pub fn request(&self, id: PlaceId) -> Option<Txn> {
        let place = self.places.get(&id)?;
        let Place { key, nested, entrant: Entrant { lease, value, .. }, .. } = place;
        Some(if place.tries() {
            wire::try_enqueue(&self.prefix, key, value, *lease, nested)
        } else if self.knows_more_than_a_glance() {
            wire::enqueue_unseen(key, value, *lease)
        } else if self.watching.is_crowd() && self.standing.is_empty() && self.view.is_on() {
            wire::enqueue_in_crowd(&self.prefix, key, value, *lease)
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
            Ok(Joined { revision: Some(revision), is_new: false, .. }) if !place.may_have_written(revision) => {
                self.on_ghost_found(id, is_withdrawn, out);
            }
            Ok(Joined { revision: Some(revision), glance, is_whole, count, .. }) => {
                place.revision = revision;
                place.entrant.value = Arc::default();
                place.nested = Vec::new();
                if is_withdrawn {
                    self.depart(id);
                } else {
                    self.on_stands(now, id, (&glance, is_whole, count), out);
                }
            }
            Ok(_) if is_withdrawn => self.drop_unjoined(id, out),
            // Another one of its company was in the way of all, and its queue says what comes of it.
            Ok(_) if place.is_impatient => self.send(id, out),
            // What an earlier attempt put has been deleted since, or a ghost of its company stands: nothing of it is there.
            Ok(_) if place.entrant.mode == Mode::Wait => self.on_never_there(id, out),
            Ok(joined) => self.on_try_failed(id, &joined, out),
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

    /// The key that a place was given stands already: the ghost of one that had it before, by a request that took effect twice or by
    /// a backup that etcd was restored from. It is deleted, never chosen again, and whoever wanted the place needs another one.
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

    /// None of the keys that were put together can be said to stand: whoever wanted the place needs another one.
    fn on_never_there(&mut self, id: PlaceId, out: &mut Vec<Effect>) {
        if let Some(Place { key, entrant, is_ambiguous: true, .. }) = self.places.get(&id) {
            out.push(Effect::Clean(key.clone(), entrant.lease, None));
        }
        out.push(Effect::Vanished(id));
        self.remove(id);
    }

    /// The key stands. The reply showed some of the queue at that moment, perhaps all, and how many keys it had: is it the turn of this
    /// place already?
    fn on_stands(
        &mut self,
        now: Moment,
        id: PlaceId,
        (glance, is_whole, count): (&[KeyValue], bool, usize),
        out: &mut Vec<Effect>,
    ) {
        self.set_life(id, Life::Waiting);
        out.push(Effect::Stands(id));
        if is_whole {
            self.miss_others(id, glance, out);
        }
        let Some(Place { key, revision, entrant, .. }) = self.places.get(&id) else { return };
        let (position, claim, is_try) = ((*revision, key.clone()), entrant.claim, entrant.mode == Mode::Try);
        if self.view.is_complete() && self.sees_all_up_to(*revision) && self.view.place_of(key) != Some(*revision) {
            // The reply came after the event that says that the key is gone again.
            self.on_vanished(id, out);
            return;
        }
        let ahead = self.line_of(glance);
        if let Some((_, other)) = ahead.mismatch(&position, claim) {
            out.push(Effect::Mismatch(id, other.clone()));
        } else if is_whole && ahead.admits(&position, claim) {
            self.let_in(now, id, out);
        } else if is_whole && is_try {
            out.push(Effect::Refused(id));
        } else {
            // A try writes its key where nobody stands. One that it finds among others may come from a copy of an older request.
            if is_try || (claim != Claim::Exclusive && !is_whole) {
                self.unjudged.insert(id, ());
            }
            if self.watching.is_crowd() && !self.stands_behind(id, glance, count) {
                self.view.open_gap(); // no watch tells of our own key: a read does
            }
        }
    }

    /// In a crowd: whether the reply and a watch that stood before it tell all that this place has to know for now, which is who stands
    /// right in its way. Only for the one place that we have here, behind somebody else, and in the way of whom anybody is: an order
    /// that begins in the middle must not let anybody in by what we do ourselves.
    fn stands_behind(&mut self, id: PlaceId, glance: &[KeyValue], count: usize) -> bool {
        let Some(Place { key, revision, entrant, .. }) = self.places.get(&id) else { return false };
        let [own, ahead, ..] = glance else { return false };
        (&own.key, own.create_revision) == (key, *revision)
            && entrant.claim == Claim::Exclusive
            && self.standing.len() == 1
            && self.prefix.is_contender(&ahead.key)
            && !self.keys.contains_key(&ahead.key)
            && self.view.stand_behind(
                (*revision, key.clone()),
                ((ahead.create_revision, ahead.key.clone()), ahead.lease.is_some()),
                count,
            )
    }

    /// `all` that stood when the key of this place did: another place of ours that should be among them has lost its key.
    fn miss_others(&mut self, id: PlaceId, all: &[KeyValue], out: &mut Vec<Effect>) {
        let Some(Place { revision, .. }) = self.places.get(&id) else { return };
        let is_there = |at: i64, key: &Key| all.iter().any(|kv| kv.create_revision == at && kv.key == *key);
        let vanished: Vec<_> = (self.standing.keys())
            .take_while(|(at, _)| at < revision)
            .filter(|(at, id)| !is_there(*at, &self.places[id].key))
            .map(|(_, id)| *id)
            .collect();
        for id in vanished {
            self.on_vanished(id, out);
        }
    }

    /// The line that keys below the name make, nested names and ours that have left aside.
    fn line_of(&self, kvs: &[KeyValue]) -> Line<(i64, Key)> {
        let has_left = |key: &Key| self.keys.get(key).is_some_and(|id| self.places[id].has_left());
        let counts = |kv: &&KeyValue| self.prefix.is_contender(&kv.key) && !has_left(&kv.key);
        kvs.iter().filter(counts).map(|kv| ((kv.create_revision, kv.key.clone()), wire::claim_of(&kv.key))).collect()
    }

    /// A try wrote nothing, because keys stand below the name. It steps around nested names; a claim that goes with all others there
    /// queues among them, and leaves again unless it is admitted.
    fn on_try_failed(&mut self, id: PlaceId, joined: &Joined, out: &mut Vec<Effect>) {
        let line = self.line_of(&joined.glance);
        let Some(place) = self.places.get_mut(&id) else { return };
        let (behind, claim) = ((i64::MAX, place.key.clone()), place.entrant.claim);
        let mismatch = line.mismatch(&behind, claim);
        if mismatch.is_some() || !line.admits(&behind, claim) {
            let told = mismatch.map(|(_, other)| Effect::Mismatch(id, other.clone()));
            self.set_life(id, Life::Unsent);
            out.push(told.unwrap_or(Effect::Refused(id)));
            return;
        }
        let is_alone = !joined.glance.iter().any(|kv| self.prefix.is_contender(&kv.key));
        let is_short = joined.is_whole && joined.glance.len() * place.entrant.company <= MOST_NESTED;
        if is_alone && is_short && place.attempts <= MAX_TRY_ROUNDS {
            place.nested = joined.glance.iter().map(|kv| kv.key.clone()).collect();
        } else {
            place.is_impatient = true;
        }
        self.send(id, out);
    }
}
