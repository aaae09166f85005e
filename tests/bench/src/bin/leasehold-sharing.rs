//! What places that are shared inside a process cost and bring: `local_first` with a second process beside it, and `linger`.
//! Starts an etcd of its own, asks nothing else, and ends by itself.

use std::{
    error::Error,
    hint::black_box,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use clap::Parser;
use leasehold::{Client, ClientOptions, Lock};
use leasehold_etcd::{Cluster, Storage};
use tokio::task::JoinSet;

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

/// Measures locks that callers of one client share, on an etcd of its own.
#[derive(Parser)]
struct Options {
    /// Tasks that take turns with one name.
    #[arg(long, default_value_t = 64)]
    tasks: usize,
    /// Seconds for each measurement.
    #[arg(long, default_value_t = 5)]
    seconds: u64,
    /// Keep etcd's data in memory.
    #[arg(long)]
    memory: bool,
}

#[tokio::main]
async fn main() -> Result<()> {
    let Options { tasks, seconds, memory } = Options::parse();
    let span = Duration::from_secs(seconds);
    let storage = if memory { Storage::Memory } else { Storage::Disk };
    let cluster = Cluster::builder().storage(storage).start().await?;
    let open = || ClientOptions::new(cluster.endpoint(0)).ttl(Duration::from_secs(30)).build();
    let (client, other) = (open()?, open()?);
    for client in [&client, &other] {
        client.lock("/sharing/warm").acquire().await?.release().await?;
    }
    let lock = client.lock("/sharing/turns");
    take_turns("in the order of the queue", &lock, tasks, span, None).await?;
    take_turns("local_first", &lock.clone().local_first(), tasks, span, None).await?;
    take_turns("local_first, and a second client", &lock.local_first(), tasks, span, Some(&other)).await?;
    linger(&cluster, &client, &other, span).await?;
    client.close().await?;
    other.close().await?;
    Ok(())
}

/// Tasks of one client that take turns without end, and perhaps one of another client that wants its turn, too.
async fn take_turns(what: &str, lock: &Lock, tasks: usize, span: Duration, other: Option<&Client>) -> Result<()> {
    let (is_over, turns) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let mut running = JoinSet::new();
    for _ in 0..tasks {
        let (lock, is_over, turns) = (lock.clone(), is_over.clone(), turns.clone());
        running.spawn(async move {
            while !is_over.load(Ordering::Relaxed) {
                lock.acquire().await?.release().await?;
                turns.fetch_add(1, Ordering::Relaxed);
            }
            leasehold::Result::Ok(())
        });
    }
    let begun = Instant::now();
    let mut waits = Vec::new();
    while begun.elapsed() < span {
        let Some(other) = other else {
            tokio::time::sleep(span).await;
            break;
        };
        let asked = Instant::now();
        let guard = other.lock(lock.name()).acquire().await?;
        waits.push(asked.elapsed());
        guard.release().await?;
    }
    let turns = turns.load(Ordering::Relaxed) as f64 / begun.elapsed().as_secs_f64();
    is_over.store(true, Ordering::Relaxed);
    for result in running.join_all().await {
        result?;
    }
    print!("{tasks} tasks, {what}: {turns:.0} acquires a second");
    if waits.is_empty() {
        println!();
    } else {
        waits.sort_unstable();
        let at = |percent: usize| waits[(waits.len() - 1) * percent / 100];
        println!(
            "; the second client had {} turns and waited {:.1?} (p50), {:.1?} (p99), {:.1?} (most)",
            waits.len(),
            at(50),
            at(99),
            at(100)
        );
    }
    Ok(())
}

async fn linger(cluster: &Cluster, client: &Client, other: &Client, span: Duration) -> Result<()> {
    let lock = client.lock("/sharing/linger").linger(Duration::from_secs(600));
    lock.acquire().await?.release().await?;
    let before = revision(cluster).await?;
    let (mut acquires, mut releases, begun) = (Vec::new(), Vec::new(), Instant::now());
    while begun.elapsed() < span {
        for _ in 0..1_000 {
            let asked = Instant::now();
            let guard = black_box(lock.acquire().await?);
            let held = Instant::now();
            guard.release().await?;
            acquires.push(held - asked);
            releases.push(held.elapsed());
        }
        tokio::task::yield_now().await;
    }
    let moved = revision(cluster).await? - before;
    let pairs = acquires.len();
    for times in [&mut acquires, &mut releases] {
        times.sort_unstable();
    }
    let at = |times: &[Duration], percent: usize| times[(times.len() - 1) * percent / 100];
    println!(
        "linger: {pairs} pairs, acquire {:.0?} (p50) {:.0?} (p99), release {:.0?} (p50) {:.0?} (p99); etcd's revision moved by {moved}",
        at(&acquires, 50),
        at(&acquires, 99),
        at(&releases, 50),
        at(&releases, 99),
    );
    // A round trip, and what it takes until another client has the lock that lingers here.
    let (mut rounds, mut waits) = (Vec::new(), Vec::new());
    for _ in 0..200 {
        let asked = Instant::now();
        other.ping().await?;
        rounds.push(asked.elapsed());
        lock.acquire().await?.release().await?;
        // It stays, and is watched.
        tokio::time::sleep(Duration::from_millis(10)).await;
        let asked = Instant::now();
        let guard = other.lock(lock.name()).acquire().await?;
        waits.push(asked.elapsed());
        guard.release().await?;
    }
    let mut writes = Vec::new();
    for _ in 0..200 {
        let asked = Instant::now();
        let guard = other.lock("/sharing/alone").acquire().await?;
        writes.push(asked.elapsed());
        guard.release().await?;
    }
    for times in [&mut rounds, &mut waits, &mut writes] {
        times.sort_unstable();
    }
    println!(
        "linger: another client has the lock after {:.0?} (p50) {:.0?} (p99); one that nobody has after {:.0?} (p50), and a read takes {:.0?}",
        at(&waits, 50),
        at(&waits, 99),
        at(&writes, 50),
        at(&rounds, 50),
    );
    Ok(())
}

async fn revision(cluster: &Cluster) -> Result<i64> {
    let answer = cluster.ctl(&["get", "nothing", "-w", "json"]).await?;
    let digits = answer.split("\"revision\":").nth(1).and_then(|rest| rest.split(|c: char| !c.is_ascii_digit()).next());
    Ok(digits.unwrap_or_default().parse()?)
}
