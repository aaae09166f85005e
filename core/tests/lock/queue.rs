//! Who is in the queue, and how an operator takes somebody out of it.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use leasehold::{Code, LostReason};
use leasehold_etcd::eventually;

use crate::support::{client, etcd, options, soon};

/// Seen to fail with an order by key.
#[tokio::test]
async fn the_queue_tells_who_holds_and_who_waits() {
    let cluster = etcd().await;
    let [one, two] = ["first", "second"].map(|identity| options(&cluster).identity(identity).build().unwrap());
    let guard = one.lock("/lock/a").acquire().await.unwrap();
    let waiter = tokio::spawn({
        let lock = two.lock("/lock/a");
        async move { lock.acquire().await.unwrap() }
    });
    let is_queued = |count| {
        let lock = one.lock("/lock/a");
        async move { lock.queue().await.unwrap().len() == count }
    };
    eventually("both are queued", || is_queued(2)).await;
    cluster.ctl(&["put", "/lock/a/0-by-hand", "not ours"]).await.unwrap();
    let queue = one.lock("/lock/a").queue().await.unwrap();
    let told: Vec<_> = queue.iter().map(|contender| (contender.identity.as_deref(), contender.foreign)).collect();
    assert_eq!(told, [(Some("first"), false), (Some("second"), false), (None, true)]);
    assert_eq!((queue[0].key.as_str(), queue[0].token), (guard.key().as_str(), guard.token()));
    assert_eq!(queue[0].lease, Some(guard.lease()));
    for contender in &queue[..2] {
        assert_eq!(contender.pid, Some(std::process::id()));
        assert!(contender.host.is_some() && contender.version.is_some());
        assert!(contender.since.as_deref().is_some_and(|since| since.ends_with('Z')), "{contender:?}");
    }
    waiter.abort();
}

/// Seen to fail with a removal that goes by the name alone.
#[tokio::test]
async fn force_release_takes_the_lock_from_its_holder_or_the_place_from_a_waiter() {
    let cluster = etcd().await;
    let [one, two, operator] = [(); 3].map(|()| client(&cluster));
    let lock = operator.lock("/lock/a");
    let guard = one.lock("/lock/a").acquire().await.unwrap();
    let waiter = tokio::spawn({
        let lock = two.lock("/lock/a").requeue(false);
        async move { lock.acquire().await }
    });
    eventually("both are queued", || async { lock.queue().await.unwrap().len() == 2 }).await;
    let error = lock.force_release(guard.token() + 1_000_000).await.unwrap_err();
    assert_eq!(error.code(), Code::NotHeld, "{error}");

    lock.force_release(lock.queue().await.unwrap()[1].token).await.unwrap();
    let error = soon(waiter).await.unwrap().unwrap_err();
    assert_eq!((error.code(), error.reason()), (Code::Lost, Some(LostReason::KeyDeleted)), "{error}");
    assert!(guard.is_held());

    let next = tokio::spawn({
        let lock = two.lock("/lock/a");
        async move { lock.acquire().await.unwrap() }
    });
    eventually("it is queued", || async { lock.queue().await.unwrap().len() == 2 }).await;
    lock.force_release(guard.token()).await.unwrap();
    let next = soon(next).await.unwrap();
    assert_eq!(soon(guard.lost()).await, LostReason::KeyDeleted);
    assert!(next.token() > guard.token());
    next.release().await.unwrap();
    lock.acquire_within(Duration::from_secs(5)).await.unwrap().release().await.unwrap();
}

/// Requests that are on their way together reach etcd in any order. Seen to fail in the first round without an exchange of places.
#[tokio::test]
async fn acquires_of_one_client_win_in_the_order_in_which_they_began() {
    let cluster = etcd().await;
    let client = client(&cluster);
    for round in 0..20 {
        let order = Arc::new(Mutex::new(Vec::new()));
        let tasks = (0..12).map(|number| {
            let (lock, order) = (client.lock(&format!("/lock/{round}")), order.clone());
            tokio::spawn(async move {
                let guard = lock.acquire().await.unwrap();
                order.lock().unwrap().push((number, guard.token()));
                guard.release().await.unwrap();
            })
        });
        for task in tasks.collect::<Vec<_>>() {
            soon(task).await.unwrap();
        }
        let order = order.lock().unwrap().clone();
        assert!(order.is_sorted() && order.is_sorted_by_key(|(_, token)| *token), "{order:?}");
    }
}
