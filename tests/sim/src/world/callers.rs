//! The callers in the processes: what they ask for, and what the answers must be like.

use leasehold::{
    Claim, Code, Error,
    hub::{Action, Hold, Input, Want},
    store::KeyValue,
    terms::{Mode, Ticket},
};

use super::{Event, Part, World};
use crate::{
    MS, SEC,
    check::Owner,
    client::{Step, Task},
    elections::OBSERVERS,
    rules::{Rule, Verdict},
};

/// Room for a clock that runs wrong by 1 % and for messages on their way.
const SLACK: u64 = 200 * MS;

impl World {
    /// What the hub has to say to its callers; the rest goes to the network.
    pub(super) fn carry_out(&mut self, client: usize, action: Action) {
        let now = self.now;
        match action {
            Action::Acquired(ticket, hold) => {
                self.counts.wins += 1;
                let task = self.plan.clients[client].tasks[ticket.0 as usize - 1].clone();
                let queues: Vec<_> =
                    task.acquire.wants.iter().map(|want| self.cluster.contenders(&want.name)).collect();
                let leases = &self.clients[client].leases;
                let is_own = |key: &leasehold::store::Key| {
                    leases.iter().any(|lease| leasehold::queue::wire::is_chosen_by(key, *lease))
                };
                let all = task.acquire.wants.iter().zip(&hold.keys).zip(&queues);
                let mut judge = std::mem::take(&mut self.judge);
                let judged = all.map(|((want, key), queue)| {
                    judge.on_acquired(now, client, ticket, want, (key, &hold), queue, is_own)
                });
                let mut verdict = judged.collect::<Result<Vec<_>, _>>().map(drop);
                if hold.keys.len() != task.acquire.wants.len() {
                    verdict = Err(Rule::WrongAnswer.broken(format!("{ticket:?} won {:?}", hold.keys)));
                }
                self.judge = judge;
                self.break_rule(verdict);
                let others = self.others(client, &task.acquire.wants[0].name);
                let verdict = self.judge_order(client, ticket, &hold);
                self.break_rule(verdict);
                let verdict = self.stays.on_acquired(now, &hold, task.acquire.sharing, others.as_deref());
                self.break_rule(verdict);
                self.answer(client, ticket, None);
                if let Some((after, _)) = task.extend {
                    self.at(now + after.min(task.hold), Event::Step { client, ticket, step: Step::Extend });
                }
                for after in task.proclaims {
                    self.at(now + after, Event::Step { client, ticket, step: Step::Proclaim });
                }
                self.task(client, ticket).hold = Some(hold);
                self.at(now + task.hold, Event::Step { client, ticket, step: Step::Release });
            }
            Action::Failed(ticket, error) => {
                self.counts.failures += 1;
                self.answer(client, ticket, Some(&error));
            }
            Action::Released(ticket, result) => self.on_released(client, ticket, &result),
            Action::Extended(ticket, _) => {
                let limit =
                    u64::try_from(self.clients[client].plan.config.request_timeout.as_nanos()).unwrap_or(u64::MAX);
                let was_frozen = self.clients[client].was_frozen;
                match self.task(client, ticket).extending_since.take() {
                    None => self.break_rule(Err(Rule::AnsweredTwice
                        .broken(format!("client {client} {ticket:?}: an extension was answered twice")))),
                    Some(since) if !was_frozen && now - since > limit + limit / 50 + SLACK => {
                        self.break_rule(Err(Rule::AnsweredLate
                            .broken(format!("client {client} {ticket:?}: an extension was answered late"))));
                    }
                    Some(_) => {}
                }
            }
            Action::Voided(ticket) => {
                self.judge.on_end(Owner::Ours(client, ticket));
                self.task(client, ticket).is_void = true;
            }
            Action::Lost(ticket, reason) => {
                self.counts.losses += 1;
                let is_calm = self.plan.is_calm();
                let is_private = !self.plan.clients[client].tasks[ticket.0 as usize - 1].acquire.renew;
                let is_closing = self.clients[client].closing_since.is_some();
                let had = self.judge.on_end(Owner::Ours(client, ticket));
                let task = self.task(client, ticket);
                // A release that comes too late finds the hold lost, and both are told.
                let is_odd = task.is_lost || !task.has_won || !(had || task.is_void || task.releasing_since.is_some());
                task.is_lost = true;
                if is_odd {
                    self.break_rule(Err(
                        Rule::OddLoss.broken(format!("client {client} {ticket:?}: lost without a hold, or lost twice"))
                    ));
                }
                if is_calm && !is_private && !is_closing {
                    self.break_rule(Err(Rule::LostForNothing
                        .broken(format!("client {client} {ticket:?}: lost ({reason}) although nothing went wrong"))));
                }
            }
            Action::Deadline(session, until) => {
                let until = self.clients[client].true_time(until);
                let verdict = self.judge.on_deadline(now, client, session, until);
                self.break_rule(verdict);
            }
            Action::Health(..) | Action::SessionOver(_) => {}
            Action::Observed(ticket, sight) => self.on_observed(client, ticket, &sight),
            Action::ObserverFailed(ticket, error) => self.on_observer_failed(client, ticket, &error),
            Action::Closed => self.on_closed(client),
            other => self.send(client, other),
        }
    }

