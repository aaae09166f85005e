//! Joining a queue: the transaction that enqueues a contender, and what its reply means.

use std::time::Duration;

use super::{
    Call, Effect, Queue, Sessions,
    member::{Answer, Mode, Phase, Ticket},
    wire,
};
use crate::{
    clock::Moment,
    error::{Error, LostReason},
    store::{ErrorKind, Reply, StoreError},
};

/// How often a try steps around nested names before it queues instead, and how many of them at most.
const MAX_TRY_ROUNDS: u32 = 2;

impl Queue {
    pub(super) fn send(&mut self, ticket: Ticket, out: &mut Vec<Effect>) {
        let Some(member) = self.members.get_mut(&ticket) else { return };
        let (Some((_, lease)), Some(key)) = (member.session, &member.key) else { return };
        let request = if member.spec.mode == Mode::Try && !member.is_impatient {
            wire::try_enqueue(&self.prefix, key, &member.spec.value, lease, &member.nested)
        } else {
            wire::enqueue(&self.prefix, key, &member.spec.value, lease)
        };
        member.attempts += 1;
        out.push(Effect::Call(Call::Join(ticket, member.round), request));
        self.set_phase(ticket, Phase::Sending { ending: None });
    }

    pub(super) fn on_joined(
        &mut self,
        now: Moment,
        ticket: Ticket,
        round: u32,
        result: Result<Reply, StoreError>,
        sessions: &mut impl Sessions,
        out: &mut Vec<Effect>,
    ) {
        let Some(member) = self.members.get_mut(&ticket).filter(|member| member.round == round) else { return };
        let Phase::Sending { ending } = &mut member.phase else { return };
        let ending = ending.take();
        let Some(key) = member.key.clone() else { return };
        let joined = match result {
            Ok(reply) => wire::joined(reply, &key).ok_or_else(|| {
                StoreError::ambiguous(ErrorKind::Internal, "etcd's reply to an enqueue has an unknown shape")
            }),
            Err(error) => Err(error),
        };
        match (joined, ending) {
            // Nobody but an earlier attempt of this contender may have written its key, and there was none.
            (Ok(joined), ending) if joined.revision.is_some() && !joined.is_new && !member.is_ambiguous => {
                self.on_ghost_found(ticket, ending, out);
            }
            (Ok(joined), ending) => {
                member.revision = joined.revision.unwrap_or_default();
                member.has_queued |= joined.revision.is_some();
                match (ending, joined.revision) {
                    (Some(answer), Some(_)) => {
                        self.set_phase(ticket, Phase::Leaving(answer));
                        self.undeleted.push(ticket);
                    }
                    (Some(answer), None) => self.drop_unjoined(ticket, answer, out),
                    (None, Some(_)) => self.on_key_stands(now, ticket, joined, sessions, out),
                    (None, None) => self.on_try_failed(ticket, joined, out),
                }
            }
            (Err(error), ending) => self.on_join_failed(now, ticket, error, ending, out),
        }
    }

    /// The key that a contender was given stands already: the ghost of one that had it before, by a request that took effect
    /// twice. It is deleted, never chosen again, and the contender gets another key.
    fn on_ghost_found(&mut self, ticket: Ticket, ending: Option<Answer>, out: &mut Vec<Effect>) {
        let Some(member) = self.members.get_mut(&ticket) else { return };
        let (Some((session, lease)), Some(key)) = (member.session, member.key.clone()) else { return };
        member.is_ambiguous = true;
        out.push(Effect::Ambiguous(session, key.clone()));
        out.push(Effect::Clean(key, lease, None));
        match ending {
            Some(answer) => self.drop_unjoined(ticket, answer, out),
            None => self.requeue(ticket, LostReason::KeyDeleted, out),
        }
    }

