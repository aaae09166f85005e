//! The hub's queues and its cleaner: what they ask for is carried out, what they must know is told.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use super::{Acquire, Action, Asked, Hold, Hub, QueueId, RpcId, Stage, Tenancy, User};
use crate::{
    cleaner,
    clock::Moment,
    error::{Code, Error, LostReason},
    queue::{
        Effect, Queue, Sessions,
        member::{SessionId, Spec, Ticket},
        wire,
    },
    store::{Key, LeaseId, Reply, ReplyBody, Request, StoreError, WatchId, WatchReply},
};

/// How often a queue is read while somebody waits: somewhere in this range, different in every client and queue.
const RECHECK_MILLIS: std::ops::Range<u64> = 2_000..5_000;
/// How long to wait for the word whether a lost hold's lease still lives.
const AUTOPSY: Duration = Duration::from_secs(1);

/// What a queue may ask while it works: about sessions, and for watch ids.
pub(super) struct Lobby<'a> {
    now: Moment,
    sessions: &'a BTreeMap<SessionId, Tenancy>,
    next_id: &'a mut u64,
    opened: Vec<WatchId>,
}

impl Sessions for Lobby<'_> {
    fn can_hold(&self, session: SessionId) -> bool {
        self.sessions.get(&session).is_some_and(|tenancy| {
            tenancy.session.can_hold(self.now) && (!tenancy.is_private || tenancy.session.is_fresh(self.now))
        })
    }

    fn next_watch(&mut self) -> WatchId {
        *self.next_id += 1;
        let id = WatchId(i64::try_from(*self.next_id).unwrap_or(i64::MAX));
        self.opened.push(id);
        id
    }
}

impl Hub {
    pub(super) fn acquire(&mut self, now: Moment, ticket: Ticket, acquire: Acquire, out: &mut Vec<Action>) {
        if self.stage != Stage::Open {
            out.push(Action::Failed(ticket, Error::new(Code::Closed, "the client is closed; open another one")));
            return;
        }
        let queue = self.queue_of(&acquire.name);
        let (ttl, renew) = (acquire.ttl, acquire.renew);
        // Its session is found when the queue asks for a key.
        self.users.insert(ticket, User { queue, session: SessionId(0), ttl, renew, is_held: false });
        let spec = Spec {
            mode: acquire.mode,
            requeue: acquire.requeue,
            limit: acquire.wait.map(|wait| now + wait),
            join_by: now + self.config.request_timeout,
            value: acquire.value,
        };
        self.with_queue(now, queue, out, |queue, _, effects| queue.add(ticket, spec, effects));
    }

    pub(super) fn cancel(&mut self, now: Moment, ticket: Ticket, error: Error, out: &mut Vec<Action>) {
        if let Some(user) = self.users.get(&ticket).filter(|user| !user.is_held) {
            self.with_queue(now, user.queue, out, |queue, _, effects| queue.give_up(now, ticket, error, effects));
        }
    }

    pub(super) fn release(&mut self, now: Moment, ticket: Ticket, out: &mut Vec<Action>) {
        let Some(user) = self.users.get_mut(&ticket).filter(|user| user.is_held) else {
            out.push(Action::Released(ticket, Err(not_held())));
            return;
        };
        user.is_held = false;
        let queue = user.queue;
        self.with_queue(now, queue, out, |queue, _, effects| queue.release(now, ticket, effects));
    }

    pub(super) fn extend(&mut self, now: Moment, ticket: Ticket, span: Duration, out: &mut Vec<Action>) {
        let give_up = now + self.config.request_timeout;
        let session = self.users.get(&ticket).filter(|user| user.is_held).map(|user| user.session);
        let Some((id, tenancy)) = session.and_then(|id| Some((id, self.sessions.get_mut(&id)?))) else {
            out.push(Action::Extended(ticket, Err(not_held())));
            return;
        };
        tenancy.extensions.push((ticket, now, give_up));
        self.with_session(now, id, out, |session, effects| session.extend(now, span, effects));
    }

    pub(super) fn close(&mut self, now: Moment, out: &mut Vec<Action>) {
        if self.stage != Stage::Open {
            return;
        }
        self.stage = Stage::Closing(now + self.config.request_timeout);
        for (ticket, user) in std::mem::take(&mut self.users) {
            if user.is_held {
                out.push(Action::Lost(ticket, LostReason::ClientClosed));
            }
        }
        let mut effects = Vec::new();
        for queue in std::mem::take(&mut self.queues).into_values() {
            queue.close(&mut effects);
        }
        out.extend(effects.into_iter().filter_map(|effect| match effect {
            Effect::Failed(ticket, error) => Some(Action::Failed(ticket, error)),
            Effect::Released(ticket, result) => Some(Action::Released(ticket, result)),
            Effect::Unwatch(watch) => Some(Action::Unwatch(watch)),
            _ => None,
        }));
        self.names.clear();
        self.wakes.clear();
        self.wake_of.clear();
        self.watches.clear();
        for id in self.sessions.keys().copied().collect::<Vec<_>>() {
            self.end_session(now, id, LostReason::ClientClosed, out);
        }
    }

