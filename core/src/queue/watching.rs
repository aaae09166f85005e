//! What a queue watches, and when it reads to be sure: policy and its timers, no events. Sans I/O.
//!
//! One watch on the whole queue serves all waiters of a client without a read, but every put and delete is pushed to every such
//! watch. In a crowd, each client watches only the contender right in the way of its first waiter, and reads once a hand-off.

use std::time::Duration;

use crate::{backoff::Backoff, clock::Moment};

/// More contending processes than this are a crowd …
const CROWD_ABOVE: usize = 24;
/// … until there are no more than this: the distance keeps a queue from switching back and forth.
pub const CROWD_UNTIL: usize = 12;
/// So many keys of one queue are watched one by one; beyond, all of it is watched at once.
pub const MOST_SINGLE: usize = 16;
/// How old a hold is before its key is watched: most are released before that.
const SETTLED: Duration = Duration::from_secs(1);
/// How long the watch on a queue outlives the last waiter: the next one often comes soon.
const LINGER: Duration = Duration::from_secs(5);
/// So much rarer is the order confirmed for each contender that stands ahead: as many have their turn first. Hundreds of processes that
/// wait for one name ask etcd for little else.
const FOR_EACH_AHEAD: Duration = Duration::from_millis(50);
/// … as far as there are no more of them than this.
pub const MOST_AHEAD: usize = 300;
/// Pause before a watch that the server ended is opened again.
const REOPEN: Backoff = Backoff::steady(Duration::from_millis(150));
/// Pause before a read that failed is sent again, and before a hold in doubt is looked for.
const REREAD: Backoff = Backoff::new(Duration::from_millis(250), Duration::from_secs(2));

/// What to watch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Target {
    /// Nothing.
    #[default]
    Nothing,
    /// The keys of ours whose turn it is.
    Hold,
    /// The whole queue.
    Queue,
    /// Those right ahead of our first waiter because of whom it waits.
    Crowd,
}

/// The policy and its timers.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Watching {
    target: Target,
    /// Holds since then or earlier have lasted for a while.
    settled: Option<Moment>,
    /// Until when the watch on the queue stays although nobody waits.
    linger_until: Option<Moment>,
    /// No watch is opened before that.
    paused_until: Option<Moment>,
    /// How often to read while somebody waits, and nobody stands ahead.
    recheck: Duration,
    recheck_at: Option<Moment>,
    /// Reads that failed one after the other.
    failures: u32,
}

impl Watching {
    /// A queue that watches nothing yet.
    pub fn new(recheck: Duration) -> Self {
        Self {
            target: Target::Nothing,
            settled: None,
            linger_until: None,
            paused_until: None,
            recheck,
            recheck_at: None,
            failures: 0,
        }
    }

    /// What to watch now.
    pub fn target(&self) -> Target {
        self.target
    }

    /// Whether the queue is watched as a crowd.
    pub fn is_crowd(&self) -> bool {
        self.target == Target::Crowd
    }

    /// Whether it has been the turn of a place for a while, if it is so since then.
    pub fn is_settled(&self, since: Moment) -> bool {
        self.settled.is_some_and(|settled| since <= settled)
    }

    /// When that is so.
    pub fn settles_at(&self, since: Moment) -> Moment {
        since + SETTLED
    }

    /// Brings the target in line with who waits and since when it is whose turn, the oldest first. Returns `false` while no watch may
    /// be opened.
    pub fn update(
        &mut self,
        now: Moment,
        admitted: impl Iterator<Item = Moment>,
        waiting: usize,
        processes: usize,
    ) -> bool {
        self.settled = admitted.take_while(|since| now >= self.settles_at(*since)).last();
        let watches_queue = matches!(self.target, Target::Queue | Target::Crowd);
        if waiting > 0 {
            let crowd = if self.is_crowd() { processes > CROWD_UNTIL } else { processes > CROWD_ABOVE };
            self.target = if crowd { Target::Crowd } else { Target::Queue };
            self.linger_until = None;
            self.recheck_at.get_or_insert(now + self.recheck);
        } else {
            if watches_queue && now < *self.linger_until.get_or_insert(now + LINGER) {
                // Keep the watch for the next waiter.
            } else {
                self.linger_until = None;
                self.target = if self.settled.is_some() { Target::Hold } else { Target::Nothing };
            }
        }
        if self.paused_until.is_some_and(|until| now >= until) {
            self.paused_until = None;
        }
        self.paused_until.is_none()
    }

    /// When [`Watching::update`] or a re-check has something to do.
    pub fn wake(&self, next_settling: Option<Moment>, waiting: usize) -> Option<Moment> {
        if self.paused_until.is_some() {
            return self.paused_until;
        }
        let is_unwatched = match self.target {
            Target::Nothing | Target::Hold => waiting == 0,
            Target::Queue => false,
            Target::Crowd => true,
        };
        let settles = next_settling.filter(|_| is_unwatched);
        [self.linger_until, self.recheck_at, settles].into_iter().flatten().min()
    }

    /// A watch ended: open the next one after a pause.
    pub fn pause(&mut self, now: Moment) {
        self.paused_until.get_or_insert(now + REOPEN.pause(1, self.salt()));
    }

    /// Another etcd is there: no pause is due to its failures.
    pub fn restart(&mut self) {
        (self.paused_until, self.recheck_at, self.failures) = (None, None, 0);
    }

    /// A read was answered, and the order confirmed. So many stand `ahead` of our first waiter, [`MOST_AHEAD`] at most.
    pub fn checked(&mut self, now: Moment, waiting: usize, ahead: usize) {
        self.failures = 0;
        let rarer = FOR_EACH_AHEAD * u32::try_from(ahead.min(MOST_AHEAD)).unwrap_or(u32::MAX);
        self.recheck_at = (waiting > 0).then_some(now + self.recheck + rarer);
    }

    /// A read failed, or is needed for another reason.
    pub fn recheck_soon(&mut self, now: Moment) {
        self.failures = self.failures.saturating_add(1);
        self.recheck_at = Some(now + REREAD.pause(self.failures, self.salt()));
    }

    /// What spreads the pauses of different clients and queues: the re-check is different in each.
    fn salt(&self) -> u64 {
        u64::from(self.recheck.subsec_nanos()) + self.recheck.as_secs()
    }

    /// Whether to read now; asks once.
    pub fn take_recheck(&mut self, now: Moment, waiting: usize) -> bool {
        let is_due = self.recheck_at.is_some_and(|at| now >= at);
        if is_due {
            self.recheck_at = (waiting > 0).then_some(now + self.recheck);
        }
        is_due
    }
}
