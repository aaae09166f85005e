//! The hub's sessions: who is seated in which, what a session asks for, and what its end means for everybody else.

use std::{collections::BTreeSet, time::Duration};

use super::{Action, Asked, Hub, StreamId, Tenancy};
use crate::{
    clock::Moment,
    error::{Code, Error, LostReason},
    queue::member::{SessionId, Ticket},
    session::{Effect, Health, Session},
    store::{ErrorKind, LeaseId, Reply, ReplyBody, Request, StoreError},
};

impl Hub {
    /// Finds or starts the session that `ticket` asked for, and gives it a key as soon as the lease is there.
    pub(super) fn seat(&mut self, now: Moment, ticket: Ticket, out: &mut Vec<Action>) {
        let Some(user) = self.users.get(&ticket) else { return };
        let (ttl, renew) = (user.ttl, user.renew);
        let known = if renew { self.shared.get(&ttl).copied() } else { None };
        let id = known.unwrap_or_else(|| self.start_session(now, ttl, renew, out));
        if let Some(user) = self.users.get_mut(&ticket) {
            user.session = id;
        }
        if let Some(tenancy) = self.sessions.get_mut(&id) {
            tenancy.users += 1;
            tenancy.unkeyed.insert(ticket);
        }
        self.assign_keys(now, id, out);
    }

    /// One acquire or hold less uses the session. A private one has served its purpose then; one that never got its lease is
    /// of no use to anybody.
    pub(super) fn unseat(&mut self, ticket: Ticket, id: SessionId, out: &mut Vec<Action>) {
        let Some(tenancy) = self.sessions.get_mut(&id) else { return };
        tenancy.unkeyed.remove(&ticket);
        tenancy.users = tenancy.users.saturating_sub(1);
        if tenancy.users == 0 && (tenancy.is_private || !tenancy.session.is_live()) {
            self.discard_session(id, out);
        }
    }

    fn start_session(&mut self, now: Moment, ttl: Duration, renew: bool, out: &mut Vec<Action>) -> SessionId {
        let id = SessionId(self.next_id());
        // Positive, and never 0: to etcd, 0 means "choose one".
        let lease = LeaseId(i64::try_from(self.random() >> 1).unwrap_or(i64::MAX).max(1));
        let mut effects = Vec::new();
        let tenancy = Tenancy {
            session: Session::start(now, lease, ttl, &mut effects),
            is_private: !renew,
            unkeyed: BTreeSet::new(),
            users: 0,
            tainted: BTreeSet::new(),
            short_of_time: BTreeSet::new(),
            extensions: Vec::new(),
        };
        self.sessions.insert(id, tenancy);
        if renew {
            self.shared.insert(ttl, id);
        }
        self.apply_session(now, id, effects, out);
        id
    }

    /// Runs `act` on a session and carries out what it asks for.
    pub(super) fn with_session(
        &mut self,
        now: Moment,
        id: SessionId,
        out: &mut Vec<Action>,
        act: impl FnOnce(&mut Session, &mut Vec<Effect>),
    ) {
        let Some(tenancy) = self.sessions.get_mut(&id) else { return };
        let mut effects = Vec::new();
        act(&mut tenancy.session, &mut effects);
        self.apply_session(now, id, effects, out);
    }

    fn apply_session(&mut self, now: Moment, id: SessionId, effects: Vec<Effect>, out: &mut Vec<Action>) {
        for effect in effects {
            let Some(tenancy) = self.sessions.get(&id) else { return };
            let lease = tenancy.session.lease();
            let stream = |number| StreamId { session: id, number };
            match effect {
                Effect::Grant => {
                    let ttl = i64::try_from(tenancy.session.ttl().as_secs()).unwrap_or(i64::MAX);
                    self.call(Asked::Grant(id, lease), Request::LeaseGrant { lease, ttl }, out);
                }
                Effect::Open { stream: number, hedge } => out.push(Action::OpenRenewals(stream(number), hedge)),
                Effect::Renew(number) => out.push(Action::Renew(stream(number), lease)),
                Effect::Close(number) => out.push(Action::CloseRenewals(stream(number))),
                Effect::Deadline(deadline) => out.push(Action::Deadline(id, deadline)),
                Effect::Health(health) => {
                    // A hold that ends at its TTL as asked says nothing about the client.
                    if !tenancy.is_private {
                        out.push(Action::Health(id, health));
                    }
                    if let Health::Lost(reason) = health {
                        self.on_session_ended(now, id, reason, out);
                    }
                }
            }
        }
        self.assign_keys(now, id, out);
    }

