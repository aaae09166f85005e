//! The warning about servers that may acknowledge the renewal of a revoked lease.

use leasehold_etcd::{Cluster, Version};
use tokio::time::timeout;

use super::{PATIENCE, call, range, started, store_of, warnings::Warnings};

#[tokio::test]
async fn an_old_server_is_warned_of_after_the_first_answer() {
    let Some(cluster) = started(Cluster::builder().version(Version::V3_4)).await else { return };
    let warnings = Warnings::default();
    // The runtime of a test has one thread, so what the store does in the background is told here as well.
    let _guard = tracing::subscriber::set_default(warnings.clone());
    let store = store_of(&cluster);
    call(&store, range("a")).await.unwrap();
    let told = async {
        while warnings.told().is_empty() {
            tokio::task::yield_now().await;
        }
    };
    timeout(PATIENCE, told).await.expect("no warning");
    let told = warnings.told().concat();
    let version = format!("version={:?}", cluster.release().to_string());
    assert!(told.contains(&version) && told.contains(&cluster.endpoint(0)), "{told}");
    assert!(told.contains("revoked lease"), "{told}");
}
