//! `leasehold-conformance`: plays the scenarios with the drivers there are, and ends with 0 only if every play was clean.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::{Context as _, Result, bail, ensure};
use clap::Parser;
use leasehold_conformance::{
    cast::{self, Casting, Drivers},
    play::{Outcome, play},
    report::Report,
    scenario::Scenario,
};
use leasehold_etcd::Version;
use tokio::task::JoinSet;

/// Plays the conformance scenarios through the drivers of every language, alone and mixed, and checks what happened.
#[derive(Parser)]
struct Options {
    /// A driver, as language=path; without any, every drivers/*/run, and in the mix every run-sync.
    #[arg(long = "driver", value_name = "LANGUAGE=PATH", value_parser = driver)]
    drivers: Vec<(String, PathBuf)>,
    /// The folder of the scenarios, where it is not the crate's own.
    #[arg(long, value_name = "FOLDER")]
    scenarios: Option<PathBuf>,
    /// Only the scenarios whose name contains this, or one of these.
    #[arg(long = "filter", value_name = "TEXT")]
    filters: Vec<String>,
    /// The same as --filter.
    #[arg(value_name = "TEXT")]
    names: Vec<String>,
    /// The series of etcd: 3.7, 3.6, 3.5, 3.4 or any.
    #[arg(long, default_value = "any")]
    version: Version,
    /// How often each play is repeated.
    #[arg(long, default_value_t = 1)]
    repeat: usize,
    /// Write the history of every play, not only of failed ones.
    #[arg(long)]
    keep: bool,
    /// List the scenarios and end.
    #[arg(long)]
    list: bool,
    /// Play the scenarios about the core with Rust and one more cast only, not with every language alone.
    #[arg(long)]
    short: bool,
    /// Write how many plays passed, failed and were skipped into this file, as JSON.
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// How many plays run at the same time, each with its own etcd. Most of their time they wait for a TTL.
    #[arg(long, default_value_t = 4)]
    jobs: usize,
}

fn driver(text: &str) -> Result<(String, PathBuf)> {
    let (language, path) = text.split_once('=').context("a driver is written language=path")?;
    Ok((language.to_owned(), path.into()))
}

fn main() -> ExitCode {
    match run(Options::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("leasehold-conformance: {error:#}");
            ExitCode::FAILURE
        }
    }
}

#[tokio::main]
async fn run(options: Options) -> Result<bool> {
    let home = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut scenarios = Scenario::read_all(&options.scenarios.clone().unwrap_or_else(|| home.join("scenarios")))?;
    let filters = [options.filters.as_slice(), &options.names].concat();
    for filter in &filters {
        let is_meant = scenarios.iter().any(|scenario| scenario.name.contains(filter));
        ensure!(is_meant, "no scenario's name contains {filter}; --list shows them");
    }
    scenarios.retain(|scenario| filters.is_empty() || filters.iter().any(|filter| scenario.name.contains(filter)));
    ensure!(!scenarios.is_empty(), "there is no scenario");
    if options.list {
        for scenario in scenarios {
            println!("{:<28} {}", scenario.name, scenario.about);
        }
        return Ok(true);
    }
    let drivers: Drivers = match options.drivers.is_empty() {
        true => cast::discover(&home.join("drivers"))?,
        false => Drivers { alone: options.drivers.iter().cloned().collect(), mixed: BTreeMap::new() },
    };
    let histories = target()?.join("conformance");
    // Ctrl-C drops the plays, and with them their drivers and clusters.
    tokio::select! {
        clean = play_all(scenarios, &drivers, histories, &options) => clean,
        _ = tokio::signal::ctrl_c() => bail!("interrupted"),
    }
}

async fn play_all(scenarios: Vec<Scenario>, drivers: &Drivers, histories: PathBuf, options: &Options) -> Result<bool> {
    let (version, repeat, jobs) = (options.version, options.repeat, options.jobs.max(1));
    let mut report = Report::new(histories, options.keep);
    let mut running: JoinSet<(String, String, Outcome)> = JoinSet::new();
    for (turn, scenario) in scenarios.iter().enumerate() {
        for casting in cast::castings(scenario, drivers, turn, options.short) {
            let (label, cast) = match casting {
                Casting::Play(label, cast) => (label, cast),
                Casting::Skip(why) => {
                    println!("{}", report.skipped(&scenario.name, &why));
                    continue;
                }
            };
            for round in 1..=repeat {
                while running.len() >= jobs {
                    next(&mut running, &mut report).await;
                }
                let label = if repeat == 1 { label.clone() } else { format!("{label}-{round}") };
                let (scenario, cast) = (scenario.clone(), cast.clone());
                running.spawn(async move { (scenario.name.clone(), label, play(&scenario, &cast, version).await) });
            }
        }
    }
    while !running.is_empty() {
        next(&mut running, &mut report).await;
    }
    println!("\n{}", report.table());
    if let Some(path) = &options.report {
        std::fs::write(path, report.counts().to_string())
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(report.is_clean())
}

async fn next(running: &mut JoinSet<(String, String, Outcome)>, report: &mut Report) {
    match running.join_next().await {
        Some(Ok((scenario, cast, outcome))) => println!("{}", report.played(&scenario, &cast, &outcome)),
        // A play that panics is a mistake in the runner: the whole run is worth nothing.
        Some(Err(error)) => std::panic::resume_unwind(error.into_panic()),
        None => {}
    }
}

/// Where cargo puts what it builds: this program is two directories below.
fn target() -> Result<PathBuf> {
    let program = std::env::current_exe().context("where is this program?")?;
    Ok(program.ancestors().nth(2).unwrap_or(Path::new(".")).to_owned())
}
