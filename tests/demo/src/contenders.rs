//! The contenders as processes: started, told what to do, listened to, killed, frozen, and ended in any case.

use std::{process::Stdio, time::Duration};

use anyhow::{Context, bail};
use leasehold_demo::protocol::{Command, Event, Setup};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
use tokio::{
    io::{AsyncBufReadExt, AsyncRead, AsyncWriteExt, BufReader},
    process::{Child, ChildStdin},
    sync::mpsc,
    time::timeout,
};

use crate::languages::Language;

/// How long a contender may take to close its client and end.
const FAREWELL: Duration = Duration::from_secs(10);

/// Contenders are known by their number, from 0.
pub(crate) struct Contenders {
    processes: Vec<Process>,
    messages: mpsc::UnboundedReceiver<(usize, Message)>,
    sender: mpsc::UnboundedSender<(usize, Message)>,
    /// The longest silence of all together.
    patience: Duration,
}

struct Process {
    identity: String,
    pid: Pid,
    child: Child,
    stdin: Option<ChildStdin>,
    is_killed: bool,
}

/// Something that a scene reacts to.
#[derive(Debug)]
pub(crate) enum Happening {
    /// A contender reported this.
    Said(Event),
    /// The time that it was given by [`Contenders::work`] is over.
    Worked,
    /// It wrote a line to stderr.
    Complained(String),
}

enum Message {
    Happened(Happening),
    Garbled(String),
    Ended,
}

impl Contenders {
    /// Starts `count` of them, the languages in turn. `setup` is completed by each one's identity.
    pub(crate) fn start(
        count: usize,
        languages: &[&Language],
        setup: &Setup,
        patience: Duration,
    ) -> anyhow::Result<Self> {
        let (sender, messages) = mpsc::unbounded_channel();
        let mut contenders = Self { processes: Vec::new(), messages, sender, patience };
        for number in 0..count {
            let language = languages[number % languages.len()];
            let identity = format!("{}-{}", language.name, number + 1);
            let process = contenders.spawn(language, Setup { identity, ..setup.clone() })?;
            contenders.processes.push(process);
        }
        Ok(contenders)
    }

    fn spawn(&self, language: &Language, setup: Setup) -> anyhow::Result<Process> {
        let identity = &setup.identity;
        let mut command = language.command()?;
        command.envs(setup.environment()).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // Ctrl-C is for the demo alone, which then ends them. Should it be killed itself, the kernel ends them.
        command.process_group(0).kill_on_drop(true);
        leasehold_etcd::tie(command.as_std_mut());
        let program = command.as_std().get_program().to_string_lossy().into_owned();
        let mut child = command
            .spawn()
            .with_context(|| format!("could not start the contender {identity} ({program}); `make demo` builds it"))?;
        let pid = child.id().and_then(|pid| Pid::from_raw(pid.cast_signed())).context("a contender without a pid")?;
        let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let number = self.processes.len();
        let stderr = stderr.context("stderr is no pipe")?;
        self.listen(number, stderr, |line| Message::Happened(Happening::Complained(line)), None);
        let stdout = stdout.context("stdout is no pipe")?;
        self.listen(number, stdout, understand, Some(Message::Ended));
        Ok(Process { identity: setup.identity, pid, child, stdin, is_killed: false })
    }

    /// Makes messages of the lines of a stream, and of its end.
    fn listen(
        &self,
        number: usize,
        stream: impl AsyncRead + Unpin + Send + 'static,
        message: fn(String) -> Message,
        end: Option<Message>,
    ) {
        let sender = self.sender.clone();
        tokio::spawn(async move {
            let mut lines = BufReader::new(stream).lines();
            // A stream that breaks has ended. If nobody receives, the demo is at its end, too.
            while let Ok(Some(line)) = lines.next_line().await {
                let _ = sender.send((number, message(line)));
            }
            if let Some(end) = end {
                let _ = sender.send((number, end));
            }
        });
    }

    pub(crate) fn identity(&self, number: usize) -> &str {
        &self.processes[number].identity
    }

    pub(crate) fn pid(&self, number: usize) -> i32 {
        self.processes[number].pid.as_raw_nonzero().get()
    }

