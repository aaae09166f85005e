//! A running cluster: where it is, and how to break it.

use std::{
    ffi::OsString,
    net::{Ipv4Addr, SocketAddr},
    path::Path,
    sync::Arc,
    thread,
    time::Duration,
};

use rustix::process::Pid;
use tempfile::TempDir;

use crate::{
    Builder, Certificates, Error, Release, Server, Storage, Tls, auth, background,
    partition::Network,
    ports,
    probe::{self, Patience},
    process::Process,
    scratch, source,
};

/// A busy machine needs a second or two for three members.
const START_LIMIT: Duration = Duration::from_secs(30);
/// How often other ports are tried when somebody took one before etcd did.
const PORT_TRIES: usize = 5;
const PORT_TAKEN: &str = "address already in use";

/// Some members of etcd on loopback. Dropping it kills them and removes their data.
///
/// A single member elects itself within 0.1 s instead of 1 s, so it grants leases from 1 s up (etcd's default: 2 s).
/// `.arg("--heartbeat-interval=100").arg("--election-timeout=1000")` is etcd's default, and that of three members.
/// Traffic between members passes through proxies in this process; traffic of clients does not (see
/// [`Proxy`](crate::Proxy)).
/// Its asynchronous methods need a tokio runtime with I/O and time.
#[derive(Debug)]
pub struct Cluster {
    server: Server,
    tls: Tls,
    certificates: Option<Certificates>,
    root_password: Option<String>,
    members: Arc<[Process]>,
    ports: Vec<Ports>,
    network: Option<Network>,
    /// Last: it goes when nobody writes to it any more.
    data: TempDir,
}

/// The ports of one member.
#[derive(Clone, Copy, Debug)]
struct Ports {
    client: u16,
    peer: u16,
    metrics: u16,
}

impl Cluster {
    /// A cluster to be described and started.
    ///
    /// By default: one member, any version, data in memory, plain TCP, no users.
    pub fn builder() -> Builder {
        Builder::new()
    }

    pub(crate) async fn start(builder: Builder) -> Result<Self, Error> {
        if builder.members == 0 || builder.members > 9 {
            return Err(Error::Usage(format!("a cluster has 1 to 9 members, not {}", builder.members)));
        }
        background::run(async move {
            let server = source::ensure(builder.version).await?;
            let mut tries = 1;
            let mut cluster = loop {
                match Self::launch(&builder, &server).await {
                    Err(Error::Start(text)) if text.contains(PORT_TAKEN) && tries < PORT_TRIES => tries += 1,
                    result => break result?,
                }
            };
            if let Some(password) = builder.root_password {
                auth::enable(&cluster, &password, &builder.users).await?;
                cluster.root_password = Some(password);
            }
            Ok(cluster)
        })
        .await
    }

    async fn launch(builder: &Builder, server: &Server) -> Result<Self, Error> {
        let data = scratch::directory(builder.storage)?;
        let certificates = match builder.tls {
            Tls::None => None,
            Tls::Server | Tls::Mutual => Some(Certificates::generate(data.path())?),
        };
        let free = ports::free(3 * builder.members)?;
        let ports: Vec<_> =
            free.chunks_exact(3).map(|free| Ports { client: free[0], peer: free[1], metrics: free[2] }).collect();
        let peers: Vec<_> = ports.iter().map(|ports| loopback(ports.peer)).collect();
        let network = if builder.members > 1 { Some(Network::start(&peers)?) } else { None };
        let advertised = network.as_ref().map_or(&peers[..], Network::addresses);
        let peers: Vec<_> =
            advertised.iter().enumerate().map(|(i, address)| format!("m{i}=http://{address}")).collect();
        let members: Arc<[Process]> = ports
            .iter()
            .enumerate()
            .map(|(i, ports)| {
                let home = data.path().join(format!("m{i}"));
                let mut arguments = arguments(builder, server, certificates.as_ref(), *ports);
                arguments.extend(["--name".into(), format!("m{i}").into()]);
                arguments.extend(["--data-dir".into(), home.into_os_string()]);
                arguments.extend(["--initial-advertise-peer-urls".into(), format!("http://{}", advertised[i]).into()]);
                arguments.extend(["--initial-cluster".into(), peers.join(",").into()]);
                arguments.extend(builder.arguments.iter().cloned());
                let log = data.path().join(format!("m{i}.log"));
                Process::new(format!("m{i}"), server.etcd(), arguments, log)
            })
            .collect();
        if let Some(network) = &network {
            network.connect(&members);
        }
        let cluster = Self {
            server: server.clone(),
            tls: builder.tls,
            certificates,
            root_password: None,
            members,
            ports,
            network,
            data,
        };
        for member in cluster.members.iter() {
            member.start()?;
        }
        for i in 0..cluster.members.len() {
            cluster.wait_until(i, Readiness::Serves).await?;
        }
        Ok(cluster)
    }

