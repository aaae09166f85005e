//! A distributed lock on etcd v3: leases renewed in time, waiters in the order of their revisions, fencing tokens. It runs on
//! Linux, and building it needs `protoc` with its include files (Debian: `apt-get install protobuf-compiler libprotobuf-dev`).
//!
//! ```no_run
//! # async fn example() -> leasehold::Result<()> {
//! let client = leasehold::Client::new("http://127.0.0.1:2379")?;
//! let guard = client.lock("/lock/mylock").acquire().await?;
//! // … write somewhere, along with guard.token() …
//! guard.release().await?;
//! client.close().await
//! # }
//! ```
//!
//! [`Client`] makes [`Lock`]s, a lock gives a [`Guard`], and the guard is the proof that its owner holds the lock: not a
//! thread, not a task.
//!
//! # What a lock gives, and what it cannot give
//!
//! - **One owner at a time**, as far as etcd and the clocks can tell. Owners take turns in the order in which they queued,
//!   across processes, languages and hosts, together with `etcdctl lock` and Go's `concurrency.Mutex`.
//! - **A crash frees the lock** after its TTL (15 s unless told otherwise), a lost connection does not lose it: leases are
//!   renewed by a thread of our own, over several endpoints, whatever the program does with its threads and runtimes.
//! - **A loss is told.** A process that was frozen for longer than the TTL sees [`Guard::is_held`] answer `false` at its first
//!   call, and [`Guard::lost`], [`Guard::ended`] and [`Guard::run`] stop work that runs meanwhile.
//! - **It cannot stop a write that is on its way** when the lock is lost: no lock with a lease can. That takes a *fencing
//!   token*: [`Guard::token`] grows with every owner of a name. Send it along with each write and let the receiver refuse a
//!   smaller one than it has seen; for what you write into etcd itself, [`Guard::put`] and [`Guard::txn`] do that.
//!
//! # Acquire, in your way
//!
//! ```
//! # use std::time::Duration;
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let client = leasehold::Client::new("memory://acquire")?;
//! let lock = client.lock("/orders/42");
//! let guard = lock.acquire().await?;                                 // as long as it takes
//! guard.release().await?;
//! let guard = lock.acquire_within(Duration::from_secs(5)).await?;    // NOT_ACQUIRED after 5 s
//! drop(guard);                                                       // released in the background
//! if let Some(guard) = lock.try_acquire().await? {                   // does not wait
//!     guard.release().await?;
//! }
//! let acquiring = tokio::spawn(lock.acquire());                      // the future owns what it needs
//! acquiring.await??.release().await?;
//! # Ok(()) }
//! ```
//!
//! Dropping such a future is safe at any time: the key is withdrawn in the background, and a lock that was won at that moment
//! is released. Threads without a runtime block:
//!
//! ```
//! # fn main() -> leasehold::Result<()> {
//! # let client = leasehold::Client::new("memory://blocking")?;
//! let guard = client.lock("/orders/42").blocking_acquire()?;
//! guard.blocking_release()?;
//! client.blocking_close()
//! # }
//! ```
//!
//! # Share it, count it, take several
//!
//! Every kind stands in the same queue: first come, first served, with a token, and nobody overtakes. A reader waits for a writer that
//! came before it; a request for many permits is not overtaken by requests for few.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> leasehold::Result<()> {
//! # let client = leasehold::Client::new("memory://kinds")?;
//! let reader = client.lock("/config").shared().acquire().await?;     // beside other readers; the plain lock is the writer
//! let two = client.semaphore("/gpu", 8).permits(2).acquire().await?; // two of eight
//! drop((reader, two));
//! // All of them or none, and no order of names ever deadlocks.
//! let guard = client.all([client.lock("/account/1"), client.lock("/account/2")]).acquire().await?;
//! guard.release().await
//! # }
//! ```
//!
//! # Stop in time
//!
//! [`Guard::run`] runs work that must not go on without the lock:
//!
//! ```
//! # async fn migrate() {}
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let client = leasehold::Client::new("memory://run")?;
//! let guard = client.lock("/jobs/migration").acquire().await?;
//! guard.run(migrate()).await?; // LOST, and the work is dropped, as soon as the lock is
//! guard.release().await?;      // LOST if it was lost before
//! # Ok(()) }
//! ```
//!
//! [`Client::states`] warns before it comes to that: a session is [`Suspect`](SessionState::Suspect) while a renewal is
//! overdue.
//!
//! # Elect a leader
//!
//! An [`Election`] is a lock whose holder says something. [`Election::campaign`] waits until it leads, [`Guard::proclaim`] says
//! something else, [`Election::leader`] asks who leads, and [`Election::observe`] tells of every change, without a place in the queue.
//!
//! # Errors
//!
//! Every error has a [`Code`], stable and the same in all languages that leasehold speaks, and a message that says what to do.
//! What to expect: [`Code::NotAcquired`] where somebody else has the lock, [`Code::Lost`] where it was ours,
//! [`Code::Unavailable`] and [`Code::DeadlineExceeded`] where etcd cannot be reached or does not answer.
//!
//! # Test your program
//!
//! A client of `memory://name` has an etcd inside the process, with all that the real one does: queues, leases, losses.
//! [`Lock::force_release`] takes a lock away from its owner, to see what the program does then.
//!
//! # Watch it
//!
//! [`Client::metrics`] counts and times: acquires by outcome, holds, losses, renewals and the time they had left, requests; as
//! values, and as text in the format of OpenMetrics. Records go to [`tracing`](https://docs.rs/tracing).
//!
//! # The inside
//!
//! The modules below are state machines without I/O and the stores they speak to. They are public for the project's own
//! simulator, search and tests, and may change with every version.

mod acquiring;
mod all;
mod client;
mod contender;
mod election;
mod engine;
mod error;
mod few;
mod guard;
mod hold;
mod loan;
mod lock;
mod metrics;
mod observer;
mod options;
mod states;
mod text;
mod watch;

#[doc(hidden)]
pub mod backoff;
#[doc(hidden)]
pub mod cleaner;
#[doc(hidden)]
pub mod clock;
#[doc(hidden)]
pub mod fuzzing;
#[doc(hidden)]
pub mod hub;
#[doc(hidden)]
pub mod observing;
#[doc(hidden)]
pub mod process;
#[doc(hidden)]
pub mod queue;
#[doc(hidden)]
pub mod runtime;
#[doc(hidden)]
pub mod session;
#[doc(hidden)]
pub mod store;
#[doc(hidden)]
pub mod terms;

pub use acquiring::Acquiring;
pub use all::All;
pub use client::Client;
pub use contender::Contender;
pub use election::{Election, Leader};
pub use error::{Code, Error, LostReason, Result};
pub use guard::{Committed, Guard, GuardedTxn};
pub use hold::End;
pub use lock::Lock;

pub use metrics::{Family, Metrics, Sample, Value};
pub use observer::{Observed, Observer};
pub use options::ClientOptions;
pub use queue::admission::Claim;
pub use states::{SessionState, SessionStatus, States};
pub use terms::LocalFirst;
