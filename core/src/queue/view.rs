//! The order of one queue as this client knows it: snapshots, and the events replayed on top of them. Sans I/O.
//!
//! What makes it safe to decide ownership from memory:
//!
//! - A key enters the order only from a full read, or from an event of a prefix watch without a gap since such a read. So
//!   whatever stood ahead of it when it entered is in the order, too; afterwards that can only become less.
//! - Watches start "from now" and are never resumed. One that broke is opened anew, and a read that was *sent after* all
//!   watches stood closes the gap: events that came in before the read was sent are older than its answer, later ones are
//!   kept and replayed on top of it.
//! - In a crowd, the order begins with whoever stands right ahead of us: while that key stands it is not our turn, and once it is
//!   gone a read tells whether others stand there. A watch on it that stood before our key was written has told of its end.
//! - A watch that starts in the past would be served by etcd's slow loop (every 100 ms), so none ever does.

use std::{
    collections::{BTreeMap, BTreeSet, btree_map::Entry},
    time::Duration,
};

use super::{
    admission::Line,
    wire::{self, Prefix},
};
use crate::store::{Change, Key, KeyValue, Keys, RangeReply, WatchEvent, WatchId};

/// A stream on which a watch is not confirmed for so long, until it is given up, is silent: whoever keeps it ends it.
pub const SILENCE: Duration = Duration::from_secs(1);

/// Where a key stands in the queue: by create revision. Foreign clients can create two keys in one transaction, so the key
/// itself breaks the tie.
pub type Position = (i64, Key);

/// Something that the owner of the view has to do.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Effect {
    /// Open a watch.
    Watch(WatchId, Keys),
    /// Close a watch.
    Unwatch(WatchId),
    /// Read the whole queue or, where a revision is given, what was created until then, values and leases included; answer with
    /// [`View::on_snapshot`] or [`View::on_snapshot_failed`].
    Read(Option<i64>),
}

/// What a change of the view can mean for the contenders of this client.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum News {
    /// A key came into the order.
    Joined(Key),
    /// A key left it.
    Left(Key),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Watch {
    id: WatchId,
    /// Once it stands: every change after this revision is told.
    since: Option<i64>,
    /// The revision of the last change that it told.
    last: i64,
    /// Whether a read was sent after it was asked for and before it stood.
    is_overdue: bool,
}

/// A read on its way.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Reading {
    /// Events that came in since it was sent.
    events: Vec<WatchEvent>,
    /// Whether a watch broke or was opened since: then the read does not close the gap.
    is_stale: bool,
    /// It shows only what was created until then.
    until: Option<i64>,
}

/// The replayed order of one queue.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct View {
    /// The contenders, and whether each has a lease that will free its place one day.
    order: BTreeMap<Position, bool>,
    /// The order without ours that have left, and what each claims: admission looks at nothing else, and nobody who has left is
    /// walked past again and again.
    line: Line<Position>,
    /// Positions of ours that have left, whether or not the order has them.
    left: BTreeSet<Position>,
    /// Create revision of each key in the order.
    places: BTreeMap<Key, i64>,
    /// How many keys each process has in the order.
    processes: BTreeMap<Vec<u8>, usize>,
    /// The revision of the last read: older events are part of it already.
    read: i64,
    /// Every key that was created until then, and still stood when it was read, has been shown.
    shown: i64,
    /// What was created later need not be read: nobody of ours stands behind it. 0 where nobody of ours stands at all.
    until: Option<i64>,
    /// How many keys the last read left out for that reason.
    behind: usize,
    /// Whether somebody can stand ahead of the first of the order.
    is_partial: bool,
    /// The highest revision that a watch event told.
    heard: i64,
    watches: BTreeMap<Keys, Watch>,
    /// Whether the watches stand and the order has had no gap since.
    is_complete: bool,
    reading: Option<Reading>,
    /// Keys of which a read told something new while the watches should have.
    unheard: BTreeSet<Key>,
    /// Whether they still had not told it by the next read.
    is_deaf: bool,
    /// Whether the last read failed: the next one is sent by [`View::recheck`] alone, after a pause.
    has_failed: bool,
}

impl View {
    /// Whether ownership may be decided by this order now.
    pub fn is_complete(&self) -> bool {
        self.is_complete
    }

    /// The keys that are watched.
    pub fn watched(&self) -> BTreeSet<Keys> {
        self.watches.keys().cloned().collect()
    }

    /// The watches that are open or being opened.
    pub fn watches(&self) -> impl Iterator<Item = WatchId> {
        self.watches.values().map(|watch| watch.id)
    }

