//! A look at etcd from beside the lock: what stands there, and a write that arrives late.

use anyhow::Context;
use etcd_client::{Client, Compare, CompareOp, GetOptions, Txn, TxnOp};

/// A plain etcd client, which knows nothing of locks.
pub(crate) struct Etcd {
    client: Client,
}

/// What is left in etcd.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Leftovers {
    pub(crate) keys: i64,
    pub(crate) leases: usize,
}

impl Etcd {
    pub(crate) async fn connect(endpoints: &[String]) -> anyhow::Result<Self> {
        let client = Client::connect(endpoints, None).await.context("could not connect to etcd")?;
        Ok(Self { client })
    }

    /// The number that stands under `key`; 0 if there is none.
    pub(crate) async fn number(&mut self, key: &str) -> anyhow::Result<i64> {
        let reply = self.client.get(key, None).await?;
        let Some(kv) = reply.kvs().first() else { return Ok(0) };
        kv.value_str()?.parse().with_context(|| format!("no number stands under {key}"))
    }

    pub(crate) async fn delete(&mut self, key: &str) -> anyhow::Result<()> {
        self.client.delete(key, None).await?;
        Ok(())
    }

    /// Sends what a guarded write is on the wire: `If create_revision(owner) == token Then Put`. This is the write of somebody
    /// who asked just in time and whose request was long on its way. Returns whether etcd has carried it out.
    pub(crate) async fn late_write(&mut self, owner: &str, token: i64, key: &str, value: &str) -> anyhow::Result<bool> {
        let txn = Txn::new()
            .when([Compare::create_revision(owner, CompareOp::Equal, token)])
            .and_then([TxnOp::put(key, value, None)]);
        Ok(self.client.txn(txn).await?.succeeded())
    }

    /// Everything in this etcd, which belongs to the demo alone.
    pub(crate) async fn leftovers(&mut self) -> anyhow::Result<Leftovers> {
        let keys = self.client.get("", Some(GetOptions::new().with_all_keys().with_count_only())).await?.count();
        let leases = self.client.leases().await?.leases().len();
        Ok(Leftovers { keys, leases })
    }
}
