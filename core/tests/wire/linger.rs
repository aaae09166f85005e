//! A place that lingers, and somebody else who wants it: two round trips, counted. The newcomer enqueues, of which etcd tells the
//! holder's client; that deletes its key, of which etcd tells the newcomer.

use std::time::{Duration, Instant};

use leasehold_etcd::{Direction, eventually, on_every_version};

use crate::{etcd, rechecks, relay::Relay, warm_client};

/// Longer than this test takes.
const LONG: Duration = Duration::from_secs(600);

/// Seen to fail with a linger that looks at nobody.
#[tokio::test]
async fn it_is_given_up_by_one_request_and_taken_after_one_read() {
    on_every_version(|version| async move {
        let cluster = etcd(version).await;
        let (ours, theirs) = (Relay::start(&cluster), Relay::start(&cluster));
        let (holder, other) = (warm_client(&ours).await, warm_client(&theirs).await);
        let lock = holder.lock("/lock/a").linger(LONG);
        for _ in 0..5 {
            let begun = Instant::now();
            // Not while it takes the newcomer of the round before for somebody who stands there.
            let lingers = || async {
                let guard = lock.acquire().await.unwrap();
                let is_taken_from_memory = guard.sequence() > 0;
                guard.release().await.unwrap();
                is_taken_from_memory
            };
            eventually("it lingers", lingers).await;
            let is_watched =
                || async { ours.all().queue_watches().1 == 1 && ours.all().count("Range", Direction::ToClient) > 0 };
            eventually("its queue is watched", is_watched).await;

            let (revision, mark, their_mark) = (cluster.revision().await.unwrap(), ours.mark(), theirs.mark());
            let taken = tokio::time::timeout(Duration::from_secs(60), other.lock("/lock/a").acquire()).await;
            let guard = taken.expect("the place is given up").unwrap();
            let (holders, newcomers) = (ours.since(mark), theirs.since(their_mark));
            assert_eq!(cluster.revision().await.unwrap() - revision, 2, "etcd {version}: a put and a delete");
            let extra = rechecks(1, begun.elapsed());
            assert_eq!(holders.unary().get("Txn"), Some(&1), "etcd {version}: {:?}", holders.unary());
            assert!(
                holders.unary().get("Range").is_none_or(|reads| *reads <= extra),
                "etcd {version}: {:?}",
                holders.unary()
            );
            let asked: usize = newcomers.unary().values().sum();
            assert!(asked <= 2 + extra, "etcd {version}: it enqueues and reads once: {:?}", newcomers.unary());
            println!(
                "etcd {}: {:?} of the holder, {:?} of the newcomer",
                cluster.release(),
                holders.unary(),
                newcomers.unary()
            );
            guard.release().await.unwrap();
        }
    })
    .await;
}
