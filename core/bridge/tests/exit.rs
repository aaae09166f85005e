//! The end of the process: quick and quiet, whatever is under way.

mod support;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use leasehold_bridge::{AcquireOptions, Claim, Client, ClientOptions, Code, Queue, live, shutdown, testing};
use support::{LIMIT, acquire, alone, etcd, in_a_process, is_alone, resources, times};

const NAME: &str = "/lock/exit";

#[test]
fn exiting_with_operations_pending_is_quiet() {
    let test = "exiting_with_operations_pending_is_quiet";
    if let Some(endpoint) = is_alone(test) {
        let client = support::client(&endpoint);
        let queue = Queue::with_fd().expect("a descriptor");
        let guard = acquire(&client, &format!("{NAME}/{}", std::process::id()), None).expect("acquired");
        for tag in 0..100 {
            let sink = queue.sink(tag);
            match tag % 5 {
                0 => client.on_state(sink),
                1 => guard.ended(sink),
                2 => testing::never(None, sink),
                3 => client.ping(None, sink),
                _ => client.acquire(&[(guard.name(), Claim::Exclusive)], &AcquireOptions::default(), None, sink),
            };
        }
        let blocked = Queue::new();
        std::thread::spawn(move || blocked.take(1, LIMIT));
        // Every other one in good order first.
        if std::process::id().is_multiple_of(2) {
            assert!(shutdown::close_all(LIMIT));
        }
        std::process::exit(0);
    }
    let cluster = etcd();
    for _ in 0..times(50) {
        let status = in_a_process(test, Some(&cluster));
        assert!(status.success(), "ended with {status}");
    }
}

#[test]
fn closing_everything_takes_no_longer_than_it_may() {
    let test = "closing_everything_takes_no_longer_than_it_may";
    let cluster = is_alone(test).is_none().then(etcd);
    alone(test, cluster.as_ref(), |endpoint| {
        let client = support::client(endpoint);
        acquire(&client, NAME, None).expect("acquired").abandon();
        // Takes connections, and says nothing.
        let silent = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}", silent.local_addr().expect("bound"));
        let patient = ClientOptions::new(url).request_timeout(Duration::from_secs(30));
        let stuck = Client::open(patient).expect("good options");
        let queue = Queue::new();
        stuck.acquire(&[(NAME, Claim::Exclusive)], &AcquireOptions::default(), None, queue.sink(1));
        let started = Instant::now();
        assert!(!shutdown::close_all(Duration::from_secs(3)), "who says nothing cannot be closed in good order");
        assert!(started.elapsed() < Duration::from_secs(20), "it took {:?}", started.elapsed());
        assert_eq!(acquire(&client, NAME, None).expect_err("closed").code(), Code::Closed);
    });
    if let Some(cluster) = cluster {
        assert_eq!(pollster::block_on(cluster.keys(NAME)).expect("etcdctl"), [""; 0], "what could be released was");
    }
}

#[test]
fn a_guard_whose_client_was_freed_is_released_by_closing() {
    alone("a_guard_whose_client_was_freed_is_released_by_closing", None, |_| {
        let open = || support::client("memory://freed");
        let guard = acquire(&open(), NAME, Some(Duration::ZERO)).unwrap();
        assert!(shutdown::close_all(LIMIT));
        assert!(!guard.is_held());
        acquire(&open(), NAME, Some(Duration::ZERO)).expect("it is free");
    });
}

#[test]
fn an_abandoned_guard_is_released_by_closing() {
    alone("an_abandoned_guard_is_released_by_closing", None, |_| {
        let open = || support::client("memory://abandoned");
        let (here, there) = (open(), open());
        acquire(&here, NAME, Some(Duration::ZERO)).unwrap().abandon();
        let taken = acquire(&there, NAME, Some(Duration::from_millis(50)));
        assert_eq!(taken.unwrap_err().code(), Code::NotAcquired);
        assert!(shutdown::close_all(LIMIT));
        acquire(&open(), NAME, Some(Duration::ZERO)).expect("it is free");
    });
}

#[test]
fn what_is_not_used_starts_no_thread() {
    alone("what_is_not_used_starts_no_thread", None, |_| {
        let before = resources();
        let clients: Vec<Arc<Client>> = (0..9).map(|_| support::client("http://127.0.0.1:1")).collect();
        assert!(shutdown::close_all(LIMIT));
        assert_eq!(resources(), before);
        assert_eq!((live::count().clients, live::count().operations), (9, 0));
        drop(clients);
        assert_eq!(live::count().clients, 0);
    });
}

#[test]
fn the_programs_signals_stay_off_the_thread() {
    alone("the_programs_signals_stay_off_the_thread", None, |_| {
        acquire(&support::client("memory://signals"), NAME, None).expect("acquired");
        let mask = masks().find(|(name, _)| name == "lh-io-0").map(|(_, mask)| mask).expect("the thread");
        for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGCHLD, libc::SIGUSR1, libc::SIGALRM] {
            assert_ne!(mask & (1 << (signal - 1)), 0, "{signal} may arrive there");
        }
        assert_eq!(mask & (1 << (libc::SIGSEGV - 1)), 0);
        assert!(masks().any(|(name, mask)| name != "lh-io-0" && mask == 0), "the program's own have changed");
    });
}

/// Name and blocked signals of each thread.
fn masks() -> impl Iterator<Item = (String, u64)> {
    std::fs::read_dir("/proc/self/task").expect("proc").map(|task| {
        let path = task.expect("a thread").path();
        let read = |file: &str| std::fs::read_to_string(path.join(file)).expect("proc");
        let status = read("status");
        let mask = status.lines().find_map(|line| line.strip_prefix("SigBlk:")).expect("a mask");
        (read("comm").trim().to_owned(), u64::from_str_radix(mask.trim(), 16).expect("a number"))
    })
}
