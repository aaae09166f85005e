//! What a test can ask of its cluster.

use std::ffi::OsString;

use crate::{Cluster, Error, Tls, User, Version};

/// Where a member's data are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Storage {
    /// In memory (`/dev/shm`) and without fsync: fast, and gone with the machine.
    #[default]
    Memory,
    /// In the directory for temporary files (`$TMPDIR`), with every fsync that etcd makes.
    Disk,
}

/// A cluster to be started; see [`Cluster::builder`].
#[derive(Clone, Debug)]
#[must_use = "a cluster is started by start()"]
pub struct Builder {
    pub(crate) members: usize,
    pub(crate) version: Version,
    pub(crate) storage: Storage,
    pub(crate) tls: Tls,
    pub(crate) root_password: Option<String>,
    pub(crate) users: Vec<User>,
    pub(crate) arguments: Vec<OsString>,
}

impl Builder {
    pub(crate) fn new() -> Self {
        Self {
            members: 1,
            version: Version::Any,
            storage: Storage::default(),
            tls: Tls::default(),
            root_password: None,
            users: Vec::new(),
            arguments: Vec::new(),
        }
    }

    /// The number of members; 1 by default.
    pub fn members(mut self, members: usize) -> Self {
        self.members = members;
        self
    }

    /// The series of etcd; [`Version::Any`] by default.
    pub fn version(mut self, version: Version) -> Self {
        self.version = version;
        self
    }

    /// Where the data are; in memory by default.
    pub fn storage(mut self, storage: Storage) -> Self {
        self.storage = storage;
        self
    }

    /// How clients talk to the members; plain TCP by default.
    pub fn tls(mut self, tls: Tls) -> Self {
        self.tls = tls;
        self
    }

    /// Turns authentication on, with the user `root` of that password and with `users`.
    ///
    /// Passwords are hashed at the lowest cost, so that tests are fast; `.arg("--bcrypt-cost=10")` is etcd's default.
    pub fn auth(mut self, root_password: impl Into<String>, users: impl IntoIterator<Item = User>) -> Self {
        self.root_password = Some(root_password.into());
        self.users.extend(users);
        self
    }

    /// A further argument of every member; it wins over the harness's own. Write it as one, with `=`.
    pub fn arg(mut self, argument: impl Into<OsString>) -> Self {
        self.arguments.push(argument.into());
        self
    }

    /// Starts the cluster and waits until every member serves requests.
    ///
    /// # Errors
    /// [`Error::Missing`] when there is no such server, [`Error::Start`] with the log when a member ends,
    /// [`Error::Timeout`] when the cluster is not there in time, [`Error::Usage`] for an option out of range.
    ///
    /// # Cancel safety
    /// A start whose future is dropped goes on in the background, and what it started is removed at once.
    pub async fn start(self) -> Result<Cluster, Error> {
        Cluster::start(self).await
    }
}
