//! The languages in the demo: one row each.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use anyhow::{Context, bail};
use leasehold_demo::protocol::Setup;
use tokio::{io::AsyncWriteExt, process::Command, time::timeout};

/// How long a contender may take to show that it runs here.
const TRIAL: Duration = Duration::from_secs(30);

/// A language with a contender.
#[derive(Debug)]
pub(crate) struct Language {
    /// As it is shown, in lower case and short.
    pub(crate) name: &'static str,
    /// Program and arguments of its contender, started in the root of the repository. `{bin}` is where cargo puts programs.
    command: &'static [&'static str],
    /// What its build leaves, as paths like those of the command; without these it is left out. Nothing where cargo builds
    /// it with the demo.
    built: &'static [&'static str],
}

/// Contenders are taken from here in turn.
const LANGUAGES: &[Language] = &[
    Language { name: "rust", command: &["{bin}/leasehold-demo-contender"], built: &[] },
    Language {
        name: "node",
        command: &["node", "tests/demo/contenders/node.mjs"],
        built: &["bindings-node/dist/index.mjs"],
    },
    Language { name: "c", command: &["{bin}/../c/debug/contender"], built: &["{bin}/../c/debug/contender"] },
    Language {
        name: "python",
        command: &["tests/demo/contenders/python/run"],
        built: &["bindings-python/python/leasehold/_native.abi3.so"],
    },
    Language {
        name: "java",
        command: &[
            "java",
            // The one that cargo builds for all languages, instead of the one in the jar, which takes minutes to optimise.
            "-Dleasehold.native.path={bin}/libleasehold_java.so",
            "-XX:TieredStopAtLevel=1",
            "-jar",
            "tests/demo/contenders/java/target/program.jar",
        ],
        built: &["tests/demo/contenders/java/target/program.jar", "{bin}/libleasehold_java.so"],
    },
];

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// The languages of these names.
pub(crate) fn named(names: &[String]) -> anyhow::Result<Vec<&'static Language>> {
    let find = |name: &String| {
        let known: Vec<_> = LANGUAGES.iter().map(|language| language.name).collect();
        LANGUAGES
            .iter()
            .find(|language| language.name == name)
            .with_context(|| format!("there is no contender in {name}; known are {}", known.join(", ")))
    };
    names.iter().map(find).collect()
}

/// All languages that are built, and the names of those that are not.
pub(crate) fn built() -> anyhow::Result<(Vec<&'static Language>, Vec<&'static str>)> {
    let (mut there, mut missing) = (Vec::new(), Vec::new());
    for language in LANGUAGES {
        if language.is_built()? {
            there.push(language);
        } else {
            missing.push(language.name);
        }
    }
    Ok((there, missing))
}

impl Language {
    fn is_built(&self) -> anyhow::Result<bool> {
        for file in self.built {
            if !Path::new(ROOT).join(locate(file)?).exists() {
                return Ok(false);
            }
        }
        Ok(true)
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

    /// Lets a contender have the lock once, which shows that its language runs here: what was built may be of another
    /// machine, and what runs it too old.
    ///
    /// # Errors
    /// With what it said last, if it did not run to its end.
    pub(crate) async fn try_out(&self, setup: &Setup) -> anyhow::Result<()> {
        let mut command = self.command()?;
        command.envs(setup.environment()).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        leasehold_etcd::tie(command.as_std_mut());
        let mut child = command.kill_on_drop(true).spawn().context("it does not start")?;
        let mut stdin = child.stdin.take().context("stdin is no pipe")?;
        // One that has ended already says why, below.
        let _ = stdin.write_all(b"acquire\nrelease\n").await;
        drop(stdin);
        let output = timeout(TRIAL, child.wait_with_output()).await;
        let output = output.with_context(|| format!("it did not end within {TRIAL:?}"))??;
        if !output.status.success() {
            let said = [output.stderr, output.stdout].concat();
            let said = String::from_utf8_lossy(&said);
            let last = said.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("nothing");
            bail!("{}, and it said: {}", output.status, last.trim());
        }
        Ok(())
    }
}

/// A word of a row, with `{bin}` filled in.
fn locate(word: &str) -> anyhow::Result<PathBuf> {
    let Some((before, after)) = word.split_once("{bin}") else { return Ok(word.into()) };
    let this = std::env::current_exe().context("where is this program?")?;
    let mut path = OsString::from(before);
    path.push(this.parent().unwrap_or(Path::new(".")));
    path.push(after);
    Ok(path.into())
}
