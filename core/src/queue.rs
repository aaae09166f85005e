//! The queue of one name: enqueue, who is ahead, hand-off, withdraw. Sans I/O.
//!
//! All contenders of this client for one name live here, whoever waits for them. The order comes from [`view::View`], the
//! transactions from [`wire`], the life of a contender from [`member`]. The algorithm is the revision-ordered queue of etcd's
//! own `concurrency.Mutex`, with one key for each waiter and with the hand-off inside a process that `docs/design.md` §3
//! describes: a key of ours that was released here is treated as gone while its delete is still on the way.

pub mod member;
mod numbers;
pub mod view;
pub mod wire;

mod following;
mod holding;
mod joining;
mod leaving;
mod watching;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use self::{
    member::{Answer, Member, Mode, Phase, SessionId, Spec, Ticket},
    numbers::Numbers,
    view::View,
    watching::Watching,
    wire::Prefix,
};
use crate::{
    clock::Moment,
    error::{Code, Error, LostReason},
    store::{Key, Keys, LeaseId, Reply, Request, StoreError, WatchEvent, WatchId},
};

/// How long a caller that gave up waits for its key to be deleted before it is answered all the same.
const LEAVE_GRACE: Duration = Duration::from_secs(1);
/// How long a release waits for its delete to be confirmed before the caller is told that it goes on in the background.
const RELEASE_GRACE: Duration = Duration::from_secs(5);

/// Which answer a reply is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Call {
    /// To the enqueue or try of a contender, in its round.
    Join(Ticket, u32),
    /// To the delete of these contenders' keys.
    Delete(Vec<Ticket>),
    /// To a read of the queue.
    Read,
}

/// What a queue asks for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Effect {
    /// Send this; answer with [`Queue::on_reply`].
    Call(Call, Request),
    /// Open a watch; answer with `on_watch_*`.
    Watch(WatchId, Keys),
    /// Close a watch.
    Unwatch(WatchId),
    /// The lock is this contender's: key and create revision.
    Won(Ticket, Key, i64),
    /// The acquire is over without the lock.
    Failed(Ticket, Error),
    /// The release is over; an error says what is left of it.
    Released(Ticket, Result<(), Error>),
    /// Assign a key: [`Queue::assign`].
    NeedsKey(Ticket),
    /// The key of a hold is gone, and not by us.
    Vanished(Ticket),
    /// This key must go, also if it appears only later; with a ticket, answer with [`Queue::on_cleaned`].
    Clean(Key, LeaseId, Option<(Ticket, i64)>),
    /// The fate of an enqueue under this session is unknown: its key may appear later, and must not be chosen again.
    Ambiguous(SessionId, Key),
    /// etcd says that this session's lease does not exist.
    LeaseGone(SessionId),
    /// The head of the queue is ours, but its session has too little time left to hand over: renew it.
    NeedsTime(SessionId),
    /// A key came into the order that is none of our contenders'.
    Stranger(Key),
}

/// What the queue must know about sessions to hand over.
pub trait Sessions {
    /// Whether a lock may be handed to a contender of this session now.
    fn can_hold(&self, session: SessionId) -> bool;
    /// A fresh id for a watch.
    fn next_watch(&mut self) -> WatchId;
}

/// The queue of one name. After each call that changes it, [`Queue::settle`] is due.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Queue {
    name: Arc<str>,
    prefix: Prefix,
    members: BTreeMap<Ticket, Member>,
    /// The present key of each contender.
    keys: BTreeMap<Key, Ticket>,
    numbers: BTreeMap<LeaseId, Numbers>,
    view: View,
    watching: Watching,
    held: Option<Ticket>,
    waiting: usize,
    impatient: BTreeSet<Ticket>,
    blocked: BTreeSet<Ticket>,
    /// Contenders whose delete is still to be sent.
    undeleted: Vec<Ticket>,
    /// Whether a delete is on its way: the next ones wait for its reply and then share one commit.
    is_deleting: bool,
    /// Deleted keys whose deletion the view has not seen yet, by its revision.
    gone: BTreeSet<(i64, Ticket)>,
    wakes: BTreeSet<(Moment, Ticket)>,
}

