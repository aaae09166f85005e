//! Replies and events that do not keep to the protocol, or report a bug in the library.
//!
//! Whatever else is judged relies on it: a hold without a token has no order, an event without a time ends a hold too early.

use std::collections::HashMap;

use serde_json::Value;

use crate::{
    Message,
    check::{acquires, id, text, wants},
    history::{Entry, What},
};

/// The codes that a driver may answer: the table of the core, and the two of the protocol itself.
const CODES: [&str; 17] = [
    "NOT_ACQUIRED",
    "CANCELLED",
    "LOST",
    "NOT_HELD",
    "WOULD_DEADLOCK",
    "INVALID_ARGUMENT",
    "CLOSED",
    "FORKED",
    "UNAVAILABLE",
    "DEADLINE_EXCEEDED",
    "UNAUTHENTICATED",
    "PERMISSION_DENIED",
    "LIMIT_MISMATCH",
    "UNSUPPORTED",
    "RESOURCE_EXHAUSTED",
    "INTERNAL",
    "BAD_REQUEST",
];

/// Why a lock can be lost.
const REASONS: [&str; 6] = ["EXPIRED", "KEY_DELETED", "LEASE_REVOKED", "CLIENT_CLOSED", "FORKED", "STORE_RESTORED"];
const STATES: [&str; 3] = ["OK", "SUSPECT", "LOST"];

/// Everything that is wrong with what the actors said; empty if nothing is.
pub fn check(entries: &[Entry]) -> Vec<String> {
    let mut reader = Reader::default();
    for entry in entries {
        reader.enter(entry);
    }
    reader.findings
}

#[derive(Default)]
struct Reader<'a> {
    findings: Vec<String>,
    /// Requests without a reply, and when they were made.
    open: HashMap<(&'a str, String), (u64, &'a Message)>,
    /// What each client puts before its names.
    namespaces: HashMap<(&'a str, &'a str), &'a str>,
    /// By actor, kind of event and name.
    subscriptions: HashMap<(&'a str, &'static str, &'a str), Subscription>,
}

/// What somebody asked to be told of.
struct Subscription {
    /// When it was asked for first.
    since: u64,
    /// How often it was asked for.
    times: usize,
    /// How often it was told.
    told: usize,
}

impl<'a> Reader<'a> {
    fn enter(&mut self, entry: &'a Entry) {
        let who = entry.who.as_str();
        match &entry.what {
            What::Request(request) => {
                if text(request, "op") == "open" {
                    self.namespaces.insert((who, text(request, "client")), text(request, "namespace"));
                }
                self.open.insert((who, id(request)), (entry.at, request));
            }
            What::Reply(reply) => {
                for what in self.reply(entry.at, who, reply) {
                    self.findings.push(format!("protocol: {who} answered #{} {what}", id(reply)));
                }
            }
            What::Event(event) => {
                if let Err(what) = self.event(entry.at, who, event) {
                    let event = What::Event(event.clone()).summary();
                    self.findings.push(format!("protocol: {who} told an event {what}: {event}"));
                }
            }
            What::Line(line) => self.findings.push(format!("protocol: {who} wrote a line that is no message: {line}")),
            _ => {}
        }
    }

