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
}

/// Contenders are taken from here in turn.
pub(crate) const LANGUAGES: &[Language] = &[Language { name: "rust", command: &["{bin}/leasehold-demo-contender"] }];

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

impl Language {
    /// Starts nothing yet.
    pub(crate) fn command(&self) -> anyhow::Result<Command> {
        let this = std::env::current_exe().context("where is this program?")?;
        let bin = this.parent().unwrap_or(Path::new("."));
        let mut words = self.command.iter().map(|word| match word.strip_prefix("{bin}/") {
            Some(program) => bin.join(program),
            None => PathBuf::from(word),
        });
        let mut command = Command::new(words.next().with_context(|| format!("{} has no command", self.name))?);
        command.args(words).current_dir(ROOT);
        Ok(command)
    }
}
