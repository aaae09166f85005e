//! Many operations at once on a real etcd, ended by closing or cancelling: each completes exactly once, and nothing is left,
//! neither in etcd nor in the process.

mod support;

use std::{collections::HashMap, time::Duration};

use leasehold_bridge::{AcquireOptions, Claim, Code, Completion, Outcome, Queue, Result, live, operation, testing};
use support::{LIMIT, acquire, alone, close, etcd, eventually, outcome, resources, times};

const NAME: &str = "/lock/load";

/// What each operation's last completion brought. Panics if one completes twice, or not at all.
fn last_words(queue: &Queue, expected: usize) -> HashMap<u64, Result<Outcome>> {
    let mut last = HashMap::new();
    while last.len() < expected {
        let taken = queue.take(64, LIMIT).expect("open");
        assert!(!taken.is_empty(), "only {} of {expected} completed", last.len());
        for Completion { tag, is_last, result } in taken {
            assert!(!last.contains_key(&tag), "{tag} goes on after its last completion");
            if is_last {
                last.insert(tag, result);
            }
        }
    }
    last
}

#[test]
fn closing_completes_each_of_a_hundred_operations_once() {
    let test = "closing_completes_each_of_a_hundred_operations_once";
    let cluster = support::is_alone(test).is_none().then(etcd);
    alone(test, cluster.as_ref(), |endpoint| {
        // The thread itself stays, with what its runtime has open.
        acquire(&support::client("memory://first"), NAME, None).expect("acquired");
        eventually("the first is gone", || live::count().guards == 0);
        let before = (live::count(), resources());
        let queue = Queue::with_fd().expect("a descriptor");
        let client = support::client(endpoint);
        let guard = acquire(&client, NAME, None).expect("acquired");
        let mut expected = 0;
        for tag in 0..100 {
            let sink = queue.sink(tag);
            match tag % 5 {
                0 => client.on_state(sink),
                1 => guard.ended(sink),
                2 => guard.put(b"/data/x".to_vec(), b"1".to_vec(), None, sink),
                3 => client.queue(NAME, None, sink),
                _ => client.acquire(&[(NAME, Claim::Exclusive)], &AcquireOptions::default(), None, sink),
            };
            expected += 1;
        }
        client.close(queue.sink(1000));
        client.close(queue.sink(1001));
        for (tag, result) in last_words(&queue, expected + 2) {
            let code = result.as_ref().err().map(leasehold_bridge::Error::code);
            let is_right = match tag % 5 {
                _ if tag >= 1000 => result.is_ok(),
                0 => matches!(result, Ok(Outcome::Done)),
                1 => matches!(result, Ok(Outcome::Lost(_))),
                2 => matches!(result, Ok(Outcome::Revision(_))) || matches!(code, Some(Code::Lost | Code::Closed)),
                3 => matches!(result, Ok(Outcome::Contenders(_))) || code == Some(Code::Closed),
                _ => code == Some(Code::Closed),
            };
            assert!(is_right, "{tag}: {result:?}");
        }
        assert!(queue.take(1, Duration::from_millis(200)).expect("open").is_empty(), "a completion too many");
        drop((guard, client));
        queue.close();
        drop(queue);
        eventually("nothing lives, no thread and no descriptor is left", || (live::count(), resources()) == before);
    });
    if let Some(cluster) = cluster {
        nothing_is_left(&cluster);
    }
}

#[test]
fn cancelled_about_when_it_is_won_nothing_is_left() {
    let cluster = etcd();
    let client = support::client(&cluster.endpoint(0));
    let queue = Queue::new();
    let (mut won, mut cancelled) = (0, 0);
    // What an acquire takes differs with the machine, so it is found out: half of those that can be won are to be.
    let mut span = Duration::from_millis(3);
    for round in 0..times(300) {
        // Every other one has somebody in front.
        let name = if round % 2 == 0 { "/lock/free" } else { NAME };
        let holder = (round % 2 == 1).then(|| acquire(&client, name, None).expect("acquired"));
        let id =
            client.acquire(&[(name, Claim::Exclusive)], &AcquireOptions::default(), None, queue.sink(round as u64));
        // The moment of the cancel is what is varied here.
        std::thread::sleep(span.mul_f64(fastrand::f64()));
        operation::cancel(id);
        for (tag, result) in last_words(&queue, 1) {
            assert_eq!(tag, round as u64);
            match result {
                Ok(Outcome::Guard(guard)) => {
                    won += 1;
                    span = span.mul_f64(0.95);
                    // By release, or by nobody taking it.
                    if round % 3 == 0 {
                        outcome(|sink| guard.release(None, sink)).expect("released");
                    }
                }
                Err(error) if error.code() == Code::Cancelled => {
                    cancelled += 1;
                    if holder.is_none() {
                        span = span.mul_f64(1.05);
                    }
                }
                other => panic!("{other:?}"),
            }
        }
        drop(holder);
    }
    println!("won {won}, cancelled {cancelled}");
    assert!(won > 0 && cancelled > 0, "won {won}, cancelled {cancelled}: the moments do not vary");
    let left = || pollster::block_on(cluster.keys("/lock/")).expect("etcdctl");
    eventually("no key is left", || left().is_empty());
    close(&client);
    nothing_is_left(&cluster);
}

#[test]
fn a_storm_of_echoes_from_many_threads_completes_each_once() {
    let queue = Queue::new();
    let (threads, each) = (8_u64, 2_000_u64);
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let queue = &queue;
            scope.spawn(move || {
                for number in 0..each {
                    let id = testing::echo(String::new(), queue.sink(thread * each + number));
                    if number % 3 == 0 {
                        operation::cancel(id);
                    }
                }
            });
        }
        assert_eq!(last_words(&queue, (threads * each) as usize).len(), (threads * each) as usize);
    });
    assert!(queue.drain(9).is_empty());
}

fn nothing_is_left(cluster: &leasehold_etcd::Cluster) {
    assert_eq!(pollster::block_on(cluster.keys("/lock/")).expect("etcdctl"), [""; 0]);
    assert_eq!(pollster::block_on(cluster.leases()).expect("etcdctl"), [""; 0]);
}
