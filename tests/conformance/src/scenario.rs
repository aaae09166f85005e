//! Scenarios as they are written in YAML. The README beside this crate's manifest describes the language.

use std::{collections::BTreeMap, path::Path};

use anyhow::{Context as _, Result, bail, ensure};
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::steps;

/// One file of `scenarios/`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// The file's name without its ending.
    #[serde(skip)]
    pub name: String,
    /// What is promised, in one sentence.
    pub about: String,
    /// What it shows lies in the core, below every binding: a short run plays it with Rust and one more cast, not with each
    /// language alone.
    #[serde(default)]
    pub core: bool,
    /// The cluster it needs; a single member in memory where it says nothing.
    #[serde(default)]
    pub cluster: ClusterSpec,
    /// Who takes part.
    pub actors: BTreeMap<String, ActorSpec>,
    /// What is done, in this order.
    pub steps: Vec<Step>,
    /// Findings that there must be, each by how it begins: a promise that a client that is not ours breaks.
    #[serde(default)]
    pub finds: Vec<String>,
    /// The play fails if its steps need longer, in seconds.
    #[serde(default = "ninety")]
    pub limit_s: u64,
}

fn ninety() -> u64 {
    90
}

/// The cluster that a scenario needs.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ClusterSpec {
    /// How many members; 0 stands for one.
    pub members: usize,
    /// Speak TLS, and ask clients for a certificate.
    pub tls: bool,
    /// Users other than root; where there are any, etcd asks for passwords.
    pub users: Vec<User>,
}

/// A user of etcd with a role of their own.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct User {
    /// Their name.
    pub name: String,
    /// Their password.
    pub password: String,
    /// They may read and write the keys that start with this.
    pub prefix: String,
}

/// One who takes part.
#[derive(Clone, Debug, Deserialize)]
#[serde(from = "ActorForms")]
pub struct ActorSpec {
    /// Who it is.
    pub kind: Kind,
    /// Reaches etcd through a proxy of its own, so that its traffic can be disturbed.
    pub proxy: bool,
}

/// Who an actor is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A driver of one of these languages; none named means any.
    Driver(Vec<String>),
    /// A lock client that is not ours.
    Foreign(Foreign),
}

/// Lock clients that are not ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Foreign {
    /// The lock that is copied from demo to demo.
    Route1,
    /// `etcdctl lock`.
    Etcdctl,
    /// Whoever uses etcd's Lock service, as jetcd's Lock client does.
    Service,
}

/// `any`, a language, a list of languages, or an object.
#[derive(Deserialize)]
#[serde(untagged)]
enum ActorForms {
    Language(String),
    Languages(Vec<String>),
    Foreign(ForeignForm),
    Full(FullForm),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ForeignForm {
    foreign: Foreign,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FullForm {
    language: OneOrMore,
    #[serde(default)]
    proxy: bool,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum OneOrMore {
    One(String),
    More(Vec<String>),
}

impl From<ActorForms> for ActorSpec {
    fn from(form: ActorForms) -> Self {
        let one = |language: String| if language == "any" { Vec::new() } else { vec![language] };
        match form {
            ActorForms::Language(language) => Self { kind: Kind::Driver(one(language)), proxy: false },
            ActorForms::Languages(languages) => Self { kind: Kind::Driver(languages), proxy: false },
            ActorForms::Foreign(form) => Self { kind: Kind::Foreign(form.foreign), proxy: false },
            ActorForms::Full(form) => {
                let languages = match form.language {
                    OneOrMore::One(language) => one(language),
                    OneOrMore::More(languages) => languages,
                };
                Self { kind: Kind::Driver(languages), proxy: form.proxy }
            }
        }
    }
}

/// One thing to do: an operation with its arguments, and what goes with it.
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "Map<String, Value>")]
pub struct Step {
    /// What to do; one of [`steps::names`].
    pub op: String,
    /// What to do it with; variables not yet replaced.
    pub args: Value,
    /// `as`: the request goes on in the background under this name.
    pub name: Option<Value>,
    /// What must come of it.
    pub expect: Option<Value>,
    /// Variables to set, each to a field of the reply.
    pub save: BTreeMap<String, String>,
    /// `do`: the steps of a loop.
    pub body: Vec<Step>,
}

impl TryFrom<Map<String, Value>> for Step {
    type Error = anyhow::Error;

