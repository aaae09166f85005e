//! The in-process etcd behind the [`Store`] trait: one [`Kv`] for all clients of one name, on the real clock.

#[cfg(test)]
mod tests;

use std::{
    collections::BTreeMap,
    fmt, future,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};

use tokio::sync::{mpsc, watch};

use super::{Kv, check, matching};
use crate::{
    clock::{self, Moment},
    process::PerProcess,
    store::{
        Keys, LeaseId, RenewalStream, Renewed, Reply, Request, STREAM_BACKLOG, Store, StoreError, StoreFuture, WatchId,
        WatchReply, WatchRequest, WatchStream,
    },
};

/// Every store of this process that a client still uses.
static STORES: PerProcess<Mutex<BTreeMap<String, Weak<MemoryStore>>>> = PerProcess::new();

/// An etcd inside this process, for unit tests of programs that lock.
///
/// **It locks nothing beyond this process.** Clients of one process that open the same name share one store; any other
/// process, and any forked child, has its own. It is lost with its last client. Never put it where two processes, or two
/// machines, must exclude each other.
///
/// A lock is lost on demand by revoking its lease ([`Request::LeaseRevoke`]) or by deleting its key.
pub struct MemoryStore {
    name: String,
    state: Mutex<State>,
    /// When the next lease is past its time, for the tasks that wait for that.
    next_expiry: watch::Sender<Option<Moment>>,
    me: Weak<Self>,
}

#[derive(Default)]
struct State {
    kv: Kv,
    streams: u64,
    watches: BTreeMap<(u64, WatchId), Watch>,
}

struct Watch {
    keys: Keys,
    replies: mpsc::UnboundedSender<Result<WatchReply, StoreError>>,
}

impl MemoryStore {
    /// The store of this name: the one that other clients of this process use, or a new and empty one.
    pub fn open(name: &str) -> Arc<Self> {
        let mut stores = lock(STORES.get());
        if let Some(store) = stores.get(name).and_then(Weak::upgrade) {
            return store;
        }
        let store = Arc::new_cyclic(|me| Self {
            name: name.to_owned(),
            state: Mutex::default(),
            next_expiry: watch::Sender::new(None),
            me: me.clone(),
        });
        stores.insert(name.to_owned(), Arc::downgrade(&store));
        store
    }

    /// Does `act` to the data as it stands now, and tells the watches what changed.
    ///
    /// Leases past their time end here, before anything else is seen or done: that needs no task of our own, and no runtime
    /// that could be gone.
    fn with<T>(&self, act: impl FnOnce(&mut State, Moment) -> T) -> T {
        let mut state = lock(&self.state);
        let now = clock::now();
        state.kv.expire(now);
        // Before `act`, so that a watch that it creates is not told what happened before.
        state.tell();
        let result = act(&mut state, now);
        state.tell();
        let next = state.kv.next_expiry();
        self.next_expiry.send_if_modified(|known| std::mem::replace(known, next) != next);
        result
    }
}

impl State {
    fn tell(&mut self) {
        let changes = self.kv.take_changes();
        for events in changes.chunk_by(|a, b| a.revision == b.revision) {
            // A watch whose stream is gone is forgotten; its task may not have noticed yet.
            self.watches.retain(|&(_, id), watch| {
                let events = matching(&watch.keys, events);
                events.is_empty() || watch.replies.send(Ok(WatchReply::Events { id, events })).is_ok()
            });
        }
    }

    fn watch(
        &mut self,
        stream: u64,
        request: WatchRequest,
        replies: &mpsc::UnboundedSender<Result<WatchReply, StoreError>>,
    ) {
        match request {
            WatchRequest::Create(id, keys) => {
                let reply = match check::watch(&keys) {
                    Ok(()) => {
                        self.watches.insert((stream, id), Watch { keys, replies: replies.clone() });
                        WatchReply::Created { id, revision: self.kv.revision() }
                    }
                    Err(error) => WatchReply::Cancelled { id, error },
                };
                // Nobody there to read it: the task sees that next.
                let _ = replies.send(Ok(reply));
            }
            WatchRequest::Cancel(id) => {
                self.watches.remove(&(stream, id));
            }
        }
    }
}