    /// The client URLs of all members, in their order.
    pub fn endpoints(&self) -> Vec<String> {
        (0..self.members.len()).map(|i| self.endpoint(i)).collect()
    }

    /// The client URL of a member, `http://127.0.0.1:<port>` or `https://…`.
    ///
    /// # Panics
    /// When there is no such member.
    pub fn endpoint(&self, member: usize) -> String {
        format!("{}://{}", scheme(self.tls), self.address(member))
    }

    /// The client address of a member, to put a [`Proxy`](crate::Proxy) before it.
    ///
    /// # Panics
    /// When there is no such member.
    pub fn address(&self, member: usize) -> SocketAddr {
        loopback(self.ports[member].client)
    }

    /// The number of members, also of those that do not run.
    pub fn size(&self) -> usize {
        self.members.len()
    }

    /// The server that it runs.
    pub fn server(&self) -> &Server {
        &self.server
    }

    /// The exact release that it runs.
    pub fn release(&self) -> Release {
        self.server.release()
    }

    /// How clients talk to it.
    pub fn tls(&self) -> Tls {
        self.tls
    }

    /// The certificates, where there is TLS. Only [`Tls::Mutual`] asks for the client's.
    pub fn certificates(&self) -> Option<&Certificates> {
        self.certificates.as_ref()
    }

    /// The members, running or not.
    pub(crate) fn members(&self) -> &[Process] {
        &self.members
    }

    /// Where the members' data are.
    pub(crate) fn data(&self) -> &Path {
        self.data.path()
    }

    /// `root:password`, where users are on.
    pub(crate) fn root(&self) -> Option<String> {
        self.root_password.as_ref().map(|password| format!("root:{password}"))
    }

    /// The process id of a member that runs.
    ///
    /// # Errors
    /// [`Error::Usage`] when there is no such member; that holds for all methods below.
    pub fn pid(&self, member: usize) -> Result<Option<u32>, Error> {
        Ok(self.member(member)?.pid().map(|pid| Pid::as_raw_nonzero(pid).get().unsigned_abs()))
    }

    /// The first and the last lines of a member's log.
    ///
    /// # Errors
    /// [`Error::Usage`] when there is no such member.
    pub fn log(&self, member: usize) -> Result<String, Error> {
        Ok(self.member(member)?.log())
    }

    /// Kills a member with SIGKILL; returns when it is gone. Its data stay for [`Cluster::restart`].
    ///
    /// # Errors
    /// [`Error::Usage`] when there is no such member.
    pub fn kill(&self, member: usize) -> Result<(), Error> {
        self.member(member)?.kill()
    }

    /// Ends a member with SIGTERM, in order; returns when it is gone.
    ///
    /// # Errors
    /// [`Error::Usage`] when it does not run, [`Error::Timeout`] when it does not end.
    pub async fn stop(&self, member: usize) -> Result<(), Error> {
        self.member(member)?.stop().await
    }

    /// Freezes a member with SIGSTOP; returns when all of its threads stand still. The kernel still accepts connections
    /// for it, and nobody answers them.
    ///
    /// # Errors
    /// [`Error::Usage`] when it does not run.
    pub fn freeze(&self, member: usize) -> Result<(), Error> {
        self.member(member)?.freeze()
    }

    /// Wakes a frozen member with SIGCONT.
    ///
    /// # Errors
    /// [`Error::Usage`] when it does not run.
    pub fn thaw(&self, member: usize) -> Result<(), Error> {
        self.member(member)?.thaw()
    }

    /// Starts a member anew that was killed or stopped, with the same ports and data. Returns when it serves requests
    /// or, while it is cut off or most members are away, when it is up.
    ///
    /// # Errors
    /// [`Error::Usage`] when it runs, [`Error::Start`] with its log when it ends, [`Error::Timeout`] when it
    /// is not there in time.
    pub async fn restart(&self, member: usize) -> Result<(), Error> {
        self.member(member)?;
        let members = Arc::clone(&self.members);
        background::run(async move { members[member].start() }).await?;
        let well = (0..self.size()).filter(|i| self.is_well(*i)).count();
        let readiness =
            if self.is_well(member) && 2 * well > self.size() { Readiness::Serves } else { Readiness::Answers };
        self.wait_until(member, readiness).await
    }

    /// Cuts a member off from the others: nothing passes between it and them in either direction, while connections stay
    /// open and clients still reach it. A leader that is cut off goes on believing in itself for a moment.
    ///
    /// # Errors
    /// [`Error::Usage`] when there is no such member, or no other.
    pub fn cut_off(&self, member: usize) -> Result<(), Error> {
        self.network(member)?.cut_off(member);
        Ok(())
    }