    /// Whether any watch is open or being opened.
    pub fn is_on(&self) -> bool {
        !self.watches.is_empty()
    }

    /// Whether every change of the queue up to `revision` has been seen.
    pub fn has_seen(&self, prefix: &Prefix, revision: i64) -> bool {
        self.shown >= revision || (self.heard >= revision && self.watches_all(prefix))
    }

    /// Whether the whole queue is watched.
    pub fn watches_all(&self, prefix: &Prefix) -> bool {
        self.watches.contains_key(prefix.keys())
    }

    /// Whether the whole queue is watched, and nothing else.
    pub fn watches_only_all(&self, prefix: &Prefix) -> bool {
        self.watches.len() == 1 && self.watches_all(prefix)
    }

    /// Whether the watches have told of every change that a read found so far.
    pub fn is_trusted(&self) -> bool {
        self.is_complete && self.unheard.is_empty()
    }

    /// Whether the order begins with whoever stands right ahead of us, and others may stand ahead of that one.
    pub fn is_partial(&self) -> bool {
        self.is_partial
    }

    /// From now on, reads ask for what was created until that revision alone. 0 is nothing.
    pub fn read_until(&mut self, until: Option<i64>) {
        self.until = until;
    }

    /// How many contenders there are.
    pub fn size(&self) -> usize {
        self.order.len()
    }

    /// The contenders and what they claim, without ours that have left.
    pub fn line(&self) -> &Line<Position> {
        &self.line
    }

    /// A place of ours has left: it counts as gone, whenever its delete is seen.
    pub fn discount(&mut self, position: Position) {
        self.line.remove(&position, wire::claim_of(&position.1));
        self.left.insert(position);
    }

    /// A place of ours that had left is forgotten.
    pub fn forget(&mut self, position: &Position) {
        self.left.remove(position);
    }

    /// How many contenders stand ahead of `position`, as far as there are no more than `most`. Where the order begins in the middle,
    /// those that the reply told of are counted.
    pub fn ahead_of(&self, position: &Position, most: usize) -> usize {
        let unseen = if self.is_partial { self.behind } else { 0 };
        (self.order.range(..position).take(most).count() + unseen).min(most)
    }

    /// The create revision of `key`, if it is in the order.
    pub fn place_of(&self, key: &Key) -> Option<i64> {
        self.places.get(key).copied()
    }

    /// How many processes contend. Of those that were not read, each key counts for one.
    pub fn processes(&self) -> usize {
        self.processes.len() + self.behind
    }

    /// Whether the contender at `position` will stand for ever unless somebody deletes it.
    pub fn has_no_lease(&self, position: &Position) -> bool {
        self.order.get(position) == Some(&false)
    }

    /// Makes the open watches the ones in `wanted`. `next_id` gives fresh watch ids.
    pub fn aim(&mut self, wanted: BTreeSet<Keys>, next_id: &mut impl FnMut() -> WatchId, out: &mut Vec<Effect>) {
        self.watches.retain(|keys, watch| {
            let keep = wanted.contains(keys);
            if !keep {
                out.push(Effect::Unwatch(watch.id));
            }
            keep
        });
        for keys in wanted {
            if let Entry::Vacant(missing) = self.watches.entry(keys) {
                let id = next_id();
                out.push(Effect::Watch(id, missing.key().clone()));
                missing.insert(Watch { id, since: None, last: 0, is_overdue: false });
                self.open_gap();
            }
        }
        if self.watches.is_empty() {
            // Nobody needs the order; what is not kept up to date must not be believed later.
            let (reading, left) = (self.reading.take(), std::mem::take(&mut self.left));
            *self = Self { reading, left, ..Self::default() };
            self.open_gap();
        }
        self.read_if_due(out);
    }

    /// The watch `id` stands, and tells every change after `revision`.
    pub fn on_created(&mut self, id: WatchId, revision: i64, out: &mut Vec<Effect>) {
        if let Some(watch) = self.watches.values_mut().find(|watch| watch.id == id) {
            watch.since = Some(revision);
            self.read_if_due(out);
        }
    }

    /// The watch `id` is gone, although nobody closed it. Returns whether it was one of this view.
    pub fn on_broken(&mut self, id: WatchId) -> bool {
        let before = self.watches.len();
        self.watches.retain(|_, watch| watch.id != id);
        let is_ours = self.watches.len() < before;
        if is_ours {
            self.open_gap();
        }
        is_ours
    }

    /// The order must be confirmed by a read before it decides anything again.
    pub fn open_gap(&mut self) {
        self.is_complete = false;
        if let Some(reading) = &mut self.reading {
            reading.is_stale = true;
        }
    }

