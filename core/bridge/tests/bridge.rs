//! Operations through the bridge, against the store inside the process: completed once, cancelled, claimed or released.

use std::{sync::Arc, time::Duration};

use leasehold_bridge::{
    AcquireOptions, Client, ClientOptions, Code, Guard, Outcome, Queue, Waiter, handles, operation,
};

fn client(name: &str) -> Arc<Client> {
    Client::open(ClientOptions::new(format!("memory://{name}"))).unwrap()
}

fn acquire(client: &Client, wait_ms: Option<u64>) -> leasehold_bridge::Result<Guard> {
    let waiter = Waiter::new();
    let options = AcquireOptions { wait: wait_ms.map(Duration::from_millis), ..Default::default() };
    client.acquire("/lock/a", &options, None, waiter.sink());
    waiter.wait().and_then(Outcome::into_guard)
}

fn is_free(client: &Client) -> bool {
    acquire(client, Some(0)).is_ok()
}

#[test]
fn a_guard_that_nobody_takes_is_released() {
    let client = client("claim");
    let waiter = Waiter::new();
    client.acquire("/lock/a", &AcquireOptions::default(), None, waiter.sink());
    drop(waiter);
    let guard = acquire(&client, None).expect("the first one was released");
    let queue = Queue::new();
    client.acquire("/lock/a", &AcquireOptions::default(), None, queue.sink(1));
    queue.close();
    drop(guard);
    acquire(&client, Some(10_000)).expect("the one in the closed queue was released");
}

#[test]
fn a_cancelled_acquire_says_so_and_leaves_nothing() {
    let client = client("cancel");
    let guard = acquire(&client, None).unwrap();
    let queue = Queue::new();
    let id = client.acquire("/lock/a", &AcquireOptions::default(), None, queue.sink(7));
    assert!(operation::cancel(id));
    let completions = queue.take(8, Duration::from_secs(10)).unwrap();
    let [completion] = &completions[..] else { panic!("{completions:?}") };
    assert_eq!((completion.tag, completion.is_last), (7, true));
    assert_eq!(completion.result.as_ref().unwrap_err().code(), Code::Cancelled);
    assert!(!operation::cancel(id), "it is over");
    drop(guard);
    assert!(is_free(&client));
}

#[test]
fn a_second_release_is_told_so() {
    let client = client("twice");
    let guard = acquire(&client, None).unwrap();
    let release = || {
        let waiter = Waiter::new();
        guard.release(None, waiter.sink());
        waiter.wait()
    };
    let lost = Waiter::new();
    guard.lost(lost.sink());
    release().unwrap();
    assert!(matches!(lost.wait(), Ok(Outcome::Released)));
    assert!(!guard.is_held());
    assert_eq!(release().unwrap_err().code(), Code::NotHeld);
}

#[test]
fn stale_handles_are_noticed() {
    let id = handles::insert(client("handles"));
    assert!(handles::get::<Client>(id).is_some());
    assert!(handles::get::<Guard>(id).is_none());
    assert!(handles::remove::<Client>(id).is_some());
    handles::insert(client("handles"));
    assert!(handles::get::<Client>(id).is_none() && handles::get::<Client>(0).is_none());
}
