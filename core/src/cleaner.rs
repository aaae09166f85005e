//! What must not stay in etcd: keys whose owner is gone, and leases of sessions that are over. Sans I/O.
//!
//! A key whose enqueue got no answer may stand, or may appear later: a member that wakes up applies what it was sent long ago,
//! and with a shared, renewed lease nothing else would ever free that key. So each such key is deleted until etcd says so, and
//! for a while after each unknown fate the keys of the lease are listed and swept.

use std::{collections::BTreeMap, time::Duration};

use crate::{
    clock::Moment,
    queue::{
        member::{SessionId, Ticket},
        wire,
    },
    store::{ErrorKind, Key, LeaseId, Reply, ReplyBody, Request, StoreError},
};

/// How long after an unknown fate every renewal is followed by a sweep.
const ALERT: Duration = Duration::from_secs(600);
/// How often a session is swept otherwise.
const ROUTINE: Duration = Duration::from_secs(60);
/// First and longest pause before a chore that failed is tried again.
const BACKOFF: Duration = Duration::from_millis(50);
const BACKOFF_MAX: Duration = Duration::from_secs(2);

/// Something to be done in etcd until it is done.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Chore {
    /// Delete this key of this lease.
    Delete(Key, LeaseId),
    /// Revoke this lease, and with it all its keys.
    Revoke(LeaseId),
}

/// What the cleaner asks for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Effect {
    /// Send this; answer with [`Cleaner::on_done`].
    Call(Chore, Request),
    /// The key of this contender is gone: as of this revision, or with its lease (`None`).
    Cleaned(Ticket, Option<i64>),
    /// List the keys of this session's lease; answer with [`Cleaner::on_swept`].
    Sweep(SessionId, LeaseId),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Progress {
    /// The contender that is told, and the create revision of its key.
    for_contender: Option<(Ticket, i64)>,
    attempts: u32,
    /// When it is sent again; `None` while it is on its way.
    retry_at: Option<Moment>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Sweeps {
    alert_until: Option<Moment>,
    last: Option<Moment>,
    is_on_its_way: bool,
}

/// The chores of one client.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Cleaner {
    chores: BTreeMap<Chore, Progress>,
    sweeps: BTreeMap<SessionId, Sweeps>,
}

impl Cleaner {
    /// Whether nothing is left to be done.
    pub fn is_idle(&self) -> bool {
        self.chores.is_empty()
    }

    /// Whether this lease is still to be revoked.
    pub fn is_revoking(&self, lease: LeaseId) -> bool {
        self.chores.contains_key(&Chore::Revoke(lease))
    }

    /// Deletes `key` until etcd confirms it. With a contender, only the key of its create revision, and it is told.
    pub fn delete(&mut self, key: Key, lease: LeaseId, for_contender: Option<(Ticket, i64)>, out: &mut Vec<Effect>) {
        if self.is_revoking(lease) {
            // The key goes with its lease; only whoever waits for it must be told then.
            self.chores.insert(Chore::Delete(key, lease), Progress { for_contender, attempts: 0, retry_at: None });
            return;
        }
        self.begin(Chore::Delete(key, lease), for_contender, out);
    }

    /// Revokes `lease` until etcd confirms it.
    pub fn revoke(&mut self, lease: LeaseId, out: &mut Vec<Effect>) {
        self.begin(Chore::Revoke(lease), None, out);
    }

    /// The fate of a transaction of `session` is unknown.
    pub fn alert(&mut self, now: Moment, session: SessionId) {
        self.sweeps.entry(session).or_default().alert_until = Some(now + ALERT);
    }

    /// A renewal of `session` was acknowledged: a good moment to sweep, if one is due.
    pub fn on_renewed(&mut self, now: Moment, session: SessionId, lease: LeaseId, out: &mut Vec<Effect>) {
        let sweeps = self.sweeps.entry(session).or_default();
        let is_alert = sweeps.alert_until.is_some_and(|until| now < until);
        let is_due = now.since(*sweeps.last.get_or_insert(now)) >= ROUTINE;
        if (is_alert || is_due) && !sweeps.is_on_its_way {
            sweeps.last = Some(now);
            sweeps.is_on_its_way = true;
            out.push(Effect::Sweep(session, lease));
        }
    }

