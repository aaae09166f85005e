//! What happened in a play, in the order in which the runner saw it: for the checks, for the file and for the trace.

use std::{
    fmt::Write as _,
    io::{self, Write as _},
    path::Path,
    sync::{Arc, Mutex, PoisonError},
};

use serde::Serialize;
use serde_json::Value;

use crate::{Message, mono_ns};

/// One thing that happened.
#[derive(Clone, Debug, Serialize)]
pub struct Entry {
    /// When the runner did or saw it, on `CLOCK_MONOTONIC`, in nanoseconds.
    pub at: u64,
    /// The actor concerned, or `runner`.
    pub who: String,
    /// What it was.
    #[serde(flatten)]
    pub what: What,
}

/// What happened.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum What {
    /// The runner sent a request to the actor.
    Request(Message),
    /// The actor answered one.
    Reply(Message),
    /// The actor told something unasked.
    Event(Message),
    /// A line that is neither, word for word.
    Line(String),
    /// Something was done to the actor itself, or to its way to etcd.
    Fault(Fault),
    /// The runner deleted this key of etcd's itself: whoever held by it holds no longer.
    KeyDeleted(String),
    /// The runner revoked this lease (lower-case hex) itself.
    LeaseRevoked(String),
    /// For people.
    Note(String),
}

/// What can be done to an actor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Fault {
    /// Stopped: it runs no instruction until it is thawed.
    Frozen,
    /// Runs on.
    Thawed,
    /// Ended without warning.
    Killed,
    /// Its traffic with etcd is disturbed.
    CutOff,
    /// Its traffic flows again.
    Healed,
}

/// The record of one play. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct History {
    entries: Arc<Mutex<Vec<Entry>>>,
}

impl History {
    /// Adds an entry that happens now.
    pub fn add(&self, who: &str, what: What) {
        // The time is read under the lock, so that entries stand in the order of their times.
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        entries.push(Entry { at: mono_ns(), who: who.to_owned(), what });
    }

    /// Adds a remark of the runner's.
    pub fn note(&self, text: impl Into<String>) {
        self.add("runner", What::Note(text.into()));
    }

    /// Everything so far.
    pub fn entries(&self) -> Vec<Entry> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What is being done to an actor, if anything is.
    pub fn fault(&self, who: &str) -> Option<Fault> {
        let entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        let faults = entries.iter().rev().filter(|entry| entry.who == who);
        faults.filter_map(|entry| if let What::Fault(fault) = entry.what { Some(fault) } else { None }).next()
    }

    /// Writes one JSON object a line.
    pub fn write(&self, path: &Path) -> io::Result<()> {
        let mut out = io::BufWriter::new(std::fs::File::create(path)?);
        for entry in self.entries() {
            serde_json::to_writer(&mut out, &entry)?;
            out.write_all(b"\n")?;
        }
        out.flush()
    }

    /// The last `lines` entries for people, with times relative to the first entry of all.
    pub fn trace(&self, lines: usize) -> String {
        let entries = self.entries();
        let origin = entries.first().map_or(0, |entry| entry.at);
        let skipped = entries.len().saturating_sub(lines);
        let mut text = String::new();
        if skipped > 0 {
            let _ = writeln!(text, "      … {skipped} earlier entries");
        }
        for entry in &entries[skipped..] {
            let seconds = (entry.at - origin) as f64 / 1e9;
            let _ = writeln!(text, "  {seconds:9.3} {:>8} {}", entry.who, entry.what.summary());
        }
        text
    }
}

impl What {
    /// One line for people.
    pub fn summary(&self) -> String {
        match self {
            Self::Request(message) => format!("→ {}", fields(message)),
            Self::Reply(message) => format!("← {}", fields(message)),
            Self::Event(message) => format!("! {}", fields(message)),
            Self::Line(line) => format!("? {line}"),
            Self::Fault(fault) => format!("× {fault:?}").to_lowercase(),
            Self::KeyDeleted(key) => format!("deletes {key}"),
            Self::LeaseRevoked(lease) => format!("revokes {lease}"),
            Self::Note(text) => text.clone(),
        }
    }
}

/// `{"id":1,"op":"open","ttl_ms":5}` as `#1 open ttl_ms=5`; long values are cut, times left out.
fn fields(message: &Message) -> String {
    const LONGEST: usize = 90;
    let mut text = String::new();
    if let Some(id) = message.get("id") {
        let _ = write!(text, "#{id} ");
    }
    if let Some(Value::String(op)) = message.get("op") {
        let _ = write!(text, "{op} ");
    }
    for (name, value) in message {
        if matches!(name.as_str(), "id" | "op" | "mono_ns" | "password") {
            continue;
        }
        let mut value = match value {
            Value::String(value) => value.clone(),
            value => value.to_string(),
        };
        if let Some((cut, _)) = value.char_indices().nth(LONGEST) {
            value.truncate(cut);
            value.push('…');
        }
        let _ = write!(text, "{name}={value} ");
    }
    text.truncate(text.trim_end().len());
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(json: &str) -> Message {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn a_trace_is_short_and_holds_no_password() {
        let history = History::default();
        history.note("start");
        history.add("a", What::Request(message(r#"{"id":1,"op":"open","user":"u","password":"hush","ttl_ms":5000}"#)));
        history.add("a", What::Reply(message(r#"{"id":1,"ok":true,"mono_ns":77}"#)));
        let trace = history.trace(2);
        assert!(trace.contains("1 earlier entries"), "{trace}");
        assert!(trace.contains("→ #1 open ttl_ms=5000 user=u"), "{trace}");
        assert!(trace.contains("← #1 ok=true"), "{trace}");
        assert!(!trace.contains("hush") && !trace.contains("77"), "{trace}");
    }
}
