//! What a call through the bridge costs that does nothing: start, task, completion.

use std::{error::Error, time::Instant};

use leasehold_bench::turn;
use leasehold_bridge::{Queue, Waiter, testing};

use crate::stats::Sample;

const CALLS: u32 = 2_000;

/// Blocks this thread.
pub fn run(rounds: usize) -> Result<(), Box<dyn Error>> {
    let blocking = || {
        let waiter = Waiter::new();
        testing::echo(String::new(), waiter.sink());
        waiter.wait()?;
        Ok(())
    };
    println!("no-op       one call that blocks: {}", measure(rounds, 1, blocking)?.show("ns"));
    let queue = Queue::with_fd()?;
    let start = |tag| {
        testing::echo(String::new(), queue.sink(tag));
    };
    let in_a_loop = || next(&queue, 1, || start(1));
    println!("            one call of an event loop: {}", measure(rounds, 1, in_a_loop)?.show("ns"));
    let many = || next(&queue, 64, || (0..64).for_each(start));
    println!("            64 calls of an event loop at once, each: {}", measure(rounds, 64, many)?.show("ns"));
    Ok(())
}

/// Starts `count` calls and waits for them as an event loop does.
fn next(queue: &Queue, count: usize, start: impl FnOnce()) -> Result<(), Box<dyn Error>> {
    start();
    let mut left = count;
    while left > 0 {
        left -= turn(queue)?.len();
    }
    Ok(())
}

/// Nanoseconds a call, round by round; the first round warms up.
fn measure(
    rounds: usize,
    calls_at_once: u32,
    mut call: impl FnMut() -> Result<(), Box<dyn Error>>,
) -> Result<Sample, Box<dyn Error>> {
    let mut times = Vec::new();
    for round in 0..=rounds {
        let started = Instant::now();
        for _ in 0..CALLS / calls_at_once {
            call()?;
        }
        if round > 0 {
            times.push(started.elapsed().as_nanos() as f64 / f64::from(CALLS / calls_at_once * calls_at_once));
        }
    }
    Ok(Sample::new(times))
}
