//! Where a server comes from: the user's own choice, the cache, `PATH`, or a build from the Go modules.

use std::{
    env, fmt,
    path::{Path, PathBuf},
    process::Command,
};

use crate::{
    Error, Release, Version, background,
    error::Doing,
    go_build::{self, Recipe},
};

/// The variable that names an etcd binary to use before any other.
const CHOSEN: &str = "LEASEHOLD_ETCD";
const PATH: &str = "PATH";

/// An etcd server on this machine, and the `etcdctl` that stands beside it.
#[derive(Clone, Debug)]
pub struct Server {
    pub(crate) etcd: PathBuf,
    pub(crate) etcdctl: Option<PathBuf>,
    pub(crate) release: Release,
    pub(crate) origin: &'static str,
}

impl Server {
    /// The server's binary.
    pub fn etcd(&self) -> &Path {
        &self.etcd
    }

    /// The command-line client of the same origin.
    ///
    /// # Errors
    /// [`Error::Missing`] where there is none beside the server.
    pub fn etcdctl(&self) -> Result<&Path, Error> {
        self.etcdctl.as_deref().ok_or_else(|| {
            let etcd = self.etcd.display();
            Error::Missing(format!(
                "there is no etcdctl beside {etcd}; with Debian's package: apt-get install etcd-client"
            ))
        })
    }

    /// The exact release.
    pub fn release(&self) -> Release {
        self.release
    }

    /// A server at `etcd`, asked for its release.
    fn at(etcd: PathBuf, origin: &'static str) -> Result<Self, Error> {
        let answer = Command::new(&etcd).arg("--version").output();
        let answer = answer.doing(|| format!("could not run {} --version", etcd.display()))?;
        let text = String::from_utf8_lossy(&answer.stdout);
        let release = text.lines().find_map(|line| Release::parse(line.strip_prefix("etcd Version:")?));
        let release = release.ok_or_else(|| {
            Error::Usage(format!("{} is not an etcd server: --version named no version", etcd.display()))
        })?;
        let etcdctl = etcd.parent().map(|directory| directory.join("etcdctl")).filter(|path| path.is_file());
        Ok(Self { etcd, etcdctl, release, origin })
    }
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "etcd {} from {} ({})", self.release, self.origin, self.etcd.display())
    }
}

/// A server of `version` that is on this machine already; nothing is built.
///
/// [`Version::Any`] takes `$LEASEHOLD_ETCD`, else the newest in the cache, else `etcd` on `PATH`. A series takes the
/// first of these that belongs to it.
///
/// # Errors
/// [`Error::Usage`] when `$LEASEHOLD_ETCD` names no etcd server.
pub fn find(version: Version) -> Result<Option<Server>, Error> {
    if let Some(server) = chosen(version)? {
        return Ok(Some(server));
    }
    Ok(Recipe::newest_first(version).find_map(Recipe::built).or_else(|| on_path(version)))
}

/// A server of `version`, built from its Go module where it is not here yet (about a minute, once).
///
/// A series prefers the pinned release that we build over whatever stands on `PATH`: tests should mean the same
/// everywhere. Where it cannot be built, `PATH` will do.
///
/// # Errors
/// [`Error::Missing`] says how to get one; [`Error::Command`] holds the compiler's output; [`Error::Usage`] when
/// `$LEASEHOLD_ETCD` names no etcd server.
pub async fn ensure(version: Version) -> Result<Server, Error> {
    if let Some(server) = chosen(version)? {
        return Ok(server);
    }
    if let Some(server) = Recipe::newest_first(version).find_map(Recipe::built) {
        return Ok(server);
    }
    if version == Version::Any
        && let Some(server) = on_path(version)
    {
        return Ok(server);
    }
    let Some(recipe) = Recipe::newest_first(version).next() else {
        return on_path(version).ok_or_else(|| missing(version));
    };
    match background::run(go_build::build(recipe)).await {
        Err(Error::Missing(text)) => on_path(version).ok_or(Error::Missing(text)),
        result => result,
    }
}

/// Every series with its server, or why there is none: a test matrix runs the former and reports the latter.
pub async fn servers() -> Vec<(Version, Result<Server, Error>)> {
    let mut servers = Vec::new();
    for version in Version::ALL {
        servers.push((version, ensure(version).await));
    }
    servers
}

/// One sentence on where a server of `version` comes from, or would; nothing is built.
pub fn outlook(version: Version) -> String {
    let buildable = Recipe::newest_first(version).find_map(Recipe::release);
    match (find(version), buildable) {
        // A series is built rather than taken from PATH, where that is possible.
        (Ok(Some(server)), Some(release)) if server.origin == PATH && version != Version::Any && go_build::has_go() => {
            format!("etcd {release} will be built once with Go, rather than use {}", server.etcd.display())
        }
        (Ok(Some(server)), _) => server.to_string(),
        (Ok(None), Some(release)) if go_build::has_go() => format!("etcd {release} will be built once with Go"),
        (Ok(None), Some(_)) => "missing: install Go 1.26 or newer to build it, or set LEASEHOLD_ETCD".into(),
        (Ok(None), None) => missing(version).to_string(),
        (Err(error), _) => error.to_string(),
    }
}

/// The server that the user named, if it is of that version.
fn chosen(version: Version) -> Result<Option<Server>, Error> {
    match env::var_os(CHOSEN).filter(|value| !value.is_empty()) {
        None => Ok(None),
        Some(path) => {
            let server = Server::at(path.into(), "$LEASEHOLD_ETCD")
                .map_err(|error| Error::Usage(format!("${CHOSEN} must be the path of an etcd server: {error}")))?;
            Ok(Some(server).filter(|server| version.includes(server.release)))
        }
    }
}

/// The first `etcd` on `PATH` that is of that version.
fn on_path(version: Version) -> Option<Server> {
    let path = env::var_os(PATH).unwrap_or_default();
    env::split_paths(&path)
        .map(|directory| directory.join("etcd"))
        .filter(|candidate| candidate.is_file())
        .flat_map(|candidate| Server::at(candidate, PATH))
        .find(|server| version.includes(server.release))
}

/// The answer for a series that is not built from a Go module.
fn missing(version: Version) -> Error {
    Error::Missing(format!("etcd {version} is not here; on Debian: apt-get install etcd-server etcd-client"))
}
