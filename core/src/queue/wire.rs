//! The transactions of a queue, as they stand in `docs/design.md` §3, and what their replies say.
//!
//! Nothing else writes to a queue, so this page is the whole wire protocol: enqueue, try, read, delete.

use std::sync::Arc;

use super::admission::Claim;
use crate::store::{
    CreateRevisionIs, ErrorKind, Key, KeyValue, Keys, LeaseId, Op, OpReply, Pick, Range, RangeReply, Reply, ReplyBody,
    Request, StoreError, Txn, TxnReply,
};

/// How many keys of a queue a reply lists. A queue that is shorter than this is seen whole by whoever joins it, and a reply
/// stays small however long the queue is.
pub const GLANCE: usize = 8;
/// The same for claims that can be held beside others: many of them come at once, and each is to see that it may hold.
const WIDE_GLANCE: usize = 128;

/// The keys of one name: `<name>/` and all that starts with it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Prefix {
    all: Keys,
}

impl Prefix {
    /// The queue of `name`, which stands below `namespace`. Both are taken verbatim.
    pub fn new(namespace: &str, name: &str) -> Self {
        Self { all: Keys::prefix(Key::from(format!("{namespace}{name}/"))) }
    }

    /// The key of our contender number `number` under `lease`: it says what it claims, so that every reader of keys knows.
    pub fn contender(&self, lease: LeaseId, number: u64, claim: Claim) -> Key {
        let mut key = self.all.key.as_bytes().to_vec();
        let choice = match claim {
            Claim::Exclusive => format!("{lease}-{number}"),
            Claim::Shared => format!("{lease}-{number}r"),
            Claim::Permits { permits, limit } => format!("{lease}-{number}p{permits}.{limit}"),
        };
        key.extend_from_slice(choice.as_bytes());
        Key::from(key)
    }

    /// All keys below the name, nested names included.
    pub fn keys(&self) -> &Keys {
        &self.all
    }

    /// Whether `key` is a contender of this very name: below it, and not below a name nested in it.
    pub fn is_contender(&self, key: &Key) -> bool {
        self.rest(key).is_some_and(|rest| !rest.contains(&b'/'))
    }

    fn rest<'a>(&self, key: &'a Key) -> Option<&'a [u8]> {
        key.as_bytes().strip_prefix(self.all.key.as_bytes())
    }

    /// The whole subtree of the nested name that `key` belongs to: `<name>/<first part>/` and all that starts with it.
    fn nested(&self, key: &Key) -> Option<Keys> {
        let rest = self.rest(key)?;
        let slash = rest.iter().position(|byte| *byte == b'/')?;
        Some(Keys::prefix(Key::from(&key.as_bytes()[..=self.all.key.as_bytes().len() + slash])))
    }
}

/// What a session of ours chose when it made a key: `…/<lease>-<number>`, and what it claims.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The session's lease.
    pub lease: LeaseId,
    /// What tells the keys of one session apart.
    pub number: u64,
    /// What it claims of the name.
    pub claim: Claim,
}

/// What a session of ours may have chosen when it made `key`.
pub fn choice(key: &Key) -> Option<Choice> {
    let last = std::str::from_utf8(key.as_bytes().rsplit(|byte| *byte == b'/').next()?).ok()?;
    let (lease, rest) = last.split_once('-')?;
    let id = LeaseId(i64::from_str_radix(lease, 16).ok()?);
    let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    let (number, claim) = rest.split_at(digits);
    let claim = match (claim, claim.strip_prefix('p').and_then(|permits| permits.split_once('.'))) {
        ("", _) => Claim::Exclusive,
        ("r", _) => Claim::Shared,
        (_, Some((permits, limit))) => Claim::Permits { permits: exactly(permits)?, limit: exactly(limit)? },
        _ => return None,
    };
    let is_ours =
        is_as_written(lease, |byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte)) && claim.is_valid();
    is_ours.then_some(Choice { lease: id, number: exactly(number)?, claim })
}