    fn try_from(mut fields: Map<String, Value>) -> Result<Self> {
        let name = fields.remove("as");
        let expect = fields.remove("expect");
        let save = fields.remove("save").map(serde_json::from_value).transpose().context("save")?.unwrap_or_default();
        let body: Vec<Self> =
            fields.remove("do").map(serde_json::from_value).transpose().context("do")?.unwrap_or_default();
        let mut rest = fields.into_iter();
        let (Some((op, args)), None) = (rest.next(), rest.next()) else {
            bail!("a step is one operation, with as, expect, save or do beside it");
        };
        let known: Vec<_> = steps::names().collect();
        ensure!(known.contains(&op.as_str()), "there is no operation {op:?}; there are {}", known.join(", "));
        ensure!(body.is_empty() != steps::is_loop(&op), "{op} and do do not go together, or one is missing");
        Ok(Self { op, args, name, expect, save, body })
    }
}

impl Scenario {
    /// Reads one file.
    pub fn read(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        let mut scenario = Self::parse(&text).with_context(|| format!("{} is no scenario", path.display()))?;
        scenario.name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        ensure!(
            text.lines().any(|line| line.starts_with("# Seen to fail")),
            "{} does not say in a comment (\"# Seen to fail …\") against which broken build it was seen to fail",
            path.display()
        );
        ensure!(!scenario.steps.is_empty(), "{} has no steps", path.display());
        let has_foreigner = scenario.actors.values().any(|actor| matches!(actor.kind, Kind::Foreign(_)));
        ensure!(scenario.finds.is_empty() || has_foreigner, "{}: our own clients break no promise", path.display());
        Ok(scenario)
    }

    /// Reads one text.
    pub fn parse(text: &str) -> Result<Self> {
        Ok(serde_norway::from_str(text)?)
    }

    /// Reads every scenario of a folder, in the order of their names.
    pub fn read_all(folder: &Path) -> Result<Vec<Self>> {
        let listing = std::fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))?;
        let mut paths = listing.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
        paths.retain(|path| path.extension().is_some_and(|ending| ending == "yaml"));
        paths.sort();
        paths.iter().map(|path| Self::read(path)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "about: x\nactors: {a: any}\n";

    #[test]
    fn a_scenario_in_all_its_forms() {
        let scenario = Scenario::parse(
            r"
            about: everything
            cluster: {members: 3}
            actors:
              a: any
              b: [rust, c]
              c: {language: any, proxy: true}
              d: {foreign: etcdctl}
              e: python
            steps:
              - open: {actor: a}
              - acquire: {actor: a, lock: /l}
                as: w
                expect: {ok: true}
                save: {t: token}
              - for: {i: [1, 2]}
                do:
                  - await: w
            ",
        )
        .unwrap();
        assert_eq!(scenario.cluster.members, 3);
        assert_eq!(scenario.actors["a"].kind, Kind::Driver(vec![]));
        assert_eq!(scenario.actors["b"].kind, Kind::Driver(vec!["rust".to_owned(), "c".to_owned()]));
        assert!(scenario.actors["c"].proxy);
        assert_eq!(scenario.actors["d"].kind, Kind::Foreign(Foreign::Etcdctl));
        assert_eq!(scenario.actors["e"].kind, Kind::Driver(vec!["python".to_owned()]));
        assert_eq!(scenario.steps[1].save["t"], "token");
        assert_eq!(scenario.steps[2].body[0].op, "await");
    }

    #[test]
    fn mistakes_are_refused() {
        for steps in [
            "- opne: {}",
            "- {open: {}, close: {}}",
            "- {expect: {ok: true}}",
            "- {for: {i: [1]}}",
            "- {open: {}, do: [{close: {}}]}",
            "- open: {}\nextra: 1",
        ] {
            assert!(Scenario::parse(&format!("{HEAD}steps:\n{steps}")).is_err(), "{steps}");
        }
        assert!(Scenario::parse("about: x\nactors: {a: {foreign: nobody}}\nsteps: []").is_err());
    }
}
