//! A client: one etcd cluster, the connections to it, and the sessions of its locks.

use std::{
    fmt,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::{runtime::Handle, sync::oneshot};

use crate::{
    backoff::Backoff,
    clock,
    contender::Metadata,
    engine::{self, Command},
    error::{Code, Error, Result},
    hold::Write,
    hub::{Batching, Config, LeaseIds, WINDOW},
    loan::Loans,
    metrics::{Metrics, Recorder},
    options::{ClientOptions, Target},
    process::PerProcess,
    runtime,
    states::{Board, SessionStatus, States},
    store::{
        ErrorKind, Key, Keys, Pick, Range, Reply, Request, Store, StoreError, etcd::EtcdStore, memory::MemoryStore,
    },
    terms::Ticket,
};

/// Pauses between the attempts of a call that may be repeated.
const BACKOFF: Backoff = Backoff::new(Duration::from_millis(40), Duration::from_millis(500));

/// A connection to an etcd cluster and the sessions of the locks taken through it. Cheap to clone; clones are one client.
///
/// It is lazy: making one opens nothing and starts no thread. The first operation starts one thread for the whole process,
/// which keeps the leases alive whatever the program does with its own threads and runtimes.
///
/// When the last clone, lock and guard are gone, what they left in etcd is removed in the background;
/// [`Client::close`] does that on purpose and waits for it.
///
/// ```
/// # tokio::runtime::Runtime::new().unwrap().block_on(async {
/// let client = leasehold::Client::new("memory://readme")?; // or http://127.0.0.1:2379
/// let guard = client.lock("/lock/mylock").acquire().await?;
/// println!("write this along with what you write: {}", guard.token());
/// guard.release().await?;
/// # Ok::<(), leasehold::Error>(()) }).unwrap();
/// ```
#[derive(Clone)]
pub struct Client {
    inner: Arc<Inner>,
}

struct Inner {
    options: ClientOptions,
    target: Target,
    host: String,
    tickets: AtomicU64,
    is_closed: AtomicBool,
    live: PerProcess<Live>,
}

/// What a client has in this process. A forked child starts anew.
#[derive(Default)]
struct Live {
    states: Arc<Board>,
    running: Mutex<Option<Running>>,
    metadata: OnceLock<Metadata>,
    recorder: Arc<Recorder>,
    loans: Arc<Loans>,
}

/// What runs for a client, once it has been used.
struct Running {
    runtime: Handle,
    store: Arc<dyn Store>,
    engine: engine::Handle,
}

impl ClientOptions {
    /// Checks the options, reads the certificate files and makes the client. Opens no connection and starts no thread.
    ///
    /// # Errors
    /// [`Code::InvalidArgument`], with a message that says which option is wrong and what it should be.
    pub fn build(self) -> Result<Client> {
        let (options, target) = self.check()?;
        if let Target::Etcd(config) = &target {
            // Bad endpoints and certificates fail here, not at the first operation.
            EtcdStore::new((**config).clone())?;
        }
        Ok(Client::assemble(options, target))
    }
}

impl Client {
    /// A client with the endpoints of `url` and default options; see [`ClientOptions::new`] for the form of the URL.
    ///
    /// # Errors
    /// [`Code::InvalidArgument`] if the URL is wrong.
    pub fn new(url: impl Into<String>) -> Result<Self> {
        ClientOptions::new(url).build()
    }

    /// Options to make a client with.
    pub fn builder(url: impl Into<String>) -> ClientOptions {
        ClientOptions::new(url)
    }

    /// A client that speaks to etcd through `store`, whatever the URL of `options` says: for tests that plant faults there.
    #[doc(hidden)]
    pub fn with_store(options: ClientOptions, store: Arc<dyn Store>) -> Result<Self> {
        let (options, _) = options.check()?;
        Ok(Self::assemble(options, Target::Given(store)))
    }

    fn assemble(options: ClientOptions, target: Target) -> Self {
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let inner = Inner {
            options,
            target,
            host,
            tickets: AtomicU64::new(1),
            is_closed: AtomicBool::new(false),
            live: PerProcess::new(),
        };
        Self { inner: Arc::new(inner) }
    }

    /// Asks etcd for a sign of life: a read that a majority of the cluster has confirmed.
    ///
    /// # Errors
    /// [`Code::Unavailable`] or [`Code::DeadlineExceeded`] if there is none within the request timeout,
    /// [`Code::Unauthenticated`] if etcd refuses user, password or certificate, [`Code::Closed`] if the client is closed.
    ///
    /// # Cancel safety
    /// Reads only.
    pub async fn ping(&self) -> Result<()> {
        let keys = Keys::one(self.in_namespace(b"leasehold/ping"));
        let request = Request::Range(Range { keys, limit: 1, keys_only: true, pick: Pick::All });
        match self.call(request, "ping").await {
            // The user may not read that key, but the cluster has looked at it.
            Err(error) if error.code() == Code::PermissionDenied => Ok(()),
            result => result.map(drop),
        }
    }

    /// Listens to the states of the client's sessions from now on: a warning when renewals stay out, and the loss.
    /// [`Client::sessions`] tells what is so now; listen first, then ask, and no change is missed.
    pub fn states(&self) -> States {
        self.inner.live.get().states.listen()
    }

    /// How each of the client's sessions feels now, the shortest TTL first. There is one for each TTL that its locks asked for,
    /// from the first acquire on; holds without renewal are not among them. Asks nobody.
    pub fn sessions(&self) -> Vec<SessionStatus> {
        self.inner.live.get().states.current()
    }

    /// What this client has counted and timed in this process: acquires by outcome, holds, losses, renewals and the time they had
    /// left, requests. Asks nobody; the counting costs some nanoseconds each and is always on.
    ///
    /// Its `Display` is the text format of OpenMetrics, for an endpoint that Prometheus reads:
    /// `client.metrics().to_string()`, as `application/openmetrics-text; version=1.0.0; charset=utf-8`.
    pub fn metrics(&self) -> Metrics {
        self.inner.live.get().recorder.read()
    }

    /// Releases everything that this client and its clones hold or wait for, and ends it. Guards are lost with
    /// [`LostReason::ClientClosed`](crate::LostReason::ClientClosed), acquires fail with [`Code::Closed`]. Closing twice is no error.
    ///
    /// # Errors
    /// None at present; if etcd cannot be reached within the request timeout, what is left there ends with its lease.
    ///
    /// # Cancel safety
    /// Dropping the future does not stop the closing.
    pub async fn close(&self) -> Result<()> {
        let engine = {
            let running = self.running();
            self.inner.is_closed.store(true, Ordering::Release);
            running.as_ref().map(|running| running.engine.clone())
        };
        let (answer, closed) = oneshot::channel();
        if engine.is_some_and(|engine| engine.send(Command::Close(answer)).is_ok()) {
            // An engine that ends without an answer has closed, too.
            let _ = closed.await;
        }
        *self.running() = None;
        Ok(())
    }

    /// [`Client::close`] for threads without a runtime: blocks until it is done.
    ///
    /// # Errors
    /// As [`Client::close`].
    pub fn blocking_close(&self) -> Result<()> {
        pollster::block_on(self.close())
    }

    /// Sends one request through this client's connection and thread, as its locks do: what benchmarks compare them with.
    #[doc(hidden)]
    pub async fn raw_call(&self, request: Request) -> Result<Reply> {
        self.call_once(request, "a raw call").await
    }

    /// Who this client says it is to whoever looks at a queue: [`ClientOptions::identity`], or `<host>:<pid>`.
    pub fn identity(&self) -> String {
        let by_default = || format!("{}:{}", self.inner.host, std::process::id());
        self.inner.options.identity.clone().unwrap_or_else(by_default)
    }

    /// What a contender's key says about this client.
    pub(crate) fn metadata(&self) -> Arc<[u8]> {
        let metadata = self.inner.live.get().metadata.get_or_init(|| Metadata::new(&self.identity(), &self.inner.host));
        metadata.now().into_bytes().into()
    }

    pub(crate) fn ttl(&self) -> Duration {
        self.inner.options.ttl
    }

    pub(crate) fn namespace(&self) -> &str {
        &self.inner.options.namespace
    }

    pub(crate) fn in_namespace(&self, key: &[u8]) -> Key {
        Key::from([self.namespace().as_bytes(), key].concat())
    }

    /// Places that linger, unless the client is closed.
    pub(crate) fn loans(&self) -> Option<&Loans> {
        (!self.inner.is_closed.load(Ordering::Acquire)).then(|| &*self.inner.live.get().loans)
    }

    /// Whether `other` is the same client, or a clone of it.
    pub(crate) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }

    pub(crate) fn next_ticket(&self) -> Ticket {
        Ticket(self.inner.tickets.fetch_add(1, Ordering::Relaxed))
    }

    /// Hands a command to the engine; starts it if need be. Where that fails, its answer says why.
    pub(crate) fn send(&self, command: Command) {
        let engine = match self.run(|_, _, engine| engine.clone()) {
            Ok(engine) => engine,
            Err(error) => return engine::refuse(command, &error),
        };
        let Err(command) = engine.send(command) else { return };
        match engine.failure() {
            None => engine::refuse(command, &engine::closed()),
            Some(failure) => {
                // Whoever comes next finds another engine.
                self.running().take_if(|running| running.engine.is(&engine));
                engine::refuse(command, failure);
            }
        }
    }

    /// Sends a request that is safe to repeat, and repeats it until it is answered or the request timeout has passed.
    pub(crate) async fn call(&self, request: Request, what: &str) -> Result<Reply> {
        let limit = self.inner.options.request_timeout;
        let attempt = self.attempt_timeout();
        self.store_task(what, move |store| async move {
            let mut last = StoreError::refused(ErrorKind::Timeout, "etcd did not answer in time");
            let salt = clock::now().as_nanos();
            let retry = async {
                let mut failures = 0;
                loop {
                    match store.call(request.clone(), attempt).await {
                        Err(error) if error.is_transient() => last = error,
                        result => return result,
                    }
                    failures += 1;
                    tokio::time::sleep(BACKOFF.pause(failures, salt)).await;
                }
            };
            tokio::time::timeout(limit, retry).await.unwrap_or(Err(last))
        })
        .await
    }

    /// Sends a request once.
    pub(crate) async fn call_once(&self, request: Request, what: &str) -> Result<Reply> {
        let limit = self.inner.options.request_timeout;
        self.store_task(what, move |store| async move { store.call(request, limit).await }).await
    }

    /// Sends a guarded write, once, and notes whether its fate is known.
    pub(crate) async fn write_once(&self, request: Request, write: Write, what: &str) -> Result<Reply> {
        let limit = self.inner.options.request_timeout;
        let work = move |store: Arc<dyn Store>| async move {
            let result = store.call(request, limit).await;
            if !result.as_ref().is_err_and(|error| error.ambiguous) {
                write.settle();
            }
            result
        };
        self.store_task(what, work).await
    }

    /// Runs `work` beside the engine, so that it goes on when its caller is dropped and needs no runtime of the caller's.
    async fn store_task<F>(&self, what: &str, work: impl FnOnce(Arc<dyn Store>) -> F) -> Result<Reply>
    where
        F: Future<Output = std::result::Result<Reply, StoreError>> + Send + 'static,
    {
        let task = self.run(|runtime, store, _| runtime.spawn(work(store.clone())))?;
        match task.await {
            Ok(result) => result.map_err(|error| Error::from_store(&error, what)),
            Err(_) => Err(Error::new(Code::Internal, format!("{what}: the task ended early; please report it"))),
        }
    }

    /// A single attempt takes at most a third of an operation's time: an endpoint that is silent leaves time for another.
    fn attempt_timeout(&self) -> Duration {
        self.inner.options.request_timeout / 3
    }

    fn running(&self) -> MutexGuard<'_, Option<Running>> {
        self.inner.live.get().running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives `act` what runs for this client; starts it if nothing does yet.
    fn run<T>(&self, act: impl FnOnce(&Handle, &Arc<dyn Store>, &engine::Handle) -> T) -> Result<T> {
        let mut running = self.running();
        if self.inner.is_closed.load(Ordering::Acquire) {
            return Err(engine::closed());
        }
        if let Some(Running { runtime, store, engine }) = &*running {
            return Ok(act(runtime, store, engine));
        }
        let runtime = runtime::handle()?;
        let seed = getrandom::u64()
            .map_err(|error| Error::new(Code::Internal, format!("the system gives no random numbers: {error}")))?;
        let store: Arc<dyn Store> = match &self.inner.target {
            Target::Memory(name) => MemoryStore::open(name),
            Target::Etcd(config) => {
                // A thousand programs that were given the same list must not all begin with the same member.
                let shuffle = (!self.inner.options.in_order).then_some(seed);
                Arc::new(EtcdStore::shared(config, shuffle)?)
            }
            Target::Given(store) => store.clone(),
        };
        let config = Config {
            namespace: self.namespace().to_owned(),
            ttl: self.ttl(),
            call_timeout: self.attempt_timeout(),
            request_timeout: self.inner.options.request_timeout,
            window: WINDOW,
            batching: if self.inner.options.batches { Batching::USUAL } else { Batching::OFF },
            seed,
            lease_ids: LeaseIds::System,
        };
        let live = self.inner.live.get();
        let told =
            engine::Told { states: live.states.clone(), recorder: live.recorder.clone(), loans: live.loans.clone() };
        let engine = engine::start(config, store.clone(), told, &runtime);
        let result = act(&runtime, &store, &engine);
        *running = Some(Running { runtime, store, engine });
        Ok(result)
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("identity", &self.identity()).field("options", &self.inner.options).finish()
    }
}
