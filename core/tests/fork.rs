//! A forked child: what its parent holds is not its to use, to lose or to release, and the client works there all the same.

use std::{
    fs::File,
    io::{Read, Write},
    os::fd::FromRawFd,
    panic::{AssertUnwindSafe, catch_unwind},
    time::{Duration, Instant},
};

use leasehold::{Client, Code, Guard, LostReason};
use leasehold_etcd::{Cluster, eventually};
use tokio::runtime::{Builder, Runtime};

const LIMIT: Duration = Duration::from_secs(30);

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().expect("a runtime")
}

#[test]
fn a_child_of_a_fork_does_not_touch_its_parents_lock() {
    let parent = runtime();
    let cluster = parent.block_on(Cluster::builder().start()).expect("an etcd");
    let client = leasehold::ClientOptions::from_endpoints(cluster.endpoints()).build().expect("good options");
    let guard = parent.block_on(client.lock("/lock/mylock").acquire()).expect("acquired");

    let (guard, report) = in_a_child(guard, |guard| as_a_child(&client, guard));

    assert_eq!(report, "done");
    assert!(guard.is_held(), "the parent still holds");
    parent.block_on(async {
        assert_eq!(cluster.ctl(&["get", "--keys-only", &guard.key()]).await.expect("etcdctl").trim(), guard.key());
        guard.put("/data/x", "the parent's").await.expect("written");
        guard.release().await.expect("released");
        client.close().await.expect("closed");
    });
}

/// In the middle of a tenancy: one place is held from a loan, another is lent and nobody holds it.
#[test]
fn a_child_of_a_fork_takes_nothing_that_lingers_in_its_parent() {
    let parent = runtime();
    let cluster = parent.block_on(Cluster::builder().start()).expect("an etcd");
    let client =
        leasehold::ClientOptions::from_endpoints(cluster.endpoints()).ttl(2 * LIMIT).build().expect("good options");
    let lingering = |name| client.lock(name).local_first().linger(LIMIT);
    let guard = parent.block_on(async {
        for name in ["/lock/held", "/lock/lent"] {
            eventually("it lingers", async || {
                let guard = lingering(name).acquire().await.expect("acquired");
                let is_from_memory = guard.sequence() > 0;
                guard.release().await.expect("released");
                is_from_memory
            })
            .await;
        }
        lingering("/lock/held").acquire().await.expect("taken from the loan")
    });
    let sequence = guard.sequence();
    assert!(sequence > 1);

    let (guard, report) = in_a_child(guard, |guard| {
        assert!(!guard.is_held());
        runtime().block_on(async {
            for name in ["/lock/held", "/lock/other"] {
                let own = client.lock(name).local_first().linger(LIMIT).try_acquire().await.expect("asked");
                // Its own place, which lingers, goes when it closes.
                assert_eq!(own.map(|own| own.sequence()), (name == "/lock/other").then_some(0), "{name}");
            }
            assert_eq!(guard.release().await.expect_err("not the child's to give back").code(), Code::Forked);
            client.close().await.expect("closed");
        });
    });

    assert_eq!(report, "done");
    assert!(guard.is_held(), "the parent still holds");
    parent.block_on(async {
        guard.release().await.expect("released");
        for (name, before) in [("/lock/held", sequence), ("/lock/lent", 1)] {
            let again = lingering(name).acquire().await.expect("it still lingers");
            assert!(again.sequence() > before, "{name}");
            again.release().await.expect("released");
        }
        client.close().await.expect("closed");
        assert!(cluster.keys("/lock/").await.expect("listed").is_empty());
    });
}

/// What the child sees and may do.
fn as_a_child(client: &Client, guard: Guard) {
    assert!(!guard.is_held());
    assert_eq!(guard.remaining(), Duration::ZERO);
    runtime().block_on(async {
        assert_eq!(guard.lost().await, LostReason::Forked);
        assert_eq!(guard.put("/data/x", "the child's").await.expect_err("refused").code(), Code::Forked);

        let own = client.lock("/lock/of-the-child").acquire().await.expect("a session of its own");
        assert_ne!(own.lease(), guard.lease());
        own.put("/data/y", "the child's").await.expect("written");
        own.release().await.expect("released");
        assert!(client.lock("/lock/mylock").try_acquire().await.expect("asked").is_none(), "the parent holds it");

        assert_eq!(guard.release().await.expect_err("not the child's to release").code(), Code::Forked);
        client.close().await.expect("closed");
    });
}

/// Runs `child` in a forked child with what the parent owns, and returns the latter with `done` or what went wrong there.
fn in_a_child<T>(owned: T, child: impl FnOnce(T)) -> (T, String) {
    let mut ends = [0; 2];
    // SAFETY: `ends` has room for the two descriptors that the call writes.
    assert_eq!(unsafe { libc::pipe(ends.as_mut_ptr()) }, 0);
    // SAFETY: both descriptors were just opened and belong to nobody else.
    let (mut reader, mut writer) = unsafe { (File::from_raw_fd(ends[0]), File::from_raw_fd(ends[1])) };
    // SAFETY: glibc keeps its allocator usable in the child of a program with threads, and the child calls nothing that
    // relies on a thread that it no longer has, except for what this test is about. It ends by `_exit`.
    let process = unsafe { libc::fork() };
    assert!(process >= 0, "fork failed");
    if process == 0 {
        let report = match catch_unwind(AssertUnwindSafe(|| child(owned))) {
            Ok(()) => "done".to_owned(),
            Err(panic) => match panic.downcast::<String>() {
                Ok(text) => *text,
                Err(panic) => panic.downcast::<&str>().map_or("a panic".to_owned(), |text| (*text).to_owned()),
            },
        };
        let is_told = writer.write_all(report.as_bytes()).is_ok();
        // SAFETY: ends the child at once. Nothing of the parent's may be dropped here, least of all its etcd.
        unsafe { libc::_exit(i32::from(!is_told)) }
    }
    drop(writer);
    wait(process);
    let mut report = String::new();
    reader.read_to_string(&mut report).expect("the child's report");
    (owned, report)
}

/// Waits for the child, for at most [`LIMIT`].
fn wait(process: libc::pid_t) {
    let started = Instant::now();
    let mut status = 0;
    // SAFETY: `process` is our child and has not been waited for; `status` outlives the call.
    while unsafe { libc::waitpid(process, &raw mut status, libc::WNOHANG) } == 0 {
        if started.elapsed() > LIMIT {
            // SAFETY: `process` is our child and has not been waited for, so the number is still its own.
            unsafe { libc::kill(process, libc::SIGKILL) };
            panic!("the child hangs");
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}
