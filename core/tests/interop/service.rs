//! The server's own lock service (`v3lockpb.Lock`), which jetcd uses.

use etcd_client::LockOptions;
use leasehold_etcd::on_every_version;

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
