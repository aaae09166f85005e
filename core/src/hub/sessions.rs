//! The hub's sessions: who is seated in which, what a session asks for, and what its end means for everybody else.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use super::{Action, Asked, Hub, RpcId, StreamId, callers::tenure::Shared};
use crate::{
    clock::Moment,
    error::{Code, Error, LostReason},
    queue::{
        Taints,
        wire::{self, Choice},
    },
    session::{Effect, Health, Session},
    store::{ErrorKind, Key, LeaseId, Reply, ReplyBody, Request, StoreError},
    terms::{SessionId, Ticket},
};

/// How long the session of a TTL that locks asked for stays when none uses it any more. The client's own stays.
const IDLE: Duration = Duration::from_secs(60);

/// A session and who uses it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Tenancy {
    session: Session,
    /// Whether it serves one acquire only: a hold without renewal.
    is_private: bool,
    /// The TTL that was asked for.
    ttl: Duration,
    /// Acquires and holds that use it.
    callers: BTreeSet<Ticket>,
    /// Those of them that wait for its lease.
    seating: BTreeSet<Ticket>,
    /// Those whose turn it is and that wait for a renewal, because too little time is left.
    short_of_time: BTreeSet<Ticket>,
    /// Lost holds for which etcd is asked whether the lease lives.
    autopsies: BTreeMap<RpcId, Ticket>,
    /// Extensions that wait for a renewal sent at that time or later, and when they are given up.
    extensions: Vec<(Ticket, Moment, Moment)>,
    /// Keys that must not be chosen again.
    taints: Taints,
    /// Since when nobody uses it.
    idle_since: Option<Moment>,
    /// Whether it was told that etcd refuses its renewals.
    is_refused: bool,
    alarm: Option<Moment>,
}

impl Tenancy {
    fn next_alarm(&self) -> Option<Moment> {
        let extensions = self.extensions.iter().map(|(_, _, give_up)| *give_up);
        let idle = self.idle_since.map(|since| since + IDLE);
        self.session.wake().into_iter().chain(extensions).chain(idle).min()
    }
}

/// The sessions of a client, by number, by TTL and by lease.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Sessions {
    all: BTreeMap<SessionId, Box<Tenancy>>,
    /// The session of each TTL that locks share.
    shared: BTreeMap<Duration, SessionId>,
    leases: BTreeMap<LeaseId, SessionId>,
}

impl Sessions {
    pub(super) fn taints(&self, lease: LeaseId) -> &Taints {
        static NONE: Taints = Taints::none();
        self.of_lease(lease).and_then(|id| self.all.get(&id)).map_or(&NONE, |tenancy| &tenancy.taints)
    }

    /// A request about `key` may still be on its way.
    pub(super) fn taint(&mut self, key: &Key, lease: LeaseId) {
        if let Some(Choice { number, .. }) = wire::choice(key)
            && let Some(tenancy) = self.of_lease(lease).and_then(|id| self.all.get_mut(&id))
        {
            tenancy.taints.add(key.clone(), number);
        }
    }

    pub(super) fn of_lease(&self, lease: LeaseId) -> Option<SessionId> {
        self.leases.get(&lease).copied()
    }

    pub(super) fn leases(&self) -> impl Iterator<Item = LeaseId> {
        self.leases.keys().copied()
    }

    /// All of them.
    pub(super) fn ids(&self) -> Vec<SessionId> {
        self.all.keys().copied().collect()
    }

    pub(super) fn lease_of(&self, id: SessionId) -> Option<LeaseId> {
        self.all.get(&id).map(|tenancy| tenancy.session.lease())
    }

    /// The lease of a session, if it is there.
    pub(super) fn live_lease(&self, id: SessionId) -> Option<LeaseId> {
        self.all.get(&id).filter(|tenancy| tenancy.session.is_live()).map(|tenancy| tenancy.session.lease())
    }

    /// The TTL that a session was asked for.
    pub(super) fn ttl_of(&self, id: SessionId) -> Option<Duration> {
        self.all.get(&id).map(|tenancy| tenancy.ttl)
    }

    /// The same, of a session that locks share.
    pub(super) fn shared_ttl(&self, id: SessionId) -> Option<Duration> {
        self.all.get(&id).filter(|tenancy| !tenancy.is_private).map(|tenancy| tenancy.ttl)
    }

