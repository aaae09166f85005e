//! Who plays what: every language alone, and where a scenario has several parts, the languages mixed in one queue.

use std::{
    collections::BTreeMap,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result, ensure};

use crate::{
    play::Cast,
    scenario::{Kind, Scenario},
};

/// How the name of a driver ends that takes every request for one with `via: sync`.
pub const BLOCKING: &str = "-sync";

/// The drivers there are: their languages and their `run`.
#[derive(Clone, Debug, Default)]
pub struct Drivers {
    /// Those that play every scenario alone, and in the mix.
    pub alone: BTreeMap<String, PathBuf>,
    /// Those that play in the mix only: the blocking forms, `<language>-sync`.
    pub mixed: BTreeMap<String, PathBuf>,
}

/// One way to play a scenario.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Casting {
    /// With this cast, under this label.
    Play(String, Cast),
    /// Not at all, and why.
    Skip(String),
}

/// Finds every `<folder>/<language>/run`, which there must be, and every `run-sync` beside it.
pub fn discover(folder: &Path) -> Result<Drivers> {
    let is_executable = |path: &Path| path.metadata().is_ok_and(|data| data.permissions().mode() & 0o111 != 0);
    let mut drivers = Drivers::default();
    for entry in std::fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))? {
        let entry = entry?;
        let (run, blocking) = (entry.path().join("run"), entry.path().join("run-sync"));
        let language = entry.file_name().to_string_lossy().into_owned();
        // One that is missing would be missed by nobody.
        ensure!(is_executable(&run), "there is no executable {}", run.display());
        if is_executable(&blocking) {
            drivers.mixed.insert(format!("{language}{BLOCKING}"), blocking);
        }
        drivers.alone.insert(language, run);
    }
    ensure!(!drivers.alone.is_empty(), "there is no driver in {}; name one with --driver", folder.display());
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
    let may = |languages: &Vec<String>, driver: &String| {
        let language = driver.strip_suffix(BLOCKING).unwrap_or(driver);
        languages.is_empty() || languages.iter().any(|one| one == language)
    };
    if let Some((name, languages)) =
        parts.iter().find(|(_, languages)| !drivers.alone.keys().any(|language| may(languages, language)))
    {
        return vec![Casting::Skip(format!("no driver for {name} ({})", languages.join(" or ")))];
    }
    let part = |name: &String, language: &String| {
        let run = drivers.alone.get(language).or_else(|| drivers.mixed.get(language));
        run.map(|run| (name.clone(), (language.clone(), run.clone())))
    };
    let mut castings = Vec::new();
    for language in drivers.alone.keys() {
        if parts.iter().all(|(_, languages)| may(languages, language)) {
            let cast = parts.iter().filter_map(|(name, _)| part(name, language)).collect();
            castings.push(Casting::Play(language.clone(), cast));
        }
    }
    let mut mixed = Cast::new();
    for (index, (name, languages)) in parts.iter().enumerate() {
        let all = drivers.alone.keys().chain(drivers.mixed.keys());
        let choices: Vec<_> = all.filter(|language| may(languages, language)).collect();
        mixed.extend(part(name, choices[(index + turn) % choices.len()]));
    }
    let known = |casting: &Casting| matches!(casting, Casting::Play(_, cast) if *cast == mixed);
    if !castings.iter().any(known) {
        // A blocking form that is the only part of a scenario plays it alone.
        let label = match parts.as_slice() {
            [(name, _)] => mixed.get(*name).map_or_else(String::new, |(language, _)| language.clone()),
            _ => "mixed".to_owned(),
        };
        castings.push(Casting::Play(label, mixed));
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
        let named = |language: &&str| ((*language).to_owned(), PathBuf::from(language));
        let (mixed, alone) = languages.iter().map(named).partition(|(language, _)| language.ends_with(BLOCKING));
        Drivers { alone, mixed }
    }

    fn labels(actors: &str, languages: &[&str]) -> Vec<String> {
        labels_at(actors, languages, 0)
    }

    fn labels_at(actors: &str, languages: &[&str], turn: usize) -> Vec<String> {
        let scenario = Scenario::parse(&format!("about: x\nactors: {actors}\nsteps: []")).unwrap();
        shown(&scenario, languages, turn, true)
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
    fn blocking_forms_play_in_the_mix_only() {
        let languages = ["c", "rust", "c-sync"];
        assert_eq!(
            labels_at("{a: any, b: any}", &languages, 1),
            ["c: a=c b=c", "rust: a=rust b=rust", "mixed: a=rust b=c-sync"]
        );
        assert_eq!(labels_at("{a: [c]}", &languages, 0), ["c: a=c"]);
        assert_eq!(labels_at("{a: [c]}", &languages, 1), ["c: a=c", "c-sync: a=c-sync"]);
        assert_eq!(labels_at("{a: [rust]}", &languages, 1), ["rust: a=rust"]);
    }

    #[test]
    fn a_driver_that_is_missing_is_missed() {
        let folder = std::env::temp_dir().join(format!("leasehold-drivers-{}", std::process::id()));
        std::fs::create_dir_all(folder.join("c")).unwrap();
        let found = discover(&folder).map(|_| ());
        std::fs::remove_dir_all(&folder).unwrap();
        assert!(found.unwrap_err().to_string().contains("there is no executable"));
    }

    #[test]
    fn parts_of_one_language() {
        assert_eq!(labels("{a: rust, b: any}", &["c", "rust"]), ["rust: a=rust b=rust"]);
        assert_eq!(labels("{a: any, b: c}", &["rust"]), ["skip: no driver for b (c)"]);
        assert_eq!(labels("{a: [c, rust], b: rust}", &["c", "rust"]), ["rust: a=rust b=rust", "mixed: a=c b=rust"]);
    }
}
