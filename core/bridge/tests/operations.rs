//! Operations through the bridge, against the store inside the process: completed once, cancelled, claimed or released.

mod support;

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use leasehold_bridge::{
    AcquireOptions, Cancel, Claim, Client, ClientOptions, Code, Guard, HostOptions, LostReason, Outcome, Queue,
    SessionState, Waiter, handles,
    logs::Level,
    operation, panics,
    testing::{self, Stage},
};
use support::{LIMIT, acquire, close, outcome};

const NAME: &str = "/lock/a";
const SOME: Duration = Duration::from_secs(10);

fn client(name: &str) -> Arc<Client> {
    support::client(&format!("memory://{name}"))
}

fn is_free(client: &Client) -> bool {
    acquire(client, NAME, Some(Duration::ZERO)).is_ok()
}

/// The one completion that comes next.
fn next(queue: &Queue) -> leasehold_bridge::Completion {
    queue.take(1, LIMIT).expect("open").pop().expect("a completion")
}

#[test]
fn a_guard_that_nobody_takes_is_released() {
    let client = client("claim");
    let waiter = Waiter::new();
    client.acquire(&[(NAME, Claim::Exclusive)], &AcquireOptions::default(), None, waiter.sink());
    drop(waiter);
    let guard = acquire(&client, NAME, None).expect("the first one was released");
    let queue = Queue::new();
    client.acquire(&[(NAME, Claim::Exclusive)], &AcquireOptions::default(), None, queue.sink(1));
    queue.close();
    drop(guard);
    acquire(&client, NAME, Some(SOME)).expect("the one in the closed queue was released");
    // Won, in the queue, and never drained.
    let queue = Queue::new();
    client.acquire(&[(NAME, Claim::Exclusive)], &AcquireOptions::default(), None, queue.sink(1));
    assert_eq!(acquire(&client, NAME, Some(Duration::from_millis(50))).unwrap_err().code(), Code::NotAcquired);
    drop(queue);
    acquire(&client, NAME, Some(SOME)).expect("the one in the freed queue was released");
}

#[test]
fn a_result_can_be_awaited_elsewhere() {
    let client = client("move");
    let queue = Queue::new();
    let waiter = Waiter::new();
    client.ping(None, waiter.sink());
    waiter.move_to(queue.clone(), 1);
    let completion = next(&queue);
    assert!(completion.is_last && completion.tag == 1 && completion.result.is_ok());
    let guard = acquire(&client, NAME, None).unwrap();
    let waiter = Waiter::new();
    client.acquire(&[(NAME, Claim::Exclusive)], &AcquireOptions::default(), None, waiter.sink());
    assert!(waiter.wait_for(Duration::from_millis(20)).is_none());
    waiter.move_to(queue.clone(), 2);
    drop(guard);
    let completion = next(&queue);
    assert_eq!(completion.tag, 2);
    completion.result.unwrap().into_guard().unwrap();
    assert!(queue.drain(1).is_empty());
}

#[test]
fn a_cancelled_acquire_says_so_and_leaves_nothing() {
    let client = client("cancel");
    let guard = acquire(&client, NAME, None).unwrap();
    let queue = Queue::new();
    let id = client.acquire(&[(NAME, Claim::Exclusive)], &AcquireOptions::default(), None, queue.sink(7));
    assert!(operation::cancel(id));
    let completion = next(&queue);
    assert_eq!((completion.tag, completion.is_last), (7, true));
    assert_eq!(completion.result.unwrap_err().code(), Code::Cancelled);
    assert!(!operation::cancel(id), "it is over");
    drop(guard);
    assert!(is_free(&client));
}

#[test]
fn a_cancel_reaches_acquires_that_start_meanwhile() {
    let client = client("meanwhile");
    let guard = acquire(&client, NAME, None).unwrap();
    for _ in 0..200 {
        let (cancel, queue) = (Cancel::new(), Queue::new());
        std::thread::scope(|scope| {
            scope.spawn(|| cancel.cancel());
            for tag in 0..8 {
                client.acquire(&[(NAME, Claim::Exclusive)], &AcquireOptions::default(), Some(&cancel), queue.sink(tag));
            }
        });
        for _ in 0..8 {
            assert_eq!(next(&queue).result.unwrap_err().code(), Code::Cancelled);
        }
    }
    drop(guard);
    assert!(is_free(&client));
}

