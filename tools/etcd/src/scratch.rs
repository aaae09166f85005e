//! Temporary data: made for one cluster, removed with it, or by a later start where this process could not.

use std::{
    fs,
    path::{Path, PathBuf},
    process,
};

use rustix::{
    io::Errno,
    process::{Pid, test_kill_process},
};
use tempfile::TempDir;

use crate::{Error, Storage, error::Doing};

const PREFIX: &str = "leasehold-etcd-";
const SHARED_MEMORY: &str = "/dev/shm";

/// A new directory for one cluster; removed on drop.
pub(crate) fn directory(storage: Storage) -> Result<TempDir, Error> {
    for root in roots() {
        sweep(&root);
    }
    let root = root(storage);
    let directory = tempfile::Builder::new().prefix(&format!("{PREFIX}{}-", process::id())).tempdir_in(&root);
    directory.doing(|| format!("could not make a data directory in {}", root.display()))
}

fn root(storage: Storage) -> PathBuf {
    match storage {
        Storage::Memory if Path::new(SHARED_MEMORY).is_dir() => SHARED_MEMORY.into(),
        Storage::Memory | Storage::Disk => std::env::temp_dir(),
    }
}

fn roots() -> [PathBuf; 2] {
    [root(Storage::Memory), root(Storage::Disk)]
}

/// Removes what processes left that died without a drop. Best effort: what another user owns stays.
fn sweep(root: &Path) {
    for entry in fs::read_dir(root).into_iter().flatten().flatten() {
        if owner(&entry.file_name().to_string_lossy()).is_some_and(is_dead) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// The process that a directory's name speaks of.
fn owner(name: &str) -> Option<Pid> {
    let (pid, _) = name.strip_prefix(PREFIX)?.split_once('-')?;
    Pid::from_raw(pid.parse().ok()?)
}

fn is_dead(pid: Pid) -> bool {
    test_kill_process(pid) == Err(Errno::SRCH)
}