    /// Callers of one client that want the same win in the order in which they asked, whether they share a place or each has its own.
    /// After a loss those who share one ask again, all at once.
    fn judge_order(&self, client: usize, ticket: Ticket, hold: &Hold) -> Verdict {
        let tasks = &self.plan.clients[client].tasks;
        let acquire = &tasks[ticket.0 as usize - 1].acquire;
        // Who is refused for that leaves the line before it is told.
        let may_be_refused = acquire.wants.iter().any(|want| self.plan.has_mismatches(&want.name));
        let asked_at = |ticket: Ticket| self.clients[client].tasks.get(&ticket).and_then(|task| task.asked_at);
        // By the clock of the client, which may be fast.
        let clock = |at| self.clients[client].local(at);
        let is_over =
            |at, wait: Option<std::time::Duration>| wait.is_some_and(|wait| clock(at) + wait <= clock(self.now));
        let is_overtaken = |(other, task): &(&Ticket, &Task)| {
            let their = &tasks[other.0 as usize - 1].acquire;
            let waits = their.renew && acquire.renew && (their.mode, acquire.mode) == (Mode::Wait, Mode::Wait);
            let takes_turns = their.sharing.local_first.is_some() && hold.sequence > 0;
            let stands_in_line = !may_be_refused
                && !their.sharing.is_some()
                && !acquire.sharing.is_some()
                && (acquire.wants.len(), acquire.is_candidate, their.is_candidate) == (1, false, false)
                && task.cancelled_at.is_none()
                && task.asked_at.is_none_or(|at| !is_over(at, their.wait));
            waits
                && (takes_turns || stands_in_line)
                && (&their.wants, their.ttl) == (&acquire.wants, acquire.ttl)
                && !task.is_answered
                && task.asked_at.is_some_and(|at| Some(at) < asked_at(ticket))
        };
        let waiting = self.clients[client].tasks.iter().find(is_overtaken);
        match waiting.filter(|_| self.plan.is_calm()) {
            Some((other, _)) => {
                Err(Rule::OutOfTurn.broken(format!("client {client} {ticket:?} took its turn before {other:?}")))
            }
            None => Ok(()),
        }
    }

    /// The keys of others in the queue of a name, where nothing goes wrong and so everybody knows of them soon.
    fn others(&self, client: usize, name: &str) -> Option<Vec<KeyValue>> {
        let leases = &self.clients[client].leases;
        let is_own = |kv: &KeyValue| leases.iter().any(|lease| leasehold::queue::wire::is_chosen_by(&kv.key, *lease));
        let mut queue = self.cluster.contenders(name);
        queue.retain(|kv| !is_own(kv));
        self.plan.is_calm().then_some(queue)
    }

