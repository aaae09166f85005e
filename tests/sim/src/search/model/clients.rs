//! The clients of the small cluster: what their hubs are told, and what they do about it.

use leasehold::{
    hub::{Action, Hold, Input},
    queue::wire::Prefix,
    store::{Request, WatchReply},
    terms::{Sharing, Ticket},
};

use super::{Call, NAME, State, Task};
use crate::{
    loans::Told,
    rules::{Rule, Verdict},
};

impl State {
    pub(super) fn set(&mut self, client: u8, ticket: Ticket, task: Task) {
        self.nodes[client as usize].change(|node| {
            if let Some(found) = node.tasks.get_mut(ticket.0 as usize) {
                *found = task;
            }
        });
    }

    pub(super) fn feed(&mut self, client: u8, input: Input, told: &mut Vec<String>) -> Verdict {
        let now = self.now;
        if let Input::Watch(WatchReply::Cancelled { id, .. }) = &input {
            self.wires.change(|wires| wires.watches[client as usize].remove(id));
        }
        told.push(format!("client {client} <- {input:?}"));
        let mut actions = Vec::new();
        self.nodes[client as usize].change(|node| node.hub.handle(now, input, &mut actions));
        let mut recalled = Vec::new();
        for action in actions {
            told.push(format!("-> {action:?}"));
            match self.nodes[client as usize].change(|node| node.loans.tell(action)) {
                Told::Action(action) => self.carry_out(client, action)?,
                Told::Input(input) => recalled.push(input),
                Told::Nothing => {}
            }
        }
        for input in recalled {
            self.feed(client, input, told)?;
        }
        Ok(())
    }

    /// Whether this client knows who stands in the queue: it watches all of it, and nothing is on its way to it.
    fn knows_all(&self, client: u8) -> bool {
        let prefix = Prefix::new("", NAME);
        self.etcd.watches.iter().any(|((of, _), keys)| *of == client && keys == prefix.keys())
            && self.wires.watch_up[client as usize].is_empty()
            && self.wires.watch_down[client as usize].is_empty()
            && self.wires.calls.keys().all(|(of, _)| *of != client)
    }

    /// Whether others than this client stand in the queue.
    fn has_company(&self, client: u8) -> bool {
        let leases = &self.nodes[client as usize].leases;
        self.contenders().iter().any(|kv| kv.lease.is_none_or(|lease| !leases.contains(&lease)))
    }

    /// Nobody keeps a place that nobody holds although others wait, as far as it can know.
    pub(super) fn judge_loans(&self) -> Verdict {
        for client in 0..2 {
            if let Some(loan) = self.nodes[client as usize].loans.all_free().next()
                && self.knows_all(client)
                && self.has_company(client)
            {
                return Err(Rule::Overstayed.broken(format!("client {client} keeps {:?} while others wait", loan.hold)));
            }
        }
        Ok(())
    }

    /// A place that is passed on while others wait is so within its bound, as far as its client can know.
    fn judge_stay(&self, client: u8, hold: &Hold, sharing: Sharing) -> Verdict {
        let is_within = sharing.local_first.is_some_and(|bound| hold.sequence < u64::from(bound.turns));
        if hold.sequence > 0 && !is_within && self.knows_all(client) && self.has_company(client) {
            return Err(Rule::Overstayed.broken(format!("client {client} passes {hold:?} on while others wait")));
        }
        Ok(())
    }

    pub(super) fn carry_out(&mut self, client: u8, action: Action) -> Verdict {
        let who = |ticket: Ticket| format!("client {client} {ticket:?}");
        match action {
            Action::Call(rpc, request, _) => {
                if let Request::LeaseGrant { lease, .. } = request {
                    self.nodes[client as usize].change(|node| node.leases.insert(lease));
                }
                self.wires.change(|wires| wires.calls.insert((client, rpc), Call::Sent(request)));
            }
            Action::OpenRenewals(..)
            | Action::Health(..)
            | Action::SessionOver(_)
            | Action::Observed(..)
            | Action::ObserverFailed(..) => {}
            Action::Renew(stream, lease) => {
                self.wires.change(|wires| wires.renew_up.entry((client, stream)).or_default().push_back(lease));
            }
            Action::CloseRenewals(stream) => self.wires.change(|wires| {
                wires.renew_up.remove(&(client, stream));
                wires.renew_down.remove(&(client, stream));
            }),
            Action::Watch(id, keys) => self.wires.change(|wires| {
                wires.watch_up[client as usize].push_back((id, Some(keys)));
                wires.watches[client as usize].insert(id);
            }),
            Action::Unwatch(id) => self.wires.change(|wires| {
                wires.watch_up[client as usize].push_back((id, None));
                wires.watches[client as usize].remove(&id);
            }),
            Action::Acquired(ticket, hold) => {
                if ticket.0 >= 1_000 {
                    return Ok(());
                }
                self.judge_stay(client, &hold, self.sharing[client as usize])?;
                let node = &self.nodes[client as usize];
                if node.tasks[ticket.0 as usize] != Task::Asked {
                    return Err(Rule::AnsweredTwice.broken(format!("{}: an acquire was answered twice", who(ticket))));
                }
                if node.deadlines.get(&hold.session).is_none_or(|until| *until <= self.now) {
                    return Err(
                        Rule::HandedOverLate.broken(format!("{} was handed a lock past its deadline", who(ticket)))
                    );
                }
                if !hold.keys.iter().any(|key| self.robbed.contains(&(key.clone(), hold.token))) {
                    for key in &hold.keys {
                        self.grow(key, (hold.token, hold.sequence))?;
                    }
                }
                self.set(client, ticket, Task::Holds { keys: hold.keys, token: hold.token, session: hold.session });
            }
            Action::Failed(ticket, error) => {
                if self.nodes[client as usize].tasks[ticket.0 as usize] != Task::Asked {
                    return Err(Rule::AnsweredTwice
                        .broken(format!("{}: an acquire was answered twice, with {error}", who(ticket))));
                }
                self.set(client, ticket, Task::Done);
            }
            Action::Released(ticket, _) => {
                if ticket.0 >= 1_000 {
                    return Ok(());
                }
                if self.nodes[client as usize].tasks[ticket.0 as usize] != Task::Releasing {
                    return Err(Rule::AnsweredTwice.broken(format!("{}: a release was answered twice", who(ticket))));
                }
                self.set(client, ticket, Task::Done);
            }
            Action::Voided(ticket) => self.set(client, ticket, Task::Lost),
            Action::Lost(ticket, _) => match self.nodes[client as usize].tasks[ticket.0 as usize] {
                Task::Holds { .. } | Task::Lost => self.set(client, ticket, Task::Done),
                Task::Releasing => {}
                _ => return Err(Rule::OddLoss.broken(format!("{}: lost without a hold", who(ticket)))),
            },
            Action::Deadline(session, until) => {
                let now = self.now;
                let before = self.nodes[client as usize].change(|node| node.deadlines.insert(session, until));
                if before.is_some_and(|before| until < before || (before < now && until > before)) {
                    return Err(Rule::DeadlineMovedBack
                        .broken(format!("client {client}: a deadline moved from {before:?} to {until:?} at {now:?}")));
                }
            }
            Action::Extended(..) | Action::Lend(..) | Action::Recall(_) => {}
            Action::Closed => self.nodes[client as usize].change(|node| node.is_closed = true),
        }
        Ok(())
    }
}
