//! Lock clients that are not ours but share the queue: they speak the protocol like a driver, as far as they can.
//!
//! They know `open` (which does nothing), `acquire` and, where they have elections, `campaign` (which wait for ever), and `release`.

use std::{collections::HashMap, process::Stdio, sync::Arc, time::Duration};

use anyhow::{Context as _, Result, bail};
use etcd_client::{Client, GetOptions, LockOptions, WatchOptions};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader},
    process::Child,
    sync::{mpsc, oneshot},
};

use crate::{
    Message,
    actor::{Actor, Mailbox},
    check,
    etcd::Etcd,
    history::History,
    message, mono_ns,
    stage::Stage,
};

/// How long a foreign client's lease lives without renewal.
const TTL: Duration = Duration::from_secs(5);

/// The lock that is copied from demo to demo: put `<name>/<own id>` under a lease of one's own, read the prefix, and if
/// somebody was there before, watch the one just before. It takes whatever happens there for its turn. That is why a
/// contender's key must never be written twice; and behind one that gives up waiting, it is wrong.
pub fn route1(name: &str, stage: &Stage, history: History) -> Actor {
    let own = format!("node-{name}");
    let etcd = stage.etcd.clone();
    Actor::task(name, "route1", history, |requests, mailbox| {
        serve(requests, mailbox, move |asked, turn| route1_lock(etcd.clone(), asked, own.clone(), turn))
    })
}

/// A client of etcd's services for locks and elections: the server waits, for everybody who was there before.
pub fn service(name: &str, stage: &Stage, history: History) -> Actor {
    let etcd = stage.etcd.clone();
    Actor::task(name, "service", history, |requests, mailbox| {
        serve(requests, mailbox, move |asked, turn| service_lock(etcd.clone(), asked, turn))
    })
}

/// `etcdctl lock` and `etcdctl elect`.
pub fn etcdctl(name: &str, stage: Arc<Stage>, history: History) -> Actor {
    Actor::task(name, "etcdctl", history, |requests, mailbox| {
        serve(requests, mailbox, move |asked, turn| etcdctl_lock(Arc::clone(&stage), asked, turn))
    })
}

/// A lock that one of them holds, or is about to: what it tells, and how it is told to let go.
struct Turn {
    acquired: oneshot::Sender<(String, i64, String)>,
    release: oneshot::Receiver<()>,
}

/// What a foreign client is asked for.
struct Asked {
    name: String,
    /// With what it stands for election, if it is one.
    value: Option<String>,
}

/// Answers requests; `lock` runs one acquire to its end: it tells when it holds, and returns once it has let go.
async fn serve<F, T>(mut requests: mpsc::UnboundedReceiver<Vec<u8>>, mailbox: Mailbox, lock: F)
where
    F: Fn(Asked, Turn) -> T,
    T: Future<Output = Result<()>> + Send + 'static,
{
    // Aborted with this task, as a process takes all its threads along.
    let mut turns = tokio::task::JoinSet::new();
    let mut holds: HashMap<String, (oneshot::Sender<()>, oneshot::Receiver<Result<()>>)> = HashMap::new();
    while let Some(line) = requests.recv().await {
        let Ok(request) = serde_json::from_slice::<Message>(&line) else { continue };
        let id = request.get("id").cloned().unwrap_or_default();
        let hold = check::text(&request, "hold").to_owned();
        match check::text(&request, "op") {
            "open" => answer(&mailbox, &id, Ok(json!({}))),
            op if check::acquires(op) => {
                let (acquired, told) = oneshot::channel();
                let (release, released) = oneshot::channel();
                let (done, gone) = oneshot::channel();
                holds.insert(hold, (release, gone));
                let value = (op == "campaign").then(|| check::text(&request, "value").to_owned());
                let asked = Asked { name: check::name_of(&request).to_owned(), value };
                let turn = lock(asked, Turn { acquired, release: released });
                let mailbox = mailbox.clone();
                turns.spawn(async move {
                    let tell = async {
                        if let Ok((key, token, lease)) = told.await {
                            let ttl = TTL.as_millis() as u64;
                            let fields =
                                json!({"key": key, "token": token, "sequence": 0, "lease": lease, "remaining_ms": ttl});
                            answer(&mailbox, &id, Ok(fields));
                            true
                        } else {
                            false
                        }
                    };
                    let (told, ended) = tokio::join!(tell, turn);
                    match ended {
                        Err(error) if !told => answer(&mailbox, &id, Err(error)),
                        ended => drop(done.send(ended)),
                    }
                });
            }
            "release" => match holds.remove(&hold) {
                Some((release, gone)) => {
                    let _ = release.send(());
                    let ended = gone.await.unwrap_or_else(|_| bail!("it ended in the middle"));
                    answer(&mailbox, &id, ended.map(|()| json!({})));
                }
                None => answer(&mailbox, &id, Err(anyhow::anyhow!("there is no hold {hold}"))),
            },
            other => {
                let message = format!("a foreign client cannot {other}");
                reply(&mailbox, &id, json!({"ok": false, "code": "UNSUPPORTED", "message": message}));
            }
        }
    }
}

fn answer(mailbox: &Mailbox, id: &Value, result: Result<Value>) {
    match result {
        Ok(Value::Object(mut fields)) => {
            fields.insert("ok".to_owned(), true.into());
            reply(mailbox, id, Value::Object(fields));
        }
        Ok(_) => reply(mailbox, id, json!({"ok": true})),
        Err(error) => {
            reply(mailbox, id, json!({"ok": false, "code": "UNAVAILABLE", "message": format!("{error:#}")}));
        }
    }
}

