//! Guarded transactions, as C writes and reads them.

use std::ptr;

use leasehold_bridge::{Committed, Result, guard::TxnOp};

use crate::{
    entry::{bytes, invalid, items},
    kept::Kept,
};

/// What an operation of a transaction does.
#[repr(C)]
pub enum lh_txn_kind {
    /// Writes `value` under `key`.
    LH_TXN_PUT = 1,
    /// Deletes `key`.
    LH_TXN_DELETE = 2,
    /// Reads `key`, after the writes that come before it.
    LH_TXN_GET = 3,
}

const PUT: i32 = lh_txn_kind::LH_TXN_PUT as i32;
const DELETE: i32 = lh_txn_kind::LH_TXN_DELETE as i32;
const GET: i32 = lh_txn_kind::LH_TXN_GET as i32;

/// One operation of a transaction. Keys are below the client's namespace. This struct will not grow.
#[repr(C)]
pub struct lh_txn_op {
    /// A number of lh_txn_kind.
    pub kind: i32,
    /// The key: `key_len` bytes.
    pub key: *const u8,
    /// See `key`.
    pub key_len: usize,
    /// The value to write: `value_len` bytes.
    pub value: *const u8,
    /// See `value`.
    pub value_len: usize,
}

/// A value that a transaction read. This struct will not grow.
#[repr(C)]
pub struct lh_value {
    /// Whether the key existed.
    pub found: bool,
    /// `len` bytes; NULL if the key did not exist.
    pub data: *const u8,
    /// See `data`.
    pub len: usize,
}

/// What a transaction did.
#[repr(C)]
pub struct lh_committed {
    /// The revision of etcd after it; if it wrote, the revision of its writes.
    pub revision: i64,
    /// How many keys were deleted.
    pub deleted: i64,
    /// How many values it read.
    pub count: usize,
    /// The values, in the order of the reads.
    pub values: *const lh_value,
}

/// What it did, the values, and their bytes.
pub(crate) type Done = Kept<lh_committed, (Vec<lh_value>, Vec<Option<Vec<u8>>>)>;

pub(crate) fn done(committed: Committed) -> Box<Done> {
    let bytes = committed.values;
    let values: Vec<_> = bytes
        .iter()
        .map(|value| lh_value {
            found: value.is_some(),
            data: value.as_ref().map_or(ptr::null(), |value| value.as_ptr()),
            len: value.as_ref().map_or(0, Vec::len),
        })
        .collect();
    let as_c = lh_committed {
        revision: committed.revision,
        deleted: committed.deleted,
        count: values.len(),
        values: values.as_ptr(),
    };
    Done::new(as_c, (values, bytes))
}

/// The operations that C wrote down.
///
/// # Safety
/// `ops` is NULL or points to `count` operations, and so do their keys and values.
pub(crate) unsafe fn operations(ops: *const lh_txn_op, count: usize) -> Result<Vec<TxnOp>> {
    // SAFETY: the caller promises it.
    let ops = unsafe { items(ops, count, "ops") }?;
    let read = |op: &lh_txn_op| {
        // SAFETY: as above.
        let key = unsafe { bytes(op.key, op.key_len, "key") }?.to_vec();
        match op.kind {
            PUT => {
                // SAFETY: as above.
                let value = unsafe { bytes(op.value, op.value_len, "value") }?.to_vec();
                Ok(TxnOp::Put { key, value })
            }
            DELETE => Ok(TxnOp::Delete { key }),
            GET => Ok(TxnOp::Get { key }),
            other => Err(invalid(format!("an operation has the kind {other}; it must be one of lh_txn_kind"))),
        }
    };
    ops.iter().map(read).collect()
}

/// Frees what lh_guard_txn brought; NULL is allowed. Only once, and not what a callback was given.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lh_committed_free(committed: *mut lh_committed) {
    // SAFETY: it comes from `lh_guard_txn`, as the header asks for.
    unsafe { Done::free(committed) }
}
