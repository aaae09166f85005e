//! The contender in Rust: one client, one lock, told step by step what to do. Other languages do the same in their words.

mod fault;

use std::{
    io::{self, Write},
    process::ExitCode,
    time::Duration,
};

use anyhow::Context;
use fault::Fault;
use leasehold::{ClientOptions, Guard};
use leasehold_demo::protocol::{Command, Event, Setup};

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    match run().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Where nobody listens any more, the exit code has to do.
            let _ = say(&Event::Failed { error: format!("{error:#}") });
            ExitCode::FAILURE
        }
    }
}

async fn run() -> anyhow::Result<()> {
    let setup = Setup::from_environment()?;
    let fault = Fault::from_environment(&setup.identity)?;
    let client =
        ClientOptions::new(&setup.endpoints).ttl(Duration::from_secs(setup.ttl)).identity(&setup.identity).build()?;
    let lock = client.lock(&fault.lock_name(&setup));
    let mut guard = None;
    let mut value = 0;
    // Blocking is no harm: the client renews its lease on a thread of its own.
    for line in io::stdin().lines() {
        match line?.parse()? {
            Command::Acquire => {
                say(&Event::Waiting)?;
                let acquired = guard.insert(lock.acquire().await?);
                say(&Event::Acquired { token: acquired.token(), key: acquired.key() })?;
            }
            Command::Read => {
                value = read(held(guard.as_ref())?, &setup.counter).await?;
                say(&Event::Read { value })?;
            }
            Command::Write => {
                let owner = held(guard.as_ref())?;
                let is_held = owner.is_held();
                match owner.put(&setup.counter, (value + 1).to_string()).await {
                    Ok(_) => say(&Event::Counted { value: value + 1 })?,
                    Err(_) if fault.ignores_refusal() => {
                        fault::write_anyway(&client, &setup, value + 1).await?;
                        say(&Event::Counted { value: value + 1 })?;
                    }
                    Err(error) => {
                        let reason = error.reason().map(|reason| reason.to_string());
                        guard = None;
                        say(&Event::Refused { held: is_held, error: error.code().to_string(), reason })?;
                    }
                }
            }
            Command::Release => {
                guard.take().context("there is nothing to release")?.release().await?;
                say(&Event::Released)?;
            }
        }
    }
    if fault.leaves_without_a_word() {
        std::process::exit(0);
    }
    drop(guard);
    client.close().await?;
    Ok(())
}

fn held(guard: Option<&Guard>) -> anyhow::Result<&Guard> {
    guard.context("the lock was not acquired before")
}

async fn read(guard: &Guard, counter: &str) -> anyhow::Result<i64> {
    match guard.txn().get(counter).commit().await?.values.pop().flatten() {
        None => Ok(0),
        Some(text) => String::from_utf8(text)?.parse().context("the counter is no number"),
    }
}

fn say(event: &Event) -> anyhow::Result<()> {
    writeln!(io::stdout(), "{}", serde_json::to_string(event)?)?;
    Ok(())
}
