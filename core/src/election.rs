//! An election: a lock whose holder says something, and everybody who wants to know who holds it.

use std::{sync::Arc, time::Duration};

use crate::{
    client::Client,
    error::{Code, Error, Result},
    guard::Guard,
    lock::Lock,
    observer::Observer,
    options::validate_name,
    queue::wire::{self, Proclamation},
    store::{OpReply, Reply, ReplyBody},
    text,
};

/// The longest proclamation, in bytes. etcd takes requests of 1.5 MiB unless told otherwise, and keys need room, too.
const MAX_PROCLAMATION: usize = 1_500_000;

/// The election of a name: the candidates queue for it as for a [`Lock`], the first of them leads, and the value of its key is what
/// it proclaims. Cheap to clone; making one does nothing yet.
///
/// It is the election of Go's `concurrency.Election` and of `etcdctl elect`: they and we stand in one queue, lead one after the
/// other, and read each other's proclamations.
///
/// ```
/// # tokio::runtime::Runtime::new().unwrap().block_on(async {
/// # let client = leasehold::Client::new("memory://election")?;
/// let election = client.election("/jobs/scheduler");
/// let guard = election.campaign("10.0.0.7:8080").await?;      // waits until it leads
/// let leader = election.leader().await?.expect("a leader");   // anybody may ask
/// assert_eq!((leader.value.as_slice(), leader.token), (&b"10.0.0.7:8080"[..], guard.token()));
/// guard.proclaim("10.0.0.7:9090").await?;                     // LOST if it leads no more
/// guard.release().await?;                                     // resigns
/// # Ok::<(), leasehold::Error>(()) }).unwrap();
/// ```
#[must_use = "an election does nothing until somebody campaigns or observes"]
#[derive(Clone, Debug)]
pub struct Election {
    lock: Lock,
    client: Client,
    name: Arc<str>,
}

/// Who leads an election.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Leader {
    /// Its key in etcd, namespace included.
    pub key: String,
    /// Its fencing token: greater than that of every leader before.
    pub token: i64,
    /// What it proclaims.
    pub value: Vec<u8>,
    /// The revision of etcd at which it proclaimed that: greater than that of every proclamation before.
    pub revision: i64,
}

impl From<Proclamation> for Leader {
    fn from(said: Proclamation) -> Self {
        Self { key: said.key.to_text(), token: said.token, value: said.value.to_vec(), revision: said.revision }
    }
}

impl Client {
    /// The election of this name: 1 to 1,024 bytes of UTF-8 without NUL, taken verbatim. A bad name is reported by its operations.
    ///
    /// A lock of the same name stands in the same queue; give elections names of their own.
    pub fn election(&self, name: &str) -> Election {
        Election { lock: self.lock(name), client: self.clone(), name: name.into() }
    }
}

