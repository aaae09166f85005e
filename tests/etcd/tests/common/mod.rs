//! Runs one test on every server that can be had, all at once.

use leasehold_etcd::{Server, Version, servers};
use tokio::task::JoinSet;

/// Says which versions are skipped and why.
pub async fn on_every_version<T: Future<Output = ()> + Send + 'static>(test: impl Fn(Version, Server) -> T) {
    let mut tests = JoinSet::new();
    for (version, server) in servers().await {
        match server {
            Ok(server) => drop(tests.spawn(test(version, server))),
            Err(reason) => eprintln!("skipped etcd {version}: {reason}"),
        }
    }
    assert!(!tests.is_empty(), "no etcd at all");
    tests.join_all().await;
}
