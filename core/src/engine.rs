//! The one place that runs the state machines: feeds a [`Hub`] replies, events and time, and carries out what it asks for.
//!
//! One task on the thread of [`crate::runtime`] owns the hub and polls its calls itself, which saves two turns of the scheduler
//! for each; streams are tasks beside it that only pass on what they hear. Callers talk to it by [`Command`]s. It ends when it
//! is closed, or when the last handle of its client is gone. If it ends by a panic, every hold is over and everybody who waits
//! is told why; the client starts another one.

use std::{
    any::Any,
    collections::{HashMap, VecDeque},
    panic::AssertUnwindSafe,
    pin::Pin,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use futures_util::{FutureExt, StreamExt, stream::FuturesUnordered};
use tokio::{
    runtime,
    sync::{mpsc, oneshot},
    time::Instant,
};

use crate::{
    clock::{self, Moment},
    error::{Code, Error, LostReason, Result},
    hold::{End, Fate, HoldState},
    hub::{Acquire, Action, Config, Hold, Hub, Input, Returned, RpcId, StreamId},
    loan::{Lent, Loans},
    metrics::{self, Recorder},
    observer::Mailbox,
    session::Health,
    states::Board,
    store::{ErrorKind, LeaseId, RenewalStream, Reply, Request, Store, StoreError, WatchStream},
    terms::{SessionId, Ticket},
    watch::{FromStream, Watches},
};

/// The longest sleep: the timer does not count the time that the machine is suspended, the deadlines do.
const LONGEST_SLEEP: Duration = Duration::from_millis(500);
/// How long an engine that broke waits for the revocation of a lease.
const REVOKE: Duration = Duration::from_secs(5);
/// Inputs taken in before the timer is looked at again.
const BURST: usize = 64;
/// What streams have said and the engine has not heard yet; beyond that, they wait.
const BACKLOG: usize = 1024;

/// Told once what came of a command. Called by the engine: must neither block nor panic.
pub(crate) type Answer<T> = Box<dyn FnOnce(Result<T>) + Send>;

/// What a caller wants from the engine.
pub(crate) enum Command {
    /// Acquire a lock.
    Acquire(Ticket, Box<Acquire>, Answer<Won>),
    /// The caller of an acquire is gone.
    Cancel(Ticket),
    /// Release a hold; nobody may be waiting for the answer.
    Release(Ticket, Option<Answer<()>>),
    /// Make a hold last.
    Extend(Ticket, Duration, oneshot::Sender<Result<()>>),
    /// Tell who leads an election of this name, and each change.
    Observe(Ticket, Arc<str>, Arc<Mailbox>),
    /// Nobody listens any more.
    Unobserve(Ticket),
    /// Release everything and end.
    Close(oneshot::Sender<()>),
}

/// A lock that was won: whoever is told makes the guard of it. If nobody is there any more, it must be released.
#[derive(Debug)]
pub(crate) struct Won {
    /// The acquire that won.
    pub(crate) ticket: Ticket,
    /// What it won.
    pub(crate) hold: Hold,
    /// What becomes of it.
    pub(crate) state: Arc<HoldState>,
    /// The loan that it was made of, if the engine was not asked for it.
    pub(crate) lent: Option<Arc<Lent>>,
}

/// An acquire that waits for its lock.
struct Waiter {
    since: Moment,
    answer: Answer<Won>,
}

/// A hold that nobody has released or lost yet.
struct Holding {
    since: Moment,
    state: Arc<HoldState>,
}

/// A unary call on its way, and how it is counted.
type Call = Pin<Box<dyn Future<Output = Answered> + Send>>;

/// A unary call that is over.
struct Answered {
    rpc: RpcId,
    result: std::result::Result<Reply, StoreError>,
    kind: metrics::RequestKind,
    took: Duration,
}

/// What the tasks beside the engine tell it.
enum Heard {
    Input(Input),
    Watch(FromStream),
}

struct Engine {
    hub: Hub,
    store: Arc<dyn Store>,
    heard: mpsc::Sender<Heard>,
    calls: FuturesUnordered<Call>,
    waiters: HashMap<Ticket, Waiter>,
    holds: HashMap<Ticket, Holding>,
    releases: HashMap<Ticket, Answer<()>>,
    extensions: HashMap<Ticket, Vec<oneshot::Sender<Result<()>>>>,
    observers: HashMap<Ticket, Arc<Mailbox>>,
    closers: Vec<oneshot::Sender<()>>,
    deadlines: HashMap<SessionId, Arc<AtomicU64>>,
    renewals: HashMap<StreamId, mpsc::UnboundedSender<LeaseId>>,
    watches: Watches,
    /// Places that linger.
    lent: HashMap<Ticket, Arc<Lent>>,
    /// What became of those that the hub has recalled.
    recalled: VecDeque<Input>,
    told: Told,
    is_closed: bool,
}

/// What others read that the engine writes.
pub(crate) struct Told {
    /// The states of the sessions.
    pub(crate) states: Arc<Board>,
    /// What is counted.
    pub(crate) recorder: Arc<Recorder>,
    /// Places that linger.
    pub(crate) loans: Arc<Loans>,
}

/// An engine as its client sees it.
#[derive(Clone, Debug)]
pub(crate) struct Handle {
    commands: mpsc::UnboundedSender<Command>,
    /// Why it ended, if it ended by a panic; set before it obeys no more.
    failure: Arc<OnceLock<Error>>,
}

impl Handle {
    /// Gives it a command; gives that back if it has ended.
    pub(crate) fn send(&self, command: Command) -> std::result::Result<(), Command> {
        self.commands.send(command).map_err(|mpsc::error::SendError(command)| command)
    }

    /// Why it ended, if it ended by a panic.
    pub(crate) fn failure(&self) -> Option<&Error> {
        self.failure.get()
    }

    /// Whether `other` is the same engine.
    pub(crate) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.failure, &other.failure)
    }
}

