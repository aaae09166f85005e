//! How long to wait before something that failed is tried again: twice as long each time, up to a bound, and not at the same
//! moment as everybody else. Sans I/O, and without chance of its own: what spreads the pauses comes in as a salt.

use std::time::Duration;

/// Pauses that grow from the first to the longest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Backoff {
    first: Duration,
    longest: Duration,
}

impl Backoff {
    /// Pauses of about `first`, then twice as long each time, never longer than `longest`.
    pub const fn new(first: Duration, longest: Duration) -> Self {
        Self { first, longest }
    }

    /// A pause that does not grow.
    pub const fn steady(pause: Duration) -> Self {
        Self::new(pause, pause)
    }

    /// The pause after so many failures, the first being 1. It lies between half of what it would be without jitter and all of
    /// it ("equal jitter"); `salt` says where: whoever may fail at the same moment has another one.
    pub fn pause(self, failures: u32, salt: u64) -> Duration {
        let doublings = failures.saturating_sub(1).min(16);
        let whole = self.first.saturating_mul(1 << doublings).min(self.longest);
        let half = whole / 2;
        let spread = u64::try_from(half.as_nanos()).unwrap_or(u64::MAX).max(1);
        half + Duration::from_nanos(mix(salt.wrapping_add(failures.into())) % spread)
    }
}

/// Spreads numbers that lie close together over all there are (the finish of SplitMix64, Steele, Lea and Flood, 2014).
pub fn mix(number: u64) -> u64 {
    let mut z = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn pauses_grow_up_to_the_longest_and_stay_within_half_of_it() {
        let backoff = Backoff::new(20 * MS, 100 * MS);
        for (failures, whole) in [(1, 20), (2, 40), (3, 80), (4, 100), (5, 100), (u32::MAX, 100)] {
            for salt in 0..100 {
                let pause = backoff.pause(failures, salt);
                assert!(pause >= MS * whole / 2 && pause <= MS * whole, "{failures} failures: {pause:?}");
            }
        }
    }

    #[test]
    fn those_that_fail_together_do_not_come_back_together() {
        let pauses: BTreeSet<_> =
            (0..1_000).map(|salt| Backoff::steady(20 * MS).pause(1, salt).as_micros() / 100).collect();
        assert!(pauses.len() > 90, "1,000 pauses fall into {} of 100 slots", pauses.len());
    }
}
