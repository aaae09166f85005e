//! The runner's own access to etcd: what an administrator, or another program, would do beside the drivers.
//!
//! Every call is repeated for a while, because a scenario may just have taken a member away; all of them are safe to repeat.

use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use etcd_client::{Client, ConnectOptions, GetOptions, LeaseGrantOptions, PutOptions};

/// How long a call is repeated before it counts as failed.
const PATIENCE: Duration = Duration::from_secs(20);
const PAUSE: Duration = Duration::from_millis(100);
const CALL: Duration = Duration::from_secs(2);

/// A key as etcd stores it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    /// The key.
    pub key: String,
    /// Its value.
    pub value: String,
    /// The revision at which it was created.
    pub created: i64,
    /// The lease it is attached to, in lower-case hex.
    pub lease: Option<String>,
}

/// Access to the cluster of a play, past every proxy, with every right.
#[derive(Clone)]
pub struct Etcd {
    client: Client,
}

/// Repeats `$call` (an expression that is evaluated anew each time) until it succeeds or patience ends.
macro_rules! patiently {
    ($what:expr, $call:expr) => {{
        let until = tokio::time::Instant::now() + PATIENCE;
        loop {
            let result = tokio::time::timeout(CALL, $call).await;
            match result {
                Ok(Ok(done)) => break Ok(done),
                failed if tokio::time::Instant::now() > until => {
                    let why = match failed {
                        Ok(Err(error)) => error.to_string(),
                        _ => "no answer".to_owned(),
                    };
                    break Err(anyhow::anyhow!("etcd cannot {}: {why}", $what));
                }
                _ => tokio::time::sleep(PAUSE).await,
            }
        }
    }};
}

impl Etcd {
    /// Connects to all of `endpoints`.
    pub async fn connect(endpoints: &[String], options: ConnectOptions) -> Result<Self> {
        let client = patiently!("be reached", Client::connect(endpoints, Some(options.clone())))?;
        Ok(Self { client })
    }

    /// Writes a key; `lease` in hex.
    pub async fn put(&self, key: &str, value: &str, lease: Option<&str>) -> Result<()> {
        let lease = lease.map(lease_id).transpose()?;
        let options = || lease.map(|lease| PutOptions::new().with_lease(lease));
        patiently!("put", self.client.clone().put(key, value, options()))?;
        Ok(())
    }

    /// Reads a key.
    pub async fn get(&self, key: &str) -> Result<Option<Stored>> {
        Ok(self.range(key, None).await?.pop())
    }

    /// Reads every key that starts with `prefix`.
    pub async fn prefix(&self, prefix: &str) -> Result<Vec<Stored>> {
        self.range(prefix, Some(GetOptions::new().with_prefix())).await
    }

    async fn range(&self, key: &str, options: Option<GetOptions>) -> Result<Vec<Stored>> {
        let reply = patiently!("read", self.client.clone().get(key, options.clone()))?;
        let stored = |kv: &etcd_client::KeyValue| Stored {
            key: String::from_utf8_lossy(kv.key()).into_owned(),
            value: String::from_utf8_lossy(kv.value()).into_owned(),
            created: kv.create_revision(),
            lease: (kv.lease() != 0).then(|| format!("{:x}", kv.lease())),
        };
        Ok(reply.kvs().iter().map(stored).collect())
    }

    /// Deletes a key, and says whether it was there.
    pub async fn delete(&self, key: &str) -> Result<bool> {
        Ok(patiently!("delete", self.client.clone().delete(key, None))?.deleted() > 0)
    }

    /// Grants a lease that nobody renews; its id in hex.
    pub async fn grant(&self, ttl: Duration) -> Result<String> {
        // Repeating a grant whose reply was lost leaves a second lease: it ends by itself.
        let seconds = i64::try_from(ttl.as_secs()).context("no such TTL")?;
        let reply = patiently!("grant", self.client.clone().lease_grant(seconds, None::<LeaseGrantOptions>))?;
        Ok(format!("{:x}", reply.id()))
    }

    /// Revokes a lease; one that is gone already is no error.
    pub async fn revoke(&self, lease: &str) -> Result<()> {
        let lease = lease_id(lease)?;
        let revoke = async || match self.client.clone().lease_revoke(lease).await {
            Err(etcd_client::Error::GRpcStatus(status)) if status.message().contains("lease not found") => Ok(()),
            Ok(_) => Ok(()),
            Err(error) => Err(error),
        };
        patiently!("revoke", revoke())
    }

    /// Every lease that lives, in hex.
    pub async fn leases(&self) -> Result<Vec<String>> {
        let listed = patiently!("list leases", self.client.clone().leases())?;
        let mut alive = Vec::new();
        for id in listed.leases().iter().map(etcd_client::LeaseStatus::id) {
            // A member lists what it has applied: one that was just cut off still has leases that were revoked. About one lease
            // it is the leader who answers, and of one that is gone it knows no TTL.
            let lease = patiently!("read a lease", self.client.clone().lease_time_to_live(id, None))?;
            if lease.granted_ttl() > 0 {
                alive.push(format!("{id:x}"));
            }
        }
        Ok(alive)
    }

    /// Forgets all history up to now; the revision of now.
    pub async fn compact(&self) -> Result<i64> {
        let reply = patiently!("read", self.client.clone().get("/", None))?;
        let revision = reply.header().map_or(0, |header| header.revision());
        let compact = async || match self.client.clone().compact(revision, None).await {
            // Nothing was written since the last compaction.
            Err(etcd_client::Error::GRpcStatus(status)) if status.message().contains("has been compacted") => Ok(()),
            Ok(_) => Ok(()),
            Err(error) => Err(error),
        };
        patiently!("compact", compact())?;
        Ok(revision)
    }

    /// A client of etcd of its own, for the actors that are built on one.
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// Reads the key whose create revision is the token of a foreign hold.
    pub async fn token(&self, key: &str) -> Result<i64> {
        match self.get(key).await? {
            Some(stored) => Ok(stored.created),
            None => bail!("the key {key} of a hold does not exist"),
        }
    }
}

fn lease_id(hex: &str) -> Result<i64> {
    i64::from_str_radix(hex, 16).with_context(|| format!("{hex:?} is no lease id in hex"))
}
