//! Tenures: a place that callers of one client hold one after the other, because they asked for it.
//!
//! A tenure is of one name in one session. Its **keeper** is the caller that has the place, whether it waits for its turn or holds;
//! **heirs** are those that wait for the keeper (`local_first`). What etcd sees is one contender.
//!
//! ```text
//!                           an heir may take it (and sequence counts up)
//!            +---------------------------------------------------------------+
//!            v                                                               |
//!   keeper holds -- released --> who comes next? -- nobody, linger --> Lent --+-- recalled --> nobody holds it: who comes next?
//!                                    |                                  |  \
//!                                    |                                  |   +-- recalled --> somebody does: is the keeper that holds
//!                                    +-- nobody may --> given up <------+
//! ```
//!
//! Others may stand in the queue: then an heir may take the place only within its bound of turns and time, which run from the moment
//! the place was won, and nobody keeps it without holding. Where nobody knows who stands there, they may. A place is never passed
//! on whose last owner may still write under it: it is given up, and etcd refuses what comes late.
//!
//! While a place is lent, callers take and give it back without the hub, so that neither costs anything. Whoever needs to know who
//! has it recalls it first; those that came meanwhile are **visitors** until then.

use std::{collections::BTreeMap, mem, sync::Arc};

use super::{Caller, Owed, Stage};
use crate::{
    clock::Moment,
    error::{Code, Error, LostReason},
    hub::{Action, Hold, Hub, Loan, Returned, queues::HOLD_WATCHES},
    queue::{Input, company::Company},
    terms::{Mode, PlaceId, QueueId, SessionId, Ticket},
    text,
};

/// What tells tenures apart.
type Name = (Arc<str>, SessionId);

/// A place that callers of this client hold one after the other.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Tenure {
    keeper: Ticket,
    /// Those that wait for the keeper, by their arrival: the first one first.
    heirs: BTreeMap<u64, Ticket>,
    /// Those that came while the place was lent, and are let in when it is recalled.
    visitors: Vec<Ticket>,
    /// When the place was won.
    since: Option<Moment>,
    /// How many owners it had before the present one.
    sequence: u64,
    /// Whether a place of this tenure has stood in the queue.
    has_stood: bool,
    /// Whether the queue tells what company the place has.
    is_followed: bool,
}

impl Tenure {
    fn of(keeper: Ticket) -> Self {
        Self {
            keeper,
            heirs: BTreeMap::new(),
            visitors: Vec::new(),
            since: None,
            sequence: 0,
            has_stood: false,
            is_followed: false,
        }
    }

    /// The same heirs with another place.
    fn renew(&mut self, keeper: Ticket) {
        *self = Self { heirs: mem::take(&mut self.heirs), has_stood: self.has_stood, ..Self::of(keeper) };
    }
}

/// The tenures of a client.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(in crate::hub) struct Tenures {
    all: BTreeMap<Name, Tenure>,
}

impl Tenures {
    /// A caller is forgotten that may be an heir.
    pub(super) fn strike_out(&mut self, caller: &Caller) {
        if caller.is_heir
            && let Some(tenure) = self.all.get_mut(&caller.tenure())
        {
            tenure.heirs.remove(&caller.arrival);
        }
    }

    /// The tenures of a name.
    fn of_name(&self, name: &Arc<str>) -> Vec<Name> {
        let all = (name.clone(), SessionId(0))..=(name.clone(), SessionId(u64::MAX));
        self.all.range(all).map(|(name, _)| name.clone()).collect()
    }
}

/// Who shared a tenure that is no more.
#[derive(Debug, Default)]
pub(in crate::hub) struct Shared {
    heirs: Vec<Ticket>,
    pub(in crate::hub) visitors: Vec<Ticket>,
}

impl Shared {
    pub(in crate::hub) fn and(mut self, other: Self) -> Self {
        self.heirs.extend(other.heirs);
        self.visitors.extend(other.visitors);
        self
    }
}

impl Caller {
    /// The tenure that it shares, if it shares any.
    fn tenure(&self) -> Name {
        (self.wants.first().map_or_else(|| Arc::from(""), |want| want.name.clone()), self.session)
    }

    /// The names that it wants.
    fn names(&self) -> Vec<Arc<str>> {
        self.wants.iter().map(|want| want.name.clone()).collect()
    }

    /// The place that it keeps for others of its client, too.
    fn shared_place(&self) -> Option<(QueueId, PlaceId)> {
        self.places.first().map(|needed| (needed.queue, needed.place))
    }
}

