//! What each step of a scenario does.
//!
//! The operations of the protocol go to a driver ([`crate::requests`]); everything else is the runner's own doing. Whatever a step finds out is an object with fields, so that `expect` and
//! `save` work the same way for all of them.

use std::{collections::BTreeMap, time::Duration};

use anyhow::{Context as _, Result, anyhow, bail, ensure};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::{
    Message,
    actor::{Actor, Wanted},
    check,
    expect::{difference, substitute},
    history::{Fault, What},
    machine::{PULSE, Patience},
    message, mono_ns,
    play::Play,
    requests::REQUESTS,
    scenario::Step,
    stage::{MemberFault, NetworkFault, Way},
};

/// What the runner does itself: wait for what comes back, look into etcd and change it, disturb, and steer the steps.
const DEEDS: [&str; 28] = [
    "await",
    "pending",
    "lost",
    "not_lost",
    "state",
    "no_state",
    "observed",
    "not_observed",
    "put",
    "get",
    "delete",
    "lease",
    "revoke",
    "keys",
    "leases",
    "compact",
    "freeze",
    "thaw",
    "kill",
    "end_input",
    "member",
    "network",
    "elapse",
    "let",
    "stopwatch",
    "counter",
    "for",
    "repeat",
];

/// How long a reply may take where the scenario does not say it.
const REPLY: Duration = Duration::from_secs(10);
/// How long a condition in etcd may take to come true.
const SETTLE: Duration = Duration::from_secs(5);
/// How long something must not happen.
const QUIET: Duration = Duration::from_millis(300);
const POLL: Duration = Duration::from_millis(10);

/// Every operation that a step can be.
pub fn names() -> impl Iterator<Item = &'static str> {
    REQUESTS.into_iter().chain(DEEDS)
}

/// Whether the operation has steps of its own.
pub fn is_loop(op: &str) -> bool {
    matches!(op, "for" | "repeat")
}

/// What `expect` says: a time limit, and what the fields must be.
struct Expected {
    within: Option<Duration>,
    fields: Value,
}

impl Expected {
    /// Without a word about `ok` or `code`, success is expected; a code alone means failure.
    fn read(expect: Option<Value>) -> Result<Self> {
        let mut fields: Message = expect.map(serde_json::from_value).transpose().context("expect")?.unwrap_or_default();
        let within = fields.remove("within_ms").map(|ms| ms.as_u64().context("within_ms")).transpose()?;
        if !fields.contains_key("ok") {
            let ok = !fields.contains_key("code");
            fields.insert("ok".to_owned(), ok.into());
        }
        Ok(Self { within: within.map(Duration::from_millis), fields: fields.into() })
    }

