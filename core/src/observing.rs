//! What one observer of an election sees: who leads and what it proclaims, change by change. Sans I/O.
//!
//! The leader is the contender that stands first, and the value of its key is what it proclaims. An observer has no place in
//! the queue: it watches all keys below the name, and knows from one read which of them stood when it began.
//!
//! ```text
//!             asked for a watch       it stands: a read is sent        the read is answered
//!   Pausing ------------------> Opening ------------------> Reading ------------------> Following
//!      ^                           |                           |                           |
//!      +---------------------------+-- the watch ended, or the read failed, or the watch is deaf --+
//! ```
//!
//! - The watch stands before the read is sent, so between the two nothing is missed: what the watch tells while the read is on
//!   its way is kept, and what is newer than the read is replayed on top of it.
//! - While the watch stands, every change is told, in the order of the revisions: each new leader, and each proclamation of the
//!   leader. Changes of one revision are one change.
//! - A watch that ended is not resumed: another one is opened, and a read tells what is so now. What happened between the two may
//!   be told by nobody, so the next change that is told says that it comes after a gap; unless the same leader still stands with
//!   the same proclamation, which shows that nothing happened.
//! - A watch can miss a change without a word (etcd#18089) or never be confirmed. A read now and then looks for that; two in a row
//!   that contradict what is believed end the watch.

use std::{collections::BTreeMap, time::Duration};

use crate::{
    backoff::Backoff,
    clock::Moment,
    queue::{
        view::Position,
        wire::{self, Prefix, Proclamation},
    },
    store::{Change, ErrorKind, Key, KeyValue, Keys, Reply, ReplyBody, StoreError, WatchEvent, WatchId, WatchReply},
};

/// Pauses before a watch is opened again, or a read is sent again.
const AGAIN: Backoff = Backoff::new(Duration::from_millis(150), Duration::from_secs(2));
/// How long a watch may take until it is confirmed, before a read looks whether etcd answers at all.
const CONFIRM: Backoff = Backoff::new(Duration::from_secs(2), Duration::from_secs(30));
/// How soon a read that contradicts what is believed is repeated: what it has seen may be on its way.
const DOUBT: Duration = Duration::from_secs(1);
/// So many watches in a row that are refused for the user or the password, and the observer fails.
const REFUSALS: u32 = 3;

/// What an observer sees at one revision.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Sight {
    /// The leader and what it proclaims; `None` where nobody leads.
    pub leader: Option<Proclamation>,
    /// The revision of etcd at which it was so.
    pub at: i64,
    /// Whether changes between this one and the one before may not have been told.
    pub is_after_gap: bool,
}

/// What happens to an observer.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Input {
    /// It begins.
    Begin,
    /// Something came on its watch.
    Watch(WatchReply),
    /// The reply to [`Effect::Read`] of this round.
    Read(u32, Result<Reply, StoreError>),
    /// The reply to [`Effect::Check`] of this round.
    Checked(u32, Result<Reply, StoreError>),
    /// Another history has begun: what was seen is worth nothing.
    Restart,
    /// Time passed.
    Wake,
}

/// What an observer asks for, and tells.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Effect {
    /// Open a watch; answer with [`Input::Watch`].
    Watch(WatchId, Keys),
    /// Close a watch.
    Unwatch(WatchId),
    /// Read all contenders with their values; answer with [`Input::Read`].
    Read(u32),
    /// Read all contenders without their values; answer with [`Input::Checked`].
    Check(u32),
    /// It sees something new.
    Saw(Sight),
    /// It sees nothing any more, for this reason.
    Failed(StoreError),
}

/// Tells the proclamations of one election apart: the key, its create revision, and the revision of its last write.
type Identity = (Key, i64, i64);

/// When to look whether the watch still tells everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Look {
    At(Moment),
    /// The question is on its way.
    Asked,
}

