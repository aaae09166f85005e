//! The demo's three scenes: an ordinary queue, a killed holder, a holder that wakes up too late.

use std::time::Duration;

use anyhow::{Context, bail};
use leasehold_demo::protocol::{Command, Event};
use tokio::time::Instant;

use crate::{
    display::seconds,
    ledger::Claim,
    stage::{Place, Plan, Stage},
};

/// Columns of a terminal that a line may take.
const LINE: usize = 79;
/// Lines of tokens shown; of a long run, the beginning is enough.
const TOKEN_LINES: usize = 10;
/// etcd looks for ended leases every 500 ms; the rest is for a machine that has other things to do.
const TAKEOVER_SLACK: Duration = Duration::from_secs(2);

/// How many turns the whole demo has: each one's in the first scene, those who wait for the killed one, those who wait for
/// the frozen one, and its own when it is awake again.
pub(crate) fn turns_in_all(processes: usize, turns: usize) -> usize {
    processes * turns + (processes - 1) + (processes - 2) + 1
}

/// Everybody has `turns` turns; nobody is hurt.
pub(crate) async fn everybody(stage: &mut Stage<'_>, turns: usize) -> anyhow::Result<()> {
    let all = stage.contenders.alive();
    stage.display.heading(&format!("1. {} processes want one lock, each {turns} times", all.len()));
    stage.display.line("   A turn: read a number in etcd, work, write it back plus 1.");
    stage.display.line("   Holders in order, with their tokens (revisions of etcd, so they grow and have gaps):");
    stage.display.line("");
    let names: Vec<_> = all.iter().map(|who| stage.contenders.identity(*who)).collect();
    let width = names.iter().map(|name| name.len()).max().unwrap_or(0);
    let columns = (LINE / (width + 9)).max(1);
    stage.bars = Some(stage.display.bars(&names, turns as u64));

    let mut left = vec![turns; all.len()];
    let (mut row, mut rows, mut hidden) = (Vec::new(), 0, 0);
    for who in &all {
        stage.begin(*who, Plan::Turn).await?;
    }
    while left.iter().any(|turns| *turns > 0) {
        let (who, event) = stage.next().await?;
        match event {
            Event::Acquired { token, .. } => row.push(format!("{token:>6} {:width$}", stage.contenders.identity(who))),
            Event::Released => {
                left[who] -= 1;
                if left[who] > 0 {
                    stage.begin(who, Plan::Turn).await?;
                }
            }
            _ => {}
        }
        let is_over = left.iter().all(|turns| *turns == 0);
        if row.len() == columns || (is_over && !row.is_empty()) {
            rows += 1;
            if rows <= TOKEN_LINES {
                stage.display.line(row.join("  "));
            } else {
                hidden += row.len();
            }
            row.clear();
        }
    }
    stage.bars = None;
    if hidden > 0 {
        stage.display.line(format!("   and {hidden} more"));
    }
    Ok(())
}

/// The holder is killed; the others go on when its lease has ended, in the order in which they waited.
pub(crate) async fn kill(stage: &mut Stage<'_>, ttl: Duration) -> anyhow::Result<()> {
    stage.display.heading("2. The holder is killed in the middle of its work");
    let (victim, queue) = gather(stage).await?;
    let name = stage.contenders.identity(victim).to_owned();

    stage.contenders.kill(victim).await?;
    let killed = Instant::now();
    stage.ledger.lets_go(&name);
    stage
        .display
        .line(format!("   {name} is killed (SIGKILL). etcd cannot know that it is dead: the others wait until"));
    stage
        .display
        .line(format!("   its lease ends, {} s after its last renewal (etcd looks every 0.5 s).", ttl.as_secs()));
    stage.display.line("");
    let drained = drain(stage, &queue[1..], killed, None).await?;
    judge(stage, &queue[1..], &drained, ttl, "after the kill");
    Ok(())
}

