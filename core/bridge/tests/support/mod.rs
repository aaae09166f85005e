//! What the bridge's tests share: a real etcd, clients, blocking calls, and processes of their own for what concerns a whole
//! process.

#![expect(dead_code, reason = "each test program uses some of it")]

use std::{
    env,
    process::{Command, ExitStatus, Stdio},
    sync::Arc,
    time::{Duration, Instant},
};

use leasehold_bridge::{AcquireOptions, Claim, Client, ClientOptions, Guard, OpId, Outcome, Result, Sink, Waiter};
use leasehold_etcd::{Cluster, Storage};

/// Longer than anything takes that a test waits for on a busy machine.
pub const LIMIT: Duration = Duration::from_secs(60);
const ALONE: &str = "LEASEHOLD_TEST_ALONE";
const ENDPOINT: &str = "LEASEHOLD_TEST_ENDPOINT";

/// A single member with its data in memory: the fastest real etcd.
pub fn etcd() -> Cluster {
    pollster::block_on(Cluster::builder().storage(Storage::Memory).start()).expect("an etcd starts")
}

pub fn client(url: &str) -> Arc<Client> {
    Client::open(ClientOptions::new(url).ttl(Duration::from_secs(5))).expect("good options")
}

/// What an operation brings, for a thread that blocks for it.
pub fn outcome(start: impl FnOnce(Sink) -> OpId) -> Result<Outcome> {
    let waiter = Waiter::new();
    start(waiter.sink());
    waiter.wait_for(LIMIT).expect("the operation hangs")
}

pub fn acquire(client: &Client, name: &str, wait: Option<Duration>) -> Result<Guard> {
    let options = AcquireOptions { wait, ..Default::default() };
    outcome(|sink| client.acquire(&[(name, Claim::Exclusive)], &options, None, sink)).and_then(Outcome::into_guard)
}

pub fn close(client: &Client) {
    outcome(|sink| client.close(sink)).expect("closed");
}

/// Waits until `condition` holds.
pub fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let started = Instant::now();
    while !condition() {
        assert!(started.elapsed() < LIMIT, "still not after {LIMIT:?}: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// How often something is repeated: `few` times, or as often as the environment variable `LEASEHOLD_TEST_TIMES` says.
pub fn times(few: usize) -> usize {
    env::var("LEASEHOLD_TEST_TIMES").ok().and_then(|times| times.parse().ok()).unwrap_or(few)
}

/// Runs `body` in a process in which no other test runs; `test` is the name of the calling test. With an `etcd`, it is given
/// the endpoint.
pub fn alone(test: &str, etcd: Option<&Cluster>, body: impl FnOnce(&str)) {
    if env::var(ALONE).as_deref() == Ok(test) {
        return body(&env::var(ENDPOINT).unwrap_or_default());
    }
    let status = in_a_process(test, etcd);
    assert!(status.success(), "the test in its own process ended with {status}; its output is above");
}

/// Whether this is the process that [`in_a_process`] started for `test`; if so, the endpoint.
pub fn is_alone(test: &str) -> Option<String> {
    (env::var(ALONE).as_deref() == Ok(test)).then(|| env::var(ENDPOINT).unwrap_or_default())
}

/// Runs `test` of this program in a process of its own and waits for its end.
pub fn in_a_process(test: &str, etcd: Option<&Cluster>) -> ExitStatus {
    let mut command = Command::new(env::current_exe().expect("a path"));
    command.args([test, "--exact", "--nocapture", "--test-threads=1"]).env(ALONE, test);
    command.stdin(Stdio::null()).stdout(Stdio::null());
    if let Some(etcd) = etcd {
        command.env(ENDPOINT, etcd.endpoint(0));
    }
    let mut process = pollster::block_on(leasehold_etcd::spawn(command)).expect("a process");
    let started = Instant::now();
    loop {
        if let Some(status) = process.try_wait().expect("waited for") {
            return status;
        }
        if started.elapsed() > 2 * LIMIT {
            process.kill().expect("killed");
            process.wait().expect("waited for");
            panic!("{test} hangs in its own process");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Threads and file descriptors of this process.
pub fn resources() -> (usize, usize) {
    let count = |directory: &str| std::fs::read_dir(directory).expect("proc").count();
    (count("/proc/self/task"), count("/proc/self/fd"))
}

/// Runs `child` in a forked child, with what the parent owns, and waits for it; panics unless it ends well. Returns the
/// parent's.
pub fn in_a_child<T>(owned: T, child: impl FnOnce(T)) -> T {
    // SAFETY: glibc keeps its allocator usable in the child of a program with threads, and the child calls nothing that relies
    // on a thread that it no longer has, except for what this test is about. It ends by `_exit`.
    let process = unsafe { libc::fork() };
    assert!(process >= 0, "fork failed");
    if process == 0 {
        // The hook for panics has said what was wrong.
        let is_well = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| child(owned))).is_ok();
        // SAFETY: ends the child at once, without the handlers of the test runner.
        unsafe { libc::_exit(i32::from(!is_well)) }
    }
    let started = Instant::now();
    let mut status = 0;
    // SAFETY: `process` is our child and has not been waited for; `status` outlives the call.
    while unsafe { libc::waitpid(process, &raw mut status, libc::WNOHANG) } == 0 {
        if started.elapsed() > LIMIT {
            // SAFETY: `process` is our child and has not been waited for, so the number is still its own.
            unsafe { libc::kill(process, libc::SIGKILL) };
            panic!("the child hangs");
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(status, 0, "the child failed; its output is above");
    owned
}
