//! Tasks of one process cycling one name in strict FIFO, against as many independent raw loops.

use std::time::{Duration, Instant};

use leasehold::{Client, Result, store::Key};
use tokio::task::JoinSet;

use crate::{raw, stats::Sample};

const SPAN: Duration = Duration::from_millis(500);

pub async fn run(client: &Client, tasks: usize, rounds: usize) -> Result<()> {
    let lease = raw::lease(client).await?;
    let (mut ours, mut theirs, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..=rounds {
        let raw = rate(tasks, |number| {
            let (client, key) = (client.clone(), Key::from(format!("/bench/raw/{number}")));
            move || {
                let (client, key) = (client.clone(), key.clone());
                async move { raw::pair(&client, &key, lease).await }
            }
        })
        .await?;
        let locked = rate(tasks, |_| {
            let lock = client.lock("/bench/contention");
            move || {
                let lock = lock.clone();
                async move { lock.acquire().await?.release().await }
            }
        })
        .await?;
        if round > 0 {
            theirs.push(raw);
            ours.push(locked);
            ratios.push(locked / raw);
        }
    }
    raw::revoke(client, lease).await?;
    let aim = if tasks <= 8 { 0.6 } else { 0.5 };
    println!(
        "contention  {tasks:>2} tasks, one name: {}, raw {}: {:.2} x   (aim {aim} x; {rounds} rounds of {SPAN:?})",
        Sample::new(ours).show("pairs/s"),
        Sample::new(theirs).show("pairs/s"),
        Sample::new(ratios).median()
    );
    Ok(())
}

/// Pairs a second of `tasks` loops.
async fn rate<W, F>(tasks: usize, worker: impl Fn(usize) -> W) -> Result<f64>
where
    W: Fn() -> F + Send + 'static,
    F: Future<Output = Result<()>> + Send,
{
    let started = Instant::now();
    let mut loops = JoinSet::new();
    for number in 0..tasks {
        let work = worker(number);
        loops.spawn(async move {
            let mut pairs = 0_u32;
            while started.elapsed() < SPAN {
                work().await?;
                pairs += 1;
            }
            Ok::<_, leasehold::Error>(pairs)
        });
    }
    let mut pairs = 0;
    while let Some(done) = loops.join_next().await {
        pairs += done.expect("a loop that does not panic")?;
    }
    Ok(f64::from(pairs) / started.elapsed().as_secs_f64())
}
