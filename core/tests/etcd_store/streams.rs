//! Renewals and watches.

use leasehold::store::{
    Change, ErrorKind, Keys, LeaseId, Op, Renewed, Request, Store, Txn, WatchEvent, WatchId, WatchReply, WatchRequest,
    WatchStream,
};
use leasehold_etcd::{Cluster, Version};
use tokio::time::timeout;

use super::{PATIENCE, call, grant, key, next, put, started, store_of, txn, write};

#[tokio::test]
async fn one_stream_renews_many_leases_in_order_and_tells_of_a_dead_one() {
    for version in [Version::V3_4, Version::V3_5, Version::V3_7] {
        let Some(cluster) = started(Cluster::builder().version(version)).await else { continue };
        let store = store_of(&cluster);
        let (one, two) = (grant(&store, 20).await, grant(&store, 40).await);
        let unknown = LeaseId(0x6000);
        let mut stream = store.renewals(0);
        for lease in [one, unknown, two, one] {
            stream.requests.send(lease).unwrap();
        }
        for (lease, ttl) in [(one, 20), (unknown, 0), (two, 40), (one, 20)] {
            assert_eq!(next(&mut stream.replies).await.unwrap(), Renewed { lease, ttl });
        }
        call(&store, Request::LeaseRevoke { lease: one }).await.unwrap();
        stream.requests.send(one).unwrap();
        let gone = next(&mut stream.replies).await.unwrap();
        assert!(gone.lease == one && gone.ttl <= 0, "{gone:?}");

        drop(stream.requests);
        assert!(timeout(PATIENCE, stream.replies.recv()).await.unwrap().is_none(), "ended without an error");
    }
}

/// Creates a watch and waits until it stands; answers the revision from which on it tells.
async fn watch(stream: &mut WatchStream, id: i64, keys: Keys) -> i64 {
    stream.requests.send(WatchRequest::Create(WatchId(id), keys)).unwrap();
    match next(&mut stream.replies).await.unwrap() {
        WatchReply::Created { id: created, revision } if created == WatchId(id) => revision,
        other => panic!("not the watch that was asked for: {other:?}"),
    }
}

async fn events(stream: &mut WatchStream) -> (i64, Vec<WatchEvent>) {
    match next(&mut stream.replies).await.unwrap() {
        WatchReply::Events { id, events } => (id.0, events),
        other => panic!("not events: {other:?}"),
    }
}

#[tokio::test]
async fn a_watch_tells_every_change_after_it_stands() {
    for version in [Version::V3_4, Version::V3_5, Version::V3_7] {
        let Some(cluster) = started(Cluster::builder().version(version)).await else { continue };
        let store = store_of(&cluster);
        let lease = grant(&store, 60).await;
        let before = call(&store, write("w/0")).await.unwrap().revision;
        let mut stream = store.watches();
        let from = watch(&mut stream, 5, Keys::prefix(key("w/"))).await;
        assert_eq!(from, before);

        let (put_at, _) =
            txn(&store, Txn { then: vec![put("w/1", Some(lease)), put("w/2", None)], ..Txn::default() }).await;
        let event = |name, revision, change| WatchEvent { key: key(name), revision, change };
        let created = |lease| Change::Put { value: (*b"value").into(), create_revision: put_at, lease };
        let both = vec![event("w/1", put_at, created(Some(lease))), event("w/2", put_at, created(None))];
        assert_eq!(events(&mut stream).await, (5, both), "changes of one revision come together");

        call(&store, write("unrelated")).await.unwrap();
        let deleted = call(&store, Request::LeaseRevoke { lease }).await.unwrap().revision;
        assert_eq!(events(&mut stream).await, (5, vec![event("w/1", deleted, Change::Delete)]));
    }
}

