//! One JavaScript environment: its completion queue, what wakes its event loop, and the clients that end with it.

use std::{
    cell::{Cell, OnceCell, RefCell},
    rc::{self, Rc},
    sync::{Arc, Weak},
    time::Duration,
};

use leasehold_bridge::{
    Client, Completion, HostOptions, OpId, Queue, Sink,
    client::milliseconds,
    logs::{self, Level},
    operation, shutdown,
};
use napi::{
    Env, Status,
    bindgen_prelude::Function,
    sys,
    threadsafe_function::{ThreadsafeFunction, ThreadsafeFunctionCallMode},
};
use napi_derive::napi;

use crate::{
    Result, as_number,
    client::{ClientHandle, OpenOptions},
    enter,
    value::Completions,
    whole,
};

/// How long the end of a worker waits for its locks to be released: it is not the end of the process, so what takes longer is
/// done all the same.
const WORKER_EXIT: Duration = Duration::from_millis(200);

/// Completions taken in one go, so that a flood of them leaves the event loop its other turns.
const MOST: usize = 256;

/// In the lowest bit of what the queue knows an operation by: somebody waits for it. The rest is JavaScript's tag.
const AWAITED: u64 = 1;

/// Wakes the event loop, and brings it what is in the queue by then; weak, so that it keeps no process alive by being there.
type Waker = ThreadsafeFunction<(), (), Completions, Status, false, true>;

/// What everything of one environment shares.
pub(crate) struct Shared {
    env: sys::napi_env,
    waker: Arc<Waker>,
    queue: Arc<Queue>,
    /// What keeps the event loop alive: operations under way, and who waits for the next of a stream.
    awaited: Cell<usize>,
    clients: RefCell<Vec<Open>>,
    /// Names of locks whose guards were collected while they held, until JavaScript is told.
    forgotten: RefCell<Vec<String>>,
    is_over: Cell<bool>,
    is_worker: bool,
}

/// Why a guard is dropped that still holds.
pub(crate) enum Leaving {
    /// It was garbage collected.
    Forgotten,
    /// The main environment is torn down. What was to be released is, by [`Environment::exit`].
    ProcessEnds,
    /// A worker is torn down, while its process lives on.
    WorkerEnds,
}

/// A client that was not closed yet, as far as we know.
struct Open {
    client: Weak<Client>,
    /// How long the end of the process may wait for it; `None` to leave its locks to their leases.
    exit_limit: Option<Duration>,
}

impl Shared {
    /// Starts an operation that JavaScript knows by `tag`, and waits for: until it is completed, the event loop does not end by
    /// itself. Returns what cancels it.
    pub(crate) fn start(&self, tag: f64, begin: impl FnOnce(Sink) -> OpId) -> Result<f64> {
        let operation = enter(|| Ok(begin(self.queue.sink(whole(tag) << 1 | AWAITED))))?;
        self.hold();
        Ok(as_number(operation.0))
    }

    /// One more that somebody waits for.
    fn hold(&self) {
        if self.awaited.replace(self.awaited.get() + 1) == 0 {
            // SAFETY: this is the environment's thread, and the function lives as long as its environment.
            unsafe { sys::napi_ref_threadsafe_function(self.env, self.waker.handle.get_raw()) };
        }
    }

    /// So many fewer.
    fn let_go(&self, count: usize) {
        if count > 0 && self.awaited.replace(self.awaited.get() - count) == count {
            // SAFETY: as above.
            unsafe { sys::napi_unref_threadsafe_function(self.env, self.waker.handle.get_raw()) };
        }
    }

    /// Where the results of an operation go that JavaScript knows by `tag`, and only listens to.
    pub(crate) fn sink(&self, tag: f64) -> Sink {
        self.queue.sink(whole(tag) << 1)
    }

    /// What operations brought since it was asked last, each with its tag, or a part of it: then the loop is woken once more.
    pub(crate) fn drain(&self) -> impl Iterator<Item = (f64, Completion)> {
        let completions = self.queue.drain(MOST);
        let awaited = completions.iter().filter(|done| done.is_last && done.tag & AWAITED != 0).count();
        self.let_go(awaited);
        completions.into_iter().map(|completion| (as_number(completion.tag >> 1), completion))
    }

    /// Tells JavaScript that the guard of this lock was collected while it held. It is not called here: this may be in the midst
    /// of a collection.
    pub(crate) fn forget(&self, name: &str) {
        self.forgotten.borrow_mut().push(name.to_owned());
        // As for the queue.
        let _ = self.waker.call((), ThreadsafeFunctionCallMode::NonBlocking);
    }

    /// The names of the locks that were forgotten since it was asked last.
    pub(crate) fn forgotten(&self) -> Vec<String> {
        self.forgotten.take()
    }

