//! The processes of the world: what reaches them when they run, and how they freeze, wake up, die and close.

use std::hash::Hash;

use leasehold::hub::Input;

use super::{Event, World};
use crate::{client::Pent, loans::Told, rules::Rule};

impl World {
    /// Something reaches a process: now, or when it wakes up.
    pub(crate) fn reach(&mut self, client: usize, what: Pent) {
        let process = &mut self.clients[client];
        if !process.is_alive {
            return;
        }
        if self.now < process.frozen_until {
            process.pent.push(what);
            return;
        }
        match what {
            Pent::Input(input) => self.feed(client, input),
            Pent::Timeout(rpc) => self.time_out(client, rpc),
            Pent::Step(ticket, step) => self.step(client, ticket, step),
        }
    }

    pub(super) fn thaw(&mut self, client: usize) {
        if self.now < self.clients[client].frozen_until || !self.clients[client].is_alive {
            return;
        }
        self.log(|_| format!("client {client} wakes up"));
        let mut pent = std::mem::take(&mut self.clients[client].pent);
        if self.rng.bool() {
            // Timers and callers may run before the sockets are read.
            pent.sort_by_key(|what| matches!(what, Pent::Input(_)));
        }
        for what in pent {
            self.reach(client, what);
        }
        self.set_timer(client);
    }

    pub(crate) fn feed(&mut self, client: usize, input: Input) {
        self.spins += 1;
        if self.spins > 10_000 {
            return self.break_rule(Err(Rule::Spinning.broken(format!("client {client} spins: {input:?}"))));
        }
        self.counts.inputs += 1;
        self.log(|_| format!("client {client} <- {input:?}"));
        (self.now, client).hash(&mut self.hasher);
        input.hash(&mut self.hasher);
        if let Input::Watch(reply) = &input {
            self.note(client, reply);
        }
        if let Input::Reply(_, Ok(_)) = &input {
            self.clients[client].heard_at = self.now;
        }
        let process = &mut self.clients[client];
        let mut actions = Vec::new();
        let local = process.local(self.now);
        process.hub.handle(local, input, &mut actions);
        actions.hash(&mut self.hasher);
        let mut recalled = Vec::new();
        for action in actions {
            self.log(|_| format!("client {client} -> {action:?}"));
            self.judge_loan(client, &action);
            match self.clients[client].loans.tell(action) {
                Told::Action(action) => self.carry_out(client, action),
                Told::Input(input) => recalled.push(input),
                Told::Nothing => {}
            }
        }
        for input in recalled {
            self.feed(client, input);
        }
        self.set_timer(client);
    }

    pub(super) fn set_timer(&mut self, client: usize) {
        let process = &self.clients[client];
        if !process.is_alive || self.now < process.frozen_until {
            return;
        }
        let Some(wake) = process.hub.wake() else { return };
        let mut at = process.true_time(wake).max(self.now);
        while process.local(at) < wake {
            at += 1;
        }
        if process.timer.is_none_or(|timer| at < timer) {
            self.clients[client].timer = Some(at);
            self.at(at, Event::Timer { client });
        }
    }

    /// Kills a process: its holds end, what it sent is on its way.
    pub(crate) fn crash(&mut self, client: usize) {
        self.clients[client].is_alive = false;
        self.judge.on_client_gone(client);
        self.cluster.watches.retain(|watch| watch.client != client);
    }

    pub(crate) fn close(&mut self, client: usize) {
        if !self.clients[client].is_open() || self.now < self.clients[client].frozen_until {
            return;
        }
        self.clients[client].closing_since = Some(self.now);
        self.feed(client, Input::Close);
    }
}
