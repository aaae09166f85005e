//! The store on a real etcd: every request and reply, the streams, and what happens when members, tokens or certificates fail.

mod auth;
mod failover;
mod streams;
mod tls;
mod unary;
mod version;
#[path = "../support/warnings.rs"]
mod warnings;

use std::{
    sync::atomic::{AtomicI64, Ordering},
    time::Duration,
};

use leasehold::store::{
    CreateRevisionIs, Key, Keys, LeaseId, Op, Pick, Range, Reply, ReplyBody, Request, Store, StoreError, Txn, TxnReply,
    etcd::{EtcdConfig, EtcdStore},
};
use leasehold_etcd::{Builder, Cluster, Error};
use tokio::{sync::mpsc::Receiver, time::timeout};

/// The time limit of a call that is expected to be answered.
const LIMIT: Duration = Duration::from_secs(30);

/// How long a stream may take to say something that is expected.
const PATIENCE: Duration = Duration::from_secs(60);

/// The cluster described, or a word that the test is skipped where there is no such etcd.
async fn started(builder: Builder) -> Option<Cluster> {
    match builder.start().await {
        Ok(cluster) => Some(cluster),
        Err(Error::Missing(why)) => {
            println!("SKIPPED {why}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

fn config(endpoints: Vec<String>) -> EtcdConfig {
    EtcdConfig { endpoints, tls: None, login: None, plaintext_password: false, connect_timeout: LIMIT }
}

fn store_at(endpoints: Vec<String>) -> EtcdStore {
    EtcdStore::new(config(endpoints)).unwrap()
}

fn store_of(cluster: &Cluster) -> EtcdStore {
    store_at(cluster.endpoints())
}

fn key(text: &str) -> Key {
    Key::from(text)
}

fn put(name: &str, lease: Option<LeaseId>) -> Op {
    Op::Put { key: key(name), value: (*b"value").into(), lease }
}

fn read(keys: Keys) -> Range {
    Range { keys, limit: 0, keys_only: false, pick: Pick::All }
}

/// Writes one key, unconditionally.
fn write(name: &str) -> Request {
    Request::Txn(Txn { then: vec![put(name, None)], ..Txn::default() })
}

fn range(name: &str) -> Request {
    Request::Range(read(Keys::one(key(name))))
}

fn absent(keys: Keys) -> CreateRevisionIs {
    CreateRevisionIs { keys, revision: 0 }
}

/// A lease id that no other test of this process uses.
fn new_lease() -> LeaseId {
    static NEXT: AtomicI64 = AtomicI64::new(0x7001);
    LeaseId(NEXT.fetch_add(1, Ordering::Relaxed))
}

async fn call(store: &EtcdStore, request: Request) -> Result<Reply, StoreError> {
    store.call(request, LIMIT).await
}

async fn txn(store: &EtcdStore, txn: Txn) -> (i64, TxnReply) {
    let reply = call(store, Request::Txn(txn)).await.unwrap();
    let ReplyBody::Txn(body) = reply.body else { panic!("not a transaction's reply: {:?}", reply.body) };
    (reply.revision, body)
}

async fn grant(store: &EtcdStore, ttl: i64) -> LeaseId {
    let lease = new_lease();
    call(store, Request::LeaseGrant { lease, ttl }).await.unwrap();
    lease
}

/// The next thing that a stream says.
async fn next<T>(replies: &mut Receiver<Result<T, StoreError>>) -> Result<T, StoreError> {
    timeout(PATIENCE, replies.recv()).await.expect("the stream keeps silent").expect("the stream has ended")
}