    /// A place is kept although nobody holds it, or is so no more.
    pub(super) fn judge_loan(&mut self, client: usize, action: &Action) {
        match action {
            Action::Lend(_, loan) => {
                let verdict = self.stays.on_kept(&loan.hold);
                self.break_rule(verdict);
            }
            Action::Recall(ticket) => {
                let Some((loan, since)) = self.clients[client].loans.free(*ticket) else { return };
                let (key, others) = (loan.hold.keys[0].clone(), self.others(client, &loan.name));
                let since = self.clients[client].true_time(since);
                let verdict = self.stays.on_given_up(self.now, since, &key, others.as_deref());
                self.break_rule(verdict);
            }
            _ => {}
        }
    }

    fn task(&mut self, client: usize, ticket: Ticket) -> &mut Task {
        self.clients[client].tasks.entry(ticket).or_default()
    }

    /// An acquire is answered: exactly once, in time, and with an error that fits.
    fn answer(&mut self, client: usize, ticket: Ticket, error: Option<&Error>) {
        let now = self.now;
        self.last_progress = now;
        let (is_calm, was_frozen) = (self.plan.is_calm(), self.clients[client].was_frozen);
        let is_closing = self.clients[client].closing_since.is_some();
        let acquire = self.plan.clients[client].tasks[ticket.0 as usize - 1].acquire.clone();
        let task = self.task(client, ticket);
        let must_win = task.must_win;
        let was_answered = std::mem::replace(&mut task.is_answered, true);
        task.has_won = error.is_none();
        let (asked_at, cancelled_at) = (task.asked_at.unwrap_or(now), task.cancelled_at);
        let who = format!("client {client} {ticket:?}");
        if was_answered {
            self.break_rule(Err(Rule::AnsweredTwice.broken(format!("{who}: an acquire was answered twice"))));
        }
        let limits = [acquire.wait.map(|wait| asked_at + wait.as_nanos() as u64), cancelled_at];
        let limit = limits.into_iter().flatten().min();
        if limit.is_some_and(|limit| now > limit + (limit - asked_at) / 50 + SEC + SLACK) && !was_frozen {
            self.break_rule(Err(
                Rule::AnsweredLate.broken(format!("{who}: an acquire was answered later than asked for"))
            ));
        }
        let Some(error) = error else { return };
        let fits = match error.code() {
            Code::NotAcquired if must_win => false,
            Code::NotAcquired => acquire.mode == Mode::Try || acquire.wait.is_some(),
            Code::Cancelled => cancelled_at.is_some(),
            Code::Closed => is_closing,
            Code::LimitMismatch => acquire.wants.iter().any(|want| self.is_muddled(want)),
            Code::Lost => !acquire.requeue && !is_calm,
            Code::Unavailable | Code::DeadlineExceeded => !is_calm,
            _ => false,
        };
        if !fits {
            self.break_rule(Err(Rule::WrongAnswer.broken(format!("{who}: an acquire failed with {error}"))));
        }
    }

    /// Whether others claim of the name what cannot be weighed against this.
    fn is_muddled(&self, want: &Want) -> bool {
        let tasks = self.plan.clients.iter().flat_map(|client| &client.tasks);
        let mut all = tasks.flat_map(|task| &task.acquire.wants);
        let limit = |claim| if let Claim::Permits { limit, .. } = claim { limit } else { 0 };
        let differs = |other: &Want| other.claim != Claim::Exclusive && limit(other.claim) != limit(want.claim);
        want.claim != Claim::Exclusive && all.any(|other| other.name == want.name && differs(other))
    }

