//! The queue, the waiter and the state of operations under a scheduler that tries the orders in which threads can run: at
//! random, by priorities (PCT), and one after the other (the first tens of thousands of them).
//!
//! A lost wake-up is a deadlock here: no wait ever ends by its time limit. Seen to fail, each within a thousand orders, when
//! - `Queue::drain` clears the descriptor after it has taken, or does not wake for what it leaves;
//! - `Queue::push` notifies before it pushes, looks whether the queue is empty before the lock under which it pushes, or
//!   notifies nobody where one waits;
//! - `Queue::close` does not notify, cancels nothing, or cancels before it is marked as closed;
//! - `Pending::new` looks whether the queue is closed before it enters the operation in the table, or whether it is cancelled
//!   before it enters it with its `Cancel`;
//! - `Slot::fill` notifies before it fills.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use leasehold_bridge::{Cancel, Code, Outcome, Queue, Result, Waiter, live, operation, testing};
use shuttle::{
    Config, Runner,
    scheduler::{DfsScheduler, PctScheduler, RandomScheduler},
    sync::{Condvar, Mutex},
    thread,
};

/// No wait ends by its time limit here.
const FOR_EVER: Duration = Duration::MAX;

/// Plays `model` in many orders.
fn check(model: fn()) {
    let _one = one();
    play(model);
}

/// Plays `model` in many orders, and in the first of all there are, one after the other. For models in which nobody spins:
/// that scheduler lets them.
fn check_systematically(model: fn()) {
    let _one = one();
    play(model);
    Runner::new(DfsScheduler::new(Some(4 * orders()), false), config()).run(model);
}

/// What lives is counted for the whole process: one model at a time.
fn one() -> std::sync::MutexGuard<'static, ()> {
    static ONE: std::sync::Mutex<()> = std::sync::Mutex::new(());
    ONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn play(model: fn()) {
    let before = live::count();
    let checked = move || {
        model();
        until(|| live::count() == before);
    };
    Runner::new(RandomScheduler::new(orders()), config()).run(checked);
    Runner::new(PctScheduler::new(3, orders()), config()).run(checked);
}

fn orders() -> usize {
    std::env::var("LEASEHOLD_TEST_ORDERS").ok().and_then(|orders| orders.parse().ok()).unwrap_or(2_000)
}

fn config() -> Config {
    let mut config = Config::new();
    // Unoptimised futures need more than the default; an order in which nobody comes forward any more ends soon.
    config.stack_size = 1 << 18;
    config.max_steps = shuttle::MaxSteps::FailAfter(20_000);
    config
}

/// Gives way until `condition` holds.
fn until(mut condition: impl FnMut() -> bool) {
    while !condition() {
        thread::yield_now();
    }
}

/// What came for each tag; each comes once.
fn sort(into: &mut BTreeMap<u64, Result<Outcome>>, taken: Vec<leasehold_bridge::Completion>) {
    for completion in taken {
        assert!(completion.is_last);
        assert!(into.insert(completion.tag, completion.result).is_none(), "completed twice");
    }
}

#[test]
fn a_waiter_gets_one_result_whoever_cancels() {
    check_systematically(|| {
        let waiter = Waiter::new();
        let id = testing::echo("x".into(), waiter.sink());
        let canceller = thread::spawn(move || operation::cancel(id));
        match waiter.wait() {
            Ok(Outcome::Text(text)) => assert_eq!(text, "x"),
            Err(error) => assert_eq!(error.code(), Code::Cancelled),
            other => panic!("{other:?}"),
        }
        assert!(!operation::cancel(id), "over, and known to be");
        canceller.join().unwrap();
    });
}

#[test]
fn a_cancel_reaches_what_starts_at_the_same_time() {
    check_systematically(|| {
        let cancel = Cancel::new();
        let canceller = thread::spawn({
            let cancel = cancel.clone();
            move || cancel.cancel()
        });
        let (waiter, other) = (Waiter::new(), Waiter::new());
        testing::never(Some(&cancel), waiter.sink());
        let id = testing::never(Some(&cancel), other.sink());
        operation::cancel(id);
        for waiter in [waiter, other] {
            assert_eq!(waiter.wait().unwrap_err().code(), Code::Cancelled);
        }
        canceller.join().unwrap();
    });
}

#[test]
fn takers_get_each_completion_once() {
    check_systematically(|| {
        let queue = Queue::new();
        let takers: Vec<_> = (0..2)
            .map(|_| {
                let queue = queue.clone();
                thread::spawn(move || queue.take(1, FOR_EVER).expect("open"))
            })
            .collect();
        testing::echo(String::new(), queue.sink(1));
        let second = queue.clone();
        thread::spawn(move || testing::fail(20, second.sink(2))).join().unwrap();
        let mut taken = BTreeMap::new();
        for taker in takers {
            sort(&mut taken, taker.join().unwrap());
        }
        assert_eq!(taken.into_keys().collect::<Vec<_>>(), [1, 2]);
        assert!(queue.drain(9).is_empty());
        queue.close();
    });
}

#[test]
fn closing_ends_takers_and_cancels_what_is_or_will_be_started() {
    check(|| {
        let queue = Queue::new();
        testing::never(None, queue.sink(1));
        let starter = thread::spawn({
            let queue = queue.clone();
            move || testing::never(None, queue.sink(2))
        });
        let taker = thread::spawn({
            let queue = queue.clone();
            move || while queue.take(1, FOR_EVER).is_some() {}
        });
        queue.close();
        taker.join().unwrap();
        starter.join().unwrap();
        until(|| live::count().operations == 0);
        assert!(queue.drain(9).is_empty());
    });
}

#[test]
fn a_waker_is_called_for_all_there_is() {
    check_systematically(|| {
        let bell = Arc::new((Mutex::new(false), Condvar::new()));
        let calls = Arc::new(AtomicUsize::new(0));
        let queue = Queue::with_waker({
            let (bell, calls) = (bell.clone(), calls.clone());
            move || {
                calls.fetch_add(1, Ordering::Relaxed);
                *bell.0.lock().unwrap() = true;
                bell.1.notify_one();
            }
        });
        for tag in 0..3 {
            testing::echo(String::new(), queue.sink(tag));
        }
        let mut taken = BTreeMap::new();
        while taken.len() < 3 {
            let mut has_rung = bell.0.lock().unwrap();
            while !*has_rung {
                has_rung = bell.1.wait(has_rung).unwrap();
            }
            *has_rung = false;
            drop(has_rung);
            sort(&mut taken, queue.drain(1));
        }
        queue.close();
    });
}

#[test]
fn a_descriptor_is_readable_while_there_is_something() {
    check(|| {
        let queue = Queue::with_fd().expect("a descriptor");
        let fd = queue.fd().expect("a descriptor");
        for tag in 0..3 {
            testing::echo(String::new(), queue.sink(tag));
        }
        let is_readable = || {
            let mut poll = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
            // SAFETY: `poll` is one valid entry.
            unsafe { libc::poll(&raw mut poll, 1, 0) == 1 }
        };
        let mut taken = BTreeMap::new();
        while taken.len() < 3 {
            until(is_readable);
            sort(&mut taken, queue.drain(2));
        }
        queue.close();
    });
}
