//! What a lock costs, measured against raw etcd calls in the same run: ratios of medians of interleaved rounds.

mod contention;
mod crowd;
mod handoff;
mod idle;
mod languages;
mod load;
#[cfg(feature = "echo")]
mod noop;
mod pair;
mod raw;
mod stats;
mod versus;
mod waiters;

use clap::{Parser, ValueEnum};
use leasehold::ClientOptions;
use leasehold_etcd::{Cluster, Storage};
use std::time::Duration;

/// Measures leasehold against raw etcd calls through the same connection.
#[derive(Parser)]
struct Options {
    /// Where etcd keeps its data; both, one after the other, if it is not given.
    #[arg(long, value_enum)]
    storage: Option<Place>,
    /// Measure only these.
    #[arg(long, value_enum, value_delimiter = ',')]
    only: Vec<What>,
    /// Interleaved rounds of each comparison.
    #[arg(long, default_value_t = 20)]
    rounds: usize,
    /// Of the languages, only these; Rust, with which they are compared, is always one.
    #[arg(long, value_delimiter = ',')]
    language: Vec<String>,
    /// How many processes are a crowd.
    #[arg(long, value_delimiter = ',', default_values_t = [2, 8, 16, 32, 64, 100, 256])]
    processes: Vec<usize>,
    /// How many processes wait idly.
    #[arg(long, default_value_t = 50)]
    idle: usize,
    /// Run one side of the pair alone for some seconds, for a profiler.
    #[arg(long, value_enum)]
    profile: Option<pair::Side>,
    /// Play one side of the hand-off between two processes (started by the benchmark itself).
    #[arg(long, hide = true)]
    peer: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Place {
    Disk,
    Memory,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum What {
    /// Uncontended acquire and release.
    Pair,
    /// Hand-off between two processes.
    Handoff,
    /// Hand-off among 10 and 1,000 waiters of one process.
    Waiters,
    /// Tasks of one process cycling one name.
    Contention,
    /// Tasks of one process with a name each, and with one name, against raw loops in a process of their own.
    Versus,
    /// Processes that cycle one name, against Go's Mutex.
    Crowd,
    /// Processes that wait for one name: what etcd does for them.
    Idle,
    /// Uncontended acquire and release in every language that is built.
    Languages,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let options = Options::parse();
    if let Some(endpoint) = options.peer {
        return handoff::peer(&endpoint).await;
    }
    let wants = |what| options.only.is_empty() || options.only.contains(&what);
    for place in options.storage.map_or(vec![Place::Disk, Place::Memory], |place| vec![place]) {
        let storage = if place == Place::Disk { Storage::Disk } else { Storage::Memory };
        let cluster = Cluster::builder().storage(storage).start().await?;
        let endpoint = cluster.endpoint(0);
        let client = ClientOptions::new(&endpoint).ttl(Duration::from_secs(30)).build()?;
        client.ping().await?;
        println!(
            "\n== etcd {}, data {}",
            cluster.release(),
            if place == Place::Disk { "on disk" } else { "in memory" }
        );
        if let Some(side) = options.profile {
            pair::profile(&client, side).await?;
            continue;
        }
        if wants(What::Pair) {
            pair::run(&client, options.rounds).await?;
        }
        if wants(What::Handoff) {
            handoff::run(&endpoint, options.rounds).await?;
        }
        if wants(What::Waiters) {
            waiters::run(&client, options.rounds.min(20)).await?;
        }
        if wants(What::Contention) {
            for tasks in [8, 64] {
                contention::run(&client, tasks, options.rounds.min(20)).await?;
            }
        }
        if wants(What::Versus) {
            versus::run(&endpoint, options.rounds.min(20)).await?;
        }
        if wants(What::Crowd) {
            crowd::run(&endpoint, &options.processes, options.rounds.min(5)).await?;
        }
        if wants(What::Idle) {
            idle::run(&cluster, &client, options.idle).await?;
        }
        if wants(What::Languages) {
            languages::run(&endpoint, options.rounds, &options.language).await?;
        }
        client.close().await?;
    }
    #[cfg(feature = "echo")]
    if wants(What::Languages) && options.profile.is_none() {
        println!("\n== without etcd");
        noop::run(options.rounds)?;
    }
    Ok(())
}
