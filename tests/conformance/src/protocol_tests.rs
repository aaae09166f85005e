//! Replies and events of every wrong form, each with the finding that it must lead to, and their neighbours that are right.

use serde_json::json;

use super::*;
use crate::message;

/// What is found in these requests, replies and events, one after the other, a millisecond apart.
fn findings(said: &[Value]) -> Vec<String> {
    let mut at = 0;
    let entry = |said: &Value| {
        at += 1_000_000;
        let mut said = message(said.clone());
        let what = if said.contains_key("event") {
            said.entry("mono_ns").or_insert(at.into());
            What::Event(said)
        } else if said.contains_key("ok") {
            said.entry("mono_ns").or_insert(at.into());
            What::Reply(said)
        } else {
            What::Request(said)
        };
        Entry { at, who: "a".to_owned(), what }
    };
    check(&said.iter().map(entry).collect::<Vec<_>>())
}

/// `reply` with `changes`; a field that is changed to null is left out where `reply` has it.
fn with(reply: &Value, changes: Value) -> Value {
    let mut reply = message(reply.clone());
    reply.extend(message(changes));
    reply.retain(|_, value| value != "left out");
    reply.into()
}

#[track_caller]
fn only_the_first_is_right(request: &Value, reply: &Value, changes: &[Value]) {
    let open = json!({"id": 0, "op": "open", "client": "c", "namespace": "/n"});
    let opened = json!({"id": 0, "ok": true});
    let found = |reply: Value| findings(&[open.clone(), opened.clone(), request.clone(), reply]);
    assert_eq!(found(reply.clone()), Vec::<String>::new());
    for change in changes {
        let findings = found(with(reply, change.clone()));
        assert_eq!(findings.len(), 1, "{change}: {findings:?}");
    }
}

#[test]
fn an_acquire_says_all_of_its_hold() {
    let request = json!({"id": 1, "op": "acquire", "client": "c", "lock": "/l", "hold": "h"});
    let reply =
        json!({"id": 1, "ok": true, "key": "/n/l/5f", "token": 3, "sequence": 0, "lease": "5f", "remaining_ms": 9});
    let mut changes: Vec<_> =
        ["key", "token", "sequence", "lease", "remaining_ms"].map(|field| json!({field: "left out"})).into();
    changes.extend([
        json!({"key": "/l/5f"}),
        json!({"key": "/n/lx"}),
        json!({"token": "3"}),
        json!({"token": 0}),
        json!({"sequence": null}),
        json!({"lease": "0x5F"}),
        json!({"lease": 95}),
        json!({"remaining_ms": -1}),
        json!({"remaining_ms": 8.5}),
        json!({"held": true}),
    ]);
    only_the_first_is_right(&request, &reply, &changes);
}

#[test]
fn other_replies_have_their_fields_and_no_others() {
    let check = json!({"id": 1, "op": "check", "hold": "h"});
    let held = json!({"id": 1, "ok": true, "held": true, "remaining_ms": 9});
    let changes =
        [json!({"held": "left out"}), json!({"held": 1}), json!({"remaining_ms": null}), json!({"held": false})];
    only_the_first_is_right(&check, &held, &changes);
    let txn = json!({"id": 1, "op": "guarded_txn", "hold": "h", "gets": ["/x", "/y"]});
    let read = json!({"id": 1, "ok": true, "values": ["1", null]});
    let changes =
        [json!({"values": ["1"]}), json!({"values": ["1", 2]}), json!({"values": "left out"}), json!({"revision": 7})];
    only_the_first_is_right(&txn, &read, &changes);
    let delete = json!({"id": 1, "op": "guarded_delete", "hold": "h", "key": "/x"});
    only_the_first_is_right(&delete, &json!({"id": 1, "ok": true, "values": []}), &[json!({"values": null})]);
    let queue = json!({"id": 1, "op": "queue", "client": "c", "lock": "/l"});
    let one = json!({"key": "/n/l/5f", "token": 3, "lease": null, "identity": null, "foreign": true});
    let listed = json!({"id": 1, "ok": true, "contenders": [one]});
    let changes = [
        json!({"contenders": "left out"}),
        json!({"contenders": [with(&one, json!({"lease": "left out"}))]}),
        json!({"contenders": [with(&one, json!({"pid": 7}))]}),
        json!({"contenders": [with(&one, json!({"token": "3"}))]}),
    ];
    only_the_first_is_right(&queue, &listed, &changes);
    let ping = json!({"id": 1, "op": "ping", "client": "c"});
    let refused = json!({"id": 1, "ok": false, "code": "CLOSED", "message": "it is closed"});
    only_the_first_is_right(&ping, &refused, &[json!({"reason": "x"})]);
    only_the_first_is_right(&ping, &json!({"id": 1, "ok": true}), &[json!({"held": true})]);
    let version = json!({"id": 1, "op": "version"});
    let answer = json!({"id": 1, "ok": true, "language": "c", "version": "1"});
    only_the_first_is_right(&version, &answer, &[json!({"language": 1}), json!({"version": ""})]);
}

