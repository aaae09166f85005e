//! A lock: a name, and how to acquire it.

use std::{sync::Arc, time::Duration};

use crate::{
    acquiring::{self, Acquiring, How},
    client::Client,
    contender::{self, Contender},
    election::validate_proclamation,
    error::{Code, Error, Result},
    guard::Guard,
    hub::{Acquire, Want},
    options::{invalid, validate_name, validate_sharing},
    queue::{
        admission::Claim,
        wire::{self, Prefix},
    },
    store::{Reply, ReplyBody, Request},
    terms::LocalFirst,
    text,
};

/// A name that can be locked, and how it is to be locked: as a mutex, as the reader or writer of a read-write lock, or as a
/// semaphore. Cheap to clone; making one does nothing yet.
///
/// Owners take turns in the order in which their keys were created in etcd (FIFO), across processes, languages and hosts, and
/// together with etcd's own `etcdctl lock` and the Go package `concurrency`. Names are compared byte by byte; `/lock/a/b` does
/// not concern `/lock/a`.
#[must_use = "a lock does nothing until it is acquired"]
#[derive(Clone, Debug)]
pub struct Lock {
    pub(crate) client: Client,
    pub(crate) name: Arc<str>,
    kind: Kind,
    pub(crate) how: How,
    /// What the key says, where it is a candidate's.
    proclaims: Option<Arc<[u8]>>,
}

/// What was said about what the lock is. What does not fit together is told by the acquire.
#[derive(Clone, Copy, Debug, Default)]
struct Kind {
    is_shared: bool,
    permits: Option<u32>,
    limit: Option<u32>,
}

impl Client {
    /// The lock of this name: 1 to 1,024 bytes of UTF-8 without NUL, taken verbatim. A bad name is reported by its operations.
    pub fn lock(&self, name: &str) -> Lock {
        let (kind, how) = (Kind::default(), How::default());
        Lock { client: self.clone(), name: name.into(), kind, how, proclaims: None }
    }

    /// The semaphore of this name, which has `limit` permits, 1 to 2,147,483,647. An acquire takes one of them, or as many as
    /// [`Lock::permits`] says.
    ///
    /// First come, first served, for permits, too: a request for many is not overtaken by requests for few. Whoever locks the same
    /// name as a mutex gets it when all permits that were taken before are back. All who use the name must say the same limit;
    /// the acquire that comes second with another one fails with [`Code::LimitMismatch`]. The permits of a holder that crashed are
    /// back after its TTL.
    pub fn semaphore(&self, name: &str, limit: u32) -> Lock {
        let mut semaphore = self.lock(name);
        semaphore.kind.limit = Some(limit);
        semaphore
    }

    /// The lock of this name, with that claim. For the bindings of other languages.
    #[doc(hidden)]
    pub fn lock_as(&self, name: &str, claim: Claim) -> Lock {
        match claim {
            Claim::Exclusive => self.lock(name),
            Claim::Shared => self.lock(name).shared(),
            Claim::Permits { permits, limit } => self.semaphore(name, limit).permits(permits),
        }
    }
}

impl Lock {
    /// The name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Shares the lock with everybody else who does: the reader of a read-write lock, of which the plain lock is the writer.
    ///
    /// First come, first served: a reader that comes after a writer waits for it, also if other readers still hold, so that
    /// readers never starve a writer. There is no upgrade: whoever holds it shared and wants all of it releases first, and somebody
    /// else may be faster.
    pub fn shared(mut self) -> Self {
        self.kind.is_shared = true;
        self
    }

    /// How many permits of a [semaphore](Client::semaphore) an acquire takes, all or none of them: 1, unless told otherwise, and at
    /// most the limit.
    pub fn permits(mut self, permits: u32) -> Self {
        self.kind.permits = Some(permits);
        self
    }

