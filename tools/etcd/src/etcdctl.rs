//! `etcdctl` of the server's own release, set up for a cluster.

use std::{
    ffi::OsStr,
    io,
    process::{Command, Stdio},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncReadExt},
    time::timeout,
};

use crate::{Cluster, Error, Tls, background, error::Doing};

/// Its own default, 5 s, is too little for a busy machine.
const REQUEST_LIMIT: &str = "--command-timeout=30s";
/// Some commands of it have no limit.
const LIMIT: Duration = Duration::from_secs(60);
/// How it says that nobody answered.
const NO_ANSWER: [&str; 2] = ["deadline exceeded", "timed out"];

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

    /// Runs `etcdctl` to its end and answers what it printed. It has 30 s for its request, unless told otherwise with
    /// `--command-timeout`.
    ///
    /// # Errors
    /// [`Error::Command`] with what it wrote to stderr when it fails, [`Error::Timeout`] with that and with the logs of the
    /// members when it got no answer in time; [`Error::Missing`] where there is none.
    pub async fn ctl(&self, arguments: &[&str]) -> Result<String, Error> {
        self.run_etcdctl(self.root().as_deref(), arguments).await
    }

    pub(crate) async fn run_etcdctl(&self, user: Option<&str>, arguments: &[&str]) -> Result<String, Error> {
        // The last one of an option counts.
        let mut command = self.etcdctl_as(user, &self.endpoints(), [REQUEST_LIMIT].iter().chain(arguments))?;
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let shown = format!("etcdctl {}", arguments.join(" "));
        let ran = background::run(async move {
            background::tie(&mut command);
            let doing = || format!("could not run {shown}");
            let mut child = tokio::process::Command::from(command).kill_on_drop(true).spawn().doing(doing)?;
            let (mut printed, mut said) = (Vec::new(), Vec::new());
            let run = async {
                let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
                tokio::try_join!(read(stdout, &mut printed), read(stderr, &mut said), child.wait())
            };
            let ended = match timeout(LIMIT, run).await {
                Ok(result) => Some(result.doing(doing)?.2),
                Err(_) => None,
            };
            let said = String::from_utf8_lossy(&said).trim_end().to_owned();
            match ended {
                Some(status) if status.success() => Ok(Ok(String::from_utf8_lossy(&printed).into_owned())),
                Some(status) => {
                    Ok(Err((format!("{shown}: {status}: {said}"), NO_ANSWER.iter().any(|it| said.contains(it)))))
                }
                None => Ok(Err((format!("{shown}: not in {} s; it said: {said}", LIMIT.as_secs()), true))),
            }
        });
        ran.await?.map_err(|(text, is_late)| match is_late {
            true => Error::Timeout(format!("{text}\n{}", self.logs())),
            false => Error::Command(text),
        })
    }
}

async fn read(from: Option<impl AsyncRead + Unpin>, to: &mut Vec<u8>) -> io::Result<()> {
    match from {
        Some(mut from) => from.read_to_end(to).await.map(drop),
        None => Ok(()),
    }
}
