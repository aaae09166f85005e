//! What the hub has cleaned up: keys that nobody has any more, leases that are over, and holds that lost their key.

use std::{collections::BTreeSet, time::Duration};

use super::{Action, Asked, Hub, RpcId, queues::HOLD_WATCHES};
use crate::{
    cleaner::{self, Chore, Effect},
    clock::Moment,
    error::LostReason,
    queue::{
        Input,
        wire::{self, Choice},
    },
    store::{Key, LeaseId, Reply, ReplyBody, Request, StoreError},
    terms::{PlaceId, QueueId, SessionId, Ticket},
};

/// How long to wait for the word whether a lost hold's lease still lives.
const AUTOPSY: Duration = Duration::from_secs(1);

impl Hub {
    /// Has `key` deleted until etcd confirms it. A delete that etcd answers late must not meet another place under the same key.
    pub(super) fn clean(
        &mut self,
        key: Key,
        lease: LeaseId,
        place: Option<(QueueId, PlaceId, i64)>,
        chores: &mut Vec<Effect>,
    ) {
        self.sessions.taint(&key, lease);
        self.cleaner.delete(key, lease, place, chores);
    }

    /// The fate of an enqueue is unknown.
    pub(super) fn on_ambiguous(&mut self, now: Moment, key: &Key, lease: LeaseId) {
        self.sessions.taint(key, lease);
        if let Some(session) = self.sessions.of_lease(lease)
            && let Some(ttl) = self.sessions.ttl_of(session)
        {
            self.cleaner.alert(now, session, lease, ttl);
        }
    }

    /// A key came into an order that is none of our places': if one of our leases chose it, it is the ghost of one.
    pub(super) fn on_stranger(&mut self, key: Key, chores: &mut Vec<Effect>) {
        if let Some(Choice { lease, .. }) = wire::choice(&key)
            && self.sessions.of_lease(lease).is_some()
        {
            tracing::warn!(%key, "deleting a key that was written after its enqueue was given up");
            self.clean(key, lease, None, chores);
        } else if !wire::is_of_lease(&key) && !std::mem::replace(&mut self.has_met_copies, true) {
            tracing::warn!(
                %key,
                "a queue holds a key that is not named by a lease: a lock class that queues by itself enters beside the holder when \
                 whoever waits ahead of it gives up; stop all of those before you start clients of leasehold"
            );
        }
    }

    pub(super) fn revoke(&mut self, now: Moment, lease: LeaseId, out: &mut Vec<Action>) {
        let mut effects = Vec::new();
        self.cleaner.revoke(lease, &mut effects);
        self.apply_cleaner(now, effects, out);
    }

    pub(super) fn apply_cleaner(&mut self, now: Moment, effects: Vec<Effect>, out: &mut Vec<Action>) {
        for effect in effects {
            match effect {
                Effect::Call(chore, request) => {
                    self.call(Asked::Chore(chore), request, self.config.call_timeout, out);
                }
                Effect::Cleaned((queue, place), revision) => {
                    self.with_queue(now, queue, Input::Cleaned(place, revision), out);
                }
                Effect::Sweep(session, lease) => {
                    let request = Request::LeaseTimeToLive { lease };
                    self.call(Asked::Sweep(session, lease), request, self.config.call_timeout, out);
                }
            }
        }
    }

    pub(super) fn on_chore_done(
        &mut self,
        now: Moment,
        chore: Chore,
        result: Result<Reply, StoreError>,
        out: &mut Vec<Action>,
    ) {
        let mut effects = Vec::new();
        self.cleaner.on_done(now, chore, result, &mut effects);
        self.apply_cleaner(now, effects, out);
    }

