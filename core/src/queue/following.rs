//! Following a queue: what is watched and read, and what the news mean for our contenders.

use std::collections::BTreeSet;

use super::{
    Call, Effect, Queue, Sessions,
    member::{Phase, Ticket},
    view,
    view::News,
    watching, wire,
};
use crate::{
    clock::Moment,
    store::{Keys, Reply, ReplyBody, StoreError},
};

impl Queue {
    pub(super) fn on_read(&mut self, now: Moment, result: Result<Reply, StoreError>, out: &mut Vec<Effect>) {
        let Ok(Reply { revision, body: ReplyBody::Range(range) }) = result else {
            self.view.on_snapshot_failed();
            self.watching.recheck_soon(now);
            return;
        };
        let (mut news, mut wants) = (Vec::new(), Vec::new());
        let is_taken_in = self.view.on_snapshot(&self.prefix, revision, range.kvs, &mut news, &mut wants);
        self.watching.checked(now, self.waiting);
        if self.view.is_deaf() {
            tracing::debug!(name = %self.name, "the watch missed changes that a read found: opening another one");
            self.view.drop_watches(&mut wants);
        }
        self.pass_on(wants, out);
        self.take_in(news, out);
        if !is_taken_in {
            return; // a view that is off knows no key, which says nothing about ours
        }
        let dead: Vec<Ticket> = self
            .members
            .iter()
            .filter(|(_, m)| matches!(m.phase, Phase::Held(_) | Phase::Waiting) && m.revision <= revision)
            .filter(|(_, m)| m.key.as_ref().is_none_or(|key| self.view.place_of(key) != Some(m.revision)))
            .map(|(ticket, _)| *ticket)
            .collect();
        for ticket in dead {
            self.on_vanished(ticket, out);
        }
    }

    /// Something speaks against the order: reads soon.
    pub fn doubt(&mut self, now: Moment) {
        self.watching.recheck_soon(now);
    }

    /// What a change of the order means for our contenders.
    pub(super) fn take_in(&mut self, news: Vec<News>, out: &mut Vec<Effect>) {
        for piece in news {
            match piece {
                // The put of a key that was deleted meanwhile is no ghost yet.
                News::Joined(key) if self.uses(&key) || self.is_where_it_was(&key) => {}
                News::Joined(key) => out.push(Effect::Stranger(key)),
                News::Left(key) => {
                    if let Some(ticket) = self.keys.get(&key).copied()
                        && self.view.place_of(&key).is_none()
                    {
                        self.on_vanished(ticket, out);
                    }
                }
            }
        }
    }

    /// Whether the view has seen every change of the queue up to `revision`.
    pub(super) fn sees_all_up_to(&self, revision: i64) -> bool {
        self.view.has_seen(&self.prefix, revision)
    }

    pub(super) fn aim(&mut self, now: Moment, sessions: &mut impl Sessions, out: &mut Vec<Effect>) {
        let held_since = self.held_since();
        if !self.watching.update(now, held_since, self.waiting, self.view.processes()) {
            return;
        }
        let wanted = match self.watching.target() {
            watching::Target::Nothing => BTreeSet::new(),
            watching::Target::Hold => self.held_key().map(Keys::one).into_iter().collect(),
            watching::Target::Queue => BTreeSet::from([self.prefix.keys()]),
            // Until the read is here that follows a change, nobody knows who is right ahead.
            watching::Target::Crowd if self.view.is_on() && !self.view.is_complete() => self.view.watched(),
            watching::Target::Crowd => self.crowd_keys(),
        };
        let mut wants = Vec::new();
        self.view.aim(wanted, &mut || sessions.next_watch(), &mut wants);
        if self.watching.take_recheck(now, self.waiting) {
            self.view.recheck(&mut wants);
        }
        self.pass_on(wants, out);
    }

    /// In a crowd: our hold, our first waiter, and whoever stands right ahead of it.
    fn crowd_keys(&self) -> BTreeSet<Keys> {
        let first = self
            .view
            .order()
            .find(|(_, key)| self.keys.get(key).is_some_and(|ticket| self.members[ticket].phase == Phase::Waiting));
        let ahead = first.and_then(|place| {
            self.view.ahead_of(place).find(|(_, key)| !self.keys.get(key).is_some_and(|t| self.members[t].has_left()))
        });
        let any_waiter = || {
            let waiter = self.members.values().find(|member| member.phase == Phase::Waiting)?;
            waiter.key.clone()
        };
        let first = first.map(|(_, key)| key.clone()).or_else(any_waiter);
        let ahead = ahead.map(|(_, key)| key.clone());
        first.into_iter().chain(ahead).chain(self.held_key()).map(Keys::one).collect()
    }

    pub(super) fn pass_on(&self, wants: Vec<view::Effect>, out: &mut Vec<Effect>) {
        out.extend(wants.into_iter().map(|want| match want {
            view::Effect::Watch(id, keys) => Effect::Watch(id, keys),
            view::Effect::Unwatch(id) => Effect::Unwatch(id),
            view::Effect::Read => Effect::Call(Call::Read, wire::snapshot(&self.prefix)),
        }));
    }
}
