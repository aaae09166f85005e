//! Histories that break a promise, each with the finding that it must lead to, and their neighbours that keep it.

use serde_json::json;

use super::*;

/// A history written by hand; times in milliseconds.
#[derive(Default)]
struct Script {
    entries: Vec<Entry>,
    ids: u64,
}

const MS: u64 = 1_000_000;

impl Script {
    fn entry(&mut self, at: u64, who: &str, what: What) -> &mut Self {
        self.entries.push(Entry { at: at * MS, who: who.to_owned(), what });
        self
    }

    /// A request at `at`, answered one millisecond later.
    fn call(&mut self, at: u64, who: &str, request: Value, reply: Value) -> &mut Self {
        self.ids += 1;
        let (mut request, mut reply) = (object(request), object(reply));
        request.insert("id".to_owned(), self.ids.into());
        reply.insert("id".to_owned(), self.ids.into());
        reply.entry("mono_ns").or_insert((at * MS + MS).into());
        self.entry(at, who, What::Request(request)).entry(at + 1, who, What::Reply(reply))
    }

    fn acquire(&mut self, at: u64, who: &str, hold: &str, token: i64) -> &mut Self {
        let key = format!("/l/{who}{hold}");
        self.call(
            at,
            who,
            json!({"op": "acquire", "client": "c", "lock": "/l", "hold": hold}),
            json!({"ok": true, "key": key, "token": token, "sequence": 0, "lease": who, "remaining_ms": 1000}),
        )
    }

    fn release(&mut self, at: u64, who: &str, hold: &str) -> &mut Self {
        self.call(at, who, json!({"op": "release", "hold": hold}), json!({"ok": true}))
    }

    fn checked(&mut self, at: u64, who: &str, hold: &str, held: bool) -> &mut Self {
        let reply = json!({"ok": true, "held": held, "remaining_ms": if held { 1000 } else { 0 }});
        self.call(at, who, json!({"op": "check", "hold": hold}), reply)
    }

    fn findings(&self) -> Vec<String> {
        check(&self.entries)
    }

    #[track_caller]
    fn is_clean(&self) {
        assert_eq!(self.findings(), Vec::<String>::new());
    }

    #[track_caller]
    fn breaks(&self, rule: &str) {
        let findings = self.findings();
        assert!(findings.len() == 1 && findings[0].starts_with(rule), "{rule} not found: {findings:?}");
    }
}

fn object(value: Value) -> Message {
    match value {
        Value::Object(map) => map,
        value => panic!("not an object: {value}"),
    }
}

#[test]
fn one_after_the_other_is_clean() {
    Script::default().acquire(0, "a", "h", 5).release(10, "a", "h").acquire(11, "b", "h", 7).is_clean();
}

#[test]
fn two_holds_at_once_are_found() {
    Script::default().acquire(0, "a", "h", 5).acquire(10, "b", "h", 7).breaks("exclusion");
    Script::default().acquire(0, "a", "h", 5).acquire(10, "b", "h", 7).release(12, "a", "h").breaks("exclusion");
}

#[test]
fn an_overlap_with_a_hold_before_the_last_is_found() {
    let mut script = Script::default();
    script.acquire(0, "a", "h", 5).acquire(5, "b", "h", 6).release(7, "b", "h").acquire(9, "c", "h", 7);
    let findings = script.findings();
    assert_eq!(findings.iter().filter(|finding| finding.starts_with("exclusion")).count(), 2, "{findings:?}");
}

#[test]
fn holds_of_different_names_and_namespaces_do_not_exclude_each_other() {
    let mut script = Script::default();
    script.call(0, "a", json!({"op": "open", "client": "c", "namespace": "/n"}), json!({"ok": true}));
    let acquire = json!({"op": "acquire", "client": "c", "lock": "/l", "hold": "h"});
    let won = json!({"ok": true, "key": "/n/l/k", "token": 5, "sequence": 0, "lease": "9", "remaining_ms": 1000});
    script.call(2, "a", acquire, won).acquire(10, "b", "h", 3).is_clean();
}

#[test]
fn a_token_that_does_not_grow_is_found() {
    Script::default().acquire(0, "a", "h", 5).release(10, "a", "h").acquire(12, "b", "h", 5).breaks("order");
    Script::default().acquire(0, "a", "h", 5).release(10, "a", "h").acquire(12, "b", "h", 4).breaks("order");
}

#[test]
fn a_lost_event_ends_a_hold_and_one_that_comes_late_does_not() {
    let lost =
        |at: u64| What::Event(object(json!({"event": "lost", "hold": "h", "reason": "EXPIRED", "mono_ns": at * MS})));
    let asked = || {
        let mut script = Script::default();
        script.acquire(0, "a", "h", 5).call(2, "a", json!({"op": "on_lost", "hold": "h"}), json!({"ok": true}));
        script
    };
    asked().entry(10, "a", lost(9)).acquire(12, "b", "h", 7).is_clean();
    asked().acquire(12, "b", "h", 7).entry(20, "a", lost(19)).breaks("exclusion");
}

