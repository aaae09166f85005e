//! Holding: who gets the lock, and what becomes of a contender whose key vanished.

use super::{
    Effect, LEAVE_GRACE, Queue, Sessions, give_back,
    member::{Answer, Phase, Ticket},
};
use crate::{
    clock::Moment,
    error::{Error, LostReason},
};

impl Queue {
    /// Hands the lock to our contender at the head of the queue, if there is one and nothing speaks against it.
    pub(super) fn hand_over(&mut self, now: Moment, sessions: &mut impl Sessions, out: &mut Vec<Effect>) {
        if self.waiting == 0 || !self.view.is_complete() {
            return;
        }
        let head = self
            .view
            .order()
            .find(|(_, key)| !self.keys.get(key).is_some_and(|ticket| self.members[ticket].has_left()))
            .and_then(|(revision, key)| Some((*revision, *self.keys.get(key)?)));
        if let Some((revision, ticket)) = head {
            let member = &self.members[&ticket];
            if member.phase == Phase::Waiting
                && member.revision == revision
                && let Some((session, _)) = member.session
            {
                if sessions.can_hold(session) {
                    self.win(now, ticket, out);
                } else {
                    out.push(Effect::NeedsTime(session));
                }
            }
        }
        let not_head = |ticket: &Ticket| {
            let member = &self.members[ticket];
            member.phase == Phase::Waiting
                && member.key.as_ref().is_some_and(|key| self.view.place_of(key).is_some())
                && head.is_none_or(|(_, head)| head != *ticket)
        };
        for ticket in self.impatient.iter().copied().filter(not_head).collect::<Vec<_>>() {
            self.leave(now, ticket, Answer::Failed(self.taken()), LEAVE_GRACE, out);
        }
    }

    pub(super) fn win(&mut self, now: Moment, ticket: Ticket, out: &mut Vec<Effect>) {
        debug_assert!(self.held.is_none(), "two holds of {}", self.name);
        let (key, revision) = self.place(ticket);
        self.set_phase(ticket, Phase::Held(now));
        out.push(Effect::Won(ticket, key, revision));
    }

    /// The key of a hold or of a waiter is gone, and not by us.
    pub(super) fn on_vanished(&mut self, ticket: Ticket, out: &mut Vec<Effect>) {
        match self.members.get(&ticket).map(|member| &member.phase) {
            Some(Phase::Held(_)) => {
                out.push(Effect::Vanished(ticket));
                self.remove(ticket);
            }
            Some(Phase::Waiting) => self.requeue(ticket, LostReason::KeyDeleted, out),
            _ => {}
        }
    }

    /// The key of a waiter is dead: it needs another one, unless its policy is to fail.
    pub(super) fn requeue(&mut self, ticket: Ticket, reason: LostReason, out: &mut Vec<Effect>) {
        let Some(member) = self.members.get_mut(&ticket) else { return };
        if !member.spec.requeue && member.has_queued {
            out.push(Effect::Failed(ticket, Error::lost(&self.name, reason)));
            self.remove(ticket);
            return;
        }
        if let Some(key) = member.key.take() {
            self.keys.remove(&key);
        }
        give_back(&mut self.numbers, member);
        member.session = None;
        member.revision = 0;
        member.round += 1;
        member.attempts = 0;
        member.is_ambiguous = false;
        member.nested.clear();
        self.set_phase(ticket, Phase::Unkeyed);
        out.push(Effect::NeedsKey(ticket));
    }
}
