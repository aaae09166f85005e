//! A program that locks, as a service does that has one lock for each order: what `versus` and `crowd` compare with the baseline.
//!
//! It prints "ready" and then takes jobs, line by line, and answers each with one line of JSON:
//!
//! ```text
//! names TASKS MILLISECONDS        as many tasks that acquire and release a name each
//! one TASKS MILLISECONDS NAME     as many tasks that acquire and release one name
//! ```
//!
//! The protocol is that of the baseline, `tests/bench/baseline/main.go`.

use std::{error::Error, time::Duration};

use clap::Parser;
use leasehold::{ClientOptions, Lock};
use serde_json::json;
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    task::JoinSet,
    time::{Instant, timeout_at},
};

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

#[derive(Parser)]
struct Options {
    #[arg(long)]
    endpoint: String,
}

#[tokio::main]
async fn main() -> Result<()> {
    let client = ClientOptions::new(Options::parse().endpoint).ttl(Duration::from_secs(60)).build()?;
    let process = std::process::id();
    client.lock(&format!("/bench/load/{process}")).acquire().await?.release().await?;
    println!("ready");
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    while let Some(line) = lines.next_line().await? {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (names, span): (Vec<String>, _) = match words[..] {
            ["names", tasks, span] => {
                ((0..tasks.parse()?).map(|number: usize| format!("/bench/load/{process}/{number}")).collect(), span)
            }
            ["one", tasks, span, name] => (vec![name.to_owned(); tasks.parse()?], span),
            _ => return Err(format!("unknown job {line:?}").into()),
        };
        let locks = names.iter().map(|name| client.lock(name)).collect();
        println!("{}", measure(locks, Duration::from_millis(span.parse()?)).await?);
    }
    Ok(client.close().await?)
}

/// Acquires and releases each of `locks` again and again for so long.
async fn measure(locks: Vec<Lock>, span: Duration) -> Result<serde_json::Value> {
    let (busy, started) = (processor_time(), Instant::now());
    let end = started + span;
    let mut tasks = JoinSet::new();
    for lock in locks {
        tasks.spawn(async move {
            let mut took = Vec::new();
            while Instant::now() < end {
                let begun = Instant::now();
                let Ok(guard) = timeout_at(end, lock.acquire()).await else { break };
                guard?.release().await?;
                took.push(begun.elapsed());
            }
            Ok::<_, leasehold::Error>(took)
        });
    }
    let mut took = Vec::new();
    while let Some(done) = tasks.join_next().await {
        took.extend(done??);
    }
    let seconds = started.elapsed().as_secs_f64();
    took.sort_unstable();
    let quantile = |q: f64| {
        let index = (took.len().saturating_sub(1) as f64 * q) as usize;
        took.get(index).map_or(0.0, |took| took.as_secs_f64() * 1e6)
    };
    let cpu = (processor_time() - busy).as_secs_f64() * 1e6;
    Ok(
        json!({ "pairs": took.len(), "seconds": seconds, "p50_us": quantile(0.5), "p99_us": quantile(0.99), "cpu_us": cpu }),
    )
}

/// Processor time of this process so far.
fn processor_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