/// Whether `key` is named after a lease: as ours are, and those of etcd's Lock service and of Go's sessions. A lock class that
/// queues by itself chooses something of its own.
pub fn is_of_lease(key: &Key) -> bool {
    let last = key.as_bytes().rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    let lease = std::str::from_utf8(last).ok().and_then(|last| i64::from_str_radix(last, 16).ok());
    choice(key).is_some() || lease.is_some_and(|lease| LeaseId(lease).to_string().as_bytes() == last)
}

/// A number, only as we write it.
fn exactly<T: std::str::FromStr>(text: &str) -> Option<T> {
    text.parse().ok().filter(|_| is_as_written(text, |byte| byte.is_ascii_digit()))
}

/// Whether a number is written as we do it: no sign, no zeros ahead. Every key that comes or goes is asked.
fn is_as_written(number: &str, is_digit: impl Fn(u8) -> bool) -> bool {
    (number.len() == 1 || !number.starts_with('0')) && number.bytes().all(is_digit)
}

/// What `key` claims of the name that it stands below. Whatever we do not know is exclusive.
pub fn claim_of(key: &Key) -> Claim {
    choice(key).map_or(Claim::Exclusive, |choice| choice.claim)
}

/// Whether `key` looks like one that a session with `lease` chose.
pub fn is_chosen_by(key: &Key, lease: LeaseId) -> bool {
    choice(key).is_some_and(|choice| choice.lease == lease)
}

fn put(key: &Key, value: &Arc<[u8]>, lease: LeaseId) -> Op {
    Op::Put { key: key.clone(), value: value.clone(), lease: Some(lease) }
}

fn read(keys: Keys, limit: i64) -> Op {
    Op::Range(Range { keys, limit, keys_only: true, pick: Pick::All })
}

/// Reads the first keys of a queue that somebody joins with that claim.
fn glance(prefix: &Prefix, claim: Claim) -> Op {
    let most = if claim == Claim::Exclusive { GLANCE } else { WIDE_GLANCE };
    read(prefix.keys().clone(), i64::try_from(most).unwrap_or(i64::MAX))
}

fn absent(keys: Keys) -> CreateRevisionIs {
    CreateRevisionIs { keys, revision: 0 }
}

/// Joins the queue under `key`, and looks at its head in the same breath. Safe to repeat with the same key.
pub fn enqueue(prefix: &Prefix, key: &Key, value: &Arc<[u8]>, lease: LeaseId) -> Txn {
    let glance = glance(prefix, claim_of(key));
    Txn {
        conditions: vec![absent(Keys::one(key.clone()))],
        then: vec![put(key, value, lease), glance.clone()],
        otherwise: vec![read(Keys::one(key.clone()), 0), glance],
    }
}

/// Joins the queue under `key` and reads nothing: where the order is known from a watch, and the queue is too long for a glance to
/// show it whole. Safe to repeat with the same key.
pub fn enqueue_unseen(key: &Key, value: &Arc<[u8]>, lease: LeaseId) -> Txn {
    Txn {
        conditions: vec![absent(Keys::one(key.clone()))],
        then: vec![put(key, value, lease)],
        otherwise: vec![read(Keys::one(key.clone()), 0)],
    }
}

/// Joins the queue under `key`, and looks who stands right ahead: in a crowd, nobody needs to know more until that one is gone. Safe
/// to repeat with the same key.
pub fn enqueue_in_crowd(prefix: &Prefix, key: &Key, value: &Arc<[u8]>, lease: LeaseId) -> Txn {
    let nearest = || Op::Range(Range { keys: prefix.keys().clone(), limit: 2, keys_only: false, pick: Pick::Newest });
    Txn {
        conditions: vec![absent(Keys::one(key.clone()))],
        then: vec![put(key, value, lease), nearest()],
        otherwise: vec![read(Keys::one(key.clone()), 0), nearest()],
    }
}

