//! Much of everything in one client, played by hand: how much is on its way at a time, what is read, and what is left when it is
//! over.

mod stage;

use std::{collections::BTreeSet, time::Duration};

use leasehold::{
    LostReason,
    hub::{Action, Input, WINDOW},
    queue::wire,
    store::{Key, Keys, Op, Pick, Range, Request, Txn, WatchReply},
    terms::{Mode, Ticket},
};

use self::stage::Stage;

const SHORT: Duration = Duration::from_secs(70);

/// Whether a request enqueues, and whether it looks at the queue then.
fn enqueues(request: &Request) -> Option<bool> {
    let Request::Txn(Txn { then, .. }) = request else { return None };
    matches!(then.first(), Some(Op::Put { .. })).then(|| then.iter().any(|op| matches!(op, Op::Range(_))))
}

/// Everything that was asked is answered, watches included, as it would be on a fast network.
fn play(stage: &mut Stage) {
    let mut watches = BTreeSet::new();
    loop {
        let told: Vec<_> = stage.told.extract_if(.., |action| matches!(action, Action::Watch(..))).collect();
        for action in told {
            let Action::Watch(id, _) = action else { continue };
            watches.insert(id);
            let revision = stage.kv.revision();
            stage.feed(Input::Watch(WatchReply::Created { id, revision }));
        }
        let events = stage.kv.take_changes();
        if !events.is_empty() {
            for id in watches.clone() {
                stage.feed(Input::Watch(WatchReply::Events { id, events: events.clone() }));
            }
        }
        let Some((rpc, request)) = stage.calls.pop_front() else { break };
        let result = stage.apply(&request);
        stage.feed(Input::Reply(rpc, result));
    }
}

/// At most a window is on its way, and once the queue is watched an enqueue does not look at it.
#[test]
fn a_crowd_of_one_client_comes_through_a_window_and_reads_little() {
    let count = 5_000;
    let mut stage = Stage::new();
    stage.acquire(0, Mode::Wait, 15, true);
    play(&mut stage);
    for ticket in 1..=count {
        stage.acquire(ticket, Mode::Wait, 15, true);
    }
    // The last of the window may wait for company, but not for long.
    stage.now = stage.now + Duration::from_millis(5);
    stage.feed(Input::Wake);
    assert_eq!(stage.calls.len(), WINDOW);
    let (mut looked, mut most) = (0, 0);
    while let Some((rpc, request)) = stage.calls.pop_front() {
        most = most.max(stage.calls.len() + 1);
        looked += usize::from(enqueues(&request) == Some(true));
        let result = stage.apply(&request);
        stage.feed(Input::Reply(rpc, result));
        if let Some(id) = stage.see_created() {
            stage.told.retain(|action| !matches!(action, Action::Watch(..)));
            assert!(id.0 > 0);
        }
    }
    assert!(most <= WINDOW, "{most} requests at a time");
    assert!(looked <= 2 * WINDOW, "{looked} of {count} enqueues looked at the queue");
    assert_eq!(stage.keys().len() as u64, count + 1);
    assert!(!stage.told.iter().any(|action| matches!(action, Action::Failed(..))), "nobody fails");
}

/// Another name does not wait behind a crowd.
#[test]
fn another_name_does_not_wait_behind_a_crowd() {
    let mut stage = Stage::new();
    stage.acquire(0, Mode::Wait, 15, true);
    play(&mut stage);
    for ticket in 1..=3_000 {
        stage.acquire(ticket, Mode::Wait, 15, true);
    }
    stage.acquire_name("/b", 5_000, Mode::Wait, 15, true);
    for _ in 0..WINDOW + 2 {
        let (rpc, request) = stage.calls.pop_front().expect("a call");
        let result = stage.apply(&request);
        stage.feed(Input::Reply(rpc, result));
    }
    assert!(stage.token(5_000).is_some(), "it comes right after what was on its way");
}

/// A caller that waits for its turn is answered at once when it gives up, and nothing is sent for it.
#[test]
fn who_gives_up_before_its_request_is_sent_leaves_nothing() {
    let mut stage = Stage::new();
    stage.acquire(0, Mode::Wait, 15, true);
    play(&mut stage);
    let count = 2 * WINDOW as u64;
    for ticket in 1..=count {
        stage.acquire(ticket, Mode::Wait, 15, true);
    }
    stage.feed(Input::Cancel(Ticket(count), leasehold::Error::new(leasehold::Code::Cancelled, "gave up")));
    assert!(stage.told.iter().any(|action| matches!(action, Action::Failed(ticket, _) if ticket.0 == count)));
    stage.settle();
    assert_eq!(stage.keys().len() as u64, count);
}

/// 200 TTLs are 200 leases while they are used, and one a minute later.
#[test]
fn the_session_of_a_ttl_that_nobody_uses_ends() {
    let mut stage = Stage::new();
    for ttl in 0..200 {
        stage.acquire(ttl, Mode::Wait, 15 + ttl, true);
        stage.settle();
        stage.feed(Input::Release(Ticket(ttl)));
        stage.settle();
    }
    assert_eq!(stage.kv.leases().count(), 200);
    let end = stage.now + SHORT;
    while stage.hub.wake().is_some_and(|at| at <= end) {
        stage.pass_on();
    }
    assert_eq!(stage.kv.leases().count(), 1, "the client's own");
}

/// Sweeps do not hang on renewals.
#[test]
fn a_ghost_of_a_long_ttl_is_swept_soon() {
    let mut stage = Stage::new();
    stage.acquire(1, Mode::Wait, 3_600, true);
    stage.serve();
    let enqueue = stage.serve();
    stage.feed(Input::Release(Ticket(1)));
    stage.settle();
    // A copy of the enqueue takes effect now: nobody knows of it.
    stage.apply(&enqueue).expect("the copy");
    assert_eq!(stage.keys().len(), 1, "the ghost stands");
    let end = stage.now + SHORT;
    while !stage.keys().is_empty() {
        stage.pass_on();
        assert!(stage.now <= end, "it stands for more than {SHORT:?}");
    }
}

/// Beyond a thousand holds none is watched any more, and the sweeps find what vanished.
#[test]
fn a_hold_that_is_not_watched_is_lost_by_a_sweep() {
    let count = 1_200;
    let mut stage = Stage::new();
    for ticket in 1..=count {
        stage.acquire_name(&format!("/{ticket}"), ticket, Mode::Wait, 15, true);
        stage.settle();
    }
    let watched = |stage: &Stage| -> BTreeSet<Key> {
        let keys = stage.told.iter().filter_map(|action| match action {
            Action::Watch(_, Keys { key, .. }) => Some(key.clone()),
            _ => None,
        });
        keys.collect()
    };
    let end = stage.now + Duration::from_secs(3);
    while stage.hub.wake().is_some_and(|at| at <= end) {
        stage.pass_on();
    }
    assert_eq!(watched(&stage).len(), 1_000, "no more holds are watched");
    let all = Range { keys: Keys::prefix(Key::from("/")), limit: 0, keys_only: false, pick: Pick::All };
    let unwatched = stage.kv.range(&all).kvs.into_iter().find(|kv| !watched(&stage).contains(&kv.key));
    let victim = unwatched.expect("some are not watched");
    stage.apply(&wire::delete_unseen(&victim.key)).expect("an administrator deletes it");
    let end = stage.now + SHORT;
    while !stage.told.iter().any(|action| matches!(action, Action::Lost(_, LostReason::KeyDeleted))) {
        stage.pass_on();
        assert!(stage.now <= end, "it is not told within {SHORT:?}");
    }
}
