//! The transactions of a queue, as they stand in `docs/design.md` §3, and what their replies say.
//!
//! Nothing else writes to a queue, so this page is the whole wire protocol: enqueue, try, read, delete.

use std::sync::Arc;

use crate::store::{
    CreateRevisionIs, Key, KeyValue, Keys, LeaseId, Op, OpReply, Range, RangeReply, Reply, ReplyBody, Request, Txn,
    TxnReply,
};

/// How many keys of a queue a reply lists. A queue that is shorter than this is seen whole by whoever joins it, and a reply
/// stays small however long the queue is.
pub const GLANCE: usize = 8;

/// The keys of one name: `<name>/` and all that starts with it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Prefix {
    prefix: Key,
}

impl Prefix {
    /// The queue of `name`, which stands below `namespace`. Both are taken verbatim.
    pub fn new(namespace: &str, name: &str) -> Self {
        Self { prefix: Key::from(format!("{namespace}{name}/")) }
    }

    /// The key of our contender number `number` under `lease`.
    pub fn contender(&self, lease: LeaseId, number: u64) -> Key {
        let mut key = self.prefix.as_bytes().to_vec();
        key.extend_from_slice(format!("{lease}-{number}").as_bytes());
        Key::from(key)
    }

    /// All keys below the name, nested names included.
    pub fn keys(&self) -> Keys {
        Keys::prefix(self.prefix.clone())
    }

    /// Whether `key` is a contender of this very name: below it, and not below a name nested in it.
    pub fn is_contender(&self, key: &Key) -> bool {
        self.rest(key).is_some_and(|rest| !rest.contains(&b'/'))
    }

    fn rest<'a>(&self, key: &'a Key) -> Option<&'a [u8]> {
        key.as_bytes().strip_prefix(self.prefix.as_bytes())
    }

    /// The whole subtree of the nested name that `key` belongs to: `<name>/<first part>/` and all that starts with it.
    fn nested(&self, key: &Key) -> Option<Keys> {
        let rest = self.rest(key)?;
        let slash = rest.iter().position(|byte| *byte == b'/')?;
        Some(Keys::prefix(Key::from(&key.as_bytes()[..=self.prefix.as_bytes().len() + slash])))
    }
}

/// The lease and the number of a key that a session of ours may have chosen: `…/<lease>-<number>`.
pub fn choice(key: &Key) -> Option<(LeaseId, u64)> {
    let last = std::str::from_utf8(key.as_bytes().rsplit(|byte| *byte == b'/').next()?).ok()?;
    let (lease, digits) = last.split_once('-')?;
    let (id, number) = (i64::from_str_radix(lease, 16).ok()?, digits.parse().ok()?);
    // Only as we write them: no signs, no capitals, no zeros ahead.
    let is_ours = LeaseId(id).to_string() == lease && u64::to_string(&number) == digits;
    is_ours.then_some((LeaseId(id), number))
}

/// Whether `key` looks like one that a session with `lease` chose.
pub fn is_chosen_by(key: &Key, lease: LeaseId) -> bool {
    choice(key).is_some_and(|(chosen, _)| chosen == lease)
}
fn put(key: &Key, value: &Arc<[u8]>, lease: LeaseId) -> Op {
    Op::Put { key: key.clone(), value: value.clone(), lease: Some(lease) }
}

fn read(keys: Keys, limit: i64) -> Op {
    Op::Range(Range { keys, limit, keys_only: true })
}

/// Reads the first keys of a queue.
fn glance(prefix: &Prefix) -> Op {
    read(prefix.keys(), i64::try_from(GLANCE).unwrap_or(i64::MAX))
}

fn absent(keys: Keys) -> CreateRevisionIs {
    CreateRevisionIs { keys, revision: 0 }
}

/// Joins the queue under `key`, and looks at its head in the same breath. Safe to repeat with the same key.
pub fn enqueue(prefix: &Prefix, key: &Key, value: &Arc<[u8]>, lease: LeaseId) -> Txn {
    Txn {
        conditions: vec![absent(Keys::one(key.clone()))],
        then: vec![put(key, value, lease), glance(prefix)],
        otherwise: vec![read(Keys::one(key.clone()), 0), glance(prefix)],
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

/// Joins the queue only if nobody stands in it. Safe to repeat with the same key: the reply says whether the key stands.
///
/// `nested` are keys of nested names that an earlier try met: the conditions step around their subtrees, because a condition
/// on a range holds only where nothing at all exists.
pub fn try_enqueue(prefix: &Prefix, key: &Key, value: &Arc<[u8]>, lease: LeaseId, nested: &[Key]) -> Txn {
    let all = prefix.keys();
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
        otherwise: vec![read(Keys::one(key.clone()), 0), glance(prefix)],
    }
}

/// Reads the whole queue, values and leases included: etcd 3.7 leaves the leases out where only keys are asked for, and a
/// contender without a lease must be known.
pub fn snapshot(prefix: &Prefix) -> Request {
    Request::Range(Range { keys: prefix.keys(), limit: 0, keys_only: false })
}

/// Looks at a queue for nothing but etcd's revision.
pub fn look(prefix: &Prefix) -> Request {
    Request::Range(Range { keys: prefix.keys(), limit: 1, keys_only: true })
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
pub fn delete(keys: &[(Key, i64)]) -> Request {
    match keys {
        [(key, revision)] => Request::Txn(delete_txn(key, *revision)),
        _ => Request::Txn(Txn {
            then: keys.iter().map(|(key, revision)| Op::Txn(delete_txn(key, *revision))).collect(),
            ..Txn::default()
        }),
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
}

/// Reads the reply to [`enqueue`], [`enqueue_unseen`] or, with `is_try`, to [`try_enqueue`]; `None` if it has not their shape.
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
    let (glance, is_whole) = match ranges.next() {
        Some(RangeReply { kvs, count }) => {
            let is_whole = count == i64::try_from(kvs.len()).unwrap_or(i64::MAX);
            (kvs, is_whole)
        }
        // A try that succeeded reads nothing: its conditions said that nobody stood there. Any other says nothing about the rest.
        None => (Vec::new(), is_try && succeeded),
    };
    Some(Joined { revision: own, is_new: succeeded, glance, is_whole })
}

/// Asks whether a key of ours and, if there is one, the key that it waits for still stand as they did.
pub fn check(own: &(Key, i64), ahead: Option<&(Key, i64)>) -> Request {
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
    /// Both stand.
    AsBefore,
    /// Ours stands, the other one does not.
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
        let key = prefix.contender(LeaseId(0xbeef), 3);
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
        assert_eq!(choice(&Key::from("/a/beef-12")), Some((LeaseId(0xbeef), 12)));
        for foreign in ["/a/BEEF-1", "/a/beef-01", "/a/beef-+1", "/a/0beef-1", "/a/beef-1-1", "/a/-1"] {
            assert_eq!(choice(&Key::from(foreign)), None, "{foreign}");
        }
    }
}