    /// The number of the contender of this identity.
    pub(crate) fn find(&self, identity: &str) -> Option<usize> {
        self.processes.iter().position(|process| process.identity == identity)
    }

    /// Those that were not killed.
    pub(crate) fn alive(&self) -> Vec<usize> {
        (0..self.processes.len()).filter(|number| !self.processes[*number].is_killed).collect()
    }

    /// Sends a command; a frozen one finds it when it wakes up.
    pub(crate) async fn tell(&mut self, number: usize, command: Command) -> anyhow::Result<()> {
        let process = &mut self.processes[number];
        let stdin = process.stdin.as_mut().context("the demo has dismissed it already")?;
        let line = format!("{command}\n");
        stdin.write_all(line.as_bytes()).await.with_context(|| format!("{} does not listen", process.identity))
    }

    /// Lets a contender work for `span`, which means that nothing happens to it meanwhile.
    pub(crate) fn work(&self, number: usize, span: Duration) {
        let sender = self.sender.clone();
        tokio::spawn(async move {
            tokio::time::sleep(span).await;
            let _ = sender.send((number, Message::Happened(Happening::Worked)));
        });
    }

    /// The next thing that happens, and to whom.
    pub(crate) async fn next(&mut self) -> anyhow::Result<(usize, Happening)> {
        loop {
            let message = timeout(self.patience, self.messages.recv()).await;
            let message = message.with_context(|| format!("nothing happened for {:?}", self.patience))?;
            let (number, message) = message.context("nobody is left")?;
            let Process { identity, is_killed, .. } = &self.processes[number];
            match message {
                // What it may have said before its death comes too late to be reacted to.
                _ if *is_killed => {}
                Message::Happened(Happening::Said(Event::Failed { error })) => bail!("{identity} failed: {error}"),
                Message::Happened(happening) => return Ok((number, happening)),
                Message::Garbled(line) => bail!("{identity} printed {line:?}, which is no event of the protocol"),
                Message::Ended => bail!("{identity} ended unexpectedly"),
            }
        }
    }

    /// SIGKILL, and waits for the end.
    pub(crate) async fn kill(&mut self, number: usize) -> anyhow::Result<()> {
        let process = &mut self.processes[number];
        process.is_killed = true;
        process.child.kill().await.with_context(|| format!("could not kill {}", process.identity))
    }

    /// SIGSTOP, and waits until it stands still.
    pub(crate) fn freeze(&self, number: usize) -> anyhow::Result<()> {
        let pid = self.signal(number, Signal::STOP)?;
        // Only a look: an end that comes first stays to be waited for.
        let look = WaitIdOptions::STOPPED | WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        waitid(WaitId::Pid(pid), look).with_context(|| format!("is {} frozen?", self.identity(number)))?;
        Ok(())
    }

    /// SIGCONT.
    pub(crate) fn wake(&self, number: usize) -> anyhow::Result<()> {
        self.signal(number, Signal::CONT).map(drop)
    }

    /// The child is not waited for before the end, so the pid is its own.
    fn signal(&self, number: usize, signal: Signal) -> anyhow::Result<Pid> {
        let Process { identity, pid, .. } = &self.processes[number];
        kill_process(*pid, signal).with_context(|| format!("could not send {signal:?} to {identity}"))?;
        Ok(*pid)
    }

    /// Dismisses all that live, and waits until they have gone in good order.
    pub(crate) async fn finish(&mut self) -> anyhow::Result<()> {
        for process in &mut self.processes {
            process.stdin = None;
        }
        for process in self.processes.iter_mut().filter(|process| !process.is_killed) {
            let identity = &process.identity;
            let ended = timeout(FAREWELL, process.child.wait()).await;
            let status = ended.with_context(|| format!("{identity} did not end within {FAREWELL:?}"))??;
            if !status.success() {
                bail!("{identity} ended with {status}");
            }
        }
        Ok(())
    }
}

fn understand(line: String) -> Message {
    match serde_json::from_str(&line) {
        Ok(event) => Message::Happened(Happening::Said(event)),
        Err(_) => Message::Garbled(line),
    }
}
