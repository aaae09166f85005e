//! A guard: the proof that its owner holds a lock now.

use std::{
    fmt,
    future::Future,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::sync::oneshot;

use crate::{
    client::Client,
    clock,
    engine::{Command, Won},
    error::{Code, Error, LostReason, Result},
    hold::{End, Fate, HoldState},
    hub::Hold,
    loan::Lent,
    options::{MAX_TTL, MIN_TTL},
    process::{self, Process},
    queue::wire,
    store::{CreateRevisionIs, Key, Keys, Op, OpReply, Pick, Range, ReplyBody, Request, Txn},
    terms::Ticket,
    text,
};

/// A lock that is held. Whoever has the guard is the owner, not a thread or a task: it can be sent anywhere.
///
/// Dropping it releases the lock in the background; [`Guard::release`] waits until that is confirmed and says if the lock was
/// lost before. A guard that was lost stays lost: the lock is never acquired again behind its owner's back.
#[must_use = "a guard that is dropped releases its lock at once"]
pub struct Guard {
    client: Client,
    name: Arc<str>,
    ticket: Ticket,
    hold: Hold,
    state: Arc<HoldState>,
    /// The loan that it was made of, if the engine was not asked for it.
    lent: Option<Arc<Lent>>,
    /// The process that acquired it: after a fork, the lock is the parent's.
    process: Process,
    is_released: AtomicBool,
    /// Whether it leads an election.
    is_elected: bool,
    /// For whoever traces the program: lives as long as the guard.
    _span: tracing::Span,
}

impl Guard {
    pub(crate) fn new(client: Client, name: Arc<str>, won: Won, is_elected: bool) -> Self {
        let Won { ticket, hold, state, lent } = won;
        let (process, is_released) = (process::current(), AtomicBool::new(false));
        Self { client, name, ticket, hold, state, lent, process, is_released, is_elected, _span: tracing::Span::none() }
    }

    /// With a span in the trace of whoever calls, which ends with the guard.
    pub(crate) fn with_span(mut self) -> Self {
        self._span = tracing::info_span!("hold", lock = %text::excerpt(&self.name), token = self.hold.token);
        self
    }

    /// The name of the lock, as it was asked for.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The fencing token: greater than that of every earlier owner of the same name. Owners that shared one place, because their
    /// lock is [`local_first`](crate::Lock::local_first) or [lingers](crate::Lock::linger), have the same one, and
    /// [`Guard::sequence`] grows.
    ///
    /// Send it along with every write that the lock protects, and let the receiver refuse a smaller one than it has seen.
    /// It is the create revision of [`Guard::key`].
    pub fn token(&self) -> i64 {
        self.hold.token
    }

    /// Tells holds apart that share a token: how many owners the place had before, in this client. 0 unless the lock is
    /// [`local_first`](crate::Lock::local_first) or [lingers](crate::Lock::linger). Owners compare the pair (token, sequence).
    pub fn sequence(&self) -> u64 {
        self.hold.sequence
    }

    /// The key in etcd that stands for this hold, namespace included.
    pub fn key(&self) -> String {
        self.hold.keys.first().map(Key::to_text).unwrap_or_default()
    }

    /// The keys in etcd that stand for this hold, in the order in which its names were asked for; one for a lock of one name.
    pub fn keys(&self) -> Vec<String> {
        self.hold.keys.iter().map(Key::to_text).collect()
    }

    /// The id of the lease in etcd that keeps the key alive, in lower-case hexadecimal as etcd's own tools print it.
    pub fn lease(&self) -> String {
        self.hold.lease.to_string()
    }

    /// Whether the lock is certainly still held. Asks nobody: it compares the session's deadline with the clock, so the
    /// answer is right at the first call after the process was frozen or the machine suspended.
    ///
    /// The lock can be lost the moment after. What must not happen twice needs the [token](Guard::token) at its receiver.
    pub fn is_held(&self) -> bool {
        !self.is_forked() && !self.is_released() && self.state.is_held()
    }

    /// How long the lock is certainly still held if no renewal succeeds from now on; zero if it is lost.
    pub fn remaining(&self) -> Duration {
        if self.is_held() { clock::now().until(self.state.deadline()) } else { Duration::ZERO }
    }

    /// Waits until the lock is lost and tells why. Never ends for a guard that is released in time; [`Guard::ended`] does.
    ///
    /// The future is independent of the guard; give it to the task that must stop. It has a timer of its own, so the end of
    /// the deadline is told even if nothing else in this client works any more.
    ///
    /// # Cancel safety
    /// Dropping it has no effect.
    pub fn lost(&self) -> impl Future<Output = LostReason> + Send + 'static {
        let ended = self.ended();
        async move {
            match ended.await {
                End::Lost(reason) => reason,
                End::Released => std::future::pending().await,
            }
        }
    }

    /// Waits until the hold is over, and tells whether it was released or lost. Always ends, once the guard is released,
    /// dropped or lost, or its client is closed. A release that finds the lock lost is a loss.
    ///
    /// Like [`Guard::lost`], the future is independent of the guard.
    ///
    /// # Cancel safety
    /// Dropping it has no effect.
    pub fn ended(&self) -> impl Future<Output = End> + Send + 'static {
        let (is_forked, state) = (self.is_forked(), self.state.clone());
        async move { if is_forked { End::Lost(LostReason::Forked) } else { state.ended().await } }
    }

    /// Runs `work` while the lock is held: what it brings, or an error, with `work` dropped where it is, as soon as the lock is
    /// lost or released. The guard is still to be released afterwards.
    ///
    /// Work that ends at the same moment as the hold counts as stopped.
    ///
    /// # Errors
    /// [`Code::Lost`] if the lock was lost first, [`Code::NotHeld`] if it was released, [`Code::Forked`] in a forked child.
    ///
    /// # Cancel safety
    /// Dropping the future drops `work`. The lock stays held.
    pub async fn run<F: Future>(&self, work: F) -> Result<F::Output> {
        self.check_held()?;
        let (ended, mut work) = (pin!(self.ended()), pin!(work));
        tokio::select! {
            biased;
            end = ended => Err(match end {
                End::Lost(reason) => Error::lost(&self.name, reason),
                End::Released => self.released(),
            }),
            output = &mut work => Ok(output),
        }
    }

    /// Releases the lock and waits until etcd has confirmed it. A waiter of this process may go on before that.
    ///
    /// # Errors
    /// [`Code::Lost`] if the lock was lost before: what it protected may have been done by somebody else meanwhile.
    /// [`Code::DeadlineExceeded`] or [`Code::Unavailable`] if etcd could not be asked in time: the lock is released as far as
    /// this process is concerned, its key is deleted in the background and, at the latest, with its lease.
    ///
    /// # Cancel safety
    /// Dropping the future does not keep the lock: the release goes on in the background.
    pub async fn release(self) -> Result<()> {
        let (answer, released) = oneshot::channel();
        self.release_then(move |result| drop(answer.send(result)));
        released.await.unwrap_or_else(|_| Err(Error::lost(&self.name, LostReason::ClientClosed)))
    }

    /// [`Guard::release`] for threads without a runtime: blocks until etcd has confirmed.
    ///
    /// # Errors
    /// As [`Guard::release`].
    pub fn blocking_release(self) -> Result<()> {
        pollster::block_on(self.release())
    }

    /// [`Guard::release`] for owners who share the guard, as the bindings of other languages do: whoever comes second is told
    /// [`Code::NotHeld`]. `answer` is told once, as a rule on the thread that renews leases: it must neither block nor panic.
    #[doc(hidden)]
    pub fn release_then(&self, answer: impl FnOnce(Result<()>) + Send + 'static) {
        if let Err(error) = self.check_process() {
            return answer(Err(error));
        }
        if self.is_released.swap(true, Ordering::AcqRel) {
            return answer(Err(self.released()));
        }
        if let Some(error) = self.loss() {
            self.client.send(Command::Release(self.ticket, None));
            return answer(Err(error));
        }
        self.leave(answer);
    }

    /// Gives the hold back, and notes how it ended before `answer` is told.
    fn leave(&self, answer: impl FnOnce(Result<()>) + Send + 'static) {
        self.state.end_writes();
        if self.lent.as_ref().is_some_and(|lent| lent.give_back(&self.state)) {
            return answer(Ok(()));
        }
        self.state.advance(Fate::Leaving);
        let (name, state) = (self.name.clone(), self.state.clone());
        let end = move |result: Result<()>| {
            let result = match result {
                Err(error) if error.code() == Code::NotHeld => {
                    Err(Error::lost(&name, state.told_loss().unwrap_or(LostReason::Expired)))
                }
                // The client was closed since the lock was won: whoever holds it then has lost it.
                Err(error) if error.code() == Code::Closed => {
                    Err(Error::lost(&name, state.told_loss().unwrap_or(LostReason::ClientClosed)))
                }
                result => result,
            };
            let loss = result.as_ref().err().and_then(Error::reason);
            state.advance(Fate::Ended(loss.map_or(End::Released, End::Lost)));
            answer(result);
        };
        self.client.send(Command::Release(self.ticket, Some(Box::new(end))));
    }

    /// Makes the hold last at least `span` from now, and waits for etcd's word on it.
    ///
    /// A hold that is renewed lasts anyway; for it, this is a renewal at once and so a proof that the lock is held now. A hold
    /// without renewal ends `span` from now instead of earlier; where `span` is longer than the TTL of its lease, the lease
    /// is renewed until then, so a crash still frees the lock within that TTL.
    ///
    /// # Errors
    /// [`Code::InvalidArgument`] if `span` is shorter than 2 s or longer than 30 days. [`Code::Lost`] if the lock is lost.
    /// [`Code::DeadlineExceeded`] if etcd did not answer within the request timeout.
    ///
    /// # Cancel safety
    /// Dropping the future does not undo the extension.
    pub async fn extend(&self, span: Duration) -> Result<()> {
        self.check_process()?;
        if !(MIN_TTL..=MAX_TTL).contains(&span) {
            let message = format!("a hold can be extended by 2 s to 30 days, not by {span:?}");
            return Err(Error::new(Code::InvalidArgument, message));
        }
        self.check_held()?;
        let (answer, extended) = oneshot::channel();
        self.client.send(Command::Extend(self.ticket, span, answer));
        match extended.await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) if error.code() == Code::DeadlineExceeded => Err(error),
            _ => Err(self.loss().unwrap_or_else(|| self.expired())),
        }
    }

    /// Writes `value` under `key` (below the client's namespace) if the lock is still held, in one transaction with the check
    /// of the fencing token. Returns the revision of the write.
    ///
    /// # Errors
    /// [`Code::InvalidArgument`] if `key` stands below the name of the lock, where it would be taken for a contender: nothing was
    /// sent. [`Code::Lost`] if the hold's key is gone: nothing was written. [`Code::DeadlineExceeded`] or [`Code::Unavailable`] if
    /// there was no answer: it may have been written. It is not repeated, because a repeated write could undo a later one.
    ///
    /// # Cancel safety
    /// Dropping the future does not take the write back.
    pub async fn put(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<i64> {
        Ok(self.txn().put(key, value).commit().await?.revision)
    }

    /// Deletes `key` (below the client's namespace) if the lock is still held. Returns whether it existed.
    ///
    /// Errors and cancel safety are those of [`Guard::put`].
    pub async fn delete(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        Ok(self.txn().delete(key).commit().await?.deleted > 0)
    }

    /// Reads and writes in one transaction that takes effect only if the lock is still held.
    pub fn txn(&self) -> GuardedTxn<'_> {
        GuardedTxn { guard: self, ops: Vec::new() }
    }

    /// Whether it leads an election, and may proclaim something.
    pub(crate) fn is_elected(&self) -> bool {
        self.is_elected
    }

    /// Writes the value of its own key if the lock is still held.
    pub(crate) async fn overwrite(&self, value: Arc<[u8]>) -> Result<()> {
        self.check_held()?;
        let Hold { keys, token, lease, .. } = &self.hold;
        let Some(key) = keys.first() else { return Err(self.expired()) };
        let what = format!("could not proclaim as the leader of {}", text::quoted(&self.name));
        match self.client.call_once(wire::proclaim(key, *token, &value, *lease), &what).await?.body {
            ReplyBody::Txn(txn) if txn.succeeded => Ok(()),
            ReplyBody::Txn(_) => Err(self.loss().unwrap_or_else(|| Error::lost(&self.name, LostReason::KeyDeleted))),
            _ => Err(Error::new(Code::Internal, "etcd's reply to a transaction has an unknown shape")),
        }
    }

    fn is_forked(&self) -> bool {
        self.process != process::current()
    }

    fn check_process(&self) -> Result<()> {
        if self.is_forked() {
            let name = text::quoted(&self.name);
            let message = format!("the guard of {name} belongs to the parent process; acquire the lock in this one");
            return Err(Error::new(Code::Forked, message));
        }
        Ok(())
    }

    /// Whether it was released, or is being released.
    #[doc(hidden)]
    pub fn is_released(&self) -> bool {
        self.is_released.load(Ordering::Acquire)
    }

    /// Why the lock is not held any more; `None` while it is, and if it was released in time. Asks nobody: where the key is
    /// gone, it says [`LostReason::KeyDeleted`] until etcd has told whether the lease lives, which [`Guard::lost`] waits for.
    #[doc(hidden)]
    pub fn loss_reason(&self) -> Option<LostReason> {
        if self.is_forked() {
            return Some(LostReason::Forked);
        }
        let is_expired = || !self.is_released() && clock::now() >= self.state.deadline();
        self.state.told_loss().or_else(|| is_expired().then_some(LostReason::Expired))
    }

    fn released(&self) -> Error {
        let message =
            format!("the lock {} was released before; acquire it again for another hold", text::quoted(&self.name));
        Error::new(Code::NotHeld, message)
    }

    fn check_held(&self) -> Result<()> {
        self.check_process()?;
        if self.is_released() {
            return Err(self.released());
        }
        if self.is_held() { Ok(()) } else { Err(self.loss().unwrap_or_else(|| self.expired())) }
    }

    fn loss(&self) -> Option<Error> {
        self.state.told_loss().map(|reason| Error::lost(&self.name, reason))
    }

    /// The deadline has passed, and the engine has not come round to saying so.
    fn expired(&self) -> Error {
        Error::lost(&self.name, LostReason::Expired)
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if !self.is_forked() && !self.is_released.swap(true, Ordering::AcqRel) {
            // If the client is closed, its keys are gone already.
            self.leave(|_| {});
        }
    }
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guard")
            .field("name", &self.name)
            .field("keys", &self.hold.keys)
            .field("token", &self.hold.token)
            .field("held", &self.is_held())
            .finish_non_exhaustive()
    }
}

