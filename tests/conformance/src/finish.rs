//! The end of a play: heal every fault, let everybody finish, close every client, and see that nothing is left.
//!
//! Two of the four promises that are checked whatever the scenario says live here: *liveness* (every waiter gets the lock or
//! its documented error in bounded time) and *no leftovers* (no key under the lock's name, no lease).

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    time::Duration,
};

use anyhow::Result;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::{
    Message, check,
    history::{Fault, What},
    message, mono_ns,
    play::Play,
};

/// What every waiter is given on top of its lease's time.
const GRACE: Duration = Duration::from_secs(10);
/// How long an election may take.
const ELECTION: Duration = Duration::from_secs(5);
/// How long a close may take.
const CLOSE: Duration = Duration::from_secs(15);
const POLL: Duration = Duration::from_millis(20);
/// What languages write when something broke that nobody was told of.
const BREAKDOWNS: [&str; 5] = ["panicked at", "Traceback (", "Exception in thread", "Unhandled", "was never retrieved"];
/// leasehold's default.
const DEFAULT_TTL: Duration = Duration::from_secs(15);

/// What the history says about who is still there.
#[derive(Default)]
struct Remains {
    /// Acquires without an answer: actor, id, hold and lock.
    waiting: Vec<(String, String, String, String)>,
    /// Other requests without an answer.
    open_requests: Vec<(String, String, String)>,
    /// Holds that nobody gave up: actor and hold, with the client.
    held: BTreeMap<(String, String), String>,
    /// Clients that nobody closed: actor and client.
    clients: BTreeSet<(String, String)>,
    /// Full names of locks.
    names: BTreeSet<String>,
    /// The longest TTL that anybody asked for.
    ttl: Duration,
    /// Actors that were killed, and when.
    killed: BTreeMap<String, u64>,
}

/// Ends the play; returns what was wrong.
pub async fn finish(play: &mut Play) -> Vec<String> {
    let mut findings = Vec::new();
    let mut report = |what: &str, result: Result<()>| {
        if let Err(error) = result {
            findings.push(format!("{what}: {error:#}"));
        }
    };
    report("cannot heal", heal(play).await);
    report("cannot tidy up after the runner itself", tidy(play).await);
    play.history.note("everything is healed");
    findings.extend(drain(play).await);
    findings.extend(close(play).await);
    findings.extend(leftovers(play).await);
    findings.extend(end(play).await);
    findings
}

async fn heal(play: &Play) -> Result<()> {
    let mut faults = HashMap::new();
    for entry in play.history.entries() {
        if let What::Fault(fault) = entry.what {
            // What is killed stays killed.
            if faults.get(&entry.who) != Some(&Fault::Killed) {
                faults.insert(entry.who, fault);
            }
        }
    }
    play.stage.heal().await?;
    for (who, fault) in faults {
        let Some(actor) = play.actors.get(&who) else { continue };
        match fault {
            Fault::Frozen => actor.fault(Fault::Thawed)?,
            Fault::CutOff => actor.fault(Fault::Healed)?,
            Fault::Thawed | Fault::Killed | Fault::Healed => {}
        }
    }
    Ok(())
}

/// Removes what the runner itself put into etcd: it blocks whoever waits behind it.
async fn tidy(play: &Play) -> Result<()> {
    for key in &play.own_keys {
        play.stage.etcd.delete(key).await?;
    }
    for lease in &play.own_leases {
        play.stage.etcd.revoke(lease).await?;
    }
    Ok(())
}

