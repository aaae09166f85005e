//! What a function says beside its status.

use std::ffi::c_char;

use leasehold_bridge::Error;

use crate::status::OK;

/// Bytes of a message, the NUL included.
pub const LH_MESSAGE_SIZE: usize = 1016;

/// What went wrong, by copy. Give one of yours to a function, or NULL.
#[repr(C)]
pub struct lh_error {
    /// The status that the function returned.
    pub code: i32,
    /// With LH_LOST: a number of lh_reason, or 0 where it is not known.
    pub reason: i32,
    /// For people: what was wrong and what to do about it; empty with LH_OK. Long ones end with "…".
    pub message: [c_char; LH_MESSAGE_SIZE],
}

impl lh_error {
    /// Says that all is well.
    ///
    /// # Safety
    /// `place` is NULL, or points to memory for an `lh_error`.
    pub(crate) unsafe fn clear(place: *mut Self) {
        if !place.is_null() {
            // SAFETY: the caller promises it; no reference is made, because the memory need not be initialised.
            unsafe {
                (&raw mut (*place).code).write(OK);
                (&raw mut (*place).reason).write(0);
                (&raw mut (*place).message).cast::<c_char>().write(0);
            }
        }
    }

    /// Says what went wrong.
    ///
    /// # Safety
    /// As [`lh_error::clear`].
    pub(crate) unsafe fn set(place: *mut Self, error: &Error) {
        if !place.is_null() {
            let text = fit(error.message(), LH_MESSAGE_SIZE - 1);
            // SAFETY: the caller promises it, and the text with its NUL fits.
            unsafe {
                (&raw mut (*place).code).write(error.code().number());
                (&raw mut (*place).reason).write(error.reason().map_or(0, |reason| reason.number()));
                let message = (&raw mut (*place).message).cast::<u8>();
                message.copy_from_nonoverlapping(text.as_ptr(), text.len());
                message.add(text.len()).write(0);
            }
        }
    }
}

/// `text` without NUL, in at most `most` bytes of UTF-8.
fn fit(text: &str, most: usize) -> String {
    const MORE: &str = "…";
    let mut text = text.replace('\0', "");
    if text.len() > most {
        let mut end = most - MORE.len();
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        text.truncate(end);
        text.push_str(MORE);
    }
    text
}

#[cfg(test)]
mod tests {
    use std::{ffi::CStr, mem::MaybeUninit};

    use leasehold_bridge::{Code, LostReason};

    use super::*;

    #[test]
    fn a_long_message_is_cut_between_letters() {
        assert_eq!(fit("ab", 8), "ab");
        assert_eq!(fit("abcdefghi", 8), "abcde…");
        assert_eq!(fit("ääääää", 8), "ää…");
        assert_eq!(fit("a\0b", 8), "ab");
    }

    /// Copies `error` as for a caller, and gives what the caller finds.
    fn copied(error: &Error) -> (i32, i32, String) {
        let mut place = MaybeUninit::<lh_error>::uninit();
        // SAFETY: the memory is ours; after `set`, all that is read below is initialised, and the message ends with NUL.
        let (found, message) = unsafe {
            lh_error::set(place.as_mut_ptr(), error);
            let found = &*place.as_ptr();
            (found, CStr::from_ptr(found.message.as_ptr()))
        };
        (found.code, found.reason, message.to_str().unwrap().to_owned())
    }

    #[test]
    fn code_reason_and_message_are_copied() {
        let (code, reason, message) = copied(&Error::lost("/lock/a", LostReason::Expired));
        assert_eq!((code, reason), (Code::Lost.number(), LostReason::Expired.number()));
        assert!(message.contains("/lock/a"), "{message}");
        let (code, _, message) = copied(&Error::new(Code::Unavailable, "x".repeat(2000)));
        assert_eq!(code, Code::Unavailable.number());
        assert!(message.ends_with('…') && message.len() < LH_MESSAGE_SIZE && message.len() + 4 > LH_MESSAGE_SIZE);
    }
}
