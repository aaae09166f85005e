//! What the library has to say, for the host's own log.

use leasehold_bridge::{
    Result,
    logs::{self, Level},
};

use crate::{
    callbacks::{Then, start},
    entry::invalid,
};

/// # Safety
/// As [`start`].
pub(crate) unsafe fn listen(level: i32, then: Then) -> Result<()> {
    let known = Level::from_number(level).filter(|level| *level != Level::Off);
    let level = known.ok_or_else(|| invalid(format!("the level {level} is none of lh_level")))?;
    // SAFETY: the caller promises it.
    unsafe { start(then, |sink| logs::listen(level, sink).map(|()| None)) }
}
