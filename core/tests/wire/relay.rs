//! A relay between clients and one member of etcd that writes down every gRPC message that passes.

use std::{
    collections::{BTreeMap, HashSet},
    sync::{Arc, Mutex, PoisonError},
};

use etcd_client::proto::{PbRangeRequest, PbWatchRequest, PbWatchRequestUnion, PbWatchResponse};
use leasehold_etcd::{
    Cluster,
    Direction::{self, ToClient, ToServer},
    Fate, Gate, Passing,
};
use prost::Message;

/// The calls that are streams in both directions.
const STREAMS: [&str; 2] = ["LeaseKeepAlive", "Watch"];

/// Forwards connections to one member.
pub struct Relay {
    inner: leasehold_etcd::Relay,
    log: Arc<Log>,
}

/// Lets everything pass, and keeps it.
#[derive(Default)]
struct Log(Mutex<Vec<Passing>>);

impl Gate for Log {
    fn judge(&self, passing: &Passing) -> Fate {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(passing.clone());
        Fate::Pass
    }
}

/// A place in the log.
#[derive(Clone, Copy, Default)]
pub struct Mark(usize);

/// What was said from a mark on.
pub struct Record(Vec<Passing>);

impl Relay {
    /// A relay before the first member of `cluster`.
    pub fn start(cluster: &Cluster) -> Self {
        let log = Arc::<Log>::default();
        let inner = leasehold_etcd::Relay::start(cluster.address(0), log.clone()).expect("a free port");
        Self { inner, log }
    }

    /// The URL to use instead of the member's.
    pub fn url(&self) -> String {
        format!("http://{}", self.inner.address())
    }

    /// The end of the log.
    pub fn mark(&self) -> Mark {
        Mark(self.log.0.lock().unwrap_or_else(PoisonError::into_inner).len())
    }

    /// What was said since `mark`.
    pub fn since(&self, mark: Mark) -> Record {
        Record(self.log.0.lock().unwrap_or_else(PoisonError::into_inner)[mark.0..].to_vec())
    }

    /// Everything.
    pub fn all(&self) -> Record {
        self.since(Mark::default())
    }
}

impl Record {
    /// The unary requests of each method.
    pub fn unary(&self) -> BTreeMap<&str, usize> {
        let mut counts = BTreeMap::new();
        for said in self.0.iter().filter(|said| said.direction == ToServer && !STREAMS.contains(&&*said.method)) {
            *counts.entry(&*said.method).or_default() += 1;
        }
        counts
    }

    /// The messages of one method in one direction.
    pub fn count(&self, method: &str, direction: Direction) -> usize {
        self.0.iter().filter(|said| *said.method == *method && said.direction == direction).count()
    }

    /// The reads of the queue of this name.
    pub fn reads_of(&self, name: &str) -> usize {
        let key_of = |said: &Passing| PbRangeRequest::decode(said.message.clone()).unwrap().key;
        self.of("Range", ToServer).filter(|said| key_of(said).starts_with(name.as_bytes())).count()
    }

    /// The changes that etcd told in watches.
    pub fn events(&self) -> usize {
        self.of("Watch", ToClient).map(|said| PbWatchResponse::decode(said.message.clone()).unwrap().events.len()).sum()
    }

    /// How many watches on more than a key were ever opened, and how many of them stand. Whoever has one hears of every change
    /// in the queue.
    pub fn queue_watches(&self) -> (usize, usize) {
        let (mut opened, mut standing) = (0, HashSet::new());
        for said in self.of("Watch", ToServer) {
            match PbWatchRequest::decode(said.message.clone()).unwrap().request_union {
                Some(PbWatchRequestUnion::CreateRequest(create)) if !create.range_end.is_empty() => {
                    opened += 1;
                    standing.insert((said.exchange, create.watch_id));
                }
                Some(PbWatchRequestUnion::CancelRequest(cancel)) => {
                    standing.remove(&(said.exchange, cancel.watch_id));
                }
                _ => {}
            }
        }
        (opened, standing.len())
    }

    fn of(&self, method: &str, direction: Direction) -> impl Iterator<Item = &Passing> {
        self.0.iter().filter(move |said| *said.method == *method && said.direction == direction)
    }
}
