//! The harness on every server that is here: it must work before anything that is tested with it.

use std::time::Instant;

use leasehold_etcd::{Cluster, servers};

#[tokio::test]
async fn every_version_stores_a_value() {
    for (version, server) in servers().await {
        let server = match server {
            Ok(server) => server,
            Err(reason) => {
                eprintln!("skipped etcd {version}: {reason}");
                continue;
            }
        };
        let begun = Instant::now();
        let cluster = Cluster::builder().version(version).start().await.expect("starts");
        eprintln!("{server}: ready after {:?}", begun.elapsed());
        assert!(version.includes(cluster.release()));
        cluster.ctl(&["put", "key", "value"]).await.expect("stores");
        assert_eq!(cluster.ctl(&["get", "key", "--print-value-only"]).await.expect("reads"), "value\n");
    }
}
