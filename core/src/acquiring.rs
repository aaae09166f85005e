//! An acquire on its way: what locks of one name and of several have in common.

use std::{sync::Arc, time::Duration};

use tokio::sync::oneshot;
use tracing::Instrument;

use crate::{
    client::Client,
    engine::{self, Command, Won},
    error::Result,
    guard::Guard,
    hub::{Acquire, Want},
    options::whole_seconds,
    terms::{Mode, Sharing, Ticket},
    text,
};

/// How something is to be acquired and held.
#[derive(Clone, Copy, Debug)]
pub(crate) struct How {
    pub(crate) ttl: Option<Duration>,
    pub(crate) renew: bool,
    pub(crate) requeue: bool,
    pub(crate) sharing: Sharing,
}

impl Default for How {
    fn default() -> Self {
        Self { ttl: None, renew: true, requeue: true, sharing: Sharing::default() }
    }
}

impl How {
    /// Whether nothing was said.
    pub(crate) fn is_default(&self) -> bool {
        self.ttl.is_none() && self.renew && self.requeue && !self.sharing.is_some()
    }

    /// The TTL of the hold.
    pub(crate) fn whole_ttl(&self, client: &Client) -> Result<Duration> {
        self.ttl.map_or(Ok(client.ttl()), whole_seconds)
    }

    /// What is asked of the engine. The value is that of the keys, and may be what a candidate proclaims.
    pub(crate) fn acquire(
        &self,
        client: &Client,
        wants: Vec<Want>,
        (value, is_candidate): (Arc<[u8]>, bool),
        limit: Option<Duration>,
    ) -> Result<Acquire> {
        Ok(Acquire {
            wants,
            mode: if limit == Some(Duration::ZERO) { Mode::Try } else { Mode::Wait },
            ttl: self.whole_ttl(client)?,
            renew: self.renew,
            requeue: self.requeue,
            sharing: self.sharing,
            wait: limit.filter(|limit| !limit.is_zero()),
            value,
            is_candidate,
        })
    }
}

/// Starts an acquire; `name` is what its guard is called by. `answer` is told once what came of it.
pub(crate) fn begin(
    client: &Client,
    name: &Arc<str>,
    is_elected: bool,
    wanted: Result<Acquire>,
    answer: impl FnOnce(Result<Guard>) + Send + 'static,
) -> Acquiring {
    let ticket = client.next_ticket();
    match wanted {
        Ok(wanted) => {
            let (owner, name) = (client.clone(), name.clone());
            let answer = move |result: Result<Won>| answer(result.map(|won| Guard::new(owner, name, won, is_elected)));
            client.send(Command::Acquire(ticket, Box::new(wanted), Box::new(answer)));
        }
        Err(error) => answer(Err(error)),
    }
    Acquiring { client: client.clone(), ticket }
}

/// What there is to cancel of an acquire that was answered at once.
pub(crate) fn over(client: &Client) -> Acquiring {
    Acquiring { client: client.clone(), ticket: client.next_ticket() }
}

/// An acquire of `name`, when it is first polled: what `take` finds, or what `begin` begins. It owns what it needs.
pub(crate) async fn request<B>(
    name: Arc<str>,
    take: impl FnOnce() -> Option<Guard> + Send + 'static,
    begin: B,
) -> Result<Guard>
where
    B: FnOnce(Box<dyn FnOnce(Result<Guard>) + Send>) -> Acquiring + Send + 'static,
{
    let span = tracing::info_span!("acquire", lock = %text::excerpt(&name));
    let acquire = async move {
        if let Some(guard) = take() {
            return Ok(guard);
        }
        let (answer, acquired) = oneshot::channel();
        // A guard that comes when nobody waits for it any more is released by its drop.
        let acquiring = begin(Box::new(move |result| drop(answer.send(result))));
        let mut cancel = CancelOnDrop { acquiring, is_answered: false };
        let result = acquired.await;
        cancel.is_answered = true;
        result.unwrap_or_else(|_| Err(engine::ended()))
    };
    // The hold is a span beside it, not within: it goes on when the acquire is over.
    acquire.instrument(span).await.map(Guard::with_span)
}

/// What came of a try.
pub(crate) fn tried(result: Result<Guard>) -> Result<Option<Guard>> {
    match result {
        Ok(guard) => Ok(Some(guard)),
        Err(error) if error.is_not_acquired() => Ok(None),
        Err(error) => Err(error),
    }
}

/// An acquire that is on its way, or was.
#[doc(hidden)]
#[derive(Clone, Debug)]
pub struct Acquiring {
    client: Client,
    ticket: Ticket,
}

impl Acquiring {
    /// Gives it up. The answer comes when the key is withdrawn: [`Code::Cancelled`](crate::Code::Cancelled), or the guard if that
    /// was won before.
    pub fn cancel(&self) {
        self.client.send(Command::Cancel(self.ticket));
    }
}

/// Tells the engine when nobody waits for an acquire any more.
struct CancelOnDrop {
    acquiring: Acquiring,
    is_answered: bool,
}

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        if !self.is_answered {
            self.acquiring.cancel();
        }
    }
}
