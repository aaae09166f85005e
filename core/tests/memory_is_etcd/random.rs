//! Random requests over few keys and leases, so that they meet each other; the same seed gives the same requests.

use std::sync::Arc;

use leasehold::store::{CreateRevisionIs, Key, Keys, LeaseId, Op, Pick, Range, Request, Txn, memory::Kv};

/// Bytes that sort around each other's prefixes, and around what etcd treats specially: `\0` and `0xff`.
const KEYS: [&[u8]; 10] = [b"a", b"a/1", b"a/2", b"a/2/x", b"a0", b"b", b"b/1", b"\0", b"\xff", b"\xff\xff"];

const LEASES: i64 = 5;

/// Far longer than a run: what a lease's end does is tested apart, because nobody knows when exactly a server notices it.
const TTLS: [i64; 4] = [600, 5_000, 9_000_000_000, 9_000_000_001];

/// One thing to do with both stores.
#[derive(Clone, Debug)]
pub enum Step {
    /// Send this request.
    Call(Request),
    /// Renew this lease.
    Renew(LeaseId),
    /// Put a watch on these keys in the place of the oldest one.
    Watch(Keys),
}

/// The source of the steps.
pub struct Random(fastrand::Rng);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(fastrand::Rng::with_seed(seed))
    }

    /// The next step; `kv` tells which revisions and leases are worth asking for.
    pub fn step(&mut self, kv: &Kv) -> Step {
        let call = match self.0.u32(..100) {
            0..60 => Request::Txn(self.txn(kv, 0)),
            60..61 => Request::Txn(self.large_txn()),
            61..72 => Request::Range(self.range()),
            72..80 => Request::LeaseGrant { lease: self.any_lease(), ttl: self.ttl() },
            80..84 => Request::LeaseRevoke { lease: self.any_lease() },
            84..92 => Request::LeaseTimeToLive { lease: self.any_lease() },
            92..96 => return Step::Renew(self.any_lease()),
            _ => return Step::Watch(self.some_keys()),
        };
        Step::Call(call)
    }

    /// A key, or a range that is not empty.
    pub fn some_keys(&mut self) -> Keys {
        let (key, other) = (self.key(), self.key());
        match self.0.u32(..20) {
            0..9 => Keys::one(key),
            9..15 => Keys::prefix(key),
            15..19 if key != other => Keys { key: key.clone().min(other.clone()), end: Some(key.max(other)) },
            _ => Keys { key, end: Some(Key::from([0])) },
        }
    }

    /// Like these, and also ranges that end before they start, and now and then an empty key.
    fn any_keys(&mut self) -> Keys {
        match self.0.u32(..60) {
            0 => Keys::one(Key::from([])),
            1..6 => Keys { key: self.key(), end: Some(self.key()) },
            _ => self.some_keys(),
        }
    }

    fn key(&mut self) -> Key {
        Key::from(KEYS[self.0.usize(..KEYS.len())])
    }

    /// A key, or now and then what is none.
    fn maybe_key(&mut self) -> Key {
        if self.0.u32(..60) == 0 { Key::from([]) } else { self.key() }
    }

    fn any_lease(&mut self) -> LeaseId {
        LeaseId(self.0.i64(1..=LEASES))
    }

    fn ttl(&mut self) -> i64 {
        TTLS[self.0.usize(..TTLS.len())]
    }

    /// A lease that exists, mostly.
    fn lease_for_put(&mut self, kv: &Kv) -> Option<LeaseId> {
        let known: Vec<_> = kv.leases().collect();
        match self.0.u32(..20) {
            0..9 => None,
            9 => Some(self.any_lease()),
            10 => Some(LeaseId(0)),
            _ => self.0.choice(known),
        }
    }

    fn value(&mut self) -> Arc<[u8]> {
        (0..self.0.usize(..4)).map(|_| self.0.u8(..)).collect()
    }

    fn range(&mut self) -> Range {
        let (pick, limit) = match self.0.u32(..10) {
            0..6 => (Pick::All, self.0.i64(-1..4)),
            6..9 => (Pick::CreatedUntil(self.0.i64(1..400)), self.0.i64(-1..4)),
            // Where several were created at once, etcd may tell them in any order, and any of them within a limit.
            _ => (Pick::Newest, 0),
        };
        Range { keys: self.any_keys(), limit, keys_only: self.0.bool(), pick }
    }

    fn condition(&mut self, kv: &Kv) -> CreateRevisionIs {
        let keys = self.any_keys();
        let there = kv.range(&Range { keys: keys.clone(), limit: 0, keys_only: true, pick: Pick::All }).kvs;
        let revision = match self.0.u32(..10) {
            0..4 => 0,
            4..9 => self.0.choice(there).map_or(0, |kv| kv.create_revision),
            _ => self.0.i64(1..=kv.revision()),
        };
        CreateRevisionIs { keys, revision }
    }

    fn txn(&mut self, kv: &Kv, depth: usize) -> Txn {
        // Large enough to collide, small enough that most do not.
        let most = 4 - depth;
        let conditions = (0..self.0.usize(..3)).map(|_| self.condition(kv)).collect();
        let mut ops = |most: usize| (0..self.0.usize(..=most)).map(|_| self.op(kv, depth)).collect();
        Txn { conditions, then: ops(most), otherwise: ops(most - 1) }
    }

    fn op(&mut self, kv: &Kv, depth: usize) -> Op {
        match self.0.u32(..100) {
            0..45 => Op::Put { key: self.maybe_key(), value: self.value(), lease: self.lease_for_put(kv) },
            45..60 => Op::Delete(self.any_keys()),
            60..80 => Op::Range(self.range()),
            _ if depth < 3 => Op::Txn(self.txn(kv, depth + 1)),
            _ => Op::Delete(Keys::one(self.key())),
        }
    }

    /// As many operations as etcd allows, or one more: 64, one of which is a transaction of 64 or 65.
    fn large_txn(&mut self) -> Txn {
        let inner = 64 + self.0.usize(..2);
        let mut reads = |count: usize| (0..count).map(|_| Op::Range(self.range())).collect::<Vec<_>>();
        let mut then = reads(63);
        then.push(Op::Txn(Txn { then: reads(inner), ..Txn::default() }));
        Txn { then, ..Txn::default() }
    }
}
