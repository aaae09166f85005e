//! When an observer looks for what its watch does not tell, and what it makes of the answer. Sans I/O.
//!
//! The timer is the observer's and not the watch's: watches that are never confirmed, or end again and again, do not keep it from
//! looking. While a watch stands, a look asks who leads, and two in a row that contradict what is believed end the watch. While none
//! does, a look is all that tells anything: where it finds another leader, or the observer has seen nothing yet, the values are
//! read, too, and what is so then is told.

use std::time::Duration;

use super::{Effect, Observing, Stage, found};
use crate::{
    backoff::Backoff,
    clock::Moment,
    store::{Reply, StoreError, WatchId},
};

/// How long a watch may take until it is confirmed, before a read looks whether etcd answers at all; and how often one looks while no
/// watch stands. In the end about as often as where one does: whatever the watches do, nobody sees less.
const CONFIRM: Backoff = Backoff::new(Duration::from_secs(2), Duration::from_secs(10));
/// How soon a look that contradicts what is believed is repeated: what it has seen may be on its way.
const DOUBT: Duration = Duration::from_secs(1);

/// When to look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Look {
    At(Moment),
    /// The question is on its way; this watch should have been confirmed before it was asked.
    Asked(Option<WatchId>),
}

impl Observing {
    /// Until when a watch that is asked for now should be confirmed; one looks then at the latest.
    pub(super) fn patience(&self, now: Moment) -> Moment {
        now + CONFIRM.pause(self.failures.max(1), self.salt())
    }

    /// Looks if it is time.
    pub(super) fn look_if_due(&mut self, now: Moment, out: &mut Vec<Effect>) {
        if matches!(self.look, Look::At(at) if now >= at) {
            let overdue = match self.stage {
                Stage::Opening(id, until) if now >= until => Some(id),
                _ => None,
            };
            self.round += 1;
            self.look = Look::Asked(overdue);
            out.push(if self.told.is_none() { Effect::Read(self.round) } else { Effect::Check(self.round) });
        }
    }

    /// Reads what is so although no watch stands.
    fn read_beside(&mut self, out: &mut Vec<Effect>) {
        self.round += 1;
        self.look = Look::Asked(None);
        out.push(Effect::Read(self.round));
    }

    pub(super) fn on_checked(&mut self, now: Moment, result: Result<Reply, StoreError>, out: &mut Vec<Effect>) {
        let Look::Asked(overdue) = self.look else { return };
        let found = found(result).map(|(_, kvs)| self.contenders.first_of(kvs));
        let believed = self.contenders.leader();
        match (&self.stage, found) {
            (Stage::Following(_), Ok(found)) if found == believed => {
                self.doubted = None;
                self.look = Look::At(now + self.recheck);
            }
            // What the read has seen may be on its way, unless it has been for too long.
            (Stage::Following(_), Ok(_)) if self.doubted.as_ref() != Some(&believed) => {
                self.doubted = Some(believed);
                self.look = Look::At(now + DOUBT);
            }
            (Stage::Following(_), Ok(_)) => {
                tracing::debug!("the watch of an observer missed a change that a read found: opening another one");
                self.reopen(now, out);
                // The stream may have fallen silent, and the next watch with it.
                self.read_beside(out);
            }
            (Stage::Following(_), Err(_)) => self.look = Look::At(now + self.recheck),
            (Stage::Pausing(_) | Stage::Opening(..), Ok(found)) => {
                self.look_again(now);
                if found != believed {
                    self.read_beside(out);
                }
                self.replace_if_silent(now, overdue, out);
            }
            (Stage::Pausing(_) | Stage::Opening(..), Err(error)) => self.on_look_failed(now, error),
            (Stage::Reading(..) | Stage::Failed, _) => {}
        }
    }

    /// The answer to a read while no watch stands: what is so then, and nobody tells what comes after it.
    pub(super) fn on_read_beside(&mut self, now: Moment, result: Result<Reply, StoreError>, out: &mut Vec<Effect>) {
        let (Stage::Pausing(_) | Stage::Opening(..), Look::Asked(overdue)) = (&self.stage, self.look) else { return };
        match found(result) {
            Ok((revision, kvs)) => {
                self.learn(revision, kvs, out);
                self.has_gap = true;
                self.look_again(now);
                self.replace_if_silent(now, overdue, out);
            }
            Err(error) => self.on_look_failed(now, error),
        }
    }

    fn on_look_failed(&mut self, now: Moment, error: StoreError) {
        self.last_error = Some(error);
        self.look_again(now);
    }

    /// Looks at `latest`, unless that is due before or on its way.
    pub(super) fn look_by(&mut self, latest: Moment) {
        if let Look::At(at) = &mut self.look {
            *at = latest.min(*at);
        }
    }

    /// The last look is over, and no watch stands.
    pub(super) fn look_again(&mut self, now: Moment) {
        self.look = Look::At(self.patience(now));
        if let Stage::Opening(_, until) = self.stage
            && until > now
        {
            self.look_by(until);
        }
    }

    /// Etcd answers, and a watch that should have been confirmed before that was asked is not: its stream is silent.
    fn replace_if_silent(&mut self, now: Moment, overdue: Option<WatchId>, out: &mut Vec<Effect>) {
        if let Stage::Opening(id, _) = self.stage
            && overdue == Some(id)
        {
            out.push(Effect::Unwatch(id));
            self.failures = self.failures.saturating_add(1);
            // Its stream is ended now: another watch would end with it.
            self.pause(now);
        }
    }
}
