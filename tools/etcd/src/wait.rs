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

/// Of so many rounds one at least is not disturbed.
const ROUNDS: usize = 20;

/// Plays a round until one costs what it costs where nothing comes late: an event, an answer, a renewal, for each of which a client
/// asks once more. Of what it asks for always, no round is free.
///
/// # Panics
/// When none of 20 was, with what the last one cost.
pub async fn undisturbed<F: Future<Output = Result<(), String>>>(mut round: impl FnMut(usize) -> F) {
    let mut cost = String::new();
    for number in 0..ROUNDS {
        match round(number).await {
            Ok(()) => return,
            Err(this) => cost = this,
        }
    }
    panic!("in none of {ROUNDS} rounds, in the last one {cost}");
}
