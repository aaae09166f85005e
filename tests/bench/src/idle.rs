//! Processes that wait for one name that nobody releases: what etcd does for them meanwhile.

use std::{error::Error, time::Duration};

use leasehold::Client;
use leasehold_etcd::Cluster;
use tokio::time::{Instant, sleep};

use crate::load::{Load, Side};

const NAME: &str = "/bench/idle";
/// How long etcd is watched.
const SPAN: Duration = Duration::from_secs(30);
/// From when all stand in the queue, until what they did to get there is over: a queue that was watched as a whole is left alone by
/// then, and whatever lingers has gone.
const SETTLE: Duration = Duration::from_secs(15);

/// What etcd is asked, by the end of its metric's name and labels.
const ASKED: [(&str, &str); 4] = [
    ("transactions", "grpc_server_started_total{grpc_method=\"Txn\""),
    ("reads", "grpc_server_started_total{grpc_method=\"Range\""),
    ("renewals", "grpc_server_msg_received_total{grpc_method=\"LeaseKeepAlive\""),
    ("sweeps", "grpc_server_started_total{grpc_method=\"LeaseTimeToLive\""),
];

pub async fn run(cluster: &Cluster, client: &Client, processes: usize) -> Result<(), Box<dyn Error>> {
    let alone = Busy::during(cluster, SPAN).await?;
    let holder = client.lock(NAME).acquire().await?;
    let mut loads = Load::many(Side::Ours, &cluster.endpoint(0), processes).await?;
    let all = SETTLE + SPAN + Duration::from_secs(60);
    for load in &mut loads {
        load.tell(&format!("one 1 {} {NAME}", all.as_millis())).await?;
    }
    while cluster.keys(&format!("{NAME}/")).await?.len() <= processes {
        sleep(Duration::from_millis(200)).await;
    }
    sleep(SETTLE).await;
    let waiting = Busy::during(cluster, SPAN).await?;
    let asked =
        waiting.asked.iter().zip(ASKED).map(|(rate, (what, _))| format!("{rate:.1} {what}")).collect::<Vec<_>>();
    println!(
        "idle        {processes} processes that wait for one name: etcd {:.2} % of a core (alone {:.2} %), {:.3} MB/s sent, a second {}   (aim 400: 2 %, 0.2 MB/s)",
        waiting.share * 100.0,
        alone.share * 100.0,
        waiting.sent / 1e6,
        asked.join(", ")
    );
    drop(loads);
    Ok(holder.release().await?)
}

/// What etcd did, for each second.
struct Busy {
    /// Of one core.
    share: f64,
    /// Bytes that it sent to clients.
    sent: f64,
    /// How often it was asked each of [`ASKED`].
    asked: Vec<f64>,
}

impl Busy {
    async fn during(cluster: &Cluster, span: Duration) -> Result<Self, Box<dyn Error>> {
        let (began, before) = (Instant::now(), Self::so_far(cluster).await?);
        sleep(span).await;
        let after = Self::so_far(cluster).await?;
        let seconds = began.elapsed().as_secs_f64();
        let asked = before.asked.iter().zip(after.asked).map(|(before, after)| (after - before) / seconds).collect();
        Ok(Self { share: (after.share - before.share) / seconds, sent: (after.sent - before.sent) / seconds, asked })
    }

    async fn so_far(cluster: &Cluster) -> Result<Self, Box<dyn Error>> {
        let mut asked = Vec::new();
        for (_, metric) in ASKED {
            asked.push(cluster.metric(0, metric).await?);
        }
        let sent = cluster.metric(0, "etcd_network_client_grpc_sent_bytes_total").await?;
        let share = cluster.metric(0, "process_cpu_seconds_total").await?;
        Ok(Self { share, sent, asked })
    }
}
