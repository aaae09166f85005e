//! Following a queue: what is watched and read, and what the news mean for our places.

use std::collections::BTreeSet;

use super::{
    Effect, Host, Queue, view,
    view::News,
    watching::{self, CROWD_UNTIL, MOST_AHEAD, MOST_SINGLE},
    wire,
    wire::Checked,
};
use crate::{
    clock::Moment,
    store::{Key, Keys, Reply, ReplyBody, StoreError, WatchReply},
    terms::PlaceId,
    text,
};

/// In a crowd, so many keys that stood in our way stay watched. A process that cycles a name uses two in turn.
const NEARBY: usize = 2;

/// A key and the revision at which it was created.
type Stood = (Key, i64);

impl Queue {
    pub(super) fn on_watch(&mut self, now: Moment, reply: WatchReply, out: &mut Vec<Effect>) {
        let mut wants = Vec::new();
        match reply {
            WatchReply::Created { id, revision } => self.view.on_created(id, revision, &mut wants),
            WatchReply::Events { id, events } => {
                let mut news = Vec::new();
                self.view.on_events(&self.prefix, id, events, &mut news);
                if !news.is_empty() && self.watching.is_crowd() {
                    // Only who is right in the way is watched: whether others stand there, a read tells.
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
        let shown = self.view.on_snapshot(&self.prefix, revision, range, &mut news, &mut wants);
        self.watching.checked(now, self.watchers(), self.ahead());
        if self.view.is_deaf() {
            tracing::debug!(name = %text::excerpt(&self.name), "the watch missed changes that a read found: opening another one");
            self.view.drop_watches(&mut wants);
        }
        pass_on(wants, out);
        self.take_in(news, out);
        // A view that is off knows no key, which says nothing about ours.
        let Some(shown) = shown else { return };
        let is_shown = |(at, id): &&(i64, PlaceId)| self.view.place_of(&self.places[id].key) == Some(*at);
        let read = self.standing.keys().take_while(|(at, _)| *at <= shown);
        let dead: Vec<PlaceId> = read.filter(|it| !is_shown(it)).map(|(_, id)| *id).collect();
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
        for (_, id) in self.gone.keys().copied().collect::<Vec<_>>() {
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
        // Where too many keys would have to be watched one by one, all of the queue is watched after all.
        let processes = self.view.processes();
        let processes = if processes > CROWD_UNTIL && self.crowd_keys().is_none() { 0 } else { processes };
        let admitted = self.admitted.keys().map(|(since, _)| *since);
        let is_open = self.watching.update(now, admitted, self.watchers(), processes);
        let last = self.standing.last_key_value().map_or(0, |((revision, _), ())| *revision);
        self.view.read_until(self.watching.is_crowd().then_some(last));
        if !is_open {
            return;
        }
        let all = self.prefix.keys().clone();
        let whole = || BTreeSet::from([all]);
        let wanted = match self.watching.target() {
            watching::Target::Nothing => Some(BTreeSet::new()),
            // Beyond so many, the sweeps of the lease find what vanished.
            watching::Target::Hold if !self.view.is_on() && !host.may_watch_hold() => Some(BTreeSet::new()),
            watching::Target::Hold => Some(self.settled_keys().unwrap_or_else(whole)),
            // As it is most of the time in a queue that is busy.
            watching::Target::Queue if self.view.watches_only_all(&self.prefix) => None,
            watching::Target::Queue => Some(whole()),
            // Until the read is here that follows a change, nobody knows who is right ahead.
            watching::Target::Crowd if self.view.is_on() && !self.view.is_complete() => Some(self.view.watched()),
            watching::Target::Crowd => Some(self.crowd_keys().unwrap_or_else(whole)),
        };
        let mut wants = Vec::new();
        match wanted {
            Some(wanted) => self.view.aim(wanted, &mut || host.next_watch(), &mut wants),
            None => self.view.read_if_due(&mut wants),
        }
        if self.watching.take_recheck(now, self.watchers()) {
            self.recheck(&mut wants, out);
        }
        pass_on(wants, out);
    }

    /// Makes sure of the order while somebody waits. Where the watches are to be trusted, a few keys tell: our first waiter's, and
    /// those because of whom it waits. Whoever else stands there, it is not our turn while all of them do.
    fn recheck(&mut self, wants: &mut Vec<view::Effect>, out: &mut Vec<Effect>) {
        match self.first_waiter() {
            Some((id, own, ahead))
                if self.view.is_trusted() && !self.view.is_partial() && (1..=MOST_SINGLE).contains(&ahead.len()) =>
            {
                out.push(Effect::Check(id, own, ahead));
            }
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
            Some(Checked::AsBefore) => self.watching.checked(now, self.watchers(), self.ahead()),
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
            out.push(Effect::Check(id, (key.clone(), revision), Vec::new()));
        }
    }

    /// Our first waiter, its key, and the keys because of which it waits, if the order knows.
    fn first_waiter(&self) -> Option<(PlaceId, Stood, Vec<Stood>)> {
        let (_, id) = *self.waiting.first_key_value()?.0;
        let place = self.places.get(&id)?;
        let position = place.position();
        let ahead = match self.shown(id) {
            Some(place) => self.view.line().obstacles(&position, place.entrant.claim),
            None => Vec::new(),
        };
        let ahead = ahead.into_iter().map(|(revision, key)| (key.clone(), *revision)).collect();
        Some((id, (place.key.clone(), place.revision), ahead))
    }

    /// How many stand ahead of our first waiter, as far as anybody cares. There can have become fewer.
    fn ahead(&self) -> usize {
        let first = self.waiting.first_key_value().and_then(|((_, id), ())| self.shown(*id));
        first.map_or(0, |place| self.view.ahead_of(&place.position(), MOST_AHEAD))
    }

    /// In a crowd: the holds of ours that have lasted, and those because of whom our first waiter waits, now and before. Nothing if
    /// these are too many to be watched one by one.
    ///
    /// Processes that cycle a name keep their order and their keys, so the watch often stands already when its key is in the way
    /// again; then nothing needs to be read. Whether our own key still stands is told by the read that comes before our turn.
    fn crowd_keys(&mut self) -> Option<BTreeSet<Keys>> {
        let mut keys = self.settled_keys()?;
        match self.first_waiter() {
            // Its turn has come, or is yet to be known: an order that is thrown away now lets nobody in.
            Some((.., ahead)) if ahead.is_empty() && self.view.is_on() => return Some(self.view.watched()),
            // Something has to be watched, or there is no order.
            Some((_, (own, _), ahead)) if ahead.is_empty() => drop(keys.insert(Keys::one(own))),
            Some((.., ahead)) => {
                keys.extend(ahead.iter().map(|(key, _)| Keys::one(key.clone())));
                if let [(ahead, _)] = &ahead[..] {
                    let ahead = Keys::one(ahead.clone());
                    self.nearby.retain(|keys| *keys != ahead);
                    self.nearby.push_front(ahead);
                    self.nearby.truncate(NEARBY);
                }
            }
            None => {}
        }
        keys.extend(self.nearby.iter().cloned());
        (keys.len() <= MOST_SINGLE).then_some(keys)
    }

    /// The keys of holds that have lasted for a while, unless these are too many to be watched one by one.
    fn settled_keys(&self) -> Option<BTreeSet<Keys>> {
        let keys: BTreeSet<Keys> =
            self.settled().take(MOST_SINGLE + 1).map(|id| Keys::one(self.places[&id].key.clone())).collect();
        (keys.len() <= MOST_SINGLE).then_some(keys)
    }
}

fn pass_on(wants: Vec<view::Effect>, out: &mut Vec<Effect>) {
    out.extend(wants.into_iter().map(|want| match want {
        view::Effect::Watch(id, keys) => Effect::Watch(id, keys),
        view::Effect::Unwatch(id) => Effect::Unwatch(id),
        view::Effect::Read(until) => Effect::Read(until),
    }));
}