impl Queue {
    /// The queue of `name` below `namespace`. `recheck` is how often the order is confirmed by a read while somebody waits.
    pub fn new(namespace: &str, name: Arc<str>, recheck: Duration) -> Self {
        Self {
            prefix: Prefix::new(namespace, &name),
            name,
            members: BTreeMap::new(),
            keys: BTreeMap::new(),
            numbers: BTreeMap::new(),
            view: View::default(),
            watching: Watching::new(recheck),
            held: None,
            waiting: 0,
            impatient: BTreeSet::new(),
            blocked: BTreeSet::new(),
            undeleted: Vec::new(),
            is_deleting: false,
            gone: BTreeSet::new(),
            wakes: BTreeSet::new(),
        }
    }

    /// The name.
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// The keys below the name.
    pub fn prefix(&self) -> &Prefix {
        &self.prefix
    }

    /// Whether nothing is left to do or to remember.
    pub fn is_idle(&self) -> bool {
        self.members.is_empty() && !self.is_deleting && !self.view.is_on()
    }

    /// Every contender of `session`.
    pub fn members_of(&self, session: SessionId) -> impl Iterator<Item = Ticket> {
        self.members
            .iter()
            .filter(move |(_, member)| member.session.is_some_and(|(id, _)| id == session))
            .map(|(ticket, _)| *ticket)
    }

    /// Whether `ticket` is one of ours, also if it has left but is still remembered.
    pub fn has(&self, ticket: Ticket) -> bool {
        self.members.contains_key(&ticket)
    }

    /// Whether a contender of ours waits, holds or leaves with `key`. Once that key was deleted, one that stands in its place is
    /// a ghost: an earlier attempt to enqueue took effect late.
    pub fn uses(&self, key: &Key) -> bool {
        self.keys.get(key).is_some_and(|ticket| !matches!(self.members[ticket].phase, Phase::Gone(_)))
    }

    /// Whether the view shows `key` where a contender of ours had it.
    fn is_where_it_was(&self, key: &Key) -> bool {
        self.keys.get(key).is_some_and(|ticket| self.view.place_of(key) == Some(self.members[ticket].revision))
    }

    /// Adds a contender; it needs a key next.
    pub fn add(&mut self, ticket: Ticket, spec: Spec, out: &mut Vec<Effect>) {
        self.members.insert(ticket, Member::new(spec));
        self.touch(ticket);
        out.push(Effect::NeedsKey(ticket));
    }

    /// Gives a contender its key, none of the `tainted` ones, and sends it into the queue.
    pub fn assign(
        &mut self,
        ticket: Ticket,
        session: SessionId,
        lease: LeaseId,
        tainted: &BTreeSet<Key>,
        out: &mut Vec<Effect>,
    ) {
        let Some(member) = self.members.get_mut(&ticket).filter(|member| member.phase == Phase::Unkeyed) else {
            return;
        };
        let numbers = self.numbers.entry(lease).or_default();
        let (number, key) = loop {
            let number = numbers.take();
            let key = self.prefix.contender(lease, number);
            if !tainted.contains(&key) {
                break (number, key);
            }
        };
        member.session = Some((session, lease));
        member.number = number;
        member.key = Some(key.clone());
        self.keys.insert(key, ticket);
        if member.spec.mode == Mode::Try {
            let leaving = self.members.iter().filter(|(_, other)| matches!(other.phase, Phase::Leaving(_)));
            self.set_phase(ticket, Phase::Blocked(leaving.map(|(ticket, _)| *ticket).collect()));
            self.unblock(out);
        } else {
            self.send(ticket, out);
        }
    }

    /// The caller of an acquire gave up: `error` is what it is told once its key is withdrawn.
    /// Does nothing if the acquire is over; its guard, if it won, is released by whoever has it.
    pub fn give_up(&mut self, now: Moment, ticket: Ticket, error: Error, out: &mut Vec<Effect>) {
        self.leave(now, ticket, Answer::Failed(error), LEAVE_GRACE, out);
    }

