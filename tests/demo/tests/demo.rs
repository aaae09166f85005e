//! The demo shows a good run as good, each fault as wrong, and leaves no process behind, however it ends.

use std::{
    fs,
    io::{BufRead, BufReader},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};

const SMALL: [&str; 6] = ["--processes", "4", "--turns", "3", "--ttl", "2"];

fn demo(fault: Option<&str>) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_leasehold-demo"));
    command.args(SMALL).stdin(Stdio::null()).env_remove("LEASEHOLD_DEMO_FAULT");
    if let Some(fault) = fault {
        // Only the contender in Rust knows faults, and each is one of a certain place in the turn.
        command.args(["--languages", "rust"]).env("LEASEHOLD_DEMO_FAULT", fault);
    }
    command
}

/// Runs it to its end, which it reaches by itself. Returns its exit code and what it printed.
fn run(fault: Option<&str>) -> (Option<i32>, String) {
    let output = demo(fault).output().expect("runs");
    let text = String::from_utf8(output.stdout).expect("text");
    println!("{text}{}", String::from_utf8_lossy(&output.stderr));
    (output.status.code(), text)
}

/// The claims of the summary with this word before them.
fn claims<'a>(text: &'a str, word: &str) -> Vec<&'a str> {
    let summary = text.split("\nOutcome\n").nth(1).expect("a summary");
    let lines = summary.lines().filter_map(|line| line.trim_start().strip_prefix(word));
    lines.map(|line| line.trim_start().split("  ").next().unwrap_or_default()).collect()
}

#[test]
fn a_good_run_is_called_good_in_plain_text() {
    let (code, text) = run(None);
    assert_eq!(code, Some(0));
    assert_eq!(claims(&text, "ok").len(), 8);
    assert!(text.contains("guard.is_held()            false"));
    assert!(text.contains("refused: LOST, EXPIRED"));
    assert!(text.contains("0 keys, 0 leases"));
    assert!(text.contains("All is as it should be"));
    assert!(!text.contains('\x1b'), "no control sequences without a terminal");
}

#[test]
fn a_contender_that_writes_without_the_lock_is_noticed() {
    let (code, text) = run(Some("own-lock:rust-2"));
    assert_eq!(code, Some(1));
    let wrong = claims(&text, "WRONG");
    assert!(wrong.contains(&"one at a time") && wrong.contains(&"counter"), "{wrong:?}");
}

#[test]
fn a_stale_write_that_gets_through_is_noticed() {
    // The first one is killed; the second one is frozen.
    let (code, text) = run(Some("stale-write:rust-2"));
    assert_eq!(code, Some(1));
    assert!(claims(&text, "WRONG").contains(&"stale write"));
}

#[test]
fn a_lease_that_is_left_behind_is_noticed() {
    let (code, text) = run(Some("leak:rust-3"));
    assert_eq!(code, Some(1));
    assert_eq!(claims(&text, "WRONG"), ["left in etcd"]);
    assert!(text.contains("0 keys, 1 leases"));
}

#[test]
fn ctrl_c_ends_everything_that_was_started() {
    let mut demo = Started::until("3. ");
    let children = demo.children();
    assert!(children.len() >= 4, "an etcd and three contenders at least, not {children:?}");
    demo.signal(Signal::INT);
    assert_eq!(demo.child.wait().expect("ends").code(), Some(130));
    wait_until("its children are gone", || !children.iter().any(|pid| runs(*pid)));
}

#[test]
fn its_sudden_death_ends_even_a_frozen_contender() {
    let mut demo = Started::until("is frozen (SIGSTOP)");
    let children = demo.children();
    assert!(children.iter().any(|pid| state(*pid) == Some('T')), "one is frozen");
    demo.signal(Signal::KILL);
    demo.child.wait().expect("ends");
    wait_until("its children are gone", || !children.iter().any(|pid| runs(*pid)));
}

#[test]
fn options_out_of_range_are_refused() {
    let output = Command::new(env!("CARGO_BIN_EXE_leasehold-demo")).args(["--processes", "3"]).output().expect("runs");
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("4..=50"));
}

/// A demo that still runs.
struct Started {
    child: Child,
}

impl Started {
    /// Starts it and reads until a line contains `text`.
    fn until(text: &str) -> Self {
        let child = demo(None).stdout(Stdio::piped()).spawn().expect("starts");
        let mut started = Self { child };
        let mut lines = BufReader::new(started.child.stdout.take().expect("piped")).lines();
        let found = lines.by_ref().map(|line| line.expect("readable")).any(|line| line.contains(text));
        assert!(found, "it ended before it printed {text:?}");
        // Read on, so that it can go on printing.
        std::thread::spawn(move || lines.for_each(drop));
        started
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("it runs");
    }

    fn children(&self) -> Vec<u32> {
        let processes = fs::read_dir("/proc").expect("readable").flatten();
        let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        pids.filter(|pid| stat(*pid).is_some_and(|stat| stat.1 == self.child.id())).collect()
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// State and parent of a process.
fn stat(pid: u32) -> Option<(char, u32)> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = stat.rsplit(')').next()?.split_whitespace();
    Some((fields.next()?.chars().next()?, fields.next()?.parse().ok()?))
}

fn state(pid: u32) -> Option<char> {
    stat(pid).map(|stat| stat.0)
}

/// Whether it runs; one that nobody has waited for yet is over.
fn runs(pid: u32) -> bool {
    state(pid).is_some_and(|state| !matches!(state, 'Z' | 'X'))
}

fn wait_until(what: &str, condition: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(10);
    while !condition() {
        assert!(Instant::now() < deadline, "not in time: {what}");
        std::thread::yield_now();
    }
}
