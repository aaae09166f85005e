//! Each rule of etcd that [`Kv`] keeps, one by one. That these are etcd's rules is shown by `tests/memory_is_etcd.rs`.

use super::*;

const START: Moment = Moment::from_nanos(1_000_000_000);
const SECOND: Duration = Duration::from_secs(1);

fn one(key: &str) -> Keys {
    Keys::one(Key::from(key))
}

fn prefix(key: &str) -> Keys {
    Keys::prefix(Key::from(key))
}

fn between(key: &str, end: &str) -> Keys {
    Keys { key: Key::from(key), end: Some(Key::from(end)) }
}

fn put(key: &str, value: &str) -> Op {
    Op::Put { key: Key::from(key), value: value.as_bytes().into(), lease: None }
}

fn put_leased(key: &str, lease: i64) -> Op {
    Op::Put { key: Key::from(key), value: Arc::default(), lease: Some(LeaseId(lease)) }
}

fn read(keys: Keys) -> Op {
    Op::Range(Range { keys, limit: 0, keys_only: false, pick: Pick::All })
}

fn create_revision_is(keys: Keys, revision: i64) -> CreateRevisionIs {
    CreateRevisionIs { keys, revision }
}

fn inner(then: Vec<Op>) -> Op {
    Op::Txn(Txn { then, ..Txn::default() })
}

/// A [`Kv`] whose replies are taken apart, at a time that stands still unless a test moves it.
struct Etcd {
    kv: Kv,
    now: Moment,
}

impl Etcd {
    fn new() -> Self {
        Self { kv: Kv::new(), now: START }
    }

    fn call(&mut self, request: Request) -> Result<Reply, StoreError> {
        self.kv.call(self.now, &request)
    }

    fn refusal(&mut self, request: Request) -> ErrorKind {
        let before = self.kv.clone();
        let error = self.call(request).expect_err("this request must be refused");
        assert_eq!(self.kv, before, "a refused request has no effect");
        assert!(!error.ambiguous);
        error.kind
    }

    fn txn(&mut self, txn: Txn) -> (i64, TxnReply) {
        match self.call(Request::Txn(txn)) {
            Ok(Reply { revision, body: ReplyBody::Txn(reply), .. }) => (revision, reply),
            other => panic!("{other:?}"),
        }
    }

    fn run(&mut self, then: Vec<Op>) -> (i64, Vec<OpReply>) {
        let (revision, reply) = self.txn(Txn { then, ..Txn::default() });
        assert!(reply.succeeded);
        (revision, reply.replies)
    }

    fn holds(&mut self, conditions: Vec<CreateRevisionIs>) -> bool {
        self.txn(Txn { conditions, ..Txn::default() }).1.succeeded
    }

    fn all(&self) -> Vec<KeyValue> {
        self.kv.range(&Range { keys: prefix(""), limit: 0, keys_only: false, pick: Pick::All }).kvs
    }

    fn keys(&self) -> Vec<String> {
        self.all().iter().map(|kv| kv.key.to_text()).collect()
    }

    fn grant(&mut self, lease: i64, ttl: i64) -> i64 {
        match self.call(Request::LeaseGrant { lease: LeaseId(lease), ttl }) {
            Ok(Reply { body: ReplyBody::LeaseGrant { ttl }, .. }) => ttl,
            other => panic!("{other:?}"),
        }
    }

    fn time_to_live(&mut self, lease: i64) -> (i64, Vec<String>) {
        match self.call(Request::LeaseTimeToLive { lease: LeaseId(lease) }) {
            Ok(Reply { body: ReplyBody::LeaseTimeToLive { ttl, keys }, .. }) => {
                (ttl, keys.iter().map(Key::to_text).collect())
            }
            other => panic!("{other:?}"),
        }
    }

    fn changes(&mut self) -> Vec<(String, i64, Change)> {
        self.kv.take_changes().into_iter().map(|event| (event.key.to_text(), event.revision, event.change)).collect()
    }
}

#[test]
fn a_new_store_is_at_revision_1_and_reads_and_failed_conditions_leave_it_there() {
    let mut etcd = Etcd::new();
    assert_eq!(etcd.run(vec![read(prefix("a"))]).0, 1);
    let refused = Txn {
        conditions: vec![create_revision_is(one("a"), 5)],
        then: vec![put("a", "1")],
        otherwise: vec![read(one("a"))],
    };
    let (revision, reply) = etcd.txn(refused);
    assert_eq!((revision, reply.succeeded), (1, false));
    assert_eq!(reply.replies, [OpReply::Range(RangeReply::default())]);
    assert!(etcd.keys().is_empty());
}