fn reply(mailbox: &Mailbox, id: &Value, fields: Value) {
    let mut message = message(fields);
    message.insert("id".to_owned(), id.clone());
    message.insert("mono_ns".to_owned(), mono_ns().into());
    mailbox.deliver(message);
}

async fn route1_lock(etcd: Etcd, asked: Asked, own: String, turn: Turn) -> Result<()> {
    if asked.value.is_some() {
        bail!("the copied lock knows no elections");
    }
    let prefix = format!("{}/", asked.name);
    let key = format!("{prefix}{own}");
    let put_and_wait = async |lease: String| {
        etcd.put(&key, &own, Some(&lease)).await?;
        wait_for_turn(etcd.client(), &prefix, &key).await?;
        Ok(key.clone())
    };
    under_lease(etcd.clone(), turn, put_and_wait).await
}

async fn service_lock(etcd: Etcd, Asked { name, value }: Asked, turn: Turn) -> Result<()> {
    let wait = async |lease: String| {
        let lease = i64::from_str_radix(&lease, 16)?;
        if let Some(value) = value {
            let reply = etcd.client().campaign(name, value, lease).await?;
            let key = reply.leader().context("the service tells no leader")?.key();
            return Ok(String::from_utf8_lossy(key).into_owned());
        }
        let reply = etcd.client().lock(name, Some(LockOptions::new().with_lease(lease))).await?;
        Ok(String::from_utf8_lossy(reply.key()).into_owned())
    };
    under_lease(etcd.clone(), turn, wait).await
}

/// Runs `acquire`, which brings the key that it holds by, under a lease that is renewed, and lets go when it is told to.
async fn under_lease(etcd: Etcd, turn: Turn, acquire: impl AsyncFnOnce(String) -> Result<String>) -> Result<()> {
    let mut client = etcd.client();
    let id = client.lease_grant(TTL.as_secs() as i64, None).await?.id();
    let lease = format!("{id:x}");
    let (mut keeper, mut kept) = client.lease_keep_alive(id).await?;
    let renewing = async {
        loop {
            if let Err(error) = keeper.keep_alive().await.and(kept.message().await) {
                return error;
            }
            tokio::time::sleep(TTL / 3).await;
        }
    };
    let holding = async {
        let key = acquire(lease.clone()).await?;
        let token = etcd.token(&key).await?;
        let _ = turn.acquired.send((key.clone(), token, lease.clone()));
        if turn.release.await.is_err() {
            // Nobody let it go: it is being killed, and must leave its key behind.
            return Ok(());
        }
        etcd.delete(&key).await?;
        etcd.revoke(&lease).await
    };
    tokio::select! {
        ended = holding => ended,
        error = renewing => Err(error.into()),
    }
}

async fn wait_for_turn(mut client: Client, prefix: &str, key: &str) -> Result<()> {
    let reply = client.get(prefix, Some(GetOptions::new().with_prefix())).await?;
    let mut contenders: Vec<_> = reply.kvs().iter().map(|kv| (kv.create_revision(), kv.key().to_vec())).collect();
    contenders.sort();
    let place = contenders.iter().position(|(_, other)| other == key.as_bytes()).context("its own key is gone")?;
    let Some(before) = place.checked_sub(1) else { return Ok(()) };
    let since = reply.header().map_or(0, |header| header.revision()) + 1;
    let options = WatchOptions::new().with_start_revision(since);
    let mut watch = client.watch(contenders[before].1.clone(), Some(options)).await?;
    while watch.message().await?.context("the watch ended")?.events().is_empty() {}
    Ok(())
}

async fn etcdctl_lock(stage: Arc<Stage>, Asked { name, value }: Asked, turn: Turn) -> Result<()> {
    let ttl = TTL.as_secs().to_string();
    let arguments = match &value {
        // Its lease is one of a minute, whatever is asked for.
        Some(value) => vec!["elect", &name, value],
        None => vec!["lock", "--ttl", &ttl, &name],
    };
    let mut command = tokio::process::Command::from(stage.etcdctl(&arguments)?);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    // Nothing else would end it, should this process be killed.
    leasehold_etcd::tie(command.as_std_mut());
    let mut child = command.spawn().context("cannot start etcdctl")?;
    let (stdout, stderr) = (child.stdout.take().context("etcdctl has no output")?, child.stderr.take());
    let mut lines = BufReader::new(stdout).lines();
    let Some(key) = lines.next_line().await? else {
        let mut said = String::new();
        if let Some(mut stderr) = stderr {
            stderr.read_to_string(&mut said).await?;
        }
        bail!("etcdctl ended without the lock; it said: {}", said.trim_end());
    };
    let stored = stage.etcd.get(&key).await?.with_context(|| format!("the key {key} of etcdctl does not exist"))?;
    let lease = stored.lease.context("etcdctl's key has no lease")?;
    let _ = turn.acquired.send((key, stored.created, lease.clone()));
    if turn.release.await.is_err() {
        // Nobody let it go: it is being killed, and its process with it.
        return Ok(());
    }
    interrupt(&child)?;
    child.wait().await?;
    // It leaves its lease to run out, which would hide one of ours.
    stage.etcd.revoke(&lease).await
}

/// Ctrl-C: `etcdctl` gives back what it holds before it ends.
fn interrupt(child: &Child) -> Result<()> {
    let pid = child.id().and_then(|pid| rustix::process::Pid::from_raw(i32::try_from(pid).ok()?));
    let pid = pid.context("etcdctl ended while it held the lock")?;
    Ok(rustix::process::kill_process(pid, rustix::process::Signal::INT)?)
}