    /// The answer to [`Effect::Sweep`]. `is_known` tells whether somebody here still uses a key.
    pub fn on_swept(
        &mut self,
        session: SessionId,
        lease: LeaseId,
        result: Result<Reply, StoreError>,
        is_known: impl Fn(&Key) -> bool,
        out: &mut Vec<Effect>,
    ) {
        let Some(sweeps) = self.sweeps.get_mut(&session) else { return };
        sweeps.is_on_its_way = false;
        let Ok(Reply { body: ReplyBody::LeaseTimeToLive { keys, .. }, .. }) = result else { return };
        for key in keys {
            // Users may attach keys of their own to the lease: only what looks like our choice can be a ghost of ours.
            if wire::is_chosen_by(&key, lease) && !is_known(&key) {
                tracing::warn!(%key, "deleting a key that was written after its enqueue was given up");
                self.delete(key, lease, None, out);
            }
        }
    }

    /// The session is over: nothing to sweep any more.
    pub fn forget_session(&mut self, session: SessionId) {
        self.sweeps.remove(&session);
    }

    /// The answer to [`Effect::Call`].
    pub fn on_done(&mut self, now: Moment, chore: Chore, result: Result<Reply, StoreError>, out: &mut Vec<Effect>) {
        let Some(progress) = self.chores.get_mut(&chore) else { return };
        match result {
            Ok(reply) => {
                let for_contender = progress.for_contender;
                self.chores.remove(&chore);
                if let Some((ticket, _)) = for_contender {
                    out.push(Effect::Cleaned(ticket, Some(reply.revision)));
                }
                if let Chore::Revoke(lease) = chore {
                    self.on_lease_gone(lease, out);
                }
            }
            Err(error) => match (&chore, error.kind) {
                (Chore::Revoke(lease), ErrorKind::LeaseNotFound) => {
                    let lease = *lease;
                    self.chores.remove(&chore);
                    self.on_lease_gone(lease, out);
                }
                // Only what may still work is repeated: with the rights gone, the lease's end is what is left.
                _ if error.is_transient() || error.ambiguous => {
                    let pause = BACKOFF.saturating_mul(1 << progress.attempts.min(10)).min(BACKOFF_MAX);
                    progress.retry_at = Some(now + pause);
                }
                _ => {
                    tracing::warn!(?chore, %error, "could not clean up; the end of the lease will");
                    let for_contender = progress.for_contender;
                    self.chores.remove(&chore);
                    if let Some((ticket, _)) = for_contender {
                        out.push(Effect::Cleaned(ticket, None));
                    }
                    if let Chore::Revoke(lease) = chore {
                        self.on_lease_gone(lease, out);
                    }
                }
            },
        }
    }

    /// When [`Cleaner::tick`] has something to do.
    pub fn wake(&self) -> Option<Moment> {
        self.chores.values().filter_map(|progress| progress.retry_at).min()
    }

    /// Sends again what is due.
    pub fn tick(&mut self, now: Moment, out: &mut Vec<Effect>) {
        for (chore, progress) in &mut self.chores {
            if progress.retry_at.is_some_and(|at| at <= now) {
                progress.retry_at = None;
                progress.attempts += 1;
                out.push(Effect::Call(chore.clone(), request(chore, progress.for_contender)));
            }
        }
    }

    fn begin(&mut self, chore: Chore, for_contender: Option<(Ticket, i64)>, out: &mut Vec<Effect>) {
        if let Some(begun) = self.chores.get_mut(&chore) {
            begun.for_contender = begun.for_contender.or(for_contender);
            return;
        }
        out.push(Effect::Call(chore.clone(), request(&chore, for_contender)));
        self.chores.insert(chore, Progress { for_contender, attempts: 0, retry_at: None });
    }

    fn on_lease_gone(&mut self, lease: LeaseId, out: &mut Vec<Effect>) {
        self.chores.retain(|chore, progress| {
            let is_dead = matches!(chore, Chore::Delete(_, of) if *of == lease);
            if is_dead && let Some((ticket, _)) = progress.for_contender {
                out.push(Effect::Cleaned(ticket, None));
            }
            !is_dead
        });
    }
}

fn request(chore: &Chore, for_contender: Option<(Ticket, i64)>) -> Request {
    match (chore, for_contender) {
        (Chore::Delete(key, _), Some((_, revision))) => wire::delete(&[(key.clone(), revision)]),
        (Chore::Delete(key, _), None) => wire::delete_unseen(key),
        (Chore::Revoke(lease), _) => Request::LeaseRevoke { lease: *lease },
    }
}
