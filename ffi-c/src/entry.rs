//! Where C enters: panics become statuses, pointers become references, and NULL becomes a status, not a crash.

use std::{
    ffi::{CStr, c_char, c_int},
    mem::{MaybeUninit, size_of},
    slice,
};

use leasehold_bridge::{Code, Error, OpId, Outcome, Result, Sink, VERSION, Waiter, panics};

use crate::{error::lh_error, status::OK};

/// Runs an entry point, and copies what went wrong to `error`.
///
/// # Safety
/// `error` is NULL, or points to memory for an `lh_error`.
pub(crate) unsafe fn enter(error: *mut lh_error, body: impl FnOnce() -> Result<()>) -> i32 {
    let _whole = Uncancelled::begin();
    match panics::catch(body) {
        Ok(()) => {
            // SAFETY: the caller promises it.
            unsafe { lh_error::clear(error) };
            OK
        }
        Err(wrong) => {
            // SAFETY: as above.
            unsafe { lh_error::set(error, &wrong) };
            wrong.code().number()
        }
    }
}

/// While it lives, `pthread_cancel` of this thread is put off: it unwinds from within a write, say, and the process would end where
/// that meets a frame of Rust.
struct Uncancelled(c_int);

impl Uncancelled {
    fn begin() -> Self {
        // As each system numbers it.
        let disable = if cfg!(target_vendor = "apple") { 0 } else { 1 };
        let mut before = 0;
        // SAFETY: it is always allowed, and `before` is a place for what it was.
        unsafe { pthread_setcancelstate(disable, &raw mut before) };
        Self(before)
    }
}

impl Drop for Uncancelled {
    fn drop(&mut self) {
        // SAFETY: as above.
        unsafe { pthread_setcancelstate(self.0, std::ptr::null_mut()) };
    }
}

unsafe extern "C" {
    fn pthread_setcancelstate(state: c_int, before: *mut c_int) -> c_int;
}

/// The blocking form of an operation that brings nothing. `prepare` checks what was given, as for the asynchronous form.
///
/// # Safety
/// As [`enter`].
pub(crate) unsafe fn now<B: FnOnce(Sink) -> OpId>(error: *mut lh_error, prepare: impl FnOnce() -> Result<B>) -> i32 {
    // SAFETY: the caller promises it.
    unsafe { enter(error, || block(prepare()?).map(drop)) }
}

/// The blocking form of an operation that brings something: `take` makes of the outcome what the host finds in `place`.
///
/// # Safety
/// As [`enter`], and the place is still one.
pub(crate) unsafe fn brings<T, B: FnOnce(Sink) -> OpId>(
    place: Result<Out<T>>,
    error: *mut lh_error,
    prepare: impl FnOnce() -> Result<B>,
    take: impl FnOnce(Outcome) -> Result<T>,
) -> i32 {
    let body = || {
        let place = place?;
        let outcome = block(prepare()?)?;
        place.set_with(|| take(outcome))
    };
    // SAFETY: the caller promises it.
    unsafe { enter(error, body) }
}

/// Starts an operation and blocks until it is over.
pub(crate) fn block(begin: impl FnOnce(Sink) -> OpId) -> Result<Outcome> {
    let waiter = Waiter::new();
    begin(waiter.sink());
    waiter.wait()
}

/// An argument that is wrong.
pub(crate) fn invalid(message: impl Into<String>) -> Error {
    Error::new(Code::InvalidArgument, message)
}

/// What an operation brought, which must be of this kind.
macro_rules! brought {
    ($outcome:expr, $kind:ident) => {
        match $outcome {
            leasehold_bridge::Outcome::$kind(value) => Ok(value),
            other => Err(crate::entry::unexpected(&other)),
        }
    };
}
pub(crate) use brought;

/// An operation that brought what it should not.
pub(crate) fn unexpected(outcome: &Outcome) -> Error {
    Error::new(Code::Internal, format!("an operation brought {outcome:?}, please report it"))
}

/// A place of the host's for a value of C: a number, a flag, a handle or a pointer. NULL where the host does not want it.
pub(crate) struct Out<T>(*mut T);

impl<T> Out<T> {
    /// The place, which holds zeros from now on.
    ///
    /// # Safety
    /// `place` is NULL, or points to memory for a `T` that stays valid while this lives.
    pub(crate) unsafe fn optional(place: *mut T) -> Self {
        if !place.is_null() {
            // SAFETY: the caller promises the memory, and nothing of ours reads it as a `T`.
            unsafe { place.write_bytes(0, 1) };
        }
        Self(place)
    }

    /// The place, which there must be.
    ///
    /// # Safety
    /// As [`Out::optional`].
    pub(crate) unsafe fn new(place: *mut T, name: &str) -> Result<Self> {
        if place.is_null() {
            return Err(invalid(format!("the pointer {name} is NULL: there must be a place for the result")));
        }
        // SAFETY: the caller promises it.
        Ok(unsafe { Self::optional(place) })
    }

    pub(crate) fn set(&self, value: T) {
        if !self.0.is_null() {
            // SAFETY: `optional` was promised that this is memory for a `T`. What is overwritten needs no drop: it is C's.
            unsafe { self.0.write(value) };
        }
    }

    /// Makes the value only if the host wants it.
    pub(crate) fn set_with(&self, value: impl FnOnce() -> Result<T>) -> Result<()> {
        if !self.0.is_null() {
            self.set(value()?);
        }
        Ok(())
    }
}

