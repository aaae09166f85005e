//! Uncontended acquire and release against a raw Txn and Delete through the same connection.

use std::time::{Duration, Instant};

use clap::ValueEnum;

use leasehold::{
    Client, Result,
    store::{Key, Keys},
};

use crate::{raw, stats::Sample};

const PAIRS: usize = 200;

/// One side of the comparison.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Side {
    Lock,
    Raw,
}

/// Runs one side alone, and says how many pairs it made.
pub async fn profile(client: &Client, side: Side) -> Result<()> {
    const SPAN: Duration = Duration::from_secs(5);
    let lease = raw::lease(client).await?;
    let (key, lock) = (Key::from("/bench/raw/1"), client.lock("/bench/pair"));
    let (started, mut pairs) = (Instant::now(), 0_u32);
    while started.elapsed() < SPAN {
        match side {
            Side::Lock => lock.acquire().await?.release().await?,
            Side::Raw => raw::pair(client, &key, lease).await?,
        }
        pairs += 1;
    }
    println!("{pairs} pairs, {:.0} µs each", started.elapsed().as_secs_f64() * 1e6 / f64::from(pairs));
    raw::revoke(client, lease).await
}

pub async fn run(client: &Client, rounds: usize) -> Result<()> {
    let lease = raw::lease(client).await?;
    let (key, guarded) = (Key::from("/bench/raw/1"), Key::from("/bench/guarded/1"));
    let queue = Keys::prefix(Key::from("/bench/guarded/"));
    let lock = client.lock("/bench/pair");
    let mut times = [const { Vec::new() }; 3];
    for round in 0..=rounds {
        let mut took = [Duration::ZERO; 3];
        for (side, took) in took.iter_mut().enumerate() {
            let started = Instant::now();
            for _ in 0..PAIRS {
                match side {
                    0 => raw::pair(client, &key, lease).await?,
                    1 => raw::guarded_pair(client, &guarded, &queue, lease).await?,
                    _ => lock.acquire().await?.release().await?,
                }
            }
            *took = started.elapsed() / PAIRS as u32;
        }
        if round > 0 {
            // The first round warms up.
            times.iter_mut().zip(took).for_each(|(times, took)| times.push(took));
        }
    }
    raw::revoke(client, lease).await?;
    let [raw, guarded, ours] = times.map(|times| Sample::of(&times));
    println!(
        "pair        acquire+release {}, raw {}: {:.2} x, {:+.0} µs   (aim 1.10 x; {rounds} rounds of {PAIRS})",
        ours.show("µs"),
        raw.show("µs"),
        ours.median() / raw.median(),
        ours.median() - raw.median()
    );
    println!(
        "            of that, etcd's part (the same two transactions, looking and guarded, by hand): {}: {:.2} x, {:+.0} µs",
        guarded.show("µs"),
        guarded.median() / raw.median(),
        guarded.median() - raw.median()
    );
    Ok(())
}
