//! Waiting for a condition, with a limit.

use std::time::Duration;

use tokio::time::{Instant, sleep};

/// Longer than anything that a test waits for on a busy machine.
const LIMIT: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(20);

/// Waits until `condition` holds; looks every 20 ms or as fast as it answers.
///
/// # Panics
/// When it does not hold within 60 s; the message says `what` did not come true.
pub async fn eventually<F: Future<Output = bool>>(what: &str, mut condition: impl FnMut() -> F) {
    let deadline = Instant::now() + LIMIT;
    while !condition().await {
        assert!(Instant::now() < deadline, "still not after {} s: {what}", LIMIT.as_secs());
        sleep(POLL).await;
    }
}
