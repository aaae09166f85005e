//! What the core has to say, as records for the host's own logging.
//!
//! Records go through a completion queue like everything else, because a host's logger is foreign code. A host that does not
//! keep up loses the newest ones, and is told how many.

use std::{
    fmt::{self, Write},
    sync::{
        Arc, PoisonError, RwLock,
        atomic::{AtomicU8, AtomicU64, Ordering},
    },
};

use leasehold::{Code, Error, Result, process::PerProcess};
use tracing::{
    Event, Metadata, Subscriber,
    field::{Field, Visit},
    span,
    subscriber::Interest,
};

use crate::completion::{Outcome, Promise, Queue, Sink};

/// Records on their way beyond which new ones are dropped.
const MOST_WAITING: u64 = 1024;

/// How bad it is. A record's level, or the least that a host wants to hear.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Level {
    /// Nothing.
    Off = 0,
    /// A bug of ours.
    Error = 1,
    /// Something that its users should know.
    Warn = 2,
    /// Seldom and noteworthy.
    Info = 3,
    /// What happens.
    Debug = 4,
    /// All of it.
    Trace = 5,
}

impl Level {
    /// The level with this number, as hosts have it.
    pub fn from_number(number: i32) -> Option<Self> {
        let levels = [Self::Off, Self::Error, Self::Warn, Self::Info, Self::Debug, Self::Trace];
        usize::try_from(number).ok().and_then(|number| levels.get(number).copied())
    }
}

/// One line for the log.
#[derive(Debug)]
pub struct LogRecord {
    /// How bad it is.
    pub level: Level,
    /// The module it comes from.
    pub target: &'static str,
    /// What happened, with its details as `name=value`.
    pub message: String,
    waiting: Arc<AtomicU64>,
}

impl Drop for LogRecord {
    fn drop(&mut self) {
        self.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Where this process's records go.
static LISTENER: PerProcess<RwLock<Option<Listener>>> = PerProcess::new();
/// The least level that somebody wants; 0 for none.
static LEVEL: AtomicU8 = AtomicU8::new(0);

struct Listener {
    sink: Sink,
    promise: Promise,
    waiting: Arc<AtomicU64>,
    dropped: AtomicU64,
}

/// Sends records of `level` and worse to `sink` from now on, as [`Outcome::Log`]; ends what was listening before. A forked
/// child hears nothing until it listens itself.
///
/// # Errors
/// [`Code::Unsupported`] if this process has a log collector of Rust's already.
pub fn listen(level: Level, sink: Sink) -> Result<()> {
    if !is_collecting() && tracing::subscriber::set_global_default(Collector).is_err() && !is_collecting() {
        let message = "the program collects the records of `tracing` already; read leasehold's there";
        return Err(Error::new(Code::Unsupported, message));
    }
    let listener =
        Listener { promise: Promise::new(sink.clone()), sink, waiting: Arc::default(), dropped: AtomicU64::new(0) };
    replace(|_| true, level, Some(listener));
    Ok(())
}

/// Sends no more records; the listener gets its last completion.
pub fn stop() {
    replace(|_| true, Level::Off, None);
}

/// Stops if the records go into `queue`, which is closed.
pub(crate) fn forget(queue: &Queue) {
    let is_into = |listener: &Listener| listener.sink.queue().is_some_and(|of| std::ptr::eq(of, queue));
    replace(|listener| listener.is_some_and(is_into), Level::Off, None);
}

fn is_collecting() -> bool {
    tracing::dispatcher::get_default(|dispatch| dispatch.is::<Collector>())
}

fn replace(which: impl FnOnce(Option<&Listener>) -> bool, level: Level, by: Option<Listener>) {
    let mut listener = LISTENER.get().write().unwrap_or_else(PoisonError::into_inner);
    if !which(listener.as_ref()) {
        return;
    }
    LEVEL.store(level as u8, Ordering::Relaxed);
    let before = std::mem::replace(&mut *listener, by);
    drop(listener);
    // After the lock, and after its last record.
    if let Some(before) = before {
        before.promise.complete(Ok(Outcome::Done));
    }
}

/// Turns events of `tracing` into records. Spans are not kept: they are for programs in Rust.
struct Collector;

impl Subscriber for Collector {
    fn register_callsite(&self, metadata: &'static Metadata<'static>) -> Interest {
        if is_ours(metadata) { Interest::sometimes() } else { Interest::never() }
    }

    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        is_ours(metadata) && level_of(metadata) as u8 <= LEVEL.load(Ordering::Relaxed)
    }

    fn event(&self, event: &Event<'_>) {
        let listener = LISTENER.get().read().unwrap_or_else(PoisonError::into_inner);
        let Some(listener) = &*listener else { return };
        if listener.waiting.load(Ordering::Relaxed) >= MOST_WAITING {
            listener.dropped.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let mut text = Text::default();
        event.record(&mut text);
        let dropped = listener.dropped.swap(0, Ordering::Relaxed);
        if dropped > 0 {
            // Writing into a string cannot fail.
            let _ = write!(text.fields, " records_dropped_before={dropped}");
        }
        listener.waiting.fetch_add(1, Ordering::Relaxed);
        listener.sink.report(Outcome::Log(LogRecord {
            level: level_of(event.metadata()),
            target: event.metadata().target(),
            message: text.message + &text.fields,
            waiting: listener.waiting.clone(),
        }));
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

fn is_ours(metadata: &Metadata<'_>) -> bool {
    metadata.is_event() && metadata.target().starts_with("leasehold")
}

fn level_of(metadata: &Metadata<'_>) -> Level {
    match *metadata.level() {
        tracing::Level::ERROR => Level::Error,
        tracing::Level::WARN => Level::Warn,
        tracing::Level::INFO => Level::Info,
        tracing::Level::DEBUG => Level::Debug,
        tracing::Level::TRACE => Level::Trace,
    }
}

#[derive(Default)]
struct Text {
    message: String,
    fields: String,
}

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        // Writing into a string cannot fail.
        let _ = if field.name() == "message" {
            write!(self.message, "{value:?}")
        } else {
            write!(self.fields, " {}={value:?}", field.name())
        };
    }
}
