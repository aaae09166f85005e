//! The cluster under a play: a real etcd of its own, proxies for the actors that ask for one, and the faults of both.

use std::{collections::BTreeMap, path::Path, process::Command, time::Duration};

use anyhow::{Context as _, Result, bail, ensure};
use etcd_client::{Certificate, ConnectOptions, Identity, TlsOptions};
use leasehold_etcd::{Cluster, Direction, Proxy, Tls, User, Version};
use serde::Deserialize;
use serde_json::Value;

use crate::{
    Message,
    etcd::Etcd,
    history::History,
    scenario::{ClusterSpec, Scenario},
};

const ROOT_PASSWORD: &str = "root-of-the-conformance-run";

/// The cluster of one play.
pub struct Stage {
    /// The runner's own access.
    pub etcd: Etcd,
    cluster: Cluster,
    /// One proxy for each member, for each actor that has its own.
    proxies: BTreeMap<String, Vec<Proxy>>,
    history: History,
}

/// What can be done to a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MemberFault {
    /// SIGKILL.
    Kill,
    /// SIGTERM.
    Stop,
    /// SIGSTOP.
    Freeze,
    /// SIGCONT.
    Thaw,
    /// Start anew what was killed or stopped.
    Restart,
    /// Cut off from the other members.
    Cut,
    /// Connect again.
    Reconnect,
}

/// What can be done to the traffic between an actor and etcd.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NetworkFault {
    /// No byte passes, connections stay open; bytes arrive after `pass`.
    Hold,
    /// Every byte arrives later.
    Delay,
    /// Connections are reset, and new ones too.
    Cut,
    /// Connections are reset; new ones are welcome.
    Reset,
    /// Everything passes.
    Pass,
}

/// Which way bytes travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Way {
    /// Requests.
    ToServer,
    /// Replies and events.
    ToClient,
}

impl Stage {
    /// Starts what `scenario` needs.
    pub async fn start(scenario: &Scenario, version: Version, history: History) -> Result<Self> {
        let ClusterSpec { members, tls, users } = &scenario.cluster;
        let mut builder = Cluster::builder().members((*members).max(1)).version(version);
        if *tls {
            builder = builder.tls(Tls::Mutual);
        }
        if !users.is_empty() {
            let users = users.iter().map(|user| User::new(&user.name, &user.password).prefix(&user.prefix));
            builder = builder.auth(ROOT_PASSWORD, users);
        }
        let cluster = builder.start().await.context("cannot start etcd")?;
        history.note(format!("etcd {} with {} members stands", cluster.release(), cluster.size()));
        let mut proxies = BTreeMap::new();
        for (name, _) in scenario.actors.iter().filter(|(_, actor)| actor.proxy) {
            let fronts = (0..cluster.size()).map(|member| Proxy::start(cluster.address(member)));
            proxies.insert(name.clone(), fronts.collect::<Result<Vec<_>, _>>()?);
        }
        let mut options = ConnectOptions::new();
        if let Some(files) = cluster.certificates() {
            let read = |path: &Path| std::fs::read(path).with_context(|| format!("cannot read {}", path.display()));
            let identity = Identity::from_pem(read(&files.cert_file)?, read(&files.key_file)?);
            let tls = TlsOptions::new().ca_certificate(Certificate::from_pem(read(&files.ca_file)?)).identity(identity);
            options = options.with_tls(tls);
        }
        if !users.is_empty() {
            options = options.with_user("root", ROOT_PASSWORD);
        }
        let etcd = Etcd::connect(&cluster.endpoints(), options).await?;
        Ok(Self { etcd, cluster, proxies, history })
    }

    /// Fills in what `open` needs to reach the cluster, where the scenario does not say it.
    pub fn complete_open(&self, actor: &str, request: &mut Message) {
        let mut default = |field: &str, value: Value| {
            request.entry(field).or_insert(value);
        };
        default("endpoints", self.endpoints(actor).into());
        if let Some(files) = self.cluster.certificates() {
            let path = |path: &Path| Value::from(path.to_string_lossy().into_owned());
            default("ca_file", path(&files.ca_file));
            default("cert_file", path(&files.cert_file));
            default("key_file", path(&files.key_file));
        }
    }

