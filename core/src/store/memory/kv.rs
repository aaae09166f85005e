//! etcd's data and its rules, as a plain value: keys, revisions, transactions and leases.
//!
//! Time comes in with each call and nothing happens by itself: whoever owns a [`Kv`] calls [`Kv::expire`] when it wants
//! expired leases to end, and hands the changes that [`Kv::take_changes`] gives to whoever watches.

#[cfg(test)]
mod tests;

use std::{
    cmp::Reverse,
    collections::BTreeMap,
    mem,
    ops::Bound::{Excluded, Included, Unbounded},
    sync::Arc,
    time::Duration,
};

use super::check;
use crate::{
    clock::Moment,
    store::{
        Change, CreateRevisionIs, ErrorKind, Key, KeyValue, Keys, LeaseId, Op, OpReply, Pick, Range, RangeReply, Reply,
        ReplyBody, Request, StoreError, Txn, TxnReply, WatchEvent,
    },
};

/// The shortest time to live that an etcd with default settings grants, in seconds: one and a half elections of 1,000 ms,
/// rounded up to whole seconds.
const DEFAULT_MIN_TTL: i64 = 2;

/// The data of an etcd: the same calls in the same order at the same moments give the same data, replies and changes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Kv {
    revision: i64,
    items: BTreeMap<Key, Item>,
    leases: BTreeMap<LeaseId, Lease>,
    min_ttl: i64,
    changes: Vec<WatchEvent>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Item {
    value: Arc<[u8]>,
    create_revision: i64,
    mod_revision: i64,
    lease: Option<LeaseId>,
}

/// Which keys belong to a lease is told by the items alone: one fact, one place.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Lease {
    ttl: i64,
    expiry: Moment,
}

impl Lease {
    fn starting(now: Moment, ttl: i64) -> Self {
        Self { ttl, expiry: now + Duration::from_secs(ttl.unsigned_abs()) }
    }
}

/// A transaction whose conditions have been judged. etcd judges all of them, those of inner transactions too, before it
/// writes anything; so an inner transaction does not see what the outer one wrote.
struct Plan<'a> {
    succeeded: bool,
    steps: Vec<Step<'a>>,
}

