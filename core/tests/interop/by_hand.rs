//! Keys that somebody wrote by hand.

use std::time::Duration;

use leasehold::Code;
use leasehold_etcd::on_every_version;

use crate::{client, etcd};

/// For an answer of etcd on a busy machine: a limit that passes before it cannot name the blocker.
const LONG_ENOUGH: Duration = Duration::from_secs(3);

/// Seen to fail with a read of the keys alone: etcd 3.7 leaves the leases out of its answer then.
#[tokio::test]
async fn a_key_without_a_lease_is_named_as_the_blocker() {
    on_every_version(|version| async move {
        let cluster = etcd(version).await;
        cluster.ctl(&["put", "/lock/a/by-hand", "x"]).await.unwrap();
        let lock = client(&cluster, 5).lock("/lock/a");
        let error = lock.acquire_within(LONG_ENOUGH).await.unwrap_err();
        assert_eq!(error.code(), Code::NotAcquired);
        for part in ["/lock/a/by-hand", "no lease", "force_release"] {
            assert!(error.message().contains(part), "etcd {version}: {error}");
        }
        let queue = lock.queue().await.unwrap();
        assert_eq!(queue.len(), 1, "etcd {version}: {queue:?}");
        assert!(queue[0].foreign && queue[0].lease.is_none(), "etcd {version}: {queue:?}");
        lock.force_release(queue[0].token).await.unwrap();

        // One with a lease is not.
        let guard = lock.try_acquire().await.unwrap().expect("free");
        let error = client(&cluster, 5).lock("/lock/a").acquire_within(LONG_ENOUGH).await;
        let error = error.unwrap_err();
        assert!(error.message().contains(&guard.key()) && !error.message().contains("no lease"), "{error}");
        assert_eq!(lock.queue().await.unwrap()[0].lease, Some(guard.lease()), "etcd {version}");
    })
    .await;
}
