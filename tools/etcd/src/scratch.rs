//! Temporary data: made for one cluster, removed with it, or by a later start where this process could not.
//!
//! Whose data are in use is told by a lock on their directory, which ends with the process that made it: process ids are used
//! again, and mean something else in another container that shares `/dev/shm` or the directory for temporary files.

use std::{
    fs::{self, File},
    io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use rustix::fs::{FlockOperation, flock, statvfs};
use tempfile::TempDir;

use crate::{Error, Storage, error::Doing};

/// Of the harness alone: what has this name and is not locked is removed.
const PREFIX: &str = "leasehold-cluster-";
const SHARED_MEMORY: &str = "/dev/shm";
/// What a member's log of writes takes at once.
const LOG_BYTES: u64 = 64 << 20;
/// As much again for the next one, and what is stored; Docker gives `/dev/shm` 64 MB in all.
const MEMBER_BYTES: u64 = 4 * LOG_BYTES;
/// How often another directory is made when a sweep took a new one for a leftover.
const TRIES: usize = 100;

/// A directory of one cluster; removed on drop.
#[derive(Debug)]
pub(crate) struct Scratch {
    directory: TempDir,
    /// Last: who gets the lock may remove the directory.
    _lock: File,
}

impl Scratch {
    /// A new directory for so many members.
    pub(crate) fn new(storage: Storage, members: usize) -> Result<Self, Error> {
        let memory = Path::new(SHARED_MEMORY);
        sweep(memory);
        sweep(&std::env::temp_dir());
        let root = root(storage, members, memory);
        let doing = || format!("could not make a data directory in {}", root.display());
        for _ in 0..TRIES {
            let directory = tempfile::Builder::new().prefix(PREFIX).tempdir_in(&root).doing(doing)?;
            if let Some(lock) = lock(directory.path()).doing(doing)? {
                return Ok(Self { directory, _lock: lock });
            }
        }
        Err(Error::Timeout(format!("{}: others remove it {TRIES} times", doing())))
    }

    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }

    /// A word for whoever could not start there, where that may be why: a member that cannot write has no log either.
    pub(crate) fn shortage(&self) -> Option<String> {
        let free = free_bytes(self.path());
        let room =
            || format!("{} has {} MB of room left; TMPDIR can name another place", self.path().display(), free >> 20);
        (free < LOG_BYTES).then(room)
    }
}

/// Where the data of so many members go: into memory only where there is room for them.
fn root(storage: Storage, members: usize, memory: &Path) -> PathBuf {
    match storage {
        Storage::Memory if free_bytes(memory) >= MEMBER_BYTES * members as u64 => memory.into(),
        Storage::Memory | Storage::Disk => std::env::temp_dir(),
    }
}

/// What a user may still write there; nothing where there is no such place.
fn free_bytes(root: &Path) -> u64 {
    statvfs(root).map_or(0, |room| room.f_bavail.saturating_mul(room.f_frsize))
}

/// The lock on a directory, unless somebody has it or the directory is gone.
fn lock(path: &Path) -> io::Result<Option<File>> {
    let there = |result: io::Result<File>| match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        result => result.map(Some),
    };
    let Some(file) = there(File::open(path))? else { return Ok(None) };
    match flock(&file, FlockOperation::NonBlockingLockExclusive).map_err(io::Error::from) {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
        Err(error) => Err(error),
        // Whoever had it before may have removed the directory.
        Ok(()) => Ok(Some(file).filter(|file| file.metadata().is_ok_and(|now| now.nlink() > 0))),
    }
}

/// Removes what processes left that died without a drop. Best effort: what another user owns stays.
fn sweep(root: &Path) {
    for entry in fs::read_dir(root).into_iter().flatten().flatten() {
        if entry.file_name().to_string_lossy().starts_with(PREFIX)
            && let Ok(Some(_lock)) = lock(&entry.path())
        {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    /// Seen to fail without the look at the room.
    #[test]
    fn memory_is_used_where_there_is_room_for_all_members() {
        let (roomy, full) = (std::env::temp_dir(), Path::new("/proc"));
        assert_eq!(root(Storage::Memory, 0, full), full);
        assert_eq!(root(Storage::Memory, 1, full), roomy);
        assert_eq!(root(Storage::Disk, 0, full), roomy);
        assert_eq!(free_bytes(Path::new("/no/such/place")), 0);
        assert!(free_bytes(&roomy) > 0);
    }

    /// Seen to fail with a sweep that takes a directory for a leftover because no process has the id in its name.
    #[test]
    fn data_in_use_stay_and_what_a_dead_process_left_goes() {
        let root = tempfile::tempdir().expect("a directory");
        let (used, left, other) = ("used", "left", "other");
        let path = |name: &str| root.path().join(format!("{PREFIX}{name}"));
        for name in [used, left] {
            fs::create_dir_all(path(name).join("m0")).expect("made");
        }
        fs::create_dir(root.path().join(other)).expect("made");
        let lock = lock(&path(used)).expect("readable").expect("free");
        sweep(root.path());
        assert!(path(used).is_dir() && !path(left).exists() && root.path().join(other).is_dir());
        drop(lock);
        // A process that another test has just forked has all our files, and so the lock, until it becomes another program.
        let deadline = Instant::now() + Duration::from_secs(60);
        while path(used).exists() {
            assert!(Instant::now() < deadline, "nobody has the lock, and it is not removed");
            sweep(root.path());
        }
    }
}
