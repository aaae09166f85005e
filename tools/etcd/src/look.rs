//! What stands in a cluster, as etcd's own tool sees it: keys, leases, the revision; and what a member counts.

use serde_json::Value;

use crate::{Cluster, Error, error::Doing, probe};

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

    /// What a member has counted since it started: the sum of its metrics whose names, with labels in braces, start so.
    /// `etcd_debugging_mvcc_watcher_total` are the watches that stand now.
    ///
    /// # Errors
    /// [`Error::Usage`] when there is no such member, [`Error::Io`] when it does not answer.
    pub async fn metric(&self, member: usize, start: &str) -> Result<f64, Error> {
        let counted = probe::metrics(self.metrics_address(member)?).await;
        let counted = counted.doing(|| format!("asking m{member} for its metrics"))?;
        let values = counted.lines().filter(|line| line.starts_with(start)).filter_map(|line| line.rsplit(' ').next());
        Ok(values.filter_map(|value| value.parse::<f64>().ok()).sum())
    }
}