/// Starts an engine on that runtime.
pub(crate) fn start(config: Config, store: Arc<dyn Store>, told: Told, runtime: &runtime::Handle) -> Handle {
    let (sender, mut commands) = mpsc::unbounded_channel();
    let (heard, mut inputs) = mpsc::channel(BACKLOG);
    let mut engine = Engine {
        hub: Hub::new(config),
        store,
        heard,
        calls: FuturesUnordered::new(),
        waiters: HashMap::new(),
        holds: HashMap::new(),
        releases: HashMap::new(),
        extensions: HashMap::new(),
        observers: HashMap::new(),
        closers: Vec::new(),
        deadlines: HashMap::new(),
        renewals: HashMap::new(),
        watches: Watches::default(),
        lent: HashMap::new(),
        recalled: VecDeque::new(),
        told,
        is_closed: false,
    };
    let failure = Arc::new(OnceLock::new());
    let handle = Handle { commands: sender, failure: failure.clone() };
    runtime.spawn(async move {
        let run = AssertUnwindSafe(engine.run(&mut commands, &mut inputs)).catch_unwind();
        let why = match run.await {
            Ok(()) => closed(),
            Err(panic) => {
                let why = broken("the engine of this client", &*panic);
                tracing::error!(%why, "every lock of this client is lost");
                failure.get_or_init(|| why).clone()
            }
        };
        commands.close();
        engine.give_up(&why);
        while let Ok(command) = commands.try_recv() {
            refuse(command, &why);
        }
    });
    handle
}

impl Engine {
    async fn run(&mut self, commands: &mut mpsc::UnboundedReceiver<Command>, inputs: &mut mpsc::Receiver<Heard>) {
        let mut has_handles = true;
        let mut burst = Vec::with_capacity(BURST);
        let timer = tokio::time::sleep(Duration::ZERO);
        tokio::pin!(timer);
        while !self.is_closed {
            timer.as_mut().reset(self.next_wake());
            tokio::select! {
                biased;
                // The loss of a lock has its own timer, which no flood of replies may hold back.
                () = &mut timer => self.feed(Input::Wake),
                heard = inputs.recv() => {
                    let mut next = heard;
                    for _ in 0..BURST {
                        let Some(heard) = next else { break };
                        self.hear(heard);
                        next = inputs.try_recv().ok();
                    }
                    if let Some(heard) = next {
                        self.hear(heard);
                    }
                }
                Some(answered) = self.calls.next() => {
                    self.answer(answered);
                    for _ in 1..BURST {
                        let Some(Some(answered)) = self.calls.next().now_or_never() else { break };
                        self.answer(answered);
                    }
                }
                // Together, so that they can share a transaction.
                count = commands.recv_many(&mut burst, BURST), if has_handles => {
                    for command in burst.drain(..) {
                        if self.is_closed {
                            refuse(command, &closed());
                        } else {
                            self.obey(command);
                        }
                    }
                    if count == 0 {
                        // The last client, lock and guard are gone: leave nothing behind.
                        has_handles = false;
                        self.feed(Input::Close);
                    }
                }
            }
            self.settle();
        }
    }

