//! Servers built once from etcd's own Go modules and kept in a cache.
//!
//! The Go files are part of this crate (`servers/`), so a built harness needs no source tree. To move to another
//! release, edit the two `require` lines of its go.mod and run `go mod tidy` there; everything else follows.

use std::{
    env,
    fs::{self, File},
    hash::{DefaultHasher, Hash, Hasher},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use rustix::{
    fs::{FlockOperation, flock},
    io::Errno,
};

use crate::{Error, Release, Server, Version, background, error::Doing, process::excerpt};

/// Longer than any build on a slow machine with a slow network.
const LIMIT: Duration = Duration::from_secs(20 * 60);

/// What one series, or a tool of it, is built from.
#[derive(Debug)]
pub(crate) struct Recipe {
    /// What the places in the cache are named after.
    what: &'static str,
    version: Version,
    /// Path and text of every file; go.mod first.
    files: &'static [(&'static str, &'static str)],
    /// The module of which go.mod names the release.
    module: &'static str,
    /// The packages to build, each a binary of its name.
    packages: &'static [&'static str],
}

macro_rules! recipe {
    ($version:expr, $directory:literal) => {
        Recipe {
            what: "etcd",
            version: $version,
            module: "go.etcd.io/etcd/server/v3",
            packages: &["etcd", "etcdctl"],
            files: &[
                ("go.mod", include_str!(concat!("../servers/", $directory, "/go.mod"))),
                ("go.sum", include_str!(concat!("../servers/", $directory, "/go.sum"))),
                ("etcd/main.go", include_str!(concat!("../servers/", $directory, "/etcd/main.go"))),
                ("etcdctl/main.go", include_str!(concat!("../servers/", $directory, "/etcdctl/main.go"))),
            ],
        }
    };
}

/// The tool for backups is a module of its own: few tests need it.
macro_rules! etcdutl {
    ($version:expr, $directory:literal) => {
        Recipe {
            what: "etcdutl",
            version: $version,
            module: "go.etcd.io/etcd/etcdutl/v3",
            packages: &["etcdutl"],
            files: &[
                ("go.mod", include_str!(concat!("../servers/", $directory, "/etcdutl/go.mod"))),
                ("go.sum", include_str!(concat!("../servers/", $directory, "/etcdutl/go.sum"))),
                ("etcdutl/main.go", include_str!(concat!("../servers/", $directory, "/etcdutl/main.go"))),
            ],
        }
    };
}

static RECIPES: [Recipe; 3] =
    [recipe!(Version::V3_7, "3.7"), recipe!(Version::V3_6, "3.6"), recipe!(Version::V3_5, "3.5")];

static ETCDUTL: [Recipe; 3] =
    [etcdutl!(Version::V3_7, "3.7"), etcdutl!(Version::V3_6, "3.6"), etcdutl!(Version::V3_5, "3.5")];

impl Recipe {
    /// The recipes that give a server of `version`.
    pub(crate) fn newest_first(version: Version) -> impl Iterator<Item = &'static Self> {
        RECIPES.iter().filter(move |recipe| version == Version::Any || version == recipe.version)
    }

    /// The release that go.mod asks for: it is written there and nowhere else.
    pub(crate) fn release(&self) -> Option<Release> {
        let (_, go_mod) = self.files[0];
        go_mod.lines().find_map(|line| {
            let line = line.trim();
            Release::parse(line.strip_prefix("require ").unwrap_or(line).strip_prefix(self.module)?)
        })
    }

    /// The server, if it has been built from exactly these files.
    pub(crate) fn built(&self) -> Option<Server> {
        let home = self.binaries()?;
        Some(Server {
            etcd: home.join("etcd"),
            etcdctl: Some(home.join("etcdctl")),
            release: self.release()?,
            origin: "the cache",
        })
    }

    /// Where its binaries are, if they have been built from exactly these files.
    fn binaries(&self) -> Option<PathBuf> {
        let home = self.home().ok()?;
        self.packages.iter().all(|package| home.join(package).is_file()).then_some(home)
    }

    /// Where its binaries stand. A change of any file is another place, so it is built anew.
    fn home(&self) -> Result<PathBuf, Error> {
        let mut hasher = DefaultHasher::new();
        self.files.hash(&mut hasher);
        Ok(cache()?.join(format!("{}-{}-{:016x}", self.what, self.version, hasher.finish())))
    }
}

/// `$LEASEHOLD_CACHE`, or `leasehold` in the user's cache directory.
fn cache() -> Result<PathBuf, Error> {
    let set = |name| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let cache = set("LEASEHOLD_CACHE")
        .or_else(|| Some(set("XDG_CACHE_HOME")?.join("leasehold")))
        .or_else(|| Some(set("HOME")?.join(".cache/leasehold")));
    cache.ok_or_else(|| {
        Error::Missing("there is no place to keep a built etcd: set LEASEHOLD_CACHE to a directory".into())
    })
}