impl Election {
    /// The name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Leads with this TTL instead of the client's: see [`Lock::ttl`].
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.lock = self.lock.ttl(ttl);
        self
    }

    /// Whether a leadership is renewed until it is resigned (`true`, the default): see [`Lock::renew`].
    pub fn renew(mut self, renew: bool) -> Self {
        self.lock = self.lock.renew(renew);
        self
    }

    /// Whether a candidate queues again, at the end, if its session is lost while it waits (`true`, the default): see
    /// [`Lock::requeue`].
    pub fn requeue(mut self, requeue: bool) -> Self {
        self.lock = self.lock.requeue(requeue);
        self
    }

    /// Stands for election with `value`, and waits until it leads, for as long as it takes. `value` is what the leader proclaims
    /// from then on: any bytes, none included, up to 1,500,000. Keep it small (an address, not a document): everybody who waits
    /// or observes reads the values of all candidates.
    ///
    /// The guard is that of a lock: [`Guard::release`] resigns, [`Guard::lost`] tells when the leadership is lost,
    /// [`Guard::proclaim`] proclaims something else. A leader that is cut off learns of it by its own clock, before anybody else
    /// can lead; what it still writes meanwhile takes the [token](Guard::token) to keep out.
    ///
    /// # Errors
    /// [`Code::InvalidArgument`] for a value that is too long. Otherwise as [`Lock::acquire`].
    ///
    /// # Cancel safety
    /// As [`Lock::acquire`]: dropping the future withdraws the candidate.
    pub fn campaign(&self, value: impl AsRef<[u8]>) -> impl Future<Output = Result<Guard>> + Send + 'static {
        let candidate = self.candidate(value);
        async move { candidate.acquire().await }
    }

    /// Stands for election with `value` for at most `limit`; with a `limit` of zero it leads at once or leaves nothing behind.
    ///
    /// # Errors
    /// [`Code::NotAcquired`] when the limit has passed. Otherwise as [`Election::campaign`] and [`Lock::acquire_within`].
    ///
    /// # Cancel safety
    /// As [`Election::campaign`].
    pub fn campaign_within(
        &self,
        value: impl AsRef<[u8]>,
        limit: Duration,
    ) -> impl Future<Output = Result<Guard>> + Send + 'static {
        let candidate = self.candidate(value);
        async move { candidate.acquire_within(limit).await }
    }

    /// [`Election::campaign`] for threads without a runtime: blocks the thread until it leads.
    ///
    /// # Errors
    /// As [`Election::campaign`].
    pub fn blocking_campaign(&self, value: impl AsRef<[u8]>) -> Result<Guard> {
        pollster::block_on(self.campaign(value))
    }

    /// [`Election::campaign_within`], blocking as [`Election::blocking_campaign`] does.
    ///
    /// # Errors
    /// As [`Election::campaign_within`].
    pub fn blocking_campaign_within(&self, value: impl AsRef<[u8]>, limit: Duration) -> Result<Guard> {
        pollster::block_on(self.campaign_within(value, limit))
    }

    /// The lock that a candidate with this value acquires. For the bindings of other languages.
    #[doc(hidden)]
    pub fn candidate(&self, value: impl AsRef<[u8]>) -> Lock {
        self.lock.clone().proclaiming(value.as_ref().into())
    }

    /// Who leads now; `None` if nobody does. It may be somebody else the moment after.
    ///
    /// # Errors
    /// As [`Lock::queue`].
    ///
    /// # Cancel safety
    /// Reads only.
    pub async fn leader(&self) -> Result<Option<Leader>> {
        validate_name(&self.name)?;
        let prefix = self.lock.prefix();
        let what = format!("could not ask who leads the election {}", text::quoted(&self.name));
        let odd = || Error::new(Code::Internal, "etcd's reply to a read has an unknown shape");
        loop {
            let reply = self.client.call(wire::roll(&prefix), &what).await?;
            let Reply { body: ReplyBody::Range(range), .. } = reply else { return Err(odd()) };
            let Some(first) = wire::first(&prefix, range.kvs) else { return Ok(None) };
            let asked = wire::ask(&first.key, first.create_revision);
            let Reply { body: ReplyBody::Txn(txn), .. } = self.client.call(asked, &what).await? else {
                return Err(odd());
            };
            if !txn.succeeded {
                continue; // it is gone: somebody else is the first now
            }
            let Some(OpReply::Range(range)) = txn.replies.into_iter().next() else { return Err(odd()) };
            let kv = range.kvs.into_iter().next().ok_or_else(odd)?;
            return Ok(Some(Leader {
                key: kv.key.to_text(),
                token: kv.create_revision,
                value: kv.value.to_vec(),
                revision: kv.mod_revision,
            }));
        }
    }

    /// [`Election::leader`] for threads without a runtime: blocks the thread.
    ///
    /// # Errors
    /// As [`Election::leader`].
    pub fn blocking_leader(&self) -> Result<Option<Leader>> {
        pollster::block_on(self.leader())
    }

    /// Observes the election from now on: [`Observer::next`] tells who leads now, and then every change.
    pub fn observe(&self) -> Observer {
        Observer::new(self.client.clone(), &self.name)
    }
}

impl Guard {
    /// Proclaims `value` in place of what was proclaimed before, if this guard still leads its election. Observers are told.
    ///
    /// Two proclamations of one leader at the same time take effect in any order.
    ///
    /// # Errors
    /// [`Code::InvalidArgument`] if `value` has more than 1,500,000 bytes, or if this is the guard of a lock and of no election:
    /// nothing was sent. [`Code::Lost`] if it leads no more: nothing was proclaimed. [`Code::NotHeld`] if it has resigned.
    /// [`Code::DeadlineExceeded`] or [`Code::Unavailable`] if there was no answer: it may have been proclaimed. It is not repeated,
    /// because a repeated one could undo a later one; whoever has no later one may proclaim the same again.
    ///
    /// # Cancel safety
    /// Dropping the future does not take the proclamation back.
    pub async fn proclaim(&self, value: impl AsRef<[u8]>) -> Result<()> {
        let value = value.as_ref();
        if !self.is_elected() {
            let message = format!(
                "{} was acquired as a lock, which proclaims nothing; campaign for it",
                text::quoted(self.name())
            );
            return Err(Error::new(Code::InvalidArgument, message));
        }
        validate_proclamation(value)?;
        self.overwrite(value.into()).await
    }

    /// [`Guard::proclaim`] for threads without a runtime: blocks the thread.
    ///
    /// # Errors
    /// As [`Guard::proclaim`].
    pub fn blocking_proclaim(&self, value: impl AsRef<[u8]>) -> Result<()> {
        pollster::block_on(self.proclaim(value))
    }
}

/// Whether etcd takes `value`.
pub(crate) fn validate_proclamation(value: &[u8]) -> Result<()> {
    if value.len() <= MAX_PROCLAMATION {
        return Ok(());
    }
    let message = format!(
        "a proclamation has at most {MAX_PROCLAMATION} bytes, because etcd takes no larger requests by default, and this one has \
         {}; store it elsewhere and proclaim where",
        value.len()
    );
    Err(Error::new(Code::InvalidArgument, message))
}
