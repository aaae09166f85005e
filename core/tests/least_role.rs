//! The least role of docs/operations.md, as its lines are printed: enough for everything a client does, and no line too many.
//!
//! Seen to fail with a line left out of the page, with `write` in place of `readwrite`, and with one line too many.

use std::{fs, future::Future, time::Duration};

use leasehold::{Client, ClientOptions, Code, Error};
use leasehold_etcd::{Cluster, Version, eventually};
use tokio::time::timeout;

/// How long anything that is expected may take.
const PATIENCE: Duration = Duration::from_secs(90);

async fn soon<F: Future>(future: F) -> F::Output {
    timeout(PATIENCE, future).await.expect("it takes too long")
}

/// The lines of the page, each as the arguments of `etcdctl`; a user gets a password, for which `etcdctl` asks people.
fn lines() -> Vec<Vec<String>> {
    let page = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/operations.md")).unwrap();
    let (_, part) = page.split_once("### The least role").expect("the section");
    let (_, block) = part.split_once("```sh\n").expect("its lines");
    let (block, _) = block.split_once("```").expect("their end");
    let arguments = |line: &str| {
        let mut words: Vec<String> = line.split_whitespace().skip(1).map(str::to_owned).collect();
        if words.starts_with(&["user".into(), "add".into()]) {
            words[2] += ":secret";
        }
        words
    };
    block.lines().filter(|line| !line.is_empty()).map(arguments).collect()
}

/// A cluster on which the lines were run.
async fn cluster(version: Version, lines: &[Vec<String>]) -> Cluster {
    let cluster = Cluster::builder().version(version).auth("root-secret", []).start().await.unwrap();
    for line in lines {
        cluster.ctl(&line.iter().map(String::as_str).collect::<Vec<_>>()).await.unwrap();
    }
    cluster
}

fn client(cluster: &Cluster, user: &str) -> Client {
    let options = ClientOptions::from_endpoints(cluster.endpoints()).ttl(Duration::from_secs(5));
    options.user(user, "secret").build().unwrap()
}

/// All that a service does with the names of the page.
async fn everything(client: &Client) -> Result<(), Error> {
    let (order, stock) = (client.lock("/lock/order"), client.lock("/lock/stock/7"));
    // Two names on one lease, and two who wait.
    let guard = order.acquire().await?;
    let reader = stock.shared().acquire().await?;
    assert_eq!(guard.lease(), reader.lease(), "a shared lease");
    let waiting = tokio::spawn(order.acquire());
    eventually("it waits", || async { order.queue().await.is_ok_and(|queue| queue.len() == 2) }).await;
    guard.put("/data/order/7", "paid").await?;
    guard.delete("/data/order/7").await?;
    // A renewal is seen by the deadline that moves on.
    let until = || std::time::Instant::now() + guard.remaining();
    let before = until();
    eventually("it is renewed", || async { until() > before + Duration::from_secs(1) }).await;
    guard.release().await?;
    soon(waiting).await.unwrap()?.release().await?;
    reader.release().await?;

    client.semaphore("/lock/stock/seats", 3).permits(2).acquire().await?.release().await?;
    client.all([client.lock("/lock/order"), client.lock("/lock/stock/7").shared()]).acquire().await?.release().await?;
    order.clone().local_first().acquire().await?.release().await?;
    let unrenewed = order.clone().renew(false).acquire().await?;
    order.force_release(unrenewed.token()).await?;

    let election = client.election("/lock/stock/keeper");
    let leader = election.campaign("one").await?;
    leader.proclaim("two").await?;
    assert_eq!(election.leader().await?.map(|leader| leader.value), Some(b"two".to_vec()));
    leader.release().await
}

#[tokio::test]
async fn the_lines_of_the_page_are_enough() {
    for version in [Version::V3_5, Version::V3_6, Version::V3_7] {
        let cluster = cluster(version, &lines()).await;
        let billing = client(&cluster, "billing");
        soon(everything(&billing)).await.unwrap();

        // Nothing beside: neither other locks nor other data, nor a name that only begins alike.
        let guard = billing.lock("/lock/order").acquire().await.unwrap();
        for name in ["/lock/orders", "/lock/stocks", "/lock", "/data/order"] {
            assert_eq!(billing.lock(name).acquire().await.unwrap_err().code(), Code::PermissionDenied, "{name}");
        }
        assert_eq!(guard.put("/data/orders", "x").await.unwrap_err().code(), Code::PermissionDenied);

        // The dashboard sees all of it, and takes nothing.
        let dashboard = client(&cluster, "dashboard");
        let queue = dashboard.lock("/lock/order").queue().await.unwrap();
        assert_eq!(queue.iter().map(|contender| contender.token).collect::<Vec<_>>(), [guard.token()]);
        let mut observer = dashboard.election("/lock/order").observe();
        soon(observer.next()).await.unwrap();
        drop(observer);
        for refused in [
            dashboard.lock("/lock/order").acquire().await.map(drop),
            dashboard.lock("/lock/order").force_release(guard.token()).await.map(drop),
        ] {
            assert_eq!(refused.unwrap_err().code(), Code::PermissionDenied, "etcd {version}");
        }
        guard.release().await.unwrap();
        dashboard.close().await.unwrap();
        billing.close().await.unwrap();
        assert!(cluster.leases().await.unwrap().is_empty());
    }
}

#[tokio::test]
async fn none_of_the_lines_is_too_many() {
    let all = lines();
    let grants: Vec<usize> = (0..all.len()).filter(|&n| all[n].contains(&"grant-permission".into())).collect();
    assert_eq!(grants.len(), 4, "the lines of the page: {all:?}");
    for without in grants {
        let mut some = all.clone();
        let left_out = some.remove(without);
        let cluster = cluster(Version::V3_7, &some).await;
        let refused = if left_out.contains(&"dashboard".into()) {
            client(&cluster, "dashboard").lock("/lock/order").queue().await.map(drop)
        } else {
            soon(everything(&client(&cluster, "billing"))).await
        };
        assert_eq!(refused.unwrap_err().code(), Code::PermissionDenied, "without {left_out:?}");
    }
}