    /// Ends [`Cluster::cut_off`]. What the members sent each other meanwhile arrives late, as with TCP after an outage.
    ///
    /// # Errors
    /// [`Error::Usage`] when there is no such member, or no other.
    pub fn reconnect(&self, member: usize) -> Result<(), Error> {
        self.network(member)?.reconnect(member);
        Ok(())
    }

    /// The leader among the members that run, are awake and are not cut off; waits for an election.
    ///
    /// # Errors
    /// [`Error::Timeout`] when there is none for 30 s.
    pub async fn leader(&self) -> Result<usize, Error> {
        let mut patience = Patience::new(START_LIMIT);
        loop {
            let mut leaders = Vec::new();
            for i in (0..self.size()).filter(|i| self.is_well(*i)) {
                if probe::is_leader(self.ports[i].metrics).await {
                    leaders.push(i);
                }
            }
            // Two may claim it for a moment, when one has just come back.
            if let [leader] = leaders[..] {
                return Ok(leader);
            }
            if !patience.another().await {
                return Err(Error::Timeout(format!("the cluster has no leader for {} s", START_LIMIT.as_secs())));
            }
        }
    }

    /// Whether the others can hear the member.
    fn is_well(&self, member: usize) -> bool {
        let cut_off = self.network.as_ref().is_some_and(|network| network.is_cut_off(member));
        self.members[member].is_awake() && !cut_off
    }

    async fn wait_until(&self, member: usize, readiness: Readiness) -> Result<(), Error> {
        let port = self.ports[member].metrics;
        let mut patience = Patience::new(START_LIMIT);
        loop {
            let ready = match readiness {
                Readiness::Answers => probe::answers(port).await,
                Readiness::Serves => probe::is_healthy(port).await,
            };
            if ready {
                return Ok(());
            }
            if let Some(error) = self.members[member].end() {
                return Err(error);
            }
            if !patience.another().await {
                let (limit, log) = (START_LIMIT.as_secs(), self.members[member].log());
                let text = format!("member m{member} does not serve requests after {limit} s; its log:\n{log}");
                return Err(Error::Timeout(text));
            }
        }
    }

    fn member(&self, member: usize) -> Result<&Process, Error> {
        let size = self.size();
        self.members.get(member).ok_or_else(|| Error::Usage(format!("no member {member}: there are {size}, from 0")))
    }

    fn network(&self, member: usize) -> Result<&Network, Error> {
        self.member(member)?;
        self.network.as_ref().ok_or_else(|| Error::Usage("a single member has nobody to be cut off from".into()))
    }
}

/// How far a start must have come.
#[derive(Clone, Copy, Debug)]
enum Readiness {
    Answers,
    Serves,
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if thread::panicking() {
            for (i, member) in self.members.iter().enumerate() {
                eprintln!("--- the log of etcd m{i} ---\n{}", member.log());
            }
        }
        for member in self.members.iter() {
            // Nothing else can be done about it here; the kernel ends it with this process.
            let _ = member.kill();
        }
    }
}

/// Everything but the names of this member and of its peers.
fn arguments(builder: &Builder, server: &Server, certificates: Option<&Certificates>, ports: Ports) -> Vec<OsString> {
    let client = format!("{}://{}", scheme(builder.tls), loopback(ports.client));
    let mut arguments: Vec<OsString> = Vec::new();
    let mut option = |name: &str, value: &str| arguments.extend([name.into(), value.into()]);
    option("--listen-client-urls", &client);
    option("--advertise-client-urls", &client);
    option("--listen-peer-urls", &format!("http://{}", loopback(ports.peer)));
    option("--listen-metrics-urls", &format!("http://{}", loopback(ports.metrics)));
    option("--logger", "zap");
    option("--log-outputs", "stderr");
    option("--log-level", "warn");
    option("--bcrypt-cost", "4");
    if builder.members == 1 {
        option("--heartbeat-interval", "10");
        option("--election-timeout", "100");
    }
    if builder.storage == Storage::Memory && server.release() >= Release::new(3, 5, 0) {
        arguments.push("--unsafe-no-fsync".into());
    }
    if let Some(files) = certificates {
        let mut file = |name: &str, path: &Path| arguments.extend([name.into(), path.into()]);
        file("--cert-file", &files.server_cert_file);
        file("--key-file", &files.server_key_file);
        if builder.tls == Tls::Mutual {
            file("--trusted-ca-file", &files.ca_file);
            arguments.push("--client-cert-auth".into());
        }
    }
    arguments
}

fn loopback(port: u16) -> SocketAddr {
    (Ipv4Addr::LOCALHOST, port).into()
}

const fn scheme(tls: Tls) -> &'static str {
    match tls {
        Tls::None => "http",
        Tls::Server | Tls::Mutual => "https",
    }
}
