//! What becomes of everybody when something panics below the lock.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use leasehold::{
    Client, ClientOptions, Code, End, LostReason,
    store::{
        RenewalStream, Reply, Request, Store, StoreFuture, WatchStream,
        etcd::{EtcdConfig, EtcdStore},
    },
};
use leasehold_etcd::{Cluster, eventually};

use crate::support::{etcd, soon};

/// A real etcd, behind a door that panics when it is told to.
#[derive(Debug)]
struct Panicking {
    inner: EtcdStore,
    in_a_call: AtomicBool,
    in_the_engine: AtomicBool,
    in_a_renewal: AtomicBool,
}

impl Panicking {
    fn new(cluster: &Cluster) -> Arc<Self> {
        let config = EtcdConfig {
            endpoints: cluster.endpoints(),
            tls: None,
            login: None,
            plaintext_password: false,
            connect_timeout: Duration::from_secs(2),
        };
        let inner = EtcdStore::new(config).expect("good endpoints");
        let never = || AtomicBool::new(false);
        Arc::new(Self { inner, in_a_call: never(), in_the_engine: never(), in_a_renewal: never() })
    }

    fn client(self: &Arc<Self>) -> Client {
        let options = ClientOptions::new("memory://unused").ttl(Duration::from_secs(600));
        Client::with_store(options, self.clone()).expect("good options")
    }
}

impl Store for Panicking {
    fn call(&self, request: Request, timeout: Duration) -> StoreFuture<Reply> {
        assert!(!self.in_a_call.swap(false, Ordering::AcqRel), "planted in a call");
        self.inner.call(request, timeout)
    }

    fn renewals(&self, hedge: u32) -> RenewalStream {
        // The engine asks for it when the first renewal of a session is due.
        assert!(!self.in_a_renewal.swap(false, Ordering::AcqRel), "planted in a renewal");
        self.inner.renewals(hedge)
    }

    fn watches(&self) -> WatchStream {
        // The engine itself asks for it, in the middle of its work.
        assert!(!self.in_the_engine.swap(false, Ordering::AcqRel), "planted in the engine");
        self.inner.watches()
    }
}

/// Seen to fail with an engine that polls its calls unprotected: then all its locks are lost.
#[tokio::test]
async fn a_call_that_panics_is_a_call_without_an_answer() {
    let cluster = etcd().await;
    let store = Panicking::new(&cluster);
    let client = store.client();
    let other = client.lock("/lock/b").acquire().await.unwrap();
    store.in_a_call.store(true, Ordering::Release);
    let error = soon(client.lock("/lock/a").acquire()).await.unwrap_err();
    assert_eq!(error.code(), Code::Internal, "{error}");
    assert!(error.message().contains("planted in a call"), "{error}");
    assert!(other.is_held(), "nobody else is concerned");
    soon(client.lock("/lock/a").acquire()).await.unwrap().release().await.unwrap();
    other.release().await.unwrap();
}

/// Seen to fail with an engine that just ends: waiters hang, holders believe for the 600 s of their TTL, and so does everybody
/// else; and with one that is not replaced.
#[tokio::test]
async fn an_engine_that_panics_tells_everybody_and_is_replaced() {
    let cluster = etcd().await;
    let store = Panicking::new(&cluster);
    let client = store.client();
    let held = client.lock("/lock/held").acquire().await.unwrap();
    let ended = held.ended();
    let mut states = client.states();
    store.in_the_engine.store(true, Ordering::Release);
    // Whoever waits is watched for.
    let error = soon(client.lock("/lock/held").acquire()).await.unwrap_err();
    assert_eq!(error.code(), Code::Internal, "{error}");
    assert!(error.message().contains("planted in the engine"), "{error}");
    assert_eq!(soon(ended).await, End::Lost(LostReason::ClientClosed));
    assert!(!held.is_held());
    assert_eq!(held.release().await.unwrap_err().code(), Code::Lost);
    soon(states.next()).await.expect("a loss is told");
    eventually("its leases are revoked", || async { cluster.leases().await.unwrap().is_empty() }).await;
    // The guard's release has met the failure; from here on all is well.
    let again = soon(client.lock("/lock/held").acquire()).await.unwrap();
    assert!(again.is_held());
    again.release().await.unwrap();
    client.close().await.unwrap();
}

