//! What a seed stands for: clients and what they do, the shape of the cluster, and what goes wrong when.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use fastrand::Rng;
use leasehold::{
    Claim,
    hub::{Acquire, Batching, Config, LeaseIds, Want},
    terms::{LocalFirst, Mode, Sharing},
};

use crate::{MS, SEC};

/// Everything about a run that is decided before it starts; the rest is decided by `rng` on the way.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Dice for what is decided on the way.
    pub rng: Rng,
    /// Members of the cluster.
    pub members: usize,
    /// The clients.
    pub clients: Vec<ClientPlan>,
    /// Clients of other make.
    pub foreign: Vec<ForeignPlan>,
    /// What goes wrong and when.
    pub faults: Vec<(u64, Fault)>,
    /// What goes wrong with messages, until `heal_at`.
    pub net: Net,
    /// From then on nothing goes wrong any more.
    pub heal_at: u64,
    /// Names that are contended for.
    pub names: Vec<Arc<str>>,
}

/// A client and the runtime around its hub.
#[derive(Clone, Debug)]
pub struct ClientPlan {
    /// The hub's options.
    pub config: Config,
    /// Its clock runs that much faster than the true time, in millionths.
    pub drift_ppm: i64,
    /// What its clock shows at the start of the run.
    pub offset: u64,
    /// What its callers do.
    pub tasks: Vec<TaskPlan>,
    /// Which elections it observes.
    pub observers: Vec<ObserverPlan>,
}

/// An observer of an election.
#[derive(Clone, Debug)]
pub struct ObserverPlan {
    /// Whose leaders it is told.
    pub name: Arc<str>,
    /// When it begins.
    pub at: u64,
    /// When it ends; `None` is with its client.
    pub until: Option<u64>,
}

/// What one caller does.
#[derive(Clone, Debug)]
pub struct TaskPlan {
    /// When it asks for the lock.
    pub at: u64,
    /// What it asks for.
    pub acquire: Acquire,
    /// When, after that, it gives up.
    pub cancel_after: Option<u64>,
    /// How long it keeps the lock.
    pub hold: u64,
    /// Whether a write under the lock may still take effect when it releases.
    pub is_unsettled: bool,
    /// When, while holding, it asks for more time, and for how much.
    pub extend: Option<(u64, Duration)>,
    /// When, after it won, it proclaims something. It may hold no more by then: what it proclaims must have no effect.
    pub proclaims: Vec<u64>,
}

/// A client of other make, in the way of Go's `concurrency.Mutex`.
#[derive(Clone, Debug)]
pub struct ForeignPlan {
    /// The name it contends for.
    pub name: Arc<str>,
    /// When it joins the queue.
    pub at: u64,
    /// How long it keeps the lock.
    pub hold: u64,
    /// The TTL of its lease in seconds; `None` is a key without a lease that an administrator deletes after `hold`.
    pub ttl: Option<i64>,
    /// Whether it dies while it waits or holds, instead of releasing.
    pub dies: bool,
}

/// Something that goes wrong at one moment.
#[derive(Clone, Debug, Hash)]
pub enum Fault {
    /// The link between a client and a member is cut for so long.
    Cut(usize, usize, u64),
    /// A client is cut off from all members for so long.
    CutOff(usize, u64),
    /// A member stands still for so long: what it was sent takes effect when it wakes.
    FreezeMember(usize, u64),
    /// A member is down for so long; what was on its way to or from it breaks.
    KillMember(usize, u64),
    /// The cluster has no leader for so long; the new one extends all leases.
    Election(u64),
    /// A member tells its watches everything so much later, for so long.
    Lag(usize, u64, u64),
    /// A client's process stands still for so long.
    FreezeClient(usize, u64),
    /// A client's process dies.
    Crash(usize),
    /// A client closes.
    Close(usize),
    /// An administrator deletes one of the keys.
    DeleteKey,
    /// An administrator revokes one of the leases.
    RevokeLease,
    /// The server ends the watches of a client one by one (compaction, an expired token).
    EndWatches(usize),
    /// The streams of a client break.
    BreakStreams(usize),
    /// Nothing comes on the watch stream of a client any more, although it stands.
    Silence(usize),
    /// Somebody makes a backup.
    Backup,
    /// The cluster is down for so long, and comes back as it was at the last backup; empty, if there is none.
    Restore(u64),
}

