//! Users and roles of a cluster.

use crate::{Cluster, Error};

/// A user who may read and write under some prefixes, and nothing else.
#[derive(Clone, Debug)]
pub struct User {
    pub(crate) name: String,
    pub(crate) password: String,
    pub(crate) prefixes: Vec<String>,
}

impl User {
    /// A user without any right yet.
    pub fn new(name: impl Into<String>, password: impl Into<String>) -> Self {
        Self { name: name.into(), password: password.into(), prefixes: Vec::new() }
    }

    /// Lets the user read and write every key that starts with `prefix`; the empty prefix is every key.
    #[must_use]
    pub fn prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefixes.push(prefix.into());
        self
    }
}

/// Makes root and the users, each with a role of its own name, then turns authentication on.
pub(crate) async fn enable(cluster: &Cluster, root_password: &str, users: &[User]) -> Result<(), Error> {
    // Without a root user in the calls: there is none yet.
    let ctl = async |arguments: &[&str]| cluster.run_etcdctl(None, arguments).await.map(drop);
    ctl(&["user", "add", &format!("root:{root_password}")]).await?;
    ctl(&["user", "grant-role", "root", "root"]).await?;
    for User { name, password, prefixes } in users {
        ctl(&["user", "add", &format!("{name}:{password}")]).await?;
        ctl(&["role", "add", name]).await?;
        for prefix in prefixes {
            ctl(&["role", "grant-permission", "--prefix=true", name, "readwrite", prefix]).await?;
        }
        ctl(&["user", "grant-role", name, name]).await?;
    }
    ctl(&["auth", "enable"]).await
}