/// Seen to fail with a failure that nobody hears of who did nothing at that moment.
#[tokio::test]
async fn the_next_operation_hears_once_why_the_engine_ended() {
    let cluster = etcd().await;
    let store = Panicking::new(&cluster);
    let client = store.client();
    let held = client.lock("/lock/held").acquire().await.unwrap();
    store.in_the_engine.store(true, Ordering::Release);
    // A hold that is older than a second is watched, whoever waits: nothing is asked of the engine here.
    assert_eq!(soon(held.ended()).await, End::Lost(LostReason::ClientClosed));
    let error = soon(client.lock("/lock/a").acquire()).await.unwrap_err();
    assert_eq!(error.code(), Code::Internal, "{error}");
    assert!(error.message().contains("planted in the engine"), "{error}");
    soon(client.lock("/lock/a").acquire()).await.unwrap().release().await.unwrap();
}

/// A place that is held, one that heirs wait for, one that was taken from a loan, and one that is lent and that nobody holds. Seen to
/// fail with loans that outlive their engine.
#[tokio::test]
async fn an_engine_that_panics_ends_what_is_shared_and_what_is_lent() {
    let cluster = etcd().await;
    let store = Panicking::new(&cluster);
    let client = store.client();
    let linger = Duration::from_secs(600);
    let lock = |name| client.lock(name).local_first().linger(linger);
    for name in ["/lock/taken", "/lock/lent"] {
        eventually("it lingers", async || {
            let guard = soon(lock(name).acquire()).await.unwrap();
            let is_from_memory = guard.sequence() > 0;
            guard.release().await.unwrap();
            is_from_memory
        })
        .await;
    }
    let taken = soon(lock("/lock/taken").acquire()).await.unwrap();
    assert!(taken.sequence() > 1, "the engine was asked for it");
    let kept = soon(lock("/lock/kept").acquire()).await.unwrap();
    let heirs = [tokio::spawn(lock("/lock/kept").acquire()), tokio::spawn(lock("/lock/kept").acquire())];
    // One key for all three.
    soon(client.lock("/lock/after").acquire()).await.unwrap().release().await.unwrap();
    let before = taken.token();

    store.in_a_renewal.store(true, Ordering::Release);
    let short = soon(client.lock("/lock/short").ttl(Duration::from_secs(2)).acquire()).await;
    for guard in [&taken, &kept] {
        assert_eq!(soon(guard.ended()).await, End::Lost(LostReason::ClientClosed));
        assert!(!guard.is_held());
    }
    for heir in heirs {
        let error = soon(heir).await.unwrap().unwrap_err();
        assert!(error.message().contains("planted in a renewal"), "{error}");
    }
    eventually("its leases are revoked", || async { cluster.leases().await.unwrap().is_empty() }).await;
    // Nobody takes what was lent from memory: the next one is told why, and then asks etcd.
    let mut failures = 0;
    let again = loop {
        match soon(lock("/lock/lent").acquire()).await {
            Ok(guard) => break guard,
            Err(error) => {
                assert_eq!(error.code(), Code::Internal, "{error}");
                failures += 1;
            }
        }
    };
    assert!(failures <= 1, "told {failures} times");
    assert!(again.is_held() && again.token() > before && again.sequence() == 0);
    assert!(cluster.keys("/lock/lent/").await.unwrap().contains(&again.key()));
    drop((taken, kept, short));
    assert!(again.is_held(), "guards of the engine that ended are no business of this one");
    again.release().await.unwrap();
    client.close().await.unwrap();
}
