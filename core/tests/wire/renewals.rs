//! What keeps locks alive.

use std::time::Duration;

use leasehold::ClientOptions;
use leasehold_etcd::{Direction, eventually, on_every_version};

use crate::{etcd, relay::Relay};

/// Seen to fail with a session, and so a renewal, for each lock.
#[tokio::test]
async fn renewals_do_not_grow_with_the_number_of_locks() {
    const RENEWALS: usize = 3;
    on_every_version(|version| async move {
        let cluster = etcd(version).await;
        let few = Relay::start(&cluster);
        let many = Relay::start(&cluster);
        let mut guards = Vec::new();
        let mut marks = Vec::new();
        for (relay, locks) in [(&many, 100), (&few, 1)] {
            let client = ClientOptions::new(relay.url()).ttl(Duration::from_secs(6)).build().unwrap();
            for number in 0..locks {
                guards.push(client.lock(&format!("/lock/{number}/{locks}")).acquire().await.unwrap());
            }
            marks.push(relay.mark());
        }
        let sent = |relay: &Relay, mark| relay.since(mark).count("LeaseKeepAlive", Direction::ToServer);
        eventually("one lock was renewed", || async { sent(&few, marks[1]) >= RENEWALS }).await;
        let count = sent(&many, marks[0]);
        // One more where the clients do not beat in step, and one where a busy machine made a renewal late.
        assert!((1..=RENEWALS + 2).contains(&count), "etcd {version}: {count} renewals for 100 locks");
        assert!(guards.iter().all(leasehold::Guard::is_held));
        println!("etcd {}: {RENEWALS} renewals for one lock, {count} for 100", cluster.release());
    })
    .await;
}