#[test]
fn all_writes_of_one_transaction_share_one_revision() {
    let mut etcd = Etcd::new();
    assert_eq!(etcd.run(vec![put("a", "1"), put("b", "1"), inner(vec![put("c", "1")])]).0, 2);
    assert!(etcd.all().iter().all(|kv| (kv.create_revision, kv.mod_revision) == (2, 2)));
    assert_eq!(etcd.run(vec![put("b", "2")]).0, 3);
    let b = &etcd.all()[1];
    assert_eq!((b.create_revision, b.mod_revision, &*b.value), (2, 3, b"2".as_slice()));
}

#[test]
fn a_key_that_was_deleted_is_created_anew() {
    let mut etcd = Etcd::new();
    etcd.run(vec![put("a", "1")]);
    etcd.run(vec![Op::Delete(one("a"))]);
    etcd.run(vec![put("a", "2")]);
    assert_eq!(etcd.all()[0].create_revision, 4);
}

#[test]
fn a_delete_counts_its_keys_and_one_of_nothing_is_no_write() {
    let mut etcd = Etcd::new();
    etcd.run(vec![put("a/1", ""), put("a/2", ""), put("b", "")]);
    assert_eq!(etcd.run(vec![Op::Delete(prefix("a/"))]), (3, vec![OpReply::Delete(2)]));
    assert_eq!(etcd.run(vec![Op::Delete(prefix("a/")), Op::Delete(one("c"))]).0, 3);
    assert_eq!(etcd.keys(), ["b"]);
}

#[test]
fn a_range_is_read_in_the_order_of_its_keys_and_counted_beyond_its_limit() {
    let mut etcd = Etcd::new();
    etcd.grant(7, 10);
    for key in ["a/3", "a/1", "a0", "a/2"] {
        etcd.run(vec![Op::Put { key: Key::from(key), value: b"value".as_slice().into(), lease: Some(LeaseId(7)) }]);
    }
    let some = etcd.kv.range(&Range { keys: prefix("a/"), limit: 2, keys_only: true, pick: Pick::All });
    assert_eq!(some.kvs.iter().map(|kv| kv.key.to_text()).collect::<Vec<_>>(), ["a/1", "a/2"]);
    assert_eq!(some.count, 3);
    assert!(some.kvs.iter().all(|kv| kv.value.is_empty() && kv.lease.is_none()));
    let exact = etcd.kv.range(&Range { keys: prefix("a/"), limit: 3, keys_only: false, pick: Pick::All });
    assert_eq!((exact.kvs.len(), exact.count), (3, 3));
    assert!(exact.kvs.iter().all(|kv| &*kv.value == b"value" && kv.lease == Some(LeaseId(7))));
}

#[test]
fn a_range_can_be_cut_at_a_creation_or_tell_the_newest_first_and_counts_all_the_same() {
    let mut etcd = Etcd::new();
    let revisions: Vec<i64> = ["a/2", "a/3", "a/1"].iter().map(|key| etcd.run(vec![put(key, "")]).0).collect();
    let read = |limit, pick| {
        let range = Range { keys: prefix("a/"), limit, keys_only: true, pick };
        let found = etcd.kv.range(&range);
        (found.kvs.iter().map(|kv| kv.key.to_text()).collect::<Vec<_>>().join(" "), found.count)
    };
    assert_eq!(read(0, Pick::CreatedUntil(revisions[1])), ("a/2 a/3".into(), 3));
    assert_eq!(read(1, Pick::CreatedUntil(revisions[2])), ("a/1".into(), 3));
    assert_eq!(read(0, Pick::CreatedUntil(1)), (String::new(), 3));
    assert_eq!(read(2, Pick::Newest), ("a/1 a/3".into(), 3));
}

#[test]
fn a_range_ends_before_its_end_and_may_be_empty_or_open() {
    let mut etcd = Etcd::new();
    etcd.run(vec![put("a", ""), put("b", ""), put("c", "")]);
    let count = |keys| etcd.kv.range(&Range { keys, limit: 0, keys_only: true, pick: Pick::All }).count;
    assert_eq!(count(between("a", "c")), 2);
    assert_eq!(count(between("b", "\0")), 2);
    assert_eq!(count(between("b", "b")), 0);
    assert_eq!(count(between("c", "a")), 0);
    assert_eq!(count(one("b")), 1);
}