/// Joins the queue only if nobody stands in it. Safe to repeat with the same key: the reply says whether the key stands.
///
/// `nested` are keys of nested names that an earlier try met: the conditions step around their subtrees, because a condition
/// on a range holds only where nothing at all exists.
pub fn try_enqueue(prefix: &Prefix, key: &Key, value: &Arc<[u8]>, lease: LeaseId, nested: &[Key]) -> Txn {
    let all = prefix.keys().clone();
    let end = all.end.clone();
    let mut conditions = Vec::with_capacity(nested.len() + 1);
    let mut from = all.key.clone();
    for subtree in nested.iter().filter_map(|key| prefix.nested(key)) {
        if subtree.key < from {
            continue; // the same nested name again
        }
        conditions.push(absent(Keys { key: from, end: Some(subtree.key) }));
        from = subtree.end.unwrap_or_else(|| all.key.clone());
    }
    conditions.push(absent(Keys { key: from, end }));
    Txn {
        conditions,
        then: vec![put(key, value, lease)],
        otherwise: vec![read(Keys::one(key.clone()), 0), glance(prefix, claim_of(key))],
    }
}

/// Reads the whole queue or, with `until`, what was created at that revision or before; values and leases included: etcd 3.7 leaves
/// the leases out where only keys are asked for, and a contender without a lease must be known.
pub fn snapshot(prefix: &Prefix, until: Option<i64>) -> Request {
    let pick = until.map_or(Pick::All, Pick::CreatedUntil);
    Request::Range(Range { keys: prefix.keys().clone(), limit: 0, keys_only: false, pick })
}

/// Reads which contenders there are, in which order, and when each was written last; no values, which can be large in an election.
pub fn roll(prefix: &Prefix) -> Request {
    Request::Range(Range { keys: prefix.keys().clone(), limit: 0, keys_only: true, pick: Pick::All })
}

/// The contender among `kvs` that stands first.
pub fn first(prefix: &Prefix, kvs: Vec<KeyValue>) -> Option<KeyValue> {
    let contenders = kvs.into_iter().filter(|kv| prefix.is_contender(&kv.key));
    contenders.min_by(|a, b| (a.create_revision, &a.key).cmp(&(b.create_revision, &b.key)))
}

/// What the leader of an election says.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Proclamation {
    /// Its key.
    pub key: Key,
    /// The create revision of the key.
    pub token: i64,
    /// The value of the key.
    pub value: Arc<[u8]>,
    /// The revision at which the value was written.
    pub revision: i64,
}

/// Writes `value` into the key of a leader if it is still the one that was created at `token`. The key keeps its lease, which a put
/// without one would take from it.
pub fn proclaim(key: &Key, token: i64, value: &Arc<[u8]>, lease: LeaseId) -> Request {
    // A member answers a branch without operations from what it knows, and asks nobody.
    Request::Txn(Txn {
        conditions: vec![CreateRevisionIs { keys: Keys::one(key.clone()), revision: token }],
        then: vec![put(key, value, lease)],
        otherwise: vec![read(Keys::one(key.clone()), 1)],
    })
}

/// Reads what the contender says whose key was created at `token`. Nobody comes to stand ahead of one that is first: if it still
/// stands, it leads.
pub fn ask(key: &Key, token: i64) -> Request {
    let keys = Keys::one(key.clone());
    Request::Txn(Txn {
        conditions: vec![CreateRevisionIs { keys: keys.clone(), revision: token }],
        then: vec![Op::Range(Range { keys: keys.clone(), limit: 1, keys_only: false, pick: Pick::All })],
        otherwise: vec![read(keys, 1)],
    })
}

/// Looks at a queue for nothing but etcd's revision.
pub fn look(prefix: &Prefix) -> Request {
    Request::Range(Range { keys: prefix.keys().clone(), limit: 1, keys_only: true, pick: Pick::All })
}

/// Deletes `key` if it is still the one that was created at `revision`.
fn delete_txn(key: &Key, revision: i64) -> Txn {
    Txn {
        conditions: vec![CreateRevisionIs { keys: Keys::one(key.clone()), revision }],
        then: vec![Op::Delete(Keys::one(key.clone()))],
        otherwise: Vec::new(),
    }
}

