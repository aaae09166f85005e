//! Sharing, streams and time of the in-process store. What the data does is tested with [`Kv`].

use std::thread;

use tokio::{
    runtime::{Builder, Runtime},
    time::timeout,
};

use super::*;
use crate::store::{Change, ErrorKind, Key, Op, Pick, Range, ReplyBody, Txn, WatchEvent};

/// No wait of these tests takes longer unless something is broken.
const DEADLINE: Duration = Duration::from_secs(20);

const LEASE: LeaseId = LeaseId(7);

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_time().build().unwrap()
}

fn put(key: &str, lease: Option<LeaseId>) -> Op {
    Op::Put { key: Key::from(key), value: Arc::default(), lease }
}

fn delete(key: &str) -> Op {
    Op::Delete(Keys::one(Key::from(key)))
}

async fn call(store: &MemoryStore, request: Request) -> Result<Reply, StoreError> {
    timeout(DEADLINE, store.call(request, DEADLINE)).await.expect("the store must answer")
}

async fn write(store: &MemoryStore, then: Vec<Op>) -> i64 {
    call(store, Request::Txn(Txn { then, ..Txn::default() })).await.unwrap().revision
}

async fn grant(store: &MemoryStore, lease: LeaseId) {
    call(store, Request::LeaseGrant { lease, ttl: 2 }).await.unwrap();
}

async fn count(store: &MemoryStore, prefix: &str) -> i64 {
    let range = Range { keys: Keys::prefix(Key::from(prefix)), limit: 1, keys_only: true, pick: Pick::All };
    match call(store, Request::Range(range)).await.unwrap().body {
        ReplyBody::Range(reply) => reply.count,
        other => panic!("{other:?}"),
    }
}

async fn next<T>(replies: &mut mpsc::Receiver<T>) -> Option<T> {
    timeout(DEADLINE, replies.recv()).await.expect("a message, or the end of the stream, must come")
}

/// A stream with one watch, which stands.
async fn watching(store: &MemoryStore, keys: Keys) -> WatchStream {
    let mut stream = store.watches();
    stream.requests.send(WatchRequest::Create(WatchId(1), keys)).unwrap();
    assert!(matches!(next(&mut stream.replies).await, Some(Ok(WatchReply::Created { id: WatchId(1), .. }))));
    stream
}

