//! What the demo and a contender tell each other.
//!
//! A contender finds what it needs in the environment ([`Setup`]), reads one [`Command`] per line on stdin, carries it out,
//! and reports each [`Event`] as one line of JSON on stdout, for example `{"event":"acquired","token":12,"key":"…"}`. It has
//! no clock and makes no decisions: the demo says when. At the end of stdin it closes its client and exits with 0. What it
//! writes to stderr is shown.

use std::{collections::BTreeMap, fmt, str::FromStr};

use anyhow::{Context, bail};
use serde::{Deserialize, Serialize};

/// What a contender is told by its environment: the variables `LEASEHOLD_DEMO_…`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setup {
    /// `…_ENDPOINTS`: where etcd is, in the form that a client takes.
    pub endpoints: String,
    /// `…_LOCK`: the name of the lock.
    pub lock: String,
    /// `…_IDENTITY`: what the contender calls itself in the queue.
    pub identity: String,
    /// `…_COUNTER`: the key of the number that it counts up, as decimal text; 0 where it is missing.
    pub counter: String,
    /// `…_TTL`: the TTL in seconds.
    pub ttl: u64,
}

const PREFIX: &str = "LEASEHOLD_DEMO_";

impl Setup {
    /// The environment that says all this.
    pub fn environment(&self) -> BTreeMap<String, String> {
        let Self { endpoints, lock, identity, counter, ttl } = self;
        let ttl = &ttl.to_string();
        [("ENDPOINTS", endpoints), ("LOCK", lock), ("IDENTITY", identity), ("COUNTER", counter), ("TTL", ttl)]
            .into_iter()
            .map(|(name, value)| (format!("{PREFIX}{name}"), value.clone()))
            .collect()
    }

    /// Reads it from this process's environment.
    ///
    /// # Errors
    /// When a variable is missing, or the TTL is no number.
    pub fn from_environment() -> anyhow::Result<Self> {
        let get = |name: &str| {
            let name = format!("{PREFIX}{name}");
            std::env::var(&name).with_context(|| format!("{name} is not set; the demo sets it for its contenders"))
        };
        Ok(Self {
            endpoints: get("ENDPOINTS")?,
            lock: get("LOCK")?,
            identity: get("IDENTITY")?,
            counter: get("COUNTER")?,
            ttl: get("TTL")?.parse().context("the TTL must be a number of seconds")?,
        })
    }
}

/// What a contender is asked to do next: one word on a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// `acquire`: report `waiting`, queue, and report `acquired` as soon as the lock is held.
    Acquire,
    /// `read`: read the counter, remember and report it (`read`).
    Read,
    /// `write`: ask the guard whether the lock is held, write the remembered number plus 1 through the guard either way,
    /// and report `counted`, or `refused` and let the guard go.
    Write,
    /// `release`: release, and report `released` when that is confirmed.
    Release,
}

impl fmt::Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Acquire => "acquire",
            Self::Read => "read",
            Self::Write => "write",
            Self::Release => "release",
        })
    }
}

impl FromStr for Command {
    type Err = anyhow::Error;

    fn from_str(line: &str) -> anyhow::Result<Self> {
        Ok(match line.trim() {
            "acquire" => Self::Acquire,
            "read" => Self::Read,
            "write" => Self::Write,
            "release" => Self::Release,
            other => bail!("unknown command {other:?}; known are acquire, read, write and release"),
        })
    }
}

/// What a contender reports: a JSON object on one line, its kind under `event`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// It is about to queue.
    Waiting,
    /// It holds the lock.
    Acquired {
        /// The fencing token.
        token: i64,
        /// The key in etcd that stands for this hold.
        key: String,
    },
    /// It has read the counter.
    Read {
        /// What stood there.
        value: i64,
    },
    /// It has written the counter.
    Counted {
        /// What stands there now.
        value: i64,
    },
    /// Its write was refused.
    Refused {
        /// What the guard said, before the write, to the question whether the lock is held.
        held: bool,
        /// The name of the error.
        error: String,
        /// Why the lock was lost, where that is known.
        reason: Option<String>,
    },
    /// It has released the lock.
    Released,
    /// Something else went wrong; it ends.
    Failed {
        /// What it was.
        error: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_look_as_documented() {
        let event = Event::Acquired { token: 12, key: "/a/1-1".into() };
        let line = r#"{"event":"acquired","token":12,"key":"/a/1-1"}"#;
        assert_eq!(serde_json::to_string(&event).unwrap(), line);
        assert_eq!(serde_json::from_str::<Event>(line).unwrap(), event);
        assert_eq!(serde_json::from_str::<Event>(r#"{"event":"released"}"#).unwrap(), Event::Released);
    }

    #[test]
    fn commands_are_words() {
        for command in [Command::Acquire, Command::Read, Command::Write, Command::Release] {
            assert_eq!(command.to_string().parse::<Command>().unwrap(), command);
        }
        assert!("hold".parse::<Command>().unwrap_err().to_string().contains("\"hold\""));
    }
}
