//! Elections with Go's package `concurrency`, of the server's own version: by `etcdctl elect`, and by the server's Election service
//! (`v3electionpb.Election`), which hands every call to that package.

use std::{
    io::{BufRead, BufReader},
    process::{Child, Stdio},
    sync::Mutex,
    thread,
};

use etcd_client::{ProclaimOptions, ResignOptions};
use leasehold::{Client, Guard, Observer};
use leasehold_etcd::{Cluster, eventually, on_every_version, spawn};
use rustix::process::{Pid, Signal, kill_process};
use tokio::{sync::mpsc, task::JoinHandle};

use crate::{client, etcd, queued, soon};

/// `etcdctl elect` of `/lock/a`: each leader that it tells of, as key and value.
struct Etcdctl {
    child: Child,
    lines: mpsc::UnboundedReceiver<String>,
}

impl Etcdctl {
    /// Stands for election with `value`.
    async fn campaign(cluster: &Cluster, value: &str) -> Self {
        Self::start(cluster, &["elect", "/lock/a", value]).await
    }

    /// Observes the election.
    async fn listen(cluster: &Cluster) -> Self {
        Self::start(cluster, &["elect", "--listen", "/lock/a"]).await
    }

    async fn start(cluster: &Cluster, arguments: &[&str]) -> Self {
        let mut command = cluster.etcdctl(arguments.iter().copied()).unwrap();
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = spawn(command).await.unwrap();
        let read = BufReader::new(child.stdout.take().unwrap()).lines();
        let (sender, lines) = mpsc::unbounded_channel();
        thread::spawn(move || read.map_while(Result::ok).try_for_each(|line| sender.send(line)));
        Self { child, lines }
    }

    /// The next leader that it tells of.
    async fn told(&mut self) -> (String, String) {
        let mut line = async || soon(self.lines.recv()).await.expect("it ended");
        (line().await, line().await)
    }

    fn is_silent(&mut self) -> bool {
        self.lines.try_recv() == Err(mpsc::error::TryRecvError::Empty)
    }

    /// Resigns, as Ctrl-C does.
    async fn resign(mut self) {
        kill_process(Pid::from_child(&self.child), Signal::INT).unwrap();
        let child = Mutex::new(&mut self.child);
        eventually("etcdctl ends", || async { child.lock().unwrap().try_wait().unwrap().is_some() }).await;
    }
}