/// How far an observer has come; see the diagram above.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Stage {
    /// No watch is opened before then.
    Pausing(Moment),
    /// The watch is asked for.
    Opening(WatchId, Look),
    /// The watch stands, the read is on its way, and this came in meanwhile.
    Reading(WatchId, Vec<WatchEvent>),
    /// What is known is complete.
    Following(WatchId, Look),
    /// It is over.
    Failed,
}

/// What a contender's key says.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Said {
    value: std::sync::Arc<[u8]>,
    revision: i64,
}

/// One observer of one election.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Observing {
    prefix: Prefix,
    stage: Stage,
    /// Counts the watches and the reads, so that the answer to an old question is not taken for that to a new one.
    round: u32,
    contenders: BTreeMap<Position, Said>,
    /// The create revision of each of them.
    keys: BTreeMap<Key, i64>,
    /// The revision up to which everything is known.
    seen: i64,
    /// What was told last.
    told: Option<Option<Proclamation>>,
    /// Whether something may have happened since then that nobody tells.
    has_gap: bool,
    /// What was believed when a check contradicted it.
    doubted: Option<Option<Identity>>,
    /// How often a watch is looked after, different for each observer.
    recheck: Duration,
    /// It fails then unless it has seen something.
    begin_by: Moment,
    /// Watches and reads that failed one after the other, and how often it was for the user or the password.
    failures: u32,
    refusals: u32,
    last_error: Option<StoreError>,
}

impl Observing {
    /// An observer of the election below `prefix` that has seen nothing yet, and fails at `begin_by` if that stays so.
    pub fn new(prefix: Prefix, recheck: Duration, begin_by: Moment) -> Self {
        Self {
            prefix,
            stage: Stage::Pausing(Moment::default()),
            round: 0,
            contenders: BTreeMap::new(),
            keys: BTreeMap::new(),
            seen: 0,
            told: None,
            has_gap: false,
            doubted: None,
            recheck,
            begin_by,
            failures: 0,
            refusals: 0,
            last_error: None,
        }
    }

    /// Takes in what happened at `now` and says what to do about it. `next_watch` gives a fresh id for a watch.
    pub fn handle(
        &mut self,
        now: Moment,
        input: Input,
        next_watch: &mut impl FnMut() -> WatchId,
        out: &mut Vec<Effect>,
    ) {
        match input {
            Input::Begin | Input::Wake => {}
            Input::Watch(reply) => self.on_watch(now, reply, out),
            Input::Read(round, result) => self.on_read(now, round, result, out),
            Input::Checked(round, result) => self.on_checked(now, round, result, out),
            Input::Restart => self.reopen(now, out),
        }
        self.tick(now, next_watch, out);
    }

    /// When [`Input::Wake`] is due.
    pub fn wake(&self) -> Option<Moment> {
        let next = match self.stage {
            Stage::Pausing(at) => Some(at),
            Stage::Opening(_, Look::At(at)) | Stage::Following(_, Look::At(at)) => Some(at),
            Stage::Opening(_, Look::Asked) | Stage::Following(_, Look::Asked) | Stage::Reading(..) => None,
            Stage::Failed => return None,
        };
        next.into_iter().chain(self.told.is_none().then_some(self.begin_by)).min()
    }

    /// The watch that is open or being opened.
    pub fn watch(&self) -> Option<WatchId> {
        match self.stage {
            Stage::Opening(id, _) | Stage::Reading(id, _) | Stage::Following(id, _) => Some(id),
            Stage::Pausing(_) | Stage::Failed => None,
        }
    }

    /// Whether it has failed: nothing comes from it any more.
    pub fn is_over(&self) -> bool {
        self.stage == Stage::Failed
    }

