//! Handles: 64-bit ids for languages that cannot hold a reference.
//!
//! An id carries the generation of its slot: one that was freed is noticed, whatever has taken its place. What a handle stands
//! for lives as long as a call uses it, so it can be closed meanwhile.
//!
//! A forked child sees its parent's handles. So the one lock here is held during the fork, by the thread that forks
//! ([`fork`]): the child finds the table whole. Nothing is called while it is held.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use once_cell::race::OnceBox;
use slotmap::{DefaultKey, Key, KeyData, SlotMap};

use crate::{Cancel, Client, Guard, Queue, Result, client::stale, fork};

static TABLES: OnceBox<Mutex<Tables>> = OnceBox::new();

/// One table for each kind.
#[derive(Default)]
pub struct Tables {
    clients: Table<Client>,
    guards: Table<Guard>,
    queues: Table<Queue>,
    cancels: Table<Cancel>,
    /// Every client that is not freed, with or without a handle: for the end of the process.
    pub(crate) open: SlotMap<DefaultKey, Weak<Client>>,
}

type Table<T> = SlotMap<DefaultKey, Arc<T>>;

/// What a handle can stand for.
pub trait Handle: Sized + 'static {
    /// What hosts call it.
    const NAME: &'static str;

    /// The table of its kind.
    fn table(tables: &mut Tables) -> &mut SlotMap<DefaultKey, Arc<Self>>;
}

macro_rules! handle {
    ($kind:ty, $table:ident, $name:literal) => {
        impl Handle for $kind {
            const NAME: &'static str = $name;

            fn table(tables: &mut Tables) -> &mut Table<Self> {
                &mut tables.$table
            }
        }
    };
}

handle!(Client, clients, "client");
handle!(Guard, guards, "guard");
handle!(Queue, queues, "loop");
handle!(Cancel, cancels, "cancel handle");

/// Gives out an id. Never 0.
pub fn insert<T: Handle>(value: Arc<T>) -> u64 {
    fork::watch();
    T::table(&mut tables()).insert(value).data().as_ffi()
}

/// What an id stands for; `None` if it is stale, or was never given out.
pub fn get<T: Handle>(id: u64) -> Option<Arc<T>> {
    T::table(&mut tables()).get(key(id)).cloned()
}

/// Frees an id. What it stood for lives on while calls use it.
pub fn remove<T: Handle>(id: u64) -> Option<Arc<T>> {
    T::table(&mut tables()).remove(key(id))
}

/// What an id stands for.
///
/// # Errors
/// [`Code::InvalidArgument`](crate::Code::InvalidArgument) if it is stale, or was never given out.
pub fn find<T: Handle>(id: u64) -> Result<Arc<T>> {
    get(id).ok_or_else(|| stale(T::NAME))
}

/// Frees an id, and brings what it stood for.
///
/// # Errors
/// As [`find`].
pub fn take<T: Handle>(id: u64) -> Result<Arc<T>> {
    remove(id).ok_or_else(|| stale(T::NAME))
}

fn key(id: u64) -> DefaultKey {
    KeyData::from_ffi(id).into()
}

pub(crate) fn tables() -> MutexGuard<'static, Tables> {
    TABLES.get_or_init(Box::default).lock().unwrap_or_else(PoisonError::into_inner)
}
