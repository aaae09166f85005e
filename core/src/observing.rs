//! What one observer of an election sees: who leads and what it proclaims, change by change. Sans I/O.
//!
//! The leader is the contender that stands first, and the value of its key is what it proclaims. An observer has no place in
//! the queue: it watches all keys below the name, and knows from one read which of them stood when it began.
//!
//! ```text
//!             asked for a watch       it stands: a read is sent        the read is answered
//!   Pausing ------------------> Opening ------------------> Reading ------------------> Following
//!      ^                           |                           |                           |
//!      +---------------------------+-- the watch ended, or the read failed, or the watch is deaf --+
//! ```
//!
//! - The watch stands before the read is sent, so between the two nothing is missed: what the watch tells while the read is on
//!   its way is kept, and what is newer than the read is replayed on top of it.
//! - While the watch stands, every change is told, in the order of the revisions: each new leader, and each proclamation of the
//!   leader. Changes of one revision are one change.
//! - A watch that ended is not resumed: another one is opened, and a read tells what is so now. What happened between the two may
//!   be told by nobody, so the next change that is told says that it comes after a gap; unless the same leader still stands with
//!   the same proclamation, which shows that nothing happened.
//! - A watch can miss a change without a word (etcd#18089), never be confirmed, or end as soon as it stands. A read now and then looks
//!   for that (`looking.rs`), whatever the watches do.

mod contenders;
mod looking;
#[cfg(test)]
mod tests;

use std::time::Duration;

use self::{
    contenders::{Contenders, Identity},
    looking::Look,
};

use crate::{
    backoff::Backoff,
    clock::Moment,
    queue::wire::{Prefix, Proclamation},
    store::{ErrorKind, KeyValue, Keys, Reply, ReplyBody, StoreError, WatchEvent, WatchId, WatchReply},
};

/// Pauses before a watch is opened again, or a read is sent again.
const AGAIN: Backoff = Backoff::new(Duration::from_millis(150), Duration::from_secs(2));
/// So many watches in a row that are refused for the user or the password, and the observer fails.
const REFUSALS: u32 = 3;

/// What an observer sees at one revision.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Sight {
    /// The leader and what it proclaims; `None` where nobody leads.
    pub leader: Option<Proclamation>,
    /// The revision of etcd at which it was so.
    pub at: i64,
    /// Whether changes between this one and the one before may not have been told.
    pub is_after_gap: bool,
}

/// What happens to an observer.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Input {
    /// It begins.
    Begin,
    /// Something came on its watch.
    Watch(WatchReply),
    /// The reply to [`Effect::Read`] of this round.
    Read(u32, Result<Reply, StoreError>),
    /// The reply to [`Effect::Check`] of this round.
    Checked(u32, Result<Reply, StoreError>),
    /// Another history has begun: what was seen is worth nothing.
    Restart,
    /// Time passed.
    Wake,
}

/// What an observer asks for, and tells.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Effect {
    /// Open a watch; answer with [`Input::Watch`].
    Watch(WatchId, Keys),
    /// Close a watch.
    Unwatch(WatchId),
    /// Read all contenders with their values; answer with [`Input::Read`].
    Read(u32),
    /// Read all contenders without their values; answer with [`Input::Checked`].
    Check(u32),
    /// It sees something new.
    Saw(Sight),
    /// It sees nothing any more, for this reason.
    Failed(StoreError),
}

/// How far an observer has come; see the diagram above.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Stage {
    /// No watch is opened before then.
    Pausing(Moment),
    /// The watch is asked for, and should be confirmed before then.
    Opening(WatchId, Moment),
    /// The watch stands, the read is on its way, and this came in meanwhile.
    Reading(WatchId, Vec<WatchEvent>),
    /// What is known is complete.
    Following(WatchId),
    /// It is over.
    Failed,
}

/// One observer of one election.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Observing {
    stage: Stage,
    /// When to look beside the watch, whatever the stage: no watch that is opened or ends puts it off.
    look: Look,
    /// Counts the reads, so that the answer to an old question is not taken for that to a new one: only the last one counts.
    round: u32,
    contenders: Contenders,
    /// The revision up to which everything is known.
    seen: i64,
    /// What was told last.
    told: Option<Option<Proclamation>>,
    /// Whether something may have happened since then that nobody tells.
    has_gap: bool,
    /// What was believed when a check contradicted it.
    doubted: Option<Option<Identity>>,
    /// How often a watch is looked after, different for each observer.
    recheck: Duration,
    /// It fails then unless it has seen something.
    begin_by: Moment,
    /// Watches and reads that failed one after the other, and how often it was for the user or the password.
    failures: u32,
    refusals: u32,
    last_error: Option<StoreError>,
}

