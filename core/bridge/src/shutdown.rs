//! The end of the process: what is held is released, for as long as the host is willing to wait.

use std::{
    sync::{Arc, Weak},
    time::{Duration, Instant},
};

use crate::{Client, completion::Waiter, handles, sync::deadline};

/// Closes every client that this process has used and waits for that, for at most `limit`. Returns whether all of them were
/// closed in time; what was not released ends with its lease.
pub fn close_all(limit: Duration) -> bool {
    let until = deadline(limit);
    let clients: Vec<Arc<Client>> = handles::tables().open.values().filter_map(Weak::upgrade).collect();
    // For the others a thread would be started just to find out that there is nothing to do.
    let used = clients.iter().filter(|client| client.is_running());
    let waiters: Vec<Waiter> = used.map(|client| close(client)).collect();
    waiters.iter().all(|waiter| waiter.wait_for(left(until)).is_some())
}

fn close(client: &Client) -> Waiter {
    let waiter = Waiter::new();
    client.close(waiter.sink());
    waiter
}

fn left(until: Option<Instant>) -> Duration {
    until.map_or(Duration::MAX, |until| until.saturating_duration_since(Instant::now()))
}
