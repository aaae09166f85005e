//! What a guard and the engine share about a hold: how long it can be trusted, and how it ended.
//!
//! ```text
//!          release asked            answered
//!   Held ----------------> Leaving ----------> Ended(Released)
//!    | \                      \
//!    |  \ key gone, why is     \ found to be lost
//!    |   \ being found out      v
//!    |    +------> Voided --> Ended(Lost)
//!    +-- lost ------------------^        the first end counts
//! ```
//!
//! A hold that is over writes nothing any more, and before another one gets its key, the fate of everything that it wrote is known:
//! etcd compares nothing but the key's revision, which is the same for both. So it counts its guarded writes.

use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicU32, AtomicU64, Ordering},
};

use tokio::{runtime::Handle, sync::Notify};

use crate::{
    clock::{self, Moment},
    error::LostReason,
};

/// How a hold ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum End {
    /// It was released in time.
    Released,
    /// It was lost, for this reason.
    Lost(LostReason),
}

/// How far a hold has come; see the diagram above.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It stands, as long as its deadline has not passed.
    Held,
    /// It is being released.
    Leaving,
    /// It is over; why is being found out.
    Voided,
    /// It is over.
    Ended(End),
}

/// It begins no further writes.
const NO_MORE: u32 = 1 << 31;
/// One of its writes may still take effect.
const UNSETTLED: u32 = 1 << 30;

/// A guarded write on its way. Dropped without a word on its fate, that is unknown for good.
#[derive(Debug)]
pub(crate) struct Write {
    state: Arc<HoldState>,
    is_settled: bool,
}

impl Write {
    /// It took effect or never will.
    pub(crate) fn settle(mut self) {
        self.is_settled = true;
    }
}

impl Drop for Write {
    fn drop(&mut self) {
        if !self.is_settled {
            self.state.writes.fetch_or(UNSETTLED, Ordering::AcqRel);
        }
        self.state.writes.fetch_sub(1, Ordering::AcqRel);
    }
}

/// A hold as its guard and the engine see it.
#[derive(Debug)]
pub(crate) struct HoldState {
    /// The deadline of its session, in nanoseconds of [`Moment`]; written by the engine alone.
    deadline: Arc<AtomicU64>,
    fate: Mutex<Fate>,
    /// Told of each change of that. A channel for it would take more room than all the rest of a hold.
    changed: Notify,
    /// How many guarded writes are on their way, and [`NO_MORE`] and [`UNSETTLED`].
    writes: AtomicU32,
    /// Where its own timer runs.
    runtime: Handle,
}

impl HoldState {
    /// A hold that begins.
    pub(crate) fn new(deadline: Arc<AtomicU64>, runtime: Handle) -> Self {
        let (fate, changed) = (Mutex::new(Fate::Held), Notify::new());
        Self { deadline, fate, changed, writes: AtomicU32::new(0), runtime }
    }

    /// Until when it can be trusted, as far as is known now.
    pub(crate) fn deadline(&self) -> Moment {
        Moment::from_nanos(self.deadline.load(Ordering::Acquire))
    }

    /// Whether nobody has said that it is over, and its deadline has not passed.
    pub(crate) fn is_held(&self) -> bool {
        self.fate() == Fate::Held && clock::now() < self.deadline()
    }

    /// Notes how far it has come; never back, and the first end counts.
    pub(crate) fn advance(&self, to: Fate) {
        let mut fate = self.fate.lock().unwrap_or_else(PoisonError::into_inner);
        let is_news = match (*fate, to) {
            (Fate::Ended(_), _) | (Fate::Voided, Fate::Leaving | Fate::Voided) => false,
            (known, to) => known != to,
        };
        if is_news {
            *fate = to;
            drop(fate);
            self.changed.notify_waiters();
        }
    }

    fn fate(&self) -> Fate {
        *self.fate.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A guarded write begins, unless the hold is being released.
    pub(crate) fn begin_write(self: &Arc<Self>) -> Option<Write> {
        let count = |writes: u32| (writes & NO_MORE == 0).then_some(writes + 1);
        self.writes.fetch_update(Ordering::AcqRel, Ordering::Acquire, count).ok()?;
        Some(Write { state: self.clone(), is_settled: false })
    }

    /// No guarded write begins from now on.
    pub(crate) fn end_writes(&self) {
        self.writes.fetch_or(NO_MORE, Ordering::AcqRel);
    }

    /// Whether nothing that it wrote can take effect any more.
    pub(crate) fn is_settled(&self) -> bool {
        self.writes.load(Ordering::Acquire) & !NO_MORE == 0
    }

    /// What was said about its end so far. Where the key is gone and nobody knows why yet, that it was deleted.
    pub(crate) fn told_loss(&self) -> Option<LostReason> {
        match self.fate() {
            Fate::Ended(End::Lost(reason)) => Some(reason),
            Fate::Voided => Some(LostReason::KeyDeleted),
            Fate::Held | Fate::Leaving | Fate::Ended(End::Released) => None,
        }
    }

    /// Waits for its end. Needs nobody to tell it that the deadline has passed.
    pub(crate) async fn ended(&self) -> End {
        loop {
            // Listens before it looks, so that no change comes between.
            let changed = self.changed.notified();
            let now = self.fate();
            let left = clock::now().until(self.deadline());
            match now {
                Fate::Ended(end) => return end,
                Fate::Held if left.is_zero() => self.advance(Fate::Ended(End::Lost(LostReason::Expired))),
                Fate::Held => {
                    let timer = {
                        let _entered = self.runtime.enter();
                        tokio::time::sleep(left)
                    };
                    tokio::select! {
                        () = changed => {}
                        () = timer => {}
                    }
                }
                // Both end by themselves.
                Fate::Leaving | Fate::Voided => changed.await,
            }
        }
    }
}
