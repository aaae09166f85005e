//! Plays seeds, and says how many a second; or searches, and says how many states. A seed that fails is named, and its trace is
//! shown on request; a search that fails shows the shortest way to the fault.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    process::ExitCode,
    time::Instant,
};

use clap::Parser;
use leasehold_sim::{
    Counts, Outcome, SEC, play,
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
    /// Ends after so many failures.
    #[arg(long, default_value_t = 1)]
    failures: u64,
}

fn main() -> ExitCode {
    let options = Options::parse();
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
        match try_play(seed, false) {
            Ok(outcome) => {
                counts += outcome.counts;
                fingerprints = fingerprints.rotate_left(1) ^ outcome.fingerprint;
                if let Some(violation) = outcome.violation {
                    println!("seed {seed}: {violation}");
                    failures += 1;
                }
            }
            Err(panic) => {
                println!("seed {seed}: panicked: {panic}");
                failures += 1;
            }
        }
        if failures >= options.failures {
            break;
        }
    }
    let elapsed = started.elapsed().as_secs_f64();
    println!(
        "{played} seeds in {elapsed:.1} s, {:.0} a second; {} inputs, {} acquires, {} won, {} failed, {} lost, {} foreign holds, {} faults, \
         {} h of virtual time; fingerprint {fingerprints:016x}",
        played as f64 / elapsed,
        counts.inputs,
        counts.acquires,
        counts.wins,
        counts.failures,
        counts.losses,
        counts.foreign,
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
        if let Some((rule, way)) = found.violation {
            failures += 1;
            println!("  BROKEN: {rule}");
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
    match try_play(seed, true) {
        Ok(outcome) => {
            for line in &outcome.trace {
                println!("{line}");
            }
            println!("fingerprint {:016x}", outcome.fingerprint);
            if outcome.violation.is_some() { ExitCode::FAILURE } else { ExitCode::SUCCESS }
        }
        Err(panic) => {
            println!("panicked: {panic}");
            ExitCode::FAILURE
        }
    }
}

/// A bug can also show as a panic of the machines.
fn try_play(seed: u64, with_trace: bool) -> Result<Outcome, String> {
    catch_unwind(AssertUnwindSafe(|| play(seed, with_trace))).map_err(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned())).unwrap_or_default()
    })
}
