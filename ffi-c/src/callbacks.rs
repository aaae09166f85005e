//! Asynchronous operations: each has a callback of the host's, which is called exactly once for the last result, never by
//! the call that starts the operation, and never on a thread that renews leases.
//!
//! Results go through a queue of the bridge: that of a loop, which the host drains with `lh_dispatch`, or the one that the
//! thread `lh-callback` drains. Whoever takes an operation out of the table here calls its callback; so it is called once,
//! even where a loop is closed meanwhile.

use std::{
    cell::Cell,
    collections::HashMap,
    ffi::c_void,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use leasehold_bridge::{
    Code, Completion, Error, OpId, Queue, Result, Sink, block_signals, client::stale, fork::PerProcess, operation,
    panics,
};
use once_cell::sync::OnceCell;

use crate::{
    entry::{Out, enter, invalid},
    error::lh_error,
    handles::{StandsFor, lh_loop, lh_op},
    result::{lh_result, with_result},
};

/// A function of yours that receives the result of an operation. It may call everything in this header, blocking calls
/// too, but holds up the callbacks behind it meanwhile; so it must not wait for one of them, which would be for ever. It must
/// return: no longjmp, no C++ exception. The result, and what it points to, is valid during the call only; the guard in it is
/// yours.
pub type lh_callback = Option<unsafe extern "C" fn(user_data: *mut c_void, result: *const lh_result)>;

/// How the result of an operation finds its host.
pub(crate) struct Then {
    on_loop: lh_loop,
    callback: lh_callback,
    user_data: *mut c_void,
    op: Out<lh_op>,
}

impl Then {
    /// What the host gave; `op` is none until the operation is started.
    ///
    /// # Safety
    /// `op` is NULL, or points to memory for an `lh_op`.
    pub(crate) unsafe fn new(on_loop: lh_loop, callback: lh_callback, user_data: *mut c_void, op: *mut lh_op) -> Self {
        // SAFETY: the caller promises it.
        Self { on_loop, callback, user_data, op: unsafe { Out::optional(op) } }
    }
}

/// An operation whose last result has not been delivered.
#[derive(Clone, Copy)]
struct Pending {
    callback: unsafe extern "C" fn(*mut c_void, *const lh_result),
    user_data: *mut c_void,
    on_loop: u64,
    /// The bridge's number for it, once it is started.
    operation: Option<OpId>,
    /// Whether it was cancelled; perhaps before it was started: its first result can be faster than that.
    is_cancelled: bool,
}

// SAFETY: the pointer is the host's, who is told on which thread its callback gets it. We only carry it.
unsafe impl Send for Pending {}

impl Pending {
    fn call(&self, number: u64, completion: Completion) {
        with_result(number, completion, |result| {
            // SAFETY: the host gave this function for these arguments.
            unsafe { (self.callback)(self.user_data, result) };
        });
    }
}

/// By the numbers that the host and the queues know them by.
static PENDING: PerProcess<Mutex<HashMap<u64, Pending>>> = PerProcess::new();
static NEXT: AtomicU64 = AtomicU64::new(1);
/// The queue of the callback thread, once that was needed.
static THREAD: PerProcess<OnceCell<Arc<Queue>>> = PerProcess::new();
thread_local! {
    static IS_CALLBACK_THREAD: Cell<bool> = const { Cell::new(false) };
}

/// Results that are taken from a queue at a time.
const BATCH: usize = 64;

fn pending() -> MutexGuard<'static, HashMap<u64, Pending>> {
    PENDING.get().lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether the calling thread is lh-callback. A callback there that waits for another callback of that thread waits for ever:
/// what waits, as leasehold.hpp's futures do, asks this first.
#[unsafe(no_mangle)]
pub extern "C" fn lh_is_callback_thread() -> bool {
    IS_CALLBACK_THREAD.get()
}

/// The asynchronous form of an operation. `prepare` checks what was given, as for the blocking form.
///
/// # Safety
/// `error` is NULL, or points to memory for an `lh_error`; the place that `then` has for the operation is still one.
pub(crate) unsafe fn later<B: FnOnce(Sink) -> OpId>(
    then: Then,
    error: *mut lh_error,
    prepare: impl FnOnce() -> Result<B>,
) -> i32 {
    let body = || {
        let begin = prepare()?;
        // SAFETY: the caller promises it.
        unsafe { start(then, |sink| Ok(Some(begin(sink)))) }
    };
    // SAFETY: as above.
    unsafe { enter(error, body) }
}

/// Starts an operation. An error means that the callback is never called.
///
/// # Safety
/// The place that `then` has for the operation is still one.
pub(crate) unsafe fn start(then: Then, begin: impl FnOnce(Sink) -> Result<Option<OpId>>) -> Result<()> {
    let callback = then.callback.ok_or_else(|| invalid("the callback is NULL"))?;
    let queue = if then.on_loop.id == 0 { callback_thread()? } else { then.on_loop.ours()? };
    let (user_data, on_loop) = (then.user_data, then.on_loop.id);
    let entry = Entry::new(Pending { callback, user_data, on_loop, operation: None, is_cancelled: false });
    let number = entry.0;
    // Before it starts: the callback may be faster than this function.
    then.op.set(lh_op { id: number });
    let started = begin(queue.sink(number)).and_then(|operation| {
        if then.on_loop.id != 0 {
            // Closed meanwhile, it calls nobody back any more.
            then.on_loop.get()?;
        }
        Ok(operation)
    });
    match started {
        Ok(operation) => {
            let note = |pending: &mut Pending| {
                pending.operation = operation;
                pending.is_cancelled
            };
            let is_cancelled = pending().get_mut(&number).is_some_and(note);
            entry.keep();
            if is_cancelled {
                operation.map(operation::cancel);
            }
            Ok(())
        }
        Err(error) if entry.withdraw() => {
            then.op.set(lh_op::default());
            Err(error)
        }
        // Its loop was closed a moment ago, and has called it back, or is about to.
        Err(_) => Ok(()),
    }
}

/// An operation in the table that is taken out again unless it was started, also after a panic.
struct Entry(u64);

impl Entry {
    fn new(waiting: Pending) -> Self {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        pending().insert(number, waiting);
        Self(number)
    }

    fn keep(self) {
        std::mem::forget(self);
    }

    /// Takes it out, so that its callback is never called. False if somebody else was faster, and calls it.
    fn withdraw(&self) -> bool {
        pending().remove(&self.0).is_some()
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.withdraw();
    }
}

/// The queue of the callback thread, which is started by its first use in each process.
fn callback_thread() -> Result<Arc<Queue>> {
    let start = || {
        let queue = Queue::new();
        let drained = queue.clone();
        let run = move || {
            IS_CALLBACK_THREAD.set(true);
            block_signals();
            while let Some(completions) = drained.take(BATCH, Duration::MAX) {
                completions.into_iter().for_each(deliver);
            }
        };
        let failed = |error: std::io::Error| {
            Error::new(Code::ResourceExhausted, format!("could not start the thread lh-callback: {error}"))
        };
        std::thread::Builder::new().name("lh-callback".into()).spawn(run).map_err(failed)?;
        Ok(queue)
    };
    THREAD.get().get_or_try_init(start).cloned()
}

/// Calls the operation's callback. A result that nobody waits for is dropped, and a guard in it released.
fn deliver(completion: Completion) {
    let number = completion.tag;
    let found = {
        let mut pending = pending();
        if completion.is_last { pending.remove(&number) } else { pending.get(&number).copied() }
    };
    let Some(found) = found else { return };
    // What panics here is ours, not the callback: that is C, and what it throws ends the process before it gets here.
    let _ = panics::catch(|| {
        found.call(number, completion);
        Ok(())
    });
}

/// The descriptor of a loop; -1 where there is none.
///
/// # Safety
/// `fd` is NULL, or points to memory for a number.
pub(crate) unsafe fn poll_fd(on_loop: lh_loop, fd: *mut i32) -> Result<()> {
    // SAFETY: the caller promises it.
    let place = unsafe { Out::new(fd, "fd") }?;
    place.set(-1);
    place.set(on_loop.ours()?.fd().ok_or_else(|| stale("loop"))?);
    Ok(())
}

/// Calls what waits, at most a batch, and says how many there were.
pub(crate) fn dispatch(on_loop: lh_loop, count: Out<usize>) -> Result<()> {
    let completions = on_loop.ours()?.drain(BATCH);
    let found = completions.len();
    completions.into_iter().for_each(deliver);
    count.set(found);
    Ok(())
}

/// Closes a loop, and calls those back whom nothing else will call.
pub(crate) fn close(on_loop: lh_loop) -> Result<()> {
    on_loop.ours()?;
    // It cancels what would answer into it.
    on_loop.take()?.close();
    let left: Vec<_> = pending().extract_if(|_, pending| pending.on_loop == on_loop.id).collect();
    for (number, pending) in left {
        let closed = Error::new(Code::Closed, "the loop was closed before the operation was over");
        pending.call(number, Completion { tag: number, is_last: true, result: Err(closed) });
    }
    Ok(())
}

/// Cancels an operation that has been started, or is about to be.
pub(crate) fn cancel(op: lh_op) -> Result<()> {
    if op.id == 0 || op.id >= NEXT.load(Ordering::Relaxed) {
        return Err(invalid("this operation was never started"));
    }
    let note = |pending: &mut Pending| {
        pending.is_cancelled = true;
        pending.operation
    };
    let operation = pending().get_mut(&op.id).and_then(note);
    operation.map(operation::cancel);
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use leasehold_bridge::{Client, ClientOptions};

    use super::*;

    #[test]
    fn a_cancel_that_is_faster_than_the_start_is_not_lost() {
        unsafe extern "C" fn note(user_data: *mut c_void, result: *const lh_result) {
            // SAFETY: the result is the library's.
            let result = unsafe { &*result };
            if result.is_last {
                // SAFETY: this is the sender below, which is given to the last call: the test may be over before `send` returns.
                let ended = unsafe { Box::from_raw(user_data.cast::<mpsc::Sender<i32>>()) };
                ended.send(result.status).expect("somebody waits");
            }
        }
        let (ended, end) = mpsc::channel::<i32>();
        let ended = Box::into_raw(Box::new(ended));
        let client = Client::open(ClientOptions::new("memory://cancel")).unwrap();
        let mut op = lh_op::default();
        let place = &raw mut op;
        // SAFETY: the place of the operation lives until it is started, the sender until the last call takes it.
        let started = unsafe {
            let then = Then::new(lh_loop::default(), Some(note), ended.cast(), place);
            start(then, |sink| {
                let id = client.on_state(sink);
                // As from the callback, when the first state is faster than this function.
                cancel(place.read()).expect("it is about to start");
                Ok(Some(id))
            })
        };
        started.unwrap();
        let status = end.recv_timeout(Duration::from_secs(60)).expect("it goes on, although it was cancelled");
        assert_eq!(status, Code::Cancelled.number());
    }
}
