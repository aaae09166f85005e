//! The calls that a hand-written lock would make at the least: what ours is compared with.

use std::sync::Arc;

use leasehold::{
    Client, Result,
    store::{CreateRevisionIs, Key, Keys, LeaseId, Op, Request, Txn},
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

/// One raw pair: put, then delete.
pub async fn pair(client: &Client, key: &Key, lease: LeaseId) -> Result<()> {
    client.raw_call(put(key, lease)).await?;
    client.raw_call(delete(key)).await.map(drop)
}
