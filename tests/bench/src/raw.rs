//! The calls that a hand-written lock would make at the least: what ours is compared with.

use std::sync::Arc;

use leasehold::{
    Client, Result,
    store::{CreateRevisionIs, Key, Keys, LeaseId, Op, Pick, Range, Request, Txn},
};

/// A lease for the raw keys.
pub async fn lease(client: &Client) -> Result<LeaseId> {
    let lease = LeaseId(0x7ab1e);
    client.raw_call(Request::LeaseGrant { lease, ttl: 600 }).await?;
    Ok(lease)
}

pub async fn revoke(client: &Client, lease: LeaseId) -> Result<()> {
    client.raw_call(Request::LeaseRevoke { lease }).await.map(drop)
}

/// `If create_rev(key) == 0 Then Put(key)`, with a value as long as ours.
pub fn put(key: &Key, lease: LeaseId) -> Request {
    Request::Txn(Txn {
        conditions: vec![CreateRevisionIs { keys: Keys::one(key.clone()), revision: 0 }],
        then: vec![Op::Put { key: key.clone(), value: Arc::from([b'x'; 130]), lease: Some(lease) }],
        otherwise: Vec::new(),
    })
}

pub fn delete(key: &Key) -> Request {
    Request::Txn(Txn { then: vec![Op::Delete(Keys::one(key.clone()))], ..Txn::default() })
}

/// The same two calls with what safety asks for: a look at the queue in the first, the token as a condition of the second.
pub async fn guarded_pair(client: &Client, key: &Key, queue: &Keys, lease: LeaseId) -> Result<()> {
    let Request::Txn(mut enqueue) = put(key, lease) else { return Ok(()) };
    let look = |keys, limit| Op::Range(Range { keys, limit, keys_only: true, pick: Pick::All });
    enqueue.then.push(look(queue.clone(), 8));
    enqueue.otherwise = vec![look(Keys::one(key.clone()), 0), look(queue.clone(), 8)];
    let revision = client.raw_call(Request::Txn(enqueue)).await?.revision;
    let Request::Txn(mut release) = delete(key) else { return Ok(()) };
    release.conditions.push(CreateRevisionIs { keys: Keys::one(key.clone()), revision });
    client.raw_call(Request::Txn(release)).await.map(drop)
}

/// One raw pair: put, then delete.
pub async fn pair(client: &Client, key: &Key, lease: LeaseId) -> Result<()> {
    client.raw_call(put(key, lease)).await?;
    client.raw_call(delete(key)).await.map(drop)
}
