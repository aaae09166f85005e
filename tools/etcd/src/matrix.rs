//! One test on every version of etcd.

use tokio::task::JoinSet;

use crate::{Error, Version, servers};

/// Runs `test` once for every version that can be had, all at once, and panics if one of them does.
///
/// A version that cannot be had is reported on stdout as skipped, with the reason; the summary of all tests counts it.
///
/// # Panics
/// When a run panics, when a build fails, and when there is no etcd at all.
pub async fn on_every_version<T: Future<Output = ()> + Send + 'static>(test: impl Fn(Version) -> T) {
    let mut runs = JoinSet::new();
    for (version, server) in servers().await {
        match server {
            Ok(_) => drop(runs.spawn(test(version))),
            Err(Error::Missing(reason)) => println!("SKIPPED etcd {version}: {reason}"),
            Err(error) => panic!("etcd {version}: {error}"),
        }
    }
    assert!(!runs.is_empty(), "there is no etcd at all");
    runs.join_all().await;
}