    /// Reads now, whether or not anything seems amiss.
    pub fn recheck(&mut self, out: &mut Vec<Effect>) {
        if self.reading.is_none() && self.is_on() && self.until != Some(0) {
            self.has_failed = false;
            for watch in self.watches.values_mut() {
                watch.is_overdue = watch.since.is_none();
            }
            let until = self.until;
            self.reading = Some(Reading { events: Vec::new(), is_stale: !self.all_stand(), until });
            out.push(Effect::Read(until));
        }
    }

    /// Events of the watch `id`.
    pub fn on_events(&mut self, prefix: &Prefix, id: WatchId, events: Vec<WatchEvent>, news: &mut Vec<News>) {
        for event in &events {
            self.unheard.remove(&event.key);
            if event.revision > self.read {
                self.apply(prefix, event, news);
            }
        }
        if let Some(last) = events.last() {
            self.heard = self.heard.max(last.revision);
            if let Some(watch) = self.watches.values_mut().find(|watch| watch.id == id) {
                watch.last = watch.last.max(last.revision);
            }
        }
        if let Some(reading) = &mut self.reading {
            reading.events.extend(events);
        }
    }

    /// The answer to [`Effect::Read`]: every key below the name, as of `revision`. Returns until when keys were created that it
    /// showed, if the order took it in: a view that was switched off meanwhile has no order.
    pub fn on_snapshot(
        &mut self,
        prefix: &Prefix,
        revision: i64,
        found: RangeReply,
        news: &mut Vec<News>,
        out: &mut Vec<Effect>,
    ) -> Option<i64> {
        let reading = self.reading.take()?;
        let shown = reading.until.map_or(revision, |until| until.min(revision));
        let is_taken_in = self.is_on();
        if is_taken_in {
            let all = usize::try_from(found.count).unwrap_or(0);
            self.behind = reading.until.map_or(0, |_| all.saturating_sub(found.kvs.len()));
            self.merge(prefix, (revision, shown), found.kvs, reading, news);
        }
        self.read_if_due(out);
        is_taken_in.then_some(shown)
    }

    /// The reply to the enqueue of `own`, which nobody else of ours stands beside, showed who stands right `ahead`, and whether that
    /// one has a lease; so many keys stand there in all. Where the key ahead was watched all the time, and has not changed since,
    /// that is all one needs to know until it goes. Returns whether it is so.
    pub fn stand_behind(&mut self, own: Position, (ahead, has_lease): (Position, bool), all: usize) -> bool {
        let stood = |watch: &Watch| watch.since.is_some_and(|since| since <= own.0) && watch.last <= own.0;
        let is_watched = self.watches.get(&Keys::one(ahead.1.clone())).is_some_and(stood);
        if !is_watched || self.reading.is_some() || !self.all_stand() {
            return false;
        }
        for key in self.places.keys().cloned().collect::<Vec<_>>() {
            self.leave(&key, &mut Vec::new());
        }
        self.unheard.clear();
        self.join(ahead.1, ahead.0, has_lease, &mut Vec::new());
        self.join(own.1, own.0, true, &mut Vec::new());
        (self.is_complete, self.is_partial, self.behind) = (true, true, all.saturating_sub(2));
        true
    }

    /// The read failed. The caller calls [`View::recheck`] after a pause.
    pub fn on_snapshot_failed(&mut self) {
        self.reading = None;
        self.has_failed = true;
    }

    /// Whether the watches told nothing of a change that a read found, not even until the read after it, or one of them was not
    /// even confirmed while a read was answered.
    pub fn is_deaf(&self) -> bool {
        self.is_deaf
    }

    /// Forgets all watches, so that [`View::aim`] opens new ones.
    pub fn drop_watches(&mut self, out: &mut Vec<Effect>) {
        for watch in std::mem::take(&mut self.watches).into_values() {
            out.push(Effect::Unwatch(watch.id));
        }
        self.unheard.clear();
        self.is_deaf = false;
        self.open_gap();
    }

    /// Forgets everything but which of our positions have left.
    pub fn restart(&mut self, out: &mut Vec<Effect>) {
        self.drop_watches(out);
        *self = Self { left: std::mem::take(&mut self.left), ..Self::default() };
    }

    fn all_stand(&self) -> bool {
        self.watches.values().all(|watch| watch.since.is_some())
    }

    /// Reads if the order has a gap that a read can close now.
    pub fn read_if_due(&mut self, out: &mut Vec<Effect>) {
        if self.is_on() && !self.is_complete && self.all_stand() && !self.has_failed {
            self.recheck(out);
        }
    }

