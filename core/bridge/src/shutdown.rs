//! The end of the process, or of a part of it: what is held is released, for as long as the host is willing to wait.

use std::{
    sync::{Arc, Weak},
    time::{Duration, Instant},
};

use crate::{Client, completion::Waiter, handles, sync::deadline};

/// Closes every client that this process has used and waits for that, for at most `limit`. Returns whether all of them were
/// closed in time; what was not released ends with its lease.
pub fn close_all(limit: Duration) -> bool {
    let clients: Vec<Arc<Client>> = handles::tables().open.values().filter_map(Weak::upgrade).collect();
    start(&clients).wait(limit)
}

/// Starts to close those of these clients that this process has used. It goes on whether somebody waits for it or not.
pub fn start<'a>(clients: impl IntoIterator<Item = &'a Arc<Client>>) -> Closing {
    let close = |client: &Arc<Client>| {
        let waiter = Waiter::new();
        client.close(waiter.sink());
        waiter
    };
    // For the others a thread would be started just to find out that there is nothing to do.
    let used = clients.into_iter().filter(|client| client.is_used());
    Closing(used.map(close).collect())
}

/// Clients that are being closed.
#[derive(Debug)]
pub struct Closing(Vec<Waiter>);

impl Closing {
    /// Waits for at most `limit`. Returns whether all of them were closed in time.
    pub fn wait(self, limit: Duration) -> bool {
        let until = deadline(limit);
        self.0.into_iter().all(|waiter| waiter.wait_for(left(until)).is_some())
    }
}

fn left(until: Option<Instant>) -> Duration {
    until.map_or(Duration::MAX, |until| until.saturating_duration_since(Instant::now()))
}