    /// The holder releases. The next contender of ours may take over at once; the delete follows.
    pub fn release(&mut self, now: Moment, ticket: Ticket, out: &mut Vec<Effect>) {
        if self.held == Some(ticket) {
            self.leave(now, ticket, Answer::Released, RELEASE_GRACE, out);
        }
    }

    /// The reply to a [`Effect::Call`].
    pub fn on_reply(
        &mut self,
        now: Moment,
        call: Call,
        result: Result<Reply, StoreError>,
        sessions: &mut impl Sessions,
        out: &mut Vec<Effect>,
    ) {
        match call {
            Call::Join(ticket, round) => self.on_joined(now, ticket, round, result, sessions, out),
            Call::Delete(tickets) => self.on_deleted(tickets, result, out),
            Call::Read => self.on_read(now, result, out),
        }
    }

    /// A watch stands.
    pub fn on_watch_created(&mut self, id: WatchId, out: &mut Vec<Effect>) {
        let mut wants = Vec::new();
        self.view.on_created(id, &mut wants);
        self.pass_on(wants, out);
    }

    /// A watch told of changes.
    pub fn on_watch_events(&mut self, events: Vec<WatchEvent>, out: &mut Vec<Effect>) {
        let mut news = Vec::new();
        self.view.on_events(&self.prefix, events, &mut news);
        if !news.is_empty() && self.watching.is_crowd() {
            // Only the nearest contender ahead is watched: whether others stand there, a read tells.
            self.view.open_gap();
        }
        self.take_in(news, out);
    }

    /// A watch ended.
    pub fn on_watch_broken(&mut self, now: Moment, id: WatchId, out: &mut Vec<Effect>) {
        if self.view.on_broken(id).is_some() {
            self.watching.pause(now);
            if self.watching.is_crowd() {
                let mut wants = Vec::new();
                self.view.drop_watches(&mut wants);
                self.pass_on(wants, out);
            }
        }
    }

    /// The cleaner is done with the key of a contender that left: it is gone as of `revision`, or died with its lease (`None`).
    pub fn on_cleaned(&mut self, ticket: Ticket, revision: Option<i64>, out: &mut Vec<Effect>) {
        let Some(Phase::Leaving(answer)) = self.members.get(&ticket).map(|member| member.phase.clone()) else { return };
        let answer = match (answer, revision) {
            (Answer::Released, None) => {
                out.push(Effect::Released(ticket, Err(Error::lost(&self.name, LostReason::Expired))));
                Answer::Told
            }
            (answer, _) => answer,
        };
        self.answer(ticket, answer, out);
        if revision.is_some() {
            self.clean_ghost(ticket, out);
        }
        self.set_phase(ticket, Phase::Gone(revision.unwrap_or_default()));
        self.unblock(out);
    }

    /// The session is lost: its keys are dead. Waiters queue again or fail; holds are over and forgotten.
    pub fn on_session_lost(&mut self, session: SessionId, reason: LostReason, out: &mut Vec<Effect>) {
        for ticket in self.members_of(session).collect::<Vec<_>>() {
            match &self.members[&ticket].phase {
                Phase::Held(_) => self.remove(ticket),
                Phase::Sending { ending: Some(answer) } => {
                    let answer = answer.clone();
                    self.answer(ticket, answer, out);
                    self.remove(ticket);
                }
                Phase::Leaving(_) | Phase::Gone(_) => {
                    // The cleaner, or the delete on its way, ends them.
                    if let Some(member) = self.members.get_mut(&ticket) {
                        member.has_outlived_session = reason == LostReason::Expired;
                    }
                }
                _ => self.requeue(ticket, reason, out),
            }
        }
        let lease = |member: &Member| member.session.map(|(_, lease)| lease);
        self.numbers.retain(|of, _| self.members.values().any(|member| lease(member) == Some(*of)));
    }

