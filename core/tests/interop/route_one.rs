//! A client as many articles write it: it puts `<name>/<own id>` under its own lease, reads the prefix, watches its predecessor,
//! and takes any event there, not only a delete, for its turn.

use std::time::Duration;

use etcd_client::{EventType, GetOptions, PutOptions, SortOrder, SortTarget, WatchOptions};
use leasehold_etcd::{Cluster, on_every_version};
use tokio::time::sleep;

use crate::{client, etcd, queued, soon, waiter};

struct RouteOne {
    client: etcd_client::Client,
    key: String,
    lease: i64,
}

impl RouteOne {
    async fn queue(cluster: &Cluster, id: &str) -> Self {
        let mut client = etcd_client::Client::connect(cluster.endpoints(), None).await.unwrap();
        let lease = client.lease_grant(60, None).await.unwrap().id();
        let key = format!("/lock/a/{id}");
        client.put(key.as_str(), id, Some(PutOptions::new().with_lease(lease))).await.unwrap();
        Self { client, key, lease }
    }

    /// Waits for its turn; the event that it took for it, if it had to wait.
    async fn turn(&mut self) -> Option<EventType> {
        let in_order = GetOptions::new().with_prefix().with_sort(SortTarget::Create, SortOrder::Ascend);
        let all = self.client.get("/lock/a/", Some(in_order)).await.unwrap();
        let place = all.kvs().iter().position(|kv| kv.key() == self.key.as_bytes()).unwrap();
        let predecessor = all.kvs()[place.checked_sub(1)?].key().to_vec();
        let from = WatchOptions::new().with_start_revision(all.header().unwrap().revision() + 1);
        let mut watch = self.client.watch(predecessor, Some(from)).await.unwrap();
        loop {
            let answer = watch.message().await.unwrap().expect("the watch goes on");
            if let Some(event) = answer.events().first() {
                return Some(event.event_type());
            }
        }
    }

    async fn release(mut self) {
        self.client.delete(self.key.as_str(), None).await.unwrap();
        self.client.lease_revoke(self.lease).await.unwrap();
    }
}

/// Seen to fail with a guarded write that writes the contender's key again.
#[tokio::test]
async fn a_route_one_client_has_its_turn_before_and_after_ours() {
    on_every_version(|version| async move {
        let cluster = etcd(version).await;
        let ours = client(&cluster, 2);
        let mut before = RouteOne::queue(&cluster, "before").await;
        assert_eq!(before.turn().await, None, "nobody is there");
        let waiting = waiter(&ours);
        queued(&cluster, 2).await;
        let mut after = RouteOne::queue(&cluster, "after").await;
        let after = tokio::spawn(async move { (after.turn().await, after) });
        queued(&cluster, 3).await;

        // As a waiter and as a holder, renewed several times: nothing may happen to our key.
        sleep(Duration::from_secs(2)).await;
        assert!(!waiting.is_finished(), "etcd {version}: we own what {} owns", before.key);
        before.release().await;
        let guard = soon(waiting).await.unwrap();
        guard.extend(Duration::from_secs(2)).await.unwrap();
        guard.put("/data", "written while held").await.unwrap();
        sleep(Duration::from_secs(2)).await;
        assert!(!after.is_finished(), "etcd {version}: it took something else than our release for its turn");
        guard.release().await.unwrap();
        let (event, after) = soon(after).await.unwrap();
        assert_eq!(event, Some(EventType::Delete), "etcd {version}");

        // It owns the lock for us, too.
        assert!(ours.lock("/lock/a").try_acquire().await.unwrap().is_none());
        after.release().await;
        ours.lock("/lock/a").try_acquire().await.unwrap().expect("free").release().await.unwrap();
    })
    .await;
}