impl Hub {
    /// The tenure that this caller keeps.
    pub(super) fn kept_by(&self, ticket: Ticket) -> Option<Name> {
        let name = self.callers.get(&ticket).filter(|caller| caller.sharing.is_some())?.tenure();
        self.tenures.all.get(&name).filter(|tenure| tenure.keeper == ticket)?;
        Some(name)
    }

    /// Whether a caller that enters finds its place with others of this client: it shares theirs, or waits until that is known.
    /// Otherwise it makes one of its own, in which others may share then.
    pub(super) fn finds_place(&mut self, now: Moment, ticket: Ticket, out: &mut Vec<Action>) -> bool {
        let Some(caller) = self.callers.get(&ticket) else { return true };
        let (own, sharing, mode) = (caller.tenure(), caller.sharing, caller.mode);
        // Whoever wants several names shares none of their places, but must not wait for one that lingers.
        let all = caller.names().iter().flat_map(|name| self.tenures.of_name(name)).collect::<Vec<_>>();
        for name in all {
            let Some(tenure) = self.tenures.all.get_mut(&name) else { continue };
            let keeper = tenure.keeper;
            let Some(stage) = self.callers.get(&keeper).map(|caller| caller.stage.clone()) else { continue };
            match stage {
                _ if keeper == ticket => {}
                Stage::Lent(_) => {
                    tenure.visitors.push(ticket);
                    self.recall(keeper, out);
                    return true;
                }
                Stage::Vacant if name == own && self.may_take(now, &name, ticket) => {
                    self.pass(now, &name, ticket, out);
                    return true;
                }
                // Whoever wants the lock for itself must not wait for a place of ours that nobody holds.
                Stage::Vacant => self.vacate(now, &name, out),
                _ if name != own || sharing.local_first.is_none() => {}
                // What nobody knows to stand yet is no reason to say that the lock is taken.
                _ if mode == Mode::Try && !self.has_stood(&name) => {}
                _ if mode == Mode::Try => {
                    let message = format!(
                        "the lock {} is taken, by this client; look who holds it with queue()",
                        text::quoted(&own.0)
                    );
                    self.leave(now, ticket, Owed::Failure(Error::new(Code::NotAcquired, message)), out);
                    return true;
                }
                _ => {
                    self.wait_for_keeper(now, &name, ticket, out);
                    return true;
                }
            }
        }
        if sharing.is_some() {
            self.tenures.all.entry(own).or_insert_with(|| Tenure::of(ticket));
        }
        false
    }

    fn has_stood(&self, name: &Name) -> bool {
        self.tenures.all.get(name).is_some_and(|tenure| tenure.has_stood)
    }

    fn wait_for_keeper(&mut self, now: Moment, name: &Name, ticket: Ticket, out: &mut Vec<Action>) {
        let Some(tenure) = self.tenures.all.get_mut(name) else { return };
        if let Some(caller) = self.callers.get_mut(&ticket) {
            tenure.heirs.insert(caller.arrival, ticket);
            caller.stage = Stage::Queueing;
            caller.is_heir = true;
            caller.has_queued |= tenure.has_stood;
        }
        let keeper = tenure.keeper;
        self.set_alarm(ticket);
        self.follow_company(now, keeper, out);
    }

    /// The place of a tenure stands: whoever waits for it has queued.
    pub(super) fn on_tenure_stands(&mut self, keeper: Ticket) {
        let Some(name) = self.kept_by(keeper) else { return };
        let Some(tenure) = self.tenures.all.get_mut(&name) else { return };
        if mem::replace(&mut tenure.has_stood, true) {
            return;
        }
        for heir in tenure.heirs.values().copied().collect::<Vec<_>>() {
            if let Some(caller) = self.callers.get_mut(&heir) {
                caller.has_queued = true;
            }
            self.set_alarm(heir);
        }
    }

    /// Whether the request that enqueues this caller, or the one whose place it waits for, waits its turn to be sent.
    pub(super) fn is_unsent(&self, ticket: Ticket) -> bool {
        let is_unsent = |caller: &Caller| caller.unsent.is_some();
        self.callers.get(&ticket).map(Box::as_ref).is_some_and(is_unsent)
            || self.keeper_of(ticket).is_some_and(is_unsent)
    }