    fn check(&self, found: &Message) -> Result<()> {
        if let Some(difference) = difference(&self.fields, Some(&Value::Object(found.clone())))? {
            bail!("{difference} in {}", Value::Object(found.clone()));
        }
        Ok(())
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Put {
    key: String,
    value: String,
    lease: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Member {
    which: Value,
    #[serde(rename = "do")]
    fault: MemberFault,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Network {
    actor: String,
    #[serde(rename = "do")]
    fault: NetworkFault,
    #[serde(default)]
    ms: u64,
    direction: Option<Way>,
    member: Option<Value>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Repeated {
    text: String,
    times: usize,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Counter {
    key: String,
    lock: String,
    rounds: u32,
    tasks: Vec<CounterTask>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CounterTask {
    actor: String,
    #[serde(default = "default_client")]
    client: String,
    add: i64,
}

fn default_client() -> String {
    "c".to_owned()
}

fn typed<T: DeserializeOwned>(args: Value) -> Result<T> {
    serde_json::from_value(args).context("arguments")
}

/// An argument that is one word, or an object with that word under `field`.
fn word(args: &Value, field: &str) -> Result<String> {
    let value = if let Value::Object(fields) = args { fields.get(field).unwrap_or(&Value::Null) } else { args };
    match value {
        Value::String(word) => Ok(word.clone()),
        other => bail!("{field} must be a text, not {other}"),
    }
}

fn millis(args: &Value, field: &str) -> Result<Option<Duration>> {
    let value = if let Value::Object(fields) = args { fields.get(field) } else { Some(args) };
    let read = |value: &Value| value.as_u64().with_context(|| format!("{field} must be milliseconds, not {value}"));
    Ok(value.filter(|value| value.is_number()).map(read).transpose()?.map(Duration::from_millis))
}

impl Play {
    /// Plays one step.
    pub async fn step(&mut self, step: &Step, place: &str) -> Result<()> {
        if is_loop(&step.op) {
            return Box::pin(self.repeat(step, place)).await;
        }
        let args = substitute(&step.args, &self.vars)?;
        let name = step.name.as_ref().map(|name| substitute(name, &self.vars)).transpose()?;
        let expected = Expected::read(step.expect.as_ref().map(|expect| substitute(expect, &self.vars)).transpose()?)?;
        if let Some(Value::String(name)) = name {
            ensure!(REQUESTS.contains(&step.op.as_str()), "only a request can go on in the background");
            ensure!(
                step.expect.is_none() && step.save.is_empty(),
                "what goes on in the background is expected by its await"
            );
            let sent = self.send(&step.op, args)?;
            self.started.insert(name.clone(), sent.id.clone());
            self.background.insert(name, sent);
            return Ok(());
        }
        let found = self.act(&step.op, args, &expected).await?;
        if let Err(differs) = expected.check(&found) {
            expected.check(&PULSE.without_stand_still(found.clone()).await).map_err(|_| differs)?;
        }
        for (variable, field) in &step.save {
            let path = format!("/{}", field.replace('.', "/"));
            let value = Value::Object(found.clone()).pointer(&path).cloned();
            let value = value.filter(|value| !value.is_null());
            self.vars.insert(variable.clone(), value.with_context(|| format!("there is no {field} to save"))?);
        }
        Ok(())
    }

    async fn repeat(&mut self, step: &Step, place: &str) -> Result<()> {
        let (variable, values) = match &step.args {
            Value::Number(times) => (None, (0..times.as_u64().context("how often?")?).map(Value::from).collect()),
            Value::Object(fields) if fields.len() == 1 => {
                let (variable, values) = fields.iter().next().context("for needs a variable")?;
                let values = match substitute(values, &self.vars)? {
                    Value::Array(values) => values,
                    Value::Object(range) => {
                        let (from, to) = (check::number(&range, "from"), check::number(&range, "to"));
                        (from..=to).map(Value::from).collect()
                    }
                    other => bail!("for needs a list or {{from, to}}, not {other}"),
                };
                (Some(variable), values)
            }
            other => bail!("{} needs how often, or one variable with its values, not {other}", step.op),
        };
        let values: Vec<Value> = values;
        ensure!(!values.is_empty(), "a loop of no rounds shows nothing");
        for value in values {
            let place = format!("{place} ({value})");
            if let Some(variable) = variable {
                self.vars.insert(variable.clone(), value);
            }
            self.steps(&step.body, &place).await?;
        }
        Ok(())
    }

    /// Does `op`, and finds out what came of it. Conditions in etcd are waited for; all else is looked at once.
    async fn act(&mut self, op: &str, args: Value, expected: &Expected) -> Result<Message> {
        let hold = || args.get("hold").and_then(Value::as_str).unwrap_or("h");
        let client = || args.get("client").and_then(Value::as_str).unwrap_or("c");
        let watch = || args.get("watch").and_then(Value::as_str).unwrap_or("w");
        let limit = expected.within.unwrap_or(REPLY);
        match op {
            "await" => {
                let name = word(&args, "request")?;
                let sent = self.background.remove(&name).with_context(|| format!("nobody started {name}"))?;
                self.answered(&sent, limit).await
            }
            "pending" => {
                let name = word(&args, "request")?;
                let quiet = millis(&args, "for_ms")?.unwrap_or(QUIET);
                let sent = self.background.get(&name).with_context(|| format!("nobody started {name}"))?;
                let was_answered = |reply| anyhow!("{name} was answered: {}", What::Reply(reply).summary());
                if let Ok(reply) = sent.actor.reply(&sent.id, quiet).await {
                    return Err(was_answered(reply));
                }
                // It must wait, not have died. One that is frozen is known to be silent.
                if self.history.fault(&sent.actor.name) != Some(Fault::Frozen) && !sent.actor.is_foreign() {
                    sent.actor.sign_of_life().await?;
                }
                match sent.actor.reply(&sent.id, Duration::ZERO).await {
                    Ok(reply) => Err(was_answered(reply)),
                    Err(_) if sent.actor.is_running() => Ok(done(json!({}))),
                    Err(error) => Err(error),
                }
            }
            "lost" | "not_lost" | "state" | "no_state" | "observed" | "not_observed" => {
                let actor = self.actor(args.get("actor"))?;
                let (wanted, asked) = match op {
                    "lost" | "not_lost" => (Wanted { kind: "lost", name: hold() }, "on_lost"),
                    "observed" | "not_observed" => (Wanted { kind: "leader", name: watch() }, "observe"),
                    _ => (Wanted { kind: "state", name: client() }, "on_state"),
                };
                ensure!(
                    self.is_subscribed(&actor.name, asked, wanted.name),
                    "nobody asked {} for {wanted}",
                    actor.name
                );
                if matches!(op, "not_lost" | "no_state" | "not_observed") {
                    actor.no_event(&wanted, millis(&args, "for_ms")?.unwrap_or(QUIET)).await?;
                    return Ok(done(json!({})));
                }
                let patience = Patience::new(limit);
                let mut event = actor.event(&wanted, limit).await?;
                event.insert("ok".to_owned(), true.into());
                // Where several changes may be told as one, only what comes in the end is sure.
                while args.get("skip") == Some(&Value::Bool(true))
                    && let Err(differs) = expected.check(&event)
                {
                    event = actor.event(&wanted, patience.left().await).await.context(differs)?;
                    event.insert("ok".to_owned(), true.into());
                }
                if op == "lost" {
                    actor.no_event(&wanted, Duration::ZERO).await.context("the loss was told twice")?;
                }
                self.time(&mut event, None);
                Ok(event)
            }
            "get" | "keys" | "leases" => self.settled(op, &args, expected).await,
            "put" | "delete" | "lease" | "revoke" | "compact" => self.meddle(op, args).await,
            "freeze" | "thaw" | "kill" | "end_input" | "member" | "network" => self.disturb(op, args).await,
            "elapse" => {
                sleep(millis(&args, "ms")?.context("how long?")?).await;
                Ok(done(json!({})))
            }
            "stopwatch" => {
                self.stopwatches.insert(word(&args, "name")?, mono_ns());
                Ok(done(json!({})))
            }
            "let" => {
                let texts: BTreeMap<String, Repeated> = typed(args)?;
                let texts = texts.into_iter().map(|(name, it)| (name, it.text.repeat(it.times).into()));
                self.vars.extend(texts);
                Ok(done(json!({})))
            }
            "counter" => self.counter(typed(args)?).await,
            _ => {
                let sent = self.send(op, args)?;
                self.answered(&sent, limit).await
            }
        }
    }

    /// Reads etcd until it is as expected.
    async fn settled(&self, op: &str, args: &Value, expected: &Expected) -> Result<Message> {
        let patience = Patience::new(expected.within.unwrap_or(SETTLE));
        loop {
            let found = self.look(op, args).await?;
            match expected.check(&found) {
                Ok(()) => return Ok(found),
                Err(error) if patience.left().await.is_zero() => return Err(error),
                Err(_) => sleep(POLL).await,
            }
        }
    }

    async fn look(&self, op: &str, args: &Value) -> Result<Message> {
        let etcd = &self.stage.etcd;
        Ok(done(match op {
            "get" => match etcd.get(&word(args, "key")?).await? {
                Some(kv) => json!({"exists": true, "value": kv.value, "lease": kv.lease, "created": kv.created}),
                None => json!({"exists": false}),
            },
            "keys" => {
                let found = etcd.prefix(&word(args, "prefix")?).await?;
                let keys: Vec<_> = found.iter().map(|kv| kv.key.clone()).collect();
                json!({"count": keys.len(), "keys": keys})
            }
            _ => json!({"count": etcd.leases().await?.len()}),
        }))
    }

    /// Changes etcd itself.
    async fn meddle(&mut self, op: &str, args: Value) -> Result<Message> {
        let etcd = self.stage.etcd.clone();
        Ok(done(match op {
            "put" => {
                let Put { key, value, lease } = typed(args)?;
                self.history.note(format!("puts {key}"));
                etcd.put(&key, &value, lease.as_deref()).await?;
                self.own_keys.insert(key);
                json!({})
            }
            "delete" => {
                let key = word(&args, "key")?;
                self.history.add("runner", What::KeyDeleted(key.clone()));
                json!({"deleted": etcd.delete(&key).await?})
            }
            "lease" => {
                let lease = etcd.grant(millis(&args, "ttl_ms")?.context("which ttl_ms?")?).await?;
                self.own_leases.insert(lease.clone());
                json!({"lease": lease})
            }
            "revoke" => {
                let lease = word(&args, "lease")?;
                self.history.add("runner", What::LeaseRevoked(lease.clone()));
                etcd.revoke(&lease).await?;
                json!({})
            }
            _ => {
                self.history.note("compacts etcd's history");
                json!({"revision": etcd.compact().await?})
            }
        }))
    }

    async fn disturb(&mut self, op: &str, args: Value) -> Result<Message> {
        let fault = match op {
            "member" => {
                let Member { which, fault } = typed(args)?;
                let member = self.stage.member(&which).await?;
                self.elections = true;
                self.stage.fault(member, fault).await?;
                return Ok(done(json!({"member": member})));
            }
            "network" => {
                let Network { actor, fault, ms, direction, member } = typed(args)?;
                let member = match member {
                    Some(which) => Some(self.stage.member(&which).await?),
                    None => None,
                };
                let who = self.actor(Some(&Value::String(actor)))?;
                let (before, after) = match fault {
                    NetworkFault::Pass => (None, Some(Fault::Healed)),
                    // A delay that is shorter than every time limit cuts nobody off.
                    NetworkFault::Delay | NetworkFault::Reset => (None, None),
                    NetworkFault::Hold | NetworkFault::Cut => (Some(Fault::CutOff), None),
                };
                self.history.note(format!("{}'s traffic: {fault:?}", who.name).to_lowercase());
                before.map(|fault| who.fault(fault)).transpose()?;
                self.stage.disturb(&who.name, fault, Duration::from_millis(ms), direction, member)?;
                after.map(|fault| who.fault(fault)).transpose()?;
                return Ok(done(json!({})));
            }
            "end_input" => {
                let actor = self.actor(Some(&word(&args, "actor")?.into()))?;
                ensure!(actor.is_running(), "{} has ended before", actor.name);
                self.history.add(&actor.name, What::Fault(Fault::Killed));
                actor.end_input();
                actor.gone(REPLY).await?;
                return Ok(done(json!({})));
            }
            "freeze" => Fault::Frozen,
            "thaw" => Fault::Thawed,
            _ => Fault::Killed,
        };
        self.actor(Some(&word(&args, "actor")?.into()))?.fault(fault)?;
        Ok(done(json!({})))
    }

    /// Several tasks that add to one value without a transaction, each time while they hold the lock.
    async fn counter(&mut self, counter: Counter) -> Result<Message> {
        ensure!(counter.rounds > 0 && !counter.tasks.is_empty(), "a counter that nobody adds to shows nothing");
        let etcd = self.stage.etcd.clone();
        etcd.put(&counter.key, "0", None).await?;
        self.own_keys.insert(counter.key.clone());
        let mut tasks = tokio::task::JoinSet::new();
        for (index, task) in counter.tasks.into_iter().enumerate() {
            let actor = self.actor(Some(&Value::String(task.actor)))?;
            let (etcd, key, lock) = (etcd.clone(), counter.key.clone(), counter.lock.clone());
            let call = async move |actor: &Actor, request: Value| {
                let id = actor.send(message(request));
                let reply = actor.reply(&id, REPLY).await?;
                ensure!(reply.get("ok") == Some(&Value::Bool(true)), "{}", What::Reply(reply).summary());
                anyhow::Ok(())
            };
            tasks.spawn(async move {
                let hold = format!("counter-{index}");
                for _ in 0..counter.rounds {
                    let acquire = json!({"op": "acquire", "client": task.client, "lock": lock, "hold": hold});
                    call(&actor, acquire).await?;
                    let value: i64 = etcd.get(&key).await?.context("the value is gone")?.value.parse()?;
                    etcd.put(&key, &(value + task.add).to_string(), None).await?;
                    call(&actor, json!({"op": "release", "hold": hold})).await?;
                }
                anyhow::Ok(())
            });
        }
        while let Some(done) = tasks.join_next().await {
            done.context("a task of the counter")??;
        }
        let sum: i64 = etcd.get(&counter.key).await?.context("the value is gone")?.value.parse()?;
        Ok(done(json!({"sum": sum})))
    }
}

/// What a step found out that did what it should.
fn done(found: Value) -> Message {
    let mut found = message(found);
    found.insert("ok".to_owned(), true.into());
    found
}
