//! Several names at once, by processes that are killed in the middle: never two owners of a name, no deadlock, nothing left.
//!
//! `LEASEHOLD_TEST_TIMES` says how many acquires, 300 unless told otherwise.

use std::{
    collections::BTreeMap,
    env,
    fs::{File, OpenOptions},
    io::Write as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use leasehold::{ClientOptions, clock};
use leasehold_etcd::{Cluster, Storage, eventually};

const WORK: &str = "LEASEHOLD_TEST_KILLED";
const WORKERS: usize = 16;
const NAMES: usize = 8;
const TTL: Duration = Duration::from_secs(2);

/// What a worker has written, or the one who killed it.
struct Line {
    at: u64,
    pid: u32,
    /// Token and names of a hold that begins; otherwise what this process had has ended.
    begins: Option<(i64, Vec<usize>)>,
}

fn read(log: &Path) -> Vec<Line> {
    let text = std::fs::read_to_string(log).expect("a log");
    let mut lines: Vec<Line> = text.lines().filter_map(parse).collect();
    lines.sort_by_key(|line| line.at);
    lines
}

fn parse(line: &str) -> Option<Line> {
    let mut words = line.split(' ');
    let (at, pid) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    let begins = words
        .next()
        .map(|token| (token.parse().expect("a token"), words.map(|name| name.parse().expect("a name")).collect()));
    Some(Line { at, pid, begins })
}

fn append(log: &mut File, pid: u32, what: &str) {
    let line = format!("{} {pid}{what}\n", clock::now().as_nanos());
    log.write_all(line.as_bytes()).expect("written in one piece");
}

fn appending(log: &Path) -> File {
    OpenOptions::new().append(true).create(true).open(log).expect("a log")
}

/// What a worker does until it is told to stop, or killed.
async fn work(endpoint: &str, folder: &Path) {
    let client = ClientOptions::new(endpoint).ttl(TTL).build().expect("good options");
    let pid = std::process::id();
    let mut log = appending(&folder.join("log"));
    let mut rng = fastrand::Rng::with_seed(pid.into());
    while !folder.join("stop").exists() {
        let mut names: Vec<usize> = (0..NAMES).collect();
        rng.shuffle(&mut names);
        names.truncate(rng.usize(2..=5));
        let locks = names.iter().map(|name| client.lock(&format!("/killed/{name}")));
        let guard = client.all(locks).acquire().await.expect("acquired");
        let text: String = names.iter().map(|name| format!(" {name}")).collect();
        append(&mut log, pid, &format!(" {}{text}", guard.token()));
        tokio::time::sleep(Duration::from_micros(rng.u64(0..2_000))).await;
        append(&mut log, pid, "");
        guard.release().await.expect("released");
    }
    client.close().await.expect("closed");
}

/// What is wrong with what was written, name by name.
fn judge(lines: &[Line]) -> Vec<String> {
    let mut findings = Vec::new();
    let mut held: BTreeMap<u32, (i64, &[usize])> = BTreeMap::new();
    let mut tokens: BTreeMap<usize, i64> = BTreeMap::new();
    for line in lines {
        let Some((token, names)) = &line.begins else {
            held.remove(&line.pid);
            continue;
        };
        for name in names {
            if let Some((pid, _)) = held.iter().find(|(pid, (_, names))| **pid != line.pid && names.contains(name)) {
                findings.push(format!("{name} is held by {pid} and {}, with token {token}", line.pid));
            }
            let last = tokens.insert(*name, *token).unwrap_or_default();
            if last >= *token {
                findings.push(format!("the token of {name} went from {last} to {token}"));
            }
        }
        held.insert(line.pid, (*token, names));
    }
    findings
}

fn start(endpoint: &str, folder: &Path) -> Command {
    let mut command = Command::new(env::current_exe().expect("a path"));
    command.args(["killed_owners_of_several_names_leave_no_deadlock_and_nothing_else", "--exact"]);
    command.env(WORK, format!("{endpoint} {}", folder.display())).stdin(Stdio::null()).stdout(Stdio::null());
    command
}

/// Seen to fail with names that are put by a transaction each, and with a judge that is shown two owners.
#[tokio::test]
async fn killed_owners_of_several_names_leave_no_deadlock_and_nothing_else() {
    if let Ok(work_of) = env::var(WORK) {
        let (endpoint, folder) = work_of.split_once(' ').expect("an endpoint and a folder");
        return work(endpoint, &PathBuf::from(folder)).await;
    }
    let times: usize = env::var("LEASEHOLD_TEST_TIMES").ok().and_then(|times| times.parse().ok()).unwrap_or(300);
    let cluster = Cluster::builder().storage(Storage::Memory).start().await.expect("an etcd starts");
    let folder = tempfile::tempdir().expect("a folder");
    let mut log = appending(&folder.path().join("log"));
    let mut workers = Vec::new();
    for _ in 0..WORKERS {
        workers.push(leasehold_etcd::spawn(start(&cluster.endpoint(0), folder.path())).await.expect("a worker"));
    }
    let mut rng = fastrand::Rng::with_seed(7);
    // Whoever is killed while it holds keeps its names from the others for its TTL.
    let pace = (times / 100).max(15);
    let (mut kills, mut count, mut moved) = (0, 0, Instant::now());
    while count < times {
        tokio::time::sleep(Duration::from_millis(50)).await;
        let now = read(&folder.path().join("log")).iter().filter(|line| line.begins.is_some()).count();
        if now > count {
            (count, moved) = (now, Instant::now());
        }
        assert!(moved.elapsed() < Duration::from_secs(60), "nobody gets on after {count} acquires and {kills} kills");
        if count < (kills + 1) * pace {
            continue;
        }
        let victim = rng.usize(0..WORKERS);
        let pid = workers[victim].id();
        workers[victim].kill().expect("killed");
        workers[victim].wait().expect("it is gone");
        append(&mut log, pid, "");
        kills += 1;
        workers[victim] = leasehold_etcd::spawn(start(&cluster.endpoint(0), folder.path())).await.expect("a worker");
    }
    File::create(folder.path().join("stop")).expect("a sign to stop");
    for worker in &mut workers {
        let started = Instant::now();
        while worker.try_wait().expect("waited for").is_none() {
            assert!(started.elapsed() < Duration::from_secs(60), "a worker does not end");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
    eventually("no key is left", || async { cluster.keys("/killed/").await.unwrap().is_empty() }).await;
    eventually("no lease is left", || async { cluster.leases().await.unwrap().is_empty() }).await;
    let lines = read(&folder.path().join("log"));
    let count = lines.iter().filter(|line| line.begins.is_some()).count();
    assert_eq!(judge(&lines), Vec::<String>::new());
    println!("{count} acquires, {kills} kills");
}

#[test]
fn the_judge_sees_two_owners_and_a_token_that_does_not_grow() {
    let line = |at, pid, begins| Line { at, pid, begins };
    let first = || line(1, 1, Some((5, vec![0, 1])));
    assert!(judge(&[first(), line(2, 1, None), line(3, 2, Some((6, vec![1])))]).is_empty());
    assert_eq!(judge(&[first(), line(3, 2, Some((6, vec![1])))]).len(), 1);
    assert_eq!(judge(&[first(), line(2, 1, None), line(3, 2, Some((5, vec![1])))]).len(), 1);
}
