//! Backups, and a cluster that goes back in time: what an operator does with `etcdctl snapshot save` and `etcdutl snapshot restore`.

use std::{
    ffi::{OsStr, OsString},
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use crate::{Cluster, Error, background, error::Doing, go_build};

/// A backup of a cluster; it goes with the cluster.
#[derive(Clone, Debug)]
pub struct Backup {
    file: PathBuf,
}

/// What a cluster is set back to.
#[derive(Clone, Copy, Debug)]
pub enum Past<'a> {
    /// This backup. Revisions go on from where they were when it was made, and are given out a second time.
    Backup(&'a Backup),
    /// This backup with all revisions moved up by so many (`--bump-revision --mark-compacted`), so that none is given out twice.
    Bumped(&'a Backup, u64),
    /// Nothing: new and empty, as after the loss of all data.
    Nothing,
}

impl Cluster {
    /// Makes a backup of what the first member has.
    ///
    /// # Errors
    /// [`Error::Missing`] where there is no `etcdctl`, [`Error::Command`] when it fails.
    pub async fn backup(&self) -> Result<Backup, Error> {
        let data = self.data();
        let number = (1..).find(|number| !backup_file(data, *number).exists()).unwrap_or_default();
        let file = backup_file(data, number);
        let mut command = self.etcdctl_as(self.root().as_deref(), &[self.endpoint(0)], ["snapshot", "save"])?;
        command.arg(&file);
        run(command).await?;
        Ok(Backup { file })
    }

    /// Kills all members, puts `past` in place of their data and leaves them down, to be started with [`Cluster::restart`].
    /// Addresses, names and the cluster's token stay as they were, so that no client is told of anything.
    ///
    /// # Errors
    /// [`Error::Missing`] where there is no `etcdutl` for this release, [`Error::Command`] when it fails.
    pub async fn set_back(&self, past: Past<'_>) -> Result<(), Error> {
        let release = self.release();
        let etcdutl = match past {
            Past::Nothing => None,
            _ => Some(background::run(go_build::etcdutl(release)).await?),
        };
        for member in self.members() {
            member.kill()?;
        }
        for member in self.members() {
            let argument = |name: &str| member.argument(name).map(OsStr::to_owned).unwrap_or_default();
            let home = PathBuf::from(argument("--data-dir"));
            let doing = || format!("could not remove {}", home.display());
            match fs::remove_dir_all(&home) {
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                result => result.doing(doing)?,
            }
            let (Past::Backup(backup) | Past::Bumped(backup, _), Some(etcdutl)) = (past, &etcdutl) else { continue };
            let mut command = Command::new(etcdutl);
            command.args(["snapshot", "restore"]).arg(&backup.file);
            let cluster = ["--initial-cluster", "--initial-cluster-token", "--initial-advertise-peer-urls"];
            for name in ["--data-dir", "--name"].into_iter().chain(cluster) {
                command.arg(name).arg(argument(name));
            }
            if let Past::Bumped(_, by) = past {
                command.args([OsString::from("--bump-revision"), by.to_string().into(), "--mark-compacted".into()]);
            }
            run(command).await?;
        }
        Ok(())
    }

    /// [`Cluster::set_back`], and starts all members. Returns when they serve requests.
    ///
    /// # Errors
    /// As there, and as [`Cluster::restart`].
    pub async fn restore(&self, past: Past<'_>) -> Result<(), Error> {
        self.set_back(past).await?;
        for member in 0..self.size() {
            self.restart(member).await?;
        }
        Ok(())
    }
}

fn backup_file(data: &Path, number: u32) -> PathBuf {
    data.join(format!("backup-{number}.db"))
}

/// Runs a command to its end.
async fn run(mut command: Command) -> Result<(), Error> {
    let shown = command.get_program().display().to_string();
    command.stdin(Stdio::null());
    background::run(async move {
        background::tie(&mut command);
        let run = tokio::process::Command::from(command).kill_on_drop(true).output().await;
        let output = run.doing(|| format!("could not run {shown}"))?;
        if output.status.success() {
            return Ok(());
        }
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        Err(Error::Command(format!("{shown}: {}: {}", output.status, text.trim_end())))
    })
    .await
}