    /// Gives keys to those who waited for the lease, if it is there.
    fn assign_keys(&mut self, now: Moment, id: SessionId, out: &mut Vec<Action>) {
        let Some(tenancy) = self.sessions.get_mut(&id).filter(|tenancy| tenancy.session.is_live()) else { return };
        let lease = tenancy.session.lease();
        for ticket in std::mem::take(&mut tenancy.unkeyed) {
            let (Some(user), Some(tenancy)) = (self.users.get(&ticket), self.sessions.get(&id)) else { continue };
            // Empty, or nearly so: it holds the keys of calls whose fate was never known.
            let (queue, tainted) = (user.queue, tenancy.tainted.clone());
            self.with_queue(now, queue, out, |queue, _, effects| queue.assign(ticket, id, lease, &tainted, effects));
        }
    }

    pub(super) fn on_grant(
        &mut self,
        now: Moment,
        (id, lease): (SessionId, LeaseId),
        result: Result<Reply, StoreError>,
        out: &mut Vec<Action>,
    ) {
        let answer = result.and_then(|reply| match reply.body {
            ReplyBody::LeaseGrant { ttl } => Ok(ttl),
            _ => Err(StoreError::ambiguous(ErrorKind::Internal, "etcd's reply to a grant has an unknown shape")),
        });
        let Some(tenancy) = self.sessions.get(&id) else {
            // Nobody wants it any more; now that its fate is settled, it can be revoked.
            if answer.as_ref().map_or_else(|error| error.ambiguous || error.kind == ErrorKind::LeaseExists, |_| true) {
                self.revoke(lease, out);
            }
            return;
        };
        // That the lease exists is no failure: an earlier grant of ours took effect.
        let failure = answer.as_ref().err().filter(|error| error.kind != ErrorKind::LeaseExists);
        let seen = failure.map(|error| Error::from_store(error, "could not get a lease"));
        let unkeyed: Vec<Ticket> = tenancy.unkeyed.iter().copied().collect();
        if let Some(seen) = &seen {
            for ticket in &unkeyed {
                let Some(user) = self.users.get(ticket) else { continue };
                if let Some(queue) = self.queues.get_mut(&user.queue) {
                    queue.note_error(*ticket, seen.clone());
                }
            }
        }
        let mut refused = false;
        self.with_session(now, id, out, |session, effects| refused = session.on_grant(now, answer, effects).is_err());
        if let Some(seen) = seen.filter(|_| refused) {
            // No repetition will cure it: whoever waits for this lease fails now, and the last of them discards the session.
            for ticket in unkeyed {
                self.cancel(now, ticket, seen.clone(), out);
            }
        }
    }

    /// After a renewal was acknowledged: extensions are answered, heads that were short of time are looked at again, and it
    /// is a good moment to sweep.
    pub(super) fn after_renewal(&mut self, now: Moment, id: SessionId, out: &mut Vec<Action>) {
        let Some(tenancy) = self.sessions.get_mut(&id).filter(|tenancy| tenancy.session.is_live()) else { return };
        let (lease, renewed_at) = (tenancy.session.lease(), tenancy.session.renewed_at());
        let done = tenancy.extensions.extract_if(.., |(_, asked, _)| *asked <= renewed_at);
        out.extend(done.map(|(ticket, ..)| Action::Extended(ticket, Ok(()))));
        for queue in std::mem::take(&mut tenancy.short_of_time) {
            self.with_queue(now, queue, out, |_, _, _| {});
        }
        let mut effects = Vec::new();
        self.cleaner.on_renewed(now, id, lease, &mut effects);
        self.apply_cleaner(now, effects, out);
    }

