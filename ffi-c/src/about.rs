//! What this library is, and how much of it lives.

use std::{
    ffi::{CString, c_char},
    time::Duration,
};

use leasehold_bridge::{Code, Error, Result, VERSION, client::milliseconds, live, shutdown};
use once_cell::race::OnceBox;

use crate::entry::{Options, invalid, known_size};

/// The version of the binary interface: that of LH_ABI_VERSION in the header that the library was built with. A program
/// that loads the library by hand compares it with its own. Whoever is linked with it need not: the loader compares sonames.
#[unsafe(no_mangle)]
pub extern "C" fn lh_abi_version() -> i32 {
    ABI_VERSION
}

/// Changes with the library's soname, which build.rs makes of the same two numbers.
const ABI_VERSION: i32 = match number(env!("CARGO_PKG_VERSION_MAJOR")) {
    0 => number(env!("CARGO_PKG_VERSION_MINOR")),
    major => major * 1000,
};

const fn number(text: &str) -> i32 {
    match i32::from_str_radix(text, 10) {
        Ok(number) => number,
        Err(_) => panic!("cargo gives a number"),
    }
}

/// The version of the library, such as "0.1.0". Never NULL, never to be freed.
#[unsafe(no_mangle)]
pub extern "C" fn lh_version() -> *const c_char {
    static TEXT: OnceBox<CString> = OnceBox::new();
    TEXT.get_or_init(|| Box::new(CString::new(VERSION).unwrap_or_default())).as_ptr()
}

/// How much of the library lives: what leak tests compare.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct lh_live {
    /// Set it to sizeof(lh_live).
    pub size: usize,
    /// Clients that are not freed, or still in use.
    pub clients: u64,
    /// Guards that are not freed, or still in use.
    pub guards: u64,
    /// Operations that are not over.
    pub operations: u64,
    /// Loops that are not closed, and the callback thread's.
    pub loops: u64,
}

// SAFETY: repr(C), size first, and made of numbers.
unsafe impl Options for lh_live {
    const NAME: &'static str = "lh_live";
    const FIRST_SIZE: usize = 40;
}

/// Fills in as much of the host's struct as it says it has.
///
/// # Safety
/// `live` is NULL, or points to a struct that is as large as it says at its start.
pub(crate) unsafe fn count(live: *mut lh_live) -> Result<()> {
    // SAFETY: the caller promises it.
    let Some(size) = (unsafe { known_size(live) })? else { return Err(invalid("live is NULL")) };
    let live::Live { clients, guards, operations, queues } = live::count();
    let counted = lh_live { size, clients, guards, operations, loops: queues };
    // SAFETY: the host's struct is as large as it says, and that is no more than ours.
    unsafe { live.cast::<u8>().copy_from_nonoverlapping((&raw const counted).cast(), size) };
    Ok(())
}

pub(crate) fn close_all(limit_ms: i64) -> Result<()> {
    let limit = milliseconds(limit_ms).unwrap_or(Duration::MAX);
    if shutdown::close_all(limit) {
        return Ok(());
    }
    let message = format!("not every client was closed within {limit:?}; what is left in etcd ends with its lease");
    Err(Error::new(Code::DeadlineExceeded, message))
}

#[cfg(test)]
mod tests {
    #[test]
    fn header_and_library_have_one_version() {
        let header = include_str!("../../include/leasehold.h");
        assert!(header.contains(&format!("#define LH_ABI_VERSION {}\n", super::ABI_VERSION)));
    }
}