    /// Ends what an orderly end would have ended: after a panic in the middle of a change, nothing here can be trusted but that
    /// somebody waits, and that nobody renews any more.
    fn give_up(&mut self, why: &Error) {
        let now = clock::now();
        for ticket in self.lent.keys().copied().collect::<Vec<_>>() {
            self.end_loan(ticket);
        }
        for (_, hold) in self.holds.drain() {
            hold.state.advance(Fate::Ended(End::Lost(LostReason::ClientClosed)));
            self.told.recorder.hold_ended(now.since(hold.since), Some(LostReason::ClientClosed));
        }
        for (_, waiter) in self.waiters.drain() {
            self.told.recorder.acquire_ended(now.since(waiter.since), Some(why.code()));
            (waiter.answer)(Err(why.clone()));
        }
        for (_, answer) in self.releases.drain() {
            answer(Err(why.clone()));
        }
        for answer in self.extensions.drain().flat_map(|(_, answers)| answers) {
            let _ = answer.send(Err(why.clone()));
        }
        for (_, mailbox) in self.observers.drain() {
            mailbox.end(why.clone());
        }
        for answer in self.closers.drain(..) {
            let _ = answer.send(());
        }
        for session in self.deadlines.keys() {
            if let Some(ttl) = self.hub.shared_ttl(*session) {
                self.told.states.change(*session, ttl, Health::Lost(LostReason::ClientClosed));
            }
        }
        // Others need not wait for its leases to run out. The calls go on by themselves.
        for lease in self.hub.leases() {
            let revoke = self.store.call(Request::LeaseRevoke { lease }, REVOKE);
            tokio::spawn(revoke.map(drop));
        }
    }

    fn next_wake(&self) -> Instant {
        let now = clock::now();
        let sleep = self.hub.wake().map_or(LONGEST_SLEEP, |at| now.until(at).min(LONGEST_SLEEP));
        Instant::now() + sleep
    }

    fn hear(&mut self, heard: Heard) {
        match heard {
            Heard::Input(input) => {
                // One that was closed has not broken.
                if matches!(&input, Input::RenewalsEnded(id, _) if self.renewals.contains_key(id)) {
                    self.told.recorder.renewals_broke();
                }
                self.feed(input);
            }
            Heard::Watch(from_stream) => {
                for reply in self.watches.receive(from_stream) {
                    self.feed(Input::Watch(reply));
                }
            }
        }
    }

    fn obey(&mut self, command: Command) {
        match command {
            Command::Acquire(ticket, acquire, answer) => {
                self.told.recorder.acquire_begun();
                self.waiters.insert(ticket, Waiter { since: clock::now(), answer });
                self.feed(Input::Acquire(ticket, *acquire));
            }
            Command::Cancel(ticket) => {
                self.feed(Input::Cancel(ticket, Error::new(Code::Cancelled, "the acquire was cancelled")));
            }
            Command::Release(ticket, answer) => {
                self.recall(ticket);
                if let Some(Holding { since, state }) = self.holds.remove(&ticket) {
                    self.told.recorder.hold_ended(clock::now().since(since), None);
                    if !state.is_settled() {
                        self.feed(Input::Unsettled(ticket));
                    }
                }
                if let Some(answer) = answer {
                    self.releases.insert(ticket, answer);
                }
                self.feed(Input::Release(ticket));
            }
            Command::Extend(ticket, span, answer) => {
                self.recall(ticket);
                self.extensions.entry(ticket).or_default().push(answer);
                self.feed(Input::Extend(ticket, span));
            }
            Command::Observe(ticket, name, mailbox) => {
                self.observers.insert(ticket, mailbox);
                self.feed(Input::Observe(ticket, name));
            }
            Command::Unobserve(ticket) => {
                self.observers.remove(&ticket);
                self.feed(Input::Unobserve(ticket));
            }
            Command::Close(answer) => {
                self.closers.push(answer);
                self.feed(Input::Close);
            }
        }
    }

    fn answer(&mut self, Answered { rpc, result, kind, took }: Answered) {
        self.told.recorder.answered(kind, took, result.is_ok());
        self.feed(Input::Reply(rpc, result));
    }

    fn feed(&mut self, input: Input) {
        let mut next = Some(input);
        while let Some(input) = next {
            let mut actions = Vec::new();
            self.hub.take_in(clock::now(), input, &mut actions);
            self.carry_out_all(actions);
            next = self.recalled.pop_front();
        }
    }