/// What can happen to a message. Probabilities are in thousandths.
#[derive(Clone, Copy, Debug, Default)]
pub struct Net {
    /// Longest way of a message in one direction, when nothing is wrong.
    pub delay: u64,
    /// A request gets lost.
    pub lost: u32,
    /// A request arrives seconds late.
    pub late: u32,
    /// A reply gets lost.
    pub reply_lost: u32,
    /// A reply arrives late.
    pub reply_late: u32,
    /// The connection breaks under a call, whose request arrives all the same.
    pub reset: u32,
    /// A call is refused and surely has no effect.
    pub refused: u32,
    /// A request arrives a second time, seconds later.
    pub twice: u32,
    /// A watch silently misses a deletion, as etcd 3.4.23 did at compactions.
    pub deaf: u32,
    /// A watch stream is silent from its start, and stays so until the client ends it.
    pub silent: u32,
}

fn one_in(rng: &mut Rng, n: u32) -> bool {
    rng.u32(0..n) == 0
}

/// A span between `least` and `most`, short ones as likely as long ones.
pub fn span(rng: &mut Rng, least: u64, most: u64) -> u64 {
    let least = least.max(1);
    let octaves = (most / least).max(1).ilog2();
    let base = least << rng.u32(0..=octaves);
    rng.u64(base..=(base * 2).min(most).max(base))
}

impl Plan {
    /// The plan that `seed` stands for.
    pub fn from_seed(seed: u64) -> Self {
        let mut rng = Rng::with_seed(seed ^ 0x1ea5_e401_d000_0000);
        let is_calm = one_in(&mut rng, 8);
        let only_robbers = !is_calm && one_in(&mut rng, 10);
        let members = if rng.bool() { 3 } else { 1 };
        let names = ["/a", "/b", "/a/n"][..rng.usize(1..=3)].iter().map(|name| Arc::from(*name)).collect::<Vec<_>>();
        let ttl = *rng.choice(&[2, 3, 5, 15]).unwrap_or(&5);
        let length = span(&mut rng, 5 * SEC, 60 * SEC);
        // Long holds meet more expiries, short ones more hand-offs.
        let longest = *rng.choice(&[2 * MS, 100 * MS, SEC, ttl * SEC * 2]).unwrap_or(&SEC);
        let clients = (0..rng.usize(1..=4)).map(|_| client(&mut rng, &names, ttl, length, longest)).collect::<Vec<_>>();
        let mut foreign: Vec<_> =
            (0..rng.usize(0..=4).saturating_sub(1)).map(|_| foreign(&mut rng, &names, length)).collect();
        if one_in(&mut rng, 16) {
            foreign.extend(crowd(&mut rng, &names[0], length));
        }
        let mut net = Net { delay: span(&mut rng, MS / 4, 50 * MS), ..Net::default() };
        let mut faults = Vec::new();
        if only_robbers {
            for _ in 0..rng.usize(1..12) {
                let fault = if rng.bool() { Fault::DeleteKey } else { Fault::RevokeLease };
                faults.push((rng.u64(0..length), fault));
            }
            faults.sort_by_key(|(at, _)| *at);
        } else if !is_calm {
            let level = *rng.choice(&[5, 20, 100]).unwrap_or(&20);
            let roll = |rng: &mut Rng| if rng.bool() { rng.u32(0..level) } else { 0 };
            net.lost = roll(&mut rng);
            net.late = roll(&mut rng);
            net.reply_lost = roll(&mut rng);
            net.reply_late = roll(&mut rng);
            net.reset = roll(&mut rng);
            net.refused = roll(&mut rng);
            net.twice = if one_in(&mut rng, 8) { rng.u32(0..level) } else { 0 };
            net.deaf = if one_in(&mut rng, 8) { rng.u32(0..level * 3) } else { 0 };
            // There are few streams: only where many are silent does one meet another fault.
            net.silent = if one_in(&mut rng, 4) { rng.u32(0..500) } else { 0 };
            for _ in 0..rng.usize(0..12) {
                let at = rng.u64(0..length);
                faults.push((at, fault(&mut rng, clients.len(), members, ttl)));
            }
            if one_in(&mut rng, 3) {
                stutter(&mut rng, clients.len(), ttl, length, &mut faults);
            }
            faults.sort_by_key(|(at, _)| *at);
        }
        // With dice of its own, so that all other seeds stay what they are. Nothing else goes wrong then: what is on its way at that
        // moment is lost with its connection, and nobody can hold by an answer of the former history.
        let mut dice = Rng::with_seed(seed ^ 0xbac_0000_5eed);
        if one_in(&mut dice, 12) {
            net = Net { delay: net.delay, ..Net::default() };
            faults = restores(&mut dice, length);
        }
        let mut clients = clients;
        several(&mut Rng::with_seed(seed ^ 0xa11_0000_5eed), &names, &mut clients);
        claim(&mut Rng::with_seed(seed ^ 0xc1a1_0000_5eed), &names, &mut clients);
        // Elections: with dice of their own, too.
        let mut dice = Rng::with_seed(seed ^ 0xe1ec_7104);
        if one_in(&mut dice, 3) {
            elect(&mut dice, &mut clients, &names, length);
        }
        share(&mut Rng::with_seed(seed ^ 0x5a2e_0000_5eed), &mut clients);
        let heal_at = length + 20 * SEC;
        Self { rng, members, clients, foreign, faults, net, heal_at, names }
    }

