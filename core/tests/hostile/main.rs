//! Servers that are no etcd, or a bad one: whatever they answer, nobody holds by it, nothing hangs, and no message is a weapon.

mod server;

use std::{
    net::SocketAddr,
    time::{Duration, Instant},
};

use leasehold::{
    ClientOptions, Code,
    store::{
        Key, LeaseId, Op, Request, Store, Txn, WatchId, WatchRequest,
        etcd::{EtcdConfig, EtcdStore},
    },
};
use tokio::time::timeout;

use self::server::{Answer, start};

/// What a client may take beyond its own limits, on a busy machine.
const SLACK: Duration = Duration::from_secs(10);

/// A store that believes the server at this address to be an etcd.
fn store(address: SocketAddr) -> EtcdStore {
    let config = EtcdConfig {
        endpoints: vec![format!("http://{address}")],
        tls: None,
        login: None,
        plaintext_password: false,
        connect_timeout: Duration::from_secs(2),
    };
    EtcdStore::new(config).expect("a good endpoint")
}

/// A header of a reply with this revision (field 3 of field 1).
fn header(revision: u8) -> Vec<u8> {
    vec![0x0a, 2, 0x18, revision]
}

/// A header and more.
fn with(more: &[u8]) -> Vec<u8> {
    [&header(5), more].concat()
}

/// Everything that no etcd answers. A transaction that succeeded is `10 01`, its answers are field 3.
fn nonsense() -> Vec<Answer> {
    let mut negative = vec![0x0a, 11, 0x18];
    negative.extend([0xff; 9]);
    negative.push(1);
    vec![
        Answer::Message(Vec::new()),
        Answer::Message(vec![0x10, 1]),
        Answer::Message(header(0)),
        Answer::Message([&negative[..], &[0x10, 1]].concat()),
        Answer::Message(header(5)),
        Answer::Message(with(&[0x10, 1])),
        Answer::Message(with(&[0x10, 1, 0x1a, 0])),
        // Two answers to one operation, and the answer to a read instead of that to a put.
        Answer::Message(with(&[0x10, 1, 0x1a, 2, 0x12, 0, 0x1a, 2, 0x12, 0])),
        Answer::Message(with(&[0x10, 1, 0x1a, 2, 0x0a, 0])),
        Answer::Message(vec![0xff; 64]),
        Answer::Message(b"\x0a\xff\xff\xff\xff\x0f".to_vec()),
        // A message of 2 GiB, one of which half comes, one that is compressed, and none.
        Answer::Raw(vec![0, 0x7f, 0xff, 0xff, 0xff, 1, 2, 3]),
        Answer::Raw(vec![0, 0, 0, 0, 9, 1, 2]),
        Answer::Raw(vec![1, 0, 0, 0, 1, 1]),
        Answer::Raw(Vec::new()),
        Answer::Status(0, ""),
        Answer::Status(2, "\u{1b}[2J"),
        Answer::Status(14, "%1B%5B2J%0Aforged%00%E2%80%AE"),
        Answer::Status(99, "no such code"),
        Answer::Page,
        Answer::Reset,
        Answer::Silence,
        Answer::Flood(with(&[0x10, 1])),
    ]
}

fn assert_harmless(text: &str) {
    assert!(text.chars().all(|c| !c.is_control() && c != '\u{202e}'), "{text:?}");
    assert!(text.len() < 2_000, "{} bytes: {text}", text.len());
}

/// Seen to fail for replies without a header, with a wrong count of answers and with revisions below 1, all of which were wins.
#[tokio::test]
async fn nonsense_is_an_unknown_fate_and_never_a_win() {
    let key = Key::from("k");
    let put = Op::Put { key, value: (*b"v").into(), lease: Some(LeaseId(7)) };
    let write = Request::Txn(Txn { then: vec![put.clone()], otherwise: vec![put], ..Txn::default() });
    for answer in nonsense() {
        let address = start(answer.clone()).await;
        let store = store(address);
        let limit = Duration::from_millis(500);
        let error =
            timeout(limit + SLACK, store.call(write.clone(), limit)).await.expect("in time").expect_err("no answer");
        assert!(error.ambiguous, "{answer:?}: {error}");
        assert_harmless(&error.message);
    }
}

#[tokio::test]
async fn nobody_holds_by_it_and_nothing_hangs() {
    for answer in nonsense() {
        let address = start(answer.clone()).await;
        let request = Duration::from_millis(600);
        let client = ClientOptions::new(format!("http://{address}")).request_timeout(request).build().unwrap();
        let begun = Instant::now();
        let lock = client.lock("/lock/a");
        let error = timeout(SLACK, lock.acquire_within(Duration::from_secs(1))).await.expect("in time");
        let error = error.expect_err("nobody holds");
        assert!(begun.elapsed() < SLACK, "{answer:?}");
        assert_ne!(error.code(), Code::NotAcquired, "{answer:?}: nobody said that it is taken");
        assert_harmless(&error.to_string());
        timeout(SLACK, client.close()).await.expect("in time").unwrap();
    }
}

/// Streams, too: each ends with an error, or says nothing that could be believed, and is held back where nobody reads it.
#[tokio::test]
async fn streams_of_nonsense_end_or_wait() {
    for answer in nonsense() {
        let address = start(answer.clone()).await;
        let store = store(address);
        let mut renewals = store.renewals(0);
        renewals.requests.send(LeaseId(7)).unwrap();
        match timeout(Duration::from_secs(1), renewals.replies.recv()).await {
            Ok(Some(Ok(renewed))) => panic!("{answer:?}: {renewed:?}"),
            Ok(Some(Err(error))) => assert_harmless(&error.message),
            Ok(None) | Err(_) => {}
        }
        let watches = store.watches();
        let keys = leasehold::store::Keys::one(Key::from("k"));
        watches.requests.send(WatchRequest::Create(WatchId(1), keys)).unwrap();
        tokio::time::sleep(Duration::from_millis(20)).await;
        assert!(watches.replies.len() <= 64, "{answer:?}: {} messages wait", watches.replies.len());
    }
}