/// Deletes each key if it is still the one that was created at its revision. One commit, however many there are; each keeps
/// its own guard by a transaction of its own inside. Safe to repeat.
pub fn delete(keys: &[(Key, i64)]) -> Txn {
    match keys {
        [(key, revision)] => delete_txn(key, *revision),
        _ => Txn {
            then: keys.iter().map(|(key, revision)| Op::Txn(delete_txn(key, *revision))).collect(),
            ..Txn::default()
        },
    }
}

/// Deletes a key of ours whose create revision nobody learnt. Only we can have written it, and it is never used again.
pub fn delete_unseen(key: &Key) -> Request {
    Request::Txn(Txn { then: vec![Op::Delete(Keys::one(key.clone()))], ..Txn::default() })
}

/// What the reply to an enqueue or a try says.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Joined {
    /// The create revision of our key; `None` where it does not stand (a try that failed).
    pub revision: Option<i64>,
    /// Whether this very request wrote it; otherwise it stood already.
    pub is_new: bool,
    /// The first keys below the name, nested names included, at the store's revision of the reply.
    pub glance: Vec<KeyValue>,
    /// Whether `glance` is all there was.
    pub is_whole: bool,
    /// How many keys there were, as far as the reply tells.
    pub count: usize,
}

/// Reads the reply to [`enqueue`], [`enqueue_unseen`], [`enqueue_in_crowd`] or, with `is_try`, to [`try_enqueue`]; `None` if it has not their shape.
pub fn joined(reply: Reply, key: &Key, is_try: bool) -> Option<Joined> {
    let revision = reply.revision;
    let ReplyBody::Txn(TxnReply { succeeded, replies }) = reply.body else { return None };
    let mut ranges = replies.into_iter().filter_map(|reply| match reply {
        OpReply::Range(range) => Some(range),
        _ => None,
    });
    let own = if succeeded {
        Some(revision)
    } else {
        ranges.next()?.kvs.iter().find(|kv| kv.key == *key).map(|kv| kv.create_revision)
    };
    let (glance, is_whole, count) = match ranges.next() {
        Some(RangeReply { kvs, count }) => {
            let count = usize::try_from(count).unwrap_or(0);
            let is_whole = count == kvs.len();
            (kvs, is_whole, count)
        }
        // A try that succeeded reads nothing: its conditions said that nobody stood there. Any other says nothing about the rest.
        None => (Vec::new(), is_try && succeeded, 0),
    };
    Some(Joined { revision: own, is_new: succeeded, glance, is_whole, count })
}

/// The reply to several enqueues in one transaction, for each of them: how many operations each had is in `shapes`, where the
/// conditions hold and where they do not.
pub fn joined_each(result: Result<Reply, StoreError>, shapes: &[(usize, usize)]) -> Vec<Result<Reply, StoreError>> {
    let counts = |succeeded| shapes.iter().map(move |(then, otherwise)| if succeeded { *then } else { *otherwise });
    each(result, shapes.len(), |txn| {
        let mut replies = txn.replies.into_iter();
        let succeeded = txn.succeeded;
        let part = |count| TxnReply { succeeded, replies: replies.by_ref().take(count).collect() };
        let parts = counts(succeeded).map(part).collect();
        replies.next().is_none().then_some(parts)
    })
}

/// The reply to the deletes of several queues, for each of them: how many keys it deletes is in `counts`.
pub fn deleted_each(result: Result<Reply, StoreError>, counts: &[usize]) -> Vec<Result<Reply, StoreError>> {
    if let [_] = counts {
        return vec![result];
    }
    each(result, counts.len(), |txn| {
        let mut replies = txn.replies.into_iter();
        let part = |count: &usize| match (count, replies.by_ref().take(*count).collect::<Vec<_>>()) {
            // The reply to a single delete is not wrapped.
            (1, mut one) => match one.pop() {
                Some(OpReply::Txn(inner)) => Some(inner),
                _ => None,
            },
            (_, replies) => Some(TxnReply { succeeded: true, replies }),
        };
        counts.iter().map(part).collect()
    })
}

