//! The numbers of the interface, and their names.

use std::{
    ffi::{CStr, CString, c_char},
    ptr,
};

use leasehold_bridge::{Code, LostReason};
use once_cell::race::OnceBox;

/// What a function answers. Numbers and names are the same in every language and are never reused.
#[repr(C)]
pub enum lh_status {
    /// Done.
    LH_OK = 0,
    /// The wait limit passed, or a try found the lock taken.
    LH_NOT_ACQUIRED = 10,
    /// The operation was cancelled.
    LH_CANCELLED = 11,
    /// The lock was lost: this guard can no longer prove that it holds it. lh_error.reason says why.
    LH_LOST = 12,
    /// There is no such hold: released before, or the token is unknown.
    LH_NOT_HELD = 13,
    /// A scope inside a scope of the same name, in one thread; only layers above this one notice.
    LH_WOULD_DEADLOCK = 14,
    /// An argument, handle or option is wrong; nothing was done.
    LH_INVALID_ARGUMENT = 20,
    /// The client or the loop was closed.
    LH_CLOSED = 21,
    /// The handle belongs to the parent of this forked process.
    LH_FORKED = 22,
    /// No endpoint could be reached.
    LH_UNAVAILABLE = 30,
    /// etcd did not answer within the time limit; a write may or may not have taken effect.
    LH_DEADLINE_EXCEEDED = 31,
    /// etcd refused the user, the password or the certificate.
    LH_UNAUTHENTICATED = 32,
    /// The user's roles do not allow this key.
    LH_PERMISSION_DENIED = 33,
    /// Contenders of one name disagree about its limit.
    LH_LIMIT_MISMATCH = 34,
    /// The server, or this version of the library, cannot do that.
    LH_UNSUPPORTED = 35,
    /// etcd is out of space or refuses more requests, or the process is out of file descriptors or threads.
    LH_RESOURCE_EXHAUSTED = 36,
    /// A bug in leasehold; please report it.
    LH_INTERNAL = 99,
}

/// Why a lock was lost. 0 is no reason: it was not.
#[repr(C)]
pub enum lh_reason {
    /// The lease ran out: no renewal was acknowledged in time.
    LH_LOST_EXPIRED = 1,
    /// Somebody deleted the guard's key while its lease lived.
    LH_LOST_KEY_DELETED = 2,
    /// etcd ended the lease before its time.
    LH_LOST_LEASE_REVOKED = 3,
    /// The client was closed while the lock was held.
    LH_LOST_CLIENT_CLOSED = 4,
    /// The guard belongs to the parent of this forked process.
    LH_LOST_FORKED = 5,
    /// etcd went back in time: it was restored from a backup, or lost its data.
    LH_LOST_STORE_RESTORED = 6,
}

/// How a client's session feels. It can be trusted while it is OK or SUSPECT.
#[repr(C)]
pub enum lh_state {
    /// Renewed in time.
    LH_STATE_OK = 1,
    /// A renewal is overdue. Locks are still held: there is time left to stop in good order.
    LH_STATE_SUSPECT = 2,
    /// Over: its guards are lost for lh_result.reason. The next acquire starts another session.
    LH_STATE_LOST = 3,
}

/// How bad a log record is, and the least that a listener wants to hear.
#[repr(C)]
pub enum lh_level {
    /// A bug of the library.
    LH_LEVEL_ERROR = 1,
    /// Something that its users should know.
    LH_LEVEL_WARN = 2,
    /// Seldom and noteworthy.
    LH_LEVEL_INFO = 3,
    /// What happens.
    LH_LEVEL_DEBUG = 4,
    /// All of it.
    LH_LEVEL_TRACE = 5,
}

/// `LH_OK`, as the entry points return it.
pub(crate) const OK: i32 = lh_status::LH_OK as i32;

/// Names as C strings. Made without a lock, because a forked child may ask for them.
struct Names {
    codes: Vec<(i32, CString)>,
    reasons: Vec<(i32, CString)>,
}

fn names() -> &'static Names {
    static NAMES: OnceBox<Names> = OnceBox::new();
    NAMES.get_or_init(|| {
        let name = |number: i32, name: &str| (number, CString::new(name).unwrap_or_default());
        let mut codes = vec![name(OK, "OK")];
        codes.extend(Code::ALL.map(|code| name(code.number(), code.name())));
        Box::new(Names { codes, reasons: LostReason::ALL.map(|reason| name(reason.number(), reason.name())).into() })
    })
}

fn find(names: &'static [(i32, CString)], number: i32) -> Option<&'static CStr> {
    names.iter().find(|(known, _)| *known == number).map(|(_, name)| name.as_c_str())
}

/// The stable name of a status, such as "NOT_ACQUIRED"; "UNKNOWN" for a number that is none. Never NULL, never to be freed.
#[unsafe(no_mangle)]
pub extern "C" fn lh_strerror(status: i32) -> *const c_char {
    find(&names().codes, status).unwrap_or(c"UNKNOWN").as_ptr()
}

/// The stable name of a reason of lh_reason, such as "EXPIRED"; NULL for a number that is none. Never to be freed.
#[unsafe(no_mangle)]
pub extern "C" fn lh_reason_name(reason: i32) -> *const c_char {
    find(&names().reasons, reason).map_or(ptr::null(), CStr::as_ptr)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = include_str!("../../include/leasehold.h");

    /// Whether the header has the constant with this number, and nothing else under that name. C89 has no comma after the last one.
    fn has(name: &str, number: i32) -> bool {
        HEADER.lines().any(|line| line.trim().trim_end_matches(',') == format!("{name} = {number}"))
    }

    #[test]
    fn every_number_of_the_core_has_its_name_in_the_header() {
        for code in Code::ALL {
            assert!(has(&format!("LH_{}", code.name()), code.number()), "{code}");
        }
        for reason in LostReason::ALL {
            assert!(has(&format!("LH_LOST_{}", reason.name()), reason.number()), "{reason}");
        }
        let constants = HEADER.lines().filter(|line| line.trim().starts_with("LH_") && line.contains(" = ")).count();
        // The codes with LH_OK, the reasons, three states, five levels, three kinds of operations, three of locks.
        assert_eq!(constants, 1 + Code::ALL.len() + LostReason::ALL.len() + 3 + 5 + 3 + 3);
    }

    #[test]
    fn names_are_found_by_number() {
        let text = |name: *const c_char| {
            // SAFETY: it is one of the static names.
            unsafe { CStr::from_ptr(name) }.to_str().unwrap()
        };
        assert_eq!(text(lh_strerror(OK)), "OK");
        assert_eq!(text(lh_strerror(Code::Lost.number())), "LOST");
        assert_eq!(text(lh_strerror(-7)), "UNKNOWN");
        assert_eq!(text(lh_reason_name(1)), "EXPIRED");
        assert!(lh_reason_name(0).is_null());
    }
}
