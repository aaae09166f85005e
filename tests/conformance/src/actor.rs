//! One who takes part in a play: requests go in, replies and events come out, whatever stands behind it.
//!
//! A driver is a process of its own, in a process group of its own, so that freezing and killing reach it whole even where its
//! `run` is a wrapper.

use std::{
    collections::HashMap,
    fmt,
    path::Path,
    process::Stdio,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use anyhow::{Context as _, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::Value;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncRead, AsyncWriteExt as _, BufReader},
    process::{Child, ChildStdin, Command},
    sync::{mpsc, watch},
    task::JoinHandle,
    time::timeout,
};

use crate::{
    Message,
    cast::BLOCKING,
    check,
    history::{Fault, History, What},
    machine::Patience,
};

/// How much of what a driver says on stderr is kept.
const DIAGNOSTICS: usize = 16 * 1024;
/// How long a driver may take to start.
const START: Duration = Duration::from_secs(60);
/// How long who lives may take to say so.
const SIGN_OF_LIFE: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(5);

/// What has come from an actor and has not been asked for yet.
#[derive(Debug, Default)]
pub struct Inbox {
    replies: HashMap<String, Message>,
    events: Vec<Message>,
    ended: bool,
}

/// Where an actor's messages arrive: they are recorded, then given to whoever waits for them.
#[derive(Clone, Debug)]
pub struct Mailbox {
    who: Arc<str>,
    history: History,
    inbox: Arc<watch::Sender<Inbox>>,
}

impl Mailbox {
    /// An empty one for the actor `who`.
    pub fn new(who: &str, history: History) -> Self {
        Self { who: who.into(), history, inbox: Arc::new(watch::Sender::new(Inbox::default())) }
    }

    /// Takes a reply or an event.
    pub fn deliver(&self, message: Message) {
        let is_event = message.contains_key("event");
        let what = if is_event { What::Event(message.clone()) } else { What::Reply(message.clone()) };
        self.history.add(&self.who, what);
        self.inbox.send_modify(|inbox| {
            if is_event {
                inbox.events.push(message);
            } else {
                inbox.replies.insert(check::id(&message), message);
            }
        });
    }

    /// Takes one line of a driver's output.
    fn line(&self, line: &str) {
        match serde_json::from_str::<Message>(line) {
            Ok(message) if message.contains_key("id") || message.contains_key("event") => self.deliver(message),
            _ => self.history.add(&self.who, What::Line(line.to_owned())),
        }
    }

    /// Nothing more will come.
    fn end(&self) {
        self.inbox.send_modify(|inbox| inbox.ended = true);
    }
}

/// Which events are meant: of a kind, about a hold or a client.
pub struct Wanted<'a> {
    /// `lost`, `state` or `leader`.
    pub kind: &'a str,
    /// What it is about: the name of the hold, of the client, or of what observes.
    pub name: &'a str,
}

impl Wanted<'_> {
    fn is(&self, event: &Message) -> bool {
        let about = match self.kind {
            "lost" => "hold",
            "leader" => "watch",
            _ => "client",
        };
        check::text(event, "event") == self.kind && check::text(event, about) == self.name
    }
}

impl fmt::Display for Wanted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} event of {}", self.kind, self.name)
    }
}

/// What stands behind an actor.
enum Body {
    Driver { child: Child, group: Pid, diagnostics: Arc<Mutex<Vec<u8>>> },
    Task(JoinHandle<()>),
}

/// One who takes part in a play. Dropping it kills it.
pub struct Actor {
    /// Its name in the scenario.
    pub name: String,
    /// The language of its driver, or the name of the foreign client.
    pub language: String,
    history: History,
    outbox: Mutex<Option<mpsc::UnboundedSender<Vec<u8>>>>,
    inbox: Arc<watch::Sender<Inbox>>,
    ids: AtomicU64,
    body: Mutex<Body>,
}