#[test]
fn a_win_that_a_cancel_overtakes_is_released() {
    let client = client("overtaken");
    let first = acquire(&client, NAME, None).unwrap();
    let queue = Queue::new();
    client.acquire(&[(NAME, Claim::Exclusive)], &AcquireOptions::default(), None, queue.sink(6));
    let id = client.acquire(&[(NAME, Claim::Exclusive)], &AcquireOptions::default(), None, queue.sink(7));
    support::eventually("both wait", || contenders(&client) == 3);
    // Handed over to once, the client has the queue before it and hands over at once from now on.
    drop(first);
    let guard = Mutex::new(Some(next(&queue).result.unwrap().into_guard().unwrap()));
    // Wakers run on the thread of the core, which hears of both afterwards, and of the release first: it hands the lock over
    // to an acquire that is cancelled by then.
    let is_cancelled = Arc::new(AtomicBool::new(false));
    let overtaking = Queue::with_waker({
        let is_cancelled = is_cancelled.clone();
        move || {
            drop(guard.lock().unwrap().take());
            is_cancelled.store(operation::cancel(id), Ordering::Relaxed);
        }
    });
    testing::echo(String::new(), overtaking.sink(1));
    assert_eq!(next(&queue).result.unwrap_err().code(), Code::Cancelled);
    assert!(is_cancelled.load(Ordering::Relaxed), "it was over before it was cancelled");
    assert!(is_free(&client), "released before that was told");
}

#[test]
fn closing_a_queue_cancels_what_would_answer_into_it() {
    let client = client("close-queue");
    let guard = acquire(&client, NAME, None).unwrap();
    let (queue, other) = (Queue::new(), Queue::new());
    client.acquire(&[(NAME, Claim::Exclusive)], &AcquireOptions::default(), None, queue.sink(1));
    let kept = client.acquire(&[(NAME, Claim::Exclusive)], &AcquireOptions::default(), None, other.sink(2));
    support::eventually("both wait", || contenders(&client) == 3);
    queue.close();
    assert!(queue.take(1, LIMIT).is_none(), "closed");
    support::eventually("the first has withdrawn", || contenders(&client) == 2);
    // Started after the end: withdrawn, too.
    client.acquire(&[(NAME, Claim::Exclusive)], &AcquireOptions::default(), None, queue.sink(3));
    drop(guard);
    assert!(next(&other).result.is_ok(), "the other one is not concerned");
    assert!(!operation::cancel(kept), "it is over");
    support::eventually("the last one has withdrawn", || is_free(&client));
}

