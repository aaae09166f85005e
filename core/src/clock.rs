//! Time as the state machines see it: a point on a clock that never jumps and keeps counting while the machine sleeps.

use std::time::Duration;

/// A point in time: nanoseconds on the clock of whoever feeds the state machines.
///
/// In production that is `CLOCK_BOOTTIME` ([`now`]); in a simulation it is whatever the simulator says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(u64);

impl Moment {
    /// The moment `nanos` nanoseconds after the clock's origin.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Nanoseconds since the clock's origin.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// How long after `earlier` this is; zero if it is not after it.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    /// How long from this moment until `later`; zero if that has passed.
    pub fn until(self, later: Self) -> Duration {
        later.since(self)
    }
}

impl std::ops::Add<Duration> for Moment {
    type Output = Self;

    /// Saturates: a wait of `Duration::MAX` ends never, not early.
    fn add(self, span: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)))
    }
}

impl std::ops::Sub<Duration> for Moment {
    type Output = Self;

    /// Saturates at the clock's origin.
    fn sub(self, span: Duration) -> Self {
        Self(self.0.saturating_sub(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)))
    }
}

/// Reads the clock that leases are judged by: it counts the time the machine was suspended (`CLOCK_BOOTTIME` on Linux),
/// because the server's clock went on meanwhile.
pub fn now() -> Moment {
    #[cfg(target_os = "linux")]
    const CLOCK: rustix::time::ClockId = rustix::time::ClockId::Boottime;
    // Elsewhere the monotonic clock is the nearest there is: a suspended machine notices a loss only by the next reply.
    #[cfg(not(target_os = "linux"))]
    const CLOCK: rustix::time::ClockId = rustix::time::ClockId::Monotonic;
    let time = rustix::time::clock_gettime(CLOCK);
    Moment(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}