impl Actor {
    /// Starts the driver at `run`.
    pub fn driver(name: &str, language: &str, run: &Path, history: History) -> Result<Self> {
        let mut child = Command::new(run)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("cannot start the {language} driver {}", run.display()))?;
        let pid = child.id().and_then(|pid| Pid::from_raw(i32::try_from(pid).ok()?));
        let (Some(group), Some(stdin), Some(stdout), Some(stderr)) =
            (pid, child.stdin.take(), child.stdout.take(), child.stderr.take())
        else {
            bail!("the {language} driver ended before it began");
        };
        let mailbox = Mailbox::new(name, history.clone());
        let inbox = Arc::clone(&mailbox.inbox);
        let (outbox, requests) = mpsc::unbounded_channel();
        let diagnostics = Arc::default();
        tokio::spawn(write_requests(stdin, requests));
        tokio::spawn(read_replies(stdout, mailbox));
        tokio::spawn(keep_diagnostics(stderr, Arc::clone(&diagnostics)));
        Ok(Self::assemble(name, language, history, outbox, inbox, Body::Driver { child, group, diagnostics }))
    }

    /// Runs an actor of the runner's own: `act` gets the requests as lines, and the mailbox for its replies.
    pub fn task<F, T>(name: &str, language: &str, history: History, act: F) -> Self
    where
        F: FnOnce(mpsc::UnboundedReceiver<Vec<u8>>, Mailbox) -> T,
        T: Future<Output = ()> + Send + 'static,
    {
        let mailbox = Mailbox::new(name, history.clone());
        let inbox = Arc::clone(&mailbox.inbox);
        let (outbox, requests) = mpsc::unbounded_channel();
        let acting = act(requests, mailbox.clone());
        let task = tokio::spawn(async move {
            acting.await;
            mailbox.end();
        });
        Self::assemble(name, language, history, outbox, inbox, Body::Task(task))
    }

    fn assemble(
        name: &str,
        language: &str,
        history: History,
        outbox: mpsc::UnboundedSender<Vec<u8>>,
        inbox: Arc<watch::Sender<Inbox>>,
        body: Body,
    ) -> Self {
        Self {
            name: name.to_owned(),
            language: language.to_owned(),
            history,
            outbox: Mutex::new(Some(outbox)),
            inbox,
            ids: AtomicU64::new(1),
            body: Mutex::new(body),
        }
    }

    /// Sends a request under an id of ours, and returns that id as [`check::id`] writes it.
    pub fn send(&self, mut request: Message) -> String {
        let id = Value::from(self.ids.fetch_add(1, Ordering::Relaxed));
        request.insert("id".to_owned(), id.clone());
        let line = Value::Object(request.clone()).to_string();
        self.history.add(&self.name, What::Request(request));
        self.write(line.into_bytes());
        id.to_string()
    }

    /// Sends a line as it is; the reply is expected under `id`.
    pub fn send_line(&self, line: &str, id: Value) -> String {
        let is_it = |request: &Message| request.get("id") == Some(&id);
        let record = serde_json::from_str::<Message>(line).ok().filter(is_it);
        let record = record
            .unwrap_or_else(|| Message::from_iter([("id".to_owned(), id.clone()), ("line".to_owned(), line.into())]));
        self.history.add(&self.name, What::Request(record));
        self.write(line.into());
        id.to_string()
    }

    fn write(&self, mut line: Vec<u8>) {
        line.push(b'\n');
        if let Some(outbox) = self.lock_outbox().as_ref() {
            // An actor that is gone shows by its missing reply.
            let _ = outbox.send(line);
        }
    }

    fn lock_outbox(&self) -> std::sync::MutexGuard<'_, Option<mpsc::UnboundedSender<Vec<u8>>>> {
        self.outbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_body(&self) -> std::sync::MutexGuard<'_, Body> {
        self.body.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the reply to request `id` and takes it out; fails after `limit`, or when the actor ends.
    pub async fn reply(&self, id: &str, limit: Duration) -> Result<Message> {
        let found = self.wait(limit, |inbox| inbox.replies.contains_key(id).then_some(())).await;
        found.with_context(|| format!("{} ({}) did not answer #{id}", self.name, self.language))?;
        let mut reply = None;
        self.inbox.send_modify(|inbox| reply = inbox.replies.remove(id));
        reply.with_context(|| format!("somebody else took the answer #{id} of {}", self.name))
    }

    /// Waits for the next event that is as `wanted`, and takes it out.
    pub async fn event(&self, wanted: &Wanted<'_>, limit: Duration) -> Result<Message> {
        let find = |inbox: &Inbox| inbox.events.iter().position(|event| wanted.is(event));
        let found = self.wait(limit, |inbox| find(inbox).map(|_| ())).await;
        found.with_context(|| format!("{} ({}) told of no {wanted}", self.name, self.language))?;
        let mut event = None;
        self.inbox.send_modify(|inbox| event = find(inbox).map(|index| inbox.events.remove(index)));
        event.with_context(|| format!("somebody else took the {wanted} of {}", self.name))
    }

    /// Sees that no event comes that is as `wanted`: the actor lives, and has nothing to tell.
    pub async fn no_event(&self, wanted: &Wanted<'_>, quiet: Duration) -> Result<()> {
        if self.is_running() {
            tokio::time::sleep(quiet).await;
        }
        // Whatever it told before this is here when this is.
        self.sign_of_life().await?;
        match self.inbox.borrow().events.iter().find(|event| wanted.is(event)) {
            Some(event) => bail!("there was a {wanted}: {}", What::Event(event.clone()).summary()),
            None => Ok(()),
        }
    }

    /// Forgets the events that were as `wanted`, whose name is about to be given to something else.
    pub fn forget(&self, wanted: &Wanted<'_>) {
        self.inbox.send_modify(|inbox| inbox.events.retain(|event| !wanted.is(event)));
    }

    /// Waits until the driver has started, and sees that it is one of the language that it is taken for.
    pub async fn introduce(&self) -> Result<()> {
        let id = self.send(Message::from_iter([("op".to_owned(), "version".into())]));
        let reply = self.reply(&id, START).await.context("it did not start")?;
        let (language, wanted) = (check::text(&reply, "language"), self.language.trim_end_matches(BLOCKING));
        ensure!(language == wanted, "the driver of {} says that it is one of {language:?}, not of {wanted}", self.name);
        Ok(())
    }

    /// Has it answer a request that asks nobody else: what is silent may be dead.
    pub async fn sign_of_life(&self) -> Result<()> {
        let id = self.send(Message::from_iter([("op".to_owned(), "version".into())]));
        let answered = self.reply(&id, SIGN_OF_LIFE).await;
        answered.map(drop).context("its silence says nothing: it shows no sign of life")
    }

    /// Waits until the actor has ended by itself.
    pub async fn ended(&self, limit: Duration) -> Result<()> {
        let mut inbox = self.inbox.subscribe();
        let ended = timeout(limit, inbox.wait_for(|inbox| inbox.ended)).await;
        match ended {
            Ok(_) => Ok(()),
            Err(_) => bail!("{} ({}) still runs after {} ms", self.name, self.language, limit.as_millis()),
        }
    }

    async fn wait<T>(&self, limit: Duration, find: impl Fn(&Inbox) -> Option<T>) -> Result<T> {
        let mut inbox = self.inbox.subscribe();
        let (patience, mut left) = (Patience::new(limit), limit);
        loop {
            if let Ok(inbox) = timeout(left, inbox.wait_for(|inbox| inbox.ended || find(inbox).is_some())).await {
                return inbox.ok().and_then(|inbox| find(&inbox)).context("it has ended");
            }
            left = patience.left().await;
            ensure!(!left.is_zero(), "nothing within {} ms", limit.as_millis());
        }
    }

    /// Waits until a driver is gone that was to end; fails unless it ended as one that has no complaint.
    pub async fn gone(&self, limit: Duration) -> Result<()> {
        self.ended(limit).await?;
        let begun = tokio::time::Instant::now();
        loop {
            let status = match &mut *self.lock_body() {
                Body::Driver { child, .. } => child.try_wait()?,
                Body::Task(_) => return Ok(()),
            };
            match status {
                Some(status) if status.success() => return Ok(()),
                Some(status) => bail!("{} ({}) ended with {status}", self.name, self.language),
                None if begun.elapsed() > limit => {
                    bail!("{} ({}) closed its output and runs on", self.name, self.language)
                }
                None => tokio::time::sleep(POLL).await,
            }
        }
    }

    /// Stops it, lets it run on, or ends it without warning.
    pub fn fault(&self, fault: Fault) -> Result<()> {
        if matches!(fault, Fault::Frozen | Fault::Thawed | Fault::Killed) && !self.is_running() {
            bail!("{} ({}) has ended before", self.name, self.language);
        }
        // Recorded first: whatever the actor still does at this instant counts as done under the fault. For a thaw it is the
        // other way round.
        if fault != Fault::Thawed {
            self.history.add(&self.name, What::Fault(fault));
        }
        let signal = match fault {
            Fault::Frozen => Signal::STOP,
            Fault::Thawed => Signal::CONT,
            Fault::Killed => Signal::KILL,
            Fault::CutOff | Fault::Healed => return Ok(()),
        };
        match &*self.lock_body() {
            Body::Driver { group, .. } => {
                kill_process_group(*group, signal).with_context(|| format!("cannot signal {}", self.name))?;
            }
            Body::Task(task) if fault == Fault::Killed => task.abort(),
            Body::Task(_) => bail!("{} is no process and cannot be frozen", self.name),
        }
        if fault == Fault::Thawed {
            self.history.add(&self.name, What::Fault(fault));
        }
        Ok(())
    }

    /// Whether it has not ended.
    pub fn is_running(&self) -> bool {
        !self.inbox.borrow().ended
    }

    /// Whether it is a lock client that is not ours.
    pub fn is_foreign(&self) -> bool {
        matches!(&*self.lock_body(), Body::Task(_))
    }

    /// Ends the actor's input, which a driver must answer by ending at once, without releasing anything.
    pub fn end_input(&self) {
        self.lock_outbox().take();
    }

    /// What the driver wrote to stderr.
    pub fn diagnostics(&self) -> String {
        match &*self.lock_body() {
            Body::Driver { diagnostics, .. } => {
                String::from_utf8_lossy(&diagnostics.lock().unwrap_or_else(PoisonError::into_inner)).into_owned()
            }
            Body::Task(_) => String::new(),
        }
    }
}