    pub(super) fn end_session(&mut self, now: Moment, id: SessionId, reason: LostReason, out: &mut Vec<Action>) {
        self.with_session(now, id, out, |session, effects| session.end(reason, effects));
    }

    /// A session is over: its holds are lost, its waiters queue again, its lease is revoked so that others need not wait.
    fn on_session_ended(&mut self, now: Moment, id: SessionId, reason: LostReason, out: &mut Vec<Action>) {
        let lost: Vec<Ticket> = self
            .users
            .iter()
            .filter(|(_, user)| user.is_held && user.session == id)
            .map(|(ticket, _)| *ticket)
            .collect();
        for ticket in lost {
            self.users.remove(&ticket);
            out.push(Action::Lost(ticket, reason));
        }
        // Whoever waits for the cause of a loss knows it now.
        self.asked.retain(|_, asked| match asked {
            Asked::Autopsy(ticket, of) if *of == id => {
                out.push(Action::Lost(*ticket, reason));
                false
            }
            _ => true,
        });
        let unkeyed =
            self.sessions.get_mut(&id).map(|tenancy| std::mem::take(&mut tenancy.unkeyed)).unwrap_or_default();
        self.discard_session(id, out);
        for queue in self.queues.keys().copied().collect::<Vec<_>>() {
            self.with_queue(now, queue, out, |queue, _, effects| queue.on_session_lost(id, reason, effects));
        }
        for ticket in unkeyed {
            self.seat(now, ticket, out);
        }
    }

    /// Forgets a session and revokes its lease, if it may exist.
    fn discard_session(&mut self, id: SessionId, out: &mut Vec<Action>) {
        let Some(Tenancy { mut session, extensions, .. }) = self.sessions.remove(&id) else { return };
        self.shared.retain(|_, shared| *shared != id);
        self.cleaner.forget_session(id);
        for (ticket, ..) in extensions {
            out.push(Action::Extended(
                ticket,
                Err(Error::new(Code::Lost, "the lock was lost before it could be extended")),
            ));
        }
        // While a grant is on its way, revoking could overtake it; its reply will do it.
        let (must_revoke, lease) = (session.may_exist() && !session.is_granting(), session.lease());
        let mut effects = Vec::new();
        session.end(LostReason::ClientClosed, &mut effects);
        out.extend(effects.into_iter().filter_map(|effect| match effect {
            Effect::Close(number) => Some(Action::CloseRenewals(StreamId { session: id, number })),
            _ => None,
        }));
        if must_revoke {
            self.revoke(lease, out);
        }
    }

    fn revoke(&mut self, lease: LeaseId, out: &mut Vec<Action>) {
        let mut effects = Vec::new();
        self.cleaner.revoke(lease, &mut effects);
        self.send_chores(effects, out);
    }

    /// Lets time pass for the sessions, before anything else happens at `now`.
    pub(super) fn tick_sessions(&mut self, now: Moment, out: &mut Vec<Action>) {
        let is_due = |tenancy: &Tenancy| tenancy.session.wake().is_some_and(|at| at <= now);
        let due: Vec<SessionId> =
            self.sessions.iter().filter(|(_, tenancy)| is_due(tenancy)).map(|(id, _)| *id).collect();
        for id in due {
            self.with_session(now, id, out, |session, effects| session.tick(now, effects));
        }
        for tenancy in self.sessions.values_mut() {
            let late = tenancy.extensions.extract_if(.., |(_, _, give_up)| *give_up <= now);
            out.extend(late.map(|(ticket, ..)| {
                let error = Error::new(
                    Code::DeadlineExceeded,
                    "etcd did not confirm the extension in time; it may still do so",
                );
                Action::Extended(ticket, Err(error))
            }));
        }
    }
}
