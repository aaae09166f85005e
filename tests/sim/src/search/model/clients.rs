//! The clients of the small cluster: what their hubs are told, and what they do about it.

use leasehold::{
    hub::{Action, Input},
    store::{Request, WatchReply},
    terms::Ticket,
};

use super::{Call, State, Task};
use crate::rules::{Rule, Verdict};

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
        for action in actions {
            told.push(format!("-> {action:?}"));
            self.carry_out(client, action)?;
        }
        Ok(())
    }

    fn carry_out(&mut self, client: u8, action: Action) -> Verdict {
        let who = |ticket: Ticket| format!("client {client} {ticket:?}");
        match action {
            Action::Call(rpc, request, _) => {
                if let Request::LeaseGrant { lease, .. } = request {
                    self.nodes[client as usize].change(|node| node.leases.insert(lease));
                }
                self.wires.change(|wires| wires.calls.insert((client, rpc), Call::Sent(request)));
            }
            Action::OpenRenewals(..) | Action::Health(..) | Action::SessionOver(_) => {}
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
                let node = &self.nodes[client as usize];
                if node.tasks[ticket.0 as usize] != Task::Asked {
                    return Err(Rule::AnsweredTwice.broken(format!("{}: an acquire was answered twice", who(ticket))));
                }
                if node.deadlines.get(&hold.session).is_none_or(|until| *until <= self.now) {
                    return Err(
                        Rule::HandedOverLate.broken(format!("{} was handed a lock past its deadline", who(ticket)))
                    );
                }
                if !self.robbed.contains(&(hold.key.clone(), hold.token)) {
                    if hold.token <= self.last_token {
                        return Err(Rule::TokenNotGrown.broken(format!(
                            "{} has token {} after {}",
                            who(ticket),
                            hold.token,
                            self.last_token
                        )));
                    }
                    self.last_token = hold.token;
                }
                self.set(client, ticket, Task::Holds { key: hold.key, token: hold.token, session: hold.session });
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
            Action::Extended(..) => {}
            Action::Closed => self.nodes[client as usize].change(|node| node.is_closed = true),
        }
        Ok(())
    }
}