#[test]
fn a_check_that_says_no_ends_a_hold() {
    Script::default().acquire(0, "a", "h", 5).checked(10, "a", "h", false).acquire(12, "b", "h", 7).is_clean();
}

#[test]
fn what_the_runner_takes_away_is_nobodys_fault() {
    Script::default()
        .acquire(0, "a", "h", 5)
        .entry(10, "runner", What::KeyDeleted("/l/ah".to_owned()))
        .acquire(12, "b", "h", 7)
        .is_clean();
    Script::default()
        .acquire(0, "a", "h", 5)
        .entry(10, "runner", What::LeaseRevoked("a".to_owned()))
        .acquire(12, "b", "h", 7)
        .is_clean();
    Script::default()
        .acquire(0, "a", "h", 5)
        .entry(10, "runner", What::KeyDeleted("/l/other".to_owned()))
        .acquire(12, "b", "h", 7)
        .breaks("exclusion");
}

#[test]
fn a_forced_release_ends_only_the_hold_of_that_token() {
    let force = |token: i64| json!({"op": "force_release", "client": "c", "lock": "/l", "token": token});
    let ok = || json!({"ok": true});
    Script::default().acquire(0, "a", "h", 5).call(10, "b", force(5), ok()).acquire(12, "b", "h", 7).is_clean();
    Script::default()
        .acquire(0, "a", "h", 5)
        .call(10, "b", force(4), ok())
        .acquire(12, "b", "h", 7)
        .breaks("exclusion");
}

#[test]
fn a_close_ends_the_holds_of_its_client_only() {
    let close = |client: &str| json!({"op": "close", "client": client});
    let ok = || json!({"ok": true});
    Script::default().acquire(0, "a", "h", 5).call(10, "a", close("c"), ok()).acquire(12, "b", "h", 7).is_clean();
    Script::default()
        .acquire(0, "a", "h", 5)
        .call(10, "a", close("d"), ok())
        .acquire(12, "b", "h", 7)
        .breaks("exclusion");
}

#[test]
fn a_fault_ends_a_hold_at_the_deadline_that_its_owner_knew_and_no_earlier() {
    for fault in [Fault::Killed, Fault::Frozen, Fault::CutOff] {
        let mut script = Script::default();
        script.acquire(0, "a", "h", 5).entry(10, "a", What::Fault(fault));
        script.acquire(1002, "b", "h", 7).is_clean();
        let mut script = Script::default();
        script.acquire(0, "a", "h", 5).entry(10, "a", What::Fault(fault));
        script.acquire(900, "b", "h", 7).breaks("exclusion");
        // The last check moved the deadline.
        let mut script = Script::default();
        script.acquire(0, "a", "h", 5).checked(500, "a", "h", true).entry(510, "a", What::Fault(fault));
        script.acquire(1002, "b", "h", 7).breaks("exclusion");
    }
}

#[test]
fn who_wakes_up_and_believes_that_it_still_holds_is_found() {
    let mut script = Script::default();
    script.acquire(0, "a", "h", 5).entry(10, "a", What::Fault(Fault::Frozen));
    script.acquire(2000, "b", "h", 7).entry(3000, "a", What::Fault(Fault::Thawed));
    script.is_clean();
    script.checked(3001, "a", "h", true).breaks("exclusion");
}

#[test]
fn who_was_frozen_for_a_moment_goes_on_holding() {
    let mut script = Script::default();
    script.acquire(0, "a", "h", 5).entry(10, "a", What::Fault(Fault::Frozen)).entry(
        20,
        "a",
        What::Fault(Fault::Thawed),
    );
    script.checked(30, "a", "h", true).acquire(5000, "b", "h", 7).breaks("exclusion");
}

#[test]
fn a_hold_without_renewal_ends_at_its_deadline_and_extend_moves_it() {
    let unrenewed = json!({"op": "acquire", "client": "c", "lock": "/l", "hold": "h", "renew": false});
    let reply = json!({"ok": true, "key": "/l/k", "token": 5, "sequence": 0, "lease": "9", "remaining_ms": 1000});
    Script::default().call(0, "a", unrenewed.clone(), reply.clone()).acquire(1002, "b", "h", 7).is_clean();
    Script::default()
        .call(0, "a", unrenewed, reply)
        .call(500, "a", json!({"op": "extend", "hold": "h", "ttl_ms": 2000}), json!({"ok": true}))
        .acquire(1002, "b", "h", 7)
        .breaks("exclusion");
}

#[test]
fn holds_of_one_token_are_told_apart_by_their_sequence() {
    let acquire = |hold: &str| json!({"op": "acquire", "client": "c", "lock": "/l", "hold": hold});
    let reply = |sequence: i64| json!({"ok": true, "key": "/l/k", "token": 5, "sequence": sequence, "lease": "9", "remaining_ms": 1});
    let mut script = Script::default();
    script.call(0, "a", acquire("h"), reply(0)).release(2, "a", "h");
    script.call(4, "a", acquire("i"), reply(1)).release(6, "a", "i").is_clean();
    script.call(8, "a", acquire("j"), reply(1)).release(10, "a", "j").breaks("order");
}

