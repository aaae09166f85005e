//! A process that holds a lock is frozen, or killed.
//!
//! The process is this test binary again: told by the environment to play that part of the same test.

use std::{
    env,
    io::{BufRead, BufReader},
    process::{Child, Command, Stdio},
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

use leasehold::{Client, ClientOptions, Code};
use leasehold_etcd::{Cluster, spawn};
use rustix::process::{Pid, Signal, kill_process};

use crate::{PATIENCE, SCAN, SLACK, etcd, expect_nothing_left, options, soon};

const ENDPOINT: &str = "LEASEHOLD_TEST_HOLDER";
const NAME: &str = "/lock/a";
const TTL: Duration = Duration::from_secs(2);

/// A process that holds the lock. It speaks on its stderr, because its test runner speaks on its stdout.
struct Holder {
    child: Child,
    says: mpsc::Receiver<String>,
}

impl Holder {
    /// Starts `test` of this binary as a holder, and waits until it holds the lock.
    async fn start(cluster: &Cluster, test: &str) -> Self {
        let mut command = Command::new(env::current_exe().unwrap());
        command.args(["--exact", test, "--nocapture"]).env(ENDPOINT, cluster.endpoint(0));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = spawn(command).await.unwrap();
        let lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let (sender, says) = mpsc::channel();
        thread::spawn(move || lines.map_while(Result::ok).try_for_each(|line| sender.send(line)));
        let holder = Self { child, says };
        holder.expect("holds");
        holder
    }

    /// The next thing that it says must be this.
    fn expect(&self, line: &str) {
        let said = self.says.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("the holder does not say {line:?}"));
        assert_eq!(said, line);
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The client of the process that plays the holder; `None` in the test's own.
fn holder_client() -> Option<Client> {
    env::var(ENDPOINT).ok().map(|endpoint| ClientOptions::new(endpoint).ttl(TTL).build().unwrap())
}

/// Seen to fail with an `is_held` that knows only what the engine has noted.
#[tokio::test]
async fn a_process_frozen_past_its_ttl_knows_at_its_first_look_and_writes_nothing() {
    if let Some(client) = holder_client() {
        return be_frozen(client).await;
    }
    let cluster = etcd(1).await;
    let holder =
        Holder::start(&cluster, "processes::a_process_frozen_past_its_ttl_knows_at_its_first_look_and_writes_nothing")
            .await;
    let heir = options(&cluster, 2).build().unwrap();
    holder.signal(Signal::STOP);
    let frozen = Instant::now();
    let guard = soon(heir.lock(NAME).acquire()).await.unwrap();
    guard.put("/data", "the heir's").await.unwrap();
    // By its own clock, too, it must have slept for longer than its TTL; it may have been renewed a moment before.
    tokio::time::sleep((TTL + SCAN).saturating_sub(frozen.elapsed())).await;
    holder.signal(Signal::CONT);
    holder.expect("is_held: false");
    holder.expect("put: LOST");
    holder.expect("lost: EXPIRED");
    assert_eq!(cluster.ctl(&["get", "/data", "--print-value-only"]).await.unwrap(), "the heir's\n");
    guard.release().await.unwrap();
    heir.close().await.unwrap();
    holder.expect("closed");
    expect_nothing_left(&cluster, SLACK).await;
}

/// Looks at its guard all the time, so that one look is the first thing it does after it was frozen.
async fn be_frozen(client: Client) {
    let guard = client.lock(NAME).acquire().await.unwrap();
    // Before the word that it may be frozen now.
    let mut last = Instant::now();
    eprintln!("holds");
    let is_held = loop {
        let now = Instant::now();
        let is_held = guard.is_held();
        if now - last > TTL {
            break is_held;
        }
        last = now;
        tokio::time::sleep(Duration::from_millis(1)).await;
    };
    eprintln!("is_held: {is_held}");
    let put = guard.put("/data", "the frozen one's").await;
    eprintln!("put: {}", put.map_or_else(|error| error.code().to_string(), |_| "written".to_owned()));
    eprintln!("lost: {}", guard.lost().await);
    assert_eq!(guard.release().await.unwrap_err().code(), Code::Lost);
    client.close().await.unwrap();
    eprintln!("closed");
}

/// Seen to fail with a key without its lease.
#[tokio::test]
async fn the_lock_of_a_killed_process_is_free_after_its_ttl() {
    if let Some(client) = holder_client() {
        let _guard = client.lock(NAME).acquire().await.unwrap();
        eprintln!("holds");
        return std::future::pending().await;
    }
    let cluster = etcd(1).await;
    let heir = options(&cluster, 2).build().unwrap();
    // Its own session first, so that only the wait is measured.
    heir.lock("/lock/other").acquire().await.unwrap().release().await.unwrap();
    let mut holder = Holder::start(&cluster, "processes::the_lock_of_a_killed_process_is_free_after_its_ttl").await;
    holder.child.kill().unwrap();
    let killed = Instant::now();
    let guard = soon(heir.lock(NAME).acquire()).await.unwrap();
    let took = killed.elapsed();
    println!("etcd {}: taken over {took:?} after a kill, TTL {TTL:?}", cluster.release());
    assert!(took < TTL + SCAN + SLACK, "taken over only after {took:?}");
    assert_eq!(cluster.keys("/lock/").await.unwrap(), [guard.key()]);
    assert_eq!(cluster.leases().await.unwrap(), [guard.lease()]);
    guard.release().await.unwrap();
    heir.close().await.unwrap();
    expect_nothing_left(&cluster, SLACK).await;
}