    fn endpoints(&self, actor: &str) -> Vec<String> {
        let scheme = if self.cluster.tls() == Tls::None { "http" } else { "https" };
        match self.proxies.get(actor) {
            Some(proxies) => proxies.iter().map(|proxy| format!("{scheme}://{}", proxy.address())).collect(),
            None => self.cluster.endpoints(),
        }
    }

    /// An `etcdctl` for the cluster, not started yet.
    pub fn etcdctl(&self, arguments: &[&str]) -> Result<Command> {
        Ok(self.cluster.etcdctl(arguments)?)
    }

    /// Which member `which` is now: its number, `leader`, or `follower` (the first that does not lead).
    pub async fn member(&self, which: &Value) -> Result<usize> {
        let member = match which {
            Value::Number(number) => usize::try_from(number.as_u64().context("no such member")?)?,
            Value::String(word) if word == "leader" => self.cluster.leader().await?,
            Value::String(word) if word == "follower" => usize::from(self.cluster.leader().await? == 0),
            other => bail!("a member is a number, leader or follower, not {other}"),
        };
        ensure!(member < self.cluster.size(), "there is no member {member}");
        Ok(member)
    }

    /// Does `fault` to a member.
    pub async fn fault(&self, member: usize, fault: MemberFault) -> Result<()> {
        self.history.note(format!("member {member}: {fault:?}").to_lowercase());
        match fault {
            MemberFault::Kill => self.cluster.kill(member)?,
            MemberFault::Stop => self.cluster.stop(member).await?,
            MemberFault::Freeze => self.cluster.freeze(member)?,
            MemberFault::Thaw => self.cluster.thaw(member)?,
            MemberFault::Restart => self.cluster.restart(member).await?,
            MemberFault::Cut => self.cluster.cut_off(member)?,
            MemberFault::Reconnect => self.cluster.reconnect(member)?,
        }
        Ok(())
    }

    /// Does `fault` to the traffic of `actor`, with one member or all of them; only a hold can be for one direction.
    pub fn disturb(
        &self,
        actor: &str,
        fault: NetworkFault,
        delay: Duration,
        direction: Option<Way>,
        member: Option<usize>,
    ) -> Result<()> {
        let proxies =
            self.proxies.get(actor).with_context(|| format!("{actor} has no proxy; declare it with proxy: true"))?;
        for (index, proxy) in proxies.iter().enumerate() {
            if member.is_some_and(|member| member != index) {
                continue;
            }
            match fault {
                NetworkFault::Hold => match direction {
                    None => proxy.hold_all(),
                    Some(Way::ToServer) => proxy.hold(Direction::ToServer),
                    Some(Way::ToClient) => proxy.hold(Direction::ToClient),
                },
                NetworkFault::Delay => {
                    // Half on either way: `delay` is what a round trip takes longer.
                    proxy.delay(Direction::ToServer, delay / 2);
                    proxy.delay(Direction::ToClient, delay / 2);
                }
                NetworkFault::Cut => proxy.cut(),
                NetworkFault::Reset => proxy.reset(),
                NetworkFault::Pass => proxy.pass(),
            }
        }
        Ok(())
    }

    /// Lets all traffic pass, and all members run and hear each other.
    pub async fn heal(&self) -> Result<()> {
        for proxy in self.proxies.values().flatten() {
            proxy.pass();
        }
        for member in 0..self.cluster.size() {
            // Where a member is not frozen or not cut off, these say so: there is nothing to heal then.
            let _ = self.cluster.thaw(member);
            let _ = self.cluster.reconnect(member);
            if self.cluster.pid(member)?.is_none() {
                self.cluster.restart(member).await?;
            }
        }
        self.cluster.leader().await?;
        Ok(())
    }

    /// The end of every member's log.
    pub fn logs(&self) -> String {
        let log = |member: usize| self.cluster.log(member).unwrap_or_else(|error| error.to_string());
        (0..self.cluster.size()).map(|member| format!("--- member {member}\n{}\n", log(member))).collect()
    }
}
