//! Go's `concurrency.Mutex`, of the server's own version, among every kind of lock of ours. The server's Lock service is that type
//! and nothing else: `Lock` makes one of the caller's session, `Unlock` deletes its key.

use std::time::Duration;

use etcd_client::LockOptions;
use leasehold::{Guard, LocalFirst, Lock};
use leasehold_etcd::{Cluster, on_every_version};
use tokio::task::{JoinHandle, JoinSet};

use crate::{client, etcd, queued, soon};

/// Far longer than any of these tests takes.
const LONG: Duration = Duration::from_secs(600);

/// A Go client that waits for `/lock/a`, or has it.
struct Mutex {
    client: etcd_client::Client,
    waiter: JoinHandle<Vec<u8>>,
}

impl Mutex {
    async fn queue(cluster: &Cluster) -> Self {
        let mut client = etcd_client::Client::connect(cluster.endpoints(), None).await.unwrap();
        let lease = client.lease_grant(60, None).await.unwrap().id();
        let mut service = client.lock_client();
        let lock = async move { service.lock("/lock/a", Some(LockOptions::new().with_lease(lease))).await };
        let waiter = tokio::spawn(async move { lock.await.unwrap().key().to_vec() });
        Self { client, waiter }
    }

    fn is_waiting(&self) -> bool {
        !self.waiter.is_finished()
    }

    /// Waits until it holds; the create revision of its key.
    async fn holds(&mut self) -> i64 {
        let key = soon(&mut self.waiter).await.unwrap();
        let token = self.client.get(key.as_slice(), None).await.unwrap().kvs()[0].create_revision();
        self.waiter = tokio::spawn(async { key });
        token
    }

    async fn unlock(mut self) {
        let key = soon(&mut self.waiter).await.unwrap();
        self.client.unlock(key).await.unwrap();
    }
}

fn acquire(lock: &Lock) -> JoinHandle<Guard> {
    let acquire = lock.acquire();
    tokio::spawn(async move { acquire.await.unwrap() })
}

/// Seen to fail with a foreign key, whose name says no claim, taken for a reader's.
#[tokio::test]
async fn a_mutex_waits_for_the_readers_before_it_and_for_no_reader_after_it() {
    on_every_version(|version| async move {
        let cluster = etcd(version).await;
        let (one, two) = (client(&cluster, 5), client(&cluster, 5));
        let readers = [one.lock("/lock/a").shared(), two.lock("/lock/a").shared()];
        let first = soon(readers[0].acquire()).await.unwrap();
        let second = soon(readers[1].acquire()).await.unwrap();
        let mut mutex = Mutex::queue(&cluster).await;
        queued(&cluster, 3).await;
        let late = [acquire(&readers[0]), acquire(&readers[1])];
        queued(&cluster, 5).await;
        let writer = acquire(&one.lock("/lock/a"));
        queued(&cluster, 6).await;
        assert!(readers[1].try_acquire().await.unwrap().is_none(), "etcd {version}: a reader overtook a mutex");

        first.release().await.unwrap();
        queued(&cluster, 5).await;
        assert!(mutex.is_waiting(), "etcd {version}: a mutex beside {}", second.key());
        let read = second.token();
        second.release().await.unwrap();
        let mutexed = mutex.holds().await;
        assert!(late.iter().all(|reader| !reader.is_finished()), "etcd {version}: readers beside a mutex");
        mutex.unlock().await;
        // Both hold at once, and the writer after them.
        let mut reading = Vec::new();
        for reader in late {
            reading.push(soon(reader).await.unwrap());
        }
        assert!(reading.iter().all(|reader| read < mutexed && mutexed < reader.token()));
        assert!(!writer.is_finished(), "etcd {version}: a writer beside readers");
        for reader in reading {
            reader.release().await.unwrap();
        }
        soon(writer).await.unwrap().release().await.unwrap();
        queued(&cluster, 0).await;
    })
    .await;
}

