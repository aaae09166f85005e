//! Uncontended acquire and release against a raw Txn and Delete through the same connection.

use std::time::{Duration, Instant};

use clap::ValueEnum;

use leasehold::{Client, Result, store::Key};

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
    let key = Key::from("/bench/raw/1");
    let lock = client.lock("/bench/pair");
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for round in 0..=rounds {
        let started = Instant::now();
        for _ in 0..PAIRS {
            raw::pair(client, &key, lease).await?;
        }
        let raw = started.elapsed() / PAIRS as u32;
        let started = Instant::now();
        for _ in 0..PAIRS {
            lock.acquire().await?.release().await?;
        }
        let locked = started.elapsed() / PAIRS as u32;
        if round > 0 {
            // The first round warms up.
            theirs.push(raw);
            ours.push(locked);
        }
    }
    raw::revoke(client, lease).await?;
    let (ours, theirs) = (Sample::of(&ours), Sample::of(&theirs));
    println!(
        "pair        acquire+release {}, raw {}: {:.2} x, {:+.0} µs   (aim 1.10 x; {rounds} rounds of {PAIRS})",
        ours.show("µs"),
        theirs.show("µs"),
        ours.median() / theirs.median(),
        ours.median() - theirs.median()
    );
    Ok(())
}