    /// Everybody who uses a session.
    pub(super) fn callers(&self, id: SessionId) -> impl Iterator<Item = &Ticket> {
        self.all.get(&id).into_iter().flat_map(|tenancy| &tenancy.callers)
    }

    /// Whether a caller of this session may hold from now on.
    pub(super) fn can_hold(&self, now: Moment, id: SessionId) -> bool {
        self.all.get(&id).is_some_and(|tenancy| {
            tenancy.session.can_hold(now) && (!tenancy.is_private || tenancy.session.is_fresh(now))
        })
    }

    /// How much time a session must have left for a hold to begin, and until when it has.
    pub(super) fn slack(&self, id: SessionId) -> Option<(Duration, Moment)> {
        let session = &self.all.get(&id)?.session;
        Some((session.slack(), session.deadline() - session.slack()))
    }

    pub(super) fn add_autopsy(&mut self, id: SessionId, rpc: RpcId, ticket: Ticket) {
        if let Some(tenancy) = self.all.get_mut(&id) {
            tenancy.autopsies.insert(rpc, ticket);
        }
    }

    pub(super) fn take_autopsy(&mut self, id: SessionId, rpc: RpcId) -> Option<Ticket> {
        self.all.get_mut(&id)?.autopsies.remove(&rpc)
    }
}

impl Hub {
    /// Finds or starts the session that `ticket` asked for, and lets it into its queues as soon as the lease is there.
    pub(super) fn seat(&mut self, now: Moment, ticket: Ticket, out: &mut Vec<Action>) {
        let Some((ttl, renew)) = self.callers.get(&ticket).map(|caller| caller.seat_wanted()) else { return };
        let known = if renew { self.sessions.shared.get(&ttl).copied() } else { None };
        let id = known.unwrap_or_else(|| self.start_session(now, ttl, renew, out));
        if let Some(caller) = self.callers.get_mut(&ticket) {
            caller.sit_down(id);
        }
        let Some(tenancy) = self.sessions.all.get_mut(&id) else { return };
        tenancy.callers.insert(ticket);
        if tenancy.idle_since.take().is_some() {
            let at = tenancy.next_alarm();
            self.session_alarms.set(id, &mut tenancy.alarm, at);
        }
        if tenancy.session.is_live() {
            let lease = tenancy.session.lease();
            self.enter(now, ticket, lease, out);
        } else {
            tenancy.seating.insert(ticket);
        }
    }

    /// A caller less uses the session. A private one has served its purpose then; one that never got its lease is of no use to
    /// anybody.
    pub(super) fn unseat(&mut self, now: Moment, ticket: Ticket, id: SessionId, out: &mut Vec<Action>) {
        let Some(tenancy) = self.sessions.all.get_mut(&id) else { return };
        tenancy.seating.remove(&ticket);
        tenancy.short_of_time.remove(&ticket);
        tenancy.callers.remove(&ticket);
        if !tenancy.callers.is_empty() {
            return;
        }
        if tenancy.is_private || !tenancy.session.is_live() {
            self.discard_session(now, id, out);
        } else if tenancy.ttl != self.config.ttl {
            tenancy.idle_since = Some(now);
            let at = tenancy.next_alarm();
            self.session_alarms.set(id, &mut tenancy.alarm, at);
        }
    }

