//! Places that linger, as a client's runtime keeps them: its callers take them and give them back without a word to the hub.
//!
//! Whoever holds such a place goes by the ticket of the caller that it came from, so what the hub says is told to whoever has it.

use std::collections::{BTreeMap, VecDeque};

use leasehold::{
    clock::Moment,
    hub::{Acquire, Action, Hold, Input, Loan, Returned},
    terms::{SessionId, Sharing, Ticket},
};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Seat {
    /// Nobody has it; it may be taken until then.
    Free(Moment),
    /// This caller has it.
    Held(Ticket),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Lent {
    loan: Loan,
    seat: Seat,
    sequence: u64,
    sharing: Sharing,
}

/// What is to be done about an action of the hub.
#[derive(Debug)]
pub enum Told {
    /// This, by those whom it concerns.
    Action(Action),
    /// The hub is told this when it has said everything.
    Input(Input),
    /// Nothing.
    Nothing,
}

/// The places of a client that linger.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Loans {
    lent: BTreeMap<Ticket, Lent>,
    /// Who goes by the ticket of another caller, if anybody does.
    holders: BTreeMap<Ticket, Option<Ticket>>,
    /// Who asked for more time by each ticket and awaits the answer.
    extending: BTreeMap<Ticket, VecDeque<Ticket>>,
    deadlines: BTreeMap<SessionId, Moment>,
}

impl Loans {
    /// `caller` takes the place that it asks for, if that lingers.
    pub fn take(&mut self, now: Moment, caller: Ticket, acquire: &Acquire) -> Option<Hold> {
        let is_wanted = |lent: &&mut Lent| {
            let loan = &lent.loan;
            let is_same = matches!(&acquire.wants[..], [want] if want.name == loan.name) && loan.ttl == acquire.ttl;
            is_same && acquire.sharing.is_some() && acquire.renew
        };
        let lent = self.lent.values_mut().find(is_wanted)?;
        let Seat::Free(until) = lent.seat else { return None };
        let deadline = self.deadlines.get(&lent.loan.hold.session).copied().unwrap_or_default();
        if now >= until || now + lent.loan.slack > deadline {
            return None;
        }
        lent.sequence += 1;
        lent.sharing = acquire.sharing;
        lent.seat = Seat::Held(caller);
        Some(Hold { sequence: lent.sequence, ..lent.loan.hold.clone() })
    }

    /// `caller` gives it back, if that is all that is to be done.
    pub fn give_back(&mut self, now: Moment, caller: Ticket, is_settled: bool) -> bool {
        let Some(lent) = self.lent.values_mut().find(|lent| lent.seat == Seat::Held(caller)) else { return false };
        let deadline = self.deadlines.get(&lent.loan.hold.session).copied().unwrap_or_default();
        let until = now + lent.sharing.linger;
        let is_simple = is_settled && now < deadline && until >= lent.loan.until;
        if is_simple {
            lent.seat = Seat::Free(until);
        }
        is_simple
    }

    /// The ticket by which the hub knows `caller`.
    pub fn ticket_of(&self, caller: Ticket) -> Ticket {
        let lent = self.lent.iter().find(|(_, lent)| lent.seat == Seat::Held(caller)).map(|(ticket, _)| *ticket);
        let known = self.holders.iter().find(|(_, holder)| **holder == Some(caller)).map(|(ticket, _)| *ticket);
        lent.or(known).unwrap_or(caller)
    }

    /// `caller` asks for more time, by that ticket: it is answered also if it has released by then.
    pub fn extends(&mut self, ticket: Ticket, caller: Ticket) {
        self.extending.entry(ticket).or_default().push_back(caller);
    }

    /// What the hub must know before it hears anything else of this ticket.
    pub fn recall(&mut self, ticket: Ticket) -> Option<Input> {
        Some(Input::Recalled(ticket, self.end(ticket)?))
    }

    /// The place that was lent by this ticket, and since when nobody has held it.
    pub fn free(&self, ticket: Ticket) -> Option<(&Loan, Moment)> {
        let lent = self.lent.get(&ticket)?;
        match lent.seat {
            Seat::Free(until) => Some((&lent.loan, until - lent.sharing.linger)),
            Seat::Held(_) => None,
        }
    }

    /// All places that nobody holds.
    pub fn all_free(&self) -> impl Iterator<Item = &Loan> {
        self.lent.values().filter(|lent| matches!(lent.seat, Seat::Free(_))).map(|lent| &lent.loan)
    }

    fn end(&mut self, ticket: Ticket) -> Option<Returned> {
        let Lent { seat, sequence, sharing, .. } = self.lent.remove(&ticket)?;
        let (holder, until) = match seat {
            Seat::Free(until) => (None, Some(until)),
            Seat::Held(caller) => (Some(caller), None),
        };
        self.holders.insert(ticket, holder);
        Some(Returned { sequence, sharing, until })
    }

    /// What an action means for those who go by the tickets of others.
    pub fn tell(&mut self, action: Action) -> Told {
        let whom =
            |holders: &BTreeMap<Ticket, Option<Ticket>>, ticket| holders.get(&ticket).copied().unwrap_or(Some(ticket));
        let told = match action {
            Action::Lend(ticket, loan) => {
                self.holders.remove(&ticket);
                let (sequence, sharing) = (loan.hold.sequence, loan.sharing);
                let seat = Seat::Free(loan.until);
                self.lent.insert(ticket, Lent { loan, seat, sequence, sharing });
                return Told::Nothing;
            }
            Action::Recall(ticket) => return self.recall(ticket).map_or(Told::Nothing, Told::Input),
            Action::Voided(ticket) => {
                self.end(ticket);
                whom(&self.holders, ticket).map(Action::Voided)
            }
            Action::Lost(ticket, reason) => {
                self.end(ticket);
                whom(&self.holders, ticket).map(|caller| Action::Lost(caller, reason))
            }
            Action::Released(ticket, result) => {
                let caller = whom(&self.holders, ticket);
                // Who releases what is void is told why it was lost after that.
                if result.is_ok() {
                    self.holders.remove(&ticket);
                }
                caller.map(|caller| Action::Released(caller, result))
            }
            Action::Extended(ticket, result) => {
                let asked = self.extending.get_mut(&ticket).and_then(VecDeque::pop_front);
                Some(Action::Extended(asked.unwrap_or(ticket), result))
            }
            Action::Deadline(session, until) => {
                self.deadlines.insert(session, until);
                Some(Action::Deadline(session, until))
            }
            action => Some(action),
        };
        told.map_or(Told::Nothing, Told::Action)
    }
}
