//! Who wants to be woken when: one index for each kind, so that nobody looks through all of them.

use std::collections::BTreeSet;

use crate::clock::Moment;

/// The alarms of all `K`s. Each keeps its own in a slot, which [`Alarms::set`] brings in line.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Alarms<K> {
    index: BTreeSet<(Moment, K)>,
}

impl<K: Ord + Copy> Alarms<K> {
    pub(super) const fn new() -> Self {
        Self { index: BTreeSet::new() }
    }

    /// The alarm of `who`, which was `slot`, is `at` from now on.
    pub(super) fn set(&mut self, who: K, slot: &mut Option<Moment>, at: Option<Moment>) {
        if *slot == at {
            return;
        }
        if let Some(before) = slot.take() {
            self.index.remove(&(before, who));
        }
        if let Some(at) = at {
            self.index.insert((at, who));
            *slot = Some(at);
        }
    }

    /// Whose alarm is due, each once. One that stays due is a fault of its timers, which must not keep the others from their turn.
    pub(super) fn due(&self, now: Moment) -> Vec<K> {
        self.index.iter().take_while(|(at, _)| *at <= now).map(|(_, who)| *who).collect()
    }

    /// The next alarm.
    pub(super) fn next(&self) -> Option<Moment> {
        self.index.first().map(|(at, _)| *at)
    }
}
