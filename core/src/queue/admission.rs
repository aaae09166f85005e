//! Whose turn it is: the one place where claims are weighed against each other. Pure; no keys, no time, no memory.
//!
//! A line is what stands in a queue, in the order of create revisions, without places of ours that have left: whoever is
//! admitted because one of ours counts as gone is in front of everybody who could object, because nobody else can own the name
//! while either key stands.
//!
//! | claim     | admitted when           |
//! |-----------|-------------------------|
//! | exclusive | nothing stands ahead    |
//!
//! "Ahead" counts those that wait, too: nobody overtakes. So what is admitted stays admitted as long as its key stands, because
//! what stands ahead of a key can only become less.

use crate::store::Key;

/// What a key in a queue claims of its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Claim {
    /// All of it.
    Exclusive,
}

impl Claim {
    /// What a key claims. Every reader of keys knows it from the key alone; whatever we do not know is exclusive.
    pub fn of(_key: &Key) -> Self {
        Self::Exclusive
    }

    /// Whether the two can be held at the same time.
    fn goes_with(self, other: Self) -> bool {
        match (self, other) {
            (Self::Exclusive, Self::Exclusive) => false,
        }
    }
}

/// Whether `claim` is admitted behind `ahead`, whatever the order of these.
pub fn admits(mut ahead: impl Iterator<Item = Claim>, claim: Claim) -> bool {
    ahead.all(|other| claim.goes_with(other))
}

/// The positions of `line` that are admitted, first come first served. Looks no further than it must.
pub fn admitted<P>(line: impl Iterator<Item = (P, Claim)>) -> Vec<P> {
    let mut found: Vec<(P, Claim)> = Vec::new();
    for (position, claim) in line {
        if !admits(found.iter().map(|(_, ahead)| *ahead), claim) {
            break; // and whoever stands behind waits for this one, too
        }
        found.push((position, claim));
    }
    found.into_iter().map(|(position, _)| position).collect()
}

/// Whom `claim` waits for next: the nearest in its way of those `ahead`, who come the nearest first.
pub fn obstacle<P>(mut ahead: impl Iterator<Item = (P, Claim)>, claim: Claim) -> Option<P> {
    ahead.find(|(_, other)| !claim.goes_with(*other)).map(|(position, _)| position)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_first_exclusive_claim_is_admitted() {
        use Claim::Exclusive;
        assert!(admits([].into_iter(), Exclusive));
        assert!(!admits([Exclusive].into_iter(), Exclusive));
        assert_eq!(admitted([(1, Exclusive), (2, Exclusive)].into_iter()), [1]);
        assert!(admitted::<u8>([].into_iter()).is_empty());
    }

    #[test]
    fn an_exclusive_claim_waits_for_the_nearest_ahead() {
        use Claim::Exclusive;
        assert_eq!(obstacle([(2, Exclusive), (1, Exclusive)].into_iter(), Exclusive), Some(2));
        assert_eq!(obstacle::<u8>([].into_iter(), Exclusive), None);
    }
}
