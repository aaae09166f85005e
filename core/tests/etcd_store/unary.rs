//! Every unary request and its reply.

use leasehold::store::{
    ErrorKind, KeyValue, Keys, Op, OpReply, Pick, Range, RangeReply, Reply, ReplyBody, Request, Txn, TxnReply,
};
use leasehold_etcd::{Cluster, Version};

use super::{absent, call, grant, key, new_lease, put, range, read, started, store_of, txn, write};

#[tokio::test]
async fn a_transaction_takes_one_branch_and_answers_each_operation() {
    let cluster = Cluster::builder().start().await.unwrap();
    let store = store_of(&cluster);
    let lease = grant(&store, 60).await;
    let enqueue = Txn {
        conditions: vec![absent(Keys::one(key("q/1")))],
        then: vec![put("q/1", Some(lease)), Op::Range(read(Keys::prefix(key("q/"))))],
        otherwise: vec![Op::Range(read(Keys::one(key("q/1"))))],
    };
    let (revision, reply) = txn(&store, enqueue.clone()).await;
    let kv = KeyValue {
        key: key("q/1"),
        value: (*b"value").into(),
        create_revision: revision,
        mod_revision: revision,
        lease: Some(lease),
    };
    let found = || OpReply::Range(RangeReply { kvs: vec![kv.clone()], count: 1 });
    assert_eq!(reply, TxnReply { succeeded: true, replies: vec![OpReply::Put, found()] });

    let (later, reply) = txn(&store, enqueue).await;
    assert_eq!(reply, TxnReply { succeeded: false, replies: vec![found()] });
    assert_eq!(later, revision, "nothing was written");

    let release = Txn {
        conditions: vec![leasehold::store::CreateRevisionIs { keys: Keys::one(key("q/1")), revision }],
        then: vec![Op::Delete(Keys::one(key("q/1")))],
        ..Txn::default()
    };
    assert_eq!(txn(&store, release.clone()).await.1.replies, [OpReply::Delete(1)]);
    assert!(!txn(&store, release).await.1.succeeded);
}

#[tokio::test]
async fn a_condition_on_a_range_holds_if_no_key_there_breaks_it() {
    let cluster = Cluster::builder().start().await.unwrap();
    let store = store_of(&cluster);
    let attempt = |name: &str| Txn {
        conditions: vec![absent(Keys::prefix(key("r/")))],
        then: vec![put(name, None)],
        ..Txn::default()
    };
    assert!(txn(&store, attempt("r/2")).await.1.succeeded);
    assert!(!txn(&store, attempt("r/1")).await.1.succeeded);
    let cleared = Txn { then: vec![Op::Delete(Keys::prefix(key("r/")))], ..Txn::default() };
    assert_eq!(txn(&store, cleared).await.1.replies, [OpReply::Delete(1)]);
    assert!(txn(&store, attempt("r/1")).await.1.succeeded);
}

#[tokio::test]
async fn nested_transactions_decide_each_for_itself() {
    let cluster = Cluster::builder().start().await.unwrap();
    let store = store_of(&cluster);
    call(&store, write("n/a")).await.unwrap();
    let inner = |name: &str| {
        let keys = Keys::one(key(name));
        let conditions = vec![absent(keys.clone())];
        Op::Txn(Txn { conditions, then: vec![put(name, None)], otherwise: vec![Op::Delete(keys)] })
    };
    let (_, reply) = txn(&store, Txn { then: vec![inner("n/a"), inner("n/b")], ..Txn::default() }).await;
    let taken = |succeeded, reply| OpReply::Txn(TxnReply { succeeded, replies: vec![reply] });
    assert_eq!(reply.replies, [taken(false, OpReply::Delete(1)), taken(true, OpReply::Put)]);
}

#[tokio::test]
async fn a_read_is_in_key_order_with_its_limit_and_the_count_of_all() {
    let cluster = Cluster::builder().start().await.unwrap();
    let store = store_of(&cluster);
    for name in ["l/3", "l/1", "l/2", "m"] {
        call(&store, write(name)).await.unwrap();
    }
    let request = Range { keys: Keys::prefix(key("l/")), limit: 2, keys_only: true, pick: Pick::All };
    let Reply { revision, body: ReplyBody::Range(reply), .. } = call(&store, Request::Range(request)).await.unwrap()
    else {
        panic!("not a range")
    };
    assert_eq!(reply.count, 3);
    let seen: Vec<_> = reply.kvs.iter().map(|kv| (kv.key.to_text(), kv.value.len())).collect();
    assert_eq!(seen, [("l/1".to_owned(), 0), ("l/2".to_owned(), 0)]);
    assert!(reply.kvs.iter().all(|kv| kv.lease.is_none() && kv.mod_revision <= revision));
}