/// Answers a question that needs nobody else.
///
/// # Safety
/// `place` is NULL, or points to memory for a `T`.
pub(crate) unsafe fn tell<T>(place: *mut T, name: &str, ask: impl FnOnce() -> Result<T>) -> Result<()> {
    // SAFETY: the caller promises it.
    unsafe { Out::new(place, name) }?.set_with(ask)
}

/// A text of the host's.
///
/// # Safety
/// `text` is NULL, or points to bytes that end with NUL and stay as they are while the result is used.
pub(crate) unsafe fn text<'a>(text: *const c_char, name: &str) -> Result<&'a str> {
    // SAFETY: the caller promises it.
    let found = unsafe { optional_text(text, name) }?;
    found.ok_or_else(|| invalid(format!("the text {name} is NULL")))
}

/// A text of the host's that may be missing.
///
/// # Safety
/// As [`text`].
pub(crate) unsafe fn optional_text<'a>(text: *const c_char, name: &str) -> Result<Option<&'a str>> {
    if text.is_null() {
        return Ok(None);
    }
    // SAFETY: the caller promises it.
    let text = unsafe { CStr::from_ptr(text) };
    let not_utf8 = |error| invalid(format!("the text {name} is not UTF-8: {error}"));
    text.to_str().map(Some).map_err(not_utf8)
}

/// Bytes of the host's; NULL is none.
///
/// # Safety
/// `data` is NULL, or points to `len` bytes that stay as they are while the result is used.
pub(crate) unsafe fn bytes<'a>(data: *const u8, len: usize, name: &str) -> Result<&'a [u8]> {
    // SAFETY: the caller promises it; bytes have no alignment.
    unsafe { items(data, len, name) }
}

/// Several values of the host's; NULL is none.
///
/// # Safety
/// `data` is NULL, or points to `count` values of `T` that stay as they are while the result is used.
pub(crate) unsafe fn items<'a, T>(data: *const T, count: usize, name: &str) -> Result<&'a [T]> {
    match (data.is_null(), count) {
        (_, 0) => Ok(&[]),
        (true, _) => Err(invalid(format!("the pointer {name} is NULL, but its length is {count}"))),
        (false, _) if !data.is_aligned() || count > isize::MAX as usize / size_of::<T>() => {
            Err(invalid(format!("the pointer {name} is misaligned, or its length {count} is impossible")))
        }
        // SAFETY: the caller promises it, and the rest was checked.
        (false, _) => Ok(unsafe { slice::from_raw_parts(data, count) }),
    }
}

/// Copies a text and its NUL into a buffer of the host's. `needed` learns how large that must be, in any case.
///
/// # Safety
/// `buffer` is NULL or points to `size` bytes; `needed` is NULL or points to memory for a `usize`.
pub(crate) unsafe fn copy_text(text: &str, buffer: *mut c_char, size: usize, needed: *mut usize) -> Result<()> {
    // SAFETY: the caller promises it.
    unsafe { Out::optional(needed) }.set(text.len() + 1);
    if buffer.is_null() || size <= text.len() {
        if !buffer.is_null() && size > 0 {
            // SAFETY: there is room for one byte at least.
            unsafe { buffer.write(0) };
        }
        return Err(invalid(format!("the buffer has {size} bytes, and {} are needed", text.len() + 1)));
    }
    // SAFETY: the text and its NUL fit into the buffer.
    unsafe {
        buffer.cast::<u8>().copy_from_nonoverlapping(text.as_ptr(), text.len());
        buffer.add(text.len()).write(0);
    }
    Ok(())
}

/// A struct of the host's that says how large it is: `size` first, and 0 is the default of every field.
///
/// # Safety
/// The type is `repr(C)`, starts with a `usize` for its size, and any bytes make a value of it.
pub(crate) unsafe trait Options: Copy {
    /// The name, for messages.
    const NAME: &'static str;
    /// The size of the first version of this binary interface: a caller may be as old as that.
    const FIRST_SIZE: usize;
}

/// The size that a struct of the host's says it has, or `None` where there is none. Whatever stands there, nothing beyond the
/// field itself was read: a size that no version of this library knows is refused.
///
/// # Safety
/// `given` is NULL, or points to a struct that starts with a `usize`.
pub(crate) unsafe fn known_size<T: Options>(given: *const T) -> Result<Option<usize>> {
    if given.is_null() {
        return Ok(None);
    }
    // SAFETY: the caller promises that the struct starts with its size.
    let size = unsafe { given.cast::<usize>().read_unaligned() };
    let (name, right) = (T::NAME, size_of::<T>());
    if !(T::FIRST_SIZE..=right).contains(&size) {
        let message = format!(
            "the field size of {name} is {size}; set it to sizeof({name}), which is {right} for this library, {VERSION}"
        );
        return Err(invalid(message));
    }
    Ok(Some(size))
}

/// Options of the host's, or `None` where all are defaults.
///
/// # Safety
/// `given` is NULL, or points to as many readable bytes as the `size` at its start says.
pub(crate) unsafe fn options<T: Options>(given: *const T) -> Result<Option<T>> {
    // SAFETY: the caller promises it.
    let Some(size) = (unsafe { known_size(given) })? else { return Ok(None) };
    let mut options = MaybeUninit::<T>::zeroed();
    // SAFETY: `size` is at most the size of both; and any bytes, zeros too, make a value, as the trait promises.
    Ok(Some(unsafe {
        options.as_mut_ptr().cast::<u8>().copy_from_nonoverlapping(given.cast(), size);
        options.assume_init()
    }))
}