    /// Whether some who want this name can find that what they claim of it cannot be compared.
    pub fn has_mismatches(&self, name: &str) -> bool {
        let wants = self.clients.iter().flat_map(|client| &client.tasks).flat_map(|task| &task.acquire.wants);
        let kinds: BTreeSet<Option<u32>> = wants
            .filter(|want| &*want.name == name)
            .filter_map(|want| match want.claim {
                Claim::Exclusive => None,
                Claim::Shared => Some(None),
                Claim::Permits { limit, .. } => Some(Some(limit)),
            })
            .collect();
        kinds.len() > 1
    }

    /// Whether nothing goes wrong in it at all.
    pub fn is_calm(&self) -> bool {
        self.faults.is_empty() && self.has_calm_net()
    }

    /// Whether nothing goes wrong but what administrators do: every message arrives.
    pub fn is_only_robbed(&self) -> bool {
        let robs = |(_, fault): &(u64, Fault)| matches!(fault, Fault::DeleteKey | Fault::RevokeLease);
        self.has_calm_net() && self.faults.iter().all(robs)
    }

    fn has_calm_net(&self) -> bool {
        let net = self.net;
        net.lost
            + net.late
            + net.reply_lost
            + net.reply_late
            + net.reset
            + net.refused
            + net.twice
            + net.deaf
            + net.silent
            == 0
    }
}

/// Some clients gather more than usual, some less, some nothing.
fn batching(seed: u64) -> Batching {
    match seed % 4 {
        0 => Batching::OFF,
        1 => Batching { most: 3, ahead: 1 },
        2 => Batching { ahead: 1, ..Batching::USUAL },
        _ => Batching::USUAL,
    }
}