#[test]
fn events_are_asked_for_and_say_what_happened() {
    let on_lost = json!({"id": 1, "op": "on_lost", "hold": "h"});
    let on_state = json!({"id": 2, "op": "on_state", "client": "c"});
    let (lost_asked, state_asked) = (json!({"id": 1, "ok": true}), json!({"id": 2, "ok": true}));
    let lost = json!({"event": "lost", "hold": "h", "reason": "EXPIRED"});
    let state = json!({"event": "state", "client": "c", "state": "SUSPECT"});
    let after = |event: &Value| {
        findings(&[on_lost.clone(), lost_asked.clone(), on_state.clone(), state_asked.clone(), event.clone()])
    };
    assert_eq!(after(&lost), Vec::<String>::new());
    assert_eq!(after(&state), Vec::<String>::new());
    for wrong in [
        with(&lost, json!({"reason": "BORED"})),
        with(&lost, json!({"reason": null})),
        with(&lost, json!({"hold": "other"})),
        with(&lost, json!({"mono_ns": null})),
        with(&lost, json!({"mono_ns": 1})),
        with(&lost, json!({"mono_ns": 9_000_000})),
        with(&lost, json!({"token": 3})),
        with(&state, json!({"state": "ok"})),
        with(&state, json!({"client": "other"})),
        json!({"event": "news"}),
    ] {
        assert_eq!(after(&wrong).len(), 1, "{wrong}");
    }
    // Before it was asked for, before the answer, twice, and after a release.
    assert_eq!(findings(std::slice::from_ref(&lost)).len(), 1);
    assert_eq!(findings(&[on_lost.clone(), lost.clone(), lost_asked.clone()]).len(), 1);
    assert_eq!(findings(&[on_lost.clone(), lost_asked.clone(), lost.clone(), lost.clone()]).len(), 1);
    let released = [json!({"id": 3, "op": "release", "hold": "h"}), json!({"id": 3, "ok": true})];
    assert_eq!(findings(&[&[on_lost, lost_asked], &released[..], &[lost]].concat()).len(), 1);
}

#[test]
fn observers_tell_leaders_with_all_that_is_said_of_them() {
    let leader = json!({"id": 1, "op": "leader", "client": "c", "election": "/e"});
    let answer = json!({"id": 1, "ok": true, "value": "", "token": 3});
    let changes = [
        json!({"value": null}),
        json!({"token": null}),
        json!({"token": 0}),
        json!({"value": "left out"}),
        json!({"key": "/e/5f-1"}),
    ];
    only_the_first_is_right(&leader, &answer, &changes);
    only_the_first_is_right(&leader, &with(&answer, json!({"value": null, "token": null})), &[]);
    let campaign = json!({"id": 1, "op": "campaign", "client": "c", "election": "/e", "hold": "h", "value": "v"});
    let elected =
        json!({"id": 1, "ok": true, "key": "/n/e/5f-1", "token": 3, "sequence": 0, "lease": "5f", "remaining_ms": 9});
    only_the_first_is_right(&campaign, &elected, &[json!({"key": "/n/l/5f-1"}), json!({"value": "v"})]);

    let observe = [
        json!({"id": 1, "op": "observe", "client": "c", "election": "/e", "watch": "w"}),
        json!({"id": 1, "ok": true}),
    ];
    let seen = json!({"event": "leader", "watch": "w", "value": "v", "token": 3});
    let after = |event: Value| findings(&[&observe[..], &[event.clone(), event]].concat()).len();
    assert_eq!(after(seen.clone()), 0, "as often as there is something to tell");
    assert_eq!(after(with(&seen, json!({"value": null, "token": null}))), 0);
    for wrong in [json!({"value": null}), json!({"token": "3"}), json!({"watch": "other"}), json!({"reason": "x"})] {
        assert_eq!(after(with(&seen, wrong.clone())), 2, "{wrong}");
    }
    assert_eq!(findings(&[observe[0].clone(), seen, observe[1].clone()]).len(), 1);
}