async fn told(stream: &mut WatchStream) -> Vec<(String, i64, bool)> {
    match next(&mut stream.replies).await {
        Some(Ok(WatchReply::Events { id: WatchId(1), events })) => events
            .into_iter()
            .map(|event| (event.key.to_text(), event.revision, event.change == Change::Delete))
            .collect(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn clients_of_one_name_share_data_that_ends_with_the_last_of_them() {
    runtime().block_on(async {
        let (a, b, other) = (MemoryStore::open("shared"), MemoryStore::open("shared"), MemoryStore::open("other"));
        write(&a, vec![put("key", None)]).await;
        assert_eq!((count(&b, "key").await, count(&other, "key").await), (1, 0));
        drop(a);
        assert_eq!(count(&MemoryStore::open("shared"), "key").await, 1);
        let stream = watching(&b, Keys::prefix(Key::from("key"))).await;
        drop(b);
        assert!(!lock(STORES.get()).contains_key("shared"), "nothing of it may be left, whatever its streams do");
        assert_eq!(count(&MemoryStore::open("shared"), "key").await, 0);
        drop(stream);
    });
}

#[test]
fn a_watch_is_told_what_comes_after_it_one_revision_a_message() {
    runtime().block_on(async {
        let store = MemoryStore::open("watched");
        let before = write(&store, vec![put("a/0", None)]).await;
        let mut stream = store.watches();
        let (one, all) = (Keys::one(Key::from("a/1")), Keys::prefix(Key::from("a/")));
        stream.requests.send(WatchRequest::Create(WatchId(1), all)).unwrap();
        stream.requests.send(WatchRequest::Create(WatchId(2), one)).unwrap();
        for id in [WatchId(1), WatchId(2)] {
            let created = WatchReply::Created { id, revision: before };
            assert_eq!(next(&mut stream.replies).await, Some(Ok(created)));
        }
        let first = write(&store, vec![put("a/2", None), put("b", None), put("a/1", None)]).await;
        write(&store, vec![put("b", None)]).await;
        let last = write(&store, vec![delete("a/2")]).await;
        let event = |key: &str, revision, change| WatchEvent { key: Key::from(key), revision, change };
        let created = Change::Put { value: Arc::default(), create_revision: first, lease: None };
        let (a1, a2) = (event("a/1", first, created.clone()), event("a/2", first, created));
        for (id, events) in [
            (WatchId(1), vec![a2, a1.clone()]),
            (WatchId(2), vec![a1]),
            (WatchId(1), vec![event("a/2", last, Change::Delete)]),
        ] {
            assert_eq!(next(&mut stream.replies).await, Some(Ok(WatchReply::Events { id, events })));
        }
    });
}

#[test]
fn a_cancelled_watch_is_silent_and_an_empty_one_refused() {
    runtime().block_on(async {
        let store = MemoryStore::open("cancelled");
        let mut stream = watching(&store, Keys::prefix(Key::from("a"))).await;
        stream.requests.send(WatchRequest::Cancel(WatchId(1))).unwrap();
        let empty = Keys { key: Key::from("b"), end: Some(Key::from("a")) };
        stream.requests.send(WatchRequest::Create(WatchId(2), empty)).unwrap();
        let refused = next(&mut stream.replies).await;
        let Some(Ok(WatchReply::Cancelled { id: WatchId(2), error })) = refused else { panic!("{refused:?}") };
        assert_eq!(error.kind, ErrorKind::Invalid);
        write(&store, vec![put("a", None), put("b", None)]).await;
        stream.requests.send(WatchRequest::Create(WatchId(3), Keys::prefix(Key::from("a")))).unwrap();
        assert!(matches!(next(&mut stream.replies).await, Some(Ok(WatchReply::Created { id: WatchId(3), .. }))));
    });
}

#[test]
fn dropping_the_requests_ends_a_stream_and_its_watches() {
    runtime().block_on(async {
        let store = MemoryStore::open("dropped");
        let WatchStream { requests, mut replies } = watching(&store, Keys::prefix(Key::from("a"))).await;
        drop(requests);
        assert_eq!(next(&mut replies).await, None);
        assert!(lock(&store.state).watches.is_empty());
        let RenewalStream { requests, mut replies } = store.renewals(0);
        drop(requests);
        assert_eq!(next(&mut replies).await, None);
    });
}

#[test]
fn a_reader_that_leaves_ends_its_stream() {
    runtime().block_on(async {
        let store = MemoryStore::open("unread");
        let WatchStream { requests, replies } = watching(&store, Keys::prefix(Key::from("a"))).await;
        let renewals = store.renewals(0);
        drop((replies, renewals.replies));
        timeout(DEADLINE, requests.closed()).await.expect("the watch task must end");
        timeout(DEADLINE, renewals.requests.closed()).await.expect("the renewal task must end");
        assert!(lock(&store.state).watches.is_empty());
    });
}

#[test]
fn renewals_are_answered_in_order_and_keep_a_lease() {
    runtime().block_on(async {
        let store = MemoryStore::open("renewed");
        grant(&store, LEASE).await;
        let expiry = lock(&store.state).kv.next_expiry();
        let mut stream = store.renewals(0);
        for lease in [LEASE, LeaseId(8), LEASE] {
            stream.requests.send(lease).unwrap();
        }
        for (lease, ttl) in [(LEASE, 2), (LeaseId(8), 0), (LEASE, 2)] {
            assert_eq!(next(&mut stream.replies).await, Some(Ok(Renewed { lease, ttl })));
        }
        assert!(lock(&store.state).kv.next_expiry() > expiry);
    });
}

#[test]
fn a_lost_lease_tells_the_watch_without_any_further_call() {
    runtime().block_on(async {
        let store = MemoryStore::open("expired");
        grant(&store, LEASE).await;
        let granted = clock::now();
        let revision = write(&store, vec![put("a/1", Some(LEASE)), put("a/2", Some(LEASE))]).await;
        let mut stream = watching(&store, Keys::prefix(Key::from("a/"))).await;
        let gone = |key: &str| (key.to_owned(), revision + 1, true);
        assert_eq!(told(&mut stream).await, [gone("a/1"), gone("a/2")]);
        assert!(clock::now().since(granted) > Duration::from_millis(1900), "not before its time");
    });
}

#[test]
fn a_watch_is_not_told_of_a_lease_that_ended_as_it_was_created() {
    runtime().block_on(async {
        let store = MemoryStore::open("expired-before");
        grant(&store, LEASE).await;
        let revision = write(&store, vec![put("a", Some(LEASE))]).await;
        // No stream is open, so nobody ends the lease before the watch comes.
        let expiry = lock(&store.state).kv.next_expiry();
        passed(expiry).await;
        let (outbox, mut replies) = mpsc::unbounded_channel();
        let create = WatchRequest::Create(WatchId(1), Keys::one(Key::from("a")));
        store.with(|state, _| state.watch(1, create, &outbox));
        let created = WatchReply::Created { id: WatchId(1), revision: revision + 1 };
        assert_eq!(replies.try_recv(), Ok(Ok(created)));
        assert!(replies.try_recv().is_err());
    });
}

#[test]
fn a_lease_granted_after_the_watch_expires_as_well() {
    runtime().block_on(async {
        let store = MemoryStore::open("expired-later");
        let mut stream = watching(&store, Keys::prefix(Key::from("a"))).await;
        grant(&store, LEASE).await;
        let revision = write(&store, vec![put("a", Some(LEASE))]).await;
        assert_eq!(told(&mut stream).await, [("a".to_owned(), revision, false)]);
        assert_eq!(told(&mut stream).await, [("a".to_owned(), revision + 1, true)]);
    });
}

#[test]
fn a_lease_ends_on_time_when_the_runtime_that_granted_it_is_gone() {
    let store = MemoryStore::open("runtimes");
    let first = runtime();
    let orphan = first.block_on(async {
        grant(&store, LEASE).await;
        write(&store, vec![put("a", Some(LEASE))]).await;
        watching(&store, Keys::prefix(Key::from("a"))).await
    });
    let second = thread::spawn(|| {
        runtime().block_on(async {
            let store = MemoryStore::open("runtimes");
            let mut stream = watching(&store, Keys::prefix(Key::from("a"))).await;
            assert!(told(&mut stream).await[0].2);
            assert_eq!(count(&store, "a").await, 0);
        });
    });
    drop(first);
    assert!(orphan.requests.is_closed(), "its stream ended with its runtime");
    second.join().unwrap();
    assert!(lock(&store.state).watches.is_empty());
}

#[test]
fn whoever_calls_after_a_lease_ended_sees_it_ended() {
    runtime().block_on(async {
        let store = MemoryStore::open("lazy");
        grant(&store, LEASE).await;
        write(&store, vec![put("a", Some(LEASE))]).await;
        let seen_gone = async {
            while count(&store, "a").await > 0 {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        timeout(DEADLINE, seen_gone).await.expect("no watch is needed for a lease to end");
        let revoked = call(&store, Request::LeaseRevoke { lease: LEASE }).await;
        assert_eq!(revoked.map_err(|error| error.kind), Err(ErrorKind::LeaseNotFound));
    });
}

#[test]
fn waiting_for_a_lease_to_end_takes_no_processor_time() {
    let busy = || {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
    };
    runtime().block_on(async {
        let store = MemoryStore::open("idle");
        let mut stream = watching(&store, Keys::prefix(Key::from("a"))).await;
        let _renewals = store.renewals(0);
        grant(&store, LEASE).await;
        write(&store, vec![put("a", Some(LEASE))]).await;
        told(&mut stream).await;
        let before = busy();
        assert!(told(&mut stream).await[0].2);
        let spent = busy() - before;
        assert!(spent < Duration::from_millis(200), "{spent:?} of two seconds");
    });
}
