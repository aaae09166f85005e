//! `etcdctl` of the server's own release, set up for a cluster.

use std::{
    ffi::OsStr,
    process::{Command, Stdio},
};

use crate::{Cluster, Error, Tls, background, error::Doing};

impl Cluster {
    /// An `etcdctl` that knows this cluster's endpoints, its certificates and, where users are on, the root user.
    ///
    /// It is not started yet; `tokio::process::Command::from` turns it into an asynchronous one. For another user or other
    /// endpoints there is [`Cluster::etcdctl_as`]: the same option twice would not do.
    ///
    /// # Errors
    /// [`Error::Missing`] where there is no `etcdctl` beside the server.
    pub fn etcdctl<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Result<Command, Error> {
        self.etcdctl_as(self.root().as_deref(), &self.endpoints(), arguments)
    }

    /// The same for another user (`name:password`, or none) and for chosen endpoints.
    ///
    /// # Errors
    /// [`Error::Missing`] where there is no `etcdctl` beside the server.
    pub fn etcdctl_as<S: AsRef<OsStr>>(
        &self,
        user: Option<&str>,
        endpoints: &[String],
        arguments: impl IntoIterator<Item = S>,
    ) -> Result<Command, Error> {
        let mut command = Command::new(self.server().etcdctl()?);
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("ETCDCTL_")) {
            command.env_remove(name);
        }
        command.arg("--endpoints").arg(endpoints.join(","));
        if let Some(files) = self.certificates() {
            command.arg("--cacert").arg(&files.ca_file);
            if self.tls() == Tls::Mutual {
                command.arg("--cert").arg(&files.cert_file).arg("--key").arg(&files.key_file);
            }
        }
        if let Some(user) = user {
            command.arg("--user").arg(user);
        }
        command.args(arguments);
        Ok(command)
    }

    /// Runs `etcdctl` to its end and answers what it printed.
    ///
    /// # Errors
    /// [`Error::Command`] with what it wrote to stderr when it fails; [`Error::Missing`] where there is none.
    pub async fn ctl(&self, arguments: &[&str]) -> Result<String, Error> {
        self.run_etcdctl(self.root().as_deref(), arguments).await
    }

    pub(crate) async fn run_etcdctl(&self, user: Option<&str>, arguments: &[&str]) -> Result<String, Error> {
        let mut command = self.etcdctl_as(user, &self.endpoints(), arguments)?;
        command.stdin(Stdio::null());
        let shown = format!("etcdctl {}", arguments.join(" "));
        background::run(async move {
            background::tie(&mut command);
            let run = tokio::process::Command::from(command).kill_on_drop(true).output().await;
            let output = run.doing(|| format!("could not run {shown}"))?;
            if output.status.success() {
                Ok(String::from_utf8_lossy(&output.stdout).into_owned())
            } else {
                let text = String::from_utf8_lossy(&output.stderr).into_owned();
                Err(Error::Command(format!("{shown}: {}: {}", output.status, text.trim_end())))
            }
        })
        .await
    }
}
