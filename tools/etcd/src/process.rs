//! One member as a process: its start, its log, and every way to end or stop it.

use std::{
    ffi::{OsStr, OsString},
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicI32, Ordering},
    },
    time::Duration,
};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};

use crate::{Error, background, error::Doing, probe::Patience, sockets};

/// How long a member may take to end after SIGTERM.
const STOP_LIMIT: Duration = Duration::from_secs(60);
/// What etcd writes when somebody listens on its port.
const PORT_TAKEN: &str = "address already in use";

/// A member's process, running or not. Whoever drops it kills it before.
#[derive(Debug)]
pub(crate) struct Process {
    name: String,
    binary: PathBuf,
    arguments: Vec<OsString>,
    log: PathBuf,
    /// The child until it has been waited for: while it is here its pid cannot belong to anybody else.
    child: Mutex<Option<Running>>,
    pid: AtomicI32,
}

#[derive(Debug)]
struct Running {
    child: Child,
    frozen: bool,
}

impl Running {
    fn lives(&self) -> bool {
        // Only a look: its end stays to be waited for, and to be told.
        let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        matches!(waitid(WaitId::Pid(Pid::from_child(&self.child)), look), Ok(None))
    }
}

impl Process {
    pub(crate) fn new(name: String, binary: &Path, arguments: Vec<OsString>, log: PathBuf) -> Self {
        Self { name, binary: binary.into(), arguments, log, child: Mutex::new(None), pid: AtomicI32::new(0) }
    }

