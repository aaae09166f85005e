//! The members of a cluster together: unary calls that go to the best of them, and the login.

use std::{
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use etcd_client::proto::{PbAuthenticateRequest, PbAuthenticateResponse, PbStatusRequest, PbStatusResponse};
use prost::Message;
use tokio::time::{Instant, timeout_at};

use super::{
    auth::{Auth, Pass},
    config::EtcdConfig,
    convert::Nonsense,
    endpoints::{Endpoints, Set},
    errors::{Failure, Next, Phase},
    lock,
    member::{Call, Member, Token},
    version,
};
use crate::{
    clock,
    error::Result,
    store::{ErrorKind, StoreError},
};

/// How long fetching a token from one endpoint may take: hashing the password alone costs the server a tenth of a second.
const LOGIN_TIMEOUT: Duration = Duration::from_secs(3);

/// How long the question for a server's version, which nobody waits for, may take.
const STATUS_TIMEOUT: Duration = Duration::from_secs(5);

/// The members of a cluster.
pub(super) struct Cluster {
    members: Vec<Member>,
    endpoints: Mutex<Endpoints>,
    auth: Auth,
    warned_of_version: AtomicBool,
    warned_of_login: AtomicBool,
}

impl Cluster {
    pub(super) fn new(config: EtcdConfig) -> Result<Self> {
        let members: Vec<_> = config.build()?.into_iter().map(Member::new).collect();
        Ok(Self {
            endpoints: Mutex::new(Endpoints::new(members.len())),
            members,
            auth: Auth::new(config.login),
            warned_of_version: AtomicBool::new(false),
            warned_of_login: AtomicBool::new(false),
        })
    }

    /// The URLs of the endpoints.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.members.iter().map(|member| member.name.as_str())
    }

    /// One endpoint.
    pub(super) fn member(&self, index: usize) -> &Member {
        &self.members[index]
    }

    /// What is known about the endpoints; hold it for a moment only.
    pub(super) fn endpoints(&self) -> MutexGuard<'_, Endpoints> {
        lock(&self.endpoints)
    }

    /// The endpoint that is thought best now.
    pub(super) fn best(&self) -> usize {
        self.endpoints().best(clock::now(), Set::default()).unwrap_or_default()
    }

    /// The endpoint failed: others first, for a while.
    pub(super) fn failed(&self, index: usize) {
        self.endpoints().failed(index, clock::now());
    }

    /// The endpoint answered.
    pub(super) fn answered(self: &Arc<Self>, index: usize) {
        self.endpoints().answered(index);
        if self.members[index].greet() {
            let cluster = Arc::clone(self);
            tokio::spawn(async move { cluster.ask_for_version(index).await });
        }
    }

    /// Warns, once per store, of servers that are known to be unsafe. Nobody waits for this, and its failure means nothing.
    async fn ask_for_version(self: Arc<Self>, index: usize) {
        let member = self.member(index);
        let endpoint = member.name.as_str();
        let token = self.auth.pass().and_then(|pass| pass.token);
        let deadline = Instant::now() + STATUS_TIMEOUT;
        let call = Call { path: "/etcdserverpb.Maintenance/Status", effect: Phase::Read, deadline };
        let answer = member.exchange(call, PbStatusRequest::default(), token.as_ref(), STATUS_TIMEOUT).await;
        let version = match answer {
            Ok(PbStatusResponse { version, .. }) => version,
            Err(failure) => return tracing::debug!(endpoint, error = %failure.error, "could not ask for the version"),
        };
        if version::may_renew_a_revoked_lease(&version) && !self.warned_of_version.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                endpoint,
                version,
                "this etcd may acknowledge the renewal of a revoked lease: a lock may be taken for held when it is lost; \
                 run at least 3.5.23 or 3.6.5, better 3.5.28 or 3.6.9"
            );
        }
    }

    /// Goes through the endpoints, the best first, as long as the request surely had no effect.
    async fn round<Q, R, T>(
        self: &Arc<Self>,
        call: Call,
        message: impl Fn() -> Q,
        understand: impl Fn(R) -> std::result::Result<T, Nonsense>,
        token: Option<&Token>,
    ) -> std::result::Result<T, Failure>
    where
        Q: Message + Unpin + 'static,
        R: Message + Default + 'static,
    {
        let mut tried = Set::default();
        let mut failures: Vec<Failure> = Vec::new();
        loop {
            let next = self.endpoints().best(clock::now(), tried);
            let remaining = call.deadline.saturating_duration_since(Instant::now());
            let index = match next {
                Some(index) if !remaining.is_zero() => index,
                _ => return Err(combine(failures)),
            };
            tried.insert(index);
            let share = remaining / (self.members.len() + 1 - tried.len()) as u32;
            let member = &self.members[index];
            let answer = member.exchange(call, message(), token, share).await;
            match answer.and_then(|reply| understand(reply).map_err(|what| member.nonsense(what, call.effect))) {
                Ok(reply) => {
                    self.answered(index);
                    return Ok(reply);
                }
                Err(failure) => {
                    if failure.avoid {
                        self.failed(index);
                    }
                    if failure.next != Next::OtherEndpoint {
                        return Err(failure);
                    }
                    failures.push(failure);
                }
            }
        }
    }

    /// A unary call: sent once, unless it surely had no effect where it was sent. `message` makes the request, anew for every
    /// endpoint that is asked; `understand` makes sense of the answer.
    ///
    /// # Errors
    /// The failure of the endpoint that may have applied it, or the failures of all.
    pub(super) async fn call<Q, R, T>(
        self: &Arc<Self>,
        call: Call,
        message: impl Fn() -> Q,
        understand: impl Fn(R) -> std::result::Result<T, Nonsense>,
    ) -> std::result::Result<T, StoreError>
    where
        Q: Message + Unpin + 'static,
        R: Message + Default + 'static,
    {
        let mut renewed = false;
        loop {
            let pass = self.pass(call.deadline).await?;
            match self.round(call, &message, &understand, pass.token.as_ref()).await {
                Ok(reply) => return Ok(reply),
                Err(failure) if failure.next == Next::NewToken && !renewed && self.auth.refuse(&pass) => renewed = true,
                Err(failure) => return Err(failure.error),
            }
        }
    }

    /// What to show to etcd now, fetched first if need be.
    ///
    /// # Errors
    /// The login was refused, or no endpoint answered before `deadline`. Nothing was sent but the login.
    pub(super) async fn pass(self: &Arc<Self>, deadline: Instant) -> std::result::Result<Pass, StoreError> {
        if let Some(pass) = self.auth.pass() {
            return Ok(pass);
        }
        let seen = self.auth.exchanges();
        let cluster = Arc::clone(self);
        // On a task of its own: a caller that runs out of time must not waste the work that the others wait for.
        let exchange = tokio::spawn(async move { cluster.auth.renew(seen, clock::now, cluster.log_in()).await });
        match timeout_at(deadline, exchange).await {
            Ok(Ok(result)) => result,
            Ok(Err(error)) => Err(StoreError::refused(ErrorKind::Internal, format!("the login ended early: {error}"))),
            Err(_) => Err(StoreError::refused(ErrorKind::Timeout, "the login at etcd took too long")),
        }
    }

    /// Etcd did not accept `pass`. Tells whether another can be had.
    pub(super) fn refuse(&self, pass: &Pass) -> bool {
        self.auth.refuse(pass)
    }

    /// Exchanges user and password for a token; for none where etcd does not ask who we are.
    async fn log_in(self: &Arc<Self>) -> std::result::Result<Option<Token>, StoreError> {
        const PATH: &str = "/etcdserverpb.Auth/Authenticate";
        let Some((user, password)) = self.auth.login() else { return Ok(None) };
        let message = || PbAuthenticateRequest { name: user.clone(), password: password.clone() };
        let mut untried = self.members.len();
        loop {
            untried = untried.saturating_sub(1);
            let call = Call { path: PATH, effect: Phase::Read, deadline: Instant::now() + LOGIN_TIMEOUT };
            let understand = |PbAuthenticateResponse { token, .. }| {
                let mut token = Token::try_from(token).map_err(|_| "has a token that cannot be sent in a header")?;
                // Whatever prints or compresses headers leaves it out.
                token.set_sensitive(true);
                Ok(token)
            };
            let failure = match self.round(call, message, understand, None).await {
                Ok(token) => return Ok(Some(token)),
                Err(failure) => failure.error,
            };
            if failure.message.ends_with("authentication is not enabled") {
                if !self.warned_of_login.swap(true, Ordering::Relaxed) {
                    tracing::warn!(
                        "a user was given, but this etcd has authentication disabled: anybody may do anything there"
                    );
                }
                return Ok(None);
            }
            // A login may be repeated; the endpoint that kept silent is the last choice now.
            if failure.kind != ErrorKind::Timeout || untried == 0 {
                return Err(failure);
            }
        }
    }
}

