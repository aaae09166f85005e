//! The server's own lock service (`v3lockpb.Lock`), which jetcd uses.

use std::time::Duration;

use etcd_client::LockOptions;
use leasehold_etcd::on_every_version;
use tokio::time::sleep;

use crate::{client, etcd, queued, soon, waiter};

/// Seen to fail with foreign keys, which have no number at their end, left out of the queue.
#[tokio::test]
async fn the_lock_service_and_we_take_turns_in_one_queue() {
    on_every_version(|version| async move {
        let cluster = etcd(version).await;
        let ours = client(&cluster, 5);
        let first = ours.lock("/lock/a").acquire().await.unwrap();
        let mut theirs = etcd_client::Client::connect(cluster.endpoints(), None).await.unwrap();
        let lease = theirs.lease_grant(60, None).await.unwrap().id();
        let their = tokio::spawn({
            let mut service = theirs.lock_client();
            async move { service.lock("/lock/a", Some(LockOptions::new().with_lease(lease))).await.unwrap() }
        });
        queued(&cluster, 2).await;
        let last = waiter(&ours);
        queued(&cluster, 3).await;
        assert!(!their.is_finished(), "etcd {version}: the service owns what {} owns", first.key());
        let first_token = first.token();
        first.release().await.unwrap();
        let answer = soon(their).await.unwrap();
        let key = answer.key().to_vec();
        // Their token, too, is the revision at which their key was created. The one in the answer's header is later than that,
        // and here than the token of the next owner.
        let their_token = theirs.get(key.as_slice(), None).await.unwrap().kvs()[0].create_revision();
        assert!(!last.is_finished(), "etcd {version}: we own what the service gave away");
        theirs.unlock(key).await.unwrap();
        let last = soon(last).await.unwrap();
        assert!(first_token < their_token && their_token < last.token(), "etcd {version}");
        assert!(answer.header().unwrap().revision() > last.token(), "etcd {version}");
        last.release().await.unwrap();
        queued(&cluster, 0).await;
    })
    .await;
}

/// Why such clients can be replaced one after the other, while a class that queues by itself cannot (docs/migrating-java.md).
#[tokio::test]
async fn the_lock_service_does_not_take_a_waiter_that_gives_up_for_its_turn() {
    on_every_version(|version| async move {
        let cluster = etcd(version).await;
        let ours = client(&cluster, 5);
        let first = ours.lock("/lock/a").acquire().await.unwrap();
        let gives_up = waiter(&ours);
        queued(&cluster, 2).await;
        let mut theirs = etcd_client::Client::connect(cluster.endpoints(), None).await.unwrap();
        let lease = theirs.lease_grant(60, None).await.unwrap().id();
        let their = tokio::spawn({
            let mut service = theirs.lock_client();
            async move { service.lock("/lock/a", Some(LockOptions::new().with_lease(lease))).await.unwrap() }
        });
        queued(&cluster, 3).await;
        gives_up.abort();
        queued(&cluster, 2).await;
        // Ten times what its watch takes to tell of the deletion.
        sleep(Duration::from_secs(1)).await;
        assert!(!their.is_finished(), "etcd {version}: it owns what {} owns", first.key());
        first.release().await.unwrap();
        theirs.unlock(soon(their).await.unwrap().key()).await.unwrap();
        queued(&cluster, 0).await;
    })
    .await;
}
