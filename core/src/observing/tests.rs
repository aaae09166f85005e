//! An observer whose etcd is played by hand.

use std::sync::Arc;

use super::*;
use crate::store::{Change, Key, RangeReply};

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
    let began = bench.now;
    bench.wake();
    assert_eq!(bench.effects.last(), Some(&Effect::Read(1)));
    let silent = StoreError::refused(ErrorKind::Timeout, "no answer");
    bench.put(Input::Read(1, Err(silent)));
    assert_eq!(bench.watch(), WatchId(1), "etcd may not be there at all");
    bench.wake();
    bench.answers(9, &[]);
    assert!(bench.effects.contains(&Effect::Unwatch(WatchId(1))), "{:?}", bench.effects);
    assert_eq!(bench.told(), [(None, 9, false)], "what is so is told all the same");
    bench.wake();
    assert_eq!(bench.watch(), WatchId(2));
    assert!(bench.now < began + Duration::from_secs(5), "{:?}", bench.now);
    bench.created();
    bench.answers(9, &[]);
    assert_eq!(bench.told(), []);
}

#[test]
fn while_no_watch_stands_it_looks_and_says_that_something_may_be_missing() {
    let mut bench = Bench::follows(7, &[kv("/e/0-1", 3, 3)]);
    bench.breaks(ErrorKind::Unavailable);
    let looked = bench.observing.round;
    while bench.observing.round == looked {
        bench.wake();
    }
    assert_eq!(bench.effects.last(), Some(&Effect::Check(looked + 1)), "no values as long as nothing changed");
    bench.checks(9, &[kv("/e/0-1", 3, 8)]);
    assert!(bench.effects.contains(&Effect::Read(looked + 2)), "{:?}", bench.effects);
    bench.answers(10, &[kv("/e/0-1", 3, 10)]);
    assert_eq!(bench.told(), [(Some((3, 10)), 10, true)]);
    bench.wake();
    bench.created();
    bench.answers(12, &[kv("/e/1-1", 12, 12)]);
    assert_eq!(bench.told(), [(Some((12, 12)), 12, true)], "nobody told what came after the look");
    bench.events(&[delete("/e/1-1", 13)]);
    assert_eq!(bench.told(), [(None, 13, false)]);
}

#[test]
fn what_a_look_was_asked_before_the_watch_stood_says_nothing_after_it() {
    let mut bench = Bench::follows(7, &[]);
    bench.breaks(ErrorKind::Unavailable);
    let looked = bench.observing.round;
    while bench.observing.round == looked {
        bench.wake();
    }
    bench.created();
    bench.put(Input::Checked(looked + 1, found(9, &[kv("/e/0-1", 9, 9)])));
    bench.answers(11, &[kv("/e/1-1", 11, 11)]);
    assert_eq!(bench.told(), [(Some((11, 11)), 11, true)]);
}

#[test]
fn the_read_of_a_watch_that_ended_meanwhile_tells_what_was_so() {
    let mut bench = Bench::new();
    bench.created();
    bench.events(&[put("/e/0-1", 3, 9)]);
    bench.breaks(ErrorKind::Unavailable);
    bench.answers(7, &[kv("/e/0-1", 3, 3)]);
    assert_eq!(bench.told(), [(Some((3, 3)), 7, false)]);
    bench.wake();
    bench.created();
    bench.answers(11, &[kv("/e/0-1", 3, 10)]);
    assert_eq!(bench.told(), [(Some((3, 10)), 11, true)]);
}

#[test]
fn a_watch_has_its_time_to_be_confirmed_however_soon_a_look_is_due() {
    let mut bench = Bench::follows(7, &[]);
    let breaks_at = bench.observing.wake().expect("a look");
    bench.now = breaks_at + Duration::from_millis(1);
    bench.observing.look = Look::At(bench.now);
    bench.breaks(ErrorKind::Unavailable);
    bench.checks(7, &[]);
    bench.wake();
    let second = bench.watch();
    bench.observing.look = Look::At(bench.now);
    bench.put(Input::Wake);
    bench.checks(7, &[]);
    assert_eq!(bench.observing.watch(), Some(second), "asked too early to prove anything");
    bench.wake();
    bench.checks(7, &[]);
    assert_eq!(bench.observing.watch(), None, "asked late enough");
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
