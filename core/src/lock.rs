//! A lock: a name, and how to acquire it.

use std::{sync::Arc, time::Duration};

use tokio::sync::oneshot;
use tracing::Instrument;

use crate::{
    client::Client,
    contender::{self, Contender},
    engine::{self, Command, Won},
    error::{Code, Error, Result},
    guard::Guard,
    hub::Acquire,
    options::{validate_name, whole_seconds},
    queue::wire::{self, Prefix},
    store::{Reply, ReplyBody},
    terms::{Mode, Ticket},
};

/// A name that can be locked, and how it is to be locked. Cheap to clone; making one does nothing yet.
///
/// Owners take turns in the order in which their keys were created in etcd (FIFO), across processes, languages and hosts, and
/// together with etcd's own `etcdctl lock` and the Go package `concurrency`. Names are compared byte by byte; `/lock/a/b` does
/// not concern `/lock/a`.
#[must_use = "a lock does nothing until it is acquired"]
#[derive(Clone, Debug)]
pub struct Lock {
    client: Client,
    name: Arc<str>,
    ttl: Option<Duration>,
    renew: bool,
    requeue: bool,
}

impl Client {
    /// The lock of this name: 1 to 1,024 bytes of UTF-8 without NUL, taken verbatim. A bad name is reported by its operations.
    pub fn lock(&self, name: &str) -> Lock {
        Lock { client: self.clone(), name: name.into(), ttl: None, renew: true, requeue: true }
    }
}

