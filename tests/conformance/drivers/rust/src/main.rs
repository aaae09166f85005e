//! The conformance driver of the Rust API: one JSON request a line on stdin, replies and events on stdout.
//!
//! It does no locking, waiting or retrying of its own. Every request that has to wait becomes a task, so that later requests
//! are not held up; to cancel one is to drop its future. At the end of the input it ends at once and releases nothing.

mod request;

use std::{
    collections::{HashMap, HashSet},
    io::{self, BufRead as _, Write as _},
    process::exit,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use leasehold::{All, Client, ClientOptions, Code, Error, Guard, LocalFirst, Lock, SessionState};
use request::{Refusal, Request, invalid, malformed, unsupported};
use serde_json::{Value, json};
use tokio::{runtime::Runtime, sync::RwLock, task::AbortHandle};

/// The fields of a successful reply, or why there is none.
type Answer = Result<Value, Refusal>;

/// A guard that several requests use and one of them releases; `None` once it is released.
type Hold = Arc<RwLock<Option<Guard>>>;

/// What requests refer to by name.
#[derive(Default)]
struct Driver {
    clients: HashMap<String, Client>,
    holds: Arc<Mutex<HashMap<String, Hold>>>,
    /// Every request there was, by its id.
    seen: HashSet<String>,
    /// Those that were not answered at once.
    tasks: HashMap<String, AbortHandle>,
    /// What observes elections, by the names that the runner chose.
    watches: Arc<Mutex<HashMap<String, AbortHandle>>>,
}

fn main() -> io::Result<()> {
    let runtime = Runtime::new()?;
    let _context = runtime.enter();
    let mut driver = Driver::default();
    let mut input = io::stdin().lock();
    let mut line = Vec::new();
    while input.read_until(b'\n', &mut line)? > 0 {
        driver.line(&line);
        line.clear();
    }
    // As a crash would: the runtime is not shut down and no guard is dropped.
    exit(0)
}

impl Driver {
    fn line(&mut self, line: &[u8]) {
        let request = match serde_json::from_slice(line) {
            Ok(Value::Object(fields)) => Request(fields),
            Ok(_) => return reply(&Value::Null, Err(malformed("a request is a JSON object"))),
            Err(error) => return reply(&Value::Null, Err(malformed(format!("a request is a JSON object: {error}")))),
        };
        let id = request.0.get("id").cloned().unwrap_or_default();
        if id.is_null() {
            return reply(&id, Err(malformed("the field \"id\" is missing")));
        }
        self.seen.insert(id.to_string());
        if let Err(refusal) = self.request(&id, &request) {
            reply(&id, Err(refusal));
        }
    }

    /// Answers a request now, or starts what will answer it.
    fn request(&mut self, id: &Value, request: &Request) -> Result<(), Refusal> {
        match request.text("op")? {
            "open" => {
                let name = request.text("client")?.to_owned();
                let client = options(request)?.build()?;
                forget(self.clients.insert(name, client));
                reply(id, Ok(json!({})));
            }
            "ping" => {
                let client = self.client(request)?;
                self.start(id, async move { Ok(client.ping().await.map(|()| json!({}))?) });
            }
            "close" => {
                let client = self.client(request)?;
                self.start(id, async move { Ok(client.close().await.map(|()| json!({}))?) });
            }
            "acquire" => self.acquire(id, request)?,
            "cancel" => {
                let target = request.target()?.to_string();
                if !self.seen.contains(&target) {
                    return Err(malformed(format!("no request {target} was made")));
                }
                // Where it is answered already, this comes too late, and does nothing.
                if let Some(task) = self.tasks.get(&target) {
                    task.abort();
                }
                reply(id, Ok(json!({})));
            }
            "check" => {
                let hold = self.hold(request)?;
                // Neither while it is being released nor after it does anybody hold.
                let guard = hold.try_read().ok();
                let (held, remaining) = match guard.as_deref() {
                    Some(Some(guard)) => (guard.is_held(), guard.remaining()),
                    _ => (false, Default::default()),
                };
                reply(id, Ok(json!({"held": held, "remaining_ms": remaining.as_millis() as u64})));
            }
            "on_lost" => {
                let name = request.text("hold")?.to_owned();
                let hold = self.hold(request)?;
                // One that is released is never lost any more.
                let lost = match hold.try_read().as_deref() {
                    Ok(Some(guard)) => Some(guard.lost()),
                    _ => None,
                };
                reply(id, Ok(json!({})));
                tokio::spawn(async move {
                    let Some(lost) = lost else { return };
                    let (reason, mono_ns) = (lost.await, mono_ns());
                    write(json!({"event": "lost", "hold": name, "reason": reason.name(), "mono_ns": mono_ns}));
                });
            }
            "on_state" => {
                let name = request.text("client")?.to_owned();
                let mut states = self.client(request)?.states();
                reply(id, Ok(json!({})));
                tokio::spawn(async move {
                    while let Some(status) = states.next().await {
                        let mono_ns = mono_ns();
                        let state = match status.state {
                            SessionState::Ok => "OK",
                            SessionState::Suspect => "SUSPECT",
                            SessionState::Lost(_) => "LOST",
                            _ => "UNKNOWN",
                        };
                        write(json!({"event": "state", "client": name, "state": state, "mono_ns": mono_ns}));
                    }
                });
            }
            "release" => {
                let hold = self.hold(request)?;
                self.start(id, async move {
                    let guard = hold.write().await.take().ok_or_else(not_held)?;
                    Ok(guard.release().await.map(|()| json!({}))?)
                });
            }
            "guarded_put" => {
                let (key, value) = (request.text("key")?.to_owned(), request.text("value")?.to_owned());
                let hold = self.hold(request)?;
                self.start(id, async move {
                    let guard = hold.read().await;
                    Ok(guard.as_ref().ok_or_else(not_held)?.put(key, value).await.map(|_| json!({}))?)
                });
            }
            "guarded_delete" => {
                let key = request.text("key")?.to_owned();
                let hold = self.hold(request)?;
                self.start(id, async move {
                    let guard = hold.read().await;
                    guard.as_ref().ok_or_else(not_held)?.delete(key).await?;
                    Ok(json!({"values": []}))
                });
            }
            "campaign" => self.campaign(id, request)?,
            "proclaim" => {
                let value = request.text("value")?.to_owned();
                let hold = self.hold(request)?;
                self.start(id, async move {
                    let guard = hold.read().await;
                    Ok(guard.as_ref().ok_or_else(not_held)?.proclaim(value).await.map(|()| json!({}))?)
                });
            }
            "leader" => {
                let election = self.client(request)?.election(request.text("election")?);
                self.start(id, async move { Ok(leader(election.leader().await?)) });
            }
            "observe" => self.observe(id, request)?,
            "unobserve" => {
                let name = request.text("watch")?;
                let watch = self.watches.lock().unwrap_or_else(PoisonError::into_inner).remove(name);
                // Dropping the observer is how Rust ends it. One that is over already is none the worse for it.
                watch.ok_or_else(|| malformed(format!("nobody observes as {name:?}")))?.abort();
                reply(id, Ok(json!({})));
            }
            "guarded_txn" => self.guarded_txn(id, request)?,
            "extend" => {
                let ttl = request.millis("ttl_ms")?;
                let hold = self.hold(request)?;
                self.start(id, async move {
                    let guard = hold.read().await;
                    Ok(guard.as_ref().ok_or_else(not_held)?.extend(ttl).await.map(|_| json!({}))?)
                });
            }
            "queue" => {
                let name = request.text("lock")?;
                let lock = self.client(request)?.lock(name);
                self.start(id, async move {
                    let contender = |contender: leasehold::Contender| {
                        json!({
                            "key": contender.key,
                            "token": contender.token,
                            "lease": contender.lease.map(|lease| lease.to_string()),
                            "identity": contender.identity,
                            "foreign": contender.foreign,
                        })
                    };
                    let contenders: Vec<_> = lock.queue().await?.into_iter().map(contender).collect();
                    Ok(json!({"contenders": contenders}))
                });
            }
            "force_release" => {
                let (name, token) = (request.text("lock")?, request.integer("token")?);
                let lock = self.client(request)?.lock(name);
                self.start(id, async move { Ok(lock.force_release(token).await.map(|()| json!({}))?) });
            }
            "version" => reply(id, Ok(json!({"language": "rust", "version": env!("CARGO_PKG_VERSION")}))),
            other => return Err(unsupported(format!("the Rust driver knows no operation {other:?}"))),
        }
        Ok(())
    }

    fn acquire(&mut self, id: &Value, request: &Request) -> Result<(), Refusal> {
        match request.text_if_any("via")? {
            None | Some("async") => {}
            Some("sync") => return Err(unsupported("Rust has no blocking form")),
            Some(other) => return Err(malformed(format!("via is async or sync, not {other:?}"))),
        }
        let is_try = match request.text_if_any("mode")? {
            None | Some("wait") => false,
            Some("try") => true,
            Some(other) => return Err(malformed(format!("mode is wait or try, not {other:?}"))),
        };
        let wait = request.millis_if_any("wait_ms")?;
        let name = request.text("hold")?.to_owned();
        let how = Options {
            ttl: request.millis_if_any("ttl_ms")?,
            renew: request.flag_if_any("renew")?,
            requeue: request.flag_if_any("requeue")?,
            local_first: request.local_first()?,
            linger: request.millis_if_any("linger_ms")?,
        };
        let client = self.client(request)?;
        let asked = match request.objects_if_any("locks")? {
            None => how.of_one(lock(&client, request)?),
            Some(locks) => {
                let locks: Result<Vec<Lock>, Refusal> = locks.iter().map(|one| lock(&client, one)).collect();
                how.of_all(client.all(locks?))
            }
        };
        let holds = Arc::clone(&self.holds);
        self.start(id, async move {
            let guard = match (&asked, wait) {
                (Asked::One(lock), _) if is_try => lock.try_acquire().await?.ok_or_else(taken)?,
                (Asked::All(all), _) if is_try => all.try_acquire().await?.ok_or_else(taken)?,
                (Asked::One(lock), Some(limit)) => lock.acquire_within(limit).await?,
                (Asked::All(all), Some(limit)) => all.acquire_within(limit).await?,
                (Asked::One(lock), None) => lock.acquire().await?,
                (Asked::All(all), None) => all.acquire().await?,
            };
            let keys = matches!(asked, Asked::All(_)).then(|| guard.keys());
            let mut fields = keep(&holds, name, guard);
            if let Some(keys) = keys {
                fields["keys"] = keys.into();
            }
            Ok(fields)
        });
        Ok(())
    }

    fn campaign(&mut self, id: &Value, request: &Request) -> Result<(), Refusal> {
        let wait = request.millis_if_any("wait_ms")?;
        let (name, value) = (request.text("hold")?.to_owned(), request.text("value")?.to_owned());
        let election = self.client(request)?.election(request.text("election")?);
        let holds = Arc::clone(&self.holds);
        self.start(id, async move {
            let guard = match wait {
                Some(limit) => election.campaign_within(value, limit).await?,
                None => election.campaign(value).await?,
            };
            Ok(keep(&holds, name, guard))
        });
        Ok(())
    }

    fn observe(&mut self, id: &Value, request: &Request) -> Result<(), Refusal> {
        let name = request.text("watch")?.to_owned();
        let mut observer = self.client(request)?.election(request.text("election")?).observe();
        let id = id.clone();
        let watches = Arc::clone(&self.watches);
        let mut watches = watches.lock().unwrap_or_else(PoisonError::into_inner);
        let event = {
            let name = name.clone();
            move |observed: leasehold::Observed| {
                let mut event = leader(observed.leader);
                event["mono_ns"] = mono_ns().into();
                event["event"] = "leader".into();
                event["watch"] = name.as_str().into();
                write(event);
            }
        };
        let task = tokio::spawn(async move {
            let first = match observer.next().await {
                Ok(first) => first,
                Err(error) => return reply(&id, Err(error.into())),
            };
            reply(&id, Ok(json!({})));
            event(first);
            while let Ok(observed) = observer.next().await {
                event(observed);
            }
        });
        // A name that is given anew stands for the new one, and the old one goes on.
        watches.insert(name, task.abort_handle());
        Ok(())
    }

    fn guarded_txn(&mut self, id: &Value, request: &Request) -> Result<(), Refusal> {
        let puts = request.pairs_if_any("puts")?.unwrap_or_default();
        let deletes = request.texts_if_any("deletes")?.unwrap_or_default();
        let gets = request.texts_if_any("gets")?.unwrap_or_default();
        let hold = self.hold(request)?;
        self.start(id, async move {
            let guard = hold.read().await;
            let txn = guard.as_ref().ok_or_else(not_held)?.txn();
            let txn = puts.iter().fold(txn, |txn, (key, value)| txn.put(key, value));
            let txn = deletes.iter().fold(txn, |txn, key| txn.delete(key));
            let committed = gets.iter().fold(txn, |txn, key| txn.get(key)).commit().await?;
            let text = |value: Option<Vec<u8>>| value.map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
            Ok(json!({"values": committed.values.into_iter().map(text).collect::<Vec<_>>()}))
        });
        Ok(())
    }

    /// Runs `work` in a task that `cancel` can end, and answers with what came of it.
    fn start(&mut self, id: &Value, work: impl Future<Output = Answer> + Send + 'static) {
        let task = tokio::spawn(work);
        self.tasks.insert(id.to_string(), task.abort_handle());
        let id = id.clone();
        tokio::spawn(async move {
            let answer = match task.await {
                Ok(answer) => answer,
                Err(error) if error.is_cancelled() => Err(Error::new(Code::Cancelled, "its future was dropped").into()),
                Err(error) => Err(Error::new(Code::Internal, format!("it panicked: {error}")).into()),
            };
            reply(&id, answer);
        });
    }

    fn client(&self, request: &Request) -> Result<Client, Refusal> {
        let name = request.text("client")?;
        self.clients.get(name).cloned().ok_or_else(|| malformed(format!("no client {name:?} was opened")))
    }

    fn hold(&self, request: &Request) -> Result<Hold, Refusal> {
        let holds = self.holds.lock().unwrap_or_else(PoisonError::into_inner);
        holds.get(request.text("hold")?).cloned().ok_or_else(not_held)
    }
}

/// What an acquire asks for.
enum Asked {
    One(Lock),
    All(All),
}

/// How.
struct Options {
    ttl: Option<Duration>,
    renew: Option<bool>,
    requeue: Option<bool>,
    local_first: Option<LocalFirst>,
    linger: Option<Duration>,
}

impl Options {
    fn of_one(&self, mut lock: Lock) -> Asked {
        lock = self.ttl.into_iter().fold(lock, Lock::ttl);
        lock = self.renew.into_iter().fold(lock, Lock::renew);
        lock = self.local_first.into_iter().fold(lock, Lock::local_first_within);
        lock = self.linger.into_iter().fold(lock, Lock::linger);
        Asked::One(self.requeue.into_iter().fold(lock, Lock::requeue))
    }

    fn of_all(&self, mut all: All) -> Asked {
        all = self.ttl.into_iter().fold(all, All::ttl);
        all = self.renew.into_iter().fold(all, All::renew).sharing(self.local_first, self.linger);
        Asked::All(self.requeue.into_iter().fold(all, All::requeue))
    }
}

fn taken() -> Error {
    Error::new(Code::NotAcquired, "somebody holds it")
}

/// The lock that an acquire, or one of several in it, asks for.
fn lock(client: &Client, request: &Request) -> Result<Lock, Refusal> {
    let (name, permits) = (request.text("lock")?, request.permits_if_any("permits")?);
    let lock = match (request.text_if_any("kind")?, request.permits_if_any("limit")?) {
        (None | Some("mutex"), None) => client.lock(name),
        (Some("shared"), None) => client.lock(name).shared(),
        (Some("semaphore"), Some(limit)) => client.semaphore(name, limit),
        (Some("semaphore"), None) => return Err(malformed("a semaphore needs the field \"limit\"")),
        (None | Some("mutex" | "shared"), Some(_)) => return Err(invalid("only a semaphore has a limit")),
        (Some(other), _) => return Err(unsupported(format!("there is no lock of the kind {other:?}"))),
    };
    Ok(match permits {
        Some(permits) => lock.permits(permits),
        None => lock,
    })
}

fn options(request: &Request) -> Result<ClientOptions, Refusal> {
    let mut options = ClientOptions::from_endpoints(request.texts("endpoints")?);
    if let Some(ttl) = request.millis_if_any("ttl_ms")? {
        options = options.ttl(ttl);
    }
    if let Some(namespace) = request.text_if_any("namespace")? {
        options = options.namespace(namespace);
    }
    match (request.text_if_any("user")?, request.text_if_any("password")?) {
        (Some(user), password) => options = options.user(user, password.unwrap_or_default()),
        (None, Some(_)) => return Err(invalid("a password needs a user")),
        (None, None) => {}
    }
    if let Some(path) = request.text_if_any("ca_file")? {
        options = options.ca_file(path);
    }
    if let Some(path) = request.text_if_any("cert_file")? {
        options = options.cert_file(path);
    }
    if let Some(path) = request.text_if_any("key_file")? {
        options = options.key_file(path);
    }
    if let Some(limit) = request.millis_if_any("connect_timeout_ms")? {
        options = options.connect_timeout(limit);
    }
    if let Some(limit) = request.millis_if_any("request_timeout_ms")? {
        options = options.request_timeout(limit);
    }
    if let Some(identity) = request.text_if_any("identity")? {
        options = options.identity(identity);
    }
    Ok(options)
}

/// Keeps a guard under its name; what is said about it.
fn keep(holds: &Mutex<HashMap<String, Hold>>, name: String, guard: Guard) -> Value {
    let fields = json!({
        "key": guard.key(),
        "token": guard.token(),
        "sequence": guard.sequence(),
        "lease": guard.lease().to_string(),
        "remaining_ms": guard.remaining().as_millis() as u64,
    });
    let hold = Arc::new(RwLock::new(Some(guard)));
    forget(holds.lock().unwrap_or_else(PoisonError::into_inner).insert(name, hold));
    fields
}

/// Who leads, for a reply or an event.
fn leader(leader: Option<leasehold::Leader>) -> Value {
    let value = leader.as_ref().map(|leader| String::from_utf8_lossy(&leader.value).into_owned());
    json!({"value": value, "token": leader.map(|leader| leader.token)})
}

/// What a name stood for goes on when the name is given to something else: dropped, it would be released.
fn forget<T>(former: Option<T>) {
    std::mem::forget(former);
}

fn not_held() -> Refusal {
    Error::new(Code::NotHeld, "there is no such hold, or it was released before").into()
}

fn reply(id: &Value, answer: Answer) {
    // Read before anything else: it dates what the API answered, not what it takes to say so.
    let mono_ns = mono_ns();
    let mut message = match answer {
        Ok(fields) => fields,
        Err(Refusal { code, message }) => json!({"code": code, "message": message}),
    };
    message["ok"] = message.get("code").is_none().into();
    message["id"] = id.clone();
    message["mono_ns"] = mono_ns.into();
    write(message);
}

fn write(message: Value) {
    let mut out = io::stdout().lock();
    if writeln!(out, "{message}").and_then(|()| out.flush()).is_err() {
        // Nobody listens any more.
        exit(1);
    }
}

/// `CLOCK_MONOTONIC`, the same for every process of this machine.
fn mono_ns() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