impl Observing {
    /// An observer of the election below `prefix` that has seen nothing yet, and fails at `begin_by` if that stays so.
    pub fn new(prefix: Prefix, recheck: Duration, begin_by: Moment) -> Self {
        Self {
            stage: Stage::Pausing(Moment::default()),
            look: Look::At(begin_by),
            round: 0,
            contenders: Contenders::new(prefix),
            seen: 0,
            told: None,
            has_gap: false,
            doubted: None,
            recheck,
            begin_by,
            failures: 0,
            refusals: 0,
            last_error: None,
        }
    }

    /// Takes in what happened at `now` and says what to do about it. `next_watch` gives a fresh id for a watch.
    pub fn handle(
        &mut self,
        now: Moment,
        input: Input,
        next_watch: &mut impl FnMut() -> WatchId,
        out: &mut Vec<Effect>,
    ) {
        match input {
            Input::Begin | Input::Wake => {}
            Input::Watch(reply) => self.on_watch(now, reply, out),
            Input::Read(round, result) if round == self.round => self.on_read(now, result, out),
            Input::Checked(round, result) if round == self.round => self.on_checked(now, result, out),
            Input::Read(..) | Input::Checked(..) => {}
            Input::Restart => self.reopen(now, out),
        }
        self.tick(now, next_watch, out);
    }

    /// When [`Input::Wake`] is due.
    pub fn wake(&self) -> Option<Moment> {
        let opens = match self.stage {
            Stage::Pausing(at) => Some(at),
            Stage::Opening(..) | Stage::Reading(..) | Stage::Following(_) => None,
            Stage::Failed => return None,
        };
        let looks = match self.look {
            Look::At(at) => Some(at),
            Look::Asked(_) => None,
        };
        [opens, looks, self.told.is_none().then_some(self.begin_by)].into_iter().flatten().min()
    }

    /// The watch that is open or being opened.
    pub fn watch(&self) -> Option<WatchId> {
        match self.stage {
            Stage::Opening(id, _) | Stage::Reading(id, _) | Stage::Following(id) => Some(id),
            Stage::Pausing(_) | Stage::Failed => None,
        }
    }

    /// Whether it has failed: nothing comes from it any more.
    pub fn is_over(&self) -> bool {
        self.stage == Stage::Failed
    }

    fn tick(&mut self, now: Moment, next_watch: &mut impl FnMut() -> WatchId, out: &mut Vec<Effect>) {
        if self.is_over() {
            return;
        }
        if self.told.is_none() && now >= self.begin_by {
            let silent = || StoreError::refused(ErrorKind::Timeout, "etcd did not answer in time");
            // A watch that was cancelled, by a compaction for example, is opened again: that is no reason.
            let why = self.last_error.take().filter(StoreError::is_transient).unwrap_or_else(silent);
            return self.fail(why, out);
        }
        if let Stage::Pausing(at) = self.stage
            && now >= at
        {
            let (id, until) = (next_watch(), self.patience(now));
            out.push(Effect::Watch(id, self.contenders.range().clone()));
            self.stage = Stage::Opening(id, until);
            self.look_by(until);
        }
        self.look_if_due(now, out);
    }

    fn on_watch(&mut self, now: Moment, reply: WatchReply, out: &mut Vec<Effect>) {
        let watched = self.watch();
        match (reply, &mut self.stage) {
            (WatchReply::Created { id, .. }, Stage::Opening(watch, _)) if id == *watch => {
                self.stage = Stage::Reading(id, Vec::new());
                self.round += 1;
                self.look = Look::Asked(None);
                out.push(Effect::Read(self.round));
            }
            (WatchReply::Events { id, events }, Stage::Reading(watch, kept)) if id == *watch => kept.extend(events),
            (WatchReply::Events { id, events }, Stage::Following(watch)) if id == *watch => {
                self.follow(&events, out);
            }
            (WatchReply::Cancelled { id, error }, _) if watched == Some(id) => self.on_failure(now, error, out),
            _ => {}
        }
    }

