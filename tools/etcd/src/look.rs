//! What stands in a cluster, as etcd's own tool sees it: keys, leases, the revision.

use serde_json::Value;

use crate::{Cluster, Error};

impl Cluster {
    /// The keys that start with `prefix`, in key order. Only for keys without line breaks.
    ///
    /// # Errors
    /// Those of [`Cluster::ctl`], here and below.
    pub async fn keys(&self, prefix: &str) -> Result<Vec<String>, Error> {
        let listed = self.ctl(&["get", "--prefix", "--keys-only", prefix]).await?;
        Ok(listed.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect())
    }

    /// The leases that live, in lower-case hexadecimal without leading zeros, as in the keys of locks.
    ///
    /// # Errors
    /// Those of [`Cluster::ctl`].
    pub async fn leases(&self) -> Result<Vec<String>, Error> {
        let listed = self.ctl(&["lease", "list"]).await?;
        let leases = listed.lines().skip(1).map(|line| line.trim_start_matches('0')).filter(|line| !line.is_empty());
        Ok(leases.map(str::to_owned).collect())
    }

    /// The present revision: the number of transactions that ever wrote.
    ///
    /// # Errors
    /// Those of [`Cluster::ctl`].
    pub async fn revision(&self) -> Result<i64, Error> {
        let answer = self.ctl(&["get", "revision", "--write-out=json"]).await?;
        let revision = serde_json::from_str::<Value>(&answer).ok().and_then(|json| json["header"]["revision"].as_i64());
        revision.ok_or_else(|| Error::Command(format!("etcdctl get told no revision: {answer}")))
    }
}
