//! The queue of one name: our places in it, who stands where, and whose turn it is. Sans I/O.
//!
//! All places of this client in the queue of one name live here; who wants them, and for how long, the hub knows. The order
//! comes from [`view::View`], the turn from [`admission`], the transactions from [`wire`], the life of a place from [`place`].
//! The algorithm is the revision-ordered queue of etcd's own `concurrency.Mutex`, with one key for each place and with the
//! hand-off inside a process that `docs/design.md` §3 describes: a key of ours that has left is treated as gone while its
//! delete is still on the way.
//!
//! There is one way in, [`Queue::handle`]; whatever comes in, the queue is settled when it returns.

pub mod admission;
pub mod company;
mod numbers;
pub mod place;
pub mod view;
pub mod wire;

mod following;
mod joining;
mod leaving;
mod standing;
mod watching;

use std::{collections::VecDeque, sync::Arc, time::Duration};

pub use self::numbers::Taints;
use self::{
    company::Company,
    numbers::Numbers,
    place::{Departure, Entrant, Life, Place},
    view::View,
    watching::Watching,
    wire::Prefix,
};
use crate::{
    clock::Moment,
    few::Few,
    store::{Key, Keys, LeaseId, Reply, StoreError, WatchId, WatchReply},
    terms::PlaceId,
};

/// What happens to a queue.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Input {
    /// A new place joins. Answered by [`Effect::Stands`], [`Effect::Refused`], [`Effect::Failed`] or [`Effect::Vanished`].
    Join(PlaceId, Entrant),
    /// A place that failed to join tries again, under the same key.
    Resend(PlaceId),
    /// A place is not wanted any more: given up, or released. Answered by [`Effect::Gone`].
    Leave(PlaceId),
    /// The lease of a place is over, and its key with it. Forgotten at once, unless it leaves already.
    Abandon(PlaceId),
    /// The reply to [`Effect::Join`].
    Joined(PlaceId, Result<Reply, StoreError>),
    /// The reply to [`Effect::Delete`].
    Deleted(Vec<PlaceId>, Result<Reply, StoreError>),
    /// The reply to [`Effect::Read`].
    Read(Result<Reply, StoreError>),
    /// The reply to [`Effect::Check`].
    Checked(PlaceId, Result<Reply, StoreError>),
    /// The key of a place is gone as of that revision, or went with its lease (`None`): the end of [`Effect::Clean`].
    Cleaned(PlaceId, Option<i64>),
    /// Something came on one of the watches.
    Watch(WatchReply),
    /// Something speaks against the key of this place: it is looked for.
    Doubt(PlaceId),
    /// Whether to tell what company this place has, whose turn it is; while it is to be told, all of the queue is watched.
    Follow(PlaceId, bool),
    /// Another history has begun: what is known of the order is worth nothing, and what was seen of it is seen no more.
    Restart,
    /// Time passed.
    Wake,
}

/// What a queue asks for, and tells.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Effect {
    /// The place is to be enqueued: when it is its turn to be sent, [`Queue::request`] says how; answer with [`Input::Joined`]. One
    /// transaction can carry what several queues ask for.
    Join(PlaceId),
    /// The keys of these places are to be deleted, each if it was created at its revision: [`Queue::keys_of`]; answer with [`Input::Deleted`].
    Delete(Vec<PlaceId>),
    /// Read the whole queue or, where a revision is given, what was created until then; answer with [`Input::Read`].
    Read(Option<i64>),
    /// See whether the key of this place and those that it waits for still stand; answer with [`Input::Checked`].
    Check(PlaceId, (Key, i64), Vec<(Key, i64)>),
    /// Open a watch; answer with [`Input::Watch`].
    Watch(WatchId, Keys),
    /// Close a watch.
    Unwatch(WatchId),
    /// The key of the place stands.
    Stands(PlaceId),
    /// It is the turn of the place: its key and create revision. It stays so until it leaves or vanishes.
    Admitted(PlaceId, Key, i64),
    /// The company of the place that is followed changed.
    Company(PlaceId, Company),
    /// A try found somebody in its way. The place is to be left.
    Refused(PlaceId),
    /// This key ahead claims what cannot be weighed against the claim of the place, which is to be left.
    Mismatch(PlaceId, Key),
    /// A place could not join; it is to be left, or sent again.
    Failed(PlaceId, StoreError),
    /// The key of a place is gone, and not by us; so is the place.
    Vanished(PlaceId),
    /// A place that was left is gone.
    Gone(PlaceId, Departure),
    /// The delete of a place's key failed; it goes on in the background.
    Unconfirmed(PlaceId, StoreError),
    /// This key of this lease must go, also if it appears only later. With a place, only the key of that revision; the end is
    /// told by [`Input::Cleaned`].
    Clean(Key, LeaseId, Option<(PlaceId, i64)>),
    /// The fate of an enqueue with this lease is unknown: its key may appear later, and must not be chosen again.
    Ambiguous(Key, LeaseId),
    /// A key came into the order that none of our places has.
    Stranger(Key),
}