    /// Makes the order what the read found, which shows keys that were created until `shown`, plus what is newer.
    fn merge(
        &mut self,
        prefix: &Prefix,
        (revision, shown): (i64, i64),
        kvs: Vec<KeyValue>,
        reading: Reading,
        news: &mut Vec<News>,
    ) {
        let mut target: BTreeMap<Key, (i64, bool)> = kvs
            .into_iter()
            .filter(|kv| prefix.is_contender(&kv.key))
            .map(|kv| (kv.key, (kv.create_revision, kv.lease.is_some())))
            .collect();
        for ((at, key), has_lease) in self.order.range((shown + 1, Key::from(""))..) {
            target.insert(key.clone(), (*at, *has_lease));
        }
        for event in reading.events.iter().filter(|event| event.revision > revision) {
            match event.change {
                Change::Delete if target.get(&event.key).is_some_and(|(at, _)| *at <= event.revision) => {
                    target.remove(&event.key);
                }
                Change::Put { create_revision, lease, .. } if !reading.is_stale && self.enters(prefix, &event.key) => {
                    target.insert(event.key.clone(), (create_revision, lease.is_some()));
                }
                _ => {}
            }
        }
        // A watch that is not confirmed by the answer to a later read stands on a silent stream: without another one, the order
        // would never be complete again.
        let is_silent = self.watches.values().any(|watch| watch.is_overdue && watch.since.is_none());
        self.is_deaf = is_silent || !self.unheard.is_empty();
        let gone: Vec<Key> = self.places.keys().filter(|key| !target.contains_key(*key)).cloned().collect();
        for key in gone {
            self.differs(&key);
            self.leave(&key, news);
        }
        for (key, (at, has_lease)) in target {
            if self.place_of(&key) != Some(at) {
                self.differs(&key);
                self.join(key, at, has_lease, news);
            }
        }
        (self.read, self.shown) = (self.read.max(revision), self.shown.max(shown));
        self.is_partial = false;
        self.is_complete = !reading.is_stale && self.all_stand();
    }

    /// A read told of `key` what the watches should have told.
    fn differs(&mut self, key: &Key) {
        if self.is_complete && self.watches.keys().any(|keys| keys.contains(key)) {
            self.unheard.insert(key.clone());
        }
    }

    /// Whether an event may bring `key` into the order: only those of a watch on all of them.
    fn enters(&self, prefix: &Prefix, key: &Key) -> bool {
        prefix.is_contender(key) && self.watches_all(prefix)
    }

    /// Applies one event; a put only where nothing ahead of it can have been missed.
    fn apply(&mut self, prefix: &Prefix, event: &WatchEvent, news: &mut Vec<News>) {
        match event.change {
            Change::Delete if self.place_of(&event.key).is_some_and(|at| at <= event.revision) => {
                self.leave(&event.key, news);
            }
            // Written again by its owner, it keeps its place; created again, it gets a new one.
            Change::Put { create_revision, lease, .. } if self.place_of(&event.key) != Some(create_revision) => {
                self.leave(&event.key, news);
                if self.is_complete && self.enters(prefix, &event.key) {
                    self.join(event.key.clone(), create_revision, lease.is_some(), news);
                }
            }
            _ => {}
        }
    }

    fn join(&mut self, key: Key, at: i64, has_lease: bool, news: &mut Vec<News>) {
        self.leave(&key, news);
        *self.processes.entry(process_of(&key)).or_default() += 1;
        self.places.insert(key.clone(), at);
        let position = (at, key.clone());
        if !self.left.contains(&position) {
            self.line.insert(position.clone(), wire::claim_of(&key));
        }
        self.order.insert(position, has_lease);
        news.push(News::Joined(key));
    }

    fn leave(&mut self, key: &Key, news: &mut Vec<News>) {
        let Some(at) = self.places.remove(key) else { return };
        let position = (at, key.clone());
        self.order.remove(&position);
        self.line.remove(&position, wire::claim_of(key));
        let process = process_of(key);
        if let Some(count) = self.processes.get_mut(&process) {
            *count -= 1;
            if *count == 0 {
                self.processes.remove(&process);
            }
        }
        news.push(News::Left(key.clone()));
    }
}

/// What tells the processes of a queue apart: the last part of the key up to the number of the waiter, which is the lease of
/// a client of ours or of Go's, and whatever else a foreign client chose.
fn process_of(key: &Key) -> Vec<u8> {
    let last = key.as_bytes().rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    last.split(|byte| *byte == b'-').next().unwrap_or_default().to_vec()
}