enum Step<'a> {
    Put { key: &'a Key, value: &'a Arc<[u8]>, lease: Option<LeaseId> },
    Delete(&'a Keys),
    Range(&'a Range),
    Txn(Plan<'a>),
}

impl Default for Kv {
    fn default() -> Self {
        Self::new()
    }
}

impl Kv {
    /// An empty etcd with default settings. Its revision is 1, as that of a new cluster.
    pub fn new() -> Self {
        Self::with_min_ttl(DEFAULT_MIN_TTL)
    }

    /// An empty etcd that raises every time to live below `min_ttl` seconds to that; it is itself at least 1.
    pub fn with_min_ttl(min_ttl: i64) -> Self {
        Self {
            revision: 1,
            items: BTreeMap::new(),
            leases: BTreeMap::new(),
            min_ttl: min_ttl.max(1),
            changes: Vec::new(),
        }
    }

    /// The revision of the last write.
    pub fn revision(&self) -> i64 {
        self.revision
    }

    /// Answers `request` as etcd does at `now`. A request that fails has changed nothing.
    ///
    /// A lease past its time still counts until [`Kv::expire`] ends it: etcd, too, takes up to half a second to notice.
    pub fn call(&mut self, now: Moment, request: &Request) -> Result<Reply, StoreError> {
        check::request(request)?;
        let body = match request {
            Request::Txn(txn) => {
                let plan = self.plan(txn)?;
                ReplyBody::Txn(self.write(|kv, revision| kv.apply(plan, revision)))
            }
            Request::Range(range) => ReplyBody::Range(self.range(range)),
            Request::LeaseGrant { lease, ttl } => ReplyBody::LeaseGrant { ttl: self.grant(now, *lease, *ttl)? },
            Request::LeaseRevoke { lease } => {
                self.revoke(*lease)?;
                ReplyBody::LeaseRevoke
            }
            Request::LeaseTimeToLive { lease } => self.time_to_live(now, *lease),
        };
        Ok(Reply { revision: self.revision, cluster: 0, body })
    }

    /// What a read finds.
    pub fn range(&self, range: &Range) -> RangeReply {
        let limit = usize::try_from(range.limit).ok().filter(|&limit| limit > 0).unwrap_or(usize::MAX);
        let mut picked: Vec<_> = match range.pick {
            Pick::All => self.items_in(&range.keys).take(limit).collect(),
            Pick::CreatedUntil(until) => {
                self.items_in(&range.keys).filter(|(_, item)| item.create_revision <= until).collect()
            }
            Pick::Newest => self.items_in(&range.keys).collect(),
        };
        if range.pick == Pick::Newest {
            picked.sort_by_key(|(_, item)| Reverse(item.create_revision));
        }
        let kvs: Vec<_> = picked
            .into_iter()
            .take(limit)
            .map(|(key, item)| KeyValue {
                key: key.clone(),
                value: if range.keys_only { Arc::default() } else { item.value.clone() },
                create_revision: item.create_revision,
                mod_revision: item.mod_revision,
                lease: if range.keys_only { None } else { item.lease },
            })
            .collect();
        let is_all = range.pick == Pick::All && kvs.len() < limit;
        let count = if is_all { kvs.len() } else { self.items_in(&range.keys).count() };
        RangeReply { kvs, count: count as i64 }
    }

    /// Renews `lease`: its time to live starts anew at `now`. Returns that time in seconds, or 0 where the lease does not
    /// exist or is past its time.
    pub fn renew(&mut self, now: Moment, lease: LeaseId) -> i64 {
        match self.leases.get_mut(&lease) {
            Some(found) if found.expiry > now => {
                *found = Lease::starting(now, found.ttl);
                found.ttl
            }
            _ => 0,
        }
    }

    /// Revokes every lease that is past its time at `now`, the oldest first, each at a revision of its own. Returns them.
    pub fn expire(&mut self, now: Moment) -> Vec<LeaseId> {
        let mut due: Vec<_> = self
            .leases
            .iter()
            .filter(|(_, lease)| lease.expiry <= now)
            .map(|(&id, lease)| (lease.expiry, id))
            .collect();
        due.sort_unstable();
        for &(_, id) in &due {
            self.end_lease(id);
        }
        due.into_iter().map(|(_, id)| id).collect()
    }

    /// When the next lease is past its time; `None` where there is no lease.
    pub fn next_expiry(&self) -> Option<Moment> {
        self.leases.values().map(|lease| lease.expiry).min()
    }

    /// Every lease that exists.
    pub fn leases(&self) -> impl Iterator<Item = LeaseId> + '_ {
        self.leases.keys().copied()
    }

    /// What a new leader does: every lease starts its time to live anew at `now`, those past their time included.
    pub fn extend_all_leases(&mut self, now: Moment) {
        for lease in self.leases.values_mut() {
            *lease = Lease::starting(now, lease.ttl);
        }
    }

    /// The changes since the last call of this function, each exactly once, in the order of their revisions.
    pub fn take_changes(&mut self) -> Vec<WatchEvent> {
        mem::take(&mut self.changes)
    }

    fn items_in(&self, keys: &Keys) -> impl Iterator<Item = (&Key, &Item)> {
        let (from, to) = (&keys.key, keys.end.as_ref());
        let bounds = match to {
            None => Some((Included(from), Included(from))),
            Some(end) if end.as_bytes() == [0] => Some((Included(from), Unbounded)),
            Some(end) if end > from => Some((Included(from), Excluded(end))),
            // A map refuses a range that ends before it starts; to etcd it is just empty.
            Some(_) => None,
        };
        bounds.into_iter().flat_map(|bounds| self.items.range::<Key, _>(bounds))
    }

    /// Runs `apply` with the revision that its writes get; the revision counts only if it wrote something.
    fn write<T>(&mut self, apply: impl FnOnce(&mut Self, i64) -> T) -> T {
        let (revision, told) = (self.revision + 1, self.changes.len());
        let result = apply(self, revision);
        if self.changes.len() > told {
            self.revision = revision;
        }
        result
    }

    fn holds(&self, condition: &CreateRevisionIs) -> bool {
        let mut found = self.items_in(&condition.keys).map(|(_, item)| item.create_revision).peekable();
        match found.peek() {
            None => condition.revision == 0,
            Some(_) => found.all(|revision| revision == condition.revision),
        }
    }

    fn plan<'a>(&self, txn: &'a Txn) -> Result<Plan<'a>, StoreError> {
        let succeeded = txn.conditions.iter().all(|condition| self.holds(condition));
        let ops = if succeeded { &txn.then } else { &txn.otherwise };
        let steps = ops
            .iter()
            .map(|op| match op {
                Op::Put { key, value, lease } => {
                    // On the wire, lease 0 is how a put says that it has none.
                    let lease = lease.filter(|lease| lease.0 != 0);
                    if let Some(lease) = lease.filter(|lease| !self.leases.contains_key(lease)) {
                        return Err(no_lease(lease));
                    }
                    Ok(Step::Put { key, value, lease })
                }
                Op::Delete(keys) => Ok(Step::Delete(keys)),
                Op::Range(range) => Ok(Step::Range(range)),
                Op::Txn(inner) => self.plan(inner).map(Step::Txn),
            })
            .collect::<Result<_, _>>()?;
        Ok(Plan { succeeded, steps })
    }

    fn apply(&mut self, plan: Plan<'_>, revision: i64) -> TxnReply {
        let replies = plan
            .steps
            .into_iter()
            .map(|step| match step {
                Step::Put { key, value, lease } => {
                    self.put(key, value, lease, revision);
                    OpReply::Put
                }
                Step::Delete(keys) => OpReply::Delete(self.delete(keys, revision)),
                Step::Range(range) => OpReply::Range(self.range(range)),
                Step::Txn(inner) => OpReply::Txn(self.apply(inner, revision)),
            })
            .collect();
        TxnReply { succeeded: plan.succeeded, replies }
    }

    fn put(&mut self, key: &Key, value: &Arc<[u8]>, lease: Option<LeaseId>, revision: i64) {
        let create_revision = self.items.get(key).map_or(revision, |item| item.create_revision);
        let item = Item { value: value.clone(), create_revision, mod_revision: revision, lease };
        self.items.insert(key.clone(), item);
        let change = Change::Put { value: value.clone(), create_revision, lease };
        self.changes.push(WatchEvent { key: key.clone(), revision, change });
    }

    fn delete(&mut self, keys: &Keys, revision: i64) -> i64 {
        let found: Vec<_> = self.items_in(keys).map(|(key, _)| key.clone()).collect();
        self.delete_all(found, revision)
    }

    fn delete_all(&mut self, keys: Vec<Key>, revision: i64) -> i64 {
        let count = keys.len() as i64;
        for key in keys {
            self.items.remove(&key);
            self.changes.push(WatchEvent { key, revision, change: Change::Delete });
        }
        count
    }

    fn grant(&mut self, now: Moment, lease: LeaseId, ttl: i64) -> Result<i64, StoreError> {
        if self.leases.contains_key(&lease) {
            return Err(StoreError::refused(ErrorKind::LeaseExists, format!("lease {lease} exists already")));
        }
        let ttl = ttl.max(self.min_ttl);
        self.leases.insert(lease, Lease::starting(now, ttl));
        Ok(ttl)
    }

    fn revoke(&mut self, lease: LeaseId) -> Result<(), StoreError> {
        if !self.leases.contains_key(&lease) {
            return Err(no_lease(lease));
        }
        self.end_lease(lease);
        Ok(())
    }

    fn end_lease(&mut self, lease: LeaseId) {
        let keys = self.keys_of(lease);
        self.write(|kv, revision| kv.delete_all(keys, revision));
        self.leases.remove(&lease);
    }

    fn keys_of(&self, lease: LeaseId) -> Vec<Key> {
        self.items.iter().filter(|(_, item)| item.lease == Some(lease)).map(|(key, _)| key.clone()).collect()
    }

    fn time_to_live(&self, now: Moment, lease: LeaseId) -> ReplyBody {
        match self.leases.get(&lease) {
            // Cut, not rounded: etcd says 0 during the last second.
            Some(found) => {
                let ttl = now.until(found.expiry).as_secs() as i64;
                ReplyBody::LeaseTimeToLive { ttl, keys: self.keys_of(lease) }
            }
            None => ReplyBody::LeaseTimeToLive { ttl: -1, keys: Vec::new() },
        }
    }
}

fn no_lease(lease: LeaseId) -> StoreError {
    StoreError::refused(ErrorKind::LeaseNotFound, format!("lease {lease} does not exist"))
}

/// Those of `events` that a watch on `keys` is told, in their order.
pub fn matching(keys: &Keys, events: &[WatchEvent]) -> Vec<WatchEvent> {
    events.iter().filter(|event| keys.contains(&event.key)).cloned().collect()
}
