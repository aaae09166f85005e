//! Clusters that are set back to a backup or to nothing, and what their clients can see of it.

use leasehold_etcd::{Cluster, Past, Version, on_every_version};
use serde_json::Value;

/// Revision, cluster id and value of `key` as a client sees them.
async fn look(cluster: &Cluster) -> (i64, u64, String) {
    let text = cluster.ctl(&["get", "key", "--write-out=json"]).await.expect("reads");
    let reply: Value = serde_json::from_str(&text).expect("JSON");
    let header = &reply["header"];
    let value = reply["kvs"][0]["value"].as_str().unwrap_or_default().to_owned();
    (header["revision"].as_i64().expect("a revision"), header["cluster_id"].as_u64().expect("an id"), value)
}

async fn goes_back(version: Version, members: usize) {
    let cluster = Cluster::builder().version(version).members(members).start().await.expect("starts");
    if version == Version::V3_4 {
        let error = cluster.set_back(Past::Backup(&cluster.backup().await.expect("saved"))).await.unwrap_err();
        assert!(error.to_string().contains("etcdutl"), "{error}");
        return;
    }
    cluster.ctl(&["put", "key", "a"]).await.expect("written");
    let backup = cluster.backup().await.expect("saved");
    let saved = look(&cluster).await;
    cluster.ctl(&["put", "key", "b"]).await.expect("written");
    let later = look(&cluster).await;
    assert!(later.0 > saved.0 && later.2 != saved.2);
    cluster.restore(Past::Backup(&backup)).await.expect("restored");
    // What identifies a cluster is made of its token and its members' addresses: a restore with the same ones changes nothing.
    assert_eq!(look(&cluster).await, saved, "etcd {version}");
    cluster.restore(Past::Bumped(&backup, 1000)).await.expect("restored");
    let bumped = look(&cluster).await;
    assert!(bumped.0 >= saved.0 + 1000 && bumped.2 == saved.2, "etcd {version}: {bumped:?} after {saved:?}");
    cluster.restore(Past::Nothing).await.expect("wiped");
    assert_eq!(look(&cluster).await, (1, saved.1, String::new()), "etcd {version}");
}

#[tokio::test]
async fn a_cluster_goes_back_to_a_backup_forward_from_it_and_to_nothing() {
    on_every_version(|version| goes_back(version, 1)).await;
}

#[tokio::test]
async fn three_members_go_back_together() {
    goes_back(Version::Any, 3).await;
}
