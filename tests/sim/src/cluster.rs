//! The simulated cluster: one linearizable store, and members that tell their watches about it each at its own pace.

use leasehold::{
    clock::Moment,
    store::{
        Change, Key, KeyValue, Keys, LeaseId, Pick, Range, Request, WatchEvent, WatchId,
        memory::{Kv, matching},
    },
};

/// A member: a front end of the store with its own watches.
#[derive(Clone, Debug, Default)]
pub struct Member {
    /// It stands still until then.
    pub frozen_until: u64,
    /// It is down until then.
    pub down_until: u64,
    /// How much later than the store it knows of a change.
    pub lag: u64,
    /// Until when it lags.
    pub lag_until: u64,
    /// So much of the log it has applied.
    pub applied: usize,
    /// When it applies what it was told of last.
    pub last_apply: u64,
}

impl Member {
    /// Until when it does nothing at all.
    pub fn stopped_until(&self) -> u64 {
        self.frozen_until.max(self.down_until)
    }
}

/// A watch as a member keeps it.
#[derive(Clone, Debug)]
pub struct ServerWatch {
    /// Whose it is.
    pub client: usize,
    /// Which life of that client.
    pub life: u32,
    /// Which of its watch streams.
    pub stream: u32,
    /// The member that serves it.
    pub member: usize,
    /// The client's name for it.
    pub id: WatchId,
    /// What is watched.
    pub keys: Keys,
}

/// The cluster.
#[derive(Clone, Debug)]
pub struct Cluster {
    /// The data.
    pub kv: Kv,
    /// The members.
    pub members: Vec<Member>,
    /// No leader until then: nothing is applied.
    pub stalled_until: u64,
    /// Every change, the changes of one revision together.
    pub log: Vec<Vec<WatchEvent>>,
    /// The watches that stand.
    pub watches: Vec<ServerWatch>,
    /// The data at the last backup.
    pub backup: Option<Kv>,
    /// The revision from which the log goes on.
    since: i64,
}

impl Cluster {
    /// A new cluster.
    pub fn new(members: usize) -> Self {
        Self {
            kv: Kv::new(),
            members: vec![Member::default(); members],
            stalled_until: 0,
            log: Vec::new(),
            watches: Vec::new(),
            backup: None,
            since: 1,
        }
    }

    /// Becomes what it was at the last backup, or empty. Nobody is told, and every lease starts anew at `now`.
    pub fn go_back(&mut self, now: Moment) {
        self.kv = self.backup.clone().unwrap_or_default();
        self.kv.take_changes();
        self.kv.extend_all_leases(now);
        self.since = self.kv.revision();
        self.log.clear();
        self.watches.clear();
        for member in &mut self.members {
            member.applied = 0;
        }
    }

    /// Moves the changes of the store into the log. Returns whether there were any.
    pub fn record(&mut self) -> bool {
        let mut changes = self.kv.take_changes().into_iter().peekable();
        let before = self.log.len();
        while let Some(first) = changes.next() {
            let revision = first.revision;
            let mut batch = vec![first];
            while let Some(more) = changes.next_if(|event| event.revision == revision) {
                batch.push(more);
            }
            self.log.push(batch);
        }
        self.log.len() > before
    }

    /// The revision that `member` has applied.
    pub fn revision_of(&self, member: usize) -> i64 {
        match self.members[member].applied {
            0 => self.since,
            applied => self.log[applied - 1].first().map_or(self.since, |event| event.revision),
        }
    }

    /// Lets `member` apply the log up to `upto`; returns what it tells which watch.
    pub fn apply(&mut self, member: usize, upto: usize) -> Vec<(ServerWatch, Vec<WatchEvent>)> {
        let from = self.members[member].applied;
        // What a member was told of a former history is void.
        let upto = upto.min(self.log.len());
        if upto <= from {
            return Vec::new();
        }
        self.members[member].applied = upto;
        let events: Vec<WatchEvent> = self.log[from..upto].concat();
        self.watches
            .iter()
            .filter(|watch| watch.member == member)
            .map(|watch| (watch.clone(), matching(&watch.keys, &events)))
            .filter(|(_, events)| !events.is_empty())
            .collect()
    }

    /// The contenders of `name` that stand, owner first.
    pub fn contenders(&self, name: &str) -> Vec<KeyValue> {
        let prefix = Key::from(format!("{name}/"));
        let len = prefix.as_bytes().len();
        let all = Range { keys: Keys::prefix(prefix), limit: 0, keys_only: false, pick: Pick::All };
        let mut found: Vec<KeyValue> = self.kv.range(&all).kvs;
        found.retain(|kv| !kv.key.as_bytes()[len..].contains(&b'/'));
        found.sort_by_key(|kv| kv.create_revision);
        found
    }

    /// Every key that stands.
    pub fn everything(&self) -> Vec<KeyValue> {
        self.kv
            .range(&Range {
                keys: Keys { key: Key::from([0]), end: Some(Key::from([0])) },
                limit: 0,
                keys_only: false,
                pick: Pick::All,
            })
            .kvs
    }
}

/// Leaves out a deletion that `events` tells of, if there is one.
pub fn without_a_deletion(events: &mut Vec<WatchEvent>) {
    if let Some(at) = events.iter().position(|event| event.change == Change::Delete) {
        events.remove(at);
    }
}

/// The lease that a request asks for.
pub fn granted_by(request: &Request) -> Option<LeaseId> {
    match request {
        Request::LeaseGrant { lease, .. } => Some(*lease),
        _ => None,
    }
}