    fn reply(&mut self, at: u64, who: &'a str, reply: &'a Message) -> Vec<String> {
        let mut wrong = Vec::new();
        let asked = self.open.remove(&(who, id(reply)));
        if asked.is_none() {
            wrong.push("though it had no such request open".to_owned());
        }
        // A reply that left before its request, or came before it was made, uses another clock.
        match reply.get("mono_ns").and_then(Value::as_u64) {
            None => wrong.push("without mono_ns".to_owned()),
            Some(then) if then > at || asked.is_some_and(|(sent, _)| then < sent) => {
                wrong.push("with a mono_ns outside the time from its request to its reply".to_owned());
            }
            Some(_) => {}
        }
        match reply.get("ok") {
            Some(Value::Bool(true)) => {
                let Some((sent, request)) = asked else { return wrong };
                wrong.extend(self.misshapen(who, request, reply));
                self.remember(sent, who, request);
            }
            Some(Value::Bool(false)) => match text(reply, "code") {
                "INTERNAL" => wrong.push("INTERNAL, which is a bug in the library".to_owned()),
                code if !CODES.contains(&code) => wrong.push("ok:false without a known code".to_owned()),
                _ if text(reply, "message").is_empty() => wrong.push("ok:false without a message".to_owned()),
                _ => wrong.extend(stray(reply, &["code", "message"])),
            },
            _ => wrong.push("without ok".to_owned()),
        }
        wrong
    }

    /// What a success changes for the events that may come.
    fn remember(&mut self, sent: u64, who: &'a str, request: &'a Message) {
        let (kind, name) = match text(request, "op") {
            "on_lost" => ("lost", text(request, "hold")),
            "on_state" => ("state", text(request, "client")),
            // After its end, too, what it told before may still be on its way.
            "observe" => ("leader", text(request, "watch")),
            // What was released in time is never lost.
            "release" => {
                self.subscriptions.remove(&(who, "lost", text(request, "hold")));
                return;
            }
            _ => return,
        };
        let asked = self.subscriptions.entry((who, kind, name));
        asked.or_insert(Subscription { since: sent, times: 0, told: 0 }).times += 1;
    }