/// Takes the reply to a transaction apart, in `parts` parts.
fn each(
    result: Result<Reply, StoreError>,
    parts: usize,
    split: impl FnOnce(TxnReply) -> Option<Vec<TxnReply>>,
) -> Vec<Result<Reply, StoreError>> {
    let split = result.and_then(|Reply { revision, cluster, body }| {
        let txns = if let ReplyBody::Txn(txn) = body { split(txn) } else { None };
        let whole = |txn| Ok(Reply { revision, cluster, body: ReplyBody::Txn(txn) });
        let odd = || StoreError::ambiguous(ErrorKind::Internal, "etcd's reply to a transaction has an unknown shape");
        txns.map(|txns| txns.into_iter().map(whole).collect()).ok_or_else(odd)
    });
    split.unwrap_or_else(|error| vec![Err(error); parts])
}

/// Asks whether a key of ours and those that it waits for still stand as they did.
pub fn check(own: &(Key, i64), ahead: &[(Key, i64)]) -> Request {
    let stands = |(key, revision): &(Key, i64)| CreateRevisionIs { keys: Keys::one(key.clone()), revision: *revision };
    // A member answers a transaction without operations from what it knows, and asks nobody.
    let look = vec![read(Keys::one(own.0.clone()), 1)];
    Request::Txn(Txn {
        conditions: std::iter::once(own).chain(ahead).map(stands).collect(),
        then: look.clone(),
        otherwise: look,
    })
}

/// What the reply to [`check`] says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Checked {
    /// All stand.
    AsBefore,
    /// Ours stands, another one does not.
    AheadGone,
    /// Ours does not stand.
    OwnGone,
}

/// Reads the reply to [`check`]; `None` if it has not its shape.
pub fn checked(reply: &Reply, own: &(Key, i64)) -> Option<Checked> {
    let ReplyBody::Txn(TxnReply { succeeded, replies }) = &reply.body else { return None };
    let [OpReply::Range(RangeReply { kvs, .. })] = &replies[..] else { return None };
    let stands = kvs.iter().any(|kv| (&kv.key, kv.create_revision) == (&own.0, own.1));
    Some(match (succeeded, stands) {
        (true, _) => Checked::AsBefore,
        (false, true) => Checked::AheadGone,
        (false, false) => Checked::OwnGone,
    })
}