fn client(rng: &mut Rng, names: &[Arc<str>], ttl: u64, length: u64, longest: u64) -> ClientPlan {
    let config = Config {
        namespace: String::new(),
        ttl: Duration::from_secs(ttl),
        call_timeout: Duration::from_millis(*rng.choice(&[500, 1_000, 2_000, 5_000]).unwrap_or(&2_000)),
        request_timeout: Duration::from_millis(*rng.choice(&[5_000, 10_000]).unwrap_or(&5_000)),
        batching: Batching::OFF,
        window: *rng.choice(&[1, 3, 256]).unwrap_or(&256),
        seed: rng.u64(..),
        lease_ids: LeaseIds::Seeded,
    };
    let config = Config { batching: batching(config.seed), ..config };
    let busy = rng.usize(1..=12);
    let tasks = (0..busy)
        .map(|_| {
            let mode = if one_in(rng, 4) { Mode::Try } else { Mode::Wait };
            TaskPlan {
                at: if rng.bool() { rng.u64(0..length) } else { rng.u64(0..100 * MS) },
                acquire: Acquire {
                    wants: vec![exclusive(rng.choice(names).cloned().unwrap_or_else(|| Arc::from("/a")))],
                    mode,
                    ttl: Duration::from_secs(if one_in(rng, 5) { 4 } else { ttl }),
                    renew: !one_in(rng, 6),
                    requeue: !one_in(rng, 4),
                    wait: one_in(rng, 4).then(|| Duration::from_nanos(span(rng, MS, 20 * SEC))),
                    sharing: Sharing::default(),
                    value: Arc::from(*b"{}"),
                    is_candidate: false,
                },
                cancel_after: one_in(rng, 5).then(|| span(rng, MS / 10, 10 * SEC)),
                hold: if one_in(rng, 20) { span(rng, SEC, 8 * SEC) } else { span(rng, longest / 20, longest) },
                is_unsettled: false,
                extend: one_in(rng, 6).then(|| (span(rng, MS, 2 * SEC), Duration::from_millis(rng.u64(1..20_000)))),
                proclaims: Vec::new(),
            }
        })
        .collect();
    // The margin covers 2 % of difference between our clock and the leader's.
    ClientPlan {
        config,
        drift_ppm: rng.i64(-10_000..=10_000),
        offset: rng.u64(0..1_000 * SEC),
        tasks,
        observers: Vec::new(),
    }
}

fn exclusive(name: Arc<str>) -> Want {
    Want { name, claim: Claim::Exclusive }
}

/// In every third plan acquires take several names at once, in any order.
fn several(rng: &mut Rng, names: &[Arc<str>], clients: &mut [ClientPlan]) {
    if names.len() < 2 || !one_in(rng, 2) {
        return;
    }
    for task in clients.iter_mut().flat_map(|client| &mut client.tasks) {
        if rng.bool() {
            let others = names.iter().filter(|name| **name != task.acquire.wants[0].name && rng.bool());
            let others: Vec<_> = others.cloned().map(exclusive).collect();
            task.acquire.wants.extend(others);
            rng.shuffle(&mut task.acquire.wants);
        }
    }
}

/// In every third plan names are more than mutexes: read-write locks, semaphores, or a muddle of all.
fn claim(rng: &mut Rng, names: &[Arc<str>], clients: &mut [ClientPlan]) {
    if !one_in(rng, 3) {
        return;
    }
    for name in names {
        let kind = rng.u32(0..10);
        let limit = rng.u32(1..=5);
        let tasks = clients.iter_mut().flat_map(|client| &mut client.tasks);
        for want in tasks.flat_map(|task| &mut task.acquire.wants).filter(|want| want.name == *name) {
            let permits = Claim::Permits { permits: rng.u32(1..=limit), limit };
            want.claim = match (kind, rng.u32(0..10)) {
                (0..5, 0..7) | (9, 0..3) => Claim::Shared,
                (5..9, 0..9) | (9, 3..6) => permits,
                (9, 6..8) => Claim::Permits { permits: 1, limit: limit + 1 },
                _ => Claim::Exclusive,
            };
        }
    }
}

/// In every third plan some clients share places among their callers.
fn share(rng: &mut Rng, clients: &mut [ClientPlan]) {
    if !one_in(rng, 3) {
        return;
    }
    for client in clients {
        if rng.bool() {
            continue;
        }
        let bound = LocalFirst {
            turns: *rng.choice(&[1, 2, 4, 64]).unwrap_or(&64),
            time: Duration::from_nanos(span(rng, MS, 2 * SEC)),
        };
        for task in client.tasks.iter_mut().filter(|task| {
            matches!(task.acquire.wants[..], [Want { claim: Claim::Exclusive, .. }]) && task.proclaims.is_empty()
        }) {
            task.is_unsettled = one_in(rng, 12);
            task.acquire.sharing = Sharing {
                local_first: (!one_in(rng, 4)).then_some(bound),
                linger: if rng.bool() { Duration::from_nanos(span(rng, MS, 8 * SEC)) } else { Duration::ZERO },
            };
        }
    }
}

