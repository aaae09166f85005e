//! Where a server comes from, and what is said when it cannot be had. The Go compiler is a script here: a real build
//! takes a minute, and every other test of the crate uses what one made.

use std::{
    fs,
    path::Path,
    process::{Command, Output, Stdio},
};

use leasehold_etcd::{Version, ensure, find};
use tempfile::TempDir;

/// A machine with nothing but the directories in here.
struct Machine(TempDir);

impl Machine {
    fn new() -> Self {
        let machine = Self(tempfile::tempdir().expect("a directory"));
        for name in ["bin", "cache"] {
            fs::create_dir(machine.path(name)).expect("made");
        }
        machine
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.0.path().join(name)
    }

    fn script(&self, path: &str, text: &str) {
        // Written by a process of its own: this one starts others at the same time, which would hold the open file for a
        // moment, and the kernel runs nothing that somebody has open for writing.
        let write = r#"printf '#!/bin/sh\n%s\n' "$1" > "$2" && chmod +x "$2""#;
        let status = Command::new("/bin/sh").args(["-c", write, "sh", text]).arg(self.path(path)).status();
        assert!(status.expect("runs").success());
    }

    fn program(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_leasehold-etcd"));
        command.args(arguments).env_remove("LEASEHOLD_ETCD").env("LEASEHOLD_CACHE", self.path("cache"));
        command.env("PATH", self.path("bin")).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }
}

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

#[test]
fn without_go_the_answer_says_what_to_install() {
    let machine = Machine::new();
    let output = machine.program(&["--build-only", "3.7"]).output().expect("runs");
    assert!(!output.status.success());
    assert!(text(&output).contains("no Go compiler; install Go 1.26"), "{}", text(&output));
    let sources = machine.program(&["--print-sources"]).output().expect("runs");
    assert!(sources.status.success() && text(&sources).contains("3.7  missing: install Go"), "{}", text(&sources));
}

#[test]
fn with_an_old_or_failing_go_the_answer_says_so() {
    let machine = Machine::new();
    machine.script("bin/go", "echo 'go: go.mod requires go >= 1.26.0 (running go 1.19)' >&2; exit 1");
    let output = machine.program(&["--build-only", "3.6"]).output().expect("runs");
    assert!(!output.status.success() && text(&output).contains("too old; install Go 1.26"), "{}", text(&output));
    machine.script("bin/go", "echo 'no route to the module proxy' >&2; exit 1");
    let output = machine.program(&["--build-only", "3.6"]).output().expect("runs");
    assert!(!output.status.success() && text(&output).contains("no route to the module proxy"), "{}", text(&output));
}

#[test]
fn many_processes_build_once_and_the_next_finds_it() {
    let machine = Machine::new();
    // What a killed build left must not be in the way.
    fs::create_dir_all(machine.path("cache/etcd-3.5.building/bin/etcd")).expect("made");
    machine.script(
        "bin/go",
        &format!(
            "PATH=/usr/bin:/bin; [ \"$1\" = build ] || exit 0; [ \"$GOTOOLCHAIN$CGO_ENABLED\" = local0 ] || exit 1
             [ -n \"$HOME\" ] || exit 1
             grep -q go.etcd.io/etcd/server/v3 go.mod && test -s go.sum || exit 1
             echo built >> {}; mkdir bin && cp etcd/main.go bin/etcd && cp etcdctl/main.go bin/etcdctl",
            machine.path("count").display()
        ),
    );
    let build = || machine.program(&["--build-only", "3.5"]).env_remove("HOME").spawn().expect("runs");
    let builds: Vec<_> = (0..4).map(|_| build()).collect();
    for build in builds {
        let output = build.wait_with_output().expect("ends");
        assert!(output.status.success(), "{}", text(&output));
    }
    assert_eq!(fs::read_to_string(machine.path("count")).expect("built"), "built\n");
    assert!(!machine.path("cache/etcd-3.5.building").exists());
    fs::remove_file(machine.path("bin/go")).expect("removed");
    let sources = machine.program(&["--print-sources"]).output().expect("runs");
    assert!(text(&sources).contains("from the cache"), "{}", text(&sources));
}

#[test]
fn a_named_binary_is_used_first_and_must_be_an_etcd() {
    let machine = Machine::new();
    machine.script("bin/etcd", "echo 'etcd Version: 3.6.99'");
    let named = |path: &Path| {
        let output = machine.program(&["--print-sources"]).env("LEASEHOLD_ETCD", path).output().expect("runs");
        text(&output)
    };
    let sources = named(&machine.path("bin/etcd"));
    for line in ["any  etcd 3.6.99 from $LEASEHOLD_ETCD", "3.6  etcd 3.6.99 from $LEASEHOLD_ETCD", "3.7  missing"] {
        assert!(sources.contains(line), "{line} is not in {sources}");
    }
    machine.script("bin/other", "echo 'something else'");
    for path in [machine.path("bin/other"), machine.path("bin/nothing")] {
        let sources = named(&path);
        assert!(sources.contains("LEASEHOLD_ETCD must be the path of an etcd server"), "{sources}");
    }
    // Without a compiler a series comes from PATH as well.
    let sources = machine.program(&["--print-sources"]).output().expect("runs");
    assert!(text(&sources).contains("3.6  etcd 3.6.99 from PATH"), "{}", text(&sources));
}

#[tokio::test]
async fn a_server_that_was_ensured_is_found() {
    let server = ensure(Version::Any).await.expect("an etcd is here");
    let found = find(Version::Any).expect("no wrong setting").expect("found");
    assert_eq!(found.etcd(), server.etcd());
}
