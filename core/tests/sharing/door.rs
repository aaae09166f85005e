//! What cannot be shared is refused at the door and leaves nothing.

use std::time::Duration;

use leasehold::{Code, LocalFirst};

use crate::{client, etcd};

/// Seen to fail without each of the checks.
#[tokio::test]
async fn bad_bounds_are_refused_at_the_door() {
    let cluster = etcd().await;
    let client = client(&cluster);
    let lock = || client.lock("/lock/a");
    let time = Duration::from_millis(100);
    for (bad, part) in [
        (lock().local_first_within(LocalFirst { turns: 0, time }), "turn"),
        (lock().local_first_within(LocalFirst { turns: 1, time: Duration::ZERO }), "zero"),
        (lock().local_first_within(LocalFirst { turns: 1, time: Duration::from_millis(60_001) }), "60s"),
        (lock().linger(Duration::from_millis(3_600_001)), "3600s"),
        (lock().linger(Duration::MAX), "3600s"),
        (lock().local_first().renew(false), "renewal"),
        (lock().linger(time).renew(false), "renewal"),
        (lock().shared().local_first(), "exclusive"),
        (client.semaphore("/lock/a", 3).linger(time), "1 of 3 permits"),
    ] {
        for error in [
            bad.acquire().await.unwrap_err(),
            bad.acquire_within(time).await.unwrap_err(),
            bad.try_acquire().await.unwrap_err(),
        ] {
            assert_eq!(error.code(), Code::InvalidArgument, "{error}");
            assert!(error.message().contains(part), "{error}");
        }
    }
    assert!(cluster.keys("/lock/").await.unwrap().is_empty());
    assert!(cluster.leases().await.unwrap().is_empty(), "not even a lease was made for them");
    for good in [
        lock().local_first_within(LocalFirst { turns: 1, time: Duration::from_secs(60) }),
        lock().local_first_within(LocalFirst { turns: u32::MAX, time: Duration::from_nanos(1) }),
        lock().linger(Duration::ZERO).renew(false),
        lock().linger(Duration::from_secs(3_600)),
    ] {
        good.acquire().await.unwrap().release().await.unwrap();
    }
}
