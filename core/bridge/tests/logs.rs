//! Log records through a queue; each test is a process of its own, because a process has one log.

mod support;

use std::time::Duration;

use leasehold_bridge::{
    Outcome, Queue, live,
    logs::{self, Level},
};
use support::{LIMIT, acquire, alone, close, eventually};

/// The messages of the records that are in the queue, and whether the last completion is there.
fn drain(queue: &Queue) -> (Vec<String>, bool) {
    let mut messages = Vec::new();
    for completion in queue.drain(usize::MAX) {
        match completion.result {
            Ok(Outcome::Log(record)) if !completion.is_last => messages.push(record.message.clone()),
            Ok(Outcome::Done) if completion.is_last => return (messages, true),
            other => panic!("{other:?}"),
        }
    }
    (messages, false)
}

#[test]
fn records_say_what_happens_in_the_core() {
    alone("records_say_what_happens_in_the_core", None, |_| {
        let queue = Queue::new();
        logs::listen(Level::Debug, queue.sink(1)).expect("nobody else collects");
        let client = support::client("memory://logs");
        acquire(&client, "/lock/a", None).expect("acquired");
        close(&client);
        let taken = queue.take(1, LIMIT).expect("open");
        match taken.first().map(|first| &first.result) {
            Some(Ok(Outcome::Log(record))) => {
                assert!(record.target.starts_with("leasehold") && record.level <= Level::Debug, "{record:?}");
                assert!(record.message.contains('='), "with details: {record:?}");
            }
            other => panic!("{other:?}"),
        }
    });
}

#[test]
fn a_waker_that_panics_does_not_end_the_engine() {
    alone("a_waker_that_panics_does_not_end_the_engine", None, |_| {
        let queue = Queue::with_waker(|| panic!("a waker that panics"));
        logs::listen(Level::Debug, queue.sink(1)).expect("nobody else collects");
        let (client, other) = (support::client("memory://waker"), support::client("memory://waker"));
        // What is in memory lasts as long as somebody uses it.
        let _kept = acquire(&other, "/lock/b", None).expect("acquired");
        let _guard = acquire(&client, "/lock/a", None).expect("acquired");
        // Tells the log of the end of the session, and goes on to release what it held.
        close(&client);
        assert!(!queue.drain(9).is_empty());
        acquire(&other, "/lock/a", Some(Duration::ZERO)).expect("it is free");
    });
}

#[test]
fn only_what_is_wanted_is_heard_until_it_is_stopped() {
    alone("only_what_is_wanted_is_heard_until_it_is_stopped", None, |_| {
        let (first, second) = (Queue::new(), Queue::new());
        logs::listen(Level::Warn, first.sink(1)).expect("nobody else collects");
        tracing::info!(target: "leasehold", "too little");
        tracing::warn!(target: "somebody", "else");
        tracing::warn!(target: "leasehold", key = %"/lock/a", "enough");
        logs::listen(Level::Info, second.sink(1)).expect("it is our collector");
        tracing::info!(target: "leasehold", "for the second");
        logs::stop();
        tracing::error!(target: "leasehold", "for nobody");
        assert_eq!(drain(&first), (vec!["enough key=/lock/a".to_owned()], true));
        assert_eq!(drain(&second), (vec!["for the second".to_owned()], true));
    });
}

#[test]
fn who_does_not_keep_up_is_told_how_much_was_dropped() {
    alone("who_does_not_keep_up_is_told_how_much_was_dropped", None, |_| {
        let queue = Queue::new();
        logs::listen(Level::Info, queue.sink(1)).expect("nobody else collects");
        for number in 0..1_500 {
            tracing::info!(target: "leasehold", number, "record");
        }
        let (messages, _) = drain(&queue);
        assert_eq!(messages.len(), 1024);
        tracing::info!(target: "leasehold", "after");
        assert_eq!(drain(&queue).0, ["after records_dropped_before=476"]);
    });
}

#[test]
fn a_closed_queue_ends_its_log() {
    alone("a_closed_queue_ends_its_log", None, |_| {
        let queue = Queue::with_fd().expect("a descriptor");
        logs::listen(Level::Info, queue.sink(1)).expect("nobody else collects");
        queue.close();
        tracing::info!(target: "leasehold", "for nobody");
        assert!(queue.take(1, Duration::ZERO).is_none());
        drop(queue);
        eventually("the log keeps no queue", || live::count().queues == 0);
    });
}

#[test]
fn a_program_with_a_collector_of_its_own_is_told_so() {
    alone("a_program_with_a_collector_of_its_own_is_told_so", None, |_| {
        tracing::subscriber::set_global_default(tracing::subscriber::NoSubscriber::new()).expect("the first");
        let error = logs::listen(Level::Info, Queue::new().sink(1)).expect_err("refused");
        assert_eq!(error.code(), leasehold_bridge::Code::Unsupported);
        assert!(error.message().contains("tracing"), "{error}");
    });
}
