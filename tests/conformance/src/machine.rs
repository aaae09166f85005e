//! For how long the machine stood still: what a bound in milliseconds cannot tell from a slow library.
//!
//! A thread sleeps a moment, again and again, and notes when it woke up late. On a virtual machine that loses its processors for a
//! while, drivers and servers came late by as much. Upper bounds of scenarios are about the rest of the time; lower bounds, and all
//! that [`crate::check`] judges, about the clock alone.

use std::{
    sync::{LazyLock, Mutex, PoisonError},
    thread,
    time::Duration,
};

use serde_json::Value;
use tokio::time::sleep;

use crate::{Message, mono_ns};

const TICK: Duration = Duration::from_millis(10);
/// Late by less is every machine on which several processes run.
const LATE: Duration = Duration::from_millis(40);

/// The one of this process; it beats from the first use on.
pub static PULSE: LazyLock<Pulse> = LazyLock::new(|| {
    thread::spawn(|| {
        loop {
            let due = mono_ns() + nanos(TICK);
            thread::sleep(TICK);
            PULSE.beat(due, mono_ns());
        }
    });
    Pulse::default()
});

/// Notes when the machine stood still.
#[derive(Default)]
pub struct Pulse(Mutex<Beats>);

#[derive(Default)]
struct Beats {
    /// When it last woke up.
    last: u64,
    /// When it should have woken up, and when it did, where that was late.
    late: Vec<(u64, u64)>,
}

impl Pulse {
    fn beat(&self, due: u64, woken: u64) {
        let mut beats = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        beats.last = woken;
        if woken.saturating_sub(due) >= nanos(LATE) {
            beats.late.push((due, woken));
        }
    }

    /// For how long the machine stood still between two moments on the clock of [`mono_ns`], as far as it has been noted.
    fn noted(&self, from: u64, to: u64) -> Duration {
        let beats = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let parts = beats.late.iter().map(|(due, woken)| to.min(*woken).saturating_sub(from.max(*due)));
        Duration::from_nanos(parts.sum())
    }

    /// For how long the machine stood still between two moments, of which the later one is past.
    async fn stood_still(&self, from: u64, to: u64) -> Duration {
        while self.0.lock().unwrap_or_else(PoisonError::into_inner).last < to {
            sleep(TICK).await;
        }
        self.noted(from, to)
    }

    /// A dated reply or event, its durations without the time for which the machine stood still.
    pub async fn without_stand_still(&self, mut found: Message) -> Message {
        let Some(at) = found.get("mono_ns").and_then(Value::as_u64) else { return found };
        self.stood_still(at, at).await;
        let shorten = |duration: &mut Value| {
            if let Some(ms) = duration.as_u64() {
                let still = self.noted(at.saturating_sub(ms * 1_000_000), at).as_millis();
                *duration = ms.saturating_sub(u64::try_from(still).unwrap_or(u64::MAX)).into();
            }
        };
        found.get_mut("took_ms").into_iter().for_each(shorten);
        if let Some(Value::Object(since)) = found.get_mut("since") {
            since.values_mut().for_each(shorten);
        }
        found
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// A limit in time in which the machine runs.
pub struct Patience<'a> {
    pulse: &'a Pulse,
    begun: u64,
    limit: Duration,
}

impl Patience<'static> {
    /// From now on.
    pub fn new(limit: Duration) -> Self {
        Self { pulse: &PULSE, begun: mono_ns(), limit }
    }
}

impl Patience<'_> {
    /// What is left of it.
    pub async fn left(&self) -> Duration {
        let now = mono_ns();
        let passed = Duration::from_nanos(now.saturating_sub(self.begun));
        if passed < self.limit {
            return self.limit - passed;
        }
        (self.limit + self.pulse.stood_still(self.begun, now).await).saturating_sub(passed)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::message;

    const MS: u64 = 1_000_000;

    #[test]
    fn only_what_lies_between_counts_and_only_where_it_was_late() {
        let pulse = Pulse::default();
        pulse.beat(100 * MS, 139 * MS);
        pulse.beat(1_000 * MS, 1_400 * MS);
        pulse.beat(2_000 * MS, 2_100 * MS);
        for (from, to, still) in
            [(0, 900, 0), (0, 3_000, 500), (1_100, 1_200, 100), (1_300, 2_050, 150), (1_400, 2_000, 0)]
        {
            assert_eq!(pulse.noted(from * MS, to * MS), Duration::from_millis(still), "{from} to {to}");
        }
    }

    #[tokio::test]
    async fn a_stand_still_shortens_what_a_reply_took() {
        let pulse = Pulse::default();
        pulse.beat(600 * MS, 1_000 * MS);
        let reply = message(json!({"mono_ns": 1_000 * MS, "took_ms": 700, "since": {"cut": 300}, "remaining_ms": 700}));
        let shorter = json!({"mono_ns": 1_000 * MS, "took_ms": 300, "since": {"cut": 0}, "remaining_ms": 700});
        assert_eq!(Value::from(pulse.without_stand_still(reply).await), shorter);
    }

    #[tokio::test]
    async fn a_patience_ends_unless_the_machine_stood_still() {
        let limit = Duration::from_nanos(1);
        let (runs, stands) = (Pulse::default(), Pulse::default());
        runs.beat(u64::MAX, u64::MAX);
        stands.beat(0, u64::MAX);
        let left = async |pulse| Patience { pulse, begun: 0, limit }.left().await;
        assert_eq!((left(&runs).await, left(&stands).await), (Duration::ZERO, limit));
    }
}
