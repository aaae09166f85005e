//! The etcd inside the process against a real one: the same random requests, and every reply and every event compared.
//!
//! A failure names the seed and the step; the same seed plays the same steps again.

mod random;

use std::{collections::BTreeMap, future::Future, sync::Arc, time::Duration};

use leasehold::{
    clock,
    store::{
        Change, ErrorKind, Key, Keys, LeaseId, Op, OpReply, Pick, Range, RangeReply, RenewalStream, Reply, ReplyBody,
        Request, Store, StoreError, Txn, TxnReply, WatchEvent, WatchId, WatchReply, WatchRequest, WatchStream,
        etcd::{EtcdConfig, EtcdStore},
        memory::{Kv, MemoryStore, matching},
    },
};
use leasehold_etcd::{Cluster, Error, Version};
use random::{Random, Step};

const ROUNDS: u64 = 4;
const STEPS: usize = 500;

/// No single wait takes longer unless something is broken.
const DEADLINE: Duration = Duration::from_secs(20);

async fn in_time<T>(what: &str, future: impl Future<Output = T>) -> T {
    match tokio::time::timeout(DEADLINE, future).await {
        Ok(done) => done,
        Err(_) => panic!("{what}: nothing within {DEADLINE:?}"),
    }
}

/// The sentinel is written last of all and watched by the first watch: when its event is there, all others are.
fn sentinel() -> Key {
    Key::from("sentinel")
}

