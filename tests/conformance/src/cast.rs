//! Who plays what: every language alone, and where a scenario has several parts, the languages mixed in one queue.

use std::{
    collections::BTreeMap,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};

use crate::{
    play::Cast,
    scenario::{Kind, Scenario},
};

/// The drivers there are: their languages and their `run`.
pub type Drivers = BTreeMap<String, PathBuf>;

/// One way to play a scenario.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Casting {
    /// With this cast, under this label.
    Play(String, Cast),
    /// Not at all, and why.
    Skip(String),
}

/// Finds every executable `<folder>/<language>/run`.
pub fn discover(folder: &Path) -> Result<Drivers> {
    let mut drivers = Drivers::new();
    for entry in std::fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))? {
        let run = entry?.path().join("run");
        let is_executable = run.metadata().is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0);
        if let (true, Some(language)) = (is_executable, run.parent().and_then(Path::file_name)) {
            drivers.insert(language.to_string_lossy().into_owned(), run.clone());
        }
    }
    Ok(drivers)
}

/// The language of the core itself.
const CORE: &str = "rust";

/// The ways to play `scenario` with `drivers`: every language alone, and all of them mixed; if it `is_short`, what is about the core
/// only with Rust and one more cast. `turn` shifts the mix, so that all parts are played by all languages in time.
pub fn castings(scenario: &Scenario, drivers: &Drivers, turn: usize, is_short: bool) -> Vec<Casting> {
    let parts: Vec<(&String, &Vec<String>)> = scenario
        .actors
        .iter()
        .filter_map(|(name, spec)| match &spec.kind {
            Kind::Driver(languages) => Some((name, languages)),
            Kind::Foreign(_) => None,
        })
        .collect();
    let may = |languages: &Vec<String>, language: &String| languages.is_empty() || languages.contains(language);
    if let Some((name, languages)) =
        parts.iter().find(|(_, languages)| !drivers.keys().any(|language| may(languages, language)))
    {
        return vec![Casting::Skip(format!("no driver for {name} ({})", languages.join(" or ")))];
    }
    let part = |name: &String, language: &String| {
        drivers.get(language).map(|run| (name.clone(), (language.clone(), run.clone())))
    };
    let mut castings = Vec::new();
    for language in drivers.keys() {
        if parts.iter().all(|(_, languages)| may(languages, language)) {
            let cast = parts.iter().filter_map(|(name, _)| part(name, language)).collect();
            castings.push(Casting::Play(language.clone(), cast));
        }
    }
    let mut mixed = Cast::new();
    for (index, (name, languages)) in parts.iter().enumerate() {
        let choices: Vec<_> = drivers.keys().filter(|language| may(languages, language)).collect();
        mixed.extend(part(name, choices[(index + turn) % choices.len()]));
    }
    let known = |casting: &Casting| matches!(casting, Casting::Play(_, cast) if *cast == mixed);
    if !castings.iter().any(known) {
        castings.push(Casting::Play("mixed".to_owned(), mixed));
    }
    let is = |casting: &Casting, wanted: &str| matches!(casting, Casting::Play(label, _) if label == wanted);
    if scenario.core && is_short && castings.iter().any(|casting| is(casting, CORE)) {
        let others: Vec<_> = castings.iter().filter(|casting| !is(casting, CORE)).cloned().collect();
        castings.retain(|casting| is(casting, CORE) || is(casting, "mixed"));
        // Where there is nothing to mix, another language takes its turn.
        if castings.len() == 1 && !others.is_empty() {
            castings.push(others[turn % others.len()].clone());
        }
    }
    castings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drivers(languages: &[&str]) -> Drivers {
        languages.iter().map(|language| ((*language).to_owned(), PathBuf::from(language))).collect()
    }

    fn labels(actors: &str, languages: &[&str]) -> Vec<String> {
        let scenario = Scenario::parse(&format!("about: x\nactors: {actors}\nsteps: []")).unwrap();
        shown(&scenario, languages, 0, true)
    }

    fn shown(scenario: &Scenario, languages: &[&str], turn: usize, is_short: bool) -> Vec<String> {
        let label = |casting| match casting {
            Casting::Play(label, cast) => {
                let parts: Vec<_> = cast.iter().map(|(name, (language, _))| format!("{name}={language}")).collect();
                format!("{label}: {}", parts.join(" "))
            }
            Casting::Skip(why) => format!("skip: {why}"),
        };
        castings(scenario, &drivers(languages), turn, is_short).into_iter().map(label).collect()
    }

    #[test]
    fn every_language_alone_and_all_mixed() {
        assert_eq!(
            labels("{a: any, b: any}", &["c", "rust"]),
            ["c: a=c b=c", "rust: a=rust b=rust", "mixed: a=c b=rust"]
        );
        assert_eq!(labels("{a: any, b: any}", &["rust"]), ["rust: a=rust b=rust"]);
        assert_eq!(labels("{a: any}", &["c", "rust"]), ["c: a=c", "rust: a=rust"]);
        assert_eq!(labels("{a: any, e: {foreign: etcdctl}}", &["rust"]), ["rust: a=rust"]);
    }

    #[test]
    fn what_is_about_the_core_is_played_by_rust_and_by_one_more_cast() {
        let two = Scenario::parse("about: x\ncore: true\nactors: {a: any, b: any}\nsteps: []").unwrap();
        let all = ["c", "java", "rust"];
        assert_eq!(shown(&two, &all, 0, true), ["rust: a=rust b=rust", "mixed: a=c b=java"]);
        assert_eq!(shown(&two, &all, 1, true), ["rust: a=rust b=rust", "mixed: a=java b=rust"]);
        assert_eq!(shown(&two, &all, 0, false).len(), 4);
        assert_eq!(
            shown(&two, &["c", "java"], 0, true).len(),
            3,
            "without Rust there is nobody to stand in for the others"
        );
        let one = Scenario::parse("about: x\ncore: true\nactors: {a: any}\nsteps: []").unwrap();
        assert_eq!(shown(&one, &all, 0, true), ["rust: a=rust", "c: a=c"]);
        assert_eq!(shown(&one, &all, 1, true), ["rust: a=rust", "java: a=java"]);
    }

    #[test]
    fn parts_of_one_language() {
        assert_eq!(labels("{a: rust, b: any}", &["c", "rust"]), ["rust: a=rust b=rust"]);
        assert_eq!(labels("{a: any, b: c}", &["rust"]), ["skip: no driver for b (c)"]);
        assert_eq!(labels("{a: [c, rust], b: rust}", &["c", "rust"]), ["rust: a=rust b=rust", "mixed: a=c b=rust"]);
    }
}
