//! What the library has to say, for the host's own log.

use std::{ffi::c_void, ptr};

use leasehold_bridge::logs::{self, Level};

use crate::{
    callbacks::{Then, lh_callback, start},
    entry::{enter, invalid},
    error::lh_error,
    handles::lh_loop,
};

/// Sends log records of `level` (a number of lh_level) and worse to the callback, as result->level, target and message. One
/// listener for the process: whoever listened before is told is_last. A listener that does not keep up misses records, and
/// the next one says how many. In a forked child nobody listens.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lh_log_listen(
    level: i32,
    on_loop: lh_loop,
    callback: lh_callback,
    user_data: *mut c_void,
    error: *mut lh_error,
) -> i32 {
    let body = || {
        let known = Level::from_number(level).filter(|level| *level != Level::Off);
        let level = known.ok_or_else(|| invalid(format!("the level {level} is none of lh_level")))?;
        // SAFETY: `op` is NULL.
        unsafe {
            let then = Then::new(on_loop, callback, user_data, ptr::null_mut());
            start(then, |sink| logs::listen(level, sink).map(|()| None))
        }
    };
    // SAFETY: the caller promises what the header asks for.
    unsafe { enter(error, body) }
}

/// Sends no more log records; the listener is told is_last.
#[unsafe(no_mangle)]
pub extern "C" fn lh_log_stop() -> i32 {
    let body = || {
        logs::stop();
        Ok(())
    };
    // SAFETY: NULL is allowed.
    unsafe { enter(ptr::null_mut(), body) }
}
