//! What whoever holds a lock is told.

use std::time::Instant;

use leasehold::LostReason;
use leasehold_etcd::{Cluster, Past, Proxy, Version, eventually, on_every_version};

use crate::{client, client_at, etcd, expect_loss, set_back, soon, warm_up};

/// Waits until etcd has so many watches. A hold has one when it is a second old: its client learns in another way that
/// etcd is back than that of a younger one.
async fn watched(cluster: &Cluster, holds: u8) {
    let is_watched = || async {
        let watches = cluster.metric(0, "etcd_debugging_mvcc_watcher_total").await;
        watches.is_ok_and(|watches| watches >= f64::from(holds))
    };
    eventually("etcd watches what is held", is_watched).await;
}

/// The backup has the holder's lease and not its key: nothing but the revision says so.
#[tokio::test]
async fn the_backup_has_the_lease_and_not_the_key() {
    on_every_version(|version| async move {
        if version == Version::V3_4 {
            return; // there is no etcdutl for it
        }
        for holds_watched in [0, 1] {
            let cluster = leasehold_etcd::Cluster::builder().version(version).start().await.unwrap();
            let ((holder, writes), (next, _)) = (client(&cluster), client(&cluster));
            warm_up(&holder).await;
            let backup = cluster.backup().await.unwrap();
            let guard = holder.lock("/lock/a").acquire().await.unwrap();
            watched(&cluster, holds_watched).await;
            let back = set_back(&cluster, Past::Backup(&backup)).await;
            assert_eq!(expect_loss(&guard, back).await, LostReason::StoreRestored, "etcd {version}");
            assert_eq!(guard.release().await.unwrap_err().reason(), Some(LostReason::StoreRestored));
            // Its own client takes it afresh, as everybody else.
            soon(soon(holder.lock("/lock/a").acquire()).await.unwrap().release()).await.unwrap();
            soon(soon(next.lock("/lock/a").acquire()).await.unwrap().release()).await.unwrap();
            assert!(writes.most_writes() <= crate::MOST_WRITES, "{} writes in a second", writes.most_writes());
        }
    })
    .await;
}

/// The backup has the holder's lease and key, and its client has seen later revisions.
#[tokio::test]
async fn the_backup_has_both() {
    let cluster = etcd().await;
    let ((holder, _), (next, _)) = (client(&cluster), client(&cluster));
    let guard = holder.lock("/lock/a").acquire().await.unwrap();
    let backup = cluster.backup().await.unwrap();
    warm_up(&holder).await;
    let back = set_back(&cluster, Past::Backup(&backup)).await;
    assert_eq!(expect_loss(&guard, back).await, LostReason::StoreRestored);
    // What the backup brought back of it does not stay: nobody waits for the end of its lease.
    soon(next.lock("/lock/a").acquire()).await.unwrap().release().await.unwrap();
    soon(holder.lock("/lock/a").acquire()).await.unwrap().release().await.unwrap();
}

/// The backup knows nothing of the holder.
#[tokio::test]
async fn the_backup_has_neither() {
    for holds_watched in [0, 1] {
        let cluster = etcd().await;
        let backup = cluster.backup().await.unwrap();
        let (holder, _) = client(&cluster);
        warm_up(&holder).await;
        let guard = holder.lock("/lock/a").acquire().await.unwrap();
        watched(&cluster, holds_watched).await;
        let back = set_back(&cluster, Past::Backup(&backup)).await;
        assert_eq!(expect_loss(&guard, back).await, LostReason::StoreRestored);
        soon(holder.lock("/lock/a").acquire()).await.unwrap().release().await.unwrap();
    }
}

/// With the revisions moved up nothing proves a restore, and nothing has to: what the backup has not is seen to be missing.
#[tokio::test]
async fn revisions_that_were_moved_up_keep_what_stands_and_tell_what_is_missing() {
    let cluster = etcd().await;
    let (holder, _) = client(&cluster);
    let kept = holder.lock("/lock/kept").acquire().await.unwrap();
    let backup = cluster.backup().await.unwrap();
    let missing = holder.lock("/lock/missing").acquire().await.unwrap();
    let before = missing.token();
    watched(&cluster, 2).await;
    let back = set_back(&cluster, Past::Bumped(&backup, 1_000_000)).await;
    assert_eq!(expect_loss(&missing, back).await, LostReason::KeyDeleted);
    assert!(kept.is_held());
    kept.put("/data", "still the owner's").await.unwrap();
    let again = soon(holder.lock("/lock/missing").acquire()).await.unwrap();
    assert!(again.token() > before + 900_000, "tokens grow: {} after {before}", again.token());
    kept.release().await.unwrap();
}

/// Others have written so much by the time the holder's client is back that no revision is lower: then the key itself is missing.
#[tokio::test]
async fn writes_have_passed_the_old_revision() {
    for holds_watched in [0, 1] {
        let cluster = etcd().await;
        let proxy = Proxy::start(cluster.address(0)).unwrap();
        let (holder, _) = client_at(&format!("http://{}", proxy.address()));
        warm_up(&holder).await;
        let backup = cluster.backup().await.unwrap();
        let guard = holder.lock("/lock/a").acquire().await.unwrap();
        watched(&cluster, holds_watched).await;
        proxy.cut();
        set_back(&cluster, Past::Backup(&backup)).await;
        for _ in 0..10 {
            cluster.ctl(&["put", "other", "write"]).await.unwrap();
        }
        proxy.pass();
        let reason = expect_loss(&guard, Instant::now()).await;
        assert!(matches!(reason, LostReason::KeyDeleted | LostReason::StoreRestored), "{reason}");
    }
}

