//! Following a queue: what is watched and read, and what the news mean for our places.

use std::collections::BTreeSet;

use super::{
    Effect, Host, Queue, admission,
    place::{Life, Place},
    view,
    view::News,
    watching, wire,
    wire::Checked,
};
use crate::{
    clock::Moment,
    store::{Key, Keys, Reply, ReplyBody, StoreError, WatchReply},
    terms::PlaceId,
};

/// A key and the revision at which it was created.
type Stood = (Key, i64);

impl Queue {
    pub(super) fn on_watch(&mut self, now: Moment, reply: WatchReply, out: &mut Vec<Effect>) {
        let mut wants = Vec::new();
        match reply {
            WatchReply::Created { id, .. } => self.view.on_created(id, &mut wants),
            WatchReply::Events { events, .. } => {
                let mut news = Vec::new();
                self.view.on_events(&self.prefix, events, &mut news);
                if !news.is_empty() && self.watching.is_crowd() {
                    // Only the nearest contender ahead is watched: whether others stand there, a read tells.
                    self.view.open_gap();
                }
                self.take_in(news, out);
            }
            WatchReply::Cancelled { id, .. } => {
                if self.view.on_broken(id) {
                    self.watching.pause(now);
                    if self.watching.is_crowd() {
                        self.view.drop_watches(&mut wants);
                    }
                }
            }
        }
        pass_on(wants, out);
    }

    pub(super) fn on_read(&mut self, now: Moment, result: Result<Reply, StoreError>, out: &mut Vec<Effect>) {
        let Ok(Reply { revision, body: ReplyBody::Range(range), .. }) = result else {
            self.view.on_snapshot_failed();
            self.watching.recheck_soon(now);
            return;
        };
        let (mut news, mut wants) = (Vec::new(), Vec::new());
        let is_taken_in = self.view.on_snapshot(&self.prefix, revision, range.kvs, &mut news, &mut wants);
        self.watching.checked(now, self.waiting);
        if self.view.is_deaf() {
            tracing::debug!(name = %self.name, "the watch missed changes that a read found: opening another one");
            self.view.drop_watches(&mut wants);
        }
        pass_on(wants, out);
        self.take_in(news, out);
        if !is_taken_in {
            return; // a view that is off knows no key, which says nothing about ours
        }
        let is_shown = |(at, id): &(&i64, &PlaceId)| self.view.place_of(&self.places[*id].key) == Some(**at);
        let dead: Vec<PlaceId> =
            self.standing.range(..=revision).filter(|it| !is_shown(it)).map(|(_, id)| *id).collect();
        for id in dead {
            self.on_vanished(id, out);
        }
    }

    /// The order is that of another history.
    pub(super) fn restart(&mut self, out: &mut Vec<Effect>) {
        let mut wants = Vec::new();
        self.view.restart(&mut wants);
        pass_on(wants, out);
        self.watching.restart();
        // Nobody will see their deletion any more.
        for (_, id) in std::mem::take(&mut self.gone) {
            self.remove(id);
        }
    }

    /// What a change of the order means for our places.
    fn take_in(&mut self, news: Vec<News>, out: &mut Vec<Effect>) {
        for piece in news {
            match piece {
                // The put of a key that was deleted meanwhile is no ghost yet.
                News::Joined(key) if self.uses(&key) || self.is_where_it_was(&key) => {}
                News::Joined(key) => out.push(Effect::Stranger(key)),
                News::Left(key) => {
                    if let Some(id) = self.keys.get(&key).copied()
                        && self.view.place_of(&key).is_none()
                    {
                        self.on_vanished(id, out);
                    }
                }
            }
        }
    }

    /// Whether the view shows `key` where a place of ours had it.
    fn is_where_it_was(&self, key: &Key) -> bool {
        self.keys.get(key).is_some_and(|id| self.view.place_of(key) == Some(self.places[id].revision))
    }

    /// Whether the view has seen every change of the queue up to `revision`.
    pub(super) fn sees_all_up_to(&self, revision: i64) -> bool {
        self.view.has_seen(&self.prefix, revision)
    }