#[test]
fn replies_that_do_not_keep_to_the_protocol_are_found() {
    let ping = || json!({"op": "ping", "client": "c"});
    for reply in [
        json!({}),
        json!({"ok": "yes"}),
        json!({"ok": false}),
        json!({"ok": false, "code": "SOMETHING", "message": "m"}),
        json!({"ok": false, "code": "INTERNAL", "message": "m"}),
        json!({"ok": false, "code": "UNAVAILABLE"}),
        json!({"ok": true, "mono_ns": null}),
        json!({"ok": true, "mono_ns": 9 * MS}),
        json!({"ok": true, "mono_ns": 12 * MS}),
    ] {
        Script::default().call(10, "a", ping(), reply).breaks("protocol");
    }
    let failure = json!({"ok": false, "code": "UNAVAILABLE", "message": "no endpoint could be reached"});
    Script::default().call(10, "a", ping(), failure).is_clean();
    let unasked = What::Reply(object(json!({"id": 77, "ok": true, "mono_ns": MS})));
    Script::default().entry(1, "a", unasked).breaks("protocol");
    Script::default().entry(1, "a", What::Line("hello".to_owned())).breaks("protocol");
}

#[test]
fn an_observer_never_goes_back_to_a_leader_before() {
    let observed = |tokens: &[Option<i64>]| {
        let mut script = Script::default();
        let observe = json!({"op": "observe", "client": "c", "election": "/e", "watch": "w"});
        script.call(0, "a", observe, json!({"ok": true}));
        for (n, token) in tokens.iter().enumerate() {
            let event = json!({"event": "leader", "watch": "w", "value": token.map(|_| "v"), "token": token, "mono_ns": (n as u64 + 10) * MS});
            script.entry(n as u64 + 10, "a", What::Event(object(event)));
        }
        script.findings()
    };
    assert_eq!(observed(&[None, Some(3), Some(3), None, Some(7)]), Vec::<String>::new());
    assert_eq!(observed(&[Some(3), Some(2)]).len(), 1);
    assert_eq!(observed(&[Some(3), None, Some(2)]).len(), 1);
}

#[test]
fn leaders_of_one_election_never_overlap() {
    let campaign = json!({"op": "campaign", "client": "c", "election": "/e", "hold": "h", "value": "v"});
    let elected = |who: &str, token: i64| json!({"ok": true, "key": format!("/e/{who}-1"), "token": token, "sequence": 0, "lease": who, "remaining_ms": 1000});
    let mut script = Script::default();
    script.call(0, "a", campaign.clone(), elected("a", 3)).call(5, "b", campaign, elected("b", 4));
    let findings = script.findings();
    assert!(findings.len() == 1 && findings[0].starts_with("exclusion"), "{findings:?}");
}

impl Script {
    fn acquire_as(&mut self, at: u64, who: &str, hold: &str, token: i64, kind: Value) -> &mut Self {
        let mut request = object(json!({"op": "acquire", "client": "c", "lock": "/l", "hold": hold}));
        request.extend(object(kind));
        let wants = wants(&request);
        let keys: Vec<String> = wants.iter().map(|(lock, _)| format!("{lock}/{who}{hold}")).collect();
        let mut reply =
            json!({"ok": true, "key": keys[0], "token": token, "sequence": 0, "lease": who, "remaining_ms": 1000});
        if request.contains_key("locks") {
            reply["keys"] = json!(keys);
        }
        self.call(at, who, Value::Object(request), reply)
    }
}

#[test]
fn readers_overlap_among_themselves_and_with_nobody_else() {
    let shared = || json!({"kind": "shared"});
    let mut script = Script::default();
    script.acquire_as(0, "a", "h", 6, shared()).acquire_as(10, "b", "h", 5, shared()).is_clean();
    script.acquire(20, "a", "x", 7).breaks("exclusion");
    let mut script = Script::default();
    script.acquire_as(0, "a", "h", 6, shared()).release(5, "a", "h").acquire(10, "b", "h", 5).breaks("order");
}

#[test]
fn permits_overlap_up_to_their_limit() {
    let permits = |permits| json!({"kind": "semaphore", "permits": permits, "limit": 3});
    let mut script = Script::default();
    let one = json!({"kind": "semaphore", "limit": 3});
    script.acquire_as(0, "a", "h", 5, permits(1)).acquire_as(10, "b", "h", 6, one.clone()).is_clean();
    script.acquire_as(20, "a", "x", 7, one.clone()).is_clean();
    script.acquire_as(30, "b", "x", 8, one).breaks("exclusion");
}

#[test]
fn every_name_of_several_is_held_until_all_are_released() {
    let both = || json!({"lock": null, "locks": [{"lock": "/k"}, {"lock": "/l"}]});
    let mut script = Script::default();
    script.acquire_as(0, "a", "h", 5, both()).acquire(10, "b", "h", 6).breaks("exclusion");
    let mut script = Script::default();
    script.acquire_as(0, "a", "h", 5, both()).release(5, "a", "h").acquire(10, "b", "h", 6).is_clean();
}
