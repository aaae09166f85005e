//! What may be broken: every rule that the simulation and the search judge has a name, which a planted fault is compared with.

use std::fmt;

use clap::ValueEnum;

/// A rule, named after what is seen when it is broken. Its name is that of the variant, as `two-owners`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, ValueEnum)]
pub enum Rule {
    /// Two hold one name.
    TwoOwners,
    /// Somebody holds although another contender stands ahead.
    Overtaken,
    /// Somebody holds although another one of the same client, who wants the same, came before it and waits.
    OutOfTurn,
    /// An owner's token, or the pair of token and sequence, is not larger than that of the owner before.
    TokenNotGrown,
    /// A place is passed on, or kept, beyond its bound while others wait.
    Overstayed,
    /// A place is passed on although its last owner may still write under it.
    LateWrite,
    /// Somebody holds by a key that does not stand.
    KeyGone,
    /// A lock is handed over after the deadline of its session.
    HandedOverLate,
    /// A deadline moves back.
    DeadlineMovedBack,
    /// A session lives again after its deadline.
    Revived,
    /// One request has two answers.
    AnsweredTwice,
    /// An answer comes later than promised.
    AnsweredLate,
    /// An answer that does not fit what happened.
    WrongAnswer,
    /// A client closes and leaves a request without an answer.
    Unanswered,
    /// A loss is told to somebody who does not hold, or twice.
    OddLoss,
    /// A hold is lost although nothing went wrong.
    LostForNothing,
    /// The key of a hold is gone, and its holder is not told.
    LossUntold,
    /// Somebody waits for ever.
    Stuck,
    /// A client never comes to rest at one moment.
    Spinning,
    /// A key stands that nobody uses.
    KeyLeft,
    /// A proclamation takes effect although its leader leads no more, or does not although it does.
    StaleProclamation,
    /// An observer is told what was not so, or goes back.
    WrongSight,
    /// An observer misses a change and is not told that it may.
    UntoldGap,
    /// An observer does not see in the end what is so.
    BlindObserver,
    /// A lease stands that nobody uses.
    LeaseLeft,
    /// The code panics.
    Panicked,
}

impl Rule {
    /// That this rule was broken, and how.
    pub fn broken(self, how: impl Into<String>) -> Broken {
        Broken { rule: self, how: how.into() }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.to_possible_value().map_or(Ok(()), |value| f.write_str(value.get_name()))
    }
}

/// A rule that was broken, and how. Shown as `<rule>: <how>`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    /// Which rule.
    pub rule: Rule,
    /// By whom, when, and with what.
    pub how: String,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.rule, self.how)
    }
}

/// What a judge says.
pub type Verdict = Result<(), Broken>;

/// Runs our code under judgement; a bug can also show as a panic of it.
pub fn guarded<T>(run: impl FnOnce() -> Result<T, Broken>) -> Result<T, Broken> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        Err(Rule::Panicked.broken(text.unwrap_or_default()))
    })
}
