//! Places that callers of one client share, `local_first` and `linger`, on a real etcd.

mod bound;
mod door;
mod linger;
mod local_first;
mod losses;
mod writes;

use std::time::Duration;

use leasehold::{Client, ClientOptions, Guard, Lock};
use leasehold_etcd::{Cluster, Storage, eventually};
use tokio::{task::JoinHandle, time::timeout};

/// Longer than any test takes.
const LONG: Duration = Duration::from_secs(600);

/// The end of `future`, which must come soon.
async fn soon<F: Future>(future: F) -> F::Output {
    timeout(Duration::from_secs(60), future).await.expect("it takes too long")
}

async fn etcd() -> Cluster {
    Cluster::builder().storage(Storage::Memory).start().await.expect("an etcd starts")
}

fn client(cluster: &Cluster) -> Client {
    ClientOptions::from_endpoints(cluster.endpoints()).ttl(Duration::from_secs(5)).build().expect("good options")
}

/// Acquires in the background.
fn acquire(lock: &Lock) -> JoinHandle<leasehold::Result<Guard>> {
    tokio::spawn(lock.acquire())
}

/// Waits until so many acquires of this client wait: nobody else sees those that share a place.
async fn waiting(client: &Client, count: i64) {
    eventually(&format!("{count} wait"), || async { gauge(client, "leasehold_waiting") == count }).await;
}

fn gauge(client: &Client, name: &str) -> i64 {
    let metrics = client.metrics();
    let family = metrics.families.into_iter().find(|family| family.name == name).expect("it is measured");
    match family.samples[0].value {
        leasehold::Value::Gauge(level) => level,
        _ => unreachable!("a gauge"),
    }
}

/// Waits until so many keys stand in the queue of `/lock/a`.
async fn queued(cluster: &Cluster, count: usize) {
    let are_queued = || async { cluster.keys("/lock/a/").await.unwrap().len() == count };
    eventually(&format!("{count} are queued"), are_queued).await;
}

/// The revision of etcd.
async fn revision(cluster: &Cluster) -> i64 {
    let answer = cluster.ctl(&["get", "nothing", "-w", "json"]).await.unwrap();
    let at = answer.find("\"revision\":").expect("a header") + "\"revision\":".len();
    answer[at..].split(|c: char| !c.is_ascii_digit()).next().unwrap().parse().unwrap()
}
