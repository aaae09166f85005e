//! A place that lingers, and somebody else who wants it: two round trips, counted. The newcomer enqueues, of which etcd tells the
//! holder's client; that deletes its key, of which etcd tells the newcomer.

use std::time::{Duration, Instant};

use leasehold::LocalFirst;
use leasehold_etcd::{on_every_version, undisturbed};

use crate::{PATIENCE, etcd, relay::Relay, warm_client};

/// Longer than this test takes.
const LONG: Duration = Duration::from_secs(600);

/// Seen to fail with a linger that looks at nobody.
#[tokio::test]
async fn it_is_given_up_by_one_request_and_taken_after_one_read() {
    on_every_version(|version| async move {
        let cluster = etcd(version).await;
        let (ours, theirs) = (Relay::start(&cluster), Relay::start(&cluster));
        let (holder, other) = (warm_client(&ours).await, warm_client(&theirs).await);
        let (cluster, ours, theirs, holder, other) = (&cluster, &ours, &theirs, &holder, &other);
        undisturbed(|round| async move {
            let (name, begun) = (format!("/lock/{round}"), Instant::now());
            // As long as its client does not know that nobody else stands there, a place stays no longer than its bound: one that
            // has stayed for so much longer is known to be alone.
            let (mut won, mut age) = (begun, Duration::ZERO);
            while age < 10 * LocalFirst::default().time {
                tokio::time::sleep(Duration::from_millis(20)).await;
                let guard = holder.lock(&name).linger(LONG).acquire().await.unwrap();
                if guard.sequence() == 0 {
                    assert!(begun.elapsed() < LONG, "it does not linger");
                    won = Instant::now();
                }
                age = won.elapsed();
                guard.release().await.unwrap();
            }

            let (revision, mark, their_mark) = (cluster.revision().await.unwrap(), ours.mark(), theirs.mark());
            let taken = tokio::time::timeout(PATIENCE, other.lock(&name).acquire()).await;
            let guard = taken.expect("the place is given up").unwrap();
            let (holders, newcomers) = (ours.since(mark), theirs.since(their_mark));
            assert_eq!(cluster.revision().await.unwrap() - revision, 2, "etcd {version}: a put and a delete");
            assert_eq!(holders.unary().get("Txn"), Some(&1), "etcd {version}: {:?}", holders.unary());
            guard.release().await.unwrap();
            let cost =
                format!("etcd {version}: {:?} of the holder, {:?} of the newcomer", holders.unary(), newcomers.unary());
            // It enqueues, and reads once.
            let asked = newcomers.unary().get("Txn").copied().unwrap_or_default() + newcomers.reads_of(&name);
            if holders.reads_of(&name) > 0 || asked > 2 {
                return Err(cost);
            }
            println!("{cost}");
            Ok(())
        })
        .await;
    })
    .await;
}