    /// Starts the process, with the same arguments and log each time. To be called on the harness's thread.
    pub(crate) fn start(&self) -> Result<(), Error> {
        let mut slot = self.slot();
        if slot.as_ref().is_some_and(Running::lives) {
            return Err(Error::Usage(format!("member {} runs already", self.name)));
        }
        let doing = || format!("could not start {}", self.binary.display());
        let log = File::options().create(true).append(true).open(&self.log).doing(doing)?;
        let errors = log.try_clone().doing(doing)?;
        let mut command = Command::new(&self.binary);
        command.args(&self.arguments).stdin(Stdio::null()).stdout(log).stderr(errors);
        // etcd takes its options from the environment, too: a test must not depend on who runs it.
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("ETCD_")) {
            command.env_remove(name);
        }
        background::tie(&mut command);
        let child = command.spawn().doing(doing)?;
        self.pid.store(child.id().cast_signed(), Ordering::Release);
        // Waits for the one before, should it have ended by itself: it lives no more.
        if let Some(mut ended) = slot.take() {
            let _ = ended.child.wait();
        }
        *slot = Some(Running { child, frozen: false });
        Ok(())
    }

    /// The value of an argument that was given as two.
    pub(crate) fn argument(&self, name: &str) -> Option<&OsStr> {
        let at = self.arguments.iter().position(|argument| argument == name)?;
        self.arguments.get(at + 1).map(OsString::as_os_str)
    }

    /// The process id, or `None` when it does not run.
    pub(crate) fn pid(&self) -> Option<Pid> {
        Pid::from_raw(self.pid.load(Ordering::Acquire))
    }

    /// Whether it runs: what has ended by itself does not, also while nobody has asked why.
    pub(crate) fn runs(&self) -> bool {
        self.slot().as_ref().is_some_and(Running::lives)
    }

    /// Whether it runs and is not frozen.
    pub(crate) fn is_awake(&self) -> bool {
        self.slot().as_ref().is_some_and(|running| running.lives() && !running.frozen)
    }

    /// Whether it is this process that listens on all of these ports.
    ///
    /// # Errors
    /// [`Error::Io`] where the kernel does not say.
    pub(crate) fn listens_on(&self, ports: &[u16]) -> Result<bool, Error> {
        // Under the lock, so that the pid stays that of our child.
        let slot = self.slot();
        let pid = slot.as_ref().and_then(|_| self.pid());
        let found = sockets::of(&[pid]).doing(|| "could not read who listens on which port".into())?.concat();
        Ok(ports.iter().all(|port| found.iter().any(|socket| socket.listens && socket.local == *port)))
    }

    /// Whether it said so when it started or ended.
    pub(crate) fn met_a_taken_port(&self) -> bool {
        read(&self.log).contains(PORT_TAKEN)
    }

    /// Why it does not run, where it ended by itself.
    pub(crate) fn end(&self) -> Option<Error> {
        let mut slot = self.slot();
        let ended = slot.as_mut().and_then(|running| running.child.try_wait().ok().flatten())?;
        self.forget(&mut slot);
        let (name, binary, log) = (&self.name, self.binary.display(), self.log());
        Some(Error::Start(format!("member {name} ({binary}) ended with {ended}; its log:\n{log}")))
    }

    /// SIGKILL, and waits for the end. Nothing happens when it does not run.
    pub(crate) fn kill(&self) -> Result<(), Error> {
        let mut slot = self.slot();
        if let Some(running) = slot.as_mut() {
            running.child.kill().doing(|| format!("could not kill member {}", self.name))?;
            running.child.wait().doing(|| format!("could not wait for member {}", self.name))?;
        }
        self.forget(&mut slot);
        Ok(())
    }

    /// SIGTERM, and waits for the end.
    pub(crate) async fn stop(&self) -> Result<(), Error> {
        self.signal(Signal::TERM)?;
        let mut patience = Patience::new(STOP_LIMIT);
        while self.slot().is_some() && self.end().is_none() {
            if !patience.another().await {
                return Err(Error::Timeout(format!("member {} still runs after SIGTERM", self.name)));
            }
        }
        Ok(())
    }

    /// SIGSTOP, and waits until the kernel has stopped every thread of it.
    pub(crate) fn freeze(&self) -> Result<(), Error> {
        let pid = self.signal(Signal::STOP)?;
        // Only a look: an end that comes first stays to be waited for.
        let look = WaitIdOptions::STOPPED | WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        let stopped = waitid(WaitId::Pid(pid), look);
        stopped.doing(|| format!("could not wait until member {} is frozen", self.name))?;
        self.mark(true);
        Ok(())
    }

    /// SIGCONT.
    pub(crate) fn thaw(&self) -> Result<(), Error> {
        self.signal(Signal::CONT)?;
        self.mark(false);
        Ok(())
    }

    /// The beginning and the end of what it ever wrote.
    pub(crate) fn log(&self) -> String {
        excerpt(&self.log)
    }

    fn signal(&self, signal: Signal) -> Result<Pid, Error> {
        if let Some(error) = self.end() {
            return Err(error);
        }
        let slot = self.slot();
        let Some(pid) = slot.as_ref().and_then(|_| self.pid()) else {
            return Err(Error::Usage(format!("member {} does not run", self.name)));
        };
        kill_process(pid, signal).doing(|| format!("could not send {signal:?} to member {}", self.name))?;
        Ok(pid)
    }

    fn mark(&self, frozen: bool) {
        if let Some(running) = self.slot().as_mut() {
            running.frozen = frozen;
        }
    }

    fn forget(&self, slot: &mut Option<Running>) {
        *slot = None;
        self.pid.store(0, Ordering::Release);
    }

    /// A panic elsewhere must not keep us from killing the member.
    fn slot(&self) -> MutexGuard<'_, Option<Running>> {
        self.child.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The first and the last lines of a log, for an error message: etcd names a wrong argument before it explains itself.
pub(crate) fn excerpt(log: &Path) -> String {
    const FIRST: usize = 3;
    const LAST: usize = 20;
    let text = read(log);
    let lines: Vec<_> = text.lines().collect();
    if lines.len() <= FIRST + LAST {
        return lines.join("\n");
    }
    format!("{}\n…\n{}", lines[..FIRST].join("\n"), lines[lines.len() - LAST..].join("\n"))
}

/// What a log says; nothing where it cannot be read.
fn read(log: &Path) -> String {
    fs::read(log).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
}
