//! One play: a scenario with a cast, from the first step to the last check.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use anyhow::{Context as _, Result, bail};
use leasehold_etcd::Version;
use serde_json::Value;
use tokio::{
    task::JoinSet,
    time::{Instant, timeout},
};

use crate::{
    actor::Actor,
    check,
    expect::Vars,
    finish, foreign,
    history::History,
    scenario::{Foreign, Kind, Scenario, Step},
    stage::Stage,
};

/// Which driver plays each actor: its language and its `run`.
pub type Cast = BTreeMap<String, (String, PathBuf)>;

/// How a play ended.
#[derive(Debug)]
pub struct Outcome {
    /// What was wrong; empty if nothing was.
    pub findings: Vec<String>,
    /// What happened.
    pub history: History,
    /// What the drivers and the cluster said besides, where something was wrong.
    pub diagnostics: String,
    /// How long it took.
    pub took: Duration,
}

/// A request under way.
pub struct Sent {
    /// Whom it went to.
    pub actor: Arc<Actor>,
    /// Under which id.
    pub id: String,
    /// When, on `CLOCK_MONOTONIC`.
    pub at: u64,
}

/// A play under way: what its steps share.
pub struct Play {
    /// The cluster.
    pub stage: Arc<Stage>,
    /// The record.
    pub history: History,
    /// Who takes part.
    pub actors: BTreeMap<String, Arc<Actor>>,
    /// The variables.
    pub vars: Vars,
    /// Requests under way, by their names in the scenario.
    pub background: BTreeMap<String, Sent>,
    /// The ids of all that was started there, answered or not: a cancel may come too late.
    pub started: BTreeMap<String, String>,
    /// Started stopwatches.
    pub stopwatches: BTreeMap<String, u64>,
    /// Keys that the runner wrote itself.
    pub own_keys: BTreeSet<String>,
    /// Leases that the runner granted itself.
    pub own_leases: BTreeSet<String>,
    /// A member was disturbed, so that the leader may have changed.
    pub elections: bool,
}

/// Plays `scenario` on a cluster of its own.
pub async fn play(scenario: &Scenario, cast: &Cast, version: Version) -> Outcome {
    let begun = Instant::now();
    let history = History::default();
    let mut findings = Vec::new();
    let mut diagnostics = String::new();
    match Play::start(scenario, cast, version, history.clone()).await {
        Err(error) => findings.push(format!("cannot begin: {error:#}")),
        Ok(mut play) => {
            let limit = Duration::from_secs(scenario.limit_s);
            match timeout(limit, play.steps(&scenario.steps, "step")).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => findings.push(format!("{error:#}")),
                Err(_) => findings.push(format!("its steps were not done after {} s", limit.as_secs())),
            }
            history.note("the steps are done");
            findings.extend(finish::finish(&mut play).await);
            if !findings.is_empty() {
                diagnostics = play.diagnostics();
            }
        }
    }
    findings.extend(check::check(&history.entries()));
    let findings = unexpected(findings, &scenario.finds);
    Outcome { findings, history, diagnostics, took: begun.elapsed() }
}

/// The findings that nobody expected, and the expected ones that are not there.
fn unexpected(mut findings: Vec<String>, expected: &[String]) -> Vec<String> {
    let is_there = |finding: &String| findings.iter().any(|found| found.starts_with(finding.as_str()));
    let missing = expected.iter().filter(|finding| !is_there(finding));
    let missing: Vec<_> = missing.map(|finding| format!("not found, though it should have been: {finding}")).collect();
    findings.retain(|found| !expected.iter().any(|finding| found.starts_with(finding.as_str())));
    findings.extend(missing);
    findings
}

impl Play {
    async fn start(scenario: &Scenario, cast: &Cast, version: Version, history: History) -> Result<Self> {
        let stage = Arc::new(Stage::start(scenario, version, history.clone()).await?);
        let mut actors = BTreeMap::new();
        for (name, spec) in &scenario.actors {
            let actor = match &spec.kind {
                Kind::Driver(_) => {
                    let (language, run) = cast.get(name).with_context(|| format!("nobody plays {name}"))?;
                    Actor::driver(name, language, run, history.clone())?
                }
                Kind::Foreign(Foreign::Route1) => foreign::route1(name, &stage, history.clone()),
                Kind::Foreign(Foreign::Service) => foreign::service(name, &stage, history.clone()),
                Kind::Foreign(Foreign::Etcdctl) => foreign::etcdctl(name, Arc::clone(&stage), history.clone()),
            };
            actors.insert(name.clone(), Arc::new(actor));
        }
        // All at once: some take their time to start, and that is no business of the scenario's.
        let drivers = actors.values().filter(|actor: &&Arc<Actor>| !actor.is_foreign()).map(Arc::clone);
        let mut starting: JoinSet<_> = drivers.map(|actor| async move { actor.introduce().await }).collect();
        while let Some(introduced) = starting.join_next().await {
            introduced.context("a driver's start")??;
        }
        Ok(Self {
            stage,
            history,
            actors,
            vars: Vars::new(),
            background: BTreeMap::new(),
            started: BTreeMap::new(),
            stopwatches: BTreeMap::new(),
            own_keys: BTreeSet::new(),
            own_leases: BTreeSet::new(),
            elections: false,
        })
    }

    /// Plays `steps` in their order; `place` says for people where they stand.
    pub async fn steps(&mut self, steps: &[Step], place: &str) -> Result<()> {
        for (index, step) in steps.iter().enumerate() {
            let place = format!("{place} {}", index + 1);
            self.step(step, &place).await.with_context(|| format!("{place} ({})", step.op))?;
        }
        Ok(())
    }

    /// The actor of that name; without a name, the only one.
    pub fn actor(&self, name: Option<&Value>) -> Result<Arc<Actor>> {
        match (name, self.actors.len()) {
            (Some(Value::String(name)), _) => {
                self.actors.get(name).cloned().with_context(|| format!("there is no actor {name}"))
            }
            (None, 1) => self.actors.values().next().cloned().context("there is no actor"),
            (None, _) => bail!("which actor? There are several"),
            (Some(other), _) => bail!("an actor is named by a text, not by {other}"),
        }
    }

    fn diagnostics(&self) -> String {
        let mut text = String::new();
        for actor in self.actors.values() {
            let said = actor.diagnostics();
            if !said.is_empty() {
                text.push_str(&format!("--- {} ({}) on stderr\n{said}", actor.name, actor.language));
            }
        }
        text + &self.stage.logs()
    }
}