/// The failures of all endpoints as one: the first that says more than "not reachable" gives the kind.
fn combine(failures: Vec<Failure>) -> Failure {
    let message = failures.iter().map(|failure| failure.error.message.as_str()).collect::<Vec<_>>().join("; ");
    let telling = |failure: &&Failure| !matches!(failure.error.kind, ErrorKind::Unavailable | ErrorKind::Timeout);
    let chosen = failures.iter().find(telling).or(failures.first());
    let kind = chosen.map_or(ErrorKind::Timeout, |failure| failure.error.kind);
    let message =
        if failures.len() > 1 { format!("no endpoint of etcd could serve the request: {message}") } else { message };
    Failure { error: StoreError::refused(kind, message), avoid: false, next: Next::Stop }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(kind: ErrorKind, message: &str) -> Failure {
        Failure { error: StoreError::refused(kind, message), avoid: true, next: Next::OtherEndpoint }
    }

    #[test]
    fn failures_of_several_endpoints_are_all_named_and_the_telling_one_gives_the_kind() {
        let both = combine(vec![
            failure(ErrorKind::Unavailable, "http://a:1: connection refused"),
            failure(ErrorKind::Unauthenticated, "http://b:1: bad certificate"),
        ]);
        assert_eq!((both.error.kind, both.error.ambiguous), (ErrorKind::Unauthenticated, false));
        assert!(both.error.message.contains("http://a:1: connection refused; http://b:1: bad certificate"));
        let one = combine(vec![failure(ErrorKind::Unavailable, "http://a:1: connection refused")]);
        assert_eq!(one.error.message, "http://a:1: connection refused");
    }
}