    /// All that has come at once is taken in.
    fn settle(&mut self) {
        let mut actions = Vec::new();
        self.hub.settle(clock::now(), &mut actions);
        self.carry_out_all(actions);
    }

    fn carry_out_all(&mut self, actions: Vec<Action>) {
        for action in actions {
            self.carry_out(action);
        }
    }

    /// Tells the hub who has a place that is lent, if it is.
    fn recall(&mut self, ticket: Ticket) {
        if let Some(returned) = self.end_loan(ticket) {
            self.feed(Input::Recalled(ticket, returned));
        }
    }

    /// Nobody takes that place any more. If somebody holds it, that is a hold like any other from now on.
    fn end_loan(&mut self, ticket: Ticket) -> Option<Returned> {
        let lent = self.lent.remove(&ticket)?;
        self.told.loans.remove(&lent);
        let (returned, hold) = lent.end();
        if let Some((since, state)) = hold {
            self.holds.insert(ticket, Holding { since, state });
        }
        Some(returned)
    }

    fn carry_out(&mut self, action: Action) {
        match action {
            Action::Call(rpc, request, timeout) => self.call(rpc, request, timeout),
            Action::OpenRenewals(stream, hedge) => self.open_renewals(stream, hedge),
            Action::Renew(stream, lease) => {
                if let Some(requests) = self.renewals.get(&stream) {
                    // A stream that is gone already reports its end.
                    let _ = requests.send(lease);
                }
            }
            Action::CloseRenewals(stream) => {
                self.renewals.remove(&stream);
            }
            Action::Watch(id, keys) => {
                let heard = &self.heard;
                let report = |generation, stream| report_watches(generation, stream, heard.clone());
                self.watches.create(id, keys, &*self.store, report);
            }
            Action::Unwatch(id) => self.watches.cancel(id),
            Action::Acquired(ticket, hold) => self.hand_out(ticket, hold),
            Action::Failed(ticket, error) => {
                if let Some(waiter) = self.waiters.remove(&ticket) {
                    self.told.recorder.acquire_ended(clock::now().since(waiter.since), Some(error.code()));
                    (waiter.answer)(Err(error));
                }
            }
            Action::Released(ticket, result) => {
                if let Some(answer) = self.releases.remove(&ticket) {
                    answer(result);
                }
            }
            Action::Extended(ticket, result) => {
                if let Some(answers) = self.extensions.get_mut(&ticket) {
                    if !answers.is_empty() {
                        let _ = answers.remove(0).send(result);
                    }
                    if answers.is_empty() {
                        self.extensions.remove(&ticket);
                    }
                }
            }
            Action::Observed(ticket, sight) => {
                if let Some(mailbox) = self.observers.get(&ticket) {
                    mailbox.put(sight);
                }
            }
            Action::ObserverFailed(ticket, error) => {
                if let Some(mailbox) = self.observers.remove(&ticket) {
                    mailbox.end(error);
                }
            }
            Action::Lend(ticket, loan) => {
                let (deadline, recorder) = (self.deadline_of(loan.hold.session), self.told.recorder.clone());
                let lent = Arc::new(Lent::new(ticket, loan, deadline, runtime::Handle::current(), recorder));
                self.told.loans.insert(lent.clone());
                self.lent.insert(ticket, lent);
            }
            Action::Recall(ticket) => {
                let returned = self.end_loan(ticket);
                self.recalled.extend(returned.map(|returned| Input::Recalled(ticket, returned)));
            }
            Action::Voided(ticket) => {
                self.end_loan(ticket);
                self.seal(ticket, Fate::Voided);
            }
            Action::Lost(ticket, reason) => {
                self.end_loan(ticket);
                if let Some(Holding { since, state }) = self.holds.remove(&ticket) {
                    // Counted before anybody hears of it.
                    self.told.recorder.hold_ended(clock::now().since(since), Some(reason));
                    state.advance(Fate::Ended(End::Lost(reason)));
                }
            }
            Action::Deadline(session, deadline) => {
                let before = self.deadline_of(session).swap(deadline.as_nanos(), Ordering::AcqRel);
                // The first one comes with the lease.
                if before > 0 {
                    self.told.recorder.renewed(clock::now().until(Moment::from_nanos(before)));
                } else if let Some(ttl) = self.hub.shared_ttl(session) {
                    self.told.states.begin(session, ttl);
                }
            }
            Action::Health(session, ttl, health) => {
                tracing::debug!(?session, ?ttl, ?health, "the health of a session changed");
                self.told.states.change(session, ttl, health);
            }
            Action::SessionOver(session) => {
                self.told.states.end(session);
                self.deadlines.remove(&session);
            }
            Action::Closed => {
                self.is_closed = true;
                for answer in self.closers.drain(..) {
                    let _ = answer.send(());
                }
            }
        }
    }

