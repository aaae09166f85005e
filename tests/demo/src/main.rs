//! Several processes, one queue, one real etcd: shows what the lock does, checks it, and cleans up.

mod contenders;
mod display;
mod etcd;
mod languages;
mod ledger;
mod scenes;
mod stage;

use std::{process::ExitCode, time::Duration};

use anyhow::{Context, bail};
use clap::Parser;
use leasehold::ClientOptions;
use leasehold_demo::protocol::Setup;
use leasehold_etcd::{Cluster, Version, find, outlook};
use tokio::{
    signal::unix::{SignalKind, signal},
    task::JoinSet,
    time::{Instant, timeout},
};

use crate::{
    contenders::Contenders,
    display::{Display, seconds},
    etcd::{Etcd, Leftovers},
    languages::Language,
    ledger::{Claim, Ledger},
    scenes::turns_in_all,
    stage::{Plan, Role, Stage, WORK},
};

const LOCK: &str = "/demo/lock";
const COUNTER: &str = "/demo/counter";
/// What everything but turns and take-overs may take.
const REST: Duration = Duration::from_secs(60);

/// Shows several processes in one queue for a lock, a holder that is killed, and one that wakes up too late. Starts an etcd
/// of its own for it, checks what it shows, and leaves nothing behind.
#[derive(Parser, Debug)]
#[command(name = "leasehold-demo", after_help = "Ends with 0 if all was as it should be, and with 1 otherwise.")]
struct Options {
    /// How many processes contend: 4 to 50.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(4..=50))]
    processes: u16,
    /// How many turns each has before somebody is hurt: 1 to 1000.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=1000))]
    turns: u16,
    /// The TTL in seconds, 2 to 60: how long a lock stays taken when its holder is gone.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(2..=60))]
    ttl: u64,
    /// The languages of the processes, in turn; all that are there unless given.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    languages: Vec<String>,
    /// The languages that are there; whatever was ever built unless given. `make demo` says what it has just built.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    available: Vec<String>,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let options = Options::parse();
    let display = Display::new();
    // Whatever comes first: what is dropped then ends the contenders and etcd.
    let code = tokio::select! {
        biased;
        number = interruption() => {
            display.line("");
            display.line("Interrupted; everything that was started is ended.");
            // What a shell expects of a program that a signal has ended.
            128 + number
        }
        result = run(&options, &display) => match result {
            Ok(true) => 0,
            Ok(false) => 1,
            Err(error) => {
                eprintln!("leasehold-demo: {error:#}");
                1
            }
        }
    };
    ExitCode::from(code)
}

/// Runs the whole demo. Returns whether all was as it should be.
async fn run(options: &Options, display: &Display) -> anyhow::Result<bool> {
    let (processes, turns) = (usize::from(options.processes), usize::from(options.turns));
    let ttl = Duration::from_secs(options.ttl);
    let (languages, missing) = choose(options)?;
    if find(Version::Any)?.is_none() {
        display.line(format!("First, an etcd: {}; this takes a minute.", outlook(Version::Any)));
    }
    let cluster = Cluster::builder().version(Version::Any).start().await?;
    let started = Instant::now();
    let release = cluster.release();
    display.line(format!(
        "leasehold: {processes} processes, one lock, one etcd {release} on loopback, TTL {} s",
        ttl.as_secs()
    ));
    if !missing.is_empty() {
        display.line(format!("Left out, as they are not built: {}; `make build` builds them.", missing.join(", ")));
    }

    let endpoints = cluster.endpoints();
    let onlooker = ClientOptions::from_endpoints(&endpoints).build()?;
    let setup = Setup {
        endpoints: endpoints.join(","),
        lock: LOCK.into(),
        identity: String::new(),
        counter: COUNTER.into(),
        ttl: options.ttl,
    };
    let languages = tried(languages, &setup, display).await?;
    let mut ledger = Ledger::default();
    let mut stage = Stage {
        display,
        ledger: &mut ledger,
        contenders: Contenders::start(processes, &languages, &setup, ttl * 2 + Duration::from_secs(10))?,
        roles: vec![Role { plan: Plan::Turn, token: 0, key: String::new(), value: 0 }; processes],
        etcd: Etcd::connect(&endpoints).await?,
        lock: onlooker.lock(LOCK),
        counter: COUNTER.into(),
        bars: None,
    };
    let planned = turns_in_all(processes, turns);
    let limit = REST + ttl * 6 + WORK * 4 * u32::try_from(planned).unwrap_or(u32::MAX);
    let played = timeout(limit, play(&mut stage, turns, ttl)).await;
    let played = played.unwrap_or_else(|_| bail!("it took longer than {limit:?}"));
    stage.bars = None;
    drop(stage);

    display.heading("Outcome");
    ledger.conclude(i64::try_from(planned).unwrap_or(i64::MAX), processes);
    for verdict in ledger.verdicts() {
        display.verdict(&verdict);
    }
    if let Err(error) = &played {
        display.line(format!("   Stopped early: {error:#}"));
    }
    let is_good = played.is_ok() && ledger.is_good();
    let (word, took) =
        (if is_good { "All is as it should be" } else { "NOT as it should be" }, seconds(started.elapsed()));
    display.line("");
    display.line(format!("{word}; it took {took}."));
    Ok(is_good)
}

