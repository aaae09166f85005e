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

/// What an acquire wants of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Claim {
    /// All of it.
    Exclusive,
    /// A share of it.
    Shared,
    /// So many permits of so many.
    Permits(i64, i64),
}

impl Claim {
    fn of(fields: &Message) -> Self {
        match text(fields, "kind") {
            "shared" => Self::Shared,
            "semaphore" => {
                let permits = fields.get("permits").and_then(Value::as_i64).unwrap_or(1);
                Self::Permits(permits, number(fields, "limit"))
            }
            _ => Self::Exclusive,
        }
    }

    /// Whether no two such claims can be held at the same time, whoever else holds.
    fn excludes(self, other: Self) -> bool {
        match (self, other) {
            (Self::Shared, Self::Shared) => false,
            (Self::Permits(permits, limit), Self::Permits(others, of)) => limit != of || permits + others > limit,
            _ => true,
        }
    }
}

/// The names that an acquire asks for, without namespace, and what it wants of each.
pub fn wants(request: &Message) -> Vec<(String, Claim)> {
    let of = |fields: &Message| (name_of(fields).to_owned(), Claim::of(fields));
    match request.get("locks").and_then(Value::as_array) {
        Some(locks) => locks.iter().filter_map(Value::as_object).map(of).collect(),
        None => vec![of(request)],
    }
}

/// The time from an acquire to the moment after which its owner may no longer rely on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hold {
    /// The lock's full name, namespace included.
    pub name: String,
    /// What it claims of it.
    pub claim: Claim,
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
    findings.extend(observers(entries));
    for (name, mut holds) in names {
        holds.sort_by_key(|hold| hold.from);
        findings.extend(exclusion(name, &holds));
        findings.extend(order(name, &holds));
    }
    findings
}

fn exclusion(name: &str, holds: &[&Hold]) -> Vec<String> {
    let mut findings = Vec::new();
    let mut before: Vec<&Hold> = Vec::new();
    for hold in holds {
        before.retain(|earlier| earlier.until > hold.from);
        let excluded = before.iter().filter(|earlier| hold.claim.excludes(earlier.claim));
        if let Some(earlier) = excluded.max_by_key(|earlier| earlier.until) {
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
        before.push(hold);
        let taken = before.iter().map(|hold| if let Claim::Permits(permits, _) = hold.claim { permits } else { 0 });
        if let Claim::Permits(_, limit) = hold.claim
            && taken.sum::<i64>() > limit
        {
            let who =
                before.iter().map(|hold| format!("{}'s {}", hold.actor, hold.hold)).collect::<Vec<_>>().join(", ");
            findings.push(format!("exclusion: more than {limit} permits of {name:?} were taken at a time, by {who}"));
        }
    }
    findings
}

/// Tokens grow from each hold to the next that it excludes.
fn order(name: &str, holds: &[&Hold]) -> Vec<String> {
    let mut findings = Vec::new();
    let mut last: BTreeMap<Claim, &Hold> = BTreeMap::new();
    for hold in holds {
        let before = last.values().filter(|before| hold.claim.excludes(before.claim)).max_by_key(|before| before.from);
        if let Some(before) = before.filter(|before| before.token >= hold.token) {
            findings.push(format!(
                "order: {name:?} went from {}'s {} (token {}.{}) to {}'s {} (token {}.{}); tokens must grow",
                before.actor,
                before.hold,
                before.token.0,
                before.token.1,
                hold.actor,
                hold.hold,
                hold.token.0,
                hold.token.1
            ));
        }
        last.insert(hold.claim, hold);
    }
    findings
}

/// No observer of an election goes back: the leaders that it tells of come in the order of their tokens.
fn observers(entries: &[Entry]) -> Vec<String> {
    let mut last: HashMap<(&str, &str), i64> = HashMap::new();
    let mut findings = Vec::new();
    for entry in entries {
        match &entry.what {
            What::Request(request) if text(request, "op") == "observe" => {
                last.remove(&(entry.who.as_str(), text(request, "watch")));
            }
            What::Event(event) if text(event, "event") == "leader" => {
                let (watch, token) = (text(event, "watch"), number(event, "token"));
                let before = last.entry((&entry.who, watch)).or_default();
                // 0 where nobody leads.
                if token > 0 && token < *before {
                    let told = format!("told of the leader with token {token} after the one with {before}");
                    findings.push(format!("order: {}'s observer {watch} {told}", entry.who));
                }
                *before = token.max(*before);
            }
            _ => {}
        }
    }
    findings
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
                if text(event, "event") == "lost" {
                    let at = number(event, "mono_ns") as u64;
                    self.last(who, text(event, "hold")).for_each(|hold| hold.end(at, End::Told));
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
                self.last(who, text(request, "hold")).for_each(|hold| hold.end(at, End::Release));
            }
            "close" => {
                let client = text(request, "client");
                for hold in self.holds.iter_mut().filter(|hold| hold.actor == who && hold.client == client) {
                    hold.end(at, End::Close);
                }
            }
            "force_release" => {
                let name = self.name(who, request, text(request, "lock"));
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
            op if ok && acquires(op) => {
                let keys = reply.get("keys").and_then(Value::as_array).cloned().unwrap_or_default();
                for (n, (lock, claim)) in wants(request).into_iter().enumerate() {
                    let key = keys.get(n).and_then(Value::as_str).unwrap_or_else(|| text(reply, "key"));
                    let mut hold = Hold {
                        name: self.name(who, request, &lock),
                        claim,
                        actor: who.to_owned(),
                        hold: text(request, "hold").to_owned(),
                        client: text(request, "client").to_owned(),
                        key: key.to_owned(),
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
            }
            "check" if ok => {
                let held = reply.get("held") == Some(&Value::Bool(true));
                let faulted = self.faulted.contains_key(who);
                for hold in self.last(who, text(request, "hold")) {
                    if !held {
                        hold.end(at, End::Told);
                        continue;
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
            }
            "extend" if ok => {
                // The reply names no deadline: what was asked for, counted from the request, is the least it can be.
                let ttl = number(request, "ttl_ms").max(0) as u64 * 1_000_000;
                self.last(who, text(request, "hold")).for_each(|hold| hold.deadline = hold.deadline.max(sent + ttl));
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

    /// The latest hold of that name, once for each of its locks: names may be used again.
    fn last<'a>(&'a mut self, who: &'a str, hold: &'a str) -> impl Iterator<Item = &'a mut Hold> {
        let is_it = move |known: &Hold| known.actor == who && known.hold == hold;
        let from = self.holds.iter().rev().find(|known| is_it(known)).map(|known| known.from);
        self.holds.iter_mut().filter(move |known| is_it(known) && Some(known.from) == from)
    }

    fn name(&self, who: &str, request: &Message, lock: &str) -> String {
        let client = (who.to_owned(), text(request, "client").to_owned());
        let namespace = self.namespaces.get(&client).map_or("", String::as_str);
        format!("{namespace}{lock}")
    }
}

/// Whether a request with this operation brings a hold.
pub fn acquires(op: &str) -> bool {
    matches!(op, "acquire" | "campaign")
}

/// The lock or the election that a request is about, without the namespace.
pub fn name_of(request: &Message) -> &str {
    if text(request, "election").is_empty() { text(request, "lock") } else { text(request, "election") }
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