impl Drop for Etcdctl {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn candidate(client: &Client, value: &str) -> JoinHandle<Guard> {
    let campaign = client.election("/lock/a").campaign(value);
    tokio::spawn(async move { campaign.await.unwrap() })
}

/// The next that our observer tells: key and value of the leader.
async fn seen(observer: &mut Observer) -> Option<(String, String)> {
    let observed = soon(observer.next()).await.unwrap();
    assert!(!observed.is_after_gap);
    observed.leader.map(|leader| (leader.key, String::from_utf8(leader.value).unwrap()))
}

fn pair(key: &str, value: &str) -> (String, String) {
    (key.to_owned(), value.to_owned())
}

#[tokio::test]
async fn etcdctl_elect_and_we_lead_in_turn_and_tell_each_other() {
    on_every_version(|version| async move {
        let cluster = etcd(version).await;
        let client = client(&cluster, 5);
        let election = client.election("/lock/a");
        let mut observer = election.observe();
        assert_eq!(seen(&mut observer).await, None);
        let mut listener = Etcdctl::listen(&cluster).await;

        let first = soon(election.campaign("ours")).await.unwrap();
        assert_eq!(listener.told().await, pair(&first.key(), "ours"));
        let mut their = Etcdctl::campaign(&cluster, "theirs").await;
        queued(&cluster, 2).await;
        let last = candidate(&client, "ours at last");
        queued(&cluster, 3).await;
        first.proclaim("ours again").await.unwrap();
        assert_eq!(listener.told().await, pair(&first.key(), "ours again"));
        // A proclamation ends nobody's turn and begins nobody's.
        assert!(first.is_held() && !last.is_finished() && their.is_silent(), "etcd {version}");
        for value in ["ours", "ours again"] {
            assert_eq!(seen(&mut observer).await, Some(pair(&first.key(), value)));
        }

        first.release().await.unwrap();
        let (key, value) = their.told().await;
        assert_eq!(value, "theirs");
        assert_eq!(seen(&mut observer).await, Some(pair(&key, "theirs")));
        assert_eq!(listener.told().await, pair(&key, "theirs"));
        let leader = election.leader().await.unwrap().unwrap();
        assert_eq!((leader.key, leader.value), (key, b"theirs".to_vec()));
        let queue = client.lock("/lock/a").queue().await.unwrap();
        assert_eq!(queue.iter().map(|contender| contender.foreign).collect::<Vec<_>>(), [true, false]);
        assert!(!last.is_finished(), "etcd {version}: we lead beside etcdctl");

        their.resign().await;
        let last = soon(last).await.unwrap();
        assert_eq!(seen(&mut observer).await, Some(pair(&last.key(), "ours at last")));
        assert_eq!(listener.told().await, pair(&last.key(), "ours at last"));
        last.release().await.unwrap();
        assert_eq!(seen(&mut observer).await, None);
        queued(&cluster, 0).await;
    })
    .await;
}

/// Seen to fail with a proclamation that does not compare, and with one that takes the lease away.
#[tokio::test]
async fn gos_election_and_we_lead_in_turn_and_proclaim_to_each_other() {
    on_every_version(|version| async move {
        let cluster = etcd(version).await;
        let client = client(&cluster, 5);
        let election = client.election("/lock/a");
        let mut observer = election.observe();
        assert_eq!(seen(&mut observer).await, None);
        let mut theirs = etcd_client::Client::connect(cluster.endpoints(), None).await.unwrap();
        let lease = theirs.lease_grant(60, None).await.unwrap().id();

        let first = soon(election.campaign("ours")).await.unwrap();
        let mut observing = theirs.observe("/lock/a").await.unwrap();
        let mut observed = async || {
            let reply = soon(observing.message()).await.unwrap().expect("a leader");
            let kv = reply.kv().expect("a leader").clone();
            (kv.key_str().unwrap().to_owned(), kv.value_str().unwrap().to_owned())
        };
        assert_eq!(observed().await, pair(&first.key(), "ours"));
        let their = tokio::spawn({
            let mut service = theirs.election_client();
            async move { service.campaign("/lock/a", "theirs", lease).await.unwrap() }
        });
        queued(&cluster, 2).await;
        let last = candidate(&client, "ours at last");
        queued(&cluster, 3).await;
        first.proclaim("ours again").await.unwrap();
        assert_eq!(observed().await, pair(&first.key(), "ours again"));
        let leader = theirs.leader("/lock/a").await.unwrap();
        let kv = leader.kv().unwrap();
        assert_eq!((kv.key_str().unwrap(), kv.value_str().unwrap()), (first.key().as_str(), "ours again"));
        assert_eq!(
            (kv.create_revision(), kv.lease()),
            (first.token(), i64::from_str_radix(&first.lease(), 16).unwrap())
        );
        assert!(!their.is_finished() && !last.is_finished(), "etcd {version}");

        let before = first.key();
        first.release().await.unwrap();
        let elected = soon(their).await.unwrap();
        let key = elected.leader().unwrap();
        let name = key.key_str().unwrap().to_owned();
        theirs.proclaim("theirs again", Some(ProclaimOptions::new().with_leader(key.clone()))).await.unwrap();
        for value in ["theirs", "theirs again"] {
            assert_eq!(observed().await, pair(&name, value));
        }
        for (key, value) in [(&before, "ours"), (&before, "ours again"), (&name, "theirs"), (&name, "theirs again")] {
            assert_eq!(seen(&mut observer).await, Some(pair(key, value)));
        }
        assert!(!last.is_finished(), "etcd {version}: their proclamation ended their turn");
        theirs.resign(Some(ResignOptions::new().with_leader(key.clone()))).await.unwrap();
        let last = soon(last).await.unwrap();
        assert_eq!(observed().await, pair(&last.key(), "ours at last"));
        assert_eq!(seen(&mut observer).await, Some(pair(&last.key(), "ours at last")));

        // What they proclaim once they lead no more, they do not: nor do we.
        let late = theirs.proclaim("too late", Some(ProclaimOptions::new().with_leader(key.clone()))).await;
        assert!(late.is_err(), "etcd {version}");
        theirs.delete(last.key(), None).await.unwrap();
        assert_eq!(last.proclaim("too late").await.unwrap_err().code(), leasehold::Code::Lost);
        assert_eq!(seen(&mut observer).await, None);
        assert!(theirs.leader("/lock/a").await.is_err(), "etcd {version}: they see a leader");
        drop(last);
        queued(&cluster, 0).await;
    })
    .await;
}
