//! The end of the process: what is held is released, for as long as the host is willing to wait.

use std::{
    sync::{Arc, Weak},
    time::{Duration, Instant},
};

use crate::{Client, completion::Waiter, handles, sync::deadline};

/// Closes every client of this process and waits for that, for at most `limit`. Returns whether all of them were closed in
/// time; what was not released ends with its lease.
pub fn close_all(limit: Duration) -> bool {
    let until = deadline(limit);
    let clients: Vec<Arc<Client>> = handles::tables().open.values().filter_map(Weak::upgrade).collect();
    let waiters: Vec<Waiter> = clients.iter().map(|client| close(client)).collect();
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