    /// What is dropped while it holds, and why.
    pub(crate) fn leaving(&self) -> Leaving {
        match (self.is_over.get(), self.is_worker) {
            (false, _) => Leaving::Forgotten,
            (true, false) => Leaving::ProcessEnds,
            (true, true) => Leaving::WorkerEnds,
        }
    }

    /// Forgets clients that are gone. Returns the others.
    fn open(&self) -> Vec<(Arc<Client>, Option<Duration>)> {
        let mut clients = self.clients.borrow_mut();
        clients.retain(|open| open.client.strong_count() > 0);
        clients.iter().filter_map(|open| Some((open.client.upgrade()?, open.exit_limit))).collect()
    }

    /// The environment is torn down: nobody drains the queue any more.
    fn end(&self) {
        self.is_over.set(true);
        // A worker that was terminated has not come to `exit`, and nobody is left to close what it opened. First that: what is
        // under way ends as closed then, and withdraws its keys. The main environment ends with its process, where `exit` has
        // done what was asked for.
        let clients = if self.is_worker { self.open() } else { Vec::new() };
        let closing = shutdown::start(clients.iter().map(|(client, _)| client));
        self.queue.close();
        closing.wait(WORKER_EXIT);
    }
}

/// An environment as the package uses it: one for each thread of JavaScript.
#[napi]
pub struct Environment {
    pub(crate) shared: Rc<Shared>,
}

#[napi]
impl Environment {
    /// `onCompletions` is called on this environment's thread with what operations brought. Four values for each, one after
    /// the other, because objects with names take longer: its tag, whether it is the last of its operation, the failure or
    /// null, and what it brought. Under the tag 0, which is no operation's, come the names of locks that were forgotten.
    #[napi(constructor)]
    pub fn new(
        env: Env,
        #[napi(ts_arg_type = "(...flat: unknown[]) => void")] on_completions: Function<'_, Completions, ()>,
        is_worker: bool,
    ) -> napi::Result<Self> {
        // Known when there is a queue, which needs the waker.
        let me: Rc<OnceCell<rc::Weak<Shared>>> = Rc::default();
        let waker = on_completions.build_threadsafe_function::<()>().weak::<true>().build_callback({
            let me = me.clone();
            move |_| Ok(Completions(me.get().and_then(rc::Weak::upgrade)))
        })?;
        let waker = Arc::new(waker);
        let wake = waker.clone();
        let queue = Queue::with_waker(move || {
            // A loop that is closing needs no waking: its environment ends, and `Shared::end` does the rest.
            let _ = wake.call((), ThreadsafeFunctionCallMode::NonBlocking);
        });
        let shared = Rc::new(Shared {
            env: env.raw(),
            waker,
            queue,
            awaited: Cell::default(),
            clients: RefCell::default(),
            forgotten: RefCell::default(),
            is_over: Cell::default(),
            is_worker,
        });
        me.get_or_init(|| Rc::downgrade(&shared));
        let ending = shared.clone();
        env.add_env_cleanup_hook((), move |()| ending.end())?;
        Ok(Self { shared })
    }

    /// Makes a client. At the exit of the process its locks are released, for which the exit waits at most `exitLimit`
    /// milliseconds; 0 leaves them to their leases.
    #[napi]
    pub fn open(&self, options: OpenOptions, exit_limit: i64) -> Result<ClientHandle> {
        enter(|| {
            let client = Client::open(HostOptions::from(options).try_into()?)?;
            let exit_limit = milliseconds(exit_limit).filter(|limit| !limit.is_zero());
            self.shared.open();
            self.shared.clients.borrow_mut().push(Open { client: Arc::downgrade(&client), exit_limit });
            Ok(ClientHandle::new(client, self.shared.clone()))
        })
    }

    /// Cancels an operation; false if it is over.
    #[napi]
    pub fn cancel(&self, operation: f64) -> bool {
        operation::cancel(OpId(whole(operation)))
    }

    /// Somebody waits, which keeps the event loop alive, until `let_go`.
    #[napi]
    pub fn hold(&self) {
        self.shared.hold();
    }

    /// The opposite of `hold`.
    #[napi]
    pub fn let_go(&self) {
        self.shared.let_go(1);
    }

    /// Sends what the core has to say to `tag`, from `level` up: 0 nothing, 1 errors, and so on to 5, which is all of it.
    #[napi]
    pub fn listen(&self, tag: f64, level: u8) -> Result<()> {
        let level = Level::from_number(level.into()).unwrap_or(Level::Trace);
        enter(|| logs::listen(level, self.shared.sink(tag)))
    }

    /// The process exits: closes the clients that want it, for as long as they want it. False if that was not long enough.
    #[napi]
    pub fn exit(&self) -> Result<bool> {
        enter(|| {
            let clients = self.shared.open();
            let closing = clients.iter().filter_map(|(client, limit)| limit.map(|_| client));
            let limit = clients.iter().filter_map(|(_, limit)| *limit).max();
            Ok(shutdown::start(closing).wait(limit.unwrap_or_default()))
        })
    }
}