impl Lock {
    /// The name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Holds with this TTL instead of the client's: how long the lock stays taken after its owner crashed. At least 2 s, at
    /// most 30 days, rounded up to whole seconds; etcd may choose a longer one. Each TTL has a lease of its own.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = Some(ttl);
        self
    }

    /// Whether the hold is renewed until it is released (`true`, the default). With `false` it ends at its TTL: a lock that
    /// frees itself. It is renewed while it waits in any case.
    pub fn renew(mut self, renew: bool) -> Self {
        self.renew = renew;
        self
    }

    /// Whether an acquire queues again, at the end, if its session is lost while it waits (`true`, the default). With `false`
    /// it fails with [`Code::Lost`]; if its key went first, with the reason
    /// [`LostReason::KeyDeleted`](crate::LostReason::KeyDeleted), whatever took the key.
    pub fn requeue(mut self, requeue: bool) -> Self {
        self.requeue = requeue;
        self
    }

    /// Waits until the lock is ours, for as long as it takes.
    ///
    /// An acquire by somebody who holds the same lock already waits for ever: locks are not re-entrant.
    ///
    /// # Errors
    /// [`Code::InvalidArgument`] for a bad name or TTL. [`Code::Unavailable`], [`Code::DeadlineExceeded`],
    /// [`Code::Unauthenticated`], [`Code::PermissionDenied`] or [`Code::ResourceExhausted`] if the queue could not be joined
    /// within the request timeout. [`Code::Closed`] if the client is closed. [`Code::Lost`] as [`Lock::requeue`] says.
    ///
    /// # Cancel safety
    /// Dropping the future gives up the place in the queue: the key is withdrawn in the background, and a lock that was won at
    /// the same moment is released. No request is abandoned half-way.
    pub fn acquire(&self) -> impl Future<Output = Result<Guard>> + Send + 'static {
        self.request(None)
    }

    /// Waits for the lock for at most `limit`; a `limit` of zero is a try.
    ///
    /// # Errors
    /// [`Code::NotAcquired`] when the limit has passed, also if etcd has not answered by then; up to a second later if etcd does
    /// not confirm that the key is withdrawn. What is wrong with etcd, if that is known by then. Otherwise as
    /// [`Lock::acquire`].
    ///
    /// # Cancel safety
    /// As [`Lock::acquire`].
    pub fn acquire_within(&self, limit: Duration) -> impl Future<Output = Result<Guard>> + Send + 'static {
        self.request(Some(limit))
    }

    /// Starts what [`Lock::acquire`] or, with a `limit`, [`Lock::acquire_within`] waits for. `answer` is told once what came of
    /// it, as a rule on the thread that renews leases: it must neither block nor panic. For the bindings of other languages.
    #[doc(hidden)]
    pub fn acquire_then(
        &self,
        limit: Option<Duration>,
        answer: impl FnOnce(Result<Guard>) + Send + 'static,
    ) -> Acquiring {
        let ticket = self.client.next_ticket();
        match self.wanted(limit) {
            Ok(wanted) => {
                let (client, name) = (self.client.clone(), self.name.clone());
                let answer = move |result: Result<Won>| answer(result.map(|won| Guard::new(client, name, won)));
                self.client.send(Command::Acquire(ticket, wanted, Box::new(answer)));
            }
            Err(error) => answer(Err(error)),
        }
        Acquiring { client: self.client.clone(), ticket }
    }

    /// Takes the lock if nobody holds it or waits for it; otherwise answers `None` and leaves nothing in the queue.
    ///
    /// It never loses to a guard of the same client that was dropped or released before.
    ///
    /// # Errors
    /// As [`Lock::acquire`].
    ///
    /// # Cancel safety
    /// As [`Lock::acquire`].
    pub fn try_acquire(&self) -> impl Future<Output = Result<Option<Guard>>> + Send + 'static {
        let tried = self.request(Some(Duration::ZERO));
        async move {
            match tried.await {
                Ok(guard) => Ok(Some(guard)),
                Err(error) if error.is_not_acquired() => Ok(None),
                Err(error) => Err(error),
            }
        }
    }

    /// [`Lock::acquire`] for programs, threads and functions that are not asynchronous: blocks the thread until the lock is
    /// ours. Needs no runtime. In a task it would block the thread of other tasks, though never the renewal of leases.
    ///
    /// # Errors
    /// As [`Lock::acquire`].
    pub fn blocking_acquire(&self) -> Result<Guard> {
        pollster::block_on(self.acquire())
    }

    /// [`Lock::acquire_within`], blocking as [`Lock::blocking_acquire`] does.
    ///
    /// # Errors
    /// As [`Lock::acquire_within`].
    pub fn blocking_acquire_within(&self, limit: Duration) -> Result<Guard> {
        pollster::block_on(self.acquire_within(limit))
    }

    /// [`Lock::try_acquire`], blocking as [`Lock::blocking_acquire`] does.
    ///
    /// # Errors
    /// As [`Lock::try_acquire`].
    pub fn blocking_try_acquire(&self) -> Result<Option<Guard>> {
        pollster::block_on(self.try_acquire())
    }

    /// Everybody in the queue, the holder first, foreign clients included.
    ///
    /// # Errors
    /// As [`Client::ping`], and [`Code::PermissionDenied`].
    ///
    /// # Cancel safety
    /// Reads only.
    pub async fn queue(&self) -> Result<Vec<Contender>> {
        validate_name(&self.name)?;
        let prefix = self.prefix();
        let what = format!("could not read the queue of the lock {:?}", self.name);
        match self.client.call(wire::snapshot(&prefix), &what).await? {
            Reply { body: ReplyBody::Range(range), .. } => Ok(contender::in_order(&prefix, range.kvs)),
            _ => Err(Error::new(Code::Internal, "etcd's reply to a read has an unknown shape")),
        }
    }

    /// Takes the lock, or the place in the queue, away from the contender with this token, whoever it is. Its guard is lost
    /// with [`LostReason::KeyDeleted`](crate::LostReason::KeyDeleted) as soon as it notices.
    ///
    /// For operators: the owner may still be at work. Only fencing tokens keep its late writes out.
    ///
    /// # Errors
    /// [`Code::NotHeld`] if no contender has this token. Otherwise as [`Lock::queue`].
    ///
    /// # Cancel safety
    /// Dropping the future does not take the removal back.
    pub async fn force_release(&self, token: i64) -> Result<()> {
        let gone = || {
            let message = format!("nobody in the queue of the lock {:?} has the token {token}", self.name);
            Error::new(Code::NotHeld, message)
        };
        let contenders = self.queue().await?;
        let found = contenders.into_iter().find(|contender| contender.token == token).ok_or_else(gone)?;
        let what = format!("could not release the lock {:?} by force", self.name);
        let request = wire::delete(&[(found.raw_key, token)]);
        // Safe to repeat: only the key of this token is ever deleted. If it is gone, somebody was faster, perhaps we.
        self.client.call(request, &what).await.map(drop)
    }

    fn prefix(&self) -> Prefix {
        Prefix::new(self.client.namespace(), &self.name)
    }

    /// What is asked of the engine.
    fn wanted(&self, limit: Option<Duration>) -> Result<Acquire> {
        validate_name(&self.name)?;
        let ttl = match self.ttl {
            Some(ttl) => whole_seconds(ttl)?,
            None => self.client.ttl(),
        };
        Ok(Acquire {
            name: self.name.clone(),
            mode: if limit == Some(Duration::ZERO) { Mode::Try } else { Mode::Wait },
            ttl,
            renew: self.renew,
            requeue: self.requeue,
            wait: limit.filter(|limit| !limit.is_zero()),
            value: self.client.metadata(),
        })
    }

    /// An acquire that begins when it is first polled, and owns what it needs.
    fn request(&self, limit: Option<Duration>) -> impl Future<Output = Result<Guard>> + Send + 'static {
        let lock = self.clone();
        let span = tracing::info_span!("acquire", lock = %self.name);
        let acquire = async move {
            let (answer, acquired) = oneshot::channel();
            // A guard that comes when nobody waits for it any more is released by its drop.
            let acquiring = lock.acquire_then(limit, move |result| drop(answer.send(result)));
            let mut cancel = CancelOnDrop { acquiring, is_answered: false };
            let result = acquired.await;
            cancel.is_answered = true;
            result.unwrap_or_else(|_| Err(engine::ended()))
        };
        // The hold is a span beside it, not within: it goes on when the acquire is over.
        async move { acquire.instrument(span).await.map(Guard::with_span) }
    }
}

/// An acquire that is on its way, or was.
#[doc(hidden)]
#[derive(Clone, Debug)]
pub struct Acquiring {
    client: Client,
    ticket: Ticket,
}

impl Acquiring {
    /// Gives it up. The answer comes when the key is withdrawn: [`Code::Cancelled`], or the guard if that was won before.
    pub fn cancel(&self) {
        self.client.send(Command::Cancel(self.ticket));
    }
}

/// Tells the engine when nobody waits for an acquire any more.
struct CancelOnDrop {
    acquiring: Acquiring,
    is_answered: bool,
}

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        if !self.is_answered {
            self.acquiring.cancel();
        }
    }
}
