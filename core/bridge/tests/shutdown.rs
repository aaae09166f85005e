//! Closing every client of the process; alone in its process, because it closes those of other tests, too.

use std::time::Duration;

use leasehold_bridge::{AcquireOptions, Client, ClientOptions, Code, Guard, Outcome, Waiter, shutdown};

fn take(client: &Client, wait: Duration) -> leasehold_bridge::Result<Guard> {
    let waiter = Waiter::new();
    let options = AcquireOptions { wait: Some(wait), ..Default::default() };
    client.acquire("/lock/a", &options, None, waiter.sink());
    waiter.wait().and_then(Outcome::into_guard)
}

#[test]
fn an_abandoned_guard_is_released_by_closing() {
    let open = || Client::open(ClientOptions::new("memory://abandoned")).unwrap();
    let (here, there) = (open(), open());
    take(&here, Duration::ZERO).unwrap().abandon();
    assert_eq!(take(&there, Duration::from_millis(50)).unwrap_err().code(), Code::NotAcquired);
    assert!(shutdown::close_all(Duration::from_secs(10)));
    take(&open(), Duration::ZERO).expect("it is free");
}
