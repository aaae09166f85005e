//! A running cluster: where it is, and how to break it.

use std::{ffi::OsString, net::SocketAddr, path::Path, sync::Arc, thread, time::Duration};

use rustix::process::Pid;

use crate::{
    Builder, Certificates, Error, Release, Server, Storage, Tls, auth, background,
    partition::Network,
    ports::Reservation,
    probe::{self, Patience},
    process::Process,
    scratch::Scratch,
    source,
};

/// Three members need a second or two, on a machine that others keep busy many times that. A member that has ended is
/// noticed at once.
const START_LIMIT: Duration = Duration::from_secs(60);
/// How often other ports are tried when somebody listens on one that was reserved: see [`Reservation`].
const PORT_TRIES: usize = 5;

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
    data: Scratch,
}

/// The ports of one member.
#[derive(Debug)]
struct Ports {
    client: Reservation,
    peer: Reservation,
    metrics: Reservation,
}

impl Ports {
    fn reserve() -> Result<Self, Error> {
        Ok(Self { client: Reservation::new()?, peer: Reservation::new()?, metrics: Reservation::new()? })
    }

    fn numbers(&self) -> [u16; 3] {
        [&self.client, &self.peer, &self.metrics].map(|port| port.address().port())
    }
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
            let mut cluster = Self::launch(|| Self::prepare(&builder, &server)).await?;
            if let Some(password) = builder.root_password {
                auth::enable(&cluster, &password, &builder.users).await?;
                cluster.root_password = Some(password);
            }
            Ok(cluster)
        })
        .await
    }

    /// Starts what `prepare` gives, and another one where somebody listens on a port of it.
    async fn launch(prepare: impl Fn() -> Result<Self, Error>) -> Result<Self, Error> {
        let mut tries = 1;
        loop {
            let cluster = prepare()?;
            match cluster.run().await {
                Ok(()) => return Ok(cluster),
                Err(_) if cluster.members.iter().any(Process::met_a_taken_port) && tries < PORT_TRIES => tries += 1,
                Err(Error::Start(text)) => {
                    let texts: Vec<_> = [text].into_iter().chain(cluster.data.shortage()).collect();
                    return Err(Error::Start(texts.join("\n")));
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Everything but its processes.
    fn prepare(builder: &Builder, server: &Server) -> Result<Self, Error> {
        let data = Scratch::new(builder.storage, builder.members)?;
        let certificates = match builder.tls {
            Tls::None => None,
            Tls::Server | Tls::Mutual => Some(Certificates::generate(data.path())?),
        };
        let ports: Vec<_> = (0..builder.members).map(|_| Ports::reserve()).collect::<Result<_, _>>()?;
        let peers: Vec<_> = ports.iter().map(|ports| ports.peer.address()).collect();
        let network = if builder.members > 1 { Some(Network::start(&peers)?) } else { None };
        let advertised = network.as_ref().map_or(&peers[..], Network::addresses);
        let peers: Vec<_> =
            advertised.iter().enumerate().map(|(i, address)| format!("m{i}=http://{address}")).collect();
        // Of this cluster alone: members of others, should they come here, are not heard.
        let token = data.path().file_name().unwrap_or_default();
        let members: Arc<[Process]> = ports
            .iter()
            .enumerate()
            .map(|(i, ports)| {
                let home = data.path().join(format!("m{i}"));
                let mut arguments = arguments(builder, server, certificates.as_ref(), ports);
                arguments.extend(["--name".into(), format!("m{i}").into()]);
                arguments.extend(["--data-dir".into(), home.into_os_string()]);
                arguments.extend(["--initial-advertise-peer-urls".into(), format!("http://{}", advertised[i]).into()]);
                arguments.extend(["--initial-cluster".into(), peers.join(",").into()]);
                arguments.extend(["--initial-cluster-token".into(), token.into()]);
                arguments.extend(builder.arguments.iter().cloned());
                let log = data.path().join(format!("m{i}.log"));
                Process::new(format!("m{i}"), server.etcd(), arguments, log)
            })
            .collect();
        if let Some(network) = &network {
            network.connect(&members);
        }
        Ok(Self {
            server: server.clone(),
            tls: builder.tls,
            certificates,
            root_password: None,
            members,
            ports,
            network,
            data,
        })
    }

    /// Starts its processes, and waits until all of them serve.
    async fn run(&self) -> Result<(), Error> {
        for member in self.members.iter() {
            member.start()?;
        }
        for i in 0..self.members.len() {
            self.wait_until(i, Readiness::Serves).await?;
        }
        Ok(())
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
        self.ports[member].client.address()
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

    /// Where a member tells what it counts.
    pub(crate) fn metrics_address(&self, member: usize) -> Result<SocketAddr, Error> {
        self.member(member)?;
        Ok(self.ports[member].metrics.address())
    }

    /// The process id of a member that runs.
    ///
    /// # Errors
    /// [`Error::Usage`] when there is no such member; that holds for all methods below.
    pub fn pid(&self, member: usize) -> Result<Option<u32>, Error> {
        let member = self.member(member)?;
        Ok(member.pid().filter(|_| member.runs()).map(|pid| Pid::as_raw_nonzero(pid).get().unsigned_abs()))
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
    /// [`Error::Timeout`] with the logs when there is none for 60 s.
    pub async fn leader(&self) -> Result<usize, Error> {
        let mut patience = Patience::new(START_LIMIT);
        loop {
            let mut leaders = Vec::new();
            for i in (0..self.size()).filter(|i| self.is_well(*i)) {
                if probe::is_leader(self.ports[i].metrics.address()).await {
                    leaders.push(i);
                }
            }
            // Two may claim it for a moment, when one has just come back.
            if let [leader] = leaders[..] {
                return Ok(leader);
            }
            if !patience.another().await {
                let (limit, logs) = (START_LIMIT.as_secs(), self.logs());
                return Err(Error::Timeout(format!("the cluster has no leader for {limit} s\n{logs}")));
            }
        }
    }

    /// Whether the others can hear the member.
    fn is_well(&self, member: usize) -> bool {
        let cut_off = self.network.as_ref().is_some_and(|network| network.is_cut_off(member));
        self.members[member].is_awake() && !cut_off
    }

    /// Waits until a member is there; ends at once with the log of any member that has ended by itself.
    async fn wait_until(&self, member: usize, readiness: Readiness) -> Result<(), Error> {
        let address = self.ports[member].metrics.address();
        let mut patience = Patience::new(START_LIMIT);
        let mut stranger = "";
        loop {
            let answers = match readiness {
                Readiness::Answers => probe::answers(address).await,
                Readiness::Serves => probe::is_healthy(address).await,
            };
            // Whoever listens on its ports may answer like it: it has to be that child of ours.
            if answers && self.members[member].listens_on(&self.ports[member].numbers())? {
                return Ok(());
            }
            if answers {
                stranger = "; another process answers for it (a script that starts etcd has to exec it)";
            }
            if let Some(error) = self.members.iter().find_map(Process::end) {
                return Err(error);
            }
            if !patience.another().await {
                let (limit, logs) = (START_LIMIT.as_secs(), self.logs());
                let text = format!("member m{member} does not serve requests after {limit} s{stranger}\n{logs}");
                return Err(Error::Timeout(text));
            }
        }
    }

    /// The logs of all members, shortened, for a message.
    pub(crate) fn logs(&self) -> String {
        let log = |(i, member): (usize, &Process)| format!("--- the log of etcd m{i} ---\n{}\n", member.log());
        self.members.iter().enumerate().map(log).collect()
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
            eprint!("{}", self.logs());
        }
        for member in self.members.iter() {
            // Nothing else can be done about it here; the kernel ends it with this process.
            let _ = member.kill();
        }
    }
}

/// Everything but the names of this member and of its peers.
fn arguments(builder: &Builder, server: &Server, certificates: Option<&Certificates>, ports: &Ports) -> Vec<OsString> {
    let client = format!("{}://{}", scheme(builder.tls), ports.client.address());
    let mut arguments: Vec<OsString> = Vec::new();
    let mut option = |name: &str, value: &str| arguments.extend([name.into(), value.into()]);
    option("--listen-client-urls", &client);
    option("--advertise-client-urls", &client);
    option("--listen-peer-urls", &format!("http://{}", ports.peer.address()));
    option("--listen-metrics-urls", &format!("http://{}", ports.metrics.address()));
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

const fn scheme(tls: Tls) -> &'static str {
    match tls {
        Tls::None => "http",
        Tls::Server | Tls::Mutual => "https",
    }
}

#[cfg(test)]
mod tests {
    use std::{
        cell::Cell,
        io::{Read, Write},
        net::TcpListener,
    };

    use super::*;
    use crate::Version;

    /// Somebody else's etcd, or what answers like one; for as long as the test runs.
    fn stranger(address: SocketAddr) {
        let listener = TcpListener::bind(address).expect("nobody listens there");
        thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.expect("accepted");
                let _ = stream.read(&mut [0; 1024]);
                let _ = stream.write_all(b"HTTP/1.0 200 OK\r\n\r\n{\"health\":\"true\"}");
            }
        });
    }

    async fn prepared(members: usize) -> impl Fn() -> Result<Cluster, Error> {
        let server = source::ensure(Version::Any).await.expect("an etcd");
        move || Cluster::prepare(&Cluster::builder().members(members), &server)
    }

    /// Seen to fail without the look at who listens (the stranger was believed), and without another try.
    #[tokio::test]
    async fn a_start_believes_no_stranger_and_takes_other_ports() {
        let (prepare, started) = (prepared(1).await, Cell::new(0));
        let with_stranger = || {
            let cluster = prepare()?;
            if started.replace(started.get() + 1) == 0 {
                stranger(cluster.ports[0].metrics.address());
            }
            Ok(cluster)
        };
        let cluster = Cluster::launch(with_stranger).await.expect("starts with other ports");
        assert_eq!(started.get(), 2);
        assert!(cluster.members[0].listens_on(&cluster.ports[0].numbers()).expect("readable"));
    }

    /// Seen to fail without the look at who listens.
    #[tokio::test]
    async fn a_restart_believes_no_stranger_and_says_that_the_port_is_taken() {
        let cluster = Cluster::builder().start().await.expect("starts");
        cluster.kill(0).expect("killed");
        stranger(cluster.ports[0].metrics.address());
        let error = cluster.restart(0).await.expect_err("somebody else is there");
        assert!(matches!(&error, Error::Start(text) if text.contains("address already in use")), "{error}");
        assert_eq!(cluster.pid(0).expect("a member"), None);
    }

    /// Seen to fail with a port that is handed back once it is known.
    #[tokio::test]
    async fn the_ports_of_a_member_that_is_down_are_given_to_nobody() {
        let cluster = Cluster::builder().start().await.expect("starts");
        cluster.kill(0).expect("killed");
        let ports = &cluster.ports[0];
        for port in [&ports.client, &ports.peer, &ports.metrics] {
            let other = tokio::net::TcpSocket::new_v4().expect("a socket");
            other.bind(port.address()).expect_err("somebody else got it");
        }
        cluster.restart(0).await.expect("the member gets it");
    }

    /// Seen to fail, after a minute, where only the first member was looked at, which waits for the others.
    #[tokio::test]
    async fn members_that_die_at_the_start_end_it_at_once_with_their_log() {
        let prepare = prepared(3).await;
        let cluster = prepare().expect("ports");
        let _strangers = [1, 2].map(|i| TcpListener::bind(cluster.ports[i].peer.address()).expect("nobody is there"));
        let error = cluster.run().await.expect_err("two of three are not there");
        assert!(matches!(&error, Error::Start(text) if text.contains("address already in use")), "{error}");
    }
}