/// How often what was seen, so that a run that tried nothing does not pass for one that found no difference.
#[derive(Debug, Default)]
struct Seen(BTreeMap<&'static str, u32>);

impl Seen {
    fn note(&mut self, what: &'static str) {
        *self.0.entry(what).or_default() += 1;
    }

    fn txn(&mut self, reply: &TxnReply, depth: usize) {
        self.note(match (reply.succeeded, depth) {
            (true, 0) => "conditions held",
            (false, 0) => "conditions did not hold",
            (true, _) => "inner conditions held",
            (false, _) => "inner conditions did not hold",
        });
        for reply in &reply.replies {
            match reply {
                OpReply::Put => self.note("put"),
                OpReply::Delete(0) => self.note("delete of nothing"),
                OpReply::Delete(_) => self.note("delete"),
                OpReply::Range(range) if range.count > range.kvs.len() as i64 => self.note("limited range"),
                OpReply::Range(_) => self.note("range"),
                OpReply::Txn(inner) => self.txn(inner, depth + 1),
            }
        }
    }

    fn reply(&mut self, reply: &Result<Reply, StoreError>) {
        match reply {
            Ok(Reply { body: ReplyBody::Txn(txn), .. }) => self.txn(txn, 0),
            Ok(Reply { body: ReplyBody::LeaseTimeToLive { ttl: -1, .. }, .. }) => self.note("no lease to ask about"),
            Ok(Reply { body: ReplyBody::LeaseTimeToLive { keys, .. }, .. }) if keys.is_empty() => {
                self.note("empty lease")
            }
            Ok(Reply { body: ReplyBody::LeaseTimeToLive { .. }, .. }) => self.note("lease with keys"),
            Ok(Reply { body: ReplyBody::LeaseRevoke, .. }) => self.note("revoked"),
            Ok(_) => self.note("other answers"),
            Err(error) if error.kind == ErrorKind::Invalid => self.note("refused as invalid"),
            Err(error) if error.kind == ErrorKind::LeaseNotFound => self.note("refused: no such lease"),
            Err(error) if error.kind == ErrorKind::LeaseExists => self.note("refused: lease exists"),
            Err(error) => panic!("a healthy store does not say {error:?}"),
        }
    }

    fn enough(&self) {
        for what in [
            "conditions held",
            "conditions did not hold",
            "inner conditions held",
            "inner conditions did not hold",
            "put",
            "delete of nothing",
            "delete",
            "limited range",
            "range",
            "no lease to ask about",
            "empty lease",
            "lease with keys",
            "revoked",
            "refused as invalid",
            "refused: no such lease",
            "refused: lease exists",
            "renewed",
            "nothing to renew",
            "event",
            "several events of one revision",
        ] {
            let times = self.0.get(what).copied().unwrap_or_default();
            assert!(times >= 10, "{what:?} was seen {times} times only: {self:#?}");
        }
    }
}

/// A store and the data that it should have.
struct Pair {
    kv: Kv,
    store: Arc<dyn Store>,
    /// How far the store's revisions are ahead of those of `kv`.
    offset: i64,
    stream: WatchStream,
    renewals: RenewalStream,
    /// What was watched, ever, and what each watch must be told.
    watched: BTreeMap<WatchId, (Keys, Vec<WatchEvent>)>,
    /// What each watch was told.
    told: BTreeMap<WatchId, Vec<WatchEvent>>,
    /// The watches that stand, the oldest first; not the one on the sentinel.
    standing: Vec<WatchId>,
    seen: Seen,
}

impl Pair {
    async fn new(store: Arc<dyn Store>) -> Self {
        let everything = Range {
            keys: Keys { key: Key::from([0]), end: Some(Key::from([0])) },
            limit: 1,
            keys_only: true,
            pick: Pick::All,
        };
        let start = in_time("the first read", store.call(Request::Range(everything), DEADLINE)).await;
        let Ok(Reply { revision, body: ReplyBody::Range(RangeReply { count: 0, .. }), .. }) = start else {
            panic!("an empty store was expected: {start:?}")
        };
        let kv = Kv::new();
        let mut pair = Self {
            offset: revision - kv.revision(),
            kv,
            stream: store.watches(),
            renewals: store.renewals(0),
            store,
            watched: BTreeMap::new(),
            told: BTreeMap::new(),
            standing: Vec::new(),
            seen: Seen::default(),
        };
        pair.create_watch(Keys::one(sentinel())).await;
        pair
    }

    async fn play(&mut self, steps: usize, random: &mut Random, seed: u64) {
        for _ in 0..3 {
            let id = self.create_watch(random.some_keys()).await;
            self.standing.push(id);
        }
        for number in 0..steps {
            let step = random.step(&self.kv);
            let context = format!("seed {seed}, step {number}: {step:?}");
            match step {
                Step::Call(request) => self.call(&request, &context).await,
                Step::Renew(lease) => self.renew(lease, &context).await,
                Step::Watch(keys) => {
                    // What it is told until now must be complete before it is cancelled.
                    self.settle(&context).await;
                    let oldest = self.standing.remove(0);
                    self.stream.requests.send(WatchRequest::Cancel(oldest)).unwrap();
                    // The answer to this one says that the cancel was seen, too: a stream keeps its order.
                    let id = self.create_watch(keys).await;
                    self.standing.push(id);
                }
            }
        }
    }

    /// Leaves an empty store behind, for the next round.
    async fn finish(mut self) -> Seen {
        self.settle("at the end").await;
        for lease in self.kv.leases().collect::<Vec<_>>() {
            self.call(&Request::LeaseRevoke { lease }, "clearing up").await;
        }
        let everything = Op::Delete(Keys { key: Key::from([0]), end: Some(Key::from([0])) });
        self.call(&Request::Txn(Txn { then: vec![everything], ..Txn::default() }), "clearing up").await;
        self.seen
    }

    async fn call(&mut self, request: &Request, context: &str) {
        let before = clock::now();
        let theirs = in_time(context, self.store.call(self.to_theirs(request.clone()), DEADLINE)).await;
        // The lower bound of a time to live: granted before the store did, asked after it.
        let now = if matches!(request, Request::LeaseTimeToLive { .. }) { clock::now() } else { before };
        let ours = self.kv.call(now, request);
        self.seen.reply(&ours);
        match (ours, theirs.map(|reply| self.to_ours(request, reply))) {
            (Ok(ours), Ok(theirs)) => self.assert_same(ours, theirs, context),
            (Err(ours), Err(theirs)) => {
                assert_eq!((ours.kind, ours.ambiguous), (theirs.kind, theirs.ambiguous), "{context}: {theirs}");
            }
            (ours, theirs) => panic!("{context}\n  ours: {ours:?}\ntheirs: {theirs:?}"),
        }
        self.expect_changes();
    }

    fn assert_same(&self, mut ours: Reply, mut theirs: Reply, context: &str) {
        if let (ReplyBody::LeaseTimeToLive { ttl: ours, .. }, ReplyBody::LeaseTimeToLive { ttl: theirs, .. }) =
            (&mut ours.body, &mut theirs.body)
        {
            assert!(*ours <= *theirs && (*ours < 0) == (*theirs < 0), "{context}: {ours} s, {theirs} s");
            *ours = *theirs;
        }
        // The one in the process has no id.
        theirs.cluster = ours.cluster;
        assert_eq!(ours, theirs, "{context}");
    }

    async fn renew(&mut self, lease: LeaseId, context: &str) {
        let ours = self.kv.renew(clock::now(), lease);
        self.seen.note(if ours > 0 { "renewed" } else { "nothing to renew" });
        self.renewals.requests.send(lease).unwrap();
        match in_time(context, self.renewals.replies.recv()).await {
            Some(Ok(theirs)) => assert_eq!((lease, ours), (theirs.lease, theirs.ttl.max(0)), "{context}"),
            other => panic!("{context}: {other:?}"),
        }
    }

    async fn create_watch(&mut self, keys: Keys) -> WatchId {
        let id = WatchId(self.watched.len() as i64 + 1);
        let context = format!("creating a watch on {keys:?}");
        self.stream.requests.send(WatchRequest::Create(id, keys.clone())).unwrap();
        self.watched.insert(id, (keys, Vec::new()));
        loop {
            match in_time(&context, self.stream.replies.recv()).await {
                Some(Ok(WatchReply::Created { id: created, revision })) => {
                    assert_eq!((created, revision - self.offset), (id, self.kv.revision()), "{context}");
                    return id;
                }
                Some(Ok(reply)) => self.watch_reply(reply),
                other => panic!("{context}: {other:?}"),
            }
        }
    }

    fn watch_reply(&mut self, reply: WatchReply) {
        let WatchReply::Events { id, events } = reply else { panic!("{reply:?}") };
        let told = self.told.entry(id).or_default();
        let first = events.first().expect("a message must tell something").revision - self.offset;
        assert!(told.last().is_none_or(|last| last.revision < first), "the changes of revision {first} came apart");
        if events.len() > 1 && events[0].revision == events[1].revision {
            self.seen.note("several events of one revision");
        }
        for mut event in events {
            self.seen.note("event");
            event.revision -= self.offset;
            if let Change::Put { create_revision, .. } = &mut event.change {
                *create_revision -= self.offset;
            }
            told.push(event);
        }
    }

    /// Waits until every watch was told what it must be told, and sees that it was told no more.
    async fn settle(&mut self, context: &str) {
        let put = Op::Put { key: sentinel(), value: Arc::default(), lease: None };
        self.call(&Request::Txn(Txn { then: vec![put], ..Txn::default() }), context).await;
        while !self.watched.iter().all(|(id, (_, must))| self.told.get(id).map_or(0, Vec::len) >= must.len()) {
            match in_time(context, self.stream.replies.recv()).await {
                Some(Ok(reply)) => self.watch_reply(reply),
                other => panic!("{context}: {other:?}"),
            }
        }
        for (id, (keys, must)) in &self.watched {
            let told = self.told.get(id).map_or(&[][..], Vec::as_slice);
            assert_eq!(must, told, "{context}: the watch on {keys:?}");
        }
    }

    fn expect_changes(&mut self) {
        let changes = self.kv.take_changes();
        for (id, (keys, must)) in &mut self.watched {
            if self.standing.contains(id) || *id == WatchId(1) {
                must.extend(matching(keys, &changes));
            }
        }
    }

    fn to_theirs(&self, request: Request) -> Request {
        fn shift_range(range: &mut Range, offset: i64) {
            if let Pick::CreatedUntil(revision) = &mut range.pick {
                *revision += offset;
            }
        }
        fn shift(txn: &mut Txn, offset: i64) {
            for condition in txn.conditions.iter_mut().filter(|condition| condition.revision > 0) {
                condition.revision += offset;
            }
            for op in txn.then.iter_mut().chain(&mut txn.otherwise) {
                match op {
                    Op::Txn(inner) => shift(inner, offset),
                    Op::Range(range) => shift_range(range, offset),
                    Op::Put { .. } | Op::Delete(_) => {}
                }
            }
        }
        match request {
            Request::Txn(mut txn) => {
                shift(&mut txn, self.offset);
                Request::Txn(txn)
            }
            Request::Range(mut range) => {
                shift_range(&mut range, self.offset);
                Request::Range(range)
            }
            other => other,
        }
    }

    fn to_ours(&self, request: &Request, mut reply: Reply) -> Reply {
        fn range(asked: &Range, reply: &mut RangeReply, offset: i64) {
            for kv in &mut reply.kvs {
                kv.create_revision -= offset;
                kv.mod_revision -= offset;
                // Before 3.7, etcd tells the lease all the same; nobody may rely on it.
                kv.lease = kv.lease.filter(|_| !asked.keys_only);
            }
            if asked.pick == Pick::Newest {
                assert!(
                    reply.kvs.is_sorted_by_key(|kv| std::cmp::Reverse(kv.create_revision)),
                    "the newest come first"
                );
                // What was created at once, in no order; ours, in that of the keys.
                reply.kvs.sort_by(|a, b| (b.create_revision, &a.key).cmp(&(a.create_revision, &b.key)));
            }
        }
        fn txn(asked: &Txn, reply: &mut TxnReply, offset: i64) {
            let branch = if reply.succeeded { &asked.then } else { &asked.otherwise };
            for (asked, reply) in branch.iter().zip(&mut reply.replies) {
                match (asked, reply) {
                    (Op::Range(asked), OpReply::Range(reply)) => range(asked, reply, offset),
                    (Op::Txn(asked), OpReply::Txn(reply)) => txn(asked, reply, offset),
                    _ => {}
                }
            }
        }
        reply.revision -= self.offset;
        match (request, &mut reply.body) {
            (Request::Txn(asked), ReplyBody::Txn(reply)) => txn(asked, reply, self.offset),
            (Request::Range(asked), ReplyBody::Range(reply)) => range(asked, reply, self.offset),
            // etcd lists them in no order.
            (_, ReplyBody::LeaseTimeToLive { keys, .. }) => keys.sort(),
            _ => {}
        }
        reply
    }
}

async fn random_requests_are_answered_alike(store: Arc<dyn Store>) {
    let mut seen = Seen::default();
    for seed in 0..ROUNDS {
        let mut pair = Pair::new(store.clone()).await;
        pair.play(STEPS, &mut Random::new(seed), seed).await;
        for (what, times) in pair.finish().await.0 {
            *seen.0.entry(what).or_default() += times;
        }
    }
    seen.enough();
}

/// The end of a lease, as a watch sees it: all its keys in their order at one revision, not before its time.
async fn a_lease_ends_alike(store: Arc<dyn Store>) {
    let mut pair = Pair::new(store).await;
    pair.create_watch(Keys::prefix(Key::from("a"))).await;
    pair.standing.push(WatchId(2));
    let lease = LeaseId(9);
    // Raised to the shortest that the server grants.
    pair.call(&Request::LeaseGrant { lease, ttl: 1 }, "granting").await;
    let granted = clock::now();
    let put = |key: &str, lease| Op::Put { key: Key::from(key), value: Arc::default(), lease };
    let then = vec![put("a/2", Some(lease)), put("b", Some(lease)), put("a/3", None), put("a/1", Some(lease))];
    pair.call(&Request::Txn(Txn { then, ..Txn::default() }), "putting").await;
    let deletes = |pair: &Pair| {
        let told = pair.told.get(&WatchId(2)).map_or(&[][..], Vec::as_slice);
        told.iter().filter(|event| event.change == Change::Delete).count()
    };
    while deletes(&pair) < 2 {
        match in_time("the end of the lease", pair.stream.replies.recv()).await {
            Some(Ok(reply)) => pair.watch_reply(reply),
            other => panic!("{other:?}"),
        }
    }
    let now = clock::now();
    assert!(now.since(granted) > Duration::from_millis(1_900), "not before its time: {:?}", now.since(granted));
    assert_eq!(pair.kv.expire(now), [lease]);
    pair.expect_changes();
    pair.settle("after the end of the lease").await;
    pair.renew(lease, "renewing what has ended").await;
    pair.call(&Request::LeaseTimeToLive { lease }, "asking for what has ended").await;
    pair.finish().await;
}

#[tokio::test]
async fn the_store_in_the_process_adds_nothing_to_its_data() {
    let store = MemoryStore::open("random requests");
    random_requests_are_answered_alike(store.clone()).await;
    a_lease_ends_alike(store).await;
}

async fn an_etcd_answers_alike(version: Version) {
    // The harness shortens elections, and with them the shortest time to live; these are etcd's defaults.
    let defaults = ["--heartbeat-interval=100", "--election-timeout=1000"];
    let builder = defaults.iter().fold(Cluster::builder().version(version), |builder, argument| builder.arg(argument));
    let cluster = match builder.start().await {
        Ok(cluster) => cluster,
        Err(Error::Missing(why)) => {
            println!("SKIPPED etcd {version}: {why}");
            return;
        }
        Err(error) => panic!("{error}"),
    };
    let config = EtcdConfig {
        endpoints: cluster.endpoints(),
        tls: None,
        login: None,
        plaintext_password: false,
        connect_timeout: Duration::from_secs(5),
    };
    let store = Arc::new(EtcdStore::new(config).unwrap());
    random_requests_are_answered_alike(store.clone()).await;
    a_lease_ends_alike(store).await;
}

#[tokio::test]
async fn etcd_3_4_answers_alike() {
    an_etcd_answers_alike(Version::V3_4).await;
}

#[tokio::test]
async fn etcd_3_5_answers_alike() {
    an_etcd_answers_alike(Version::V3_5).await;
}

#[tokio::test]
async fn etcd_3_6_answers_alike() {
    an_etcd_answers_alike(Version::V3_6).await;
}

#[tokio::test]
async fn etcd_3_7_answers_alike() {
    an_etcd_answers_alike(Version::V3_7).await;
}
