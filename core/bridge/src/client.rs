//! A client as a host sees it: every call starts an operation.

use std::{
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use leasehold::{Acquiring, All, Claim, ClientOptions, Code, Error, Lock, Metrics, Result, process::PerProcess};
use slotmap::DefaultKey;

use crate::{
    completion::{Outcome, Sink},
    fork,
    guard::Guard,
    handles,
    live::{self, Counted},
    operation::{self, Cancel, OpId},
    options::AcquireOptions,
    panics,
};

/// A client; see [`leasehold::Client`] for what its operations do and which errors they bring.
#[derive(Debug)]
pub struct Client {
    core: leasehold::Client,
    /// For its guards, which keep it: whatever is held is released by the end of the process.
    me: Weak<Self>,
    /// Cancelled when it is closed: ends what listens.
    closed: Cancel,
    /// Set by the operation that is the first, before it is started.
    is_used: PerProcess<AtomicBool>,
    entry: DefaultKey,
    _counted: Counted,
}

impl Client {
    /// Makes a client. Opens no connection and starts no thread.
    ///
    /// # Errors
    /// [`Code::InvalidArgument`], with a message that says which option is wrong and what it should be.
    pub fn open(options: ClientOptions) -> Result<Arc<Self>> {
        fork::watch();
        let core = options.build()?;
        let client = Arc::new_cyclic(|me| {
            let entry = handles::tables().open.insert(me.clone());
            let (closed, is_used) = (Cancel::new(), PerProcess::new());
            Self { core, me: me.clone(), closed, is_used, entry, _counted: Counted::new(&live::CLIENTS) }
        });
        Ok(client)
    }

    /// Who it says it is to whoever looks at a queue.
    pub fn identity(&self) -> String {
        self.core.identity()
    }

    /// Whether it was used in this process, so that there may be something to close.
    pub(crate) fn is_used(&self) -> bool {
        self.is_used.get().load(Ordering::Relaxed)
    }

    fn core_in_use(&self) -> &leasehold::Client {
        self.is_used.get().store(true, Ordering::Relaxed);
        &self.core
    }

    /// Acquires all of `names`, each with its claim, at once; brings [`Outcome::Guard`]. A try, or a wait limit, that fails is
    /// [`Code::NotAcquired`].
    pub fn acquire(
        &self,
        names: &[(&str, Claim)],
        options: &AcquireOptions,
        cancel: Option<&Cancel>,
        sink: Sink,
    ) -> OpId {
        let core = self.core_in_use();
        if let [(name, claim)] = names {
            return self.acquire_lock(core.lock_as(name, *claim), options, cancel, sink);
        }
        let locks = names.iter().map(|(name, claim)| core.lock_as(name, *claim));
        let all = core.all(locks).renew(options.renew).requeue(options.requeue);
        let all = options.ttl.into_iter().fold(all, All::ttl).sharing(options.local_first, options.linger);
        self.start_acquire(cancel, sink, |answer| all.acquire_then(options.wait, answer))
    }

    /// Stands for election under `name` with `value`; brings [`Outcome::Guard`] when it leads, and fails as [`Client::acquire`] does.
    pub fn campaign(
        &self,
        name: &str,
        value: &[u8],
        options: &AcquireOptions,
        cancel: Option<&Cancel>,
        sink: Sink,
    ) -> OpId {
        self.acquire_lock(self.core_in_use().election(name).candidate(value), options, cancel, sink)
    }

    fn acquire_lock(&self, lock: Lock, options: &AcquireOptions, cancel: Option<&Cancel>, sink: Sink) -> OpId {
        let mut lock = lock.renew(options.renew).requeue(options.requeue);
        if let Some(ttl) = options.ttl {
            lock = lock.ttl(ttl);
        }
        if let Some(bound) = options.local_first {
            lock = lock.local_first_within(bound);
        }
        if let Some(span) = options.linger {
            lock = lock.linger(span);
        }
        self.start_acquire(cancel, sink, |answer| lock.acquire_then(options.wait, answer))
    }

    fn start_acquire(
        &self,
        cancel: Option<&Cancel>,
        sink: Sink,
        begin: impl FnOnce(Box<dyn FnOnce(Result<leasehold::Guard>) + Send>) -> Acquiring,
    ) -> OpId {
        let me = self.me.upgrade();
        operation::start_acquire(sink, cancel, |pending| {
            begin(Box::new(|result| {
                panics::contain(|| match result {
                    // It won before the core heard of the cancel. Whoever cancelled counts on having no guard, and on nothing
                    // being left in the queue. If the release fails, the lock is lost or will be: nobody holds it by this acquire.
                    Ok(guard) if pending.is_cancelled() => {
                        guard.release_then(|_| pending.complete(Err(operation::cancelled())));
                    }
                    result => pending.complete(result.map(|guard| Outcome::Guard(Guard::new(guard, me)))),
                });
            }))
        })
    }

    /// Asks etcd for a sign of life.
    pub fn ping(&self, cancel: Option<&Cancel>, sink: Sink) -> OpId {
        let core = self.core_in_use().clone();
        operation::start(sink, cancel, |stop| async move {
            stop.or(core.ping()).await?;
            Ok(Outcome::Done)
        })
    }

    /// Lists everybody in the queue of `name`; brings [`Outcome::Contenders`].
    pub fn queue(&self, name: &str, cancel: Option<&Cancel>, sink: Sink) -> OpId {
        let lock = self.core_in_use().lock(name);
        operation::start(sink, cancel, |stop| async move { Ok(Outcome::Contenders(stop.or(lock.queue()).await?)) })
    }

    /// Removes the contender with `token` from the queue of `name`.
    pub fn force_release(&self, name: &str, token: i64, cancel: Option<&Cancel>, sink: Sink) -> OpId {
        let lock = self.core_in_use().lock(name);
        operation::start(sink, cancel, |stop| async move {
            stop.or(lock.force_release(token)).await?;
            Ok(Outcome::Done)
        })
    }

    /// Asks who leads the election `name`; brings [`Outcome::Leader`].
    pub fn leader(&self, name: &str, cancel: Option<&Cancel>, sink: Sink) -> OpId {
        let election = self.core_in_use().election(name);
        operation::start(sink, cancel, |stop| async move { Ok(Outcome::Leader(stop.or(election.leader()).await?)) })
    }

    /// Reports who leads the election `name`, at once and at each change, as [`Outcome::Observed`], until it is cancelled, it fails,
    /// or the client is closed, which brings [`Outcome::Done`] unless nothing was reported yet.
    pub fn observe(&self, name: &str, cancel: Option<&Cancel>, sink: Sink) -> OpId {
        let mut observer = self.core_in_use().election(name).observe();
        operation::start_with(sink, cancel, |stopped, sink| async move {
            let mut observed = stopped.or(observer.next()).await?;
            loop {
                sink.report(Outcome::Observed(observed));
                observed = match stopped.or(observer.next()).await {
                    Err(error) if error.code() == Code::Closed => return Ok(Outcome::Done),
                    result => result?,
                };
            }
        })
    }

    /// Reports the changes of the session's state as [`Outcome::State`], until it is cancelled or the client is closed.
    pub fn on_state(&self, sink: Sink) -> OpId {
        let (mut states, closed) = (self.core_in_use().states(), self.closed.clone());
        operation::start_with(sink, Some(&self.closed), |stopped, sink| async move {
            loop {
                // In this order: closing brings a last state.
                let state = tokio::select! {
                    biased;
                    state = states.next() => state,
                    () = stopped.asked() => None,
                };
                match state {
                    Some(status) => sink.report(Outcome::State(status.state)),
                    None if closed.is_cancelled() => return Ok(Outcome::Done),
                    None => return Err(operation::cancelled()),
                }
            }
        })
    }

    /// What it has counted and timed in this process. Asks nobody.
    pub fn metrics(&self) -> Metrics {
        self.core.metrics()
    }

    /// Releases everything and ends the client. Operations that are under way end with [`Code::Closed`].
    pub fn close(&self, sink: Sink) -> OpId {
        let (core, closed) = (self.core.clone(), self.closed.clone());
        operation::start_anyway(sink, None, |_| async move {
            let result = core.close().await;
            closed.cancel();
            result.map(|()| Outcome::Done)
        })
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        handles::tables().open.remove(self.entry);
    }
}

/// A span in milliseconds as hosts give it. Negative is `None`: for ever, or the default.
pub fn milliseconds(millis: i64) -> Option<Duration> {
    u64::try_from(millis).ok().map(Duration::from_millis)
}

/// The error of a handle that is stale or was never given out.
pub fn stale(what: &str) -> Error {
    Error::new(Code::InvalidArgument, format!("this {what} was freed before, or never made"))
}