#[test]
fn operations_see_the_writes_before_them_but_conditions_do_not() {
    let mut etcd = Etcd::new();
    let nested =
        Txn { conditions: vec![create_revision_is(one("a"), 0)], then: vec![read(one("a"))], otherwise: vec![] };
    let (_, replies) = etcd.run(vec![put("a", "1"), read(one("a")), Op::Txn(nested)]);
    let [OpReply::Put, OpReply::Range(seen), OpReply::Txn(nested)] = &replies[..] else { panic!("{replies:?}") };
    assert_eq!((seen.count, seen.kvs[0].create_revision), (1, 2));
    assert!(nested.succeeded, "the condition was judged before the put");
    assert_eq!(nested.replies, [OpReply::Range(seen.clone())]);
}

#[test]
fn a_condition_on_a_range_must_hold_for_each_key_there() {
    let mut etcd = Etcd::new();
    assert!(etcd.holds(vec![create_revision_is(prefix("a/"), 0)]));
    assert!(!etcd.holds(vec![create_revision_is(prefix("a/"), 2)]), "no key there is as good as revision 0");
    etcd.run(vec![put("a/1", ""), put("a/2", "")]);
    assert!(etcd.holds(vec![create_revision_is(prefix("a/"), 2)]));
    assert!(!etcd.holds(vec![create_revision_is(prefix("a/"), 0)]));
    etcd.run(vec![put("a/3", "")]);
    assert!(!etcd.holds(vec![create_revision_is(prefix("a/"), 2)]));
    assert!(!etcd.holds(vec![create_revision_is(one("a/1"), 2), create_revision_is(one("a/2"), 3)]));
    assert!(etcd.holds(vec![]));
}

#[test]
fn a_transaction_that_writes_a_key_twice_is_refused() {
    let mut etcd = Etcd::new();
    etcd.run(vec![put("a/1", "")]);
    let mut refused = |then: Vec<Op>| etcd.refusal(Request::Txn(Txn { then, ..Txn::default() }));
    for then in [
        vec![put("a", "1"), put("a", "2")],
        vec![put("a", "1"), inner(vec![put("a", "2")])],
        vec![inner(vec![put("a", "1")]), inner(vec![put("a", "2")])],
        vec![inner(vec![put("a", "1"), put("a", "2")])],
        vec![put("a/1", "1"), Op::Delete(prefix("a/"))],
        vec![Op::Delete(one("a/1")), put("a/1", "1")],
        vec![inner(vec![put("a/1", "1")]), Op::Delete(one("a/1"))],
        vec![inner(vec![Op::Delete(one("a/1"))]), put("a/1", "1")],
        vec![inner(vec![Op::Delete(one("a/1"))]), inner(vec![put("a/1", "1")])],
    ] {
        assert_eq!(refused(then.clone()), ErrorKind::Invalid, "{then:?}");
    }
    // The branch that is not taken counts as well.
    let otherwise = vec![put("a", "1"), put("a", "2")];
    assert_eq!(etcd.refusal(Request::Txn(Txn { otherwise, ..Txn::default() })), ErrorKind::Invalid);
}

#[test]
fn branches_exclude_each_other_and_deletes_may_overlap() {
    let mut etcd = Etcd::new();
    etcd.run(vec![put("a", ""), put("b", "")]);
    let either = Txn { conditions: vec![], then: vec![put("c", "1")], otherwise: vec![put("c", "2")] };
    etcd.run(vec![Op::Txn(either)]);
    let (revision, replies) =
        etcd.run(vec![Op::Delete(one("a")), Op::Delete(prefix("a")), Op::Delete(between("b", "\0"))]);
    assert_eq!((revision, replies), (4, vec![OpReply::Delete(1), OpReply::Delete(0), OpReply::Delete(2)]));
}

#[test]
fn etcd_overlooks_an_open_range_and_a_delete_in_a_later_inner_transaction() {
    let mut etcd = Etcd::new();
    let (revision, _) = etcd.run(vec![inner(vec![put("a", "1")]), inner(vec![Op::Delete(one("a"))])]);
    let created = Change::Put { value: (*b"1").into(), create_revision: 2, lease: None };
    assert_eq!(etcd.changes(), [("a".to_owned(), 2, created), ("a".to_owned(), 2, Change::Delete)]);
    assert_eq!((revision, etcd.keys().len()), (2, 0));
    etcd.run(vec![put("a", "1"), Op::Delete(between("a", "\0")), put("b", "1")]);
    assert_eq!(etcd.keys(), ["b"]);
}