    /// The client closes: every acquire fails, every release is done as far as its caller is concerned.
    /// The keys end with the leases.
    pub fn close(mut self, out: &mut Vec<Effect>) {
        let closed = || Error::new(Code::Closed, "the client was closed while this acquire was waiting");
        for (ticket, member) in std::mem::take(&mut self.members) {
            match member.phase {
                Phase::Held(_) | Phase::Gone(_) => {}
                Phase::Leaving(answer) | Phase::Sending { ending: Some(answer) } => self.answer(ticket, answer, out),
                _ => out.push(Effect::Failed(ticket, closed())),
            }
        }
        let mut wants = Vec::new();
        self.view.drop_watches(&mut wants);
        self.pass_on(wants, out);
    }

    /// When [`Queue::tick`] has something to do.
    pub fn wake(&self) -> Option<Moment> {
        let members = self.wakes.first().map(|(at, _)| *at);
        members.into_iter().chain(self.watching.wake(self.held_since(), self.waiting)).min()
    }

    /// Lets time pass: wait limits, repeated transactions, answers that are due, re-checks.
    pub fn tick(&mut self, now: Moment, out: &mut Vec<Effect>) {
        while self.wakes.first().is_some_and(|(at, _)| *at <= now) {
            if let Some((_, ticket)) = self.wakes.pop_first() {
                self.on_wake(now, ticket, out);
            }
        }
    }

    /// Brings everything in line: what is watched, who holds, what is forgotten, what is deleted next.
    /// To be called after every other call that changes the queue, and when a session has more time than before.
    pub fn settle(&mut self, now: Moment, sessions: &mut impl Sessions, out: &mut Vec<Effect>) {
        self.aim(now, sessions, out);
        self.hand_over(now, sessions, out);
        self.forget_seen();
        self.delete_next(out);
    }

    fn on_wake(&mut self, now: Moment, ticket: Ticket, out: &mut Vec<Effect>) {
        let Some(member) = self.members.get_mut(&ticket) else { return };
        member.wake = None;
        match &member.phase {
            Phase::Leaving(answer) | Phase::Sending { ending: Some(answer) } => {
                match answer.clone() {
                    Answer::Released => {
                        let error = member.last_error.clone().unwrap_or_else(|| unconfirmed(&self.name));
                        out.push(Effect::Released(ticket, Err(error)));
                    }
                    answer => self.answer(ticket, answer, out),
                }
                let Some(member) = self.members.get_mut(&ticket) else { return };
                member.answer_by = None;
                let phase = match member.phase {
                    Phase::Sending { .. } => Phase::Sending { ending: Some(Answer::Told) },
                    _ => Phase::Leaving(Answer::Told),
                };
                self.set_phase(ticket, phase);
            }
            _ if member.spec.limit.is_some_and(|limit| now >= limit) => {
                let error = self.not_in_time(ticket);
                self.leave(now, ticket, Answer::Failed(error), LEAVE_GRACE, out);
            }
            Phase::Backoff(at) if now >= *at => self.send(ticket, out),
            _ if !member.has_queued && now >= member.spec.join_by => {
                let error = member.last_error.clone().unwrap_or_else(|| unanswered(&self.name));
                self.leave(now, ticket, Answer::Failed(error), LEAVE_GRACE, out);
            }
            _ => self.touch(ticket),
        }
    }

    /// What a caller is told whose wait limit has passed.
    fn not_in_time(&self, ticket: Ticket) -> Error {
        let member = &self.members[&ticket];
        let name = &self.name;
        let message = match &member.last_error {
            _ if member.has_queued => {
                format!("the lock {name:?} was not free within the wait limit: {}", self.blocker())
            }
            // Whoever skips what another has locked must not skip it because etcd is out of reach.
            Some(error) => return error.clone(),
            None => format!("the wait limit passed before etcd had said whether the lock {name:?} is free"),
        };
        Error::new(Code::NotAcquired, message)
    }

    /// Who stands in the way, and what can be done about it.
    fn blocker(&self) -> String {
        match self.view.order().next() {
            Some(place) if self.view.has_no_lease(place) => format!(
                "the key {} stands first and has no lease, so it never ends by itself; delete it or force_release({})",
                place.1, place.0
            ),
            Some((token, key)) => format!("the key {key} holds it with token {token}; wait longer, or see queue()"),
            None => "wait longer, or look who holds it with queue()".to_owned(),
        }
    }