/// A transaction that takes effect only while its lock is held. Built by [`Guard::txn`]. Keys stand below the client's
/// namespace; etcd allows 128 operations by default.
#[must_use = "a transaction does nothing until it is committed"]
#[derive(Debug)]
pub struct GuardedTxn<'a> {
    guard: &'a Guard,
    ops: Vec<Op>,
}

/// What a [`GuardedTxn`] did.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Committed {
    /// The revision of etcd after the transaction; if it wrote, the revision of its writes.
    pub revision: i64,
    /// How many keys were deleted.
    pub deleted: i64,
    /// The values read, in the order of the reads; `None` where the key did not exist.
    pub values: Vec<Option<Vec<u8>>>,
}

impl GuardedTxn<'_> {
    /// Writes `value` under `key`, which must not stand below the name of the lock.
    pub fn put(mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Self {
        let key = self.key(key);
        self.ops.push(Op::Put { key, value: value.as_ref().into(), lease: None });
        self
    }

    /// Deletes `key`, which must not stand below the name of the lock.
    pub fn delete(mut self, key: impl AsRef<[u8]>) -> Self {
        let key = self.key(key);
        self.ops.push(Op::Delete(Keys::one(key)));
        self
    }

    /// Reads `key`, after the writes that come before it in this transaction.
    pub fn get(mut self, key: impl AsRef<[u8]>) -> Self {
        let key = self.key(key);
        self.ops.push(Op::Range(Range { keys: Keys::one(key), limit: 1, keys_only: false, pick: Pick::All }));
        self
    }

    /// Sends the transaction. Errors and cancel safety are those of [`Guard::put`].
    pub async fn commit(self) -> Result<Committed> {
        let guard = self.guard;
        self.check_keys()?;
        guard.check_held()?;
        let Hold { keys, token, .. } = &guard.hold;
        let stands = |key: &Key| CreateRevisionIs { keys: Keys::one(key.clone()), revision: *token };
        let is_empty = self.ops.is_empty();
        let mut then = self.ops;
        if is_empty {
            // A member answers a transaction without operations from what it knows, and asks nobody.
            let any = Keys::one(keys.first().cloned().unwrap_or_else(|| Key::from("")));
            then.push(Op::Range(Range { keys: any, limit: 1, keys_only: true, pick: Pick::All }));
        }
        let request = Request::Txn(Txn { conditions: keys.iter().map(stands).collect(), then, otherwise: Vec::new() });
        let what = format!("could not write under the lock {}", text::quoted(&guard.name));
        let write = guard.state.begin_write().ok_or_else(|| guard.released())?;
        let reply = guard.client.write_once(request, write, &what).await?;
        let ReplyBody::Txn(txn) = reply.body else {
            return Err(Error::new(Code::Internal, "etcd's reply to a transaction has an unknown shape"));
        };
        if !txn.succeeded {
            return Err(guard.loss().unwrap_or_else(|| Error::lost(&guard.name, LostReason::KeyDeleted)));
        }
        let mut committed = Committed { revision: reply.revision, deleted: 0, values: Vec::new() };
        for op in txn.replies {
            match op {
                OpReply::Delete(count) => committed.deleted += count,
                OpReply::Range(range) if !is_empty => {
                    committed.values.push(range.kvs.into_iter().next().map(|kv| kv.value.to_vec()));
                }
                OpReply::Range(_) | OpReply::Put | OpReply::Txn(_) => {}
            }
        }
        Ok(committed)
    }

    /// A key below a name of the lock would be a contender that no lease ever ends, and a deleted one somebody's place in the queue.
    fn check_keys(&self) -> Result<()> {
        let written = self.ops.iter().filter_map(|op| match op {
            Op::Put { key, .. } => Some(key),
            Op::Delete(keys) => Some(&keys.key),
            Op::Range(_) | Op::Txn(_) => None,
        });
        for key in written {
            let name = self.guard.hold.keys.iter().filter_map(name_of).find(|name| is_below(key, name));
            if let Some(name) = name {
                let name = String::from_utf8_lossy(name);
                return Err(Error::new(
                    Code::InvalidArgument,
                    format!(
                        "the key {key} stands below the name of the lock {}, where keys are contenders; write it elsewhere",
                        text::quoted(name.strip_prefix(self.guard.client.namespace()).unwrap_or(&name))
                    ),
                ));
            }
        }
        Ok(())
    }

    fn key(&self, key: impl AsRef<[u8]>) -> Key {
        self.guard.client.in_namespace(key.as_ref())
    }
}

/// The name that a contender's key stands below, namespace included.
fn name_of(key: &Key) -> Option<&[u8]> {
    let end = key.as_bytes().iter().rposition(|byte| *byte == b'/')?;
    key.as_bytes().get(..end)
}

fn is_below(key: &Key, name: &[u8]) -> bool {
    key.as_bytes().strip_prefix(name).is_some_and(|rest| rest.first() == Some(&b'/'))
}
