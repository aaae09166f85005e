//! What happened, and whether it was as it should be. It believes no contender: it compares what they say.

use std::{collections::BTreeMap, fmt};

/// What the demo claims, in the order of the summary. Only a run that has shown them all is a good one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Claim {
    Turns,
    Exclusion,
    Tokens,
    Order,
    Counter,
    Takeover,
    Fence,
    Leftovers,
}

impl Claim {
    const ALL: [Self; 8] = [
        Self::Turns,
        Self::Exclusion,
        Self::Tokens,
        Self::Order,
        Self::Counter,
        Self::Takeover,
        Self::Fence,
        Self::Leftovers,
    ];
}

impl fmt::Display for Claim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Turns => "turns",
            Self::Exclusion => "one at a time",
            Self::Tokens => "tokens",
            Self::Order => "order",
            Self::Counter => "counter",
            Self::Takeover => "take-over",
            Self::Fence => "stale write",
            Self::Leftovers => "left in etcd",
        })
    }
}

/// What is known about a claim.
#[derive(Debug, Default)]
struct Finding {
    shown: Vec<String>,
    wrong: Vec<String>,
}

/// What has become of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Judgement {
    Good,
    Wrong,
    /// Neither shown nor refuted.
    Open,
}

/// One line of the summary.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Verdict {
    pub(crate) claim: Claim,
    pub(crate) judgement: Judgement,
    pub(crate) text: String,
}

/// The book of a run.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    findings: BTreeMap<Claim, Finding>,
    /// Who holds the lock, as far as can be known from outside: from its report to the moment it was told to release.
    holders: Vec<String>,
    tokens: Vec<i64>,
    counted: i64,
}

impl Ledger {
    pub(crate) fn acquired(&mut self, who: &str, token: i64) {
        if let Some(other) = self.holders.first() {
            self.wrong(Claim::Exclusion, format!("{who} got the lock while {other} held it"));
        }
        if let Some(last) = self.tokens.last().filter(|last| token <= **last) {
            self.wrong(Claim::Tokens, format!("{who} got {token} after {last}"));
        }
        self.holders.push(who.to_owned());
        self.tokens.push(token);
    }

    /// A holder was told to release, or can hold no longer: others may have the lock from now on.
    pub(crate) fn lets_go(&mut self, who: &str) {
        self.holders.retain(|holder| holder != who);
    }

    /// A holder has written `value`.
    pub(crate) fn counted(&mut self, who: &str, value: i64) {
        self.counted += 1;
        if value != self.counted {
            self.wrong(Claim::Counter, format!("{who} wrote {value} in turn {}: counts are lost", self.counted));
        }
    }

    /// How many turns have been counted.
    pub(crate) fn turns(&self) -> i64 {
        self.counted
    }

    pub(crate) fn shown(&mut self, claim: Claim, text: impl Into<String>) {
        self.findings.entry(claim).or_default().shown.push(text.into());
    }

    pub(crate) fn wrong(&mut self, claim: Claim, text: impl Into<String>) {
        self.findings.entry(claim).or_default().wrong.push(text.into());
    }

    /// Notes `good` if it `is_good`, and `bad` otherwise.
    pub(crate) fn check(&mut self, claim: Claim, is_good: bool, good: impl Into<String>, bad: impl Into<String>) {
        if is_good { self.shown(claim, good) } else { self.wrong(claim, bad) }
    }

    /// Whether anything was wrong so far.
    pub(crate) fn is_spoilt(&self) -> bool {
        self.findings.values().any(|finding| !finding.wrong.is_empty())
    }

    /// Whether everything was shown, and nothing was wrong.
    pub(crate) fn is_good(&self) -> bool {
        self.verdicts().iter().all(|verdict| verdict.judgement == Judgement::Good)
    }

    /// Closes the book on what needs the whole run.
    pub(crate) fn conclude(&mut self, turns_planned: i64, processes: usize) {
        let turns = self.counted;
        let bad = format!("{turns} of {turns_planned} were finished");
        self.check(Claim::Turns, turns == turns_planned, format!("{turns}, by {processes} processes"), bad);
        if let (Some(first), Some(last)) = (self.tokens.first(), self.tokens.last()) {
            let span = format!("{first} to {last}, each greater than the one before");
            self.shown(Claim::Tokens, span);
            self.shown(Claim::Exclusion, "never two holders");
        }
    }

    pub(crate) fn verdicts(&self) -> Vec<Verdict> {
        let verdict = |claim| {
            let (judgement, text) = match self.findings.get(&claim) {
                None => (Judgement::Open, "not shown".to_owned()),
                Some(Finding { shown, wrong }) => match wrong.as_slice() {
                    [] => (Judgement::Good, shown.join(", ")),
                    [first] => (Judgement::Wrong, first.clone()),
                    [first, rest @ ..] => (Judgement::Wrong, format!("{first} (and {} more)", rest.len())),
                },
            };
            Verdict { claim, judgement, text }
        };
        Claim::ALL.into_iter().map(verdict).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrong(ledger: &Ledger) -> Vec<Claim> {
        let wrong = ledger.verdicts().into_iter().filter(|verdict| verdict.judgement == Judgement::Wrong);
        wrong.map(|verdict| verdict.claim).collect()
    }

    /// A run in which everything was shown.
    fn good() -> Ledger {
        let mut ledger = Ledger::default();
        for claim in [Claim::Order, Claim::Counter, Claim::Takeover, Claim::Fence, Claim::Leftovers] {
            ledger.shown(claim, "as it should be");
        }
        for (turn, who) in (1..).zip(["a", "b"]) {
            ledger.acquired(who, 10 + turn);
            ledger.counted(who, turn);
            ledger.lets_go(who);
        }
        ledger
    }

    #[test]
    fn a_good_run_is_good() {
        let mut ledger = good();
        assert!(!ledger.is_good(), "it is not over");
        ledger.conclude(2, 2);
        assert!(ledger.is_good());
    }

    #[test]
    fn what_was_not_shown_is_neither_wrong_nor_good() {
        let ledger = Ledger::default();
        assert_eq!(wrong(&ledger), []);
        assert!(!ledger.is_good());
    }

    #[test]
    fn two_holders_are_noticed() {
        let mut ledger = good();
        ledger.acquired("a", 20);
        ledger.acquired("b", 21);
        ledger.conclude(2, 2);
        assert_eq!(wrong(&ledger), [Claim::Exclusion]);
        assert!(!ledger.is_good());
    }

    #[test]
    fn a_token_that_does_not_grow_is_noticed() {
        let mut ledger = good();
        ledger.acquired("a", 12);
        ledger.conclude(2, 2);
        assert_eq!(wrong(&ledger), [Claim::Tokens]);
    }

    #[test]
    fn lost_counts_and_missing_turns_are_noticed() {
        let mut ledger = good();
        ledger.counted("a", 2);
        ledger.conclude(4, 2);
        assert_eq!(wrong(&ledger), [Claim::Turns, Claim::Counter]);
    }
}