    fn tick(&mut self, now: Moment, next_watch: &mut impl FnMut() -> WatchId, out: &mut Vec<Effect>) {
        if self.is_over() {
            return;
        }
        if self.told.is_none() && now >= self.begin_by {
            let silent = || StoreError::refused(ErrorKind::Timeout, "etcd did not answer in time");
            // A watch that was cancelled, by a compaction for example, is opened again: that is no reason.
            let why = self.last_error.take().filter(StoreError::is_transient).unwrap_or_else(silent);
            return self.fail(why, out);
        }
        match self.stage {
            Stage::Pausing(at) if now >= at => {
                let id = next_watch();
                self.round += 1;
                out.push(Effect::Watch(id, self.prefix.keys().clone()));
                let patience = CONFIRM.pause(self.failures.max(1), self.salt());
                self.stage = Stage::Opening(id, Look::At(now + patience));
            }
            Stage::Opening(id, Look::At(at)) if now >= at => {
                self.stage = Stage::Opening(id, Look::Asked);
                out.push(Effect::Check(self.round));
            }
            Stage::Following(id, Look::At(at)) if now >= at => {
                self.stage = Stage::Following(id, Look::Asked);
                out.push(Effect::Check(self.round));
            }
            _ => {}
        }
    }

    fn on_watch(&mut self, now: Moment, reply: WatchReply, out: &mut Vec<Effect>) {
        let watched = self.watch();
        match (reply, &mut self.stage) {
            (WatchReply::Created { id, .. }, Stage::Opening(watch, _)) if id == *watch => {
                self.stage = Stage::Reading(id, Vec::new());
                self.round += 1;
                out.push(Effect::Read(self.round));
            }
            (WatchReply::Events { id, events }, Stage::Reading(watch, kept)) if id == *watch => kept.extend(events),
            (WatchReply::Events { id, events }, Stage::Following(watch, _)) if id == *watch => {
                self.follow(&events, out);
            }
            (WatchReply::Cancelled { id, error }, _) if watched == Some(id) => self.on_failure(now, error, out),
            _ => {}
        }
    }

    fn on_read(&mut self, now: Moment, round: u32, result: Result<Reply, StoreError>, out: &mut Vec<Effect>) {
        if round != self.round {
            return;
        }
        let Stage::Reading(id, events) = &mut self.stage else { return };
        let (id, events) = (*id, std::mem::take(events));
        let (revision, kvs) = match found(result) {
            Ok(found) => found,
            Err(error) => {
                out.push(Effect::Unwatch(id));
                return self.on_failure(now, error, out);
            }
        };
        (self.failures, self.refusals, self.last_error, self.doubted) = (0, 0, None, None);
        self.stage = Stage::Following(id, Look::At(now + self.recheck));
        self.contenders.clear();
        self.keys.clear();
        for kv in kvs.into_iter().filter(|kv| self.prefix.is_contender(&kv.key)) {
            self.keys.insert(kv.key.clone(), kv.create_revision);
            let said = Said { value: kv.value, revision: kv.mod_revision };
            self.contenders.insert((kv.create_revision, kv.key), said);
        }
        self.seen = revision;
        self.tell(out);
        self.follow(&events, out);
    }

    fn on_checked(&mut self, now: Moment, round: u32, result: Result<Reply, StoreError>, out: &mut Vec<Effect>) {
        if round != self.round {
            return;
        }
        let found = found(result).map(|(_, kvs)| first(&self.prefix, kvs));
        match (&self.stage, found) {
            // Etcd answers, and the watch is not confirmed: its stream is silent.
            (Stage::Opening(..), Ok(_)) => {
                self.failures = self.failures.saturating_add(1);
                self.reopen(now, out);
            }
            (Stage::Opening(id, _), Err(error)) => {
                let (id, patience) = (*id, CONFIRM.pause(self.failures.max(1), self.salt()));
                self.stage = Stage::Opening(id, Look::At(now + patience));
                self.last_error = Some(error);
            }
            (Stage::Following(id, _), found) => {
                let (id, believed) = (*id, self.leader());
                let pause = match found {
                    Ok(found) if found == believed => {
                        self.doubted = None;
                        self.recheck
                    }
                    // What the read has seen may be on its way, unless it has been for too long.
                    Ok(_) if self.doubted.as_ref() != Some(&believed) => {
                        self.doubted = Some(believed);
                        DOUBT
                    }
                    Ok(_) => {
                        tracing::debug!(
                            "the watch of an observer missed a change that a read found: opening another one"
                        );
                        return self.reopen(now, out);
                    }
                    Err(_) => self.recheck,
                };
                self.stage = Stage::Following(id, Look::At(now + pause));
            }
            (Stage::Pausing(_) | Stage::Reading(..) | Stage::Failed, _) => {}
        }
    }

