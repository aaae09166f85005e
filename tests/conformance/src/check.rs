//! What must be true of every play, whatever its scenario: exclusion and order.
//!
//! A hold lasts from the reply to its acquire until the earliest of
//! * the request to release it, to close its client or, from anybody, to force its release;
//! * its `lost` event, or a `check` that answers that it is not held;
//! * the runner itself deleting its key or revoking its lease, against which no lock can do anything;
//! * for an actor that was frozen, killed or cut off, and for a hold without renewal, the deadline that its acquire or its
//!   last `check` gave.
//!
//! The two remaining promises, nothing left and nobody stuck, need the cluster itself: [`crate::finish`]. That what is judged
//! here was said at all, and in the right form, is the business of [`crate::protocol`].

use std::{
    collections::{BTreeMap, HashMap},
    fmt,
};

use serde_json::Value;

use crate::{
    Message,
    history::{Entry, Fault, What},
    protocol,
};

/// What ended a hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Nothing, so far.
    Never,
    /// The request to release it.
    Release,
    /// The request to close its client.
    Close,
    /// A request to force its release.
    ForcedRelease,
    /// Its owner was told of the loss, by an event or as the answer to a check.
    Told,
    /// The runner deleted its key.
    KeyDeleted,
    /// The runner revoked its lease.
    LeaseRevoked,
    /// The deadline that its owner knew.
    Deadline,
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Never => "it was never given up",
            Self::Release => "its release was asked for",
            Self::Close => "the close of its client was asked for",
            Self::ForcedRelease => "its release was forced",
            Self::Told => "its owner was told of the loss",
            Self::KeyDeleted => "the runner deleted its key",
            Self::LeaseRevoked => "the runner revoked its lease",
            Self::Deadline => "its deadline passed",
        })
    }
}

/// The time from an acquire to the moment after which its owner may no longer rely on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hold {
    /// The lock's full name, namespace included.
    pub name: String,
    /// Who held it.
    pub actor: String,
    /// The runner's name for the hold.
    pub hold: String,
    /// The client it was acquired through.
    pub client: String,
    /// Its key in etcd, as the driver told it.
    pub key: String,
    /// Its lease, in lower-case hex.
    pub lease: String,
    /// Its fencing token, and what tells holds of one token apart.
    pub token: (i64, i64),
    /// From when, on `CLOCK_MONOTONIC`.
    pub from: u64,
    /// Until when.
    pub until: u64,
    /// What ended it.
    pub end: End,
    /// Until when it may be relied on even if its owner does not run.
    deadline: u64,
    /// Renewed by its client.
    renewed: bool,
}

impl Hold {
    /// Ends the hold at `at`, unless it ended before.
    fn end(&mut self, at: u64, why: End) {
        if at < self.until {
            self.until = at;
            self.end = why;
        }
    }
}

/// Everything that is wrong with a history; empty if nothing is.
pub fn check(entries: &[Entry]) -> Vec<String> {
    let mut findings = protocol::check(entries);
    let holds = holds(entries);
    let mut names: BTreeMap<&str, Vec<&Hold>> = BTreeMap::new();
    for hold in &holds {
        names.entry(&hold.name).or_default().push(hold);
    }
    for (name, mut holds) in names {
        holds.sort_by_key(|hold| hold.from);
        findings.extend(exclusion(name, &holds));
        findings.extend(order(name, &holds));
    }
    findings
}

fn exclusion(name: &str, holds: &[&Hold]) -> Vec<String> {
    let mut findings = Vec::new();
    let mut longest: Option<&Hold> = None;
    for hold in holds {
        if let Some(earlier) = longest
            && earlier.until > hold.from
        {
            findings.push(format!(
                "exclusion: {}'s {} got {name:?} (token {}) {:.3} ms before {}'s {} (token {}) ended ({})",
                hold.actor,
                hold.hold,
                hold.token.0,
                (earlier.until.min(hold.until) - hold.from) as f64 / 1e6,
                earlier.actor,
                earlier.hold,
                earlier.token.0,
                earlier.end,
            ));
        }
        if longest.is_none_or(|earlier| hold.until > earlier.until) {
            longest = Some(hold);
        }
    }
    findings
}

fn order(name: &str, holds: &[&Hold]) -> Vec<String> {
    let out_of_order = |pair: &&[&Hold]| pair[0].token >= pair[1].token;
    let describe = |pair: &[&Hold]| {
        format!(
            "order: {name:?} went from {}'s {} (token {}.{}) to {}'s {} (token {}.{}); tokens must grow",
            pair[0].actor,
            pair[0].hold,
            pair[0].token.0,
            pair[0].token.1,
            pair[1].actor,
            pair[1].hold,
            pair[1].token.0,
            pair[1].token.1
        )
    };
    holds.windows(2).filter(out_of_order).map(describe).collect()
}

/// The holds of a history, in the order of their acquires' replies.
pub fn holds(entries: &[Entry]) -> Vec<Hold> {
    let mut book = Book::default();
    for entry in entries {
        book.enter(entry);
    }
    for hold in &mut book.holds {
        if !hold.renewed {
            let deadline = hold.deadline;
            hold.end(deadline, End::Deadline);
        }
    }
    book.holds
}

/// What a reader of the history must remember to find its holds.
#[derive(Default)]
struct Book {
    requests: HashMap<(String, String), (u64, Message)>,
    namespaces: HashMap<(String, String), String>,
    /// Actors to which something is being done.
    faulted: HashMap<String, Fault>,
    holds: Vec<Hold>,
}

