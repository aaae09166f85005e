//! The core on a simulated etcd, in virtual time: thousands of seeded disasters, each of which replays exactly.
//!
//! What runs is the real [`Hub`](leasehold::hub::Hub) of each client and the real rules of etcd's data
//! ([`Kv`](leasehold::store::memory::Kv)). What is simulated lies between them: the network, the members of the cluster with
//! their watches, the clocks, and the processes that freeze or die. A seed decides everything; there is no other randomness.

pub mod check;
pub mod client;
pub mod cluster;
mod elections;
pub mod foreign;
pub mod loans;
mod net;
pub mod plan;
pub mod rules;
pub mod search;
pub mod stays;
mod watches;
pub mod world;

/// A millisecond in the nanoseconds of virtual time.
pub const MS: u64 = 1_000_000;
/// A second in the nanoseconds of virtual time.
pub const SEC: u64 = 1_000 * MS;

/// What became of one seed.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Hash of everything that every client was told and did, in order: equal for equal runs.
    pub fingerprint: u64,
    /// The first rule that was broken, and when.
    pub violation: Option<rules::Broken>,
    /// What happened, line by line, if it was asked for.
    pub trace: Vec<String>,
    /// How much happened.
    pub counts: Counts,
}

/// How much happened in a run, to see that a simulation tries what it should.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    /// Inputs to state machines.
    pub inputs: u64,
    /// Acquires asked for.
    pub acquires: u64,
    /// Acquires that won.
    pub wins: u64,
    /// Holds that were lost.
    pub losses: u64,
    /// Acquires that failed.
    pub failures: u64,
    /// Locks that a foreign client had.
    pub foreign: u64,
    /// Proclamations that took effect.
    pub proclamations: u64,
    /// What observers were told.
    pub sights: u64,
    /// Faults of the plan that struck.
    pub faults: u64,
    /// Nanoseconds of virtual time.
    pub virtual_time: u64,
}

impl std::ops::AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.inputs += other.inputs;
        self.acquires += other.acquires;
        self.wins += other.wins;
        self.losses += other.losses;
        self.failures += other.failures;
        self.foreign += other.foreign;
        self.proclamations += other.proclamations;
        self.sights += other.sights;
        self.faults += other.faults;
        self.virtual_time += other.virtual_time;
    }
}

/// Plays the disaster that `seed` stands for.
pub fn play(seed: u64, with_trace: bool) -> Outcome {
    world::World::new(plan::Plan::from_seed(seed), with_trace).run()
}
