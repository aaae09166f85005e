//! Exhaustive search: every order of events of a small cluster, over the real state machines.
//!
//! A state is two clients with their hubs, a foreign contender, the store, and every message on its way. From each state every
//! step is taken that could come next: any message may arrive next, only those of one stream keep their order. What goes wrong
//! is part of it: a budget says how often. Time passes only by steps of its own. States that were seen before are recognised by
//! a fingerprint of 128 bits, and the search goes breadth first, so that what it finds has the shortest way there.

mod fingerprint;
mod model;
mod scenario;

use std::{
    collections::HashSet,
    hash::{BuildHasherDefault, Hasher},
    time::Instant,
};

pub use self::{
    model::{State, Step},
    scenario::{Budget, Scenario, scenarios},
};
use crate::rules::{Broken, guarded};

/// What a search found out.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// States that differ.
    pub states: usize,
    /// Steps that were taken.
    pub steps: usize,
    /// The longest way from the start, in steps.
    pub depth: usize,
    /// States from which nothing but time can go on, and others whose future was played to its end.
    pub finished: usize,
    /// Whether every state that can be reached was seen.
    pub is_complete: bool,
    /// The broken rule, and the shortest way to it.
    pub violation: Option<(Broken, Vec<String>)>,
    /// How long it took, in seconds.
    pub seconds: f64,
}

/// Keys of the set are fingerprints already.
#[derive(Default)]
struct Identity(u64);

impl Hasher for Identity {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, _: &[u8]) {}
    fn write_u128(&mut self, value: u128) {
        self.0 = value as u64;
    }
}

/// Searches `scenario` until every state was seen, a rule is broken, or `limit` states were seen.
pub fn search(scenario: &Scenario, limit: usize) -> Found {
    let started = Instant::now();
    let mut found = Found::default();
    let root = State::new(scenario);
    let mut seen: HashSet<u128, BuildHasherDefault<Identity>> = HashSet::default();
    seen.insert(root.fingerprint());
    // Each state's way there: the state before it and the step.
    let mut ways: Vec<(u32, Step)> = vec![(0, Step::Root)];
    let mut level = vec![(root, 0_u32)];
    let mut steps = Vec::new();
    'levels: while !level.is_empty() {
        let mut next = Vec::new();
        for (state, index) in level {
            steps.clear();
            state.steps(&mut steps);
            // Liveness: from where nothing but time goes on, and from one state in 64 besides, everybody must get done.
            if state.is_quiet(&steps) || state.fingerprint().is_multiple_of(64) {
                found.finished += 1;
                if let Err(broken) = guarded(|| state.finish(scenario)) {
                    found.violation = Some((broken, tell(scenario, &ways, index, None)));
                    break 'levels;
                }
            }
            for step in &steps {
                found.steps += 1;
                let after = match guarded(|| state.take(scenario, *step, &mut Vec::new())) {
                    Ok(after) => after,
                    Err(broken) => {
                        found.violation = Some((broken, tell(scenario, &ways, index, Some(*step))));
                        break 'levels;
                    }
                };
                if seen.insert(after.fingerprint()) {
                    ways.push((index, *step));
                    next.push((after, ways.len() as u32 - 1));
                }
            }
            if seen.len() >= limit {
                break 'levels;
            }
        }
        found.depth += usize::from(!next.is_empty());
        level = next;
        found.is_complete = level.is_empty();
    }
    found.states = seen.len();
    found.seconds = started.elapsed().as_secs_f64();
    found
}

/// The way to a state, step by step, with what each step made the clients do.
fn tell(scenario: &Scenario, ways: &[(u32, Step)], to: u32, last: Option<Step>) -> Vec<String> {
    let mut steps: Vec<Step> = last.into_iter().collect();
    let mut at = to;
    while at != 0 {
        let (before, step) = ways[at as usize];
        steps.push(step);
        at = before;
    }
    steps.reverse();
    let mut state = State::new(scenario);
    let mut lines = Vec::new();
    for step in steps {
        let mut told = Vec::new();
        let after = guarded(|| state.take(scenario, step, &mut told));
        lines.push(format!("{step:?}: {}", told.join("; ")));
        match after {
            Ok(after) => state = after,
            Err(_) => break,
        }
    }
    lines
}
