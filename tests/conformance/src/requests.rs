//! The requests of a scenario: they go to a driver as they are written, with the client `c` and the hold `h` where none is
//! named, and their answers are dated.

use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

use crate::{
    Message,
    actor::Wanted,
    check,
    history::What,
    mono_ns,
    play::{Play, Sent},
};

/// Operations that send a request to an actor: those of the protocol, any other one, and a line word for word.
pub const REQUESTS: [&str; 23] = [
    "open",
    "acquire",
    "cancel",
    "check",
    "release",
    "on_lost",
    "on_state",
    "guarded_put",
    "guarded_delete",
    "guarded_txn",
    "queue",
    "extend",
    "force_release",
    "campaign",
    "proclaim",
    "leader",
    "observe",
    "unobserve",
    "ping",
    "close",
    "version",
    "request",
    "line",
];

impl Play {
    /// Sends a request of the protocol.
    pub fn send(&self, op: &str, args: Value) -> Result<Sent> {
        let mut request: Message = match args {
            Value::Null => Message::new(),
            Value::Object(fields) => fields,
            // `open: a`: short for nothing but the actor.
            Value::String(actor) => Message::from_iter([("actor".to_owned(), actor.into())]),
            other => bail!("arguments must be fields, not {other}"),
        };
        let actor = self.actor(request.remove("actor").as_ref())?;
        if op == "line" {
            let line = check::text(&request, "line");
            let id = request.get("id").cloned().unwrap_or(Value::Null);
            let at = mono_ns();
            let id = actor.send_line(line, id);
            return Ok(Sent { actor, id, at });
        }
        if op != "request" {
            request.insert("op".to_owned(), op.into());
            let is_of_client = matches!(op, "open" | "queue" | "force_release" | "ping" | "close" | "on_state");
            if is_of_client || check::acquires(op) || matches!(op, "leader" | "observe") {
                request.entry("client").or_insert("c".into());
            }
            if matches!(op, "observe" | "unobserve") {
                request.entry("watch").or_insert("w".into());
            }
            let is_of_hold =
                check::acquires(op) || matches!(op, "check" | "release" | "on_lost" | "extend" | "proclaim");
            if is_of_hold || op.starts_with("guarded_") {
                request.entry("hold").or_insert("h".into());
            }
        }
        if op == "open" {
            self.stage.complete_open(&actor.name, &mut request);
        }
        if op == "cancel" {
            let target = check::text(&request, "target").to_owned();
            let id = self.started.get(&target).with_context(|| format!("nobody started {target}"))?;
            request.insert("target".to_owned(), serde_json::from_str(id)?);
        }
        // A field that the scenario sets to null is not sent: it takes a default away.
        request.retain(|_, value| !value.is_null());
        if check::acquires(op) {
            actor.forget(&Wanted { kind: "lost", name: check::text(&request, "hold") });
        }
        if op == "observe" {
            actor.forget(&Wanted { kind: "leader", name: check::text(&request, "watch") });
        }
        let at = mono_ns();
        let id = actor.send(request);
        Ok(Sent { actor, id, at })
    }

    /// Whether the actor has said that it will tell: of the loss of what it acquired last under this name, of its states, or of who
    /// leads.
    pub fn is_subscribed(&self, who: &str, op: &str, name: &str) -> bool {
        let about = match op {
            "on_lost" => "hold",
            "observe" => "watch",
            _ => "client",
        };
        let mut asked = None;
        for entry in self.history.entries().iter().filter(|entry| entry.who == who) {
            match &entry.what {
                What::Request(request) if check::text(request, about) == name => match check::text(request, "op") {
                    it if it == op => asked = asked.or(Some((check::id(request), false))),
                    other if op == "on_lost" && check::acquires(other) => asked = None,
                    _ => {}
                },
                What::Reply(reply) if reply.get("ok") == Some(&Value::Bool(true)) => {
                    if let Some((id, is_granted)) = &mut asked {
                        *is_granted |= *id == check::id(reply);
                    }
                }
                _ => {}
            }
        }
        asked.is_some_and(|(_, is_granted)| is_granted)
    }

    /// Waits for the answer to a request.
    pub async fn answered(&self, sent: &Sent, limit: Duration) -> Result<Message> {
        let mut reply = sent.actor.reply(&sent.id, limit).await?;
        self.time(&mut reply, Some(sent));
        Ok(reply)
    }

    /// Adds `took_ms` (since the request) and `since` (each stopwatch) to a reply or event, by its own time.
    pub fn time(&self, message: &mut Message, request: Option<&Sent>) {
        let at = message.get("mono_ns").and_then(Value::as_u64).unwrap_or_else(mono_ns);
        let elapsed = |start: u64| at.saturating_sub(start) / 1_000_000;
        if let Some(sent) = request {
            message.insert("took_ms".to_owned(), elapsed(sent.at).into());
        }
        let since = self.stopwatches.iter().map(|(name, start)| (name.clone(), elapsed(*start).into()));
        message.insert("since".to_owned(), Value::Object(since.collect()));
    }
}
