//! Hand-off between two processes against a raw delete and its watch event, from one process to another.
//!
//! The other process is this program again. It is told what to do line by line and prints when it happened, on
//! `CLOCK_MONOTONIC`, which both share.

use std::{error::Error, process::Stdio, time::Duration};

use leasehold::{
    Client, ClientOptions, clock,
    store::{Change, Key, Keys, Store, WatchId, WatchReply, WatchRequest, etcd::EtcdConfig, etcd::EtcdStore},
};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines},
    process::{Child, ChildStdin, ChildStdout, Command},
};

use crate::{raw, stats::Sample};

const HAND_OFFS: usize = 25;
/// Before each hand-off, on both sides: the waiter's watch stands by then, as it does in a queue that lasts, and everybody is
/// as sleepy as in a lock that is held for a while.
const PAUSE: Duration = Duration::from_millis(3);
const NAME: &str = "/bench/handoff";
const RAW: &str = "/bench/raw/handoff";

pub async fn run(endpoint: &str, rounds: usize) -> Result<(), Box<dyn Error>> {
    let client = ClientOptions::new(endpoint).ttl(Duration::from_secs(30)).build()?;
    let mut peer = Peer::start(endpoint)?;
    peer.hears("watching").await?;
    let lease = raw::lease(&client).await?;
    let key = Key::from(RAW);
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for round in 0..=rounds {
        for _ in 0..HAND_OFFS {
            client.raw_call(raw::put(&key, lease)).await?;
            tokio::time::sleep(PAUSE).await;
            let started = clock::now();
            client.raw_call(raw::delete(&key)).await?;
            let seen = peer.hears("seen").await?;
            let guard = client.lock(NAME).acquire().await?;
            peer.says("acquire").await?;
            while client.lock(NAME).queue().await?.len() < 2 {}
            tokio::time::sleep(PAUSE).await;
            let released = clock::now();
            guard.release().await?;
            let acquired = peer.hears("acquired").await?;
            peer.says("release").await?;
            peer.hears("released").await?;
            if round > 0 {
                theirs.push(seen.saturating_sub(started.as_nanos()) as f64 / 1e3);
                ours.push(acquired.saturating_sub(released.as_nanos()) as f64 / 1e3);
            }
        }
    }
    raw::revoke(&client, lease).await?;
    client.close().await?;
    let (ours, theirs) = (Sample::new(ours), Sample::new(theirs));
    println!(
        "hand-off    between two processes p50 {}, raw delete+event {}: {:.2} x   (aim 1.5 x; {rounds} rounds of {HAND_OFFS})",
        ours.show("µs"),
        theirs.show("µs"),
        ours.median() / theirs.median()
    );
    Ok(())
}

/// The other process.
struct Peer {
    _process: Child,
    stdin: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Peer {
    fn start(endpoint: &str) -> Result<Self, Box<dyn Error>> {
        let mut process = Command::new(std::env::current_exe()?)
            .args(["--peer", endpoint])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let (Some(stdin), Some(stdout)) = (process.stdin.take(), process.stdout.take()) else {
            return Err("no pipes".into());
        };
        Ok(Self { _process: process, stdin, lines: BufReader::new(stdout).lines() })
    }

    async fn says(&mut self, line: &str) -> Result<(), Box<dyn Error>> {
        Ok(self.stdin.write_all(format!("{line}\n").as_bytes()).await?)
    }

    /// When `what` happened there.
    async fn hears(&mut self, what: &str) -> Result<u64, Box<dyn Error>> {
        let line = self.lines.next_line().await?.ok_or("the peer ended")?;
        let (heard, at) = line.split_once(' ').ok_or("an odd line")?;
        if heard != what {
            return Err(format!("expected {what}, heard {line}").into());
        }
        Ok(at.parse()?)
    }
}

/// The other process's side: watches the raw key, and acquires and releases as it is told.
pub async fn peer(endpoint: &str) -> Result<(), Box<dyn Error>> {
    let config = EtcdConfig {
        endpoints: vec![endpoint.to_owned()],
        tls: None,
        login: None,
        plaintext_password: false,
        connect_timeout: Duration::from_secs(5),
    };
    let store = EtcdStore::new(config)?;
    let mut watches = store.watches();
    watches.requests.send(WatchRequest::Create(WatchId(1), Keys::one(Key::from(RAW))))?;
    tokio::spawn(async move {
        while let Some(Ok(reply)) = watches.replies.recv().await {
            match reply {
                WatchReply::Created { .. } => tell("watching"),
                WatchReply::Events { events, .. } if events.iter().any(|event| event.change == Change::Delete) => {
                    tell("seen")
                }
                _ => {}
            }
        }
    });
    let client = Client::builder(endpoint).ttl(Duration::from_secs(30)).build()?;
    let lock = client.lock(NAME);
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    while let Some(line) = lines.next_line().await? {
        if line == "acquire" {
            let guard = lock.acquire().await?;
            tell("acquired");
            lines.next_line().await?;
            guard.release().await?;
            tell("released");
        }
    }
    Ok(client.close().await?)
}

fn tell(what: &str) {
    println!("{what} {}", clock::now().as_nanos());
}
