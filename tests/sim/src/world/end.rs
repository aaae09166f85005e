//! The end of a run, part by part: everybody gets done, nothing is left but the leases of sessions, and then not even these.

use super::{Event, Part, World};
use crate::{MS, SEC, client::Client, foreign::Stage, plan::Fault, rules::Rule};

/// After the last fault, somebody must get on within this time: longer than any hold of a plan, any TTL and any wait in between.
const PATIENCE: u64 = 120 * SEC;

impl World {
    pub(super) fn next_part(&mut self) {
        let now = self.now;
        let is_over =
            self.clients.iter().all(Client::is_over) && self.foreign.iter().all(|foreign| foreign.stage == Stage::Over);
        match self.part {
            Part::Play if is_over => {
                // A request that arrives late leaves a ghost; renewals are followed by sweeps, after a request that was doubled
                // without anybody's knowledge only once a minute. Leases of the dead need their time, too.
                let grace = if self.plan.net.twice > 0 { 90 * SEC } else { 20 * SEC };
                let dead =
                    self.plan.foreign.iter().filter(|foreign| foreign.dies).filter_map(|foreign| foreign.ttl).max();
                let grace = grace.max((dead.unwrap_or(0) as u64 + 5) * SEC);
                // What a backup brings back of clients that are gone ends with its lease.
                let has_gone_back = self.plan.faults.iter().any(|(_, fault)| matches!(fault, Fault::Restore(_)));
                let grace = if has_gone_back { grace.max(60 * SEC) } else { grace };
                self.part = Part::Settle(now.max(self.last_late) + grace);
            }
            Part::Play if now > self.plan.heal_at.max(self.last_late).max(self.last_progress) + PATIENCE => {
                let stuck = self.clients.iter().enumerate().find(|(_, client)| !client.is_over());
                let rule = match stuck {
                    Some((n, client)) => {
                        let task = client.tasks.iter().find(|(_, task)| !task.is_over());
                        format!("client {n} waits for ever: {task:?}, closing since {:?}", client.closing_since)
                    }
                    None => "a foreign client waits for ever".to_owned(),
                };
                let keys = self.cluster.everything();
                self.break_rule(Err(Rule::Stuck.broken(format!("{rule}; the keys are {keys:?}"))));
            }
            Part::Settle(until) if now >= until => {
                let is_open = |client: &usize| self.clients[*client].is_open();
                let verdict = self.elections.settle(&(0..self.clients.len()).filter(is_open).collect());
                self.break_rule(verdict);
                if let Some(kv) = self.cluster.everything().first() {
                    self.break_rule(Err(
                        Rule::KeyLeft.broken(format!("the key {:?} stands although nobody uses it", kv.key))
                    ));
                }
                for client in 0..self.clients.len() {
                    let process = &self.clients[client];
                    let ttls = process.plan.tasks.iter().filter(|task| task.acquire.renew).map(|task| task.acquire.ttl);
                    let shared = ttls.collect::<std::collections::BTreeSet<_>>().len();
                    let left: Vec<_> =
                        self.cluster.kv.leases().filter(|lease| process.leases.contains(lease)).collect();
                    if process.is_open() && left.len() > shared {
                        self.break_rule(Err(Rule::LeaseLeft
                            .broken(format!("client {client} has the leases {left:?}, but only {shared} sessions"))));
                    }
                }
                self.part = Part::Close;
                for client in 0..self.clients.len() {
                    self.close(client);
                }
            }
            Part::Close if self.clients.iter().all(|client| !client.is_alive || client.is_closed) => {
                self.part = Part::Drain(now + 2 * SEC);
            }
            Part::Close
                if self.clients.iter().any(|client| client.closing_since.is_some_and(|at| now > at + 15 * SEC)) =>
            {
                self.break_rule(Err(Rule::Stuck.broken("a client never closed")));
            }
            Part::Drain(until) if now >= until => {
                let left: Vec<_> = self.cluster.kv.leases().collect();
                if !left.is_empty() {
                    self.break_rule(Err(Rule::LeaseLeft.broken(format!("the leases {left:?} are left"))));
                }
                self.part = Part::Over;
            }
            Part::Play | Part::Settle(_) | Part::Close | Part::Drain(_) | Part::Over => {}
        }
        if self.part == Part::Play
            && self.is_healed()
            && now > self.plan.heal_at + 10 * SEC
            && let Some(rule) = self.judge.untold(now)
        {
            self.break_rule(Err(Rule::LossUntold.broken(rule)));
        }
        self.at(now + 500 * MS, Event::Part);
    }
}
