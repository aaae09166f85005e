//! The bench worker of Rust: cycles one lock, through the core's own API or through the bridge.

use std::{
    error::Error,
    io::BufRead,
    time::{Duration, Instant},
};

use clap::{Parser, ValueEnum};
use leasehold_bench::turn;
use leasehold_bridge::{AcquireOptions, Claim, Client, ClientOptions, Outcome, Queue, Waiter};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

#[derive(Parser)]
struct Options {
    #[arg(long)]
    endpoint: String,
    #[arg(long, value_enum)]
    mode: Mode,
    #[arg(long, value_enum)]
    layer: Layer,
}

#[derive(Clone, Copy, ValueEnum)]
enum Mode {
    Sync,
    Async,
}

#[derive(Clone, Copy, ValueEnum)]
enum Layer {
    Core,
    Bridge,
}

/// One acquire and release.
type Cycle = Box<dyn FnMut() -> Result<()>>;

fn main() -> Result<()> {
    let Options { endpoint, mode, layer } = Options::parse();
    let options = ClientOptions::new(endpoint).ttl(Duration::from_secs(30));
    let name = format!("/bench/rust-{}", std::process::id());
    let mut cycle = match (layer, mode) {
        (Layer::Core, Mode::Sync) => core_blocking(options, &name)?,
        (Layer::Core, Mode::Async) => core_in_a_runtime(options, &name)?,
        (Layer::Bridge, Mode::Sync) => bridge_blocking(options, name)?,
        (Layer::Bridge, Mode::Async) => bridge_in_a_loop(options, name)?,
    };
    println!("ready");
    for line in std::io::stdin().lock().lines() {
        let cycles: u32 = line?.trim().parse()?;
        let started = Instant::now();
        for _ in 0..cycles {
            cycle()?;
        }
        println!("{}", started.elapsed().as_nanos());
    }
    Ok(())
}

/// What the other languages are compared with: a thread that blocks for each call.
fn core_blocking(options: ClientOptions, name: &str) -> Result<Cycle> {
    let lock = options.build()?.lock(name);
    Ok(Box::new(move || Ok(pollster::block_on(async { lock.acquire().await?.release().await })?)))
}

fn core_in_a_runtime(options: ClientOptions, name: &str) -> Result<Cycle> {
    let lock = options.build()?.lock(name);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    Ok(Box::new(move || Ok(runtime.block_on(async { lock.acquire().await?.release().await })?)))
}

fn bridge_blocking(options: ClientOptions, name: String) -> Result<Cycle> {
    let client = Client::open(options)?;
    Ok(Box::new(move || {
        let waiter = Waiter::new();
        client.acquire(&[(&*name, Claim::Exclusive)], &AcquireOptions::default(), None, waiter.sink());
        let guard = waiter.wait()?.into_guard()?;
        let waiter = Waiter::new();
        guard.release(None, waiter.sink());
        waiter.wait()?;
        Ok(())
    }))
}

/// As an event loop: waits for the queue's descriptor, drains.
fn bridge_in_a_loop(options: ClientOptions, name: String) -> Result<Cycle> {
    let client = Client::open(options)?;
    let queue = Queue::with_fd()?;
    Ok(Box::new(move || {
        client.acquire(&[(&*name, Claim::Exclusive)], &AcquireOptions::default(), None, queue.sink(1));
        let guard = next(&queue)?.into_guard()?;
        guard.release(None, queue.sink(2));
        next(&queue).map(drop)
    }))
}

fn next(queue: &Queue) -> Result<Outcome> {
    loop {
        if let Some(completion) = turn(queue)?.pop() {
            return Ok(completion.result?);
        }
    }
}