impl Book {
    fn enter(&mut self, entry: &Entry) {
        let who = entry.who.as_str();
        match &entry.what {
            What::Request(request) => self.request(who, entry.at, request),
            What::Reply(reply) => {
                // Taken out: a second reply to the same request is a finding of its own.
                if let Some((sent, request)) = self.requests.remove(&(who.to_owned(), id(reply))) {
                    self.reply(who, sent, &request, reply);
                }
            }
            What::Event(event) => {
                if text(event, "event") == "lost"
                    && let Some(hold) = self.last(who, text(event, "hold"))
                {
                    hold.end(number(event, "mono_ns") as u64, End::Told);
                }
            }
            What::Fault(fault) => self.fault(who, entry.at, *fault),
            What::KeyDeleted(key) => {
                for hold in self.holds.iter_mut().filter(|hold| hold.key == *key) {
                    hold.end(entry.at, End::KeyDeleted);
                }
            }
            What::LeaseRevoked(lease) => {
                for hold in self.holds.iter_mut().filter(|hold| hold.lease == *lease) {
                    hold.end(entry.at, End::LeaseRevoked);
                }
            }
            What::Line(_) | What::Note(_) => {}
        }
    }

    fn request(&mut self, who: &str, at: u64, request: &Message) {
        match text(request, "op") {
            "open" => {
                let client = (who.to_owned(), text(request, "client").to_owned());
                self.namespaces.insert(client, text(request, "namespace").to_owned());
            }
            "release" => {
                if let Some(hold) = self.last(who, text(request, "hold")) {
                    hold.end(at, End::Release);
                }
            }
            "close" => {
                let client = text(request, "client");
                for hold in self.holds.iter_mut().filter(|hold| hold.actor == who && hold.client == client) {
                    hold.end(at, End::Close);
                }
            }
            "force_release" => {
                let name = self.name(who, request);
                let token = number(request, "token");
                for hold in self.holds.iter_mut().filter(|hold| hold.name == name && hold.token.0 == token) {
                    hold.end(at, End::ForcedRelease);
                }
            }
            _ => {}
        }
        self.requests.insert((who.to_owned(), id(request)), (at, request.clone()));
    }

    fn reply(&mut self, who: &str, sent: u64, request: &Message, reply: &Message) {
        let ok = reply.get("ok") == Some(&Value::Bool(true));
        let at = number(reply, "mono_ns") as u64;
        let deadline = at + number(reply, "remaining_ms").max(0) as u64 * 1_000_000;
        match text(request, "op") {
            "acquire" if ok => {
                let mut hold = Hold {
                    name: self.name(who, request),
                    actor: who.to_owned(),
                    hold: text(request, "hold").to_owned(),
                    client: text(request, "client").to_owned(),
                    key: text(reply, "key").to_owned(),
                    lease: text(reply, "lease").to_owned(),
                    token: (number(reply, "token"), number(reply, "sequence")),
                    from: at,
                    until: u64::MAX,
                    end: End::Never,
                    deadline,
                    renewed: request.get("renew") != Some(&Value::Bool(false)),
                };
                if self.faulted.contains_key(who) {
                    hold.end(deadline, End::Deadline);
                }
                self.holds.push(hold);
            }
            "check" if ok => {
                let held = reply.get("held") == Some(&Value::Bool(true));
                let faulted = self.faulted.contains_key(who);
                let Some(hold) = self.last(who, text(request, "hold")) else { return };
                if !held {
                    hold.end(at, End::Told);
                    return;
                }
                // Whoever is told that it holds may rely on it until the deadline that came with the answer, also after a
                // fault: that is how a process that believes too long is found.
                hold.deadline = hold.deadline.max(deadline);
                if hold.end == End::Deadline {
                    hold.until = hold.deadline;
                    if !faulted {
                        (hold.until, hold.end) = (u64::MAX, End::Never);
                    }
                }
            }
            "extend" if ok => {
                // The reply names no deadline: what was asked for, counted from the request, is the least it can be.
                let ttl = number(request, "ttl_ms").max(0) as u64 * 1_000_000;
                if let Some(hold) = self.last(who, text(request, "hold")) {
                    hold.deadline = hold.deadline.max(sent + ttl);
                }
            }
            _ => {}
        }
    }

    fn fault(&mut self, who: &str, at: u64, fault: Fault) {
        match fault {
            Fault::Thawed | Fault::Healed => {
                self.faulted.remove(who);
            }
            Fault::Frozen | Fault::Killed | Fault::CutOff => {
                self.faulted.insert(who.to_owned(), fault);
                for hold in self.holds.iter_mut().filter(|hold| hold.actor == who && hold.until > at) {
                    let deadline = hold.deadline;
                    hold.end(deadline, End::Deadline);
                }
            }
        }
    }

    /// The latest hold of that name: names may be used again.
    fn last(&mut self, who: &str, hold: &str) -> Option<&mut Hold> {
        self.holds.iter_mut().rev().find(|known| known.actor == who && known.hold == hold)
    }

    fn name(&self, who: &str, request: &Message) -> String {
        let client = (who.to_owned(), text(request, "client").to_owned());
        let namespace = self.namespaces.get(&client).map_or("", String::as_str);
        format!("{namespace}{}", text(request, "lock"))
    }
}

/// The id of a request or reply, in a form that can be compared.
pub fn id(message: &Message) -> String {
    message.get("id").map_or_else(String::new, Value::to_string)
}

/// A field of text; empty where there is none.
pub fn text<'a>(message: &'a Message, field: &str) -> &'a str {
    message.get(field).and_then(Value::as_str).unwrap_or_default()
}

/// A whole number; 0 where there is none.
pub fn number(message: &Message, field: &str) -> i64 {
    message.get(field).and_then(Value::as_i64).unwrap_or_default()
}

#[cfg(test)]
#[path = "check_tests.rs"]
mod tests;