#[tokio::test]
async fn several_watches_share_a_stream_and_one_can_be_cancelled() {
    let cluster = Cluster::builder().start().await.unwrap();
    let store = store_of(&cluster);
    let mut stream = store.watches();
    watch(&mut stream, 1, Keys::one(key("a"))).await;
    watch(&mut stream, 2, Keys::one(key("b"))).await;
    call(&store, write("a")).await.unwrap();
    assert_eq!(events(&mut stream).await.0, 1);
    call(&store, write("b")).await.unwrap();
    assert_eq!(events(&mut stream).await.0, 2);

    stream.requests.send(WatchRequest::Cancel(WatchId(1))).unwrap();
    stream.requests.send(WatchRequest::Cancel(WatchId(77))).unwrap();
    // etcd works off requests in order: when the third watch stands, the first is cancelled.
    watch(&mut stream, 3, Keys::one(key("c"))).await;
    for name in ["a", "b", "c"] {
        call(&store, write(name)).await.unwrap();
    }
    assert_eq!(events(&mut stream).await.0, 2);
    assert_eq!(events(&mut stream).await.0, 3);

    drop(stream.requests);
    assert!(timeout(PATIENCE, stream.replies.recv()).await.unwrap().is_none());
}

#[tokio::test]
async fn a_watch_that_etcd_refuses_is_cancelled_under_its_own_id() {
    for version in [Version::V3_4, Version::V3_5, Version::V3_7] {
        let Some(cluster) = started(Cluster::builder().version(version)).await else { continue };
        let store = store_of(&cluster);
        let mut stream = store.watches();
        watch(&mut stream, 1, Keys::one(key("a"))).await;
        // The same id again: etcd answers without saying which watch it means, and so does it for a range that is empty.
        stream.requests.send(WatchRequest::Create(WatchId(1), Keys::one(key("b")))).unwrap();
        let empty = Keys { key: key("z"), end: Some(key("a")) };
        stream.requests.send(WatchRequest::Create(WatchId(2), empty)).unwrap();
        for id in [1, 2] {
            match next(&mut stream.replies).await.unwrap() {
                WatchReply::Cancelled { id: cancelled, error } => {
                    assert_eq!(cancelled, WatchId(id));
                    assert!(!error.ambiguous, "{error}");
                }
                other => panic!("{other:?}"),
            }
        }
        watch(&mut stream, 3, Keys::one(key("c"))).await;
    }
}

#[tokio::test]
async fn a_burst_of_changes_arrives_whole_and_in_order() {
    let cluster = Cluster::builder().start().await.unwrap();
    let store = store_of(&cluster);
    let mut stream = store.watches();
    watch(&mut stream, 1, Keys::prefix(key("s/"))).await;
    let many: Vec<_> = (0..300)
        .map(|i| {
            let store = store.clone();
            tokio::spawn(async move {
                txn(&store, Txn { then: vec![put(&format!("s/{i}"), None)], ..Txn::default() }).await.0
            })
        })
        .collect();
    let mut written = Vec::new();
    for task in many {
        written.push(task.await.unwrap());
    }
    written.sort_unstable();
    let mut seen = Vec::new();
    while seen.len() < written.len() {
        seen.extend(events(&mut stream).await.1.into_iter().map(|event| event.revision));
    }
    assert_eq!(seen, written);
}

#[tokio::test]
async fn streams_of_a_server_that_dies_end_with_an_error() {
    let cluster = Cluster::builder().start().await.unwrap();
    let store = store_of(&cluster);
    let lease = grant(&store, 60).await;
    let mut watches = store.watches();
    watch(&mut watches, 1, Keys::one(key("a"))).await;
    let mut renewals = store.renewals(0);
    renewals.requests.send(lease).unwrap();
    next(&mut renewals.replies).await.unwrap();
    cluster.kill(0).unwrap();
    let watch_error = next(&mut watches.replies).await.unwrap_err();
    let renewal_error = next(&mut renewals.replies).await.unwrap_err();
    for error in [watch_error, renewal_error] {
        assert_eq!((error.kind, error.ambiguous), (ErrorKind::Unavailable, false), "{error}");
        assert!(error.message.contains(&cluster.endpoint(0)), "{error}");
    }
    assert!(timeout(PATIENCE, watches.replies.recv()).await.unwrap().is_none(), "nothing after the first error");

    cluster.restart(0).await.unwrap();
    watch(&mut store.watches(), 1, Keys::one(key("a"))).await;
    let deletion = Op::Delete(Keys::one(key("a")));
    txn(&store, Txn { then: vec![deletion], ..Txn::default() }).await;
}