impl Drop for Actor {
    fn drop(&mut self) {
        match &mut *self.lock_body() {
            Body::Driver { child, group, .. } => {
                // Only while it is not reaped does the number of the group surely stand for it.
                if matches!(child.try_wait(), Ok(None)) {
                    let _ = kill_process_group(*group, Signal::KILL);
                }
            }
            Body::Task(task) => task.abort(),
        }
    }
}

async fn write_requests(mut stdin: ChildStdin, mut requests: mpsc::UnboundedReceiver<Vec<u8>>) {
    while let Some(line) = requests.recv().await {
        if stdin.write_all(&line).await.is_err() || stdin.flush().await.is_err() {
            return;
        }
    }
}

async fn read_replies(stdout: impl AsyncRead + Unpin, mailbox: Mailbox) {
    let mut lines = BufReader::new(stdout).split(b'\n');
    while let Ok(Some(line)) = lines.next_segment().await {
        mailbox.line(&String::from_utf8_lossy(&line));
    }
    mailbox.end();
}

async fn keep_diagnostics(stderr: impl AsyncRead + Unpin, kept: Arc<Mutex<Vec<u8>>>) {
    let mut lines = BufReader::new(stderr).split(b'\n');
    while let Ok(Some(line)) = lines.next_segment().await {
        let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() < DIAGNOSTICS {
            kept.extend_from_slice(&line);
            kept.push(b'\n');
        }
    }
}