#[test]
fn empty_keys_and_too_many_operations_are_refused() {
    let mut etcd = Etcd::new();
    let range = Range { keys: one(""), limit: 0, keys_only: false, pick: Pick::All };
    assert_eq!(etcd.refusal(Request::Range(range.clone())), ErrorKind::Invalid);
    for op in [put("", ""), Op::Delete(one("")), Op::Range(range), inner(vec![put("", "")])] {
        assert_eq!(etcd.refusal(Request::Txn(Txn { otherwise: vec![op], ..Txn::default() })), ErrorKind::Invalid);
    }
    let conditions = vec![create_revision_is(one(""), 0)];
    assert_eq!(etcd.refusal(Request::Txn(Txn { conditions, ..Txn::default() })), ErrorKind::Invalid);

    let many = |count: usize| (0..count).map(|n| put(&format!("k{n}"), "")).collect::<Vec<_>>();
    assert_eq!(etcd.refusal(Request::Txn(Txn { then: many(129), ..Txn::default() })), ErrorKind::Invalid);
    assert_eq!(etcd.refusal(Request::Txn(Txn { then: vec![inner(many(128))], ..Txn::default() })), ErrorKind::Invalid);
    etcd.run(vec![inner(many(127))]);
    etcd.run(many(128));
}

#[test]
fn a_put_under_an_unknown_lease_applies_nothing_unless_its_branch_is_not_taken() {
    let mut etcd = Etcd::new();
    let then = vec![put("a", "1"), inner(vec![put_leased("b", 7)])];
    assert_eq!(etcd.refusal(Request::Txn(Txn { then: then.clone(), ..Txn::default() })), ErrorKind::LeaseNotFound);
    let (_, reply) = etcd.txn(Txn { then: vec![put("a", "1")], otherwise: then, ..Txn::default() });
    assert!(reply.succeeded);
    etcd.run(vec![put_leased("c", 0)]);
    assert_eq!(etcd.all()[1].lease, None);
}

#[test]
fn a_lease_is_granted_once_within_bounds() {
    let mut etcd = Etcd::new();
    let grant = |lease, ttl| Request::LeaseGrant { lease: LeaseId(lease), ttl };
    assert_eq!(etcd.grant(7, 10), 10);
    assert_eq!(etcd.grant(8, -1), 2);
    assert_eq!(etcd.refusal(grant(7, 10)), ErrorKind::LeaseExists);
    assert_eq!(etcd.refusal(grant(0, 10)), ErrorKind::Invalid);
    assert_eq!(etcd.refusal(grant(9, 9_000_000_001)), ErrorKind::Invalid);
    assert_eq!(etcd.grant(9, 9_000_000_000), 9_000_000_000);
    assert_eq!(etcd.kv.leases().collect::<Vec<_>>(), [LeaseId(7), LeaseId(8), LeaseId(9)]);
    assert_eq!(etcd.kv.revision(), 1, "leases have no revision");

    let mut slow = Kv::with_min_ttl(15);
    let granted = slow.call(START, &grant(7, 5)).map(|reply| reply.body);
    assert_eq!(granted, Ok(ReplyBody::LeaseGrant { ttl: 15 }));
}

#[test]
fn a_revoked_lease_takes_its_keys_along_at_one_revision() {
    let mut etcd = Etcd::new();
    etcd.grant(7, 10);
    etcd.run(vec![put_leased("b", 7), put("c", ""), put_leased("a", 7)]);
    etcd.changes();
    let revoke = Request::LeaseRevoke { lease: LeaseId(7) };
    assert_eq!(etcd.call(revoke.clone()), Ok(Reply { revision: 3, cluster: 0, body: ReplyBody::LeaseRevoke }));
    assert_eq!(etcd.changes(), [("a".to_owned(), 3, Change::Delete), ("b".to_owned(), 3, Change::Delete)]);
    assert_eq!(etcd.keys(), ["c"]);
    assert_eq!(etcd.refusal(revoke), ErrorKind::LeaseNotFound);
    etcd.grant(8, 10);
    assert_eq!(etcd.call(Request::LeaseRevoke { lease: LeaseId(8) }).unwrap().revision, 3);
}

#[test]
fn a_key_belongs_to_the_lease_of_its_last_write() {
    let mut etcd = Etcd::new();
    etcd.grant(7, 10);
    etcd.grant(8, 10);
    etcd.run(vec![put_leased("a", 7), put_leased("b", 7), put_leased("c", 7)]);
    etcd.run(vec![put("a", ""), put_leased("b", 8)]);
    assert_eq!(etcd.time_to_live(7).1, ["c"]);
    assert_eq!(etcd.time_to_live(8).1, ["b"]);
    etcd.run(vec![Op::Delete(one("c"))]);
    assert_eq!(etcd.time_to_live(7), (10, vec![]));
    etcd.call(Request::LeaseRevoke { lease: LeaseId(7) }).unwrap();
    assert_eq!(etcd.keys(), ["a", "b"]);
}