    fn on_read(&mut self, now: Moment, result: Result<Reply, StoreError>, out: &mut Vec<Effect>) {
        // The watch that it was for may have ended meanwhile.
        let Stage::Reading(id, events) = &mut self.stage else { return self.on_read_beside(now, result, out) };
        let (id, events) = (*id, std::mem::take(events));
        let (revision, kvs) = match found(result) {
            Ok(found) => found,
            Err(error) => {
                out.push(Effect::Unwatch(id));
                self.on_failure(now, error, out);
                return self.look_again(now);
            }
        };
        (self.failures, self.refusals, self.last_error, self.doubted) = (0, 0, None, None);
        self.stage = Stage::Following(id);
        self.look = Look::At(now + self.recheck);
        self.learn(revision, kvs, out);
        self.follow(&events, out);
    }

    /// The watch ended, or a read failed.
    fn on_failure(&mut self, now: Moment, error: StoreError, out: &mut Vec<Effect>) {
        self.failures = self.failures.saturating_add(1);
        self.refusals = if error.kind == ErrorKind::Unauthenticated { self.refusals + 1 } else { 0 };
        let is_final = match error.kind {
            ErrorKind::PermissionDenied | ErrorKind::Unsupported | ErrorKind::Invalid | ErrorKind::Closed => true,
            // A token that has run out is no reason: the next attempt has another one.
            ErrorKind::Unauthenticated => self.refusals >= REFUSALS,
            _ => false,
        };
        if is_final {
            return self.fail(error, out);
        }
        self.last_error = Some(error);
        self.pause(now);
    }

    /// There is no watch for a moment.
    fn pause(&mut self, now: Moment) {
        self.stage = Stage::Pausing(now + AGAIN.pause(self.failures, self.salt()));
        self.has_gap |= self.told.is_some();
    }

    /// Opens another watch in place of the one that there is.
    fn reopen(&mut self, now: Moment, out: &mut Vec<Effect>) {
        if self.is_over() {
            return;
        }
        out.extend(self.watch().map(Effect::Unwatch));
        self.stage = Stage::Pausing(now);
        self.has_gap |= self.told.is_some();
        // What is on its way was asked before that.
        self.round += 1;
        self.look = Look::At(now + self.recheck);
    }

    fn fail(&mut self, why: StoreError, out: &mut Vec<Effect>) {
        out.extend(self.watch().map(Effect::Unwatch));
        self.stage = Stage::Failed;
        out.push(Effect::Failed(why));
    }

    /// Replays events that are newer than what is known, and tells what they change, revision by revision.
    fn follow(&mut self, events: &[WatchEvent], out: &mut Vec<Effect>) {
        for together in events.chunk_by(|a, b| a.revision == b.revision) {
            let revision = together[0].revision;
            if revision <= self.seen {
                continue;
            }
            for event in together {
                self.contenders.take_in(event);
            }
            self.seen = revision;
            self.tell(out);
        }
    }

    /// A read found these at `revision`: they are all there are.
    fn learn(&mut self, revision: i64, kvs: Vec<KeyValue>, out: &mut Vec<Effect>) {
        self.contenders.replace(kvs);
        self.seen = revision;
        self.tell(out);
    }

    /// Tells who leads if that is something new.
    fn tell(&mut self, out: &mut Vec<Effect>) {
        let leader = self.contenders.proclamation();
        if self.told.as_ref() == Some(&leader) {
            // The same leader with the same proclamation has been there all the time. Nobody can have been followed by somebody
            // and by nobody again: then the gap is told with whatever comes next.
            self.has_gap &= leader.is_none();
            return;
        }
        self.told = Some(leader.clone());
        out.push(Effect::Saw(Sight { leader, at: self.seen, is_after_gap: std::mem::take(&mut self.has_gap) }));
    }

    /// What spreads the pauses of different observers.
    fn salt(&self) -> u64 {
        u64::from(self.recheck.subsec_nanos()) + self.recheck.as_secs()
    }
}

fn found(result: Result<Reply, StoreError>) -> Result<(i64, Vec<KeyValue>), StoreError> {
    match result? {
        Reply { revision, body: ReplyBody::Range(range), .. } => Ok((revision, range.kvs)),
        _ => Err(StoreError::refused(ErrorKind::Internal, "etcd's reply to a read has an unknown shape")),
    }
}