    /// The watch ended, or a read failed.
    fn on_failure(&mut self, now: Moment, error: StoreError, out: &mut Vec<Effect>) {
        self.failures = self.failures.saturating_add(1);
        self.refusals = if error.kind == ErrorKind::Unauthenticated { self.refusals + 1 } else { 0 };
        let is_final = match error.kind {
            ErrorKind::PermissionDenied | ErrorKind::Unsupported | ErrorKind::Invalid | ErrorKind::Closed => true,
            // A token that has run out is no reason: the next attempt has another one.
            ErrorKind::Unauthenticated => self.refusals >= REFUSALS,
            _ => false,
        };
        if is_final {
            return self.fail(error, out);
        }
        self.stage = Stage::Pausing(now + AGAIN.pause(self.failures, self.salt()));
        self.has_gap |= self.told.is_some();
        self.last_error = Some(error);
    }

    /// Opens another watch in place of the one that there is.
    fn reopen(&mut self, now: Moment, out: &mut Vec<Effect>) {
        if self.is_over() {
            return;
        }
        out.extend(self.watch().map(Effect::Unwatch));
        self.stage = Stage::Pausing(now);
        self.has_gap |= self.told.is_some();
        self.round += 1;
    }

    fn fail(&mut self, why: StoreError, out: &mut Vec<Effect>) {
        out.extend(self.watch().map(Effect::Unwatch));
        self.stage = Stage::Failed;
        out.push(Effect::Failed(why));
    }

    /// Replays events that are newer than what is known, and tells what they change, revision by revision.
    fn follow(&mut self, events: &[WatchEvent], out: &mut Vec<Effect>) {
        for together in events.chunk_by(|a, b| a.revision == b.revision) {
            let revision = together[0].revision;
            if revision <= self.seen {
                continue;
            }
            for event in together {
                self.take_in(event);
            }
            self.seen = revision;
            self.tell(out);
        }
    }

    fn take_in(&mut self, event: &WatchEvent) {
        if !self.prefix.is_contender(&event.key) {
            return;
        }
        let key = event.key.clone();
        if let Some(at) = self.keys.remove(&key) {
            self.contenders.remove(&(at, key.clone()));
        }
        if let Change::Put { value, create_revision, .. } = &event.change {
            self.keys.insert(key.clone(), *create_revision);
            let said = Said { value: value.clone(), revision: event.revision };
            self.contenders.insert((*create_revision, key), said);
        }
    }

    /// Tells who leads if that is something new.
    fn tell(&mut self, out: &mut Vec<Effect>) {
        let leader = self.contenders.first_key_value().map(|((token, key), said)| Proclamation {
            key: key.clone(),
            token: *token,
            value: said.value.clone(),
            revision: said.revision,
        });
        if self.told.as_ref() == Some(&leader) {
            // The same leader with the same proclamation has been there all the time. Nobody can have been followed by somebody
            // and by nobody again: then the gap is told with whatever comes next.
            self.has_gap &= leader.is_none();
            return;
        }
        self.told = Some(leader.clone());
        out.push(Effect::Saw(Sight { leader, at: self.seen, is_after_gap: std::mem::take(&mut self.has_gap) }));
    }

    /// Who leads as far as is known.
    fn leader(&self) -> Option<Identity> {
        self.contenders.first_key_value().map(|((at, key), said)| (key.clone(), *at, said.revision))
    }

