//! A struct of C together with what it points to: lent to a callback, or given away until the host frees it.

/// Both are on the heap, and stay where they are.
#[repr(C)]
pub(crate) struct Kept<C, Data> {
    // First, so that a pointer to it is a pointer to all of it.
    as_c: C,
    _data: Data,
}

impl<C, Data> Kept<C, Data> {
    /// `as_c` points into `data`, at what does not move when that does.
    pub(crate) fn new(as_c: C, data: Data) -> Box<Self> {
        Box::new(Self { as_c, _data: data })
    }

    /// For as long as this lives.
    pub(crate) fn as_c(&self) -> *const C {
        &raw const self.as_c
    }

    /// Gives it away; `free` takes it back.
    pub(crate) fn into_c(self: Box<Self>) -> *mut C {
        Box::into_raw(self).cast()
    }

    /// # Safety
    /// `given` is NULL, or comes from `into_c` of this same type and is freed here only.
    pub(crate) unsafe fn free(given: *mut C) {
        if !given.is_null() {
            // SAFETY: the caller promises it.
            drop(unsafe { Box::from_raw(given.cast::<Self>()) });
        }
    }
}