/// The languages to play with, and the names of those that are not built.
fn choose(options: &Options) -> anyhow::Result<(Vec<&'static Language>, Vec<&'static str>)> {
    let Options { languages, available, .. } = options;
    if let Some(absent) = languages.iter().find(|name| !available.is_empty() && !available.contains(name)) {
        languages::named(languages)?;
        bail!("{absent} is not available here; what is: {}", available.join(", "));
    }
    let names = if languages.is_empty() { available } else { languages };
    if names.is_empty() { languages::built() } else { Ok((languages::named(names)?, Vec::new())) }
}

/// Those of the languages that run here, on a lock of their own.
async fn tried(
    languages: Vec<&'static Language>,
    setup: &Setup,
    display: &Display,
) -> anyhow::Result<Vec<&'static Language>> {
    let clock = display.waiting("trying each language");
    let mut trials = JoinSet::new();
    for (number, language) in languages.into_iter().enumerate() {
        let setup = Setup { lock: format!("{LOCK}-trial-{number}"), identity: language.name.into(), ..setup.clone() };
        trials.spawn(async move { (number, language, language.try_out(&setup).await) });
    }
    let mut results = trials.join_all().await;
    drop(clock);
    results.sort_by_key(|(number, ..)| *number);
    let mut good = Vec::new();
    for (_, language, result) in results {
        match result {
            Ok(()) => good.push(language),
            Err(error) => display.line(format!("Left out: {}, which does not run here: {error:#}", language.name)),
        }
    }
    if good.is_empty() {
        bail!("no language is left")
    }
    Ok(good)
}

/// One scene after the other, as long as nothing is wrong, and a look at what is left.
async fn play(stage: &mut Stage<'_>, turns: usize, ttl: Duration) -> anyhow::Result<()> {
    let good_so_far = |stage: &Stage| {
        if stage.ledger.is_spoilt() { bail!("what follows would show nothing new") } else { Ok(()) }
    };
    scenes::everybody(stage, turns).await?;
    good_so_far(stage)?;
    scenes::kill(stage, ttl).await?;
    good_so_far(stage)?;
    scenes::freeze(stage, ttl).await?;
    good_so_far(stage)?;
    stage.contenders.finish().await.context("at the end")?;
    let (found, turns) = (stage.etcd.number(COUNTER).await?, stage.ledger.turns());
    let bad = format!("{found} in etcd after {turns} turns");
    stage.ledger.check(Claim::Counter, found == turns, format!("{found} in etcd, one for each turn"), bad);
    stage.etcd.delete(COUNTER).await?;
    let Leftovers { keys, leases } = stage.etcd.leftovers().await?;
    let text = format!("{keys} keys, {leases} leases");
    stage.ledger.check(Claim::Leftovers, (keys, leases) == (0, 0), &text, &text);
    Ok(())
}

/// The number of the signal that asks for the end.
async fn interruption() -> u8 {
    tokio::select! {
        () = signalled(SignalKind::hangup()) => 1,
        () = signalled(SignalKind::interrupt()) => 2,
        () = signalled(SignalKind::terminate()) => 15,
    }
}

/// Waits for a signal; forever where it cannot be waited for.
async fn signalled(kind: SignalKind) {
    match signal(kind) {
        Ok(mut signals) => drop(signals.recv().await),
        Err(_) => std::future::pending().await,
    }
}