/// The holder is frozen in the middle of its work, and writes when somebody else has long taken over.
pub(crate) async fn freeze(stage: &mut Stage<'_>, ttl: Duration) -> anyhow::Result<()> {
    stage.display.heading("3. The holder is frozen in the middle of its work, and wakes up too late");
    let (sleeper, queue) = gather(stage).await?;
    let name = stage.contenders.identity(sleeper).to_owned();
    let stale = stage.roles[sleeper].clone();

    stage.contenders.freeze(sleeper)?;
    let frozen = Instant::now();
    stage.ledger.lets_go(&name);
    // It waits in the pipe, and so is the first thing that the process finds when it wakes up.
    stage.contenders.tell(sleeper, Command::Write).await?;
    let (read, written) = (stale.value, stale.value + 1);
    stage.display.line(format!("   {name} has read {read} and wants to write {written}, but is frozen (SIGSTOP)."));
    stage.display.line("");
    let last = queue.last().context("nobody waits")?.who;
    let drained = drain(stage, &queue[1..], frozen, Some(last)).await?;
    judge(stage, &queue[1..], &drained, ttl, "after the freeze");

    let owner = stage.contenders.identity(last).to_owned();
    let value = stage.roles[last].value;
    stage.display.line("");
    stage.display.line(format!("   {name} wakes up (SIGCONT) while {owner} holds, and goes on where it was:"));
    stage.contenders.wake(sleeper)?;
    let is_answer = |event: &Event| matches!(event, Event::Counted { .. } | Event::Refused { .. });
    match stage.until(sleeper, is_answer).await? {
        Event::Refused { held: false, error, reason } => {
            let reason = reason.map(|reason| format!(", {reason}")).unwrap_or_default();
            stage.display.line("     guard.is_held()            false");
            stage.display.line(format!("     guard.put({written})              refused: {error}{reason}"));
            stage.ledger.shown(Claim::Fence, "refused by the guard");
        }
        Event::Refused { error, .. } => {
            stage.ledger.wrong(Claim::Fence, format!("{name} believed that it held the lock; its write: {error}"));
        }
        _ => stage.ledger.wrong(Claim::Fence, format!("{name} wrote {written} although it had lost the lock")),
    }
    let is_late_write_done =
        stage.etcd.late_write(&stale.key, stale.token, &stage.counter, &written.to_string()).await?;
    let late = format!("     the same, sent too late    refused by etcd: token {} is no longer there", stale.token);
    if !is_late_write_done {
        stage.display.line(late);
    }
    let bad = format!("etcd carried out a late write with the token {}", stale.token);
    stage.ledger.check(Claim::Fence, !is_late_write_done, "and by etcd", bad);
    let found = stage.etcd.number(&stage.counter).await?;
    stage.display.line(format!("     the number in etcd         {found}"));
    let bad = format!("{found} stands in etcd where {owner} wrote {value}");
    stage.ledger.check(Claim::Fence, found == value, format!("{owner}'s {value} stayed"), bad);

    stage.release(last).await?;
    stage.until(last, |event| *event == Event::Released).await?;
    stage.begin(sleeper, Plan::Turn).await?;
    stage.until(sleeper, |event| *event == Event::Released).await?;
    let token = stage.roles[sleeper].token;
    stage.display.line(format!("   {name} queues again, with a new lease, and has its turn: token {token}."));
    Ok(())
}

/// Makes the first one hold, in the middle of its work, and all others wait. Shows who waits and why.
async fn gather(stage: &mut Stage<'_>) -> anyhow::Result<(usize, Vec<Place>)> {
    let all = stage.contenders.alive();
    let [holder, others @ ..] = all.as_slice() else { bail!("nobody is left") };
    stage.begin(*holder, Plan::UntilRead).await?;
    stage.until(*holder, |event| matches!(event, Event::Read { .. })).await?;
    for who in others {
        stage.begin(*who, Plan::Turn).await?;
    }
    let queue = stage.queue_of(all.len()).await?;
    if queue[0].who != *holder {
        bail!("{} holds the lock, but is not the first in the queue", stage.contenders.identity(*holder));
    }

    let width = all.iter().map(|who| stage.contenders.identity(*who).len()).max().unwrap_or(0).max("who".len());
    stage.display.line(format!("    token  {:width$}  process  since (UTC)", "who"));
    let mut why = "holds the lock".to_owned();
    for Place { who, token, since } in &queue {
        let (name, pid) = (stage.contenders.identity(*who), stage.contenders.pid(*who));
        stage.display.line(format!("   {token:>6}  {name:width$}  {pid:>7}  {since:12}  {why}"));
        why = format!("waits for {name}");
    }
    stage.display.line("");
    Ok((*holder, queue))
}

/// How the queue behind a holder that had gone was served.
struct Drained {
    /// From the end of the holder to the first one who had the lock after it.
    takeover: Duration,
    served: Vec<usize>,
}

/// Lets those who wait have their turns, one of them without releasing, after the holder has gone at `since`.
async fn drain(
    stage: &mut Stage<'_>,
    waiting: &[Place],
    since: Instant,
    keeper: Option<usize>,
) -> anyhow::Result<Drained> {
    let mut clock = Some(stage.display.waiting("waiting for its lease to end"));
    if let Some(keeper) = keeper {
        stage.roles[keeper].plan = Plan::UntilWritten;
    }
    let (mut takeover, mut served, mut finished) = (None, Vec::new(), 0);
    while finished < waiting.len() {
        let (who, event) = stage.next().await?;
        let name = stage.contenders.identity(who);
        match event {
            Event::Acquired { token, .. } => {
                clock = None;
                let after = *takeover.get_or_insert_with(|| since.elapsed());
                let how =
                    if served.is_empty() { format!("takes over after {}", seconds(after)) } else { "follows".into() };
                stage.display.line(format!("   {token:>6}  {name}  {how}"));
                served.push(who);
            }
            Event::Counted { .. } if keeper == Some(who) => finished += 1,
            Event::Released => finished += 1,
            _ => {}
        }
    }
    drop(clock);
    Ok(Drained { takeover: takeover.context("nobody took over")?, served })
}

/// Order and time of a take-over. Too late is wrong, and so is too early: a holder that lives renews every third of the TTL.
fn judge(stage: &mut Stage<'_>, waiting: &[Place], drained: &Drained, ttl: Duration, when: &str) {
    let queued: Vec<_> = waiting.iter().map(|place| place.who).collect();
    let names =
        |numbers: &[usize]| numbers.iter().map(|who| stage.contenders.identity(*who)).collect::<Vec<_>>().join(", ");
    let bad = format!("queued were {}; served were {}", names(&queued), names(&drained.served));
    stage.ledger.check(Claim::Order, drained.served == queued, format!("as queued {when}"), bad);

    let (least, most) = (ttl / 3, ttl + TAKEOVER_SLACK);
    let text = format!("{} {when}", seconds(drained.takeover));
    let bad = format!("{text}, which is not between {} and {}", seconds(least), seconds(most));
    stage.ledger.check(Claim::Takeover, (least..=most).contains(&drained.takeover), text, bad);
}
