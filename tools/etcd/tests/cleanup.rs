//! Nothing stays: not after a drop, a panic, the end of the program or its sudden death.

use std::{
    io::{BufRead, BufReader, Read, Write},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    time::{Duration, Instant},
};

use leasehold_etcd::{Cluster, Tls};
use serde_json::Value;

/// The program with a cluster, as a test in another language sees it.
struct Program {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
    description: Value,
    /// Where its cluster's data are.
    data: tempfile::TempDir,
}

impl Program {
    fn start(arguments: &[&str]) -> Self {
        let data = tempfile::tempdir().expect("a directory");
        let mut child = Command::new(env!("CARGO_BIN_EXE_leasehold-etcd"))
            .args(["--storage", "disk"])
            .args(arguments)
            .env("TMPDIR", data.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("runs");
        let (stdin, stdout) = (child.stdin.take(), BufReader::new(child.stdout.take().expect("piped")));
        let mut program = Self { child, stdin, stdout, description: Value::Null, data };
        program.description = program.answer();
        program
    }

    fn answer(&mut self) -> Value {
        let mut line = String::new();
        self.stdout.read_line(&mut line).expect("readable");
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{line:?} is no JSON: {error}"))
    }

    fn ask(&mut self, command: &str) -> Value {
        writeln!(self.stdin.as_mut().expect("open"), "{command}").expect("taken");
        self.answer()
    }

    fn pids(&self) -> Vec<u32> {
        let pids = self.description["pids"].as_array().expect("a list");
        pids.iter().map(|pid| u32::try_from(pid.as_u64().expect("a number")).expect("small")).collect()
    }

    /// The data directories that are there.
    fn left(&self) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(self.data.path()).expect("readable");
        entries.map(|entry| entry.expect("readable").path()).collect()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Whether the process exists; one that nobody has waited for yet is over.
fn runs(pid: u32) -> bool {
    std::fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("stat"))
        .is_ok_and(|stat| !stat.rsplit(')').next().unwrap_or_default().trim_start().starts_with('Z'))
}

fn wait_until(what: &str, condition: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !condition() {
        assert!(Instant::now() < deadline, "not in time: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// The data directory of a cluster, from where its certificates are.
fn data(cluster: &Cluster) -> PathBuf {
    cluster.certificates().expect("made").ca_file.parent().expect("a directory").into()
}

#[tokio::test]
async fn a_drop_ends_the_members_even_a_frozen_one_and_removes_their_data() {
    let cluster = Cluster::builder().tls(Tls::Server).start().await.expect("starts");
    let (pid, data) = (cluster.pid(0).expect("a member").expect("runs"), data(&cluster));
    assert!(runs(pid) && data.is_dir());
    cluster.freeze(0).expect("frozen");
    drop(cluster);
    assert!(!runs(pid) && !data.exists());
}

#[tokio::test]
async fn so_does_a_panic() {
    let (sender, receiver) = tokio::sync::oneshot::channel();
    let test = tokio::spawn(async move {
        let cluster = Cluster::builder().tls(Tls::Server).start().await.expect("starts");
        sender.send((cluster.pid(0).expect("a member").expect("runs"), data(&cluster))).expect("somebody listens");
        panic!("as a failing test does; its text in the output is expected");
    });
    assert!(test.await.expect_err("panics").is_panic());
    let (pid, data) = receiver.await.expect("sent");
    assert!(!runs(pid) && !data.exists());
}

#[tokio::test]
async fn so_does_the_end_of_a_start_that_nobody_waits_for() {
    let token = format!("--initial-cluster-token=nobody-waits-{}", std::process::id());
    let start = Cluster::builder().arg(&token).start();
    let there = || running_with(&token);
    tokio::select! {
        biased;
        _ = start => panic!("it was ready before it was looked at"),
        () = std::future::ready(()) => {}
    }
    wait_until("the start goes on", there);
    wait_until("its member is gone", || !there());
}

/// Whether a process has this argument.
fn running_with(argument: &str) -> bool {
    let processes = std::fs::read_dir("/proc").expect("readable");
    processes.flatten().any(|process| {
        let command = std::fs::read(process.path().join("cmdline")).unwrap_or_default();
        command.split(|byte| *byte == 0).any(|word| word == argument.as_bytes())
    })
}

#[test]
fn the_program_obeys_and_ends_with_its_stdin() {
    let mut program = Program::start(&["--members", "3", "--tls", "mutual", "--user", "alice:secret:/lock/"]);
    let description = &program.description;
    assert_eq!(description["endpoints"].as_array().map(Vec::len), Some(3));
    for file in ["ca_file", "cert_file", "key_file", "etcd", "etcdctl"] {
        assert!(description[file].as_str().is_some_and(|path| Path::new(path).is_file()), "{file} in {description}");
    }
    let pids = program.pids();
    let leader = program.ask("leader")["leader"].as_u64().expect("elected");
    for command in ["freeze", "thaw", "cut", "reconnect", "kill", "restart", "stop"] {
        assert_eq!(program.ask(&format!("{command} {leader}"))["ok"], true, "{command}");
    }
    assert_ne!(program.ask("leader")["leader"].as_u64(), Some(leader));
    for command in ["kill 7", "thaw", "dance 0", "kill 0 1", ""] {
        let answer = program.ask(command);
        assert!(answer["ok"] == false && answer["error"].is_string(), "{command:?}: {answer}");
    }
    assert_eq!(program.left().len(), 1);
    program.stdin = None;
    assert!(program.child.wait().expect("ends").success());
    assert!(!pids.into_iter().any(runs));
    assert_eq!(program.left(), Vec::<PathBuf>::new());
}

#[test]
fn the_program_ends_cleanly_on_a_signal() {
    use rustix::process::{Pid, Signal, kill_process};
    for signal in [Signal::TERM, Signal::INT] {
        let mut program = Program::start(&[]);
        kill_process(Pid::from_child(&program.child), signal).expect("sent");
        assert!(program.child.wait().expect("ends").success());
        assert!(!program.pids().into_iter().any(runs));
        assert_eq!(program.left(), Vec::<PathBuf>::new());
    }
}

#[test]
fn the_kernel_ends_the_members_of_a_killed_program_and_the_next_start_removes_their_data() {
    let mut program = Program::start(&["--members", "3"]);
    program.ask("freeze 0");
    program.child.kill().expect("killed");
    program.child.wait().expect("ended");
    let pids = program.pids();
    wait_until("the members are gone", || !pids.iter().copied().any(runs));
    assert_eq!(program.left().len(), 1, "nobody was there to remove it");
    let mut next = Command::new(env!("CARGO_BIN_EXE_leasehold-etcd"))
        .args(["--storage", "disk"])
        .env("TMPDIR", program.data.path())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .expect("runs");
    let mut text = String::new();
    next.stdout.take().expect("piped").read_to_string(&mut text).expect("readable");
    assert!(next.wait().expect("ends").success() && text.contains("endpoints"));
    assert_eq!(program.left(), Vec::<PathBuf>::new());
}