    /// Our key stands: is it the head already?
    fn on_key_stands(
        &mut self,
        now: Moment,
        ticket: Ticket,
        joined: wire::Joined,
        sessions: &mut impl Sessions,
        out: &mut Vec<Effect>,
    ) {
        let is_head = self.is_head(ticket, &joined, out);
        let Some(member) = self.members.get_mut(&ticket) else { return };
        let is_ready = member.session.is_some_and(|(session, _)| sessions.can_hold(session));
        if is_head && is_ready && self.held.is_none() {
            self.win(now, ticket, out);
            return;
        }
        if !is_head && member.spec.mode == Mode::Try {
            // A try writes its key where nobody stands. One that it finds among others may come from a copy of an older request.
            member.is_impatient = true;
            self.impatient.insert(ticket);
        }
        self.set_phase(ticket, Phase::Waiting);
        if self.watching.is_crowd() {
            self.view.open_gap(); // no watch tells of our own key: a read does
        }
        // The reply can come after the event that says that the key is gone again.
        let (key, revision) = self.place(ticket);
        if self.view.is_complete() && self.sees_all_up_to(revision) && self.view.place_of(&key) != Some(revision) {
            self.on_vanished(ticket, out);
        }
    }

    /// Whether the reply shows the whole queue, and in it nobody ahead of us but contenders of ours that have left.
    /// What it shows to be gone is gone: a hold or a waiter of ours that is not in it has lost its key.
    fn is_head(&mut self, ticket: Ticket, joined: &wire::Joined, out: &mut Vec<Effect>) -> bool {
        let revision = self.members[&ticket].revision;
        if !joined.is_whole {
            return false;
        }
        let ahead =
            joined.glance.iter().filter(|kv| self.prefix.is_contender(&kv.key) && kv.create_revision < revision);
        for kv in ahead {
            let left = self.keys.get(&kv.key).is_some_and(|ticket| self.members[ticket].has_left());
            if !left {
                return false;
            }
        }
        let vanished: Vec<Ticket> = self
            .members
            .iter()
            .filter(|(_, m)| matches!(m.phase, Phase::Held(_) | Phase::Waiting) && m.revision < revision)
            .map(|(ticket, _)| *ticket)
            .collect();
        for ticket in vanished {
            self.on_vanished(ticket, out);
        }
        true
    }

    fn on_try_failed(&mut self, ticket: Ticket, joined: wire::Joined, out: &mut Vec<Effect>) {
        let is_taken = joined.glance.iter().any(|kv| self.prefix.is_contender(&kv.key));
        if is_taken {
            self.drop_unjoined(ticket, Answer::Failed(self.taken()), out);
            return;
        }
        let Some(member) = self.members.get_mut(&ticket) else { return };
        if joined.is_whole && member.attempts <= MAX_TRY_ROUNDS {
            member.nested = joined.glance.into_iter().map(|kv| kv.key).collect();
        } else {
            member.is_impatient = true;
            self.impatient.insert(ticket);
        }
        self.send(ticket, out);
    }

    fn on_join_failed(
        &mut self,
        now: Moment,
        ticket: Ticket,
        error: StoreError,
        ending: Option<Answer>,
        out: &mut Vec<Effect>,
    ) {
        let Some(member) = self.members.get_mut(&ticket) else { return };
        let Some((session, _)) = member.session else { return };
        member.is_ambiguous |= error.ambiguous;
        if error.ambiguous
            && let Some(key) = &member.key
        {
            out.push(Effect::Ambiguous(session, key.clone()));
        }
        let seen = Error::from_store(&error, &format!("could not queue for the lock {:?}", self.name));
        if let Some(answer) = ending {
            self.drop_unjoined(ticket, answer, out);
        } else if error.kind == ErrorKind::LeaseNotFound {
            // The session learns that it is lost, and with it this contender gets a new key or fails. No failure to report later.
            self.set_phase(ticket, Phase::Backoff(now + backoff(1)));
            out.push(Effect::LeaseGone(session));
        } else if error.is_transient() {
            let attempts = member.attempts;
            member.last_error = Some(seen);
            self.set_phase(ticket, Phase::Backoff(now + backoff(attempts)));
        } else {
            self.drop_unjoined(ticket, Answer::Failed(seen), out);
        }
    }
}

/// How long to wait before the same transaction is sent again.
fn backoff(attempts: u32) -> Duration {
    Duration::from_millis(20).saturating_mul(1 << attempts.min(6)).min(Duration::from_secs(1))
}