/// Who stands in a place's way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blocker {
    /// Its key.
    pub key: Key,
    /// Its create revision.
    pub token: i64,
    /// Whether it holds; otherwise it waits itself.
    pub holds: bool,
    /// Whether it has no lease that will end it one day.
    pub has_no_lease: bool,
}

/// What a queue may ask its client.
pub trait Host {
    /// Keys of this lease that must not be chosen.
    fn taints(&self, lease: LeaseId) -> &Taints;
    /// The highest revision that etcd told of so far: what is written from now on has a higher one.
    fn seen(&self) -> i64;
    /// Whether one more key may be watched only to learn that it vanished.
    fn may_watch_hold(&self) -> bool;
    /// A fresh id for a watch.
    fn next_watch(&mut self) -> WatchId;
}

/// The queue of one name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Queue {
    name: Arc<str>,
    prefix: Prefix,
    places: Few<PlaceId, Place>,
    /// The place of each key.
    keys: Few<Key, PlaceId>,
    /// Places whose key stands and is wanted, by its create revision. Of two with the same one, the key of one is from before a
    /// restore that nobody has noticed.
    standing: Few<(i64, PlaceId), ()>,
    /// Those of them that wait.
    waiting: Few<(i64, PlaceId), ()>,
    /// The others, whose turn it is, and since when.
    admitted: Few<(Moment, PlaceId), ()>,
    /// Those that wait and leave by what the order will say of them: tries that queued among others, and claims that may not go with
    /// one ahead.
    unjudged: Few<PlaceId, ()>,
    /// Tries that wait for our own deletes.
    blocked: Few<(u64, PlaceId), ()>,
    /// Places whose keys are to be deleted, in the order in which they left.
    leaving: Few<u64, PlaceId>,
    /// How many have left.
    departures: u64,
    /// Those of them whose delete is still to be sent.
    undeleted: VecDeque<PlaceId>,
    /// Whether a delete is on its way: the next ones wait for its reply and then share one commit.
    is_deleting: bool,
    /// Deleted keys whose deletion the view has not seen yet, by its revision.
    gone: Few<(i64, PlaceId), ()>,
    /// The place whose company is told, and what was told last.
    followed: Option<(PlaceId, Company)>,
    numbers: Few<LeaseId, Numbers>,
    view: View,
    watching: Watching,
    /// In a crowd: the keys that stood in our way, the last one first.
    nearby: VecDeque<Keys>,
}

impl Queue {
    /// The queue of `name` below `namespace`. `recheck` is how often the order is confirmed by a read while somebody waits.
    pub fn new(namespace: &str, name: Arc<str>, recheck: Duration) -> Self {
        Self {
            prefix: Prefix::new(namespace, &name),
            name,
            places: Few::new(),
            keys: Few::new(),
            standing: Few::new(),
            waiting: Few::new(),
            admitted: Few::new(),
            unjudged: Few::new(),
            blocked: Few::new(),
            leaving: Few::new(),
            departures: 0,
            undeleted: VecDeque::new(),
            is_deleting: false,
            gone: Few::new(),
            followed: None,
            numbers: Few::new(),
            view: View::default(),
            watching: Watching::new(recheck),
            nearby: VecDeque::new(),
        }
    }

    /// Takes in what happened at `now` and says what to do about it. The queue is settled then.
    pub fn handle(&mut self, now: Moment, input: Input, host: &mut impl Host, out: &mut Vec<Effect>) {
        match input {
            Input::Join(id, entrant) => self.join(id, entrant, host, out),
            Input::Resend(id) => self.resend(id, out),
            Input::Leave(id) => self.leave(id, out),
            Input::Abandon(id) => self.abandon(id, out),
            Input::Joined(id, result) => self.on_joined(now, id, result, out),
            Input::Deleted(ids, result) => self.on_deleted(ids, result, out),
            Input::Read(result) => self.on_read(now, result, out),
            Input::Cleaned(id, revision) => self.on_cleaned(id, revision, out),
            Input::Watch(reply) => self.on_watch(now, reply, out),
            Input::Checked(id, result) => self.on_checked(now, id, result, out),
            Input::Doubt(id) => self.doubt(id, out),
            Input::Follow(id, is_wanted) => self.follow(id, is_wanted),
            Input::Restart => self.restart(out),
            Input::Wake => {}
        }
        self.delete_next(out);
        self.aim(now, host, out);
        self.admit(now, out);
        self.tell_company(out);
        self.forget_seen();
    }

