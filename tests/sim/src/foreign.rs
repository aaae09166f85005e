//! Clients of other make, as etcd's Go `concurrency.Mutex` and `etcdctl lock` do it: a lease each, the key
//! `<name>/<lease in hexadecimal>`, the lock when no key with a smaller create revision is left.

use leasehold::clock::Moment;
use leasehold::store::{CreateRevisionIs, Key, Keys, LeaseId, Op, Reply, ReplyBody, Request, Txn, memory::Kv};

use crate::plan::ForeignPlan;

/// How far it has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Has not joined yet.
    Absent,
    /// Its key stands since that revision.
    Waiting(i64),
    /// Holds.
    Holding(i64),
    /// Released, dead, or without its key.
    Over,
}

/// A client of other make.
#[derive(Clone, Debug)]
pub struct Foreign {
    /// What was planned for it.
    pub plan: ForeignPlan,
    /// Its lease.
    pub lease: LeaseId,
    /// How far it has come.
    pub stage: Stage,
    /// When it lets go.
    pub until: u64,
    /// When it renews its lease next.
    pub renew_at: u64,
}

impl Foreign {
    /// One that has done nothing yet.
    pub fn new(number: usize, plan: ForeignPlan) -> Self {
        Self { plan, lease: LeaseId(0xf00 + number as i64), stage: Stage::Absent, until: 0, renew_at: 0 }
    }

    /// Its key.
    pub fn key(&self) -> Key {
        Key::from(format!("{}/{}", self.plan.name, self.lease))
    }

    /// Joins the queue; returns the revision of its key.
    pub fn join(&self, kv: &mut Kv, now: Moment) -> Option<i64> {
        let lease = self.plan.ttl.map(|ttl| (self.lease, ttl));
        if let Some((lease, ttl)) = lease {
            kv.call(now, &Request::LeaseGrant { lease, ttl }).ok()?;
        }
        let key = self.key();
        let put = Op::Put { key: key.clone(), value: Vec::new().into(), lease: lease.map(|(lease, _)| lease) };
        let absent = CreateRevisionIs { keys: Keys::one(key), revision: 0 };
        let txn = Txn { conditions: vec![absent], then: vec![put], otherwise: Vec::new() };
        match kv.call(now, &Request::Txn(txn)) {
            Ok(Reply { revision, body: ReplyBody::Txn(txn), .. }) if txn.succeeded => Some(revision),
            _ => None,
        }
    }

    /// Deletes its key, by name alone, and ends its lease.
    pub fn leave(&self, kv: &mut Kv, now: Moment) {
        let delete = Txn { then: vec![Op::Delete(Keys::one(self.key()))], ..Txn::default() };
        // Both succeed, or there is nothing left to do.
        let _ = kv.call(now, &Request::Txn(delete));
        if self.plan.ttl.is_some() {
            let _ = kv.call(now, &Request::LeaseRevoke { lease: self.lease });
        }
    }
}
