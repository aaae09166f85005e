//! Starts a real etcd for a test and ends it with the test.
//!
//! ```no_run
//! # async fn example() -> Result<(), leasehold_etcd::Error> {
//! use leasehold_etcd::{Cluster, Version};
//!
//! let cluster = Cluster::builder().members(3).version(Version::V3_6).start().await?;
//! println!("etcd {} at {:?}", cluster.release(), cluster.endpoints());
//! cluster.kill(cluster.leader().await?)?;
//! # Ok(())
//! # }
//! ```
//!
//! Every member is a child process on loopback with a temporary data directory of its own, and with ports that nobody else
//! gets while the cluster lives. A member is believed to be up when it says so *and* it is our child that listens there.
//! Dropping the [`Cluster`] kills the members and removes their data, also while a panic unwinds. Should the test
//! process itself be killed, the kernel kills the members, and the next start removes what they left.
//!
//! For Linux: it relies on the parent-death signal, on `/proc` and, where there is one, on `/dev/shm`.

mod auth;
mod background;
mod backup;
mod builder;
mod child;
mod cluster;
mod error;
mod etcdctl;
mod go_build;
mod look;
mod matrix;
mod partition;
mod ports;
mod probe;
mod process;
mod proxy;
mod relay;
mod scratch;
mod sockets;
mod source;
mod tls;
mod version;
mod wait;

pub use auth::User;
pub use background::tie;
pub use backup::{Backup, Past};
pub use builder::{Builder, Storage};
pub use child::spawn;
pub use cluster::Cluster;
pub use error::Error;
pub use matrix::on_every_version;
pub use proxy::{Direction, Proxy};
pub use relay::{Fate, Gate, Passing, Relay};
pub use source::{Server, ensure, find, outlook, servers};
pub use tls::{Certificates, Tls};
pub use version::{Release, Version};
pub use wait::{eventually, undisturbed};
