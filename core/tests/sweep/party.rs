//! A client whose every call is counted, the referee between two of them, and a look into etcd past both.

use std::{
    fmt::Debug,
    net::SocketAddr,
    sync::{Arc, Mutex},
    time::Duration,
};

use leasehold::{
    Client, ClientOptions, Code, Guard, Lock, Result,
    store::{
        Keys, Pick, Range, ReplyBody, Request, Store,
        etcd::{EtcdConfig, EtcdStore},
    },
};
use tokio::time::{Instant, sleep, timeout};

use crate::{store::FaultyStore, tally::Tally, wire::Wire};

/// The shortest that there is, so that leases that nobody ends are soon gone.
pub const TTL: Duration = Duration::from_secs(2);

/// How patient a client is.
#[derive(Clone, Copy)]
pub struct Pace {
    ttl: Duration,
    /// A third of it is an attempt's.
    request: Duration,
}

/// For the client whose calls go wrong: everything happens soon.
pub const HASTY: Pace = Pace { ttl: TTL, request: Duration::from_millis(900) };
/// For one whose session must live on, of which only a sweep may free the keys.
pub const LASTING: Pace = Pace { ttl: Duration::from_secs(6), request: Duration::from_millis(900) };
/// For one whose session must live on, and that must get on at its first attempt or at its second, however busy the machine is.
pub const STEADY: Pace = Pace { ttl: Duration::from_secs(6), request: Duration::from_secs(6) };
/// For one without faults.
pub const CALM: Pace = Pace { ttl: Duration::from_secs(10), request: Duration::from_secs(30) };

/// In which every operation must have its answer: a watch that went silent is noticed after 5 s at most. The rest is for a busy
/// machine.
pub const ANSWER: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(20);

/// What the documentation names for an etcd that does not answer.
const DOCUMENTED: [Code; 4] = [Code::DeadlineExceeded, Code::Unavailable, Code::NotAcquired, Code::Lost];

pub fn etcd_store(endpoints: &[String]) -> EtcdStore {
    let config = EtcdConfig {
        endpoints: endpoints.to_vec(),
        tls: None,
        login: None,
        plaintext_password: false,
        connect_timeout: Duration::from_secs(2),
    };
    EtcdStore::new(config).expect("good endpoints")
}

/// Where the faults of a client are played.
#[derive(Clone, Debug)]
pub enum Door {
    /// Between its core and its store.
    Store,
    /// On its connections to these members.
    Wire(Vec<SocketAddr>),
}

pub struct Party {
    pub tally: Arc<Tally>,
    pub client: Client,
    pub lock: Lock,
    /// What its connections go through.
    pub wire: Option<Wire>,
}

impl Party {
    /// A client whose faults are played at `door`.
    pub fn new(door: &Door, endpoints: &[String], name: &str, pace: Pace) -> Self {
        let tally = Arc::<Tally>::default();
        let options =
            |endpoints: &[String]| ClientOptions::from_endpoints(endpoints).ttl(pace.ttl).request_timeout(pace.request);
        let (client, wire) = match door {
            Door::Store => {
                let store = FaultyStore { inner: etcd_store(endpoints), tally: tally.clone() };
                (Client::with_store(options(endpoints), Arc::new(store)), None)
            }
            Door::Wire(members) => {
                let wire = Wire::new(members, &tally);
                (options(&wire.endpoints()).build(), Some(wire))
            }
        };
        let client = client.expect("good options");
        Self { lock: client.lock(name), tally, client, wire }
    }
}

/// Sees who holds.
#[derive(Default)]
pub struct Referee {
    held: Mutex<Vec<Guard>>,
    last_token: Mutex<i64>,
}

impl Referee {
    /// A guard was handed out; its token.
    pub fn enter(&self, guard: Guard) -> i64 {
        let token = guard.token();
        let mut held = self.held.lock().unwrap();
        if guard.is_held() {
            assert!(!held.iter().any(Guard::is_held), "two hold at once: {guard:?} and one of {held:?}");
            let last = std::mem::replace(&mut *self.last_token.lock().unwrap(), token);
            assert!(token > last, "the token {token} comes after {last}");
        }
        held.push(guard);
        token
    }

    pub fn is_held(&self, token: i64) -> bool {
        self.held.lock().unwrap().iter().any(|guard| guard.token() == token && guard.is_held())
    }

    pub async fn leave(&self, token: i64) -> Result<()> {
        let guard = {
            let mut held = self.held.lock().unwrap();
            let at = held.iter().position(|guard| guard.token() == token).expect("it entered");
            held.swap_remove(at)
        };
        answered("a release", guard.release()).await
    }
}

/// The answer, which must come.
pub async fn answered<F: Future>(what: &str, operation: F) -> F::Output {
    timeout(ANSWER, operation).await.unwrap_or_else(|_| panic!("{what} has no answer after {ANSWER:?}"))
}

/// `None` for an error that may be. Any other is none of the documented ones.
pub fn documented<T: Debug>(result: Result<T>) -> Option<T> {
    match result {
        Ok(value) => Some(value),
        Err(error) if DOCUMENTED.contains(&error.code()) => None,
        Err(error) => panic!("not one of the errors for an etcd that does not answer: {error:?}"),
    }
}

/// Waits until `condition` holds; how long that took.
pub async fn until<F: Future<Output = bool>>(
    limit: Duration,
    what: &str,
    mut condition: impl FnMut() -> F,
) -> Duration {
    let start = Instant::now();
    while !condition().await {
        assert!(start.elapsed() < limit, "still not after {limit:?}: {what}");
        sleep(POLL).await;
    }
    start.elapsed()
}

/// How many keys stand in the queue of `name`.
pub async fn keys(etcd: &EtcdStore, name: &str) -> i64 {
    let keys = Keys::prefix(format!("{name}/").into());
    let request = Request::Range(Range { keys, limit: 0, keys_only: true, pick: Pick::All });
    match etcd.call(request, ANSWER).await.expect("etcd answers").body {
        ReplyBody::Range(range) => range.count,
        other => panic!("{other:?} is no answer to a read"),
    }
}

/// How many of the leases that `parties` asked for exist.
pub async fn leases(etcd: &EtcdStore, parties: &[&Party]) -> usize {
    let mut alive = 0;
    for lease in parties.iter().flat_map(|party| party.tally.leases()) {
        match etcd.call(Request::LeaseTimeToLive { lease }, ANSWER).await.expect("etcd answers").body {
            ReplyBody::LeaseTimeToLive { ttl, .. } => alive += usize::from(ttl >= 0),
            other => panic!("{other:?} is no answer about a lease"),
        }
    }
    alive
}

/// Closes all and sees that nothing is left: at once, or with a lease that etcd was asked for too late.
pub async fn leave_nothing(etcd: &EtcdStore, name: &str, parties: &[&Party]) {
    for party in parties {
        answered("a close", party.client.close()).await.expect("closing does not fail");
    }
    for party in parties {
        party.tally.settled().await;
    }
    until(ANSWER, "0 keys and 0 leases are left", || async {
        keys(etcd, name).await == 0 && leases(etcd, parties).await == 0
    })
    .await;
}