/// Reads the reply to [`delete`] of `keys` keys: for each whether it still stood and is deleted now.
pub fn deleted(reply: &Reply, keys: usize) -> Option<Vec<bool>> {
    let ReplyBody::Txn(txn) = &reply.body else { return None };
    if keys == 1 {
        return Some(vec![txn.succeeded]);
    }
    txn.replies
        .iter()
        .map(|reply| match reply {
            OpReply::Txn(inner) => Some(inner.succeeded),
            _ => None,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn conditions(txn: &Txn) -> Vec<(String, String)> {
        txn.conditions
            .iter()
            .map(|c| (c.keys.key.to_text(), c.keys.end.as_ref().map_or(String::new(), Key::to_text)))
            .collect()
    }

    #[test]
    fn a_key_below_a_nested_name_is_no_contender() {
        let prefix = Prefix::new("", "/lock/a");
        assert!(prefix.is_contender(&Key::from("/lock/a/694d-1")));
        assert!(!prefix.is_contender(&Key::from("/lock/a/b/694d-1")));
        assert!(!prefix.is_contender(&Key::from("/lock/ab/694d-1")));
        let trailing = Prefix::new("", "/lock/a/");
        assert!(trailing.is_contender(&Key::from("/lock/a//694d-1")));
        assert!(!trailing.is_contender(&Key::from("/lock/a/694d-1")));
        assert!(!prefix.is_contender(&Key::from("/lock/a//694d-1")));
    }

    #[test]
    fn a_try_steps_around_nested_names() {
        let prefix = Prefix::new("/app", "/a");
        let key = prefix.contender(LeaseId(0xbeef), 3, Claim::Exclusive);
        assert_eq!(key.to_text(), "/app/a/beef-3");
        let value: Arc<[u8]> = Arc::from(*b"{}");
        let plain = try_enqueue(&prefix, &key, &value, LeaseId(0xbeef), &[]);
        assert_eq!(conditions(&plain), [("/app/a/".into(), "/app/a0".into())]);
        let nested = [Key::from("/app/a/b/1-1"), Key::from("/app/a/b/2-1"), Key::from("/app/a/c/d/1-1")];
        let around = try_enqueue(&prefix, &key, &value, LeaseId(0xbeef), &nested);
        assert_eq!(
            conditions(&around),
            [
                ("/app/a/".into(), "/app/a/b/".into()),
                ("/app/a/b0".into(), "/app/a/c/".into()),
                ("/app/a/c0".into(), "/app/a0".into())
            ]
        );
    }

    #[test]
    fn a_key_tells_which_session_chose_it() {
        assert!(is_chosen_by(&Key::from("/a/beef-12"), LeaseId(0xbeef)));
        assert!(!is_chosen_by(&Key::from("/a/beef"), LeaseId(0xbeef)));
        assert!(!is_chosen_by(&Key::from("/a/beef-x"), LeaseId(0xbeef)));
        assert!(!is_chosen_by(&Key::from("/a/beef-1/x"), LeaseId(0xbeef)));
        for foreign in ["/a/BEEF-1", "/a/beef-01", "/a/beef-+1", "/a/0beef-1", "/a/beef-1-1", "/a/-1", "/a/beef-"] {
            assert_eq!(choice(&Key::from(foreign)), None, "{foreign}");
        }
    }

    #[test]
    fn a_key_tells_what_it_claims() {
        let permits = |permits, limit| Claim::Permits { permits, limit };
        for claim in [Claim::Exclusive, Claim::Shared, permits(1, 1), permits(3, Claim::MAX_LIMIT)] {
            let key = Prefix::new("", "/a").contender(LeaseId(0xbeef), 12, claim);
            assert_eq!(choice(&key), Some(Choice { lease: LeaseId(0xbeef), number: 12, claim }), "{key}");
        }
        assert_eq!(claim_of(&Key::from("/a/beef-1r")), Claim::Shared);
        assert_eq!(claim_of(&Key::from("/a/beef-1p2.10")), permits(2, 10));
        // Whatever is not as we write it is somebody else's, and exclusive.
        let ends =
            ["r1", "R", "rr", "p", "p1", "p1.", "p.1", "p0.1", "p2.1", "p01.2", "p1.02", "p+1.2", "p1.2.3", "p1.2r"];
        let ends = ends.into_iter().chain(["p1.2147483648", "p1.99999999999999999999", " r", "-1r", "x"]);
        for foreign in ends.map(|end| format!("/a/beef-1{end}")).chain(["/a/beefr".into(), "/a/beef-r".into()]) {
            let key = Key::from(foreign);
            assert_eq!((choice(&key), claim_of(&key)), (None, Claim::Exclusive), "{key}");
        }
    }

    #[test]
    fn who_queues_by_itself_names_its_key_after_no_lease() {
        for named in ["/a/beef", "/a/694d7b3c1f2e0a55", "/a/beef-1", "/a/beef-1p2.10"] {
            assert!(is_of_lease(&Key::from(named)), "{named}");
        }
        for copied in [
            "/a/",
            "/a/worker-1",
            "/a/3f1c2f9e-2d52-4c1a-9a43-6d0d3b9f6a10",
            "/a/BEEF",
            "/a/0beef",
            "/a/-1",
            "/a/beef-1x",
        ] {
            assert!(!is_of_lease(&Key::from(copied)), "{copied}");
        }
    }
}