    /// What went wrong while the place was queued that this caller waits for.
    pub(super) fn keepers_error(&self, ticket: Ticket) -> Option<Error> {
        self.keeper_of(ticket)?.last_error.clone()
    }

    /// Whose place an heir waits for.
    fn keeper_of(&self, heir: Ticket) -> Option<&Caller> {
        let heir = self.callers.get(&heir).filter(|caller| caller.is_heir)?;
        self.callers.get(&self.tenures.all.get(&heir.tenure())?.keeper).map(Box::as_ref)
    }

    /// A caller holds: how many have held by its place before. One that shares places keeps a tenure from now on.
    pub(super) fn begin_turn(&mut self, now: Moment, ticket: Ticket) -> u64 {
        let Some(caller) = self.callers.get(&ticket).filter(|caller| caller.sharing.is_some()) else { return 0 };
        let tenure = self.tenures.all.entry(caller.tenure()).or_insert_with(|| Tenure::of(ticket));
        if tenure.keeper != ticket {
            return 0;
        }
        tenure.has_stood = true;
        tenure.since.get_or_insert(now);
        tenure.sequence
    }

    /// Has the queue tell what company a place has that is to be kept, or passed on.
    pub(super) fn follow_company(&mut self, now: Moment, keeper: Ticket, out: &mut Vec<Action>) {
        let Some(name) = self.kept_by(keeper) else { return };
        let Some(caller) = self.callers.get(&keeper).filter(|caller| caller.is_keeping()) else { return };
        let (lingers, place) = (!caller.sharing.linger.is_zero(), caller.shared_place());
        let Some(tenure) = self.tenures.all.get_mut(&name) else { return };
        let is_wanted = lingers || !tenure.heirs.is_empty();
        if mem::replace(&mut tenure.is_followed, is_wanted) != is_wanted
            && let Some((queue, place)) = place
        {
            self.with_queue(now, queue, Input::Follow(place, is_wanted), out);
        }
    }

    fn company(&self, name: &Name) -> Company {
        let place = self.tenures.all.get(name).and_then(|tenure| self.callers.get(&tenure.keeper)?.shared_place());
        place.and_then(|(queue, place)| Some(self.queues.get(queue)?.company(place))).unwrap_or_default()
    }

    /// Whether `next` may take the place of this tenure over.
    fn may_take(&self, now: Moment, name: &Name, next: Ticket) -> bool {
        let Some(tenure) = self.tenures.all.get(name) else { return false };
        let Some(next) = self.callers.get(&next).filter(|next| next.sharing.is_some()) else { return false };
        let bound = next.sharing.bound();
        let is_within = || {
            let turns = tenure.sequence + 1;
            turns < u64::from(bound.turns) && tenure.since.is_some_and(|since| now < since + bound.time)
        };
        match self.company(name) {
            Company::Nobody => true,
            Company::Unknown => is_within(),
            Company::Others => next.sharing.local_first.is_some() && is_within(),
        }
    }

    /// Whether the place of this tenure may stay although nobody holds it.
    fn may_linger(&self, now: Moment, name: &Name) -> bool {
        let Some(tenure) = self.tenures.all.get(name) else { return false };
        let Some(keeper) = self.callers.get(&tenure.keeper) else { return false };
        let is_in_company = match self.company(name) {
            Company::Nobody => false,
            Company::Unknown => tenure.since.is_none_or(|since| now >= since + keeper.sharing.bound().time),
            Company::Others => true,
        };
        // Each is followed by a watch, of which there are only so many.
        let is_watched = tenure.is_followed || self.queues.watches() < HOLD_WATCHES;
        // Where the next look at it is due already, it would be recalled as soon as it is lent, and lent again.
        let has_time = self.sessions.slack(name.1).is_some_and(|(_, renew_by)| now < renew_by);
        !is_in_company && is_watched && has_time && self.sessions.can_hold(now, name.1)
    }

    /// A hold is released: its place is passed on, stays, or is given up.
    pub(super) fn hand_on(&mut self, now: Moment, ticket: Ticket, out: &mut Vec<Action>) {
        let kept = self.kept_by(ticket).filter(|_| !self.callers[&ticket].is_unsettled);
        if let Some(name) = kept {
            let next = self.tenures.all.get(&name).and_then(|tenure| tenure.heirs.values().next().copied());
            let linger = self.callers[&ticket].sharing.linger;
            match next {
                Some(next) if self.may_take(now, &name, next) => return self.pass(now, &name, next, out),
                None if !linger.is_zero() && self.may_linger(now, &name) => {
                    out.push(Action::Released(ticket, Ok(())));
                    return self.lend(now, &name, now + linger, out);
                }
                _ => {}
            }
        }
        self.leave(now, ticket, Owed::Release(Ok(())), out);
    }

