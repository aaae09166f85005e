//! Elections through the bridge, against the store inside the process: campaign, proclaim, resign, leader, observe.

mod support;

use std::{sync::Arc, time::Duration};

use leasehold_bridge::{AcquireOptions, Cancel, Client, Code, Guard, Outcome, Queue, Result, Waiter};
use support::{LIMIT, acquire, close, outcome};

const NAME: &str = "/election/a";

fn client(name: &str) -> Arc<Client> {
    support::client(&format!("memory://{name}"))
}

fn campaign(client: &Client, value: &[u8], wait: Option<Duration>) -> Result<Guard> {
    let options = AcquireOptions { wait, ..Default::default() };
    outcome(|sink| client.campaign(NAME, value, &options, None, sink)).and_then(Outcome::into_guard)
}

fn proclaim(guard: &Guard, value: &str) -> Result<Outcome> {
    outcome(|sink| guard.proclaim(value.into(), None, sink))
}

fn resign(guard: &Guard) {
    outcome(|sink| guard.release(None, sink)).expect("it leads");
}

/// What the leader says, if anybody leads.
fn leader(client: &Client) -> Option<String> {
    match outcome(|sink| client.leader(NAME, None, sink)).expect("asked") {
        Outcome::Leader(leader) => leader.map(|leader| String::from_utf8(leader.value).expect("text")),
        other => panic!("it brought {other:?}"),
    }
}

/// What an observer is told next.
fn seen(queue: &Queue) -> Option<String> {
    let completion = queue.take(1, LIMIT).expect("open").pop().expect("a completion");
    assert!(!completion.is_last, "{completion:?}");
    match completion.result.expect("it goes on") {
        Outcome::Observed(observed) => observed.leader.map(|leader| String::from_utf8(leader.value).expect("text")),
        other => panic!("it brought {other:?}"),
    }
}

/// Seen to fail with an observation that ends at its first report.
#[test]
fn one_leads_after_the_other_and_whoever_observes_is_told_of_each_proclamation() {
    let (one, two) = (client("elections"), client("elections"));
    let (queue, cancel) = (Queue::new(), Cancel::new());
    two.observe(NAME, Some(&cancel), queue.sink(7));
    assert_eq!(seen(&queue), None);
    assert_eq!(leader(&one), None);

    let first = campaign(&one, b"one", None).unwrap();
    let waiter = Waiter::new();
    two.campaign(NAME, b"two", &AcquireOptions::default(), None, waiter.sink());
    assert_eq!(seen(&queue).as_deref(), Some("one"));
    proclaim(&first, "one again").unwrap();
    assert_eq!(seen(&queue).as_deref(), Some("one again"));
    assert_eq!(leader(&two).as_deref(), Some("one again"));
    assert!(waiter.wait_for(Duration::from_millis(20)).is_none(), "two lead");
    assert_eq!(campaign(&one, b"three", Some(Duration::from_millis(1))).unwrap_err().code(), Code::NotAcquired);

    resign(&first);
    let second = waiter.wait_for(LIMIT).expect("its turn").and_then(Outcome::into_guard).unwrap();
    assert_eq!(seen(&queue).as_deref(), Some("two"));
    assert!(second.token() > first.token());
    assert_eq!(proclaim(&first, "too late").unwrap_err().code(), Code::NotHeld);
    assert_eq!(leader(&one).as_deref(), Some("two"));
    drop(second);
    assert_eq!(seen(&queue), None);

    cancel.cancel();
    let last = queue.take(1, LIMIT).expect("open").pop().expect("a completion");
    assert!(last.is_last && last.tag == 7);
    assert_eq!(last.result.unwrap_err().code(), Code::Cancelled);
}

#[test]
fn a_campaign_that_is_cancelled_or_late_leaves_no_candidate() {
    let client = client("candidates");
    let leads = campaign(&client, b"leads", None).unwrap();
    let (queue, cancel) = (Queue::new(), Cancel::new());
    client.campaign(NAME, b"gives up", &AcquireOptions::default(), Some(&cancel), queue.sink(1));
    cancel.cancel();
    let given_up = queue.take(1, LIMIT).expect("open").pop().expect("a completion");
    assert_eq!(given_up.result.unwrap_err().code(), Code::Cancelled);
    assert!(campaign(&client, b"tries", Some(Duration::ZERO)).is_err());
    let Outcome::Contenders(queue) = outcome(|sink| client.queue(NAME, None, sink)).unwrap() else { panic!("a queue") };
    assert_eq!(queue.len(), 1, "{queue:?}");
    resign(&leads);
    assert_eq!(leader(&client), None);
}

#[test]
fn what_cannot_be_proclaimed_is_refused_before_it_is_sent() {
    let client = client("refused");
    let lock = acquire(&client, NAME, None).unwrap();
    assert_eq!(proclaim(&lock, "of a lock").unwrap_err().code(), Code::InvalidArgument);
    drop(lock);
    let large = vec![b'x'; 1_500_001];
    assert_eq!(campaign(&client, &large, None).unwrap_err().code(), Code::InvalidArgument);
    let leads = campaign(&client, b"small", None).unwrap();
    let error = outcome(|sink| leads.proclaim(large, None, sink)).unwrap_err();
    assert_eq!(error.code(), Code::InvalidArgument);
    assert_eq!(leader(&client).as_deref(), Some("small"));
}

#[test]
fn observing_ends_with_the_client() {
    let client = client("ends");
    let queue = Queue::new();
    client.observe(NAME, None, queue.sink(3));
    assert_eq!(seen(&queue), None);
    close(&client);
    let last = queue.take(1, LIMIT).expect("open").pop().expect("a completion");
    assert!(last.is_last && matches!(last.result, Ok(Outcome::Done)), "{last:?}");
}
