//! What all scenes share: the contenders, etcd, the book and the display, and what a contender does in an ordinary turn.

use std::time::Duration;

use anyhow::{Context, bail};
use leasehold::Lock;
use leasehold_demo::protocol::{Command, Event};
use tokio::time::{Instant, sleep};

use crate::{
    contenders::{Contenders, Happening},
    display::{Bars, Display},
    etcd::Etcd,
    ledger::Ledger,
};

/// How long a holder works between reading the number and writing it. Long enough to lose counts if somebody else did so at
/// the same time, and to see something on the terminal.
pub(crate) const WORK: Duration = Duration::from_millis(80);
/// How long a queue may take to stand.
const QUEUED_WITHIN: Duration = Duration::from_secs(10);

/// How far a contender goes by itself, once it was told to acquire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Plan {
    /// Reads, works, writes and releases.
    Turn,
    /// Stops in the middle of its work: it has read.
    UntilRead,
    /// Goes on holding after it has written.
    UntilWritten,
}

/// Where one contender is.
#[derive(Clone, Debug)]
pub(crate) struct Role {
    pub(crate) plan: Plan,
    /// Token and key of its last hold.
    pub(crate) token: i64,
    pub(crate) key: String,
    /// The number that it has read or written last.
    pub(crate) value: i64,
}

pub(crate) struct Stage<'a> {
    pub(crate) display: &'a Display,
    pub(crate) ledger: &'a mut Ledger,
    pub(crate) contenders: Contenders,
    pub(crate) roles: Vec<Role>,
    pub(crate) etcd: Etcd,
    /// The lock as an onlooker sees it.
    pub(crate) lock: Lock,
    pub(crate) counter: String,
    /// The moving part of the display that shows the turns, while it is there.
    pub(crate) bars: Option<Bars>,
}

/// Somebody in the queue, as `Lock::queue` shows it.
pub(crate) struct Place {
    pub(crate) who: usize,
    pub(crate) token: i64,
    pub(crate) since: String,
}

impl Stage<'_> {
    /// Lets a contender queue and then go as far as planned.
    pub(crate) async fn begin(&mut self, who: usize, plan: Plan) -> anyhow::Result<()> {
        self.roles[who].plan = plan;
        self.contenders.tell(who, Command::Acquire).await
    }

    /// Lets a holder release.
    pub(crate) async fn release(&mut self, who: usize) -> anyhow::Result<()> {
        self.ledger.lets_go(self.contenders.identity(who));
        // The next one may have the lock before this one knows that its release is confirmed.
        self.show(who, "releases");
        self.contenders.tell(who, Command::Release).await
    }

    /// The next event, after it has been noted and the contender has been told what its plan says.
    pub(crate) async fn next(&mut self) -> anyhow::Result<(usize, Event)> {
        loop {
            let (who, happening) = self.contenders.next().await?;
            let name = self.contenders.identity(who).to_owned();
            match happening {
                Happening::Worked => self.contenders.tell(who, Command::Write).await?,
                Happening::Complained(line) => self.display.line(format!("   {name}: {line}")),
                Happening::Said(event) => {
                    self.react(who, &name, &event).await?;
                    return Ok((who, event));
                }
            }
        }
    }

    async fn react(&mut self, who: usize, name: &str, event: &Event) -> anyhow::Result<()> {
        let role = &mut self.roles[who];
        match event {
            Event::Waiting => self.show(who, "waits"),
            Event::Acquired { token, key } => {
                (role.token, role.key) = (*token, key.clone());
                self.ledger.acquired(name, *token);
                self.show(who, &format!("holds, token {token}"));
                self.contenders.tell(who, Command::Read).await?;
            }
            Event::Read { value } => {
                role.value = *value;
                if role.plan != Plan::UntilRead {
                    self.contenders.work(who, WORK);
                }
            }
            // It was stopped before it could write; what comes of it now, the scene judges.
            Event::Counted { .. } | Event::Refused { .. } if role.plan == Plan::UntilRead => {}
            Event::Counted { value } => {
                role.value = *value;
                let is_turn = role.plan == Plan::Turn;
                self.ledger.counted(name, *value);
                if is_turn {
                    self.release(who).await?;
                }
            }
            Event::Refused { error, .. } => bail!("{name} lost the lock in an ordinary turn: {error}"),
            Event::Released => {
                if let Some(bars) = &self.bars {
                    bars.advance(who);
                    bars.state(who, "");
                }
            }
            Event::Failed { .. } => {} // ends the demo before it comes here
        }
        Ok(())
    }

    fn show(&self, who: usize, text: &str) {
        if let Some(bars) = &self.bars {
            bars.state(who, text);
        }
    }

    /// Waits until this very contender reports something that `is_it`.
    pub(crate) async fn until(&mut self, who: usize, is_it: impl Fn(&Event) -> bool) -> anyhow::Result<Event> {
        loop {
            let (from, event) = self.next().await?;
            if from == who && is_it(&event) {
                return Ok(event);
            }
        }
    }

    /// Waits until `size` contenders stand in the queue, and tells who, the holder first.
    pub(crate) async fn queue_of(&self, size: usize) -> anyhow::Result<Vec<Place>> {
        let deadline = Instant::now() + QUEUED_WITHIN;
        loop {
            let queue = self.lock.queue().await?;
            if queue.len() == size {
                let place = |contender: leasehold::Contender| {
                    let identity = contender.identity.unwrap_or_default();
                    let who = self.contenders.find(&identity);
                    let who = who.with_context(|| format!("a stranger stands in the queue: {}", contender.key))?;
                    // Of the date and time in UTC, a person wants the time.
                    let since = contender.since.unwrap_or_default();
                    let since = since.split(['T', 'Z']).nth(1).unwrap_or("?").to_owned();
                    Ok(Place { who, token: contender.token, since })
                };
                return queue.into_iter().map(place).collect();
            }
            if Instant::now() > deadline {
                bail!("{} instead of {size} stand in the queue after {QUEUED_WITHIN:?}", queue.len());
            }
            sleep(Duration::from_millis(10)).await;
        }
    }
}
