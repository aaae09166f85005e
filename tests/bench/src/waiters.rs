//! Hand-off among waiters of one process: does it grow with their number?

use std::{
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use leasehold::{Client, Result};
use tokio::task::JoinSet;

use crate::stats::Sample;

pub async fn run(client: &Client, rounds: usize) -> Result<()> {
    let (mut few, mut many) = (Vec::new(), Vec::new());
    for round in 0..=rounds.min(5) {
        let of_few = hand_offs(client, 10).await?;
        let of_many = hand_offs(client, 1000).await?;
        if round > 0 {
            few.extend(of_few);
            many.extend(of_many);
        }
    }
    let (few, many) = (Sample::of(&few), Sample::of(&many));
    println!(
        "waiters     hand-off within a process, 10 waiters {}, 1,000 waiters {}: {:.2} x   (aim 1.5 x)",
        few.show("µs"),
        many.show("µs"),
        many.median() / few.median()
    );
    Ok(())
}

/// How long each hand-off took while `waiters` tasks were served one after the other.
async fn hand_offs(client: &Client, waiters: usize) -> Result<Vec<Duration>> {
    let lock = client.lock("/bench/waiters");
    let first = lock.acquire().await?;
    let released = Arc::new(Mutex::new(Instant::now()));
    let mut tasks = JoinSet::new();
    for _ in 0..waiters {
        let (lock, released) = (lock.clone(), released.clone());
        tasks.spawn(async move {
            let guard = lock.acquire().await?;
            let took = released.lock().expect("no panic").elapsed();
            *released.lock().expect("no panic") = Instant::now();
            // The release is sent by the drop; waiting for its confirmation would not be part of the hand-off.
            drop(guard);
            Ok::<_, leasehold::Error>(took)
        });
    }
    while lock.queue().await?.len() <= waiters {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    *released.lock().expect("no panic") = Instant::now();
    first.release().await?;
    let mut times = Vec::new();
    while let Some(done) = tasks.join_next().await {
        times.push(done.expect("a task that does not panic")?);
    }
    Ok(times)
}
