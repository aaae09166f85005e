//! Plays seeds, and says how many a second; or searches, and says how many states. A seed that fails is named, and its trace is
//! shown on request; a search that fails shows the shortest way to the fault.

use std::{process::ExitCode, time::Instant};

use clap::{Parser, ValueEnum as _};
use leasehold_sim::{
    Counts, SEC, play,
    rules::{Rule, guarded},
    search::{scenarios, search},
};

/// Plays simulated disasters: the core on a simulated etcd, in virtual time.
#[derive(Parser)]
struct Options {
    /// How many seeds.
    #[arg(long, default_value_t = 2_000)]
    seeds: u64,
    /// The first seed.
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// Plays this seed alone and shows everything that happens.
    #[arg(long)]
    trace: Option<u64>,
    /// Searches every order of events instead, up to so many states for each scenario.
    #[arg(long)]
    search: Option<usize>,
    /// Only the scenarios whose name contains this.
    #[arg(long, default_value = "")]
    scenario: String,
    /// Lists the rules that are judged, by the names under which a broken one is reported.
    #[arg(long)]
    rules: bool,
    /// Ends after so many failures.
    #[arg(long, default_value_t = 1)]
    failures: u64,
}

fn main() -> ExitCode {
    let options = Options::parse();
    if options.rules {
        for rule in Rule::value_variants() {
            println!("{rule}");
        }
        return ExitCode::SUCCESS;
    }
    if let Some(seed) = options.trace {
        return trace(seed);
    }
    if let Some(limit) = options.search {
        return search_all(limit, &options.scenario, options.failures);
    }
    let started = Instant::now();
    let (mut counts, mut failures, mut played) = (Counts::default(), 0, 0);
    let mut fingerprints = 0_u64;
    for seed in options.from..options.from + options.seeds {
        played += 1;
        let violation = match guarded(|| Ok(play(seed, false))) {
            Ok(outcome) => {
                counts += outcome.counts;
                fingerprints = fingerprints.rotate_left(1) ^ outcome.fingerprint;
                outcome.violation
            }
            Err(panic) => Some(panic),
        };
        if let Some(violation) = violation {
            println!("seed {seed}: BROKEN {violation}");
            failures += 1;
        }
        if failures >= options.failures {
            break;
        }
    }
    let elapsed = started.elapsed().as_secs_f64();
    println!(
        "{played} seeds in {elapsed:.1} s, {:.0} a second; {} inputs, {} acquires, {} won, {} failed, {} lost, {} foreign holds, {} \
         proclamations, {} sights of observers, {} faults, \
         {} h of virtual time; fingerprint {fingerprints:016x}",
        played as f64 / elapsed,
        counts.inputs,
        counts.acquires,
        counts.wins,
        counts.failures,
        counts.losses,
        counts.foreign,
        counts.proclamations,
        counts.sights,
        counts.faults,
        counts.virtual_time / SEC / 3600,
    );
    if failures > 0 {
        println!("{failures} failed; `--trace <seed>` shows what happened");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

fn search_all(limit: usize, only: &str, at_most: u64) -> ExitCode {
    let (started, mut states, mut failures) = (Instant::now(), 0, 0);
    for scenario in scenarios().iter().filter(|scenario| scenario.name.contains(only)) {
        let found = search(scenario, limit);
        states += found.states;
        println!(
            "{:<32} {:>9} states{} {:>9} steps, {:>3} deep, {:>7} played to the end, {:>6.1} s, {:>7.0} states a second",
            scenario.name,
            found.states,
            if found.is_complete { ", all: " } else { ", bound:" },
            found.steps,
            found.depth,
            found.finished,
            found.seconds,
            found.states as f64 / found.seconds,
        );
        if let Some((violation, way)) = found.violation {
            failures += 1;
            println!("  BROKEN {violation}");
            for line in way {
                println!("    {line}");
            }
            if failures >= at_most {
                break;
            }
        }
    }
    let elapsed = started.elapsed().as_secs_f64();
    println!("{states} states in {elapsed:.1} s, {:.0} a second; {failures} scenarios failed", states as f64 / elapsed);
    if failures > 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

fn trace(seed: u64) -> ExitCode {
    match guarded(|| Ok(play(seed, true))) {
        Ok(outcome) => {
            for line in &outcome.trace {
                println!("{line}");
            }
            println!("fingerprint {:016x}", outcome.fingerprint);
            if outcome.violation.is_some() { ExitCode::FAILURE } else { ExitCode::SUCCESS }
        }
        Err(panic) => {
            println!("{panic}");
            ExitCode::FAILURE
        }
    }
}