    /// What spreads the pauses of different observers.
    fn salt(&self) -> u64 {
        u64::from(self.recheck.subsec_nanos()) + self.recheck.as_secs()
    }
}

/// Which contender stands first.
fn first(prefix: &Prefix, kvs: Vec<KeyValue>) -> Option<Identity> {
    wire::first(prefix, kvs).map(|kv| (kv.key, kv.create_revision, kv.mod_revision))
}

fn found(result: Result<Reply, StoreError>) -> Result<(i64, Vec<KeyValue>), StoreError> {
    match result? {
        Reply { revision, body: ReplyBody::Range(range), .. } => Ok((revision, range.kvs)),
        _ => Err(StoreError::refused(ErrorKind::Internal, "etcd's reply to a read has an unknown shape")),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::store::RangeReply;

    /// An observer of `/e`, and what it asked for and told since it was looked at last.
    struct Bench {
        observing: Observing,
        now: Moment,
        watches: i64,
        effects: Vec<Effect>,
    }

    impl Bench {
        fn new() -> Self {
            let begin_by = Moment::default() + Duration::from_secs(5);
            let observing = Observing::new(Prefix::new("", "/e"), Duration::from_secs(10), begin_by);
            let mut bench = Self { observing, now: Moment::default(), watches: 0, effects: Vec::new() };
            bench.put(Input::Begin);
            bench
        }

        fn put(&mut self, input: Input) {
            let watches = &mut self.watches;
            let mut next_watch = || {
                *watches += 1;
                WatchId(*watches)
            };
            self.observing.handle(self.now, input, &mut next_watch, &mut self.effects);
        }

        /// Time passes until it wants to be woken.
        fn wake(&mut self) {
            self.now = self.observing.wake().expect("an alarm");
            self.put(Input::Wake);
        }

        fn watch(&self) -> WatchId {
            WatchId(self.watches)
        }

        fn created(&mut self) {
            let id = self.watch();
            self.put(Input::Watch(WatchReply::Created { id, revision: 1 }));
        }

        fn events(&mut self, events: &[WatchEvent]) {
            let (id, events) = (self.watch(), events.to_vec());
            self.put(Input::Watch(WatchReply::Events { id, events }));
        }

        fn breaks(&mut self, kind: ErrorKind) {
            let id = self.watch();
            self.put(Input::Watch(WatchReply::Cancelled { id, error: StoreError::refused(kind, "gone") }));
        }

        fn answers(&mut self, revision: i64, kvs: &[KeyValue]) {
            let round = self.observing.round;
            self.put(Input::Read(round, found(revision, kvs)));
        }

        fn checks(&mut self, revision: i64, kvs: &[KeyValue]) {
            let round = self.observing.round;
            self.put(Input::Checked(round, found(revision, kvs)));
        }

        /// It has seen everything up to `revision`.
        fn follows(revision: i64, kvs: &[KeyValue]) -> Self {
            let mut bench = Self::new();
            bench.created();
            bench.answers(revision, kvs);
            bench.told();
            bench
        }

        /// What it told since it was asked last.
        fn told(&mut self) -> Vec<Told> {
            let told = |effect| match effect {
                Effect::Saw(sight) => {
                    Some((sight.leader.map(|leader| (leader.token, leader.revision)), sight.at, sight.is_after_gap))
                }
                _ => None,
            };
            std::mem::take(&mut self.effects).into_iter().filter_map(told).collect()
        }
    }

    /// The token of the leader and the revision of what it proclaims; at which revision that was so; whether it comes after a gap.
    type Told = (Option<(i64, i64)>, i64, bool);

    fn found(revision: i64, kvs: &[KeyValue]) -> Result<Reply, StoreError> {
        let range = RangeReply { count: kvs.len() as i64, kvs: kvs.to_vec() };
        Ok(Reply { revision, cluster: 0, body: ReplyBody::Range(range) })
    }

    fn kv(key: &str, create_revision: i64, mod_revision: i64) -> KeyValue {
        KeyValue { key: Key::from(key), value: Arc::default(), create_revision, mod_revision, lease: None }
    }

    fn put(key: &str, create_revision: i64, revision: i64) -> WatchEvent {
        let change = Change::Put { value: Arc::default(), create_revision, lease: None };
        WatchEvent { key: Key::from(key), revision, change }
    }

    fn delete(key: &str, revision: i64) -> WatchEvent {
        WatchEvent { key: Key::from(key), revision, change: Change::Delete }
    }

    #[test]
    fn what_comes_while_it_reads_is_replayed_on_top_of_the_read() {
        let mut bench = Bench::new();
        bench.events(&[put("/e/0-1", 1, 1)]);
        bench.created();
        bench.events(&[put("/e/1-1", 5, 5), put("/e/1-1", 5, 7), delete("/e/0-1", 9), put("/e/1-1", 5, 10)]);
        assert_eq!(bench.told(), []);
        bench.answers(7, &[kv("/e/0-1", 3, 3), kv("/e/1-1", 5, 7), kv("/e/nested/1-1", 2, 2)]);
        assert_eq!(bench.told(), [(Some((3, 3)), 7, false), (Some((5, 7)), 9, false), (Some((5, 10)), 10, false)]);
    }

    #[test]
    fn changes_of_one_revision_are_one_change_and_late_events_are_none() {
        let mut bench = Bench::follows(7, &[kv("/e/0-1", 3, 3)]);
        bench.events(&[delete("/e/0-1", 9), put("/e/1-1", 9, 9)]);
        bench.events(&[put("/e/0-1", 3, 3), delete("/e/1-1", 9)]);
        assert_eq!(bench.told(), [(Some((9, 9)), 9, false)]);
        bench.events(&[delete("/e/1-1", 10), put("/e/1-1", 11, 11)]);
        assert_eq!(bench.told(), [(None, 10, false), (Some((11, 11)), 11, false)], "the same key, another candidacy");
    }

    #[test]
    fn after_a_gap_only_the_same_proclamation_shows_that_nothing_is_missing() {
        for (then, told) in [
            (vec![kv("/e/0-1", 3, 3)], vec![]),
            (vec![kv("/e/0-1", 3, 8)], vec![(Some((3, 8)), 9, true)]),
            (vec![kv("/e/0-1", 7, 7)], vec![(Some((7, 7)), 9, true)]),
            (vec![], vec![(None, 9, true)]),
        ] {
            let mut bench = Bench::follows(7, &[kv("/e/0-1", 3, 3)]);
            bench.breaks(ErrorKind::Unavailable);
            bench.wake();
            bench.created();
            bench.answers(9, &then);
            assert_eq!(bench.told(), told);
            bench.events(&[delete("/e/0-1", 10), put("/e/2-1", 11, 11)]);
            assert!(bench.told().iter().all(|(_, _, is_after_gap)| !is_after_gap), "the gap is told once");
        }
    }

    #[test]
    fn where_nobody_led_before_and_after_a_gap_the_next_leader_comes_after_it() {
        let mut bench = Bench::follows(7, &[]);
        bench.breaks(ErrorKind::Unavailable);
        bench.wake();
        bench.created();
        bench.answers(9, &[]);
        assert_eq!(bench.told(), []);
        bench.events(&[put("/e/2-1", 11, 11)]);
        assert_eq!(bench.told(), [(Some((11, 11)), 11, true)]);
    }

    #[test]
    fn an_answer_to_an_earlier_question_says_nothing() {
        let mut bench = Bench::new();
        bench.created();
        let old = bench.observing.round;
        bench.breaks(ErrorKind::Unavailable);
        bench.wake();
        bench.created();
        bench.put(Input::Read(old, found(3, &[kv("/e/0-1", 3, 3)])));
        assert_eq!(bench.told(), []);
        bench.answers(9, &[]);
        assert_eq!(bench.told(), [(None, 9, false)]);
    }

    #[test]
    fn a_watch_that_misses_a_change_is_replaced_unless_the_change_was_only_on_its_way() {
        let mut bench = Bench::follows(7, &[kv("/e/0-1", 3, 3)]);
        let first = bench.watch();
        for _ in 0..3 {
            bench.wake();
            bench.checks(9, &[kv("/e/0-1", 3, 3)]);
        }
        bench.wake();
        bench.checks(9, &[]);
        bench.events(&[delete("/e/0-1", 9)]);
        bench.wake();
        bench.checks(12, &[kv("/e/1-1", 12, 12)]);
        assert_eq!((bench.told(), bench.watch()), (vec![(None, 9, false)], first), "it may be on its way again");
        bench.wake();
        bench.checks(12, &[kv("/e/1-1", 12, 12)]);
        assert!(bench.effects.contains(&Effect::Unwatch(first)) && bench.watch() != first, "{:?}", bench.effects);
        bench.created();
        bench.answers(12, &[kv("/e/1-1", 12, 12)]);
        assert_eq!(bench.told(), [(Some((12, 12)), 12, true)]);
    }

    #[test]
    fn a_watch_that_is_never_confirmed_is_replaced_where_etcd_answers() {
        let mut bench = Bench::new();
        bench.wake();
        assert_eq!(bench.effects.last(), Some(&Effect::Check(1)));
        let round = bench.observing.round;
        let silent = StoreError::refused(ErrorKind::Timeout, "no answer");
        bench.put(Input::Checked(round, Err(silent)));
        assert_eq!(bench.watch(), WatchId(1));
        bench.wake();
        bench.checks(9, &[]);
        assert_eq!(bench.watch(), WatchId(2));
        bench.created();
        bench.answers(9, &[]);
        assert_eq!(bench.told(), [(None, 9, false)]);
    }

    #[test]
    fn it_fails_in_time_while_it_has_seen_nothing_and_then_only_for_good_reasons() {
        let mut bench = Bench::new();
        while !bench.observing.is_over() {
            bench.breaks(ErrorKind::Unavailable);
            bench.wake();
        }
        assert_eq!(bench.now, Moment::default() + Duration::from_secs(5));
        assert!(matches!(bench.effects.last(), Some(Effect::Failed(error)) if error.kind == ErrorKind::Unavailable));
        assert_eq!(bench.observing.wake(), None);

        let mut bench = Bench::new();
        while !bench.observing.is_over() {
            bench.breaks(ErrorKind::Internal);
            bench.wake();
        }
        assert!(matches!(bench.effects.last(), Some(Effect::Failed(error)) if error.kind == ErrorKind::Timeout));

        let mut bench = Bench::follows(7, &[]);
        for _ in 0..100 {
            bench.breaks(ErrorKind::Unavailable);
            bench.wake();
        }
        assert!(!bench.observing.is_over());
        bench.breaks(ErrorKind::PermissionDenied);
        assert!(bench.observing.is_over());

        let mut bench = Bench::follows(7, &[]);
        for _ in 1..REFUSALS {
            bench.breaks(ErrorKind::Unauthenticated);
            bench.wake();
        }
        assert!(!bench.observing.is_over(), "a token may have run out");
        bench.breaks(ErrorKind::Unauthenticated);
        assert!(bench.observing.is_over());
    }

    #[test]
    fn another_history_begins_with_what_is_so_then() {
        let mut bench = Bench::follows(70, &[kv("/e/0-1", 30, 33)]);
        bench.put(Input::Restart);
        bench.created();
        bench.answers(9, &[kv("/e/0-1", 3, 3)]);
        assert_eq!(bench.told(), [(Some((3, 3)), 9, true)]);
        bench.events(&[put("/e/0-1", 3, 10)]);
        assert_eq!(bench.told(), [(Some((3, 10)), 10, false)]);
    }
}