    /// A client sees its own releases: a try wins if nobody but this client ever wanted the name, and all that did let go of it.
    fn expect_of_try(&mut self, client: usize, ticket: Ticket, acquire: &leasehold::hub::Acquire) {
        let plans = self.plan.clients[client].tasks.clone();
        let is_alone =
            self.plan.is_calm() && self.clients.len() == 1 && self.foreign.is_empty() && acquire.wait.is_none();
        let others = self.clients[client].tasks.iter_mut().filter(|(other, task)| {
            **other != ticket && task.asked_at.is_some() && {
                let wants = &plans[other.0 as usize - 1].acquire.wants;
                wants.iter().any(|other| acquire.wants.iter().any(|want| want.name == other.name))
            }
        });
        let mut is_free = true;
        for (_, task) in others {
            is_free &= task.is_over() || task.releasing_since.is_some();
            task.must_win = false;
        }
        self.task(client, ticket).must_win = is_alone && is_free && acquire.mode == Mode::Try;
    }

    fn on_released(&mut self, client: usize, ticket: Ticket, result: &Result<(), Error>) {
        self.last_progress = self.now;
        let (now, is_calm, was_frozen) = (self.now, self.plan.is_calm(), self.clients[client].was_frozen);
        let shares = self.plan.clients[client].tasks[ticket.0 as usize - 1].acquire.sharing.is_some();
        let is_only_robbed = self.plan.is_only_robbed();
        // Where requests wait their turn, a release waits as long as etcd answers anybody.
        let is_narrow = self.clients[client].plan.config.window < leasehold::hub::WINDOW;
        let heard_at = if is_narrow { self.clients[client].heard_at } else { 0 };
        let task = self.task(client, ticket);
        let (was_lost, was_robbed) = (task.is_lost || task.is_void, task.was_robbed);
        task.is_released = true;
        let since = task.releasing_since.take();
        // Who passes a shared place on, or keeps it for a while, asks nobody and answers at once: such a release cannot know what the
        // watch has not told yet. One that gives the place up asks, and must.
        let asked_nobody = shares && since == Some(now);
        let who = format!("client {client} {ticket:?}");
        match since {
            None => self.break_rule(Err(Rule::AnsweredTwice.broken(format!("{who}: a release was answered twice")))),
            Some(since) if !was_frozen && now - since.max(heard_at) > 5 * SEC + 100 * MS + SLACK => {
                self.break_rule(Err(Rule::AnsweredLate.broken(format!("{who}: a release was answered late"))));
            }
            Some(_) => {}
        }
        let fits = match result {
            // With a reply that went missing, nobody knows whose delete it was.
            Ok(()) => !(was_lost || was_robbed && is_only_robbed && !asked_nobody),
            Err(error) if was_lost => error.code() == Code::NotHeld,
            Err(error) => !is_calm && matches!(error.code(), Code::Lost | Code::Unavailable | Code::DeadlineExceeded),
        };
        if !fits {
            self.break_rule(Err(Rule::WrongAnswer
                .broken(format!("{who}: a release was answered with {result:?}, lost before: {was_lost}"))));
        }
    }