fn foreign(rng: &mut Rng, names: &[Arc<str>], length: u64) -> ForeignPlan {
    ForeignPlan {
        name: rng.choice(names).cloned().unwrap_or_else(|| Arc::from("/a")),
        at: rng.u64(0..length),
        hold: span(rng, MS, 2 * SEC),
        ttl: (!one_in(rng, 6)).then(|| rng.i64(2..=10)),
        dies: one_in(rng, 5),
    }
}

/// Holders proclaim, also when they hold no more, and clients observe who leads.
fn elect(rng: &mut Rng, clients: &mut [ClientPlan], names: &[Arc<str>], length: u64) {
    for client in clients {
        for task in &mut client.tasks {
            let latest = task.hold + if one_in(rng, 3) { 5 * SEC } else { 0 };
            task.proclaims = (0..rng.usize(0..4)).map(|_| rng.u64(0..=latest)).collect();
        }
        let observer = |rng: &mut Rng| ObserverPlan {
            name: rng.choice(names).cloned().unwrap_or_else(|| Arc::from("/a")),
            at: rng.u64(0..length),
            until: one_in(rng, 4).then(|| rng.u64(0..length)),
        };
        client.observers = (0..rng.usize(0..3)).map(|_| observer(rng)).collect();
    }
}

/// The cluster goes back in time, once or twice: to a backup, or to nothing.
fn restores(rng: &mut Rng, length: u64) -> Vec<(u64, Fault)> {
    let mut faults = Vec::new();
    for _ in 0..rng.usize(1..=2) {
        if !one_in(rng, 4) {
            faults.push((rng.u64(0..length), Fault::Backup));
        }
        faults.push((rng.u64(0..length), Fault::Restore(span(rng, 200 * MS, 3 * SEC))));
    }
    faults.sort_by_key(|(at, _)| *at);
    faults
}

/// One client can hardly breathe: cut off or frozen again and again, for about as long as its lease lives, with moments in
/// between in which something gets through. What an acknowledgement is worth that comes late shows only then.
fn stutter(rng: &mut Rng, clients: usize, ttl: u64, length: u64, faults: &mut Vec<(u64, Fault)>) {
    let client = rng.usize(0..clients);
    let mut at = rng.u64(0..length);
    for _ in 0..rng.usize(3..12) {
        let long = rng.u64(ttl * SEC / 20..ttl * SEC).min(10 * SEC);
        if at + long > length {
            break;
        }
        faults.push((at, if rng.bool() { Fault::CutOff(client, long) } else { Fault::FreezeClient(client, long) }));
        at += long + span(rng, MS, 200 * MS);
    }
}

/// So many contenders for one name that clients watch only who stands right ahead of them.
fn crowd(rng: &mut Rng, name: &Arc<str>, length: u64) -> Vec<ForeignPlan> {
    let from = rng.u64(0..length / 2);
    let one = |rng: &mut Rng| ForeignPlan {
        name: name.clone(),
        at: from + rng.u64(0..2 * SEC),
        hold: span(rng, MS, 50 * MS),
        ttl: Some(rng.i64(10..=30)),
        dies: one_in(rng, 100),
    };
    (0..rng.usize(60..90)).map(|_| one(rng)).collect()
}

fn fault(rng: &mut Rng, clients: usize, members: usize, ttl: u64) -> Fault {
    let client = rng.usize(0..clients);
    let member = rng.usize(0..members);
    // Around the TTL is where it matters; everything is healed 20 s after the last fault.
    let long = span(rng, 50 * MS, (2 * ttl * SEC).min(18 * SEC));
    match rng.u32(0..14) {
        0 => Fault::Cut(client, member, long),
        1 => Fault::CutOff(client, long),
        2 => Fault::FreezeMember(member, long),
        3 => Fault::KillMember(member, long),
        4 => Fault::Election(span(rng, 50 * MS, 4 * SEC)),
        5 => Fault::Lag(member, span(rng, MS, 3 * SEC), long),
        6 => Fault::FreezeClient(client, long),
        7 => Fault::Crash(client),
        8 => Fault::Close(client),
        9 => Fault::DeleteKey,
        10 => Fault::RevokeLease,
        11 => Fault::EndWatches(client),
        12 => Fault::Silence(client),
        _ => Fault::BreakStreams(client),
    }
}
