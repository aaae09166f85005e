//! Members that are killed, stopped, frozen and cut off, and what the rest of the cluster makes of it.

use std::{process::Output, time::Duration};

use leasehold_etcd::{Cluster, Error, Version, on_every_version};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};

/// Longer than any election, shorter than anybody's patience.
const LIMIT: Duration = Duration::from_secs(90);

async fn three(version: Version) -> Cluster {
    Cluster::builder().members(3).version(version).start().await.expect("starts")
}

/// An `etcdctl` call at one member, with a limit of its own.
async fn at(cluster: &Cluster, member: usize, arguments: &[&str]) -> Output {
    let arguments = ["--command-timeout=2s"].iter().chain(arguments);
    let command = cluster.etcdctl_as(None, &[cluster.endpoint(member)], arguments).expect("stands beside");
    let run = tokio::process::Command::from(command).kill_on_drop(true).output();
    timeout(LIMIT, run).await.expect("in time").expect("runs")
}

/// Writes at one member until that succeeds.
async fn put(cluster: &Cluster, member: usize, value: &str) {
    let write = async { while !at(cluster, member, &["put", "key", value]).await.status.success() {} };
    timeout(LIMIT, write).await.expect("a leader is found");
}

/// Reads at one member until the value is that: its first read after an election may take too long on a busy machine.
async fn reads(cluster: &Cluster, member: usize, value: &str) {
    let get = ["get", "key", "--print-value-only"];
    let read = async { while at(cluster, member, &get).await.stdout != format!("{value}\n").as_bytes() {} };
    timeout(LIMIT, read).await.unwrap_or_else(|_| panic!("{} does not read {value:?}", cluster.server()));
}

#[tokio::test]
async fn a_killed_leader_is_replaced_and_catches_up_after_its_restart() {
    on_every_version(|version| async move {
        let cluster = three(version).await;
        let leader = cluster.leader().await.expect("elected");
        put(&cluster, leader, "before").await;
        cluster.kill(leader).expect("killed");
        assert_eq!(cluster.pid(leader).expect("a member"), None);
        let next = cluster.leader().await.expect("elected anew");
        assert_ne!(next, leader, "etcd {version}");
        reads(&cluster, next, "before").await;
        put(&cluster, next, "after").await;
        cluster.restart(leader).await.expect("restarted");
        reads(&cluster, leader, "after").await;
    })
    .await;
}

#[tokio::test]
async fn a_frozen_leader_is_replaced_and_may_wake_up_again() {
    let cluster = three(Version::Any).await;
    let leader = cluster.leader().await.expect("elected");
    cluster.freeze(leader).expect("frozen");
    let next = cluster.leader().await.expect("elected anew");
    assert_ne!(next, leader);
    put(&cluster, next, "meanwhile").await;
    assert!(!at(&cluster, leader, &["get", "key"]).await.status.success(), "a frozen member answered");
    cluster.thaw(leader).expect("woken");
    reads(&cluster, leader, "meanwhile").await;
}

#[tokio::test]
async fn a_cut_off_leader_is_replaced_and_answers_no_linearizable_read() {
    on_every_version(|version| async move {
        let cluster = three(version).await;
        let leader = cluster.leader().await.expect("elected");
        put(&cluster, leader, "before").await;
        cluster.cut_off(leader).expect("cut off");
        let next = cluster.leader().await.expect("elected anew");
        assert_ne!(next, leader, "etcd {version}");
        put(&cluster, next, "after").await;
        let read = at(&cluster, leader, &["get", "key"]).await;
        assert!(!read.status.success(), "etcd {version}, cut off, answered {read:?}");
        let stale = at(&cluster, leader, &["get", "key", "--consistency=s", "--print-value-only"]).await;
        assert_eq!(String::from_utf8_lossy(&stale.stdout), "before\n", "clients still reach it: {stale:?}");
        cluster.reconnect(leader).expect("reconnected");
        reads(&cluster, leader, "after").await;
    })
    .await;
}

