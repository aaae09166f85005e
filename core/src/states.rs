//! How a client's sessions feel: what is so now, and what changes.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::sync::broadcast;

use crate::{error::LostReason, session::Health, terms::SessionId};

/// Changes that a slow listener may lag behind before it misses some.
const KEPT: usize = 64;

/// How a client's session feels. The session can be trusted while it is `Ok` or `Suspect`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SessionState {
    /// Renewed in time.
    Ok,
    /// A renewal is overdue. Locks are still held: there is time left to stop in good order.
    Suspect,
    /// Over: its guards are lost for this reason. The next acquire starts another session.
    Lost(LostReason),
}

impl From<Health> for SessionState {
    fn from(health: Health) -> Self {
        match health {
            Health::Ok => Self::Ok,
            Health::Suspect => Self::Suspect,
            Health::Lost(reason) => Self::Lost(reason),
        }
    }
}

/// One session of a client, and how it feels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct SessionStatus {
    /// The TTL of its locks: a client has one session for each TTL that they ask for.
    pub ttl: Duration,
    /// How it feels.
    pub state: SessionState,
}

/// The states of a client's sessions; see [`Client::states`](crate::Client::states).
#[derive(Debug)]
pub struct States {
    changes: broadcast::Receiver<SessionStatus>,
}

impl States {
    /// Waits for the next change; `None` when the client is gone. A listener that lags far behind misses the oldest ones.
    ///
    /// # Cancel safety
    /// No change is lost when the future is dropped.
    pub async fn next(&mut self) -> Option<SessionStatus> {
        loop {
            match self.changes.recv().await {
                Ok(change) => return Some(change),
                Err(broadcast::error::RecvError::Lagged(_)) => {}
                Err(broadcast::error::RecvError::Closed) => return None,
            }
        }
    }
}

/// What the engine writes on and everybody reads.
#[derive(Debug)]
pub(crate) struct Board {
    live: Mutex<BTreeMap<SessionId, SessionStatus>>,
    changes: broadcast::Sender<SessionStatus>,
}

impl Default for Board {
    fn default() -> Self {
        Self { live: Mutex::default(), changes: broadcast::Sender::new(KEPT) }
    }
}

impl Board {
    /// A session has a lease. That is no change to tell.
    pub(crate) fn begin(&self, session: SessionId, ttl: Duration) {
        self.live().entry(session).or_insert(SessionStatus { ttl, state: SessionState::Ok });
    }

    /// The health of a session changed.
    pub(crate) fn change(&self, session: SessionId, ttl: Duration, health: Health) {
        let status = SessionStatus { ttl, state: health.into() };
        if matches!(status.state, SessionState::Lost(_)) {
            self.live().remove(&session);
        } else {
            self.live().insert(session, status);
        }
        // Nobody listens, as a rule.
        let _ = self.changes.send(status);
    }

    /// A session is over.
    pub(crate) fn end(&self, session: SessionId) {
        self.live().remove(&session);
    }

    /// The sessions that live, the shortest TTL first.
    pub(crate) fn current(&self) -> Vec<SessionStatus> {
        let mut current: Vec<_> = self.live().values().copied().collect();
        current.sort_by_key(|status| status.ttl);
        current
    }

    /// The changes from now on.
    pub(crate) fn listen(&self) -> States {
        States { changes: self.changes.subscribe() }
    }

    fn live(&self) -> MutexGuard<'_, BTreeMap<SessionId, SessionStatus>> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