/// All is gone: keys, leases, revisions. The long TTL would keep the old holder believing.
#[tokio::test]
async fn a_wiped_etcd() {
    for holds_watched in [0, 1] {
        let cluster = etcd().await;
        let ((holder, writes), (next, _)) = (client(&cluster), client(&cluster));
        warm_up(&next).await;
        let guard = holder.lock("/lock/a").acquire().await.unwrap();
        watched(&cluster, holds_watched).await;
        let back = set_back(&cluster, Past::Nothing).await;
        assert_eq!(expect_loss(&guard, back).await, LostReason::StoreRestored);
        soon(next.lock("/lock/a").acquire()).await.unwrap().release().await.unwrap();
        soon(holder.lock("/lock/a").acquire()).await.unwrap().release().await.unwrap();
        assert!(writes.most_writes() <= crate::MOST_WRITES, "{} writes in a second", writes.most_writes());
    }
}

/// To whoever has seen nothing that the backup has not, etcd is as it was: its key stands, and nobody was let in.
#[tokio::test]
async fn who_has_seen_nothing_newer_goes_on() {
    let cluster = etcd().await;
    let ((holder, _), (other, _)) = (client(&cluster), client(&cluster));
    let guard = holder.lock("/lock/a").acquire().await.unwrap();
    watched(&cluster, 1).await;
    let backup = cluster.backup().await.unwrap();
    warm_up(&other).await;
    set_back(&cluster, Past::Backup(&backup)).await;
    watched(&cluster, 1).await;
    eventually("it can write", || async { guard.put("/data", "still the owner's").await.is_ok() }).await;
    assert!(guard.is_held());
    guard.release().await.unwrap();
}

/// A hold without renewal has a lease of its own, and is watched by nobody but itself.
#[tokio::test]
async fn a_hold_without_renewal_is_told_as_well() {
    let cluster = etcd().await;
    let (holder, _) = client(&cluster);
    warm_up(&holder).await;
    let backup = cluster.backup().await.unwrap();
    let guard = holder.lock("/lock/a").renew(false).acquire().await.unwrap();
    let back = set_back(&cluster, Past::Backup(&backup)).await;
    assert_eq!(expect_loss(&guard, back).await, LostReason::StoreRestored);
}

/// A restart without a restore is no reason to lose anything.
#[tokio::test]
async fn a_restart_with_the_same_data_is_none() {
    let cluster = etcd().await;
    let (holder, _) = client(&cluster);
    let guard = holder.lock("/lock/a").acquire().await.unwrap();
    watched(&cluster, 1).await;
    for _ in 0..3 {
        cluster.kill(0).unwrap();
        cluster.restart(0).await.unwrap();
        // The client is back, and has looked at its hold before it watches it again.
        watched(&cluster, 1).await;
        eventually("it can write", || async { guard.put("/data", "still the owner's").await.is_ok() }).await;
        assert!(guard.is_held());
    }
    guard.release().await.unwrap();
}

/// The backup was made in the middle of a tenancy, and knows of none of its places: one that is held from a loan, one with heirs, and
/// one that is lent and that nobody holds.
#[tokio::test]
async fn places_that_are_shared_or_lent_end_with_the_history() {
    let cluster = etcd().await;
    let ((holder, _), (next, _)) = (client(&cluster), client(&cluster));
    warm_up(&next).await;
    let backup = cluster.backup().await.unwrap();
    let lock = |name| holder.lock(name).local_first().linger(crate::TTL);
    for name in ["/lock/taken", "/lock/lent"] {
        eventually("it lingers", async || {
            let guard = soon(lock(name).acquire()).await.unwrap();
            let is_from_memory = guard.sequence() > 0;
            guard.release().await.unwrap();
            is_from_memory
        })
        .await;
    }
    let taken = soon(lock("/lock/taken").acquire()).await.unwrap();
    assert!(taken.sequence() > 1, "etcd was asked for it");
    let kept = soon(lock("/lock/kept").acquire()).await.unwrap();
    let heir = tokio::spawn(lock("/lock/kept").acquire());
    for name in ["/lock/taken", "/lock/lent", "/lock/kept"] {
        let stands = || async { cluster.keys(&format!("{name}/")).await.unwrap().len() == 1 };
        eventually("there is one place of each", stands).await;
    }

    let back = set_back(&cluster, Past::Backup(&backup)).await;
    for guard in [&taken, &kept] {
        assert_eq!(expect_loss(guard, back).await, LostReason::StoreRestored);
    }
    // The heir is served anew, with a place that etcd knows.
    let heir = soon(heir).await.unwrap().unwrap();
    assert_eq!(heir.sequence(), 0);
    assert!(cluster.keys("/lock/kept/").await.unwrap().contains(&heir.key()));
    heir.release().await.unwrap();
    // What was lent is not taken from memory, and is in nobody's way.
    for name in ["/lock/lent", "/lock/taken"] {
        soon(next.lock(name).acquire()).await.unwrap().release().await.unwrap();
        let again = soon(lock(name).acquire()).await.unwrap();
        assert!(cluster.keys(&format!("{name}/")).await.unwrap().contains(&again.key()));
        again.release().await.unwrap();
    }
}
