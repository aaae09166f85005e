//! Whose turn it is: the one place where claims are weighed against each other. Pure; no keys, no time.
//!
//! A line is what stands in a queue, in the order of create revisions, without places of ours that have left: whoever is
//! admitted because one of ours counts as gone is in front of everybody who could object, because nobody else can own the name
//! while either key stands.
//!
//! | claim              | admitted when                                                                     |
//! |--------------------|-----------------------------------------------------------------------------------|
//! | exclusive          | nothing stands ahead                                                              |
//! | shared             | nothing but shared stands ahead                                                   |
//! | `w` permits of `N` | only permits of the same `N` stand ahead, and with theirs it makes no more than `N` |
//!
//! "Ahead" counts those that wait, too: nobody overtakes, so neither readers starve a writer nor small requests a large one. What is
//! admitted stays admitted as long as its key stands, because what stands ahead of a key can only become less. And whoever is not
//! admitted keeps everybody behind it out that it could ever exclude.
//!
//! Shared and permits, and permits of two limits, cannot be weighed against each other: whoever comes second made a mistake, and is
//! told so. Exclusive goes before and behind anything.

use std::collections::BTreeMap;

/// What an acquire claims of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Claim {
    /// All of it: a mutex, or the writer of a read-write lock.
    Exclusive,
    /// A share of it, beside any number of others that are shared: the readers of a read-write lock.
    Shared,
    /// Some of a limited number of permits: a semaphore.
    Permits {
        /// How many it takes, at least 1 and at most `limit`.
        permits: u32,
        /// How many there are, at most [`Claim::MAX_LIMIT`]. All who use the name must say the same.
        limit: u32,
    },
}

/// Claims of one kind are weighed by number alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Kind {
    Exclusive,
    Shared,
    PermitsOf(u32),
}

impl Claim {
    /// The most permits that a semaphore can have.
    pub const MAX_LIMIT: u32 = i32::MAX as u32;

    /// Whether its numbers are in their ranges.
    pub(crate) fn is_valid(self) -> bool {
        match self {
            Self::Exclusive | Self::Shared => true,
            Self::Permits { permits, limit } => (1..=limit).contains(&permits) && limit <= Self::MAX_LIMIT,
        }
    }

    fn kind(self) -> Kind {
        match self {
            Self::Exclusive => Kind::Exclusive,
            Self::Shared => Kind::Shared,
            Self::Permits { limit, .. } => Kind::PermitsOf(limit),
        }
    }

    /// How many permits it takes.
    fn weight(self) -> u32 {
        match self {
            Self::Exclusive | Self::Shared => 0,
            Self::Permits { permits, .. } => permits,
        }
    }

    /// Whether it can be held beside one of `kind`, as far as there is room.
    fn goes_with(self, kind: Kind) -> bool {
        kind != Kind::Exclusive && self.kind() == kind
    }

    /// Whether nobody can say who of the two is to wait for what.
    fn mismatches(self, kind: Kind) -> bool {
        kind != Kind::Exclusive && self != Self::Exclusive && self.kind() != kind
    }
}

impl std::fmt::Display for Claim {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Exclusive => f.write_str("exclusive"),
            Self::Shared => f.write_str("shared"),
            Self::Permits { permits, limit } => write!(f, "{permits} of {limit} permits"),
        }
    }
}

/// Who stands in line, at positions `P` that are in order, and what each claims.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Line<P> {
    /// Those of each kind, and how many permits each takes. None is empty.
    kinds: BTreeMap<Kind, BTreeMap<P, u32>>,
}

impl<P> Default for Line<P> {
    fn default() -> Self {
        Self { kinds: BTreeMap::new() }
    }
}

impl<P: Ord> FromIterator<(P, Claim)> for Line<P> {
    fn from_iter<I: IntoIterator<Item = (P, Claim)>>(all: I) -> Self {
        let mut line = Self::default();
        for (position, claim) in all {
            line.insert(position, claim);
        }
        line
    }
}

impl<P: Ord> Line<P> {
    /// Somebody stands at `position`.
    pub fn insert(&mut self, position: P, claim: Claim) {
        self.kinds.entry(claim.kind()).or_default().insert(position, claim.weight());
    }

    /// Who stood at `position` with that claim does no more.
    pub fn remove(&mut self, position: &P, claim: Claim) {
        if let Some(of_kind) = self.kinds.get_mut(&claim.kind()) {
            of_kind.remove(position);
            if of_kind.is_empty() {
                self.kinds.remove(&claim.kind());
            }
        }
    }

    /// Whether anybody stands anywhere but at `position`.
    pub fn has_others(&self, position: &P) -> bool {
        self.kinds.values().flat_map(BTreeMap::keys).any(|other| other != position)
    }

    /// Whether whoever stands at `position` with that claim is admitted.
    pub fn admits(&self, position: &P, claim: Claim) -> bool {
        self.excluding(claim).all(|(_, of_kind)| of_kind.first_key_value().is_none_or(|(first, _)| first >= position))
            && self.takes_up(position, claim).next().is_none()
    }

    /// Those right ahead of `position` that keep it from being admitted: while all of them stand, it is not its turn. Nobody, if it
    /// is admitted.
    pub fn obstacles(&self, position: &P, claim: Claim) -> Vec<&P> {
        let nearest = self.excluding(claim).filter_map(|(_, of_kind)| of_kind.range(..position).next_back());
        match nearest.map(|(at, _)| at).max() {
            Some(nearest) => vec![nearest],
            None => self.takes_up(position, claim).collect(),
        }
    }