    /// When [`Input::Wake`] is due.
    pub fn wake(&self) -> Option<Moment> {
        self.watching.wake(self.next_settling(), self.watchers())
    }

    /// The name.
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// The keys below the name.
    pub fn prefix(&self) -> &Prefix {
        &self.prefix
    }

    /// Whether nothing is left to do or to remember.
    pub fn is_idle(&self) -> bool {
        self.places.is_empty() && !self.is_deleting && !self.view.is_on()
    }

    /// Whether a place of ours has `key`. Once that key was deleted, one that stands in its stead is a ghost: an earlier attempt
    /// to enqueue took effect late.
    pub fn uses(&self, key: &Key) -> bool {
        self.keys.get(key).is_some_and(|id| !matches!(self.places[id].life, Life::Gone(_)))
    }

    /// The key of a place and its create revision, if it stands as far as we know.
    pub fn standing_key(&self, id: PlaceId) -> Option<(&Key, i64)> {
        self.places.get(&id).filter(|place| place.stands()).map(|place| (&place.key, place.revision))
    }

    /// The first whom a place waits for.
    pub fn blocker(&self, id: PlaceId) -> Option<Blocker> {
        if self.view.is_partial() {
            return None; // others may stand ahead of whom it shows
        }
        let Place { key, revision, .. } = self.places.get(&id)?;
        let position = (*revision, key.clone());
        let first = self.view.line().first_obstacle(&position, wire::claim_of(key))?;
        let (token, key) = first.clone();
        let holds = self.view.line().admits(first, wire::claim_of(&key));
        Some(Blocker { has_no_lease: self.view.has_no_lease(first), token, key, holds })
    }

    /// The watches that are open or being opened.
    pub fn watches(&self) -> impl Iterator<Item = WatchId> {
        self.view.watches()
    }

    /// Places whose turn it has been for a while, the oldest first: most are released before that.
    fn settled(&self) -> impl Iterator<Item = PlaceId> {
        self.admitted.keys().take_while(|(since, _)| self.watching.is_settled(*since)).map(|(_, id)| *id)
    }

    /// When it will have been the turn of the next one for a while.
    fn next_settling(&self) -> Option<Moment> {
        let next = self.admitted.keys().find(|(since, _)| !self.watching.is_settled(*since));
        next.map(|(since, _)| self.watching.settles_at(*since))
    }

    /// Moves a place on, and every index with it.
    fn set_life(&mut self, id: PlaceId, life: Life) {
        let Some(place) = self.places.get_mut(&id) else { return };
        let (had_left, stood) = (place.has_left(), place.stands());
        let before = std::mem::replace(&mut place.life, life);
        let (has_left, stands, revision) = (place.has_left(), place.stands(), place.revision);
        if stands && !stood {
            self.standing.insert((revision, id), ());
        } else if stood && !stands {
            self.standing.remove(&(revision, id));
            self.followed.take_if(|(followed, _)| *followed == id);
        }
        if has_left && !had_left {
            self.view.discount((revision, place.key.clone()));
        }
        match before {
            Life::Waiting => {
                self.waiting.remove(&(revision, id));
                self.unjudged.remove(&id);
            }
            Life::Admitted(since) => drop(self.admitted.remove(&(since, id))),
            Life::Blocked(behind) => drop(self.blocked.remove(&(behind, id))),
            Life::Leaving(number) => drop(self.leaving.remove(&number)),
            Life::Gone(revision) => drop(self.gone.remove(&(revision, id))),
            Life::Sending { .. } | Life::Unsent => {}
        }
        match life {
            Life::Waiting => self.waiting.insert((revision, id), ()),
            Life::Admitted(since) => self.admitted.insert((since, id), ()),
            Life::Blocked(behind) => self.blocked.insert((behind, id), ()),
            Life::Leaving(number) => self.leaving.insert(number, id),
            Life::Gone(revision) => self.gone.insert((revision, id), ()),
            Life::Sending { .. } | Life::Unsent => {}
        }
    }

    /// Forgets a place. Its number is free unless a request about its key may still be on its way.
    fn remove(&mut self, id: PlaceId) {
        self.set_life(id, Life::Unsent);
        let Some(place) = self.places.remove(&id) else { return };
        self.keys.remove(&place.key);
        let lease = place.entrant.lease;
        if let Some(numbers) = self.numbers.get_mut(&lease) {
            numbers.give_back(place.number, !place.is_ambiguous);
            if numbers.are_unused() {
                self.numbers.remove(&lease);
            }
        }
        self.view.forget(&(place.revision, place.key));
    }
}