/// Gives up every hold, again and again, until every request is answered.
async fn drain(play: &Play) -> Vec<String> {
    let begun = Instant::now();
    loop {
        let remains = Remains::of(play);
        if remains.waiting.is_empty() && remains.held.is_empty() && remains.open_requests.is_empty() {
            return Vec::new();
        }
        let bound = GRACE + remains.bound(play);
        let is_running = |name: &String| play.actors.get(name).is_some_and(|actor| actor.is_running());
        let awaited =
            remains.waiting.iter().map(|(actor, ..)| actor).chain(remains.held.keys().map(|(actor, _)| actor));
        let mut awaited = awaited.chain(remains.open_requests.iter().map(|(actor, ..)| actor));
        // Who has ended answers nothing any more.
        if begun.elapsed() > bound || !awaited.any(is_running) {
            let waiting =
                remains.waiting.iter().map(|(actor, id, _, lock)| format!("{actor}'s acquire #{id} of {lock}"));
            let others = remains.open_requests.iter().map(|(actor, id, op)| format!("{actor}'s {op} #{id}"));
            let late = |who| {
                format!("liveness: {who} has no answer {} s after the last fault was healed", begun.elapsed().as_secs())
            };
            return waiting.chain(others).map(late).collect();
        }
        for (actor, hold) in remains.held.keys() {
            if let Some(actor) = play.actors.get(actor) {
                // Its answer is waited for as one of the open requests; a lost hold answers LOST, which is fine here.
                actor.send(message(json!({"op": "release", "hold": hold})));
            }
        }
        sleep(POLL).await;
    }
}

async fn close(play: &Play) -> Vec<String> {
    let mut findings = Vec::new();
    let mut closing = Vec::new();
    for (name, client) in Remains::of(play).clients {
        if let Some(actor) = play.actors.get(&name).filter(|actor| !actor.is_foreign()) {
            closing.push((actor, actor.send(message(json!({"op": "close", "client": client})))));
        }
    }
    for (actor, id) in closing {
        match actor.reply(&id, CLOSE).await {
            Ok(reply) if reply.get("ok") == Some(&Value::Bool(true)) => {}
            Ok(reply) => findings.push(format!("close: {} {}", actor.name, What::Reply(reply).summary())),
            Err(error) => findings.push(format!("close: {error:#}")),
        }
    }
    findings
}

/// Waits until nothing is left, for as long as the leases of the killed may live.
async fn leftovers(play: &Play) -> Vec<String> {
    let remains = Remains::of(play);
    let last_kill = remains.killed.values().max().copied();
    let until = match last_kill {
        Some(at) => at + (remains.bound(play) + Duration::from_secs(1)).as_nanos() as u64,
        None => 0,
    };
    loop {
        match left(play, &remains).await {
            Err(error) => return vec![format!("leftovers: {error:#}")],
            Ok(left) if left.is_empty() => return Vec::new(),
            Ok(left) if mono_ns() > until => {
                return left.into_iter().map(|what| format!("leftovers: {what}")).collect();
            }
            Ok(_) => sleep(POLL).await,
        }
    }
}

/// Ends the drivers, which must be there for it, and go at once and without complaint. Whom a scenario named must have taken part.
async fn end(play: &Play) -> Vec<String> {
    let mut findings = Vec::new();
    let entries = play.history.entries();
    for (name, actor) in play.actors.iter().filter(|(_, actor)| !actor.is_foreign()) {
        // To say which language it speaks is none.
        let is_part = |what: &What| matches!(what, What::Request(request) if check::text(request, "op") != "version");
        let took_part = entries.iter().any(|entry| entry.who == *name && is_part(&entry.what));
        if !took_part {
            findings.push(format!("end: {name} took no part"));
        }
        let said = actor.diagnostics();
        if let Some(line) = said.lines().find(|line| BREAKDOWNS.iter().any(|breakdown| line.contains(breakdown))) {
            findings.push(format!("end: {name} ({}) wrote: {line}", actor.language));
        }
        if entries.iter().any(|entry| entry.who == *name && matches!(entry.what, What::Fault(Fault::Killed))) {
            continue;
        }
        if !actor.is_running() {
            findings.push(format!("end: {name} ({}) ended by itself", actor.language));
        }
        actor.end_input();
        if let Err(error) = actor.gone(CLOSE).await {
            findings.push(format!("end: {error:#}"));
        }
    }
    findings
}

async fn left(play: &Play, remains: &Remains) -> Result<Vec<String>> {
    let mut left = Vec::new();
    for name in &remains.names {
        for stored in play.stage.etcd.prefix(&format!("{name}/")).await? {
            left.push(format!("the key {} of lease {}", stored.key, stored.lease.as_deref().unwrap_or("none")));
        }
    }
    left.extend(play.stage.etcd.leases().await?.into_iter().map(|lease| format!("the lease {lease}")));
    Ok(left)
}