    fn queue_of(&mut self, name: &Arc<str>) -> QueueId {
        if let Some(id) = self.names.get(name) {
            return *id;
        }
        let id = QueueId(self.next_id());
        let jitter = RECHECK_MILLIS.start + self.random() % (RECHECK_MILLIS.end - RECHECK_MILLIS.start);
        let queue = Queue::new(&self.config.namespace, name.clone(), Duration::from_millis(jitter));
        self.queues.insert(id, queue);
        self.names.insert(name.clone(), id);
        id
    }

    /// Runs `act` on a queue, brings the queue in line with it and carries out what it asks for.
    pub(super) fn with_queue(
        &mut self,
        now: Moment,
        id: QueueId,
        out: &mut Vec<Action>,
        act: impl FnOnce(&mut Queue, &mut Lobby<'_>, &mut Vec<Effect>),
    ) {
        let Some(queue) = self.queues.get_mut(&id) else { return };
        let mut effects = Vec::new();
        let mut lobby = Lobby { now, sessions: &self.sessions, next_id: &mut self.next_id, opened: Vec::new() };
        act(queue, &mut lobby, &mut effects);
        queue.settle(now, &mut lobby, &mut effects);
        let opened = lobby.opened;
        self.watches.extend(opened.into_iter().map(|watch| (watch, id)));
        self.reschedule(id);
        self.apply_queue(now, id, effects, out);
    }

    fn apply_queue(&mut self, now: Moment, id: QueueId, effects: Vec<Effect>, out: &mut Vec<Action>) {
        let (mut chores, mut dead) = (Vec::new(), Vec::new());
        for effect in effects {
            match effect {
                Effect::Call(call, request) => self.call(Asked::Queue(id, call), request, out),
                Effect::Watch(watch, keys) => out.push(Action::Watch(watch, keys)),
                Effect::Unwatch(watch) => {
                    self.watches.remove(&watch);
                    out.push(Action::Unwatch(watch));
                }
                Effect::Won(ticket, key, token) => self.on_won(ticket, key, token, out),
                Effect::Failed(ticket, error) => {
                    out.push(Action::Failed(ticket, error));
                    self.dismiss(ticket, out);
                }
                Effect::Released(ticket, result) => {
                    out.push(Action::Released(ticket, result));
                    self.dismiss(ticket, out);
                }
                Effect::NeedsKey(ticket) => {
                    if let Some(user) = self.users.get(&ticket) {
                        self.unseat(ticket, user.session, out);
                        self.seat(now, ticket, out);
                    }
                }
                Effect::Vanished(ticket) => self.on_vanished(ticket, out),
                Effect::Clean(key, lease, for_contender) => {
                    self.cleaner.delete(key, lease, for_contender, &mut chores);
                }
                Effect::Ambiguous(session, key) => {
                    self.cleaner.alert(now, session);
                    if let Some(tenancy) = self.sessions.get_mut(&session) {
                        tenancy.tainted.insert(key);
                    }
                }
                // After the rest: whoever won in the same breath has won, and then lost.
                Effect::LeaseGone(session) => dead.push(session),
                Effect::NeedsTime(session) => {
                    let is_new =
                        self.sessions.get_mut(&session).is_some_and(|tenancy| tenancy.short_of_time.insert(id));
                    if is_new {
                        self.with_session(now, session, out, |session, effects| session.renew(now, effects));
                    }
                }
                Effect::Stranger(key) => {
                    let mut leases = self.sessions.values().map(|tenancy| tenancy.session.lease());
                    if let Some(lease) = leases.find(|lease| wire::is_chosen_by(&key, *lease)) {
                        tracing::warn!(%key, "deleting a key that was written after its enqueue was given up");
                        self.cleaner.delete(key, lease, None, &mut chores);
                    }
                }
            }
        }
        for session in dead {
            self.end_session(now, session, LostReason::LeaseRevoked, out);
        }
        self.apply_cleaner(now, chores, out);
    }

    fn on_won(&mut self, ticket: Ticket, key: Key, token: i64, out: &mut Vec<Action>) {
        let Some(user) = self.users.get_mut(&ticket) else { return };
        let Some(tenancy) = self.sessions.get_mut(&user.session) else { return };
        user.is_held = true;
        if tenancy.is_private {
            tenancy.session.stop_renewing();
        }
        let (session, lease) = (user.session, tenancy.session.lease());
        out.push(Action::Deadline(session, tenancy.session.deadline()));
        out.push(Action::Acquired(ticket, Hold { key, token, session, lease }));
    }

    /// The key of a hold is gone. The hold is over at once; whether its lease lives, etcd is asked.
    fn on_vanished(&mut self, ticket: Ticket, out: &mut Vec<Action>) {
        let Some(user) = self.users.remove(&ticket) else { return };
        let Some(tenancy) = self.sessions.get(&user.session) else { return };
        let lease = tenancy.session.lease();
        out.push(Action::Voided(ticket));
        let rpc = RpcId(self.next_id());
        self.asked.insert(rpc, Asked::Autopsy(ticket, user.session));
        out.push(Action::Call(rpc, Request::LeaseTimeToLive { lease }, AUTOPSY));
    }

    pub(super) fn on_autopsy(
        &mut self,
        now: Moment,
        (ticket, id): (Ticket, SessionId),
        result: Result<Reply, StoreError>,
        out: &mut Vec<Action>,
    ) {
        let is_dead = matches!(result, Ok(Reply { body: ReplyBody::LeaseTimeToLive { ttl, .. }, .. }) if ttl <= 0);
        out.push(Action::Lost(ticket, if is_dead { LostReason::LeaseRevoked } else { LostReason::KeyDeleted }));
        if is_dead {
            self.end_session(now, id, LostReason::LeaseRevoked, out);
        } else {
            self.unseat(ticket, id, out);
        }
    }

    /// The caller has its last answer: the ticket is done. Its key may still be on its way out.
    fn dismiss(&mut self, ticket: Ticket, out: &mut Vec<Action>) {
        if let Some(user) = self.users.remove(&ticket) {
            self.unseat(ticket, user.session, out);
        }
    }

    /// Brings the queue's timer in line, and forgets a queue that has nothing left to remember.
    fn reschedule(&mut self, id: QueueId) {
        let Some(queue) = self.queues.get(&id) else { return };
        let wake = queue.wake();
        if queue.is_idle() {
            self.names.remove(queue.name());
            self.queues.remove(&id);
        }
        let wake = wake.filter(|_| self.queues.contains_key(&id));
        let before = match wake {
            Some(at) => self.wake_of.insert(id, at),
            None => self.wake_of.remove(&id),
        };
        if before != wake {
            if let Some(at) = before {
                self.wakes.remove(&(at, id));
            }
            if let Some(at) = wake {
                self.wakes.insert((at, id));
            }
        }
    }

    pub(super) fn apply_cleaner(&mut self, now: Moment, effects: Vec<cleaner::Effect>, out: &mut Vec<Action>) {
        for effect in self.send_chores(effects, out) {
            match effect {
                cleaner::Effect::Cleaned(ticket, revision) => {
                    let queue = self.queues.iter().find(|(_, queue)| queue.has(ticket)).map(|(id, _)| *id);
                    if let Some(queue) = queue {
                        self.with_queue(now, queue, out, |queue, _, effects| {
                            queue.on_cleaned(ticket, revision, effects)
                        });
                    }
                }
                cleaner::Effect::Sweep(session, lease) => {
                    self.call(Asked::Sweep(session, lease), Request::LeaseTimeToLive { lease }, out);
                }
                cleaner::Effect::Call(..) => {}
            }
        }
    }

    /// Sends the calls among the cleaner's effects and hands back the rest.
    pub(super) fn send_chores(&mut self, effects: Vec<cleaner::Effect>, out: &mut Vec<Action>) -> Vec<cleaner::Effect> {
        let mut rest = Vec::new();
        for effect in effects {
            match effect {
                cleaner::Effect::Call(chore, request) => {
                    // A delete that etcd answers late must not meet another contender under the same key.
                    if let cleaner::Chore::Delete(key, lease) = &chore
                        && let Some(tenancy) = self.sessions.values_mut().find(|it| it.session.lease() == *lease)
                    {
                        tenancy.tainted.insert(key.clone());
                    }
                    self.call(Asked::Chore(chore), request, out);
                }
                other => rest.push(other),
            }
        }
        rest
    }

    /// Whether somebody here waits with `key` or holds with it.
    fn is_known(
        names: &BTreeMap<Arc<str>, QueueId>,
        queues: &BTreeMap<QueueId, Queue>,
        namespace: &str,
        key: &Key,
    ) -> bool {
        let text = key.to_text();
        let name = text.rsplit_once('/').and_then(|(name, _)| name.strip_prefix(namespace));
        name.and_then(|name| queues.get(names.get(name)?)).is_some_and(|queue| queue.uses(key))
    }

    pub(super) fn call(&mut self, asked: Asked, request: Request, out: &mut Vec<Action>) {
        let rpc = RpcId(self.next_id());
        self.asked.insert(rpc, asked);
        out.push(Action::Call(rpc, request, self.config.call_timeout));
    }

    pub(super) fn on_reply(
        &mut self,
        now: Moment,
        rpc: RpcId,
        result: Result<Reply, StoreError>,
        out: &mut Vec<Action>,
    ) {
        match self.asked.remove(&rpc) {
            Some(Asked::Grant(session, lease)) => self.on_grant(now, (session, lease), result, out),
            Some(Asked::Queue(id, call)) => {
                self.with_queue(now, id, out, |queue, lobby, effects| {
                    queue.on_reply(now, call, result, lobby, effects)
                });
            }
            Some(Asked::Chore(chore)) => {
                let mut effects = Vec::new();
                self.cleaner.on_done(now, chore, result, &mut effects);
                self.apply_cleaner(now, effects, out);
            }
            Some(Asked::Sweep(session, lease)) => {
                self.doubt_missing(now, lease, &result, out);
                let mut effects = Vec::new();
                let is_known = |key: &Key| Self::is_known(&self.names, &self.queues, &self.config.namespace, key);
                self.cleaner.on_swept(session, lease, result, is_known, &mut effects);
                self.apply_cleaner(now, effects, out);
            }
            Some(Asked::Autopsy(ticket, session)) => self.on_autopsy(now, (ticket, session), result, out),
            None => {}
        }
    }

    /// A hold whose key is not among those of its lease may have lost it without a word from its watch. The list comes from whatever
    /// the leader has applied so far: only a read can tell.
    fn doubt_missing(&mut self, now: Moment, lease: LeaseId, swept: &Result<Reply, StoreError>, out: &mut Vec<Action>) {
        let Ok(Reply { body: ReplyBody::LeaseTimeToLive { keys, .. }, .. }) = swept else { return };
        let keys: BTreeSet<&Key> = keys.iter().collect();
        let is_doubtful =
            |queue: &Queue| queue.held_key().is_some_and(|key| wire::is_chosen_by(&key, lease) && !keys.contains(&key));
        let doubtful: Vec<QueueId> =
            self.queues.iter().filter(|(_, queue)| is_doubtful(queue)).map(|(id, _)| *id).collect();
        for id in doubtful {
            self.with_queue(now, id, out, |queue, _, _| queue.doubt(now));
        }
    }

    pub(super) fn on_watch(&mut self, now: Moment, reply: WatchReply, out: &mut Vec<Action>) {
        let (WatchReply::Created { id, .. } | WatchReply::Events { id, .. } | WatchReply::Cancelled { id, .. }) =
            &reply;
        let (id, Some(queue)) = (*id, self.watches.get(id).copied()) else { return };
        if let WatchReply::Cancelled { error, .. } = &reply {
            tracing::debug!(%error, "a watch ended; opening another one");
            self.watches.remove(&id);
        }
        self.with_queue(now, queue, out, |queue, _, effects| match reply {
            WatchReply::Created { .. } => queue.on_watch_created(id, effects),
            WatchReply::Events { events, .. } => queue.on_watch_events(events, effects),
            WatchReply::Cancelled { .. } => queue.on_watch_broken(now, id, effects),
        });
    }

    /// Lets time pass for queues and cleaner, after everything else that happens at `now`.
    pub(super) fn tick(&mut self, now: Moment, out: &mut Vec<Action>) {
        // Each once: one that stays due is a fault of its timers, which must not keep the others from their turn.
        let due: Vec<QueueId> = self.wakes.iter().take_while(|(at, _)| *at <= now).map(|(_, id)| *id).collect();
        for id in due {
            self.with_queue(now, id, out, |queue, _, effects| queue.tick(now, effects));
        }
        if self.cleaner.wake().is_some_and(|at| at <= now) {
            let mut effects = Vec::new();
            self.cleaner.tick(now, &mut effects);
            self.apply_cleaner(now, effects, out);
        }
        if let Stage::Closing(by) = self.stage
            && (now >= by || (self.cleaner.is_idle() && self.asked.is_empty()))
        {
            self.stage = Stage::Closed;
            self.asked.clear();
            out.push(Action::Closed);
        }
    }
}

fn not_held() -> Error {
    Error::new(Code::NotHeld, "this hold was released or lost before")
}