fn contenders(client: &Client) -> usize {
    match outcome(|sink| client.queue(NAME, None, sink)) {
        Ok(Outcome::Contenders(contenders)) => contenders.len(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_is_cancelled_before_it_starts_does_nothing_and_a_release_releases() {
    let client = client("before");
    let guard = acquire(&client, NAME, None).unwrap();
    let cancel = Cancel::new();
    cancel.cancel();
    let put = outcome(|sink| guard.put(b"x".to_vec(), b"1".to_vec(), Some(&cancel), sink));
    assert_eq!(put.unwrap_err().code(), Code::Cancelled);
    assert!(matches!(outcome(|sink| guard.delete(b"x".to_vec(), None, sink)), Ok(Outcome::Flag(false))), "not written");
    let ping = outcome(|sink| client.ping(Some(&cancel), sink));
    assert_eq!(ping.unwrap_err().code(), Code::Cancelled);
    let release = outcome(|sink| guard.release(Some(&cancel), sink));
    assert!(release.is_ok_and(|outcome| matches!(outcome, Outcome::Done)) || guard.is_released());
    support::eventually("released", || is_free(&client));
}

#[test]
fn a_second_release_is_told_so() {
    let client = client("twice");
    let guard = acquire(&client, NAME, None).unwrap();
    let lost = Waiter::new();
    guard.ended(lost.sink());
    outcome(|sink| guard.release(None, sink)).unwrap();
    assert!(matches!(lost.wait(), Ok(Outcome::Released)));
    assert!(!guard.is_held() && guard.loss_reason().is_none());
    assert_eq!(outcome(|sink| guard.release(None, sink)).unwrap_err().code(), Code::NotHeld);
    assert!(matches!(outcome(|sink| guard.ended(sink)), Ok(Outcome::Released)), "also for one who asks late");
}

#[test]
fn a_loss_that_a_release_finds_is_told_as_a_loss() {
    for round in 0..20 {
        let client = client(&format!("lost-{round}"));
        let guard = acquire(&client, NAME, None).unwrap();
        let lost = Waiter::new();
        guard.ended(lost.sink());
        outcome(|sink| client.force_release(NAME, guard.token(), None, sink)).unwrap();
        // It has noticed, is about to, or finds out by the release.
        let release = outcome(|sink| guard.release(None, sink));
        assert_eq!(release.unwrap_err().code(), Code::Lost);
        drop(guard);
        let end = lost.wait().unwrap();
        assert!(matches!(end, Outcome::Lost(LostReason::KeyDeleted)), "{end:?}");
    }
}

#[test]
fn a_guard_freed_after_its_loss_was_lost() {
    let client = client("freed-late");
    let mut guards: Vec<Guard> =
        (0..100).map(|number| acquire(&client, &format!("/lock/{number}"), None).unwrap()).collect();
    let ends: Vec<Waiter> = guards.iter().map(|_| Waiter::new()).collect();
    for (guard, end) in guards.iter().zip(&ends) {
        guard.ended(end.sink());
    }
    for guard in &guards {
        outcome(|sink| client.force_release(guard.name(), guard.token(), None, sink)).unwrap();
    }
    // Each as soon as it has noticed, for some before the reason is known.
    while !guards.is_empty() {
        guards.retain(Guard::is_held);
    }
    for end in ends {
        let end = end.wait().unwrap();
        assert!(matches!(end, Outcome::Lost(LostReason::KeyDeleted)), "{end:?}");
    }
}

#[test]
fn a_guard_freed_during_a_call_lasts_until_the_call_is_over() {
    let client = client("freed");
    for _ in 0..50 {
        let guard = acquire(&client, NAME, None).expect("free again");
        let (put, lost) = (Waiter::new(), Waiter::new());
        guard.ended(lost.sink());
        guard.put(b"x".to_vec(), b"1".to_vec(), None, put.sink());
        drop(guard);
        assert!(matches!(put.wait(), Ok(Outcome::Revision(_))), "written while it was held");
        assert!(matches!(lost.wait(), Ok(Outcome::Released)));
    }
}

#[test]
fn closing_ends_what_listens_after_its_last_word() {
    let client = client("listen");
    let queue = Queue::new();
    client.on_state(queue.sink(1));
    let guard = acquire(&client, NAME, None).unwrap();
    let lost = Waiter::new();
    guard.ended(lost.sink());
    close(&client);
    assert!(matches!(lost.wait(), Ok(Outcome::Lost(LostReason::ClientClosed))));
    let mut last = None;
    loop {
        match next(&queue) {
            completion if completion.is_last => break,
            completion => last = completion.result.ok(),
        }
    }
    assert!(matches!(last, Some(Outcome::State(SessionState::Lost(LostReason::ClientClosed)))), "{last:?}");
    // Late subscribers are told at once.
    assert!(matches!(outcome(|sink| client.on_state(sink)), Ok(Outcome::Done)));
    assert!(matches!(outcome(|sink| guard.ended(sink)), Ok(Outcome::Lost(LostReason::ClientClosed))));
    assert_eq!(acquire(&client, NAME, None).unwrap_err().code(), Code::Closed);
}

#[test]
fn a_subscription_can_be_cancelled() {
    let client = client("unsubscribe");
    let guard = acquire(&client, NAME, None).unwrap();
    let queue = Queue::new();
    for id in [client.on_state(queue.sink(1)), guard.ended(queue.sink(1)), testing::never(None, queue.sink(1))] {
        assert!(operation::cancel(id));
        let completion = next(&queue);
        assert!(completion.is_last);
        assert_eq!(completion.result.unwrap_err().code(), Code::Cancelled);
    }
    assert!(guard.is_held());
}

#[test]
fn a_panic_is_an_error_at_every_stage() {
    for stage in [Stage::Task, Stage::Later] {
        let error = outcome(|sink| testing::panic(stage, sink)).unwrap_err();
        assert_eq!(error.code(), Code::Internal);
        assert!(error.message().contains("was asked for"), "{error}");
    }
    let error = panics::catch(|| Ok(testing::panic(Stage::Start, Waiter::new().sink()))).unwrap_err();
    assert_eq!(error.code(), Code::Internal);
    // In the work that an operation makes before it is a task: the host hears of it from the operation, and only there.
    let error = outcome(|sink| testing::panic(Stage::Work, sink)).unwrap_err();
    assert_eq!(error.code(), Code::Internal);
    // When the task is thrown away.
    let queue = Queue::new();
    testing::panic(Stage::Drop, queue.sink(1));
    assert_eq!(next(&queue).result.unwrap_err().code(), Code::Internal);
    assert!(queue.drain(9).is_empty(), "told once");
}

#[test]
fn a_panic_in_a_waker_harms_nobody() {
    let client = client("waker");
    let calls = Arc::new(AtomicUsize::new(0));
    let queue = Queue::with_waker({
        let calls = calls.clone();
        move || {
            calls.fetch_add(1, Ordering::Relaxed);
            panic!("a waker that panics");
        }
    });
    client.on_state(queue.sink(1));
    let guard = acquire(&client, NAME, None).expect("the engine lives");
    testing::echo("x".into(), queue.sink(2));
    support::eventually("both are in the queue", || !queue.drain(1).is_empty());
    assert!(calls.load(Ordering::Relaxed) > 0);
    outcome(|sink| guard.release(None, sink)).expect("the engine still lives");
}

#[test]
fn a_waker_and_a_descriptor_tell_of_every_completion() {
    let rounds = 2000;
    let queue = Queue::with_fd().unwrap();
    let fd = queue.fd().expect("a descriptor");
    let mut seen = vec![0_u32; rounds];
    for tag in 0..rounds {
        testing::echo(String::new(), queue.sink(tag as u64));
    }
    let mut left = rounds;
    while left > 0 {
        let mut poll = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        // SAFETY: `poll` is one valid entry.
        assert_eq!(unsafe { libc::poll(&raw mut poll, 1, 30_000) }, 1, "no wake-up, {left} are missing");
        // Fewer at a time than there are: what is left must wake again.
        for completion in queue.drain(7) {
            seen[completion.tag as usize] += 1;
            left -= 1;
        }
    }
    assert!(seen.iter().all(|times| *times == 1), "each exactly once");
}

#[test]
fn options_of_hosts_are_those_of_the_core() {
    let span = Duration::from_millis;
    let host = HostOptions {
        url: "http://127.0.0.1:1?ttl=20s&identity=here".into(),
        ttl: Some(span(3_000)),
        namespace: Some("/shop".into()),
        user: Some("me".into()),
        connect_timeout: Some(span(11)),
        request_timeout: Some(span(12)),
        ..HostOptions::default()
    };
    let by_hand = ClientOptions::new("http://127.0.0.1:1?identity=here")
        .ttl(span(3_000))
        .namespace("/shop")
        .user("me", "")
        .connect_timeout(span(11))
        .request_timeout(span(12));
    let text = |options: ClientOptions| format!("{options:?}");
    assert_eq!(text(host.clone().try_into().unwrap()), text(by_hand));
    let files = HostOptions {
        ca_file: Some("ca".into()),
        cert_file: Some("cert".into()),
        key_file: Some("key".into()),
        ..HostOptions::default()
    };
    let by_hand = ClientOptions::new("").ca_file("ca").cert_file("cert").key_file("key");
    assert_eq!(text(files.try_into().unwrap()), text(by_hand));
    let open = HostOptions { plaintext_password: Some(true), ..HostOptions::default() };
    assert_eq!(text(open.try_into().unwrap()), text(ClientOptions::new("").plaintext_password(true)));
    let refused = ClientOptions::try_from(HostOptions { user: None, password: Some("secret".into()), ..host });
    let error = refused.expect_err("a password needs a user");
    assert_eq!(error.code(), Code::InvalidArgument);
    assert!(!error.message().contains("secret"));
}

#[test]
fn levels_have_the_numbers_of_hosts() {
    for level in [Level::Off, Level::Error, Level::Warn, Level::Info, Level::Debug, Level::Trace] {
        assert_eq!(Level::from_number(level as i32), Some(level));
    }
    assert!(Level::from_number(-1).is_none() && Level::from_number(6).is_none());
}

#[test]
fn stale_handles_are_noticed() {
    let id = handles::insert(client("handles"));
    assert!(handles::get::<Client>(id).is_some());
    assert!(handles::get::<Guard>(id).is_none());
    assert!(handles::remove::<Client>(id).is_some());
    assert!(handles::remove::<Client>(id).is_none(), "twice");
    handles::insert(client("handles"));
    assert!(handles::get::<Client>(id).is_none() && handles::get::<Client>(0).is_none());
    for never in [1, u64::MAX, u64::MAX >> 1] {
        assert!(handles::get::<Client>(never).is_none() && handles::remove::<Cancel>(never).is_none());
    }
}

#[test]
fn any_wait_is_long_enough() {
    let client = client("long");
    let waiter = Waiter::new();
    client.ping(None, waiter.sink());
    assert!(waiter.wait_for(Duration::MAX).is_some());
    let queue = Queue::new();
    client.ping(None, queue.sink(1));
    assert_eq!(queue.take(9, Duration::MAX).map(|taken| taken.len()), Some(1));
}