    /// `next` takes the place over from its keeper, who has released it.
    fn pass(&mut self, now: Moment, name: &Name, next: Ticket, out: &mut Vec<Action>) {
        let Some(tenure) = self.tenures.all.get_mut(name) else { return };
        let before = mem::replace(&mut tenure.keeper, next);
        tenure.sequence += 1;
        if let Some(caller) = self.callers.get_mut(&next)
            && mem::take(&mut caller.is_heir)
        {
            tenure.heirs.remove(&caller.arrival);
        }
        let Some(caller) = self.callers.get_mut(&before) else { return };
        let places = mem::take(&mut caller.places);
        if caller.stage == Stage::Holding {
            out.push(Action::Released(before, Ok(())));
        }
        self.forget(before);
        self.owners.extend(places.iter().map(|needed| (needed.place, next)));
        if let Some(caller) = self.callers.get_mut(&next) {
            caller.places = places;
            caller.stage = Stage::Queueing;
            caller.has_queued = true;
        }
        self.unseat(now, before, name.1, out);
        self.set_alarm(next);
        self.try_hold(now, next, out);
    }

    /// The place of this tenure stays although nobody holds it, until then or until somebody takes it.
    fn lend(&mut self, now: Moment, name: &Name, until: Moment, out: &mut Vec<Action>) {
        let company = self.company(name);
        let Some(Tenure { keeper, since, sequence, .. }) = self.tenures.all.get(name) else { return };
        let (ticket, since, sequence) = (*keeper, *since, *sequence);
        let Some((slack, renew_by)) = self.sessions.slack(name.1) else { return };
        let Some(lease) = self.sessions.lease_of(name.1) else { return };
        let Some(caller) = self.callers.get_mut(&ticket) else { return };
        let Some((key, token)) = caller.places.first().and_then(|needed| needed.admitted.clone()) else { return };
        let keys = vec![key];
        let (sharing, ttl) = (caller.sharing, caller.ttl);
        // As long as nobody knows who stands there, it stays as long as it might be passed on.
        let unknown = since.filter(|_| company == Company::Unknown).map(|since| since + sharing.bound().time);
        caller.stage = Stage::Lent([Some(until), Some(renew_by), unknown].into_iter().flatten().min());
        let hold = Hold { keys, token, session: name.1, lease, sequence };
        out.push(Action::Lend(ticket, Loan { name: name.0.clone(), ttl, hold, sharing, slack, until }));
        self.set_alarm(ticket);
        self.follow_company(now, ticket, out);
    }

    /// The place is not to be taken any more until it is known who has it.
    pub(super) fn recall(&mut self, ticket: Ticket, out: &mut Vec<Action>) {
        if let Some(caller) = self.callers.get_mut(&ticket)
            && matches!(caller.stage, Stage::Lent(Some(_)))
        {
            caller.stage = Stage::Lent(None);
            self.set_alarm(ticket);
            out.push(Action::Recall(ticket));
        }
    }

    pub(in crate::hub) fn on_company(&mut self, place: PlaceId, company: Company, out: &mut Vec<Action>) {
        if let Some(ticket) = self.owners.get(&place).copied()
            && company != Company::Nobody
        {
            self.recall(ticket, out);
        }
    }

    /// The place is ours again, or somebody holds it.
    pub(in crate::hub) fn on_recalled(
        &mut self,
        now: Moment,
        ticket: Ticket,
        returned: Returned,
        out: &mut Vec<Action>,
    ) {
        let Some(name) = self.kept_by(ticket) else { return };
        let Some(caller) = self.callers.get_mut(&ticket).filter(|caller| matches!(caller.stage, Stage::Lent(_))) else {
            return;
        };
        caller.stage = if returned.until.is_none() { Stage::Holding } else { Stage::Vacant };
        caller.sharing = returned.sharing;
        self.set_alarm(ticket);
        let Some(tenure) = self.tenures.all.get_mut(&name) else { return };
        tenure.sequence = returned.sequence;
        let visitors = mem::take(&mut tenure.visitors);
        self.let_in(now, visitors, out);
        if self.callers.get(&ticket).is_none_or(|caller| caller.stage != Stage::Vacant) {
            return;
        }
        match returned.until {
            Some(until) if now < until && self.may_linger(now, &name) => self.lend(now, &name, until, out),
            _ => self.vacate(now, &name, out),
        }
    }

