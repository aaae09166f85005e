//! What must not stay in etcd: keys whose owner is gone, and leases of sessions that are over. Sans I/O.
//!
//! A key whose enqueue got no answer may stand, or may appear later: a member that wakes up applies what it was sent long ago,
//! and with a shared, renewed lease nothing else would ever free that key. So each such key is deleted until etcd says so, and
//! the keys of every lease that is renewed are listed and swept: once a minute, and every few seconds for a while after each
//! unknown fate, whatever the TTL. A key is a ghost if two lists in a row show it and nobody here has it: the first may be older
//! than what was done since.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use crate::{
    backoff::Backoff,
    clock::Moment,
    queue::wire,
    store::{ErrorKind, Key, LeaseId, Reply, Request, StoreError},
    terms::{PlaceId, QueueId, SessionId},
};

/// How long after an unknown fate a lease is swept more often.
const ALERT: Duration = Duration::from_secs(600);
/// How often it is swept then, at least; more often where a TTL is short enough for people to notice.
const ALERTED: Duration = Duration::from_secs(5);
/// How often it is swept otherwise.
const ROUTINE: Duration = Duration::from_secs(60);
/// Pauses before a chore that failed is tried again.
const BACKOFF: Backoff = Backoff::new(Duration::from_millis(50), Duration::from_secs(2));

/// Something to be done in etcd until it is done.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Chore {
    /// Delete this key of this lease.
    Delete(LeaseId, Key),
    /// Revoke this lease, and with it all its keys.
    Revoke(LeaseId),
}

/// What the cleaner asks for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Effect {
    /// Send this; answer with [`Cleaner::on_done`].
    Call(Chore, Request),
    /// The key of this place is gone: as of this revision, or with its lease (`None`).
    Cleaned((QueueId, PlaceId), Option<i64>),
    /// List the keys of this session's lease; answer with [`Cleaner::on_swept`].
    Sweep(SessionId, LeaseId),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Progress {
    /// The place that is told, and the create revision of its key.
    place: Option<(QueueId, PlaceId, i64)>,
    failures: u32,
    /// When it is sent again; `None` while it is on its way.
    retry_at: Option<Moment>,
}

/// The sweeps of one lease.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Sweeps {
    lease: LeaseId,
    /// How often in an alert.
    alerted: Duration,
    /// Whether it is swept although nothing happened: not where it ends by itself soon.
    is_routine: bool,
    alert_until: Moment,
    /// When the next one is due; `None` while one is on its way.
    next: Option<Moment>,
    /// Keys that the last list showed and that nobody here has.
    suspects: BTreeSet<Key>,
}

