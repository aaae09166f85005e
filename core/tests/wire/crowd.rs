//! More processes than a watch on the whole queue serves well.

use std::time::Duration;

use leasehold::store::{
    Key, LeaseId, Op, Request, Store, Txn,
    etcd::{EtcdConfig, EtcdStore},
};
use leasehold_etcd::{Cluster, eventually, on_every_version, undisturbed};
use tokio::sync::mpsc;

use crate::{PATIENCE, etcd, patient, relay::Relay};

/// Seen to fail with crowds switched off: nobody gives up its watch on the whole queue, and all are told of each release.
#[tokio::test]
async fn a_release_is_not_pushed_to_everybody_in_a_crowd() {
    const CLIENTS: usize = 12;
    const STRANGERS: usize = 60;
    const RELEASES: usize = 6;
    on_every_version(|version| async move {
        let cluster = &etcd(version).await;
        undisturbed(|round| async move {
            let (relay, name) = (Relay::start(cluster), format!("/lock/{round}"));
            let guard = patient(cluster.endpoint(0)).lock(&name).acquire().await.unwrap();
            let (won, mut winners) = mpsc::unbounded_channel();
            for _ in 0..CLIENTS {
                let (lock, won) = (patient(relay.url()).lock(&name), won.clone());
                tokio::spawn(async move { won.send(lock.acquire().await.unwrap()) });
            }
            let keys = format!("{name}/");
            let queued = || async { cluster.keys(&keys).await.unwrap().len() == CLIENTS + 1 };
            eventually("all clients wait", queued).await;
            queue_strangers(cluster, &keys, LeaseId(0x7abc + round as i64), STRANGERS).await;
            // Each sees by a look at the whole queue how many there are.
            let are_told = || async { matches!(relay.all().queue_watches(), (CLIENTS.., 0)) };
            eventually("everybody has watched the whole queue, and nobody does any more", are_told).await;
            let mark = relay.mark();
            let mut token = guard.token();
            guard.release().await.unwrap();
            for _ in 1..RELEASES {
                let guard = winners.recv().await.unwrap();
                assert!(guard.token() > token);
                token = guard.token();
                guard.release().await.unwrap();
            }
            let _last = winners.recv().await.unwrap();
            let events = relay.since(mark).events();
            let cost = format!("etcd {version}: {RELEASES} releases before {CLIENTS} clients: {events} events");
            // The next in line hears of it, and whoever watches the key that was its own.
            if events > 3 * RELEASES {
                return Err(cost);
            }
            println!("{cost}");
            Ok(())
        })
        .await;
    })
    .await;
}

/// Puts so many processes at the end of the queue of these keys, with a lease of this id, that know nothing of us.
async fn queue_strangers(cluster: &Cluster, keys: &str, lease: LeaseId, count: usize) {
    let endpoints = cluster.endpoints();
    let config = EtcdConfig {
        endpoints,
        tls: None,
        login: None,
        plaintext_password: false,
        connect_timeout: Duration::from_secs(5),
    };
    let store = EtcdStore::new(config).unwrap();
    let call = async |request| store.call(request, PATIENCE).await.unwrap();
    call(Request::LeaseGrant { lease, ttl: 600 }).await;
    let put = |number| Op::Put {
        key: Key::from(format!("{keys}stranger{number}")),
        value: (*b"").into(),
        lease: Some(lease),
    };
    call(Request::Txn(Txn { then: (0..count).map(put).collect(), ..Txn::default() })).await;
}
