//! The languages in the demo: one row each.

use std::path::{Path, PathBuf};

use anyhow::Context;
use tokio::process::Command;

/// A language with a contender.
#[derive(Debug)]
pub(crate) struct Language {
    /// As it is shown, in lower case and short.
    pub(crate) name: &'static str,
    /// Program and arguments of its contender, started in the root of the repository. `{bin}` is where cargo puts programs.
    command: &'static [&'static str],
    /// What its build leaves, as a path like those of the command; without that it is left out. Nothing where cargo builds it
    /// with the demo.
    built: Option<&'static str>,
}

/// Contenders are taken from here in turn.
const LANGUAGES: &[Language] = &[
    Language { name: "rust", command: &["{bin}/leasehold-demo-contender"], built: None },
    Language {
        name: "node",
        command: &["node", "tests/demo/contenders/node.mjs"],
        built: Some("bindings-node/dist/index.mjs"),
    },
    Language { name: "c", command: &["{bin}/../c/debug/contender"], built: Some("{bin}/../c/debug/contender") },
    Language {
        name: "python",
        command: &["tests/demo/contenders/python/run"],
        built: Some("bindings-python/python/leasehold/_native.abi3.so"),
    },
    Language {
        name: "java",
        command: &["java", "-XX:TieredStopAtLevel=1", "-jar", "tests/demo/contenders/java/target/program.jar"],
        built: Some("tests/demo/contenders/java/target/program.jar"),
    },
];

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// The languages of these names; without any, all that are built. And those that are left out.
pub(crate) fn choose(names: &[String]) -> anyhow::Result<(Vec<&'static Language>, Vec<&'static str>)> {
    if names.is_empty() {
        let (mut there, mut missing) = (Vec::new(), Vec::new());
        for language in LANGUAGES {
            if language.is_built()? {
                there.push(language);
            } else {
                missing.push(language.name);
            }
        }
        return Ok((there, missing));
    }
    let find = |name: &String| {
        let known: Vec<_> = LANGUAGES.iter().map(|language| language.name).collect();
        LANGUAGES
            .iter()
            .find(|language| language.name == name)
            .with_context(|| format!("there is no contender in {name}; known are {}", known.join(", ")))
    };
    Ok((names.iter().map(find).collect::<Result<_, _>>()?, Vec::new()))
}

impl Language {
    fn is_built(&self) -> anyhow::Result<bool> {
        Ok(match self.built {
            Some(file) => Path::new(ROOT).join(locate(file)?).exists(),
            None => true,
        })
    }

    /// Starts nothing yet.
    pub(crate) fn command(&self) -> anyhow::Result<Command> {
        let mut words = self.command.iter().map(|word| locate(word));
        let mut command = Command::new(words.next().with_context(|| format!("{} has no command", self.name))??);
        for word in words {
            command.arg(word?);
        }
        command.current_dir(ROOT);
        Ok(command)
    }
}

/// A word of a row, with `{bin}` filled in.
fn locate(word: &str) -> anyhow::Result<PathBuf> {
    let Some(program) = word.strip_prefix("{bin}/") else { return Ok(word.into()) };
    let this = std::env::current_exe().context("where is this program?")?;
    Ok(this.parent().unwrap_or(Path::new(".")).join(program))
}