impl Remains {
    fn of(play: &Play) -> Self {
        let mut remains = Self { ttl: Duration::ZERO, ..Self::default() };
        let mut open: BTreeMap<(String, u64), Message> = BTreeMap::new();
        let mut namespaces: HashMap<(String, String), String> = HashMap::new();
        for entry in play.history.entries() {
            let who = entry.who;
            match entry.what {
                What::Request(request) => {
                    remains.request(&who, &request, &mut namespaces);
                    if let Some(id) = request.get("id").and_then(Value::as_u64) {
                        open.insert((who, id), request);
                    }
                }
                What::Reply(reply) => {
                    let id = reply.get("id").and_then(Value::as_u64).unwrap_or_default();
                    if let Some(request) = open.remove(&(who.clone(), id)) {
                        remains.reply(&who, &request, &reply);
                    }
                }
                What::Fault(Fault::Killed) => {
                    remains.killed.insert(who, entry.at);
                }
                _ => {}
            }
        }
        let killed: BTreeSet<String> = remains.killed.keys().cloned().collect();
        remains.held.retain(|(who, _), _| !killed.contains(who));
        remains.clients.retain(|(who, _)| !killed.contains(who));
        for ((who, id), request) in open.into_iter().filter(|((who, _), _)| !killed.contains(who)) {
            let op = check::text(&request, "op");
            if check::acquires(op) {
                let (hold, lock) = (check::text(&request, "hold"), check::name_of(&request));
                remains.waiting.push((who, id.to_string(), hold.to_owned(), lock.to_owned()));
            } else {
                remains.open_requests.push((who, id.to_string(), op.to_owned()));
            }
        }
        remains
    }

    fn request(&mut self, who: &str, request: &Message, namespaces: &mut HashMap<(String, String), String>) {
        let client = (who.to_owned(), check::text(request, "client").to_owned());
        let ttl = request.get("ttl_ms").and_then(Value::as_u64).map(Duration::from_millis);
        match check::text(request, "op") {
            "open" => {
                namespaces.insert(client, check::text(request, "namespace").to_owned());
                self.ttl = self.ttl.max(ttl.unwrap_or(DEFAULT_TTL));
            }
            op if check::acquires(op) => {
                for (lock, _) in check::wants(request).into_iter().filter(|(lock, _)| !lock.is_empty()) {
                    let namespace = namespaces.get(&client).map_or("", String::as_str);
                    self.names.insert(format!("{namespace}{lock}"));
                }
                self.ttl = self.ttl.max(ttl.unwrap_or_default());
            }
            "extend" => self.ttl = self.ttl.max(ttl.unwrap_or_default()),
            "release" => {
                self.held.remove(&(who.to_owned(), check::text(request, "hold").to_owned()));
            }
            "close" => {
                self.held
                    .retain(|(holder, _), of| (holder.as_str(), of.as_str()) != (client.0.as_str(), client.1.as_str()));
                self.clients.remove(&client);
            }
            _ => {}
        }
    }

    fn reply(&mut self, who: &str, request: &Message, reply: &Message) {
        if reply.get("ok") != Some(&Value::Bool(true)) {
            return;
        }
        match check::text(request, "op") {
            "open" => {
                self.clients.insert((who.to_owned(), check::text(request, "client").to_owned()));
            }
            op if check::acquires(op) => {
                let hold = (who.to_owned(), check::text(request, "hold").to_owned());
                self.held.insert(hold, check::text(request, "client").to_owned());
                let granted = u64::try_from(check::number(reply, "remaining_ms")).unwrap_or_default();
                self.ttl = self.ttl.max(Duration::from_millis(granted));
            }
            _ => {}
        }
    }

    /// How long the dead may block the living: their TTL, which starts anew where the leader changed.
    fn bound(&self, play: &Play) -> Duration {
        // A refused TTL of a year must not make anybody wait for a year.
        let ttl = self.ttl.min(Duration::from_secs(30));
        if play.elections { ttl * 2 + ELECTION } else { ttl }
    }
}