/// Whether there is a Go compiler, of whatever version.
pub(crate) fn has_go() -> bool {
    Command::new("go")
        .arg("version")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// Builds the server of `recipe`, unless another process has done so meanwhile.
pub(crate) async fn build(recipe: &'static Recipe) -> Result<Server, Error> {
    make(recipe).await?;
    let gone = || Error::Command(format!("the built etcd {} is not there any more", recipe.version));
    recipe.built().ok_or_else(gone)
}

/// The `etcdutl` for the data of `release`, built where it is not here yet (some seconds, once).
pub(crate) async fn etcdutl(release: Release) -> Result<PathBuf, Error> {
    let recipe = ETCDUTL.iter().find(|recipe| recipe.version.includes(release)).ok_or_else(|| {
        Error::Missing(format!("there is no etcdutl for etcd {release}; backups are restored with 3.5, 3.6 and 3.7"))
    })?;
    Ok(make(recipe).await?.join("etcdutl"))
}

/// Where the binaries of `recipe` are, built first if need be.
async fn make(recipe: &'static Recipe) -> Result<PathBuf, Error> {
    if let Some(home) = recipe.binaries() {
        return Ok(home);
    }
    let cache = cache()?;
    fs::create_dir_all(&cache).doing(|| format!("could not make the cache directory {}", cache.display()))?;
    let _lock = lock(&cache.join(format!("{}-{}.lock", recipe.what, recipe.version))).await?;
    if let Some(home) = recipe.binaries() {
        return Ok(home);
    }
    let name = format!("{} {}", recipe.what, recipe.release().map(|release| release.to_string()).unwrap_or_default());
    eprintln!("building {name} once, about a minute …");
    // One fixed name: under the lock it can only be what a killed build left.
    let work = cache.join(format!("{}-{}.building", recipe.what, recipe.version));
    let made = compile(recipe, &name, &work).await;
    let _ = fs::remove_dir_all(&work);
    made?;
    recipe
        .binaries()
        .ok_or_else(|| Error::Command(format!("the build of {name} succeeded, but its binaries are not there")))
}

async fn compile(recipe: &Recipe, name: &str, work: &Path) -> Result<(), Error> {
    let _ = fs::remove_dir_all(work);
    for (path, text) in recipe.files {
        let path = work.join(path);
        let write = || -> std::io::Result<()> {
            fs::create_dir_all(path.parent().unwrap_or(work))?;
            fs::write(&path, text)
        };
        write().doing(|| format!("could not write {}", path.display()))?;
    }
    let log = work.join("log");
    let output = File::create(&log).doing(|| format!("could not write {}", log.display()))?;
    let errors = output.try_clone().doing(|| format!("could not write {}", log.display()))?;
    let mut go = Command::new("go");
    // No version control: the cache may lie in a repository that git does not trust.
    go.args(["build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", "bin/"]);
    go.args(recipe.packages.iter().map(|package| format!("./{package}")));
    // No second Go toolchain behind the user's back, no C compiler needed, and no workspace of a directory above.
    go.env("GOTOOLCHAIN", "local").env("CGO_ENABLED", "0").env("GOWORK", "off");
    // It keeps modules and results there. Without a home the cache will do.
    if env::var_os("HOME").is_none_or(|home| home.is_empty()) {
        go.env("HOME", work.parent().unwrap_or(work).join("go"));
    }
    go.current_dir(work).stdin(Stdio::null()).stdout(output).stderr(errors);
    background::tie(&mut go);
    let missing = |what: &str| {
        Error::Missing(format!(
            "{name} has to be built, but {what}; install Go 1.26 or newer, or set LEASEHOLD_ETCD to the path of an etcd"
        ))
    };
    let mut go = match tokio::process::Command::from(go).kill_on_drop(true).spawn() {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Err(missing("there is no Go compiler")),
        child => child.doing(|| "could not run go build".into())?,
    };
    let status = match tokio::time::timeout(LIMIT, go.wait()).await {
        Err(_) => return Err(Error::Timeout(format!("the build of {name} took longer than {} s", LIMIT.as_secs()))),
        Ok(status) => status.doing(|| "could not wait for go build".into())?,
    };
    if !status.success() {
        let text = excerpt(&log);
        return Err(match text.contains("requires go >=") {
            true => missing("the Go compiler here is too old"),
            false => Error::Command(format!("the build of {name} failed:\n{text}")),
        });
    }
    let (home, bin) = (recipe.home()?, work.join("bin"));
    // On disk before they have their name: a machine that crashes must not leave empty files there for good.
    for entry in fs::read_dir(&bin).doing(|| format!("could not read {}", bin.display()))?.flatten() {
        let synced = File::open(entry.path()).and_then(|file| file.sync_all());
        synced.doing(|| format!("could not write {}", entry.path().display()))?;
    }
    // Something is missing in it, or it would not have been built.
    let _ = fs::remove_dir_all(&home);
    fs::rename(bin, &home).doing(|| format!("could not move the built etcd to {}", home.display()))
}

/// Waits for the exclusive lock on `path`; it ends with the file, also when the process dies.
async fn lock(path: &Path) -> Result<File, Error> {
    let file = File::create(path).doing(|| format!("could not make {}", path.display()))?;
    let mut told = false;
    loop {
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(file),
            Err(Errno::WOULDBLOCK) => {}
            Err(error) => return Err(error).doing(|| format!("could not lock {}", path.display())),
        }
        if !std::mem::replace(&mut told, true) {
            eprintln!("another process is building the same etcd; waiting for it …");
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_recipe_names_a_release_of_its_series_and_one_client() {
        for recipe in &RECIPES {
            let release = recipe.release().expect("go.mod requires the server");
            assert!(recipe.version.includes(release), "{release} is not of series {}", recipe.version);
            let client = format!("go.etcd.io/etcd/etcdctl/v3 v{release}");
            assert!(recipe.files[0].1.contains(&client), "server and client of {} differ", recipe.version);
            let tool = ETCDUTL.iter().find(|tool| tool.version == recipe.version).expect("each series has an etcdutl");
            assert_eq!(tool.release(), Some(release), "server and etcdutl of {} differ", recipe.version);
        }
    }
}
