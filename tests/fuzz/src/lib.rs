//! What bytes from outside must not do: one function for each way in. It panics if they do it.
//!
//! `tests/corpus.rs` plays them in every run of the tests; `run` hands them to cargo-fuzz, which looks for new ones.

use std::time::Duration;

use leasehold::{
    Claim, ClientOptions,
    fuzzing::{contenders, event, reply},
    queue::wire::{self, Prefix},
    store::{CreateRevisionIs, Key, KeyValue, Keys, LeaseId, Op, OpReply, Pick, Range, ReplyBody, Request, Txn},
};
use leasehold_bridge::{Client, HostOptions};

/// A way in, by its name: that of its corpus and of its target.
pub type Way = (&'static str, fn(&[u8]));

/// All of them.
pub const WAYS: [Way; 5] =
    [("contenders", queue), ("events", events), ("keys", keys), ("options", options), ("replies", replies)];

/// A URL with its options, and the options beside it, as any program may get them from its configuration: they are taken or
/// refused, and what is said never shows the password.
pub fn options(data: &[u8]) {
    const SECRET: &str = "a password that nobody guesses";
    let text = String::from_utf8_lossy(data);
    // Files are read when a client is made: a fuzzer that chooses which would read the devices of this machine.
    if text.contains("_file") {
        return;
    }
    let mut parts = text.split('\n').map(str::to_owned);
    let mut next = || parts.next().filter(|part| !part.is_empty());
    let url = next().unwrap_or_default();
    let shown = match ClientOptions::new(url.clone()).user("user", SECRET).build() {
        Ok(client) => format!("{client:?}"),
        Err(error) => format!("{error} {error:?}"),
    };
    assert!(!shown.contains(SECRET), "{shown}");
    let span = |text: Option<String>| text.and_then(|text| text.parse().ok()).map(Duration::from_millis);
    let host = HostOptions {
        url,
        namespace: next(),
        identity: next(),
        user: next(),
        ttl: span(next()),
        connect_timeout: span(next()),
        request_timeout: span(next()),
        password: Some(SECRET.into()),
        ..HostOptions::default()
    };
    if let Err(error) = ClientOptions::try_from(host).and_then(Client::open) {
        assert!(!format!("{error} {error:?}").contains(SECRET), "{error}");
    }
}

/// Keys that others put below a name: whatever looks like one of ours is written exactly so by us.
pub fn keys(data: &[u8]) {
    let prefix = Prefix::new("", "/lock/a");
    let key = Key::from([b"/lock/a/", data].concat());
    let is_nested = data.contains(&b'/');
    assert_eq!(prefix.is_contender(&key), !is_nested);
    match wire::choice(&key) {
        Some(chosen) if !is_nested => {
            assert_eq!(prefix.contender(chosen.lease, chosen.number, chosen.claim), key);
            assert_eq!(wire::claim_of(&key), chosen.claim);
            assert!(wire::is_chosen_by(&key, chosen.lease));
        }
        Some(_) => {}
        None => assert_eq!(wire::claim_of(&key), Claim::Exclusive),
    }
}

/// Keys and values in a queue, whoever wrote them: each is listed, in order, and the first one holds.
pub fn queue(data: &[u8]) {
    let prefix = Prefix::new("", "/lock/a");
    let kvs: Vec<KeyValue> = data
        .split(|byte| *byte == b'\n')
        .enumerate()
        .map(|(at, line)| {
            let (last, value) = line.split_at(line.iter().position(|byte| *byte == b' ').unwrap_or(line.len()));
            let revision = 1 + i64::try_from(at).unwrap_or_default();
            KeyValue {
                key: Key::from([b"/lock/a/", last].concat()),
                value: value.into(),
                create_revision: revision,
                mod_revision: revision,
                lease: (at % 2 == 0).then_some(LeaseId(revision)),
            }
        })
        .collect();
    let standing = kvs.iter().filter(|kv| prefix.is_contender(&kv.key)).count();
    let listed = contenders(&prefix, kvs);
    assert_eq!(listed.len(), standing);
    assert!(listed.is_sorted_by_key(|contender| contender.token));
    assert!(listed.first().is_none_or(|contender| contender.is_holder));
}

/// What a watch tells.
pub fn events(data: &[u8]) {
    if let Ok(event) = event(data) {
        assert!(event.revision > 0);
    }
}

/// What a server answers: refused, or of the shape that was asked for. The first byte chooses what was asked.
pub fn replies(data: &[u8]) {
    let Some((first, message)) = data.split_first() else { return };
    let (prefix, lease) = (Prefix::new("", "/lock/a"), LeaseId(7));
    let key = prefix.contender(lease, 1, Claim::Exclusive);
    let value = [].into();
    let read = |limit| Range { keys: prefix.keys().clone(), limit, keys_only: true, pick: Pick::All };
    let request = match first % 6 {
        0 => Request::Txn(wire::enqueue(&prefix, &key, &value, lease)),
        1 => Request::Txn(wire::try_enqueue(&prefix, &key, &value, lease, &[])),
        2 => Request::Range(read(2)),
        3 => Request::LeaseGrant { lease, ttl: 5 },
        4 => Request::LeaseTimeToLive { lease },
        _ => Request::Txn(Txn {
            conditions: vec![CreateRevisionIs { keys: Keys::one(key.clone()), revision: 0 }],
            then: vec![Op::Txn(Txn {
                then: vec![Op::Range(read(0)), Op::Delete(prefix.keys().clone())],
                ..Txn::default()
            })],
            otherwise: vec![Op::Delete(Keys::one(key.clone()))],
        }),
    };
    let Ok(reply) = reply(&request, message) else { return };
    assert!(reply.revision > 0);
    match (&request, &reply.body) {
        (Request::Txn(asked), ReplyBody::Txn(answered)) => {
            let branch = if answered.succeeded { &asked.then } else { &asked.otherwise };
            assert_eq!(branch.len(), answered.replies.len());
            let fits = |(op, reply): (&Op, &OpReply)| {
                matches!(
                    (op, reply),
                    (Op::Put { .. }, OpReply::Put)
                        | (Op::Delete(_), OpReply::Delete(_))
                        | (Op::Range(_), OpReply::Range(_))
                        | (Op::Txn(_), OpReply::Txn(_))
                )
            };
            assert!(branch.iter().zip(&answered.replies).all(fits));
            let revision = reply.revision;
            if let Some(joined) = wire::joined(reply, &key, first % 6 == 1) {
                assert!(joined.revision.is_none_or(|own| (1..=revision).contains(&own)));
                assert!(joined.glance.iter().all(|kv| kv.create_revision > 0 && kv.mod_revision <= revision));
            }
        }
        (Request::Range(_), ReplyBody::Range(found)) => assert!(found.kvs.len() <= 2),
        (Request::LeaseGrant { .. }, ReplyBody::LeaseGrant { ttl }) => assert!(*ttl > 0),
        (Request::LeaseTimeToLive { .. }, ReplyBody::LeaseTimeToLive { .. }) => {}
        (request, body) => panic!("{body:?} is no answer to {request:?}"),
    }
}
