//! Leaving a queue: a key is withdrawn or released, and deleted until that is sure.

use std::time::Duration;

use super::{
    Call, Effect, Queue,
    member::{Answer, Member, Phase, Ticket},
    wire,
};
use crate::{
    clock::Moment,
    error::{Error, LostReason},
    store::{ErrorKind, Key, Reply, StoreError},
};

/// Deletes in one transaction. etcd allows 128 operations by default; half of that keeps a commit short.
const MAX_DELETES: usize = 64;

impl Queue {
    pub(super) fn leave(
        &mut self,
        now: Moment,
        ticket: Ticket,
        answer: Answer,
        grace: Duration,
        out: &mut Vec<Effect>,
    ) {
        let Some(member) = self.members.get_mut(&ticket) else { return };
        if matches!(member.phase, Phase::Sending { ending: Some(_) } | Phase::Leaving(_) | Phase::Gone(_)) {
            return; // It leaves already: a caller that gives up twice is not made to wait longer.
        }
        member.answer_by = Some(now + grace);
        match member.phase {
            Phase::Unkeyed | Phase::Blocked(_) | Phase::Backoff(_) => self.drop_unjoined(ticket, answer, out),
            // Never drop a transaction on its way: it finishes, then the key is withdrawn.
            Phase::Sending { .. } => self.set_phase(ticket, Phase::Sending { ending: Some(answer) }),
            Phase::Waiting | Phase::Held(_) => {
                self.set_phase(ticket, Phase::Leaving(answer));
                self.undeleted.push(ticket);
                self.delete_next(out);
            }
            Phase::Leaving(_) | Phase::Gone(_) => {}
        }
    }

    /// Ends a contender that has no key in the queue, as far as we know; if it may have one all the same, the cleaner looks.
    pub(super) fn drop_unjoined(&mut self, ticket: Ticket, answer: Answer, out: &mut Vec<Effect>) {
        if let Some(Member { key: Some(key), session: Some((_, lease)), is_ambiguous: true, .. }) =
            self.members.get(&ticket)
        {
            out.push(Effect::Clean(key.clone(), *lease, None));
        }
        self.answer(ticket, answer, out);
        self.remove(ticket);
    }

    pub(super) fn answer(&self, ticket: Ticket, answer: Answer, out: &mut Vec<Effect>) {
        match answer {
            Answer::Failed(error) => out.push(Effect::Failed(ticket, error)),
            Answer::Released => out.push(Effect::Released(ticket, Ok(()))),
            Answer::Told => {}
        }
    }

    /// Sends the deletes that have come together since the last one was answered.
    pub(super) fn delete_next(&mut self, out: &mut Vec<Effect>) {
        if self.is_deleting || self.undeleted.is_empty() {
            return;
        }
        let count = self.undeleted.len().min(MAX_DELETES);
        let tickets: Vec<Ticket> = self.undeleted.drain(..count).collect();
        let keys: Vec<(Key, i64)> = tickets.iter().map(|ticket| self.place(*ticket)).collect();
        out.push(Effect::Call(Call::Delete(tickets), wire::delete(&keys)));
        self.is_deleting = true;
    }

    pub(super) fn on_deleted(
        &mut self,
        tickets: Vec<Ticket>,
        result: Result<Reply, StoreError>,
        out: &mut Vec<Effect>,
    ) {
        self.is_deleting = false;
        let revision = result.as_ref().map_or(0, |reply| reply.revision);
        let stood = result.and_then(|reply| {
            wire::deleted(&reply, tickets.len()).ok_or_else(|| {
                StoreError::ambiguous(ErrorKind::Internal, "etcd's reply to a delete has an unknown shape")
            })
        });
        match stood {
            Ok(stood) => {
                for (ticket, stood) in tickets.into_iter().zip(stood) {
                    let Some(member) = self.members.get(&ticket) else { continue };
                    let Phase::Leaving(answer) = member.phase.clone() else { continue };
                    match answer {
                        Answer::Released if !stood && !member.has_outlived_session => {
                            let error = Error::lost(&self.name, LostReason::KeyDeleted);
                            out.push(Effect::Released(ticket, Err(error)));
                        }
                        answer => self.answer(ticket, answer, out),
                    }
                    self.clean_ghost(ticket, out);
                    self.set_phase(ticket, Phase::Gone(revision));
                }
            }
            Err(error) => {
                for ticket in tickets {
                    let (key, revision) = self.place(ticket);
                    let Some(member) = self.members.get_mut(&ticket) else { continue };
                    let Some((_, lease)) = member.session else { continue };
                    member.last_error =
                        Some(Error::from_store(&error, "the delete of the lock's key is not confirmed"));
                    out.push(Effect::Clean(key, lease, Some((ticket, revision))));
                }
            }
        }
        self.unblock(out);
    }

    /// The key of `ticket` was deleted; an earlier attempt to enqueue may still take effect, or the view shows that one did.
    pub(super) fn clean_ghost(&mut self, ticket: Ticket, out: &mut Vec<Effect>) {
        let Some(member) = self.members.get_mut(&ticket) else { return };
        let (Some((_, lease)), Some(key)) = (member.session, &member.key) else { return };
        // Its number must not be used again either.
        member.is_ambiguous |= self.view.place_of(key).is_some_and(|at| at != member.revision);
        if member.is_ambiguous {
            out.push(Effect::Clean(key.clone(), lease, None));
        }
    }

    /// Sends the tries that waited for our own deletes.
    pub(super) fn unblock(&mut self, out: &mut Vec<Effect>) {
        for ticket in self.blocked.clone() {
            let Some(Phase::Blocked(by)) = self.members.get(&ticket).map(|member| &member.phase) else { continue };
            let is_free = by
                .iter()
                .all(|other| self.members.get(other).is_none_or(|member| !matches!(member.phase, Phase::Leaving(_))));
            if is_free {
                self.send(ticket, out);
            }
        }
    }

    /// Forgets contenders whose deletion the view has seen, or that no view needs to see.
    pub(super) fn forget_seen(&mut self) {
        if !self.view.is_on() {
            for (_, ticket) in std::mem::take(&mut self.gone) {
                self.remove(ticket);
            }
            return;
        }
        let seen: Vec<Ticket> = self
            .gone
            .iter()
            .take_while(|(revision, _)| self.sees_all_up_to(*revision))
            .filter(|(_, ticket)| self.view.place_of(&self.place(*ticket).0).is_none())
            .map(|(_, ticket)| *ticket)
            .collect();
        for ticket in seen {
            self.remove(ticket);
        }
    }
}