    /// Holds with this TTL instead of the client's: how long the lock stays taken after its owner crashed. At least 2 s, at
    /// most 30 days, rounded up to whole seconds; etcd may choose a longer one. Each TTL has a lease of its own.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.how.ttl = Some(ttl);
        self
    }

    /// Whether the hold is renewed until it is released (`true`, the default). With `false` it ends at its TTL: a lock that
    /// frees itself. It is renewed while it waits in any case.
    pub fn renew(mut self, renew: bool) -> Self {
        self.how.renew = renew;
        self
    }

    /// Whether an acquire queues again, at the end, if its session is lost while it waits (`true`, the default). With `false`
    /// it fails with [`Code::Lost`]; if its key went first, with the reason
    /// [`LostReason::KeyDeleted`](crate::LostReason::KeyDeleted), whatever took the key.
    pub fn requeue(mut self, requeue: bool) -> Self {
        self.how.requeue = requeue;
        self
    }

    /// As a candidate of the election of this name, with what it proclaims.
    pub(crate) fn proclaiming(mut self, value: Arc<[u8]>) -> Self {
        self.proclaims = Some(value);
        self
    }

    /// Shares one place in the queue with those of this client that wait for the same lock, with the same TTL, and are
    /// `local_first`, too: they pass it on among themselves, first come first served, without a word to etcd. While others wait
    /// elsewhere, for 64 turns or 100 ms at most, counted from when the place was won; then it is their turn.
    ///
    /// For many tasks of one process that take turns often. It is less fair to others than a lock usually is: whoever waits
    /// elsewhere waits for so much of each client ahead, and no longer. Owners that share a place have one
    /// [token](crate::Guard::token) and are told apart by their [sequence](crate::Guard::sequence).
    ///
    /// For exclusive locks that are renewed; others fail with [`Code::InvalidArgument`].
    pub fn local_first(self) -> Self {
        self.local_first_within(LocalFirst::default())
    }

    /// [`Lock::local_first`] with another bound: at least 1 turn, and more than zero and at most a minute.
    pub fn local_first_within(mut self, bound: LocalFirst) -> Self {
        self.how.sharing.local_first = Some(bound);
        self
    }

    /// Keeps the place in the queue for so long after a release if nobody waits, so that the next acquire of this lock by this
    /// client, with the same TTL and `local_first` or `linger` itself, asks etcd for nothing and takes well under a microsecond.
    /// At most an hour; zero, the default, is not at all.
    ///
    /// The place is given up at once when anybody else stands in the queue, before the session is short of time, and when the client
    /// is closed. So others who wait are told to go on as soon as etcd has told us of them; a *try* elsewhere fails meanwhile, and
    /// `queue()` shows this client. Owners share a [token](crate::Guard::token) as with [`Lock::local_first`]; an acquire that
    /// does neither gives up the place and takes one of its own. At most a thousand locks of a client linger.
    ///
    /// For exclusive locks that are renewed; others fail with [`Code::InvalidArgument`].
    pub fn linger(mut self, span: Duration) -> Self {
        self.how.sharing.linger = span;
        self
    }

    /// Waits until the lock is ours, for as long as it takes.
    ///
    /// An acquire by somebody who holds the same lock already waits for ever: locks are not re-entrant.
    ///
    /// # Errors
    /// [`Code::InvalidArgument`] for a bad name, TTL, limit or number of permits. [`Code::LimitMismatch`] if somebody who came before
    /// uses the name as something else: shared, where this asks for permits, or with another limit. [`Code::Unavailable`], [`Code::DeadlineExceeded`],
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
        if let Some(guard) = self.take_lingering() {
            answer(Ok(guard));
            return acquiring::over(&self.client);
        }
        acquiring::begin(&self.client, &self.name, self.proclaims.is_some(), self.wanted(limit), answer)
    }

    /// Takes the lock if that is possible at once; otherwise answers `None` and leaves nothing in the queue. It never overtakes: a
    /// mutex is free if nobody holds it or waits for it, a share of it if nobody but readers does, permits if so many are left and
    /// nobody waits for others.
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
        async move { acquiring::tried(tried.await) }
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

    /// Everybody in the queue, the holder or holders first, foreign clients included.
    ///
    /// # Errors
    /// As [`Client::ping`], and [`Code::PermissionDenied`].
    ///
    /// # Cancel safety
    /// Reads only.
    pub async fn queue(&self) -> Result<Vec<Contender>> {
        validate_name(&self.name)?;
        let prefix = self.prefix();
        let what = format!("could not read the queue of the lock {}", text::quoted(&self.name));
        match self.client.call(wire::snapshot(&prefix, None), &what).await? {
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
            let message = format!("nobody in the queue of the lock {} has the token {token}", text::quoted(&self.name));
            Error::new(Code::NotHeld, message)
        };
        let contenders = self.queue().await?;
        let found = contenders.into_iter().find(|contender| contender.token == token).ok_or_else(gone)?;
        let what = format!("could not release the lock {} by force", text::quoted(&self.name));
        let request = Request::Txn(wire::delete(&[(found.raw_key, token)]));
        // Safe to repeat: only the key of this token is ever deleted. If it is gone, somebody was faster, perhaps we.
        self.client.call(request, &what).await.map(drop)
    }

    pub(crate) fn prefix(&self) -> Prefix {
        Prefix::new(self.client.namespace(), &self.name)
    }

    /// What is claimed of the name.
    fn claim(&self) -> Result<Claim> {
        let name = || text::quoted(&self.name);
        let claim = match self.kind {
            Kind { is_shared: false, permits: None, limit: None } => return Ok(Claim::Exclusive),
            Kind { is_shared: true, permits: None, limit: None } => return Ok(Claim::Shared),
            Kind { is_shared: false, permits, limit: Some(limit) } => {
                Claim::Permits { permits: permits.unwrap_or(1), limit }
            }
            Kind { is_shared: true, .. } => {
                return Err(invalid(format!("{} is a semaphore or has permits: it cannot be shared", name())));
            }
            Kind { permits: Some(_), .. } => {
                return Err(invalid(format!("{} is no semaphore: only client.semaphore(…) has permits", name())));
            }
        };
        match claim {
            claim if claim.is_valid() => Ok(claim),
            Claim::Permits { limit, .. } if !(1..=Claim::MAX_LIMIT).contains(&limit) => Err(invalid(format!(
                "the semaphore {} cannot have {limit} permits; it has 1 to {}",
                name(),
                Claim::MAX_LIMIT
            ))),
            claim => Err(invalid(format!("nobody can take {claim} of the semaphore {}; take 1 to its limit", name()))),
        }
    }

    /// Whether it may share its place as it was told to.
    fn check_sharing(&self) -> Result<()> {
        if self.proclaims.is_some() && self.how.sharing.is_some() {
            return Err(invalid("a candidate has a place of its own: an election cannot be local_first or linger"));
        }
        validate_sharing(self.how.sharing, self.how.renew, self.claim()?)
    }

    /// Takes the place that lingers, if there is one that is shared like this.
    fn take_lingering(&self) -> Option<Guard> {
        let loans = self.client.loans().filter(|_| self.how.sharing.is_some())?;
        self.check_sharing().ok()?;
        let won = loans.take(&self.name, self.how.whole_ttl(&self.client).ok()?, self.how.sharing)?;
        Some(Guard::new(self.client.clone(), self.name.clone(), won, false))
    }

    /// What is wanted of the name.
    pub(crate) fn want(&self) -> Result<Want> {
        validate_name(&self.name)?;
        Ok(Want { name: self.name.clone(), claim: self.claim()? })
    }

    /// What is asked of the engine.
    fn wanted(&self, limit: Option<Duration>) -> Result<Acquire> {
        let want = self.want()?;
        self.check_sharing()?;
        let value = match &self.proclaims {
            Some(value) => {
                validate_proclamation(value)?;
                value.clone()
            }
            None => self.client.metadata(),
        };
        self.how.acquire(&self.client, vec![want], (value, self.proclaims.is_some()), limit)
    }

    /// An acquire that begins when it is first polled, and owns what it needs.
    fn request(&self, limit: Option<Duration>) -> impl Future<Output = Result<Guard>> + Send + 'static {
        let lock = self.clone();
        let take = {
            let lock = self.clone();
            move || lock.take_lingering()
        };
        acquiring::request(self.name.clone(), take, move |answer| lock.acquire_then(limit, answer))
    }
}
