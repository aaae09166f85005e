//! An observer of an election as its user sees it: a stream of who leads.

use std::{
    collections::VecDeque,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::Notify;

use crate::{
    client::Client,
    election::Leader,
    engine::Command,
    error::{Code, Error, Result},
    observing::Sight,
    options::validate_name,
    process::{self, Process},
    terms::Ticket,
};

/// What is kept for an observer that does not listen: so many changes …
const KEPT: usize = 1_024;
/// … and so many bytes of proclamations. The newest change is kept whatever its size.
const KEPT_BYTES: usize = 4 << 20;

/// What an observer of an election sees: who leads now, and what it proclaims.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Observed {
    /// The leader; `None` while there is none.
    pub leader: Option<Leader>,
    /// Whether other changes may have come between this one and the one before: the connection to etcd was lost meanwhile, etcd was
    /// restored from a backup, or the observer did not listen for more than 1,024 changes or 4 MiB. `false` says that there was
    /// none.
    pub is_after_gap: bool,
}

/// Tells who leads an election, from now on; made by [`Election::observe`](crate::Election::observe). It holds no place in the
/// queue and no lease. It ends when it is dropped or its client is closed.
///
/// ```
/// # tokio::runtime::Runtime::new().unwrap().block_on(async {
/// # let client = leasehold::Client::new("memory://observe")?;
/// let election = client.election("/jobs/scheduler");
/// let mut observer = election.observe();
/// assert_eq!(observer.next().await?.leader, None);
/// let guard = election.campaign("10.0.0.7:8080").await?;
/// assert_eq!(observer.next().await?.leader.unwrap().value, b"10.0.0.7:8080");
/// # guard.release().await?;
/// # Ok::<(), leasehold::Error>(()) }).unwrap();
/// ```
#[must_use = "an observer that is dropped sees nothing"]
pub struct Observer {
    client: Client,
    ticket: Ticket,
    mailbox: Arc<Mailbox>,
    /// The process that began it: after a fork, what it sees is the parent's.
    process: Process,
}

impl Observer {
    pub(crate) fn new(client: Client, name: &Arc<str>) -> Self {
        let (ticket, mailbox) = (client.next_ticket(), Arc::new(Mailbox::default()));
        match validate_name(name) {
            Ok(()) => client.send(Command::Observe(ticket, name.clone(), mailbox.clone())),
            Err(error) => mailbox.end(error),
        }
        Self { client, ticket, mailbox, process: process::current() }
    }

    /// Waits for the next change: at first who leads now, then every new leader, the end of every leadership that nobody follows at
    /// once, and every proclamation of the leader, in the order in which etcd has made them. Waits for as long as it takes; a
    /// lost connection is no error, and [`Observed::is_after_gap`] tells what it may have hidden.
    ///
    /// # Errors
    /// At first [`Code::Unavailable`] or [`Code::DeadlineExceeded`] if etcd does not answer within the request timeout, and
    /// [`Code::InvalidArgument`] for a bad name. At any time [`Code::PermissionDenied`] or [`Code::Unauthenticated`],
    /// [`Code::Closed`] when the client is closed, [`Code::Forked`] in a forked child. An observer that has failed stays so.
    ///
    /// # Cancel safety
    /// No change is lost when the future is dropped.
    pub async fn next(&mut self) -> Result<Observed> {
        if self.is_forked() {
            let message = "this observer belongs to the parent process; observe the election in this one";
            return Err(Error::new(Code::Forked, message));
        }
        let sight = self.mailbox.take().await?;
        Ok(Observed { leader: sight.leader.map(Leader::from), is_after_gap: sight.is_after_gap })
    }

    /// [`Observer::next`] for threads without a runtime: blocks the thread.
    ///
    /// # Errors
    /// As [`Observer::next`].
    pub fn blocking_next(&mut self) -> Result<Observed> {
        pollster::block_on(self.next())
    }

    fn is_forked(&self) -> bool {
        self.process != process::current()
    }
}

impl Drop for Observer {
    fn drop(&mut self) {
        if !self.is_forked() && !self.mailbox.has_ended() {
            self.client.send(Command::Unobserve(self.ticket));
        }
    }
}