#[test]
fn the_time_to_live_is_cut_to_whole_seconds_and_minus_1_without_a_lease() {
    let mut etcd = Etcd::new();
    etcd.grant(7, 10);
    assert_eq!(etcd.time_to_live(7).0, 10);
    etcd.now = START + Duration::from_millis(1);
    assert_eq!(etcd.time_to_live(7).0, 9);
    etcd.now = START + 20 * SECOND;
    assert_eq!(etcd.time_to_live(7).0, 0);
    assert_eq!(etcd.time_to_live(8), (-1, vec![]));
}

#[test]
fn leases_expire_when_asked_for_in_the_order_of_their_time() {
    let mut etcd = Etcd::new();
    assert_eq!(etcd.kv.next_expiry(), None);
    etcd.grant(7, 6);
    etcd.grant(8, 5);
    etcd.grant(9, 10);
    etcd.run(vec![put_leased("a", 7), put_leased("b", 8), put_leased("c", 9)]);
    etcd.changes();
    assert_eq!(etcd.kv.next_expiry(), Some(START + 5 * SECOND));
    assert_eq!(etcd.kv.expire(START + 5 * SECOND - Duration::from_nanos(1)), []);
    assert_eq!(etcd.kv.expire(START + 7 * SECOND), [LeaseId(8), LeaseId(7)]);
    assert_eq!(etcd.changes(), [("b".to_owned(), 3, Change::Delete), ("a".to_owned(), 4, Change::Delete)]);
    assert_eq!(etcd.keys(), ["c"]);
    assert_eq!(etcd.kv.next_expiry(), Some(START + 10 * SECOND));
}

#[test]
fn a_renewal_starts_the_time_to_live_anew_but_revives_nothing() {
    let mut etcd = Etcd::new();
    etcd.grant(7, 5);
    assert_eq!(etcd.kv.renew(START + 3 * SECOND, LeaseId(7)), 5);
    assert_eq!(etcd.kv.next_expiry(), Some(START + 8 * SECOND));
    assert_eq!(etcd.kv.renew(START + 8 * SECOND, LeaseId(7)), 0, "past its time, though nobody has ended it yet");
    assert_eq!(etcd.kv.renew(START, LeaseId(8)), 0);
    assert_eq!(etcd.kv.expire(START + 8 * SECOND), [LeaseId(7)]);
}

#[test]
fn a_lease_past_its_time_counts_until_it_is_ended_and_a_new_leader_extends_it() {
    let mut etcd = Etcd::new();
    etcd.grant(7, 5);
    etcd.now = START + 6 * SECOND;
    etcd.run(vec![put_leased("a", 7)]);
    etcd.kv.extend_all_leases(etcd.now);
    assert_eq!(etcd.kv.expire(etcd.now), []);
    assert_eq!(etcd.kv.next_expiry(), Some(START + 11 * SECOND));
}

#[test]
fn changes_are_told_once_in_order_and_to_those_who_watch_them() {
    let mut etcd = Etcd::new();
    etcd.grant(7, 5);
    etcd.run(vec![put_leased("b", 7), put("a/1", "")]);
    etcd.run(vec![put("b", ""), Op::Delete(prefix("a/"))]);
    let changes = etcd.kv.take_changes();
    let event = |key: &str, revision, change| WatchEvent { key: Key::from(key), revision, change };
    let created = |lease| Change::Put { value: Arc::default(), create_revision: 2, lease };
    let b = |revision, lease| event("b", revision, created(lease));
    let a1 = event("a/1", 2, created(None));
    let gone = event("a/1", 3, Change::Delete);
    assert_eq!(changes, [b(2, Some(LeaseId(7))), a1.clone(), b(3, None), gone.clone()]);
    assert_eq!(matching(&prefix("a/"), &changes), [a1, gone]);
    assert_eq!(matching(&one("a/"), &changes), []);
    assert_eq!(etcd.kv.take_changes(), []);
}

#[test]
fn the_same_calls_give_the_same_value() {
    let script = |kv: &mut Kv| {
        kv.call(START, &Request::LeaseGrant { lease: LeaseId(7), ttl: 5 }).unwrap();
        kv.call(START, &Request::Txn(Txn { then: vec![put_leased("a", 7)], ..Txn::default() })).unwrap();
    };
    let (mut a, mut b) = (Kv::new(), Kv::new());
    script(&mut a);
    script(&mut b);
    assert_eq!(a, b);
    b.take_changes();
    assert_ne!(a, b, "changes that nobody was told yet are part of the state");
}
