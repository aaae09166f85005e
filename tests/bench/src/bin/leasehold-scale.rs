//! Much of everything at once: how long it takes until all of it is queued, held and over, what fails, and what it costs a
//! neighbour. Starts an etcd of its own, asks nothing else, and ends by itself.

use std::{
    error::Error,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use clap::{Parser, ValueEnum};
use leasehold::{Client, ClientOptions};
use leasehold_etcd::{Cluster, Storage};
use tokio::task::JoinSet;

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

/// Starts many acquires of one process at once, on an etcd of its own.
#[derive(Parser)]
struct Options {
    /// What is acquired.
    #[arg(long, value_enum, default_value_t = What::Name)]
    what: What,
    /// How many at once.
    #[arg(long, default_value_t = 10_000)]
    count: usize,
    /// Keep etcd's data in memory.
    #[arg(long)]
    memory: bool,
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum What {
    /// One name, by all.
    Name,
    /// A name each.
    Names,
    /// A hold without renewal each, all of which end together.
    Unrenewed,
}

#[tokio::main]
async fn main() -> Result<()> {
    let Options { what, count, memory } = Options::parse();
    let storage = if memory { Storage::Memory } else { Storage::Disk };
    let cluster = Cluster::builder().storage(storage).start().await?;
    let client = ClientOptions::new(cluster.endpoint(0)).ttl(Duration::from_secs(30)).build()?;
    let neighbour = ClientOptions::new(cluster.endpoint(0)).build()?;
    for client in [&client, &neighbour] {
        client.lock("/scale/warm").acquire().await?.release().await?;
    }
    let before = resident()?;
    match what {
        What::Name => one_name(&cluster, &client, neighbour, count, before).await?,
        What::Names => names(&client, neighbour, count, before).await?,
        What::Unrenewed => unrenewed(&client, count, before).await?,
    }
    client.close().await?;
    Ok(())
}

async fn one_name(cluster: &Cluster, client: &Client, neighbour: Client, count: usize, before: u64) -> Result<()> {
    let first = client.lock("/scale/one").acquire().await?;
    let delays = Delays::measure(neighbour);
    let started = Instant::now();
    let mut tasks = JoinSet::new();
    for _ in 0..count {
        let lock = client.lock("/scale/one");
        tasks.spawn(async move { lock.acquire().await.map(drop) });
    }
    while cluster.keys("/scale/one/").await?.len() <= count && started.elapsed() < Duration::from_secs(120) {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let queued = started.elapsed();
    let grown = resident()? - before;
    let served = Instant::now();
    first.release().await?;
    let failed = tasks.join_all().await.into_iter().filter(std::result::Result::is_err).count();
    let took = served.elapsed();
    println!(
        "one name, {count} acquires at once: queued after {queued:.1?}, served in {took:.1?} ({:.0} hand-offs a second), {failed} failed, \
         {:.0} MB; a neighbour's lock took at most {:.0?}",
        count as f64 / took.as_secs_f64(),
        grown as f64 / 1e6,
        delays.end().await
    );
    Ok(())
}

async fn names(client: &Client, neighbour: Client, count: usize, before: u64) -> Result<()> {
    let delays = Delays::measure(neighbour);
    let started = Instant::now();
    let mut tasks = JoinSet::new();
    for number in 0..count {
        let lock = client.lock(&format!("/scale/many/{number}"));
        tasks.spawn(async move { lock.acquire().await });
    }
    let guards: Vec<_> = tasks.join_all().await;
    let taken = started.elapsed();
    let failed = guards.iter().filter(|guard| guard.is_err()).count();
    let worst = delays.end().await;
    tokio::time::sleep(Duration::from_secs(3)).await; // until holds are looked after as they are in the long run
    let grown = resident()? - before;
    let started = Instant::now();
    let releases: JoinSet<_> = guards.into_iter().flatten().map(leasehold::Guard::release).collect();
    let unreleased = releases.join_all().await.into_iter().filter(std::result::Result::is_err).count();
    println!(
        "{count} names at once: taken after {taken:.1?}, {failed} failed, {:.0} MB ({:.1} kB each), released in {:.1?}, {unreleased} failed; \
         a neighbour's lock took at most {worst:.0?}",
        grown as f64 / 1e6,
        grown as f64 / 1e3 / count as f64,
        started.elapsed()
    );
    Ok(())
}

async fn unrenewed(client: &Client, count: usize, before: u64) -> Result<()> {
    let started = Instant::now();
    let mut tasks = JoinSet::new();
    for number in 0..count {
        let lock = client.lock(&format!("/scale/short/{number}")).ttl(Duration::from_secs(20)).renew(false);
        tasks.spawn(async move { lock.acquire().await });
    }
    let guards: Vec<_> = tasks.join_all().await;
    let taken = started.elapsed();
    let failed = guards.iter().filter(|guard| guard.is_err()).count();
    let grown = resident()? - before;
    let ends: JoinSet<_> = guards.iter().flatten().map(leasehold::Guard::lost).collect();
    let busy = processor_time();
    ends.join_all().await;
    println!(
        "{count} holds without renewal: taken after {taken:.1?}, {failed} failed, {:.0} MB; all over after {:.1?}, {:.2?} of processor time \
         from taken to over",
        grown as f64 / 1e6,
        started.elapsed(),
        processor_time() - busy
    );
    Ok(())
}

/// How long somebody else's lock takes meanwhile, at worst.
struct Delays {
    is_over: Arc<AtomicBool>,
    worst: tokio::task::JoinHandle<Duration>,
}

impl Delays {
    fn measure(neighbour: Client) -> Self {
        let is_over = Arc::<AtomicBool>::default();
        let ends = is_over.clone();
        let worst = tokio::spawn(async move {
            let mut worst = Duration::ZERO;
            while !ends.load(Ordering::Relaxed) {
                let started = Instant::now();
                if let Ok(guard) = neighbour.lock("/scale/neighbour").acquire().await {
                    worst = worst.max(started.elapsed());
                    let _ = guard.release().await;
                } else {
                    worst = Duration::MAX;
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            worst
        });
        Self { is_over, worst }
    }

    async fn end(self) -> Duration {
        self.is_over.store(true, Ordering::Relaxed);
        self.worst.await.unwrap_or(Duration::MAX)
    }
}

/// Memory of this process in bytes.
fn resident() -> Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let kilobytes = status.lines().find_map(|line| line.strip_prefix("VmRSS:")?.split_whitespace().next());
    Ok(kilobytes.unwrap_or("0").parse::<u64>()? * 1024)
}

/// Processor time of this process so far.
fn processor_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