    fn taken(&self) -> Error {
        Error::new(Code::NotAcquired, format!("the lock {:?} is taken; look who holds it with queue()", self.name))
    }

    /// Notes why a contender has no key yet, for the message when its time is up.
    pub fn note_error(&mut self, ticket: Ticket, error: Error) {
        if let Some(member) = self.members.get_mut(&ticket) {
            member.last_error = Some(error);
        }
    }

    fn held_since(&self) -> Option<Moment> {
        match self.members.get(&self.held?)?.phase {
            Phase::Held(since) => Some(since),
            _ => None,
        }
    }

    /// The key of our hold.
    pub fn held_key(&self) -> Option<Key> {
        self.members.get(&self.held?)?.key.clone()
    }

    /// Key and create revision of a contender that has them.
    fn place(&self, ticket: Ticket) -> (Key, i64) {
        let member = &self.members[&ticket];
        (member.key.clone().unwrap_or_else(|| Key::from("")), member.revision)
    }

    fn set_phase(&mut self, ticket: Ticket, phase: Phase) {
        let Some(member) = self.members.get_mut(&ticket) else { return };
        let before = std::mem::replace(&mut member.phase, phase);
        let revision_gone = |phase: &Phase| match phase {
            Phase::Gone(revision) => Some(*revision),
            _ => None,
        };
        self.waiting -= usize::from(before == Phase::Waiting);
        self.waiting += usize::from(member.phase == Phase::Waiting);
        if matches!(before, Phase::Held(_)) {
            self.held = None;
        }
        if matches!(member.phase, Phase::Held(_)) {
            self.held = Some(ticket);
        }
        if !matches!(member.phase, Phase::Sending { .. } | Phase::Backoff(_) | Phase::Waiting) {
            self.impatient.remove(&ticket);
        }
        if matches!(member.phase, Phase::Blocked(_)) {
            self.blocked.insert(ticket);
        } else {
            self.blocked.remove(&ticket);
        }
        if let Some(revision) = revision_gone(&before) {
            self.gone.remove(&(revision, ticket));
        }
        if let Some(revision) = revision_gone(&member.phase) {
            self.gone.insert((revision, ticket));
        }
        self.touch(ticket);
    }

    /// Brings the timer of a contender in line with its phase.
    fn touch(&mut self, ticket: Ticket) {
        let Some(member) = self.members.get_mut(&ticket) else { return };
        let next = member.next_wake();
        if member.wake != next {
            if let Some(at) = std::mem::replace(&mut member.wake, next) {
                self.wakes.remove(&(at, ticket));
            }
            if let Some(at) = next {
                self.wakes.insert((at, ticket));
            }
        }
    }

    fn remove(&mut self, ticket: Ticket) {
        self.set_phase(ticket, Phase::Unkeyed);
        let Some(member) = self.members.remove(&ticket) else { return };
        if let Some(at) = member.wake {
            self.wakes.remove(&(at, ticket));
        }
        give_back(&mut self.numbers, &member);
        if let Some(key) = member.key {
            self.keys.remove(&key);
        }
        self.undeleted.retain(|other| *other != ticket);
    }
}

/// The key of `member` is gone; its number is free unless a request about it may still be on its way.
fn give_back(numbers: &mut BTreeMap<LeaseId, Numbers>, member: &Member) {
    if let Some((_, lease)) = member.session
        && !member.is_ambiguous
        && let Some(numbers) = numbers.get_mut(&lease)
    {
        numbers.give_back(member.number);
    }
}

/// What a caller is told whose enqueue etcd has not answered.
fn unanswered(name: &str) -> Error {
    let message =
        format!("etcd did not answer in time while queueing for the lock {name:?}; is it reachable and healthy?");
    Error::new(Code::DeadlineExceeded, message)
}

fn unconfirmed(name: &str) -> Error {
    Error::new(
        Code::DeadlineExceeded,
        format!(
            "etcd did not confirm the release of the lock {name:?} in time; it is released here, and its key is deleted in the \
             background or, at the latest, when the lease ends"
        ),
    )
}