    pub(super) fn step(&mut self, client: usize, ticket: Ticket, step: Step) {
        if !self.clients[client].is_open() {
            return;
        }
        if ticket.0 >= OBSERVERS {
            return self.observe_step(client, ticket, step);
        }
        let (now, plan) = (self.now, self.plan.clients[client].tasks[ticket.0 as usize - 1].clone());
        let task = self.task(client, ticket);
        let input = match step {
            Step::Start => {
                task.asked_at = Some(now);
                self.expect_of_try(client, ticket, &plan.acquire);
                self.counts.acquires += 1;
                if let Some(after) = plan.cancel_after {
                    self.at(now + after, Event::Step { client, ticket, step: Step::Cancel });
                }
                let local = self.clients[client].local(now);
                if let Some(hold) = self.clients[client].loans.take(local, ticket, &plan.acquire) {
                    self.log(|_| format!("client {client} {ticket:?} takes {hold:?} without a word"));
                    return self.carry_out(client, Action::Acquired(ticket, hold));
                }
                Input::Acquire(ticket, plan.acquire)
            }
            // Whoever won has a guard to release; whoever failed has nothing to give up.
            Step::Cancel if task.is_answered => return,
            Step::Cancel => {
                task.cancelled_at = Some(now);
                Input::Cancel(ticket, Error::new(Code::Cancelled, "the caller gave up"))
            }
            Step::Extend if task.releasing_since.is_some() || task.is_released => return,
            Step::Extend => {
                task.extending_since = Some(now);
                let known = self.recall(client, ticket);
                self.clients[client].loans.extends(known, ticket);
                Input::Extend(known, plan.extend.map(|(_, span)| span).unwrap_or_default())
            }
            // Whoever has released or lost it asks, too: it may have been about to when that happened.
            Step::Proclaim => {
                if let Some(hold) = task.hold.clone() {
                    self.proclaim(client, hold);
                }
                return;
            }
            Step::Observe | Step::Unobserve => return,
            Step::Release => {
                task.releasing_since = Some(now);
                let owner = Owner::Ours(client, ticket);
                self.task(client, ticket).was_robbed = self.judge.was_robbed(owner);
                self.judge.on_end(owner);
                let local = self.clients[client].local(now);
                if self.clients[client].loans.give_back(local, ticket, !plan.is_unsettled) {
                    self.log(|_| format!("client {client} {ticket:?} gives its place back without a word"));
                    return self.on_released(client, ticket, &Ok(()));
                }
                let known = self.recall(client, ticket);
                if plan.is_unsettled {
                    if let Some(hold) = &self.task(client, ticket).hold {
                        let hold = hold.clone();
                        self.stays.on_unsettled(&hold);
                    }
                    self.feed(client, Input::Unsettled(known));
                }
                Input::Release(known)
            }
        };
        self.feed(client, input);
    }

    fn observe_step(&mut self, client: usize, ticket: Ticket, step: Step) {
        let name = self.plan.clients[client].observers[(ticket.0 - OBSERVERS) as usize].name.clone();
        if step == Step::Observe {
            self.elections.observe(client, ticket, name.clone());
            self.feed(client, Input::Observe(ticket, name));
        } else {
            self.elections.unobserve(client, ticket);
            self.feed(client, Input::Unobserve(ticket));
        }
    }

    /// Whoever took a place without a word is known to the hub from now on, by this ticket.
    fn recall(&mut self, client: usize, caller: Ticket) -> Ticket {
        let ticket = self.clients[client].loans.ticket_of(caller);
        if let Some(recalled) = self.clients[client].loans.recall(ticket) {
            self.feed(client, recalled);
        }
        ticket
    }

    fn on_closed(&mut self, client: usize) {
        let process = &mut self.clients[client];
        let twice = std::mem::replace(&mut process.is_closed, true);
        let since = process.closing_since.unwrap_or_default();
        let limit = process.plan.config.request_timeout.as_nanos() as u64;
        let is_late = !process.was_frozen && self.now - since > limit + limit / 50 + SLACK;
        let unanswered = process.tasks.iter().find(|(_, task)| {
            (task.asked_at.is_some() && !task.is_answered)
                || task.releasing_since.is_some()
                || task.extending_since.is_some()
        });
        if twice {
            self.break_rule(Err(Rule::AnsweredTwice.broken(format!("client {client} closed twice"))));
        } else if is_late {
            self.break_rule(Err(Rule::AnsweredLate.broken(format!("client {client} closed late"))));
        } else if let Some((ticket, task)) = unanswered {
            let rule = format!("client {client} closed without an answer to {ticket:?}: {task:?}");
            self.break_rule(Err(Rule::Unanswered.broken(rule)));
        } else if matches!(self.part, Part::Close) {
            let leases = &self.clients[client].leases;
            let left = self.cluster.kv.leases().find(|lease| leases.contains(lease));
            if let Some(lease) = left {
                self.break_rule(Err(
                    Rule::LeaseLeft.broken(format!("client {client} closed and left the lease {lease}"))
                ));
            }
        }
    }
}