impl fmt::Debug for Observer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Observer").field("ticket", &self.ticket).finish_non_exhaustive()
    }
}

/// What an observer has seen and its user has not taken yet. The engine puts in and never waits: where too much lies there, the
/// oldest goes, and what comes after it says so.
#[derive(Debug, Default)]
pub(crate) struct Mailbox {
    content: Mutex<Content>,
    filled: Notify,
}

#[derive(Debug, Default)]
struct Content {
    sights: VecDeque<Sight>,
    bytes: usize,
    /// Nothing more comes, for this reason.
    end: Option<Error>,
}

impl Content {
    fn pop(&mut self) -> Option<Sight> {
        let sight = self.sights.pop_front()?;
        self.bytes -= size(&sight);
        Some(sight)
    }
}

fn size(sight: &Sight) -> usize {
    sight.leader.as_ref().map_or(0, |leader| leader.value.len())
}

impl Mailbox {
    pub(crate) fn put(&self, sight: Sight) {
        let mut content = self.content();
        content.bytes += size(&sight);
        content.sights.push_back(sight);
        while content.sights.len() > 1 && (content.sights.len() > KEPT || content.bytes > KEPT_BYTES) {
            content.pop();
            if let Some(next) = content.sights.front_mut() {
                next.is_after_gap = true;
            }
        }
        drop(content);
        self.filled.notify_one();
    }

    /// Nothing more comes.
    pub(crate) fn end(&self, why: Error) {
        self.content().end.get_or_insert(why);
        self.filled.notify_one();
    }

    fn has_ended(&self) -> bool {
        self.content().end.is_some()
    }

    async fn take(&self) -> Result<Sight> {
        loop {
            {
                let mut content = self.content();
                if let Some(sight) = content.pop() {
                    return Ok(sight);
                }
                if let Some(why) = &content.end {
                    return Err(why.clone());
                }
            }
            // What is put in before this waits is not missed: one notice is kept.
            self.filled.notified().await;
        }
    }

    fn content(&self) -> MutexGuard<'_, Content> {
        self.content.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{queue::wire::Proclamation, store::Key};

    fn sight(at: i64, length: usize) -> Sight {
        let value = vec![b'x'; length].into();
        let leader = Some(Proclamation { key: Key::from("/e/1-1"), token: 1, value, revision: at });
        Sight { leader, at, is_after_gap: false }
    }

    /// All that lies there: the revision of each and whether it says that something is missing before it.
    fn all(mailbox: &Mailbox) -> Vec<(i64, bool)> {
        std::iter::from_fn(|| mailbox.content().pop()).map(|sight| (sight.at, sight.is_after_gap)).collect()
    }

    #[test]
    fn whoever_does_not_listen_misses_the_oldest_and_is_told_so() {
        let mailbox = Mailbox::default();
        let count = KEPT as i64 + 3;
        (1..=count).for_each(|at| mailbox.put(sight(at, 1)));
        let told = all(&mailbox);
        assert_eq!(told.len(), KEPT);
        assert_eq!(told[0], (4, true));
        assert!(told[1..].iter().all(|(_, is_after_gap)| !is_after_gap));
        assert_eq!(mailbox.content().bytes, 0);
    }

    #[test]
    fn the_newest_is_kept_whatever_its_size() {
        let mailbox = Mailbox::default();
        (1..=3).for_each(|at| mailbox.put(sight(at, KEPT_BYTES / 2)));
        assert_eq!(all(&mailbox), [(2, true), (3, false)]);
        mailbox.put(sight(4, KEPT_BYTES * 2));
        mailbox.put(sight(5, KEPT_BYTES * 2));
        assert_eq!(all(&mailbox), [(5, true)]);
    }

    #[test]
    fn what_was_seen_before_the_end_is_told_before_it() {
        let mailbox = Mailbox::default();
        mailbox.put(sight(1, 0));
        mailbox.end(Error::new(Code::Closed, "closed"));
        mailbox.end(Error::new(Code::Internal, "the second end does not count"));
        pollster::block_on(async {
            assert_eq!(mailbox.take().await.unwrap().at, 1);
            for _ in 0..2 {
                assert_eq!(mailbox.take().await.unwrap_err().code(), Code::Closed);
            }
        });
    }
}