impl Store for MemoryStore {
    fn call(&self, request: Request, _timeout: Duration) -> StoreFuture<Reply> {
        let answer = self.with(|state, now| state.kv.call(now, &request));
        Box::pin(async {
            // The answer of a real store never comes within the same poll.
            tokio::task::yield_now().await;
            answer
        })
    }

    fn renewals(&self, _hedge: u32) -> RenewalStream {
        let (requests, inbox) = mpsc::unbounded_channel();
        let (outbox, replies) = mpsc::channel(STREAM_BACKLOG);
        tokio::spawn(serve_renewals(self.me.clone(), inbox, outbox));
        RenewalStream { requests, replies }
    }

    fn watches(&self) -> WatchStream {
        let (requests, inbox) = mpsc::unbounded_channel();
        let (outbox, replies) = mpsc::channel(STREAM_BACKLOG);
        let id = self.with(|state, _| {
            state.streams += 1;
            state.streams
        });
        let stream = OpenStream { store: self.me.clone(), id };
        tokio::spawn(serve_watches(stream, self.next_expiry.subscribe(), inbox, outbox));
        WatchStream { requests, replies }
    }
}

impl fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MemoryStore({:?})", self.name)
    }
}

impl Drop for MemoryStore {
    fn drop(&mut self) {
        let mut stores = lock(STORES.get());
        // A new store may have taken the name between our last client's end and now.
        if stores.get(&self.name).is_some_and(|store| store.strong_count() == 0) {
            stores.remove(&self.name);
        }
    }
}

/// The tasks hold the store weakly: its data is to end with its last client, not with the last task to be scheduled.
async fn serve_renewals(
    store: Weak<MemoryStore>,
    mut requests: mpsc::UnboundedReceiver<LeaseId>,
    replies: mpsc::Sender<Result<Renewed, StoreError>>,
) {
    loop {
        let lease = tokio::select! {
            lease = requests.recv() => lease,
            () = replies.closed() => None,
        };
        let (Some(lease), Some(store)) = (lease, store.upgrade()) else { return };
        let ttl = store.with(|state, now| state.kv.renew(now, lease));
        // If nobody reads it, the next turn ends the task.
        let _ = replies.send(Ok(Renewed { lease, ttl })).await;
    }
}

/// A watch stream that is being served. However its task ends, even with its runtime, its watches end with it.
struct OpenStream {
    store: Weak<MemoryStore>,
    id: u64,
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        if let Some(store) = self.store.upgrade() {
            store.with(|state, _| state.watches.retain(|&(stream, _), _| stream != self.id));
        }
    }
}

/// Serves one stream of watches. These tasks also end leases on time: who does not watch cannot tell when a lease ended, so
/// whenever it matters at least one of them is alive, whatever became of the runtimes of other clients.
async fn serve_watches(
    stream: OpenStream,
    mut next_expiry: watch::Receiver<Option<Moment>>,
    mut requests: mpsc::UnboundedReceiver<WatchRequest>,
    replies: mpsc::Sender<Result<WatchReply, StoreError>>,
) {
    // What has happened is noted at once, whoever made it happen; it is passed on as fast as it is read.
    let (note, mut noted) = mpsc::unbounded_channel();
    loop {
        let next = *next_expiry.borrow_and_update();
        let request = tokio::select! {
            request = requests.recv() => match request {
                Some(request) => Some(request),
                None => return,
            },
            () = replies.closed() => return,
            Some(reply) = noted.recv() => match replies.send(reply).await {
                Ok(()) => continue,
                Err(_) => return,
            },
            changed = next_expiry.changed() => match changed {
                Ok(()) => continue,
                Err(_) => return,
            },
            () = passed(next) => None,
        };
        let Some(store) = stream.store.upgrade() else { return };
        store.with(|state, _| {
            if let Some(request) = request {
                state.watch(stream.id, request, &note);
            }
        });
    }
}

async fn passed(moment: Option<Moment>) {
    match moment {
        Some(moment) => tokio::time::sleep(clock::now().until(moment)).await,
        None => future::pending().await,
    }
}

/// No code of ours panics while it holds one of these locks, and a panic must not spread to every other client.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