#[tokio::test]
async fn a_reply_may_be_larger_than_a_few_mebibytes() {
    let cluster = Cluster::builder().start().await.unwrap();
    let store = store_of(&cluster);
    for i in 0..6 {
        let op = Op::Put { key: key(&format!("big/{i}")), value: vec![7; 1 << 20].into(), lease: None };
        txn(&store, Txn { then: vec![op], ..Txn::default() }).await;
    }
    let reply = call(&store, Request::Range(read(Keys::prefix(key("big/"))))).await.unwrap();
    let ReplyBody::Range(reply) = reply.body else { panic!("not a range") };
    assert_eq!(reply.kvs.iter().map(|kv| kv.value.len()).sum::<usize>(), 6 << 20);
}

#[tokio::test]
async fn a_lease_from_grant_to_revoke() {
    for version in [Version::V3_4, Version::V3_7] {
        let Some(cluster) = started(Cluster::builder().version(version)).await else { continue };
        let store = store_of(&cluster);
        let lease = new_lease();
        let granted = call(&store, Request::LeaseGrant { lease, ttl: 30 }).await.unwrap();
        assert_eq!(granted.body, ReplyBody::LeaseGrant { ttl: 30 });
        let again = call(&store, Request::LeaseGrant { lease, ttl: 30 }).await.unwrap_err();
        assert_eq!((again.kind, again.ambiguous), (ErrorKind::LeaseExists, false), "{again}");

        txn(&store, Txn { then: vec![put("k/1", Some(lease)), put("k/2", Some(lease))], ..Txn::default() }).await;
        let asked = call(&store, Request::LeaseTimeToLive { lease }).await.unwrap();
        let ReplyBody::LeaseTimeToLive { ttl, mut keys } = asked.body else { panic!("not a time to live") };
        keys.sort();
        assert!((25..=30).contains(&ttl), "{ttl}");
        assert_eq!(keys, [key("k/1"), key("k/2")]);

        assert_eq!(call(&store, Request::LeaseRevoke { lease }).await.unwrap().body, ReplyBody::LeaseRevoke);
        let gone = call(&store, Request::LeaseRevoke { lease }).await.unwrap_err();
        assert_eq!((gone.kind, gone.ambiguous), (ErrorKind::LeaseNotFound, false), "{gone}");
        let asked = call(&store, Request::LeaseTimeToLive { lease }).await.unwrap();
        assert_eq!(asked.body, ReplyBody::LeaseTimeToLive { ttl: -1, keys: vec![] });
        let ReplyBody::Range(reply) = call(&store, range("k/1")).await.unwrap().body else { panic!("not a range") };
        assert_eq!(reply, RangeReply::default(), "its keys went with it");
    }
}

#[tokio::test]
async fn what_etcd_refuses_has_no_effect_and_says_why() {
    let cluster = Cluster::builder().start().await.unwrap();
    let store = store_of(&cluster);
    let dead = Txn { then: vec![put("x", None), put("y", Some(new_lease()))], ..Txn::default() };
    let error = call(&store, Request::Txn(dead)).await.unwrap_err();
    assert_eq!((error.kind, error.ambiguous), (ErrorKind::LeaseNotFound, false), "{error}");
    let ReplyBody::Range(reply) = call(&store, range("x")).await.unwrap().body else { panic!("not a range") };
    assert_eq!(reply.count, 0);

    let twice = Txn { then: vec![put("x", None), put("x", None)], ..Txn::default() };
    let error = call(&store, Request::Txn(twice)).await.unwrap_err();
    assert_eq!((error.kind, error.ambiguous), (ErrorKind::Invalid, false), "{error}");
    assert!(error.message.contains(&cluster.endpoint(0)) && error.message.contains("duplicate key"), "{error}");

    let absurd = Request::LeaseGrant { lease: new_lease(), ttl: i64::MAX };
    let error = call(&store, absurd).await.unwrap_err();
    assert_eq!((error.kind, error.ambiguous), (ErrorKind::Invalid, false), "{error}");
}

#[tokio::test]
async fn clones_share_and_debug_names_the_endpoints() {
    let cluster = Cluster::builder().start().await.unwrap();
    let store = store_of(&cluster);
    let clone = store.clone();
    let many = (0..50).map(|i| {
        let clone = clone.clone();
        tokio::spawn(async move { call(&clone, write(&format!("c/{i}"))).await })
    });
    for task in many.collect::<Vec<_>>() {
        task.await.unwrap().unwrap();
    }
    let reply = call(&store, Request::Range(read(Keys::prefix(key("c/"))))).await.unwrap();
    assert!(matches!(reply.body, ReplyBody::Range(RangeReply { count: 50, .. })), "{reply:?}");
    assert!(format!("{store:?}").contains(&cluster.endpoint(0)));
}