#[tokio::test]
async fn a_mutex_waits_for_all_permits_before_it_and_keeps_those_after_it_out() {
    on_every_version(|version| async move {
        let cluster = etcd(version).await;
        let (one, two) = (client(&cluster, 5), client(&cluster, 5));
        let (ours, theirs) = (one.semaphore("/lock/a", 3), two.semaphore("/lock/a", 3));
        let first = soon(ours.acquire()).await.unwrap();
        let second = soon(theirs.acquire()).await.unwrap();
        let mut mutex = Mutex::queue(&cluster).await;
        queued(&cluster, 3).await;
        // There is room for it, and it is not its turn.
        let third = acquire(&ours);
        queued(&cluster, 4).await;
        let all = acquire(&theirs.clone().permits(3));
        queued(&cluster, 5).await;
        assert!(theirs.try_acquire().await.unwrap().is_none(), "etcd {version}: a permit overtook a mutex");
        assert!(!third.is_finished() && mutex.is_waiting(), "etcd {version}");

        let held = first.token();
        first.release().await.unwrap();
        queued(&cluster, 4).await;
        assert!(mutex.is_waiting(), "etcd {version}: a mutex beside {}", second.key());
        second.release().await.unwrap();
        let mutexed = mutex.holds().await;
        assert!(!third.is_finished() && !all.is_finished(), "etcd {version}: permits beside a mutex");
        mutex.unlock().await;
        let third = soon(third).await.unwrap();
        assert!(held < mutexed && mutexed < third.token());
        assert!(!all.is_finished(), "etcd {version}: more permits than there are");
        third.release().await.unwrap();
        soon(all).await.unwrap().release().await.unwrap();
        queued(&cluster, 0).await;
    })
    .await;
}

/// Takes turns in so many tasks until the lock fails or the tasks are dropped.
fn cycle(lock: &Lock, tasks: usize) -> JoinSet<()> {
    let turns = |lock: Lock| async move {
        while let Ok(guard) = lock.acquire().await {
            tokio::task::yield_now().await;
            if guard.release().await.is_err() {
                return;
            }
        }
    };
    (0..tasks).map(|_| turns(lock.clone())).collect()
}

/// Seen to fail with a bound on turns that is not looked at.
#[tokio::test]
async fn a_mutex_has_its_turn_within_the_bound_of_those_that_share_a_place() {
    on_every_version(|version| async move {
        let cluster = etcd(version).await;
        let ours = client(&cluster, 5);
        let lock = ours.lock("/lock/a").local_first_within(LocalFirst { turns: 8, time: Duration::from_secs(60) });
        let tasks = cycle(&lock, 4);
        for _ in 0..5 {
            let mut mutex = Mutex::queue(&cluster).await;
            mutex.holds().await;
            // Nobody of ours holds meanwhile, and those that wait have one place between them.
            let queue = lock.queue().await.unwrap();
            assert!(queue[0].foreign && queue.len() <= 2, "etcd {version}: {queue:?}");
            mutex.unlock().await;
        }
        drop(tasks);
    })
    .await;
}

/// Seen to fail with a linger that looks at nobody.
#[tokio::test]
async fn a_mutex_takes_a_place_that_lingers_and_keeps_it_until_it_unlocks() {
    on_every_version(|version| async move {
        let cluster = etcd(version).await;
        let ours = client(&cluster, 5);
        let lock = ours.lock("/lock/a").linger(LONG);
        for _ in 0..3 {
            let guard = soon(lock.acquire()).await.unwrap();
            let before = guard.token();
            guard.release().await.unwrap();
            soon(lock.acquire()).await.unwrap().release().await.unwrap();
            let mut mutex = Mutex::queue(&cluster).await;
            let mutexed = mutex.holds().await;
            let next = acquire(&lock);
            queued(&cluster, 2).await;
            assert!(!next.is_finished(), "etcd {version}: it was taken back from a mutex");
            mutex.unlock().await;
            let next = soon(next).await.unwrap();
            assert!(before < mutexed && mutexed < next.token(), "etcd {version}");
            assert_eq!(next.sequence(), 0, "etcd {version}");
            // While it is held, too.
            let mut mutex = Mutex::queue(&cluster).await;
            queued(&cluster, 2).await;
            next.release().await.unwrap();
            mutex.holds().await;
            mutex.unlock().await;
        }
        ours.close().await.unwrap();
        assert!(cluster.keys("/lock/").await.unwrap().is_empty());
    })
    .await;
}
