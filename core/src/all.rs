//! Several names at once: all of them or none.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use crate::{
    acquiring::{self, Acquiring, How},
    client::Client,
    error::Result,
    guard::Guard,
    hub::{Acquire, Want},
    lock::Lock,
    options::invalid,
    terms::{LocalFirst, Sharing},
    text,
};

/// The most names that one acquire can take.
const MOST_NAMES: usize = 32;

/// Several names that are acquired together: all of them or none. Made by [`Client::all`]; making one does nothing yet.
///
/// One transaction puts the caller into all queues, so any two such acquires stand in the same order wherever they meet: whatever the
/// order of their names, none waits for another that waits for it. First come, first served, name by name: a name whose turn has come
/// stays ours while we wait for the others. There is one guard, with one token for all names, and one transaction gives them back.
/// Whatever takes one of them from us, takes all.
///
/// Each name can be claimed in its own way: as a mutex, shared, or some permits of a semaphore. Whoever holds a name and asks for
/// another one in a second acquire can still deadlock with somebody who does it the other way round: ask for both at once.
#[must_use = "names are not locked until they are acquired"]
#[derive(Clone, Debug)]
pub struct All {
    client: Client,
    locks: Vec<Lock>,
    /// What it is called by: the first of its names.
    name: Arc<str>,
    how: How,
}

impl Client {
    /// These locks, together: 1 to 32 of different names, made by this client. How they are held is said of the whole, by
    /// [`All::ttl`], [`All::renew`] and [`All::requeue`].
    ///
    /// ```
    /// # tokio::runtime::Runtime::new().unwrap().block_on(async {
    /// # let client = leasehold::Client::new("memory://all")?;
    /// let both = client.all([client.lock("/account/1"), client.lock("/account/2"), client.lock("/rates").shared()]);
    /// let guard = both.acquire().await?;
    /// assert_eq!(guard.keys().len(), 3);
    /// guard.release().await?;
    /// # Ok::<(), leasehold::Error>(()) }).unwrap();
    /// ```
    pub fn all(&self, locks: impl IntoIterator<Item = Lock>) -> All {
        let locks: Vec<Lock> = locks.into_iter().collect();
        let name = locks.first().map_or_else(|| Arc::from(""), |lock| lock.name.clone());
        All { client: self.clone(), locks, name, how: How::default() }
    }
}

impl All {
    /// [`Lock::ttl`], for all names.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.how.ttl = Some(ttl);
        self
    }

    /// [`Lock::renew`], for all names.
    pub fn renew(mut self, renew: bool) -> Self {
        self.how.renew = renew;
        self
    }

    /// [`Lock::requeue`], for all names: an acquire that lost its place in one queue stands at the end of all.
    pub fn requeue(mut self, requeue: bool) -> Self {
        self.how.requeue = requeue;
        self
    }

    /// Waits until all names are ours, for as long as it takes.
    ///
    /// # Errors
    /// Those of [`Lock::acquire`], and [`Code::InvalidArgument`](crate::Code::InvalidArgument) for no names or more than 32, for a name
    /// that is there twice, for a lock of another client, and for one that has a TTL or policy of its own.
    ///
    /// # Cancel safety
    /// As [`Lock::acquire`], for all names.
    pub fn acquire(&self) -> impl Future<Output = Result<Guard>> + Send + 'static {
        self.request(None)
    }

    /// Waits for all names for at most `limit`; a `limit` of zero is a try.
    ///
    /// # Errors
    /// Those of [`Lock::acquire_within`] and [`All::acquire`].
    ///
    /// # Cancel safety
    /// As [`Lock::acquire`], for all names.
    pub fn acquire_within(&self, limit: Duration) -> impl Future<Output = Result<Guard>> + Send + 'static {
        self.request(Some(limit))
    }

    /// Takes all names if that is possible at once; otherwise answers `None` and leaves nothing in any queue.
    ///
    /// # Errors
    /// As [`All::acquire`].
    ///
    /// # Cancel safety
    /// As [`Lock::acquire`], for all names.
    pub fn try_acquire(&self) -> impl Future<Output = Result<Option<Guard>>> + Send + 'static {
        let tried = self.request(Some(Duration::ZERO));
        async move { acquiring::tried(tried.await) }
    }

    /// [`All::acquire`], blocking as [`Lock::blocking_acquire`] does.
    ///
    /// # Errors
    /// As [`All::acquire`].
    pub fn blocking_acquire(&self) -> Result<Guard> {
        pollster::block_on(self.acquire())
    }

    /// [`All::acquire_within`], blocking as [`Lock::blocking_acquire`] does.
    ///
    /// # Errors
    /// As [`All::acquire_within`].
    pub fn blocking_acquire_within(&self, limit: Duration) -> Result<Guard> {
        pollster::block_on(self.acquire_within(limit))
    }

    /// [`All::try_acquire`], blocking as [`Lock::blocking_acquire`] does.
    ///
    /// # Errors
    /// As [`All::try_acquire`].
    pub fn blocking_try_acquire(&self) -> Result<Option<Guard>> {
        pollster::block_on(self.try_acquire())
    }

    /// For the bindings of other languages, which say it of every acquire. Several names cannot share places; that is told by the
    /// acquire.
    #[doc(hidden)]
    pub fn sharing(mut self, local_first: Option<LocalFirst>, linger: Option<Duration>) -> Self {
        self.how.sharing = Sharing { local_first, linger: linger.unwrap_or_default() };
        self
    }

    /// [`Lock::acquire_then`], for all names.
    #[doc(hidden)]
    pub fn acquire_then(
        &self,
        limit: Option<Duration>,
        answer: impl FnOnce(Result<Guard>) + Send + 'static,
    ) -> Acquiring {
        acquiring::begin(&self.client, &self.name, false, self.wanted(limit), answer)
    }

    /// What is asked of the engine.
    fn wanted(&self, limit: Option<Duration>) -> Result<Acquire> {
        if !(1..=MOST_NAMES).contains(&self.locks.len()) {
            return Err(invalid(format!("an acquire takes 1 to {MOST_NAMES} names, not {}", self.locks.len())));
        }
        if self.how.sharing.is_some() {
            return Err(invalid("several names cannot be local_first or linger; a single exclusive lock can"));
        }
        let mut names = BTreeSet::new();
        for lock in &self.locks {
            if !names.insert(&lock.name) {
                return Err(invalid(format!(
                    "the name {} is there twice; an acquire takes each name once",
                    text::quoted(&lock.name)
                )));
            }
            if !lock.client.is(&self.client) {
                return Err(invalid(format!(
                    "the lock {} is of another client; one lease keeps all names",
                    text::quoted(&lock.name)
                )));
            }
            if !lock.how.is_default() {
                let message = "has a TTL or policy of its own; say it of all names together: client.all(…).ttl(…)";
                return Err(invalid(format!("the lock {} {message}", text::quoted(&lock.name))));
            }
        }
        let wants: Result<Vec<Want>> = self.locks.iter().map(Lock::want).collect();
        self.how.acquire(&self.client, wants?, (self.client.metadata(), false), limit)
    }

    /// An acquire that begins when it is first polled, and owns what it needs.
    fn request(&self, limit: Option<Duration>) -> impl Future<Output = Result<Guard>> + Send + 'static {
        let all = self.clone();
        acquiring::request(self.name.clone(), || None, move |answer| all.acquire_then(limit, answer))
    }
}