    /// The first ahead of `position` whom it waits for.
    pub fn first_obstacle(&self, position: &P, claim: Claim) -> Option<&P> {
        let first = self.excluding(claim).filter_map(|(_, of_kind)| of_kind.range(..position).next());
        let taker =
            || self.takes_up(position, claim).next().and_then(|_| self.kinds.get(&claim.kind())?.first_key_value());
        first.map(|(at, _)| at).min().or_else(|| taker().map(|(at, _)| at))
    }

    /// The first ahead of `position` whose claim cannot be weighed against this one.
    pub fn mismatch(&self, position: &P, claim: Claim) -> Option<&P> {
        let of_others = self.kinds.iter().filter(|(kind, _)| claim.mismatches(**kind));
        of_others.filter_map(|(_, of_kind)| of_kind.range(..position).next()).map(|(at, _)| at).min()
    }

    /// Those of the kinds that exclude `claim`, however few they are.
    fn excluding(&self, claim: Claim) -> impl Iterator<Item = (&Kind, &BTreeMap<P, u32>)> {
        self.kinds.iter().filter(move |(kind, _)| !claim.goes_with(**kind))
    }

    /// If the permits taken ahead of `position` leave too few for `claim`: the nearest that together take so many.
    fn takes_up(&self, position: &P, claim: Claim) -> impl Iterator<Item = &P> {
        let Claim::Permits { permits, limit } = claim else { return Vec::new().into_iter() };
        let mut sum = u64::from(permits);
        let mut takers = Vec::new();
        for (at, permits) in
            self.kinds.get(&claim.kind()).into_iter().flat_map(|of_kind| of_kind.range(..position).rev())
        {
            sum += u64::from(*permits);
            takers.push(at);
            if sum > u64::from(limit) {
                return takers.into_iter();
            }
        }
        Vec::new().into_iter()
    }
}

#[cfg(test)]
mod tests {
    use super::{
        Claim::{Exclusive as X, Shared as R},
        *,
    };

    fn permits(permits: u32, limit: u32) -> Claim {
        Claim::Permits { permits, limit }
    }

    /// Which of these, in line one behind the other, are admitted.
    fn admitted(claims: &[Claim]) -> Vec<usize> {
        let line: Line<usize> = claims.iter().copied().enumerate().collect();
        (0..claims.len()).filter(|at| line.admits(at, claims[*at])).collect()
    }

    #[test]
    fn nothing_goes_beside_an_exclusive_claim() {
        assert_eq!(admitted(&[X, X, R, permits(1, 2)]), [0]);
        assert_eq!(admitted(&[R, X]), [0]);
        assert_eq!(admitted(&[permits(1, 9), X]), [0]);
    }

    #[test]
    fn readers_go_together_and_do_not_overtake_a_writer() {
        assert_eq!(admitted(&[R, R, R, X, R]), [0, 1, 2]);
    }

    #[test]
    fn permits_go_together_up_to_the_limit_and_do_not_overtake_a_larger_request() {
        let (one, three) = (permits(1, 4), permits(3, 4));
        assert_eq!(admitted(&[one, three, one]), [0, 1]);
        assert_eq!(admitted(&[one, one, three, one]), [0, 1], "the last one would find room, but not its turn");
        assert_eq!(admitted(&[permits(4, 4), one]), [0]);
        let most = permits(Claim::MAX_LIMIT, Claim::MAX_LIMIT);
        assert_eq!(admitted(&[most, most, most]), [0]);
    }

    #[test]
    fn what_cannot_be_weighed_is_told_with_the_first_in_the_way_whoever_stands_between() {
        let line: Line<u8> = [(1, X), (2, R), (3, R), (4, X)].into_iter().collect();
        assert_eq!(line.mismatch(&5, permits(1, 2)), Some(&2));
        assert_eq!(line.mismatch(&2, permits(1, 2)), None, "who comes first is right");
        assert_eq!((line.mismatch(&5, R), line.mismatch(&5, X)), (None, None));
        let line: Line<u8> = [(1, permits(1, 2)), (2, permits(1, 3))].into_iter().collect();
        assert_eq!(line.mismatch(&3, permits(1, 2)), Some(&2));
        assert_eq!(line.mismatch(&3, R), Some(&1));
    }

    #[test]
    fn while_the_obstacles_stand_it_is_not_its_turn() {
        let line: Line<u8> = [(1, X), (2, R), (3, R)].into_iter().collect();
        assert_eq!((line.obstacles(&4, X), line.first_obstacle(&4, X)), (vec![&3], Some(&1)));
        assert_eq!((line.obstacles(&4, R), line.first_obstacle(&4, R)), (vec![&1], Some(&1)));
        assert!(line.obstacles(&1, X).is_empty() && line.first_obstacle(&1, X).is_none());
        let two = permits(2, 4);
        let line: Line<u8> = [(1, two), (2, permits(1, 4)), (3, permits(1, 4)), (4, two)].into_iter().collect();
        assert_eq!((line.obstacles(&5, two), line.first_obstacle(&5, two)), (vec![&4, &3], Some(&1)));
        assert!(line.obstacles(&3, permits(1, 4)).is_empty() && line.first_obstacle(&3, permits(1, 4)).is_none());
    }

    #[test]
    fn who_leaves_makes_room() {
        let mut line: Line<u8> = [(1, R), (2, R), (3, X)].into_iter().collect();
        line.remove(&1, R);
        assert!(!line.admits(&3, X));
        line.remove(&2, R);
        assert!(line.admits(&3, X));
    }

    #[test]
    fn numbers_have_their_ranges() {
        assert!(permits(1, 1).is_valid() && permits(1, Claim::MAX_LIMIT).is_valid());
        assert!(!permits(0, 1).is_valid() && !permits(2, 1).is_valid() && !permits(1, Claim::MAX_LIMIT + 1).is_valid());
    }
}
