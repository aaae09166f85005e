//! Wrong input and a server that does not want us: each a typed error that says what to do, in time, with nothing left behind.

mod at_the_door;
mod messages;
mod refused;
mod unreachable;

use std::time::{Duration, Instant};

use leasehold::{Client, Code, Error};

/// The time limit of an operation here.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(2);
/// What a busy machine, and a withdrawal that is waited for, may add.
const SLACK: Duration = Duration::from_secs(10);

/// The error must have this code, and its message each of these parts.
fn expect(error: &Error, code: Code, parts: &[&str]) {
    assert_eq!(error.code(), code, "{error}");
    for part in parts {
        assert!(error.message().contains(part), "no {part:?} in {error}");
    }
}

/// Tries every operation that asks etcd on the lock `name`, all at once; each must fail within its time limit.
async fn errors_of_all(client: &Client, name: &str) -> [Error; 6] {
    let lock = client.lock(name);
    let (a, b, c, d, e, f) = tokio::join!(
        fails("acquire", lock.acquire()),
        fails("try_acquire", lock.try_acquire()),
        fails("acquire_within", lock.acquire_within(Duration::from_secs(60))),
        fails("acquire with a TTL", async { client.lock(name).ttl(Duration::from_secs(3)).acquire().await }),
        fails("queue", lock.queue()),
        fails("force_release", lock.force_release(7)),
    );
    [a, b, c, d, e, f]
}

async fn fails<T>(what: &str, operation: impl Future<Output = Result<T, Error>>) -> Error {
    let started = Instant::now();
    let error = operation.await.map(drop).expect_err(what);
    let took = started.elapsed();
    assert!(took < REQUEST_TIMEOUT + SLACK, "{what} took {took:?}: {error}");
    error
}