    fn start_session(&mut self, now: Moment, ttl: Duration, renew: bool, out: &mut Vec<Action>) -> SessionId {
        let id = SessionId(self.next_id());
        let lease = self.lease_id();
        let mut effects = Vec::new();
        let tenancy = Tenancy {
            session: Session::start(now, lease, ttl, &mut effects),
            is_private: !renew,
            ttl,
            callers: BTreeSet::new(),
            seating: BTreeSet::new(),
            short_of_time: BTreeSet::new(),
            autopsies: BTreeMap::new(),
            extensions: Vec::new(),
            taints: Taints::none(),
            idle_since: None,
            alarm: None,
            is_refused: false,
        };
        self.sessions.all.insert(id, Box::new(tenancy));
        self.sessions.leases.insert(lease, id);
        if renew {
            self.sessions.shared.insert(ttl, id);
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
        let Some(tenancy) = self.sessions.all.get_mut(&id) else { return };
        let mut effects = Vec::new();
        act(&mut tenancy.session, &mut effects);
        self.apply_session(now, id, effects, out);
    }

    fn apply_session(&mut self, now: Moment, id: SessionId, effects: Vec<Effect>, out: &mut Vec<Action>) {
        for effect in effects {
            let Some(tenancy) = self.sessions.all.get(&id) else { return };
            let lease = tenancy.session.lease();
            let stream = |number| StreamId { session: id, number };
            match effect {
                Effect::Grant => {
                    let ttl = i64::try_from(tenancy.session.ttl().as_secs()).unwrap_or(i64::MAX);
                    let request = Request::LeaseGrant { lease, ttl };
                    let is_repeated = tenancy.session.may_have_been_granted();
                    self.call(Asked::Grant(id, lease, is_repeated), request, self.config.call_timeout, out);
                }
                Effect::LeaseTaken => {
                    tracing::warn!(%lease, "the id chosen for a lease is somebody else's; choosing another one");
                    let chosen = self.lease_id();
                    self.sessions.leases.remove(&lease);
                    self.sessions.leases.insert(chosen, id);
                    if let Some(tenancy) = self.sessions.all.get_mut(&id) {
                        tenancy.session.choose(chosen);
                    }
                }
                Effect::Open { stream: number, hedge } => {
                    out.push(Action::OpenRenewals(stream(number), hedge));
                    // Until now no connection of this session could break, which would have said so.
                    self.doubt(now);
                }
                Effect::Renew(number) => out.push(Action::Renew(stream(number), lease)),
                Effect::Close(number) => out.push(Action::CloseRenewals(stream(number))),
                Effect::Deadline(deadline) => out.push(Action::Deadline(id, deadline)),
                Effect::Health(health) => {
                    // A hold that ends at its TTL as asked says nothing about the client.
                    if !tenancy.is_private {
                        out.push(Action::Health(id, tenancy.ttl, health));
                    }
                    if let Health::Lost(reason) = health {
                        self.on_session_ended(now, id, reason, out);
                    }
                }
            }
        }
        self.settle_session(now, id, out);
    }

    /// Brings the alarm of a session in line, and lets in those who waited for the lease, if it is there.
    fn settle_session(&mut self, now: Moment, id: SessionId, out: &mut Vec<Action>) {
        let Some(tenancy) = self.sessions.all.get_mut(&id) else { return };
        let at = tenancy.next_alarm();
        self.session_alarms.set(id, &mut tenancy.alarm, at);
        if !tenancy.session.is_live() {
            return;
        }
        let lease = tenancy.session.lease();
        if !tenancy.is_private {
            self.cleaner.watch_over(now, id, lease, tenancy.ttl);
        }
        let mut seating: Vec<_> = std::mem::take(&mut tenancy.seating).into_iter().collect();
        // Those that share a place have it in the order in which they enter.
        seating.sort_by_key(|ticket| self.callers.get(ticket).map(|caller| caller.arrival()));
        for ticket in seating {
            self.enter(now, ticket, lease, out);
        }
    }

    pub(super) fn on_grant(
        &mut self,
        now: Moment,
        (id, lease, is_repeated): (SessionId, LeaseId, bool),
        result: Result<Reply, StoreError>,
        out: &mut Vec<Action>,
    ) {
        let answer = result.and_then(|reply| match reply.body {
            ReplyBody::LeaseGrant { ttl } => Ok(ttl),
            _ => Err(StoreError::ambiguous(ErrorKind::Internal, "etcd's reply to a grant has an unknown shape")),
        });
        let Some(tenancy) = self.sessions.all.get(&id) else {
            // Nobody wants it any more; now that its fate is settled, it can be revoked.
            let is_ours = |error: &StoreError| error.ambiguous || (is_repeated && error.kind == ErrorKind::LeaseExists);
            if answer.as_ref().map_or_else(is_ours, |_| true) {
                self.revoke(now, lease, out);
            }
            return;
        };
        // That the lease exists is no failure: an earlier grant of ours took effect.
        let failure = answer.as_ref().err().filter(|error| error.kind != ErrorKind::LeaseExists);
        let seen = failure.map(|error| Error::from_store(error, "could not get a lease"));
        let seating: Vec<Ticket> = tenancy.seating.iter().copied().collect();
        if let Some(seen) = &seen {
            for ticket in &seating {
                if let Some(caller) = self.callers.get_mut(ticket) {
                    caller.note_error(seen.clone());
                }
            }
        }
        let mut refused = false;
        self.with_session(now, id, out, |session, effects| refused = session.on_grant(now, answer, effects).is_err());
        if let Some(seen) = seen.filter(|_| refused) {
            // No repetition will cure it: whoever waits for this lease fails now, and the last of them discards the session.
            for ticket in seating {
                self.cancel(now, ticket, seen.clone(), out);
            }
        }
    }

    /// A stream of renewals broke. Where etcd refuses the renewals, which no other stream will cure, that is told once; the session is
    /// replaced if nobody holds with it, and otherwise goes on trying until its deadline.
    pub(super) fn on_renewals_ended(
        &mut self,
        now: Moment,
        stream: StreamId,
        error: Option<StoreError>,
        out: &mut Vec<Action>,
    ) {
        // One that was closed has not broken.
        if self.sessions.all.get(&stream.session).is_some_and(|it| it.session.has_stream(stream.number)) {
            self.doubt(now);
        }
        let is_refused = |error: &StoreError| error.kind == ErrorKind::PermissionDenied;
        let id = stream.session;
        if let Some(error) = error.filter(is_refused)
            && let Some(tenancy) = self.sessions.all.get_mut(&id)
        {
            if !std::mem::replace(&mut tenancy.is_refused, true) {
                tracing::warn!(
                    code = "PERMISSION_DENIED",
                    lease = %tenancy.session.lease(),
                    %error,
                    "etcd refuses to renew a lease: the user must be allowed to write every key that is attached to it"
                );
            }
            if !self.is_holding(id) {
                self.end_session(now, id, LostReason::LeaseRevoked, out);
                return;
            }
        }
        self.with_session(now, id, out, |session, effects| session.on_broken(now, stream.number, effects));
    }

    /// A renewal was acknowledged: extensions are answered, and callers that were short of time hold.
    pub(super) fn on_renewed(&mut self, now: Moment, stream: StreamId, ttl: i64, out: &mut Vec<Action>) {
        let id = stream.session;
        self.with_session(now, id, out, |session, effects| session.on_renewed(now, stream.number, ttl, effects));
        let Some(tenancy) = self.sessions.all.get_mut(&id).filter(|tenancy| tenancy.session.is_live()) else { return };
        let renewed_at = tenancy.session.renewed_at();
        let done = tenancy.extensions.extract_if(.., |(_, asked, _)| *asked <= renewed_at);
        out.extend(done.map(|(ticket, ..)| Action::Extended(ticket, Ok(()))));
        let short = std::mem::take(&mut tenancy.short_of_time);
        let at = tenancy.next_alarm();
        self.session_alarms.set(id, &mut tenancy.alarm, at);
        for ticket in short {
            self.try_hold(now, ticket, out);
        }
    }

    /// The turn of a caller has come, but its session has too little time left: it is renewed first.
    pub(super) fn await_time(&mut self, now: Moment, ticket: Ticket, id: SessionId, out: &mut Vec<Action>) {
        let is_new = self.sessions.all.get_mut(&id).is_some_and(|tenancy| tenancy.short_of_time.insert(ticket));
        if is_new {
            self.with_session(now, id, out, |session, effects| session.renew(now, effects));
        }
    }

    /// A hold begins: its lease and its deadline. One without renewal ends then.
    pub(super) fn begin_hold(&mut self, id: SessionId) -> Option<(LeaseId, Moment)> {
        let tenancy = self.sessions.all.get_mut(&id)?;
        if tenancy.is_private {
            tenancy.session.stop_renewing();
            let at = tenancy.next_alarm();
            self.session_alarms.set(id, &mut tenancy.alarm, at);
        }
        Some((tenancy.session.lease(), tenancy.session.deadline()))
    }

    pub(super) fn extend_session(
        &mut self,
        now: Moment,
        id: SessionId,
        ticket: Ticket,
        span: Duration,
        out: &mut Vec<Action>,
    ) {
        let give_up = now + self.config.request_timeout;
        if let Some(tenancy) = self.sessions.all.get_mut(&id) {
            tenancy.extensions.push((ticket, now, give_up));
            self.with_session(now, id, out, |session, effects| session.extend(now, span, effects));
        }
    }

    pub(super) fn end_session(&mut self, now: Moment, id: SessionId, reason: LostReason, out: &mut Vec<Action>) {
        self.with_session(now, id, out, |session, effects| session.end(reason, effects));
    }

    /// The client closes.
    pub(super) fn close_sessions(&mut self, now: Moment, out: &mut Vec<Action>) {
        for id in self.sessions.all.keys().copied().collect::<Vec<_>>() {
            self.end_session(now, id, LostReason::ClientClosed, out);
        }
    }

    /// A session is over: its holds are lost, its waiters queue again, its lease is revoked so that others need not wait.
    fn on_session_ended(&mut self, now: Moment, id: SessionId, reason: LostReason, out: &mut Vec<Action>) {
        let Some(tenancy) = self.sessions.all.get_mut(&id) else { return };
        let callers = std::mem::take(&mut tenancy.callers);
        let shared = callers.iter().map(|ticket| self.dissolve(*ticket)).fold(Shared::default(), Shared::and);
        let Some(tenancy) = self.sessions.all.get_mut(&id) else { return };
        // Whoever waits for the cause of a loss knows it now.
        let autopsies = std::mem::take(&mut tenancy.autopsies);
        out.extend(autopsies.into_values().map(|ticket| Action::Lost(ticket, reason)));
        self.discard_session(now, id, out);
        for ticket in callers {
            self.on_seat_lost(now, ticket, reason, out);
        }
        self.let_in(now, shared.visitors, out);
    }

    /// Forgets a session and revokes its lease, if it may exist.
    fn discard_session(&mut self, now: Moment, id: SessionId, out: &mut Vec<Action>) {
        let Some(mut tenancy) = self.sessions.all.remove(&id) else { return };
        self.session_alarms.set(id, &mut tenancy.alarm, None);
        let Tenancy { mut session, ttl, extensions, .. } = *tenancy;
        let lease = session.lease();
        self.sessions.leases.remove(&lease);
        if self.sessions.shared.get(&ttl) == Some(&id) {
            self.sessions.shared.remove(&ttl);
        }
        self.cleaner.forget_session(id);
        for (ticket, ..) in extensions {
            out.push(Action::Extended(
                ticket,
                Err(Error::new(Code::Lost, "the lock was lost before it could be extended")),
            ));
        }
        out.push(Action::SessionOver(id));
        // While a grant is on its way, revoking could overtake it; its reply will do it.
        let must_revoke = session.may_exist() && !session.is_granting();
        let mut effects = Vec::new();
        session.end(LostReason::ClientClosed, &mut effects);
        out.extend(effects.into_iter().filter_map(|effect| match effect {
            Effect::Close(number) => Some(Action::CloseRenewals(StreamId { session: id, number })),
            _ => None,
        }));
        if must_revoke {
            self.revoke(now, lease, out);
        }
    }

    /// Lets time pass for the sessions, before anything else happens at `now`.
    pub(super) fn tick_sessions(&mut self, now: Moment, out: &mut Vec<Action>) {
        for id in self.session_alarms.due(now) {
            self.with_session(now, id, out, |session, effects| session.tick(now, effects));
            let Some(tenancy) = self.sessions.all.get_mut(&id) else { continue };
            let late = tenancy.extensions.extract_if(.., |(_, _, give_up)| *give_up <= now);
            out.extend(late.map(|(ticket, ..)| {
                let error = Error::new(
                    Code::DeadlineExceeded,
                    "etcd did not confirm the extension in time; it may still do so",
                );
                Action::Extended(ticket, Err(error))
            }));
            let at = tenancy.next_alarm();
            self.session_alarms.set(id, &mut tenancy.alarm, at);
            if tenancy.idle_since.is_some_and(|since| now >= since + IDLE) {
                self.discard_session(now, id, out);
            }
        }
    }
}