#[tokio::test]
async fn nothing_passes_to_or_from_a_member_that_is_cut_off() {
    let cluster = three(Version::Any).await;
    let leader = cluster.leader().await.expect("elected");
    put(&cluster, leader, "before").await;
    let list = cluster.ctl(&["member", "list"]).await.expect("listed");
    let cut_off = list.lines().find(|line| line.contains(&format!(" m{leader},"))).expect("a member");
    let id = cut_off.split(',').next().expect("its id").to_owned();
    let next = (leader + 1) % 3;
    assert!(received(&cluster, leader, "").await > 0 && received(&cluster, next, &id).await > 0);

    cluster.cut_off(leader).expect("cut off");
    let next = cluster.leader().await.expect("elected anew");
    let before = (received(&cluster, leader, "").await, received(&cluster, next, &id).await);
    // Both sides have a lot to say to each other meanwhile.
    put(&cluster, next, "after").await;
    assert!(!at(&cluster, leader, &["put", "key", "never"]).await.status.success());
    let after = (received(&cluster, leader, "").await, received(&cluster, next, &id).await);
    assert_eq!(before, after, "bytes of raft that it got from all, and that the new leader got from it");
}

#[tokio::test]
async fn a_cut_off_member_stays_so_through_a_restart() {
    let cluster = three(Version::Any).await;
    let leader = cluster.leader().await.expect("elected");
    let follower = (leader + 1) % 3;
    cluster.cut_off(follower).expect("cut off");
    cluster.kill(follower).expect("killed");
    put(&cluster, leader, "meanwhile").await;
    cluster.restart(follower).await.expect("it is up");
    assert!(!at(&cluster, follower, &["get", "key"]).await.status.success(), "it has found the others");
    cluster.reconnect(follower).expect("reconnected");
    reads(&cluster, follower, "meanwhile").await;
}

/// How many bytes of raft a member has got from the one with this id, or from all others where the id is empty.
async fn received(cluster: &Cluster, member: usize, id: &str) -> u64 {
    let mut stream = TcpStream::connect(cluster.address(member)).await.expect("connects");
    stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").await.expect("taken");
    let mut metrics = String::new();
    stream.read_to_string(&mut metrics).await.expect("answered");
    let name = format!("etcd_network_peer_received_bytes_total{{From=\"{id}");
    let values = metrics.lines().filter_map(|line| line.strip_prefix(&name)?.rsplit(' ').next());
    values.map(|value| value.parse::<f64>().expect("a number") as u64).sum()
}

#[tokio::test]
async fn a_stopped_member_starts_with_its_data() {
    let cluster = Cluster::builder().start().await.expect("starts");
    put(&cluster, 0, "kept").await;
    cluster.stop(0).await.expect("stopped");
    assert!(cluster.freeze(0).is_err(), "it does not run");
    cluster.restart(0).await.expect("restarted");
    assert!(cluster.restart(0).await.is_err(), "it runs");
    reads(&cluster, 0, "kept").await;
    assert!(cluster.kill(1).is_err(), "there is no such member");
    assert!(cluster.cut_off(0).is_err(), "there is nobody to be cut off from");
}

#[tokio::test]
async fn a_member_that_ended_by_itself_is_known_to_be_down_and_starts_anew() {
    use rustix::process::{Pid, Signal, kill_process};
    let cluster = Cluster::builder().start().await.expect("starts");
    let pid = cluster.pid(0).expect("a member").expect("runs");
    let pid = Pid::from_raw(pid.cast_signed()).expect("a process");
    kill_process(pid, Signal::KILL).expect("it is our child");
    let down = async || cluster.pid(0).expect("a member").is_none();
    leasehold_etcd::eventually("it is known to be down", down).await;
    let error = cluster.freeze(0).expect_err("there is nobody to freeze");
    assert!(error.to_string().contains("signal: 9"), "{error}");
    cluster.restart(0).await.expect("restarted");
}

#[tokio::test]
async fn an_etcdctl_without_an_answer_shows_its_last_words_and_the_logs() {
    let cluster = Cluster::builder().start().await.expect("starts");
    cluster.freeze(0).expect("frozen");
    let error = cluster.ctl(&["--command-timeout=1s", "get", "key"]).await.expect_err("nobody answers");
    let text = error.to_string();
    assert!(matches!(error, Error::Timeout(_)), "{text}");
    for part in ["etcdctl --command-timeout=1s get key", "context deadline exceeded", "--- the log of etcd m0 ---"] {
        assert!(text.contains(part), "{part} is not in {text}");
    }
}