/// The chores of one client.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Cleaner {
    chores: BTreeMap<Chore, Progress>,
    retries: BTreeSet<(Moment, Chore)>,
    sweeps: BTreeMap<SessionId, Sweeps>,
    due: BTreeSet<(Moment, SessionId)>,
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

    /// Deletes `key` until etcd confirms it. With a place, only the key of its create revision, and it is told.
    pub fn delete(&mut self, key: Key, lease: LeaseId, place: Option<(QueueId, PlaceId, i64)>, out: &mut Vec<Effect>) {
        if self.is_revoking(lease) {
            // The key goes with its lease; only whoever waits for it must be told then.
            self.chores.insert(Chore::Delete(lease, key), Progress { place, failures: 0, retry_at: None });
            return;
        }
        self.begin(Chore::Delete(lease, key), place, out);
    }

    /// Revokes `lease` until etcd confirms it.
    pub fn revoke(&mut self, lease: LeaseId, out: &mut Vec<Effect>) {
        self.begin(Chore::Revoke(lease), None, out);
    }

    /// The lease of `session` lives and is renewed: it is swept from now on.
    pub fn watch_over(&mut self, now: Moment, session: SessionId, lease: LeaseId, ttl: Duration) {
        let sweeps = self.sweeps.entry(session).or_insert_with(|| Sweeps::new(lease, ttl));
        if !sweeps.is_routine {
            sweeps.is_routine = true;
            let next = sweeps.next.unwrap_or(now + ROUTINE);
            self.schedule(session, Some(next));
        }
    }

    /// The fate of a transaction of `session` is unknown.
    pub fn alert(&mut self, now: Moment, session: SessionId, lease: LeaseId, ttl: Duration) {
        let sweeps = self.sweeps.entry(session).or_insert_with(|| Sweeps::new(lease, ttl));
        let was_alert = now < sweeps.alert_until;
        sweeps.alert_until = now + ALERT;
        if !was_alert && (sweeps.next.is_some() || !sweeps.is_routine) {
            let next = now + sweeps.alerted;
            self.schedule(session, Some(next));
        }
    }

    /// The answer to [`Effect::Sweep`]: the keys of the lease, if it was answered. `is_known` tells whether somebody here has a
    /// key; where there are many of them, only sweeps tell which of them are gone, and come as often as in an alert. Returns the
    /// ghosts.
    pub fn on_swept(
        &mut self,
        now: Moment,
        session: SessionId,
        lease: LeaseId,
        keys: Option<Vec<Key>>,
        is_many: bool,
        is_known: impl Fn(&Key) -> bool,
    ) -> Vec<Key> {
        let Some(sweeps) = self.sweeps.get_mut(&session) else { return Vec::new() };
        let mut ghosts = Vec::new();
        if let Some(keys) = keys {
            // Users may attach keys of their own to the lease: only what looks like our choice can be a ghost of ours.
            let unknown = keys.into_iter().filter(|key| wire::is_chosen_by(key, lease) && !is_known(key));
            let suspects = std::mem::take(&mut sweeps.suspects);
            for key in unknown {
                if suspects.contains(&key) {
                    ghosts.push(key);
                } else {
                    sweeps.suspects.insert(key);
                }
            }
        }
        let pause = if !sweeps.suspects.is_empty() {
            Some(sweeps.alerted / 3) // the list that confirms it
        } else if is_many || now < sweeps.alert_until {
            Some(sweeps.alerted)
        } else {
            sweeps.is_routine.then_some(ROUTINE)
        };
        self.schedule(session, pause.map(|pause| now + pause));
        ghosts
    }

    /// The session is over: nothing to sweep any more.
    pub fn forget_session(&mut self, session: SessionId) {
        self.schedule(session, None);
        self.sweeps.remove(&session);
    }

    /// The answer to [`Effect::Call`].
    pub fn on_done(&mut self, now: Moment, chore: Chore, result: Result<Reply, StoreError>, out: &mut Vec<Effect>) {
        let Some(progress) = self.chores.get_mut(&chore) else { return };
        let revision = match result {
            Ok(reply) => Some(reply.revision),
            Err(error) if matches!(chore, Chore::Revoke(_)) && error.kind == ErrorKind::LeaseNotFound => None,
            // Only what may still work is repeated: with the rights gone, the lease's end is what is left.
            Err(error) if error.is_transient() || error.ambiguous => {
                let (Chore::Delete(lease, _) | Chore::Revoke(lease)) = chore;
                progress.failures = progress.failures.saturating_add(1);
                let at = now + BACKOFF.pause(progress.failures, lease.0.unsigned_abs());
                progress.retry_at = Some(at);
                self.retries.insert((at, chore));
                return;
            }
            Err(error) => {
                tracing::warn!(?chore, %error, "could not clean up; the end of the lease will");
                None
            }
        };
        self.end(&chore, revision, out);
        if let Chore::Revoke(lease) = chore {
            // Its keys are gone with it.
            let deletes = Chore::Delete(lease, Key::from(""))..;
            let of_lease = |chore: &Chore| matches!(chore, Chore::Delete(of, _) if *of == lease);
            let dead: Vec<Chore> =
                self.chores.range(deletes).map(|(chore, _)| chore.clone()).take_while(of_lease).collect();
            for chore in dead {
                self.end(&chore, None, out);
            }
        }
    }

    /// When [`Cleaner::tick`] has something to do.
    pub fn wake(&self) -> Option<Moment> {
        let retry = self.retries.first().map(|(at, _)| *at);
        retry.into_iter().chain(self.due.first().map(|(at, _)| *at)).min()
    }

    /// Sends again what is due, and sweeps.
    pub fn tick(&mut self, now: Moment, out: &mut Vec<Effect>) {
        while let Some((_, chore)) = pop_due(&mut self.retries, now) {
            if let Some(progress) = self.chores.get_mut(&chore) {
                progress.retry_at = None;
                let request = request(&chore, progress.place);
                out.push(Effect::Call(chore, request));
            }
        }
        while let Some((_, session)) = pop_due(&mut self.due, now) {
            if let Some(sweeps) = self.sweeps.get_mut(&session) {
                sweeps.next = None;
                out.push(Effect::Sweep(session, sweeps.lease));
            }
        }
    }

    fn begin(&mut self, chore: Chore, place: Option<(QueueId, PlaceId, i64)>, out: &mut Vec<Effect>) {
        if let Some(begun) = self.chores.get_mut(&chore) {
            begun.place = begun.place.or(place);
            return;
        }
        out.push(Effect::Call(chore.clone(), request(&chore, place)));
        self.chores.insert(chore, Progress { place, failures: 0, retry_at: None });
    }

    fn end(&mut self, chore: &Chore, revision: Option<i64>, out: &mut Vec<Effect>) {
        let Some(progress) = self.chores.remove(chore) else { return };
        if let Some(at) = progress.retry_at {
            self.retries.remove(&(at, chore.clone()));
        }
        if let Some((queue, place, _)) = progress.place {
            out.push(Effect::Cleaned((queue, place), revision));
        }
    }

    fn schedule(&mut self, session: SessionId, next: Option<Moment>) {
        let Some(sweeps) = self.sweeps.get_mut(&session) else { return };
        if let Some(at) = std::mem::replace(&mut sweeps.next, next) {
            self.due.remove(&(at, session));
        }
        self.due.extend(next.map(|at| (at, session)));
    }
}

impl Sweeps {
    fn new(lease: LeaseId, ttl: Duration) -> Self {
        Self {
            lease,
            alerted: (ttl / 3).min(ALERTED),
            is_routine: false,
            alert_until: Moment::default(),
            next: None,
            suspects: BTreeSet::new(),
        }
    }
}

fn pop_due<T: Ord>(index: &mut BTreeSet<(Moment, T)>, now: Moment) -> Option<(Moment, T)> {
    if index.first()?.0 <= now { index.pop_first() } else { None }
}

fn request(chore: &Chore, place: Option<(QueueId, PlaceId, i64)>) -> Request {
    match (chore, place) {
        (Chore::Delete(_, key), Some((_, _, revision))) => Request::Txn(wire::delete(&[(key.clone(), revision)])),
        (Chore::Delete(_, key), None) => wire::delete_unseen(key),
        (Chore::Revoke(lease), _) => Request::LeaseRevoke { lease: *lease },
    }
}
