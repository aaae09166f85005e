//! What etcd refuses because of the request's form alone, before it looks at any data.

use std::collections::BTreeSet;

use crate::store::{ErrorKind, Key, Keys, Op, Request, StoreError, Txn};

/// How many conditions or operations one transaction may have (etcd's default `--max-txn-ops`); what an outer transaction
/// has counts against the transactions inside it.
const MAX_TXN_OPS: usize = 128;

/// The longest time to live that etcd grants, in seconds.
const MAX_TTL: i64 = 9_000_000_000;

/// Refuses what etcd refuses by form.
pub(super) fn request(request: &Request) -> Result<(), StoreError> {
    match request {
        Request::Txn(txn) => {
            size(txn, MAX_TXN_OPS)?;
            Writes::of(&txn.then)?;
            Writes::of(&txn.otherwise)?;
            Ok(())
        }
        Request::Range(range) => not_empty(&range.keys.key),
        Request::LeaseGrant { lease, .. } if lease.0 == 0 => {
            Err(invalid("lease id 0 asks etcd to choose one; choose the id and send it"))
        }
        Request::LeaseGrant { ttl, .. } if *ttl > MAX_TTL => {
            Err(invalid(format!("a time to live of {ttl} s is too long; etcd grants at most {MAX_TTL} s")))
        }
        Request::LeaseGrant { .. } | Request::LeaseRevoke { .. } | Request::LeaseTimeToLive { .. } => Ok(()),
    }
}

/// Refuses a watch on a range that can hold no key.
pub(super) fn watch(keys: &Keys) -> Result<(), StoreError> {
    match &keys.end {
        Some(end) if end.as_bytes() != [0] && *end <= keys.key => {
            Err(invalid(format!("the range to watch is empty: {end} does not come after {}", keys.key)))
        }
        _ => Ok(()),
    }
}

fn invalid(message: impl Into<String>) -> StoreError {
    StoreError::refused(ErrorKind::Invalid, message)
}

fn not_empty(key: &Key) -> Result<(), StoreError> {
    if key.as_bytes().is_empty() { Err(invalid("a key is empty; etcd has no such key")) } else { Ok(()) }
}

fn size(txn: &Txn, allowed: usize) -> Result<(), StoreError> {
    let ops = txn.conditions.len().max(txn.then.len()).max(txn.otherwise.len());
    if ops > allowed {
        return Err(invalid(format!("a transaction has {ops} operations where {allowed} are allowed; send several")));
    }
    for condition in &txn.conditions {
        not_empty(&condition.keys.key)?;
    }
    for op in txn.then.iter().chain(&txn.otherwise) {
        match op {
            Op::Put { key, .. } => not_empty(key)?,
            Op::Delete(keys) => not_empty(&keys.key)?,
            Op::Range(range) => not_empty(&range.keys.key)?,
            Op::Txn(inner) => size(inner, allowed - ops)?,
        }
    }
    Ok(())
}

/// What a list of operations may write, to find a key that it would write twice.
///
/// This is as strict as etcd and no stricter: a put in one inner transaction and a delete of the same key in a later one are
/// let through, and are done in that order.
#[derive(Default)]
struct Writes<'a> {
    puts: BTreeSet<&'a Key>,
    deletes: Vec<&'a Keys>,
}

impl<'a> Writes<'a> {
    fn of(ops: &'a [Op]) -> Result<Self, StoreError> {
        let mut all = Self::default();
        all.deletes.extend(ops.iter().filter_map(|op| if let Op::Delete(keys) = op { Some(keys) } else { None }));
        for op in ops {
            if let Op::Txn(txn) = op {
                let (then, otherwise) = (Self::of(&txn.then)?, Self::of(&txn.otherwise)?);
                // Only one of the two branches will run, so a key may be in both.
                for key in then.puts.union(&otherwise.puts) {
                    all.put(key)?;
                }
                all.deletes.extend(then.deletes);
                all.deletes.extend(otherwise.deletes);
            }
        }
        for op in ops {
            if let Op::Put { key, .. } = op {
                all.put(key)?;
            }
        }
        Ok(all)
    }

    fn put(&mut self, key: &'a Key) -> Result<(), StoreError> {
        if self.deletes.iter().any(|keys| touches(keys, key)) || !self.puts.insert(key) {
            return Err(invalid(format!("the transaction writes {key} twice; etcd allows one write for each key")));
        }
        Ok(())
    }
}

/// Whether etcd sees the delete of `keys` and a put of `key` collide. Unlike the delete itself, this test takes the end of
/// the range literally, so it overlooks all of `[a, \0)`, which deletes everything from `a` on.
fn touches(keys: &Keys, key: &Key) -> bool {
    match &keys.end {
        None => *key == keys.key,
        Some(end) => *key >= keys.key && key < end,
    }
}