    fn event(&mut self, at: u64, who: &'a str, event: &'a Message) -> Result<(), &'static str> {
        let (kind, name, news, known): (_, _, _, &[&str]) = match text(event, "event") {
            "lost" => ("lost", "hold", "reason", &REASONS),
            "state" => ("state", "client", "state", &STATES),
            "leader" => return self.leader(at, who, event),
            _ => return Err("of no known kind"),
        };
        if stray(event, &["event", name, news]).is_some() {
            return Err("with other fields than it has");
        }
        if !known.contains(&text(event, news)) {
            return Err("without news that are known");
        }
        let asked = self.subscriptions.get_mut(&(who, kind, text(event, name)));
        let asked = asked.ok_or("that nobody asked for, or no longer, or before it was answered")?;
        asked.told += 1;
        if kind == "lost" && asked.told > asked.times {
            return Err("more often than it was asked for");
        }
        match event.get("mono_ns").and_then(Value::as_u64) {
            Some(then) if then <= at && then >= asked.since => Ok(()),
            _ => Err("without a mono_ns between its being asked for and its coming"),
        }
    }

    /// An observer told who leads.
    fn leader(&mut self, at: u64, who: &'a str, event: &'a Message) -> Result<(), &'static str> {
        if stray(event, &["event", "watch", "value", "token"]).is_some() {
            return Err("with other fields than it has");
        }
        if !is_leader(event) {
            return Err("without value and token, or null for both");
        }
        let asked = self.subscriptions.get_mut(&(who, "leader", text(event, "watch")));
        let asked = asked.ok_or("that nobody asked for, or no longer, or before it was answered")?;
        match event.get("mono_ns").and_then(Value::as_u64) {
            Some(then) if then <= at && then >= asked.since => Ok(()),
            _ => Err("without a mono_ns between its being asked for and its coming"),
        }
    }

    /// What is wrong with the fields of a success.
    fn misshapen(&self, who: &str, request: &Message, reply: &Message) -> Option<String> {
        let not = |field: &str| Some(format!("without a proper {field}: {}", Value::Object(reply.clone())));
        let whole = |field: &str, least: i64| reply.get(field).and_then(Value::as_i64).is_some_and(|it| it >= least);
        let fields: &[&str] = match text(request, "op") {
            op if acquires(op) => {
                let namespace = self.namespaces.get(&(who, text(request, "client"))).copied().unwrap_or_default();
                let (key, lease) = (text(reply, "key"), text(reply, "lease"));
                let wants = wants(request);
                let is_below = |key: &str, lock: &str| key.starts_with(&format!("{namespace}{lock}/"));
                if !wants.first().is_some_and(|(lock, _)| is_below(key, lock)) {
                    return not("key");
                }
                let is_several = request.get("locks").is_some_and(|locks| !locks.is_null());
                let keys = reply.get("keys").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
                let are_theirs = || {
                    keys.iter().zip(&wants).all(|(key, (lock, _))| key.as_str().is_some_and(|key| is_below(key, lock)))
                };
                if is_several && !(keys.len() == wants.len() && are_theirs()) {
                    return not("keys");
                }
                if lease.is_empty() || !lease.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')) {
                    return not("lease");
                }
                if let Some(field) = [("token", 1), ("sequence", 0), ("remaining_ms", 0)]
                    .into_iter()
                    .find_map(|(field, least)| (!whole(field, least)).then_some(field))
                {
                    return not(field);
                }
                let fields = &["key", "token", "sequence", "lease", "remaining_ms", "keys"];
                if is_several { fields } else { &fields[..fields.len() - 1] }
            }
            "check" => {
                let held = reply.get("held").and_then(Value::as_bool);
                if held.is_none() {
                    return not("held");
                }
                if !whole("remaining_ms", 0) || (held == Some(false) && whole("remaining_ms", 1)) {
                    return not("remaining_ms");
                }
                &["held", "remaining_ms"]
            }
            "guarded_txn" | "guarded_delete" => {
                let asked = request.get("gets").and_then(Value::as_array).map_or(0, Vec::len);
                let is_value = |value: &Value| value.is_string() || value.is_null();
                let values = reply.get("values").and_then(Value::as_array);
                if !values.is_some_and(|values| values.len() == asked && values.iter().all(is_value)) {
                    return not("values");
                }
                &["values"]
            }
            "queue" => {
                let contenders = reply.get("contenders").and_then(Value::as_array);
                if !contenders.is_some_and(|contenders| contenders.iter().all(is_contender)) {
                    return not("contenders");
                }
                &["contenders"]
            }
            "leader" => {
                if !is_leader(reply) {
                    return not("leader");
                }
                &["value", "token"]
            }
            "version" => {
                if let Some(field) = ["language", "version"].into_iter().find(|field| text(reply, field).is_empty()) {
                    return not(field);
                }
                &["language", "version"]
            }
            _ => &[],
        };
        stray(reply, fields)
    }
}

/// A value and a token, or null for both.
fn is_leader(message: &Message) -> bool {
    match (message.get("value"), message.get("token")) {
        (Some(Value::Null), Some(Value::Null)) => true,
        (Some(Value::String(_)), Some(token)) => token.as_i64().is_some_and(|token| token > 0),
        _ => false,
    }
}

fn is_contender(value: &Value) -> bool {
    let fields = ["key", "token", "lease", "identity", "foreign"];
    let is_text_or_null = |field: &Value| field.is_string() || field.is_null();
    value["key"].is_string()
        && value["token"].as_i64().is_some_and(|token| token > 0)
        && is_text_or_null(&value["lease"])
        && is_text_or_null(&value["identity"])
        && value["foreign"].is_boolean()
        && value
            .as_object()
            .is_some_and(|all| all.len() == fields.len() && all.keys().all(|name| fields.contains(&name.as_str())))
}

/// A field that is none of `known`, and not of every message either.
fn stray(message: &Message, known: &[&str]) -> Option<String> {
    let is_stray =
        |name: &&String| !known.contains(&name.as_str()) && !["id", "ok", "mono_ns"].contains(&name.as_str());
    message.keys().find(is_stray).map(|name| format!("with the field {name}, which it does not have"))
}

#[cfg(test)]
#[path = "protocol_tests.rs"]
mod tests;