    pub(super) fn on_swept(
        &mut self,
        now: Moment,
        (session, lease): (SessionId, LeaseId),
        result: Result<Reply, StoreError>,
        out: &mut Vec<Action>,
    ) {
        if result.as_ref().is_err_and(StoreError::is_transient) {
            // It may have been to find out what became of holds.
            self.doubt(now);
        }
        let swept = match result {
            Ok(Reply { revision, body: ReplyBody::LeaseTimeToLive { keys, .. }, .. }) => {
                self.doubt_missing(now, session, (revision, &keys), out);
                Some(keys)
            }
            _ => None,
        };
        // More holds than are watched: what vanished is found here.
        let is_many = self.sessions.callers(session).count() > HOLD_WATCHES;
        let is_known = |key: &Key| self.queues.use_key(&self.config.namespace, key);
        let ghosts = self.cleaner.on_swept(now, session, lease, swept, is_many, is_known);
        let mut chores = Vec::new();
        for key in ghosts {
            tracing::warn!(%key, "deleting a key that was written after its enqueue was given up");
            self.clean(key, lease, None, &mut chores);
        }
        self.apply_cleaner(now, chores, out);
    }

    /// Lists the keys of a session's lease, out of turn.
    pub(super) fn sweep_now(&mut self, session: SessionId, out: &mut Vec<Action>) {
        if let Some(lease) = self.sessions.lease_of(session) {
            self.call(Asked::Sweep(session, lease), Request::LeaseTimeToLive { lease }, self.config.call_timeout, out);
        }
    }

    /// A hold or a waiter whose key is not among those of its lease may have lost it without a word from its watch. The list comes
    /// from whatever the leader has applied so far: only a read can tell.
    fn doubt_missing(
        &mut self,
        now: Moment,
        session: SessionId,
        (revision, keys): (i64, &[Key]),
        out: &mut Vec<Action>,
    ) {
        let keys: BTreeSet<&Key> = keys.iter().collect();
        let is_missing = |(queue, place): &(QueueId, PlaceId)| {
            let standing = self.queues.get(*queue).and_then(|queue| queue.standing_key(*place));
            standing.is_some_and(|(key, at)| at <= revision && !keys.contains(key))
        };
        let callers = self.sessions.callers(session).filter_map(|ticket| self.callers.get(ticket));
        let missing: Vec<_> = callers.flat_map(|caller| caller.places()).filter(is_missing).collect();
        for (queue, place) in missing {
            self.with_queue(now, queue, Input::Doubt(place), out);
        }
    }

    /// The key of a hold is gone, and with it the hold; whether the lease lives, etcd is asked. `ticket` is told the reason then.
    pub(super) fn begin_autopsy(&mut self, ticket: Ticket, session: SessionId, out: &mut Vec<Action>) {
        let Some(lease) = self.sessions.lease_of(session) else { return };
        let rpc = self.call(Asked::Autopsy(session), Request::LeaseTimeToLive { lease }, AUTOPSY, out);
        self.sessions.add_autopsy(session, rpc, ticket);
    }

    pub(super) fn on_autopsy(
        &mut self,
        now: Moment,
        rpc: RpcId,
        session: SessionId,
        result: Result<Reply, StoreError>,
        out: &mut Vec<Action>,
    ) {
        // Where the session is over, the reason was told then.
        let Some(ticket) = self.sessions.take_autopsy(session, rpc) else { return };
        let is_dead = matches!(result, Ok(Reply { body: ReplyBody::LeaseTimeToLive { ttl, .. }, .. }) if ttl <= 0);
        out.push(Action::Lost(ticket, if is_dead { LostReason::LeaseRevoked } else { LostReason::KeyDeleted }));
        if is_dead {
            self.end_session(now, session, LostReason::LeaseRevoked, out);
        } else {
            self.unseat(now, ticket, session, out);
        }
    }

    pub(super) fn tick_cleaner(&mut self, now: Moment, out: &mut Vec<Action>) {
        let mut effects: Vec<cleaner::Effect> = Vec::new();
        self.cleaner.tick(now, &mut effects);
        self.apply_cleaner(now, effects, out);
    }
}