    /// Those enter that waited until they knew who has a place.
    pub(in crate::hub) fn let_in(&mut self, now: Moment, visitors: Vec<Ticket>, out: &mut Vec<Action>) {
        for visitor in visitors {
            // Where the lease is not there yet, they are let in when it is.
            let session = self.callers.get(&visitor).map(|caller| caller.session());
            if let Some(lease) = session.and_then(|session| self.sessions.live_lease(session)) {
                self.enter(now, visitor, lease, out);
            }
        }
    }

    /// The place of this tenure is given up, which nobody holds and nobody waits for.
    fn vacate(&mut self, now: Moment, name: &Name, out: &mut Vec<Action>) {
        let Some(Tenure { keeper, .. }) = self.tenures.all.remove(name) else { return };
        let Some(place) = self.callers.get(&keeper).and_then(|caller| caller.shared_place()) else { return };
        self.forget(keeper);
        self.with_queue(now, place.0, Input::Leave(place.1), out);
        self.unseat(now, keeper, name.1, out);
    }

    /// The keeper of this tenure has left its place: the first that waits needs another one.
    pub(super) fn promote(&mut self, now: Moment, name: &Name, out: &mut Vec<Action>) {
        let Some(tenure) = self.tenures.all.get_mut(name) else { return };
        let Some((_, next)) = tenure.heirs.pop_first() else {
            self.tenures.all.remove(name);
            return;
        };
        tenure.renew(next);
        if let Some(caller) = self.callers.get_mut(&next) {
            caller.is_heir = false;
            caller.stage = Stage::Seating;
        }
        self.let_in(now, vec![next], out);
        self.set_alarm(next);
    }

    /// A keeper that waits gives up: whoever waits for it waits in its stead.
    pub(super) fn bequeath(&mut self, now: Moment, ticket: Ticket, out: &mut Vec<Action>) {
        let Some(name) = self.kept_by(ticket) else { return };
        let Some(caller) = self.callers.get_mut(&ticket) else { return };
        // The place of a try is of no use to those that wait.
        if caller.mode == Mode::Try || !matches!(caller.stage, Stage::Queueing | Stage::BackingOff(_)) {
            return;
        }
        let Some(tenure) = self.tenures.all.get_mut(&name) else { return };
        let Some((_, next)) = tenure.heirs.pop_first() else { return };
        tenure.keeper = next;
        let (places, unsent) = (mem::take(&mut caller.places), caller.unsent.take());
        let (stage, failures) = (caller.stage.clone(), caller.failures);
        self.owners.extend(places.iter().map(|needed| (needed.place, next)));
        if let Some(caller) = self.callers.get_mut(&next) {
            caller.is_heir = false;
            caller.places = places;
            caller.unsent = unsent;
            caller.stage = stage;
            caller.failures = failures;
        }
        self.set_alarm(next);
        self.try_hold(now, next, out);
    }

    /// The place of the tenure that `ticket` keeps is gone, and with it the tenure. Says who shared it.
    pub(in crate::hub) fn dissolve(&mut self, ticket: Ticket) -> Shared {
        let Some(tenure) = self.kept_by(ticket).and_then(|name| self.tenures.all.remove(&name)) else {
            return Shared::default();
        };
        let heirs: Vec<Ticket> = tenure.heirs.into_values().collect();
        for heir in &heirs {
            if let Some(caller) = self.callers.get_mut(heir) {
                caller.is_heir = false;
            }
        }
        Shared { heirs, visitors: tenure.visitors }
    }

    /// Those that shared a place which is gone need others, unless their policy is to fail.
    pub(super) fn resettle(&mut self, now: Moment, shared: Shared, reason: LostReason, out: &mut Vec<Action>) {
        for heir in shared.heirs {
            let name = self.callers.get(&heir).map(|caller| caller.name().to_owned()).unwrap_or_default();
            self.queue_again(now, heir, &Error::lost(&name, reason), out);
        }
        self.let_in(now, shared.visitors, out);
    }

    pub(in crate::hub) fn note_unsettled(&mut self, ticket: Ticket) {
        if let Some(caller) = self.callers.get_mut(&ticket) {
            caller.is_unsettled = true;
        }
    }
}