    /// Brings the watches in line with who waits and whose turn it is.
    pub(super) fn aim(&mut self, now: Moment, host: &mut impl Host, out: &mut Vec<Effect>) {
        let since = self.admitted_since();
        if !self.watching.update(now, since, self.waiting, self.view.processes()) {
            return;
        }
        let wanted = match self.watching.target() {
            watching::Target::Nothing => BTreeSet::new(),
            // Beyond so many, the sweeps of the lease find what vanished.
            watching::Target::Hold if !self.view.is_on() && !host.may_watch_hold() => BTreeSet::new(),
            watching::Target::Hold => self.admitted_keys().collect(),
            watching::Target::Queue => BTreeSet::from([self.prefix.keys()]),
            // Until the read is here that follows a change, nobody knows who is right ahead.
            watching::Target::Crowd if self.view.is_on() && !self.view.is_complete() => self.view.watched(),
            watching::Target::Crowd => self.crowd_keys(),
        };
        let mut wants = Vec::new();
        self.view.aim(wanted, &mut || host.next_watch(), &mut wants);
        if self.watching.take_recheck(now, self.waiting) {
            self.recheck(&mut wants, out);
        }
        pass_on(wants, out);
    }

    /// Makes sure of the order while somebody waits. Where the watches are to be trusted, two keys tell: our first waiter's, and the
    /// one that it waits for. Whoever else stands there, it is not our turn while both do.
    fn recheck(&mut self, wants: &mut Vec<view::Effect>, out: &mut Vec<Effect>) {
        match self.first_waiter() {
            Some((id, own, Some(ahead))) if self.view.is_trusted() => out.push(Effect::Check(id, own, Some(ahead))),
            _ => self.view.recheck(wants),
        }
    }

    pub(super) fn on_checked(
        &mut self,
        now: Moment,
        id: PlaceId,
        result: Result<Reply, StoreError>,
        out: &mut Vec<Effect>,
    ) {
        let Some(place) = self.places.get(&id).filter(|place| place.stands()) else { return };
        let own = (place.key.clone(), place.revision);
        match result.ok().and_then(|reply| wire::checked(&reply, &own)) {
            Some(Checked::AsBefore) => self.watching.checked(now, self.waiting),
            Some(Checked::AheadGone) => {
                let mut wants = Vec::new();
                self.view.recheck(&mut wants);
                pass_on(wants, out);
            }
            Some(Checked::OwnGone) => self.on_vanished(id, out),
            None => self.watching.recheck_soon(now),
        }
    }

    /// Looks for the key of a place: there may be no watch on it, or a silent one.
    pub(super) fn doubt(&self, id: PlaceId, out: &mut Vec<Effect>) {
        if let Some((key, revision)) = self.standing_key(id) {
            out.push(Effect::Check(id, (key.clone(), revision), None));
        }
    }

    /// Our first waiter, its key, and the key that stands right in its way, if the order knows.
    fn first_waiter(&self) -> Option<(PlaceId, Stood, Option<Stood>)> {
        let waits = |id: &&PlaceId| self.places.get(id).is_some_and(|place| place.life == Life::Waiting);
        let id = self.standing.values().find(waits)?;
        let Place { key, revision, entrant, .. } = self.places.get(id)?;
        let ahead = (self.view.place_of(key) == Some(*revision))
            .then(|| admission::obstacle(self.view.ahead_of(&(*revision, key.clone())), entrant.claim))
            .flatten();
        Some((*id, (key.clone(), *revision), ahead.map(|(revision, key)| (key.clone(), *revision))))
    }

    /// In a crowd: whose turn it is, our first waiter, and whoever stands right in its way.
    fn crowd_keys(&self) -> BTreeSet<Keys> {
        let first = self.first_waiter();
        let keys = first.into_iter().flat_map(|(_, own, ahead)| std::iter::once(own).chain(ahead));
        keys.map(|(key, _)| Keys::one(key)).chain(self.admitted_keys()).collect()
    }
}

fn pass_on(wants: Vec<view::Effect>, out: &mut Vec<Effect>) {
    out.extend(wants.into_iter().map(|want| match want {
        view::Effect::Watch(id, keys) => Effect::Watch(id, keys),
        view::Effect::Unwatch(id) => Effect::Unwatch(id),
        view::Effect::Read => Effect::Read,
    }));
}