    /// Gives the lock to whoever waits for it.
    fn hand_out(&mut self, ticket: Ticket, hold: Hold) {
        let deadline = self.deadline_of(hold.session);
        let state = Arc::new(HoldState::new(deadline, runtime::Handle::current()));
        if let Some(waiter) = self.waiters.remove(&ticket) {
            let now = clock::now();
            self.told.recorder.acquire_ended(now.since(waiter.since), None);
            self.told.recorder.hold_begun();
            self.holds.insert(ticket, Holding { since: now, state: state.clone() });
            (waiter.answer)(Ok(Won { ticket, hold, state, lent: None }));
        }
    }

    fn seal(&mut self, ticket: Ticket, fate: Fate) {
        if let Some(hold) = self.holds.get(&ticket) {
            hold.state.advance(fate);
        }
    }

    fn deadline_of(&mut self, session: SessionId) -> Arc<AtomicU64> {
        self.deadlines.entry(session).or_default().clone()
    }

    fn call(&self, rpc: RpcId, request: Request, timeout: Duration) {
        let (store, kind, begun) = (self.store.clone(), metrics::RequestKind::of(&request), clock::now());
        self.calls.push(Box::pin(async move {
            let call = AssertUnwindSafe(async move { store.call(request, timeout).await }).catch_unwind();
            let result = call.await.unwrap_or_else(|panic| {
                let why = broken("a request", &*panic);
                tracing::error!(%why);
                Err(StoreError::ambiguous(ErrorKind::Internal, why.message()))
            });
            Answered { rpc, result, kind, took: clock::now().since(begun) }
        }));
    }

    fn open_renewals(&mut self, id: StreamId, hedge: u32) {
        let RenewalStream { requests, mut replies } = self.store.renewals(hedge);
        self.renewals.insert(id, requests);
        let heard = self.heard.clone();
        tokio::spawn(async move {
            let mut why = None;
            while let Some(reply) = replies.recv().await {
                match reply {
                    Ok(renewed) => {
                        if heard.send(Heard::Input(Input::Renewed(id, renewed))).await.is_err() {
                            return;
                        }
                    }
                    Err(error) => {
                        tracing::debug!(%error, "a stream of renewals broke");
                        why = Some(error);
                        break;
                    }
                }
            }
            let _ = heard.send(Heard::Input(Input::RenewalsEnded(id, why))).await;
        });
    }
}

/// Passes on what comes on a watch stream, and its end.
fn report_watches(generation: u64, mut stream: WatchStream, heard: mpsc::Sender<Heard>) {
    tokio::spawn(async move {
        loop {
            let reply = stream.replies.recv().await;
            let is_over = !matches!(reply, Some(Ok(_)));
            if heard.send(Heard::Watch((generation, reply))).await.is_err() || is_over {
                return;
            }
        }
    });
}

/// Answers a command that no engine obeys any more.
pub(crate) fn refuse(command: Command, why: &Error) {
    match command {
        Command::Acquire(_, _, answer) => answer(Err(why.clone())),
        Command::Release(_, Some(answer)) => answer(Err(why.clone())),
        Command::Extend(_, _, answer) => drop(answer.send(Err(why.clone()))),
        Command::Observe(_, _, mailbox) => mailbox.end(why.clone()),
        Command::Close(answer) => drop(answer.send(())),
        Command::Cancel(_) | Command::Unobserve(_) | Command::Release(_, None) => {}
    }
}

/// The error of whoever comes after the end.
pub(crate) fn closed() -> Error {
    Error::new(Code::Closed, "the client is closed; open another one")
}

/// The error of whoever was owed an answer by an engine that is gone.
pub(crate) fn ended() -> Error {
    Error::new(Code::Internal, "the engine of this client ended; please report it")
}

/// The error of whoever depended on what panicked.
fn broken(what: &str, panic: &(dyn Any + Send)) -> Error {
    let text = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    let message = format!("{what} panicked ({}); please report it", text.unwrap_or("without a message"));
    Error::new(Code::Internal, message)
}
