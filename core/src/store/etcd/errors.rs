//! What a failed exchange means: for the caller, for the endpoint, and for what to do next.
//!
//! Judged by the gRPC code, by etcd's message (many of its errors share a code) and by the chain of sources (a connection
//! that was never made, a certificate that was refused). In doubt a write is ambiguous.

use std::{error::Error as StdError, io};

use tokio_rustls::rustls::{AlertDescription as Alert, Error as TlsError};
use tonic::{Code, Status};

use super::convert::Nonsense;
use crate::{
    store::{ErrorKind, StoreError},
    text,
};

/// How far a request had come when it failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Nothing of its body was handed to a connection, and nothing ever will be.
    Unsent,
    /// It may have reached etcd, but it only reads.
    Read,
    /// It may have reached etcd, and it writes.
    Write,
}

/// What may be done about a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Tell the caller.
    Stop,
    /// The request had no effect: another endpoint may be asked.
    OtherEndpoint,
    /// The request had no effect because its token is no longer good.
    NewToken,
}

/// A failed exchange with one endpoint.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) error: StoreError,
    /// Whether the endpoint is better avoided for a while.
    pub(super) avoid: bool,
    pub(super) next: Next,
}

/// What to say of a server that does not speak TLS.
const NO_TLS: &str = "it does not answer in TLS; is it an http:// endpoint?";

/// What to say of a server that hangs up on plain text, as one does that speaks TLS only.
const ONLY_TLS: &str = "it hangs up; if it always does, is it an https:// endpoint?";

/// Prefix of every error that etcd itself reports.
const FROM_ETCD: &str = "etcdserver: ";

impl Failure {
    /// An exchange that got no answer in time.
    pub(super) fn timeout(endpoint: &str, phase: Phase) -> Self {
        let (message, next) = match phase {
            Phase::Unsent => (format!("{endpoint}: could not be reached in time"), Next::OtherEndpoint),
            Phase::Read | Phase::Write => (format!("{endpoint}: no answer in time"), Next::Stop),
        };
        let error = StoreError { kind: ErrorKind::Timeout, ambiguous: phase == Phase::Write, message };
        Self { error, avoid: true, next }
    }

    /// An exchange whose answer is none that an etcd gives, for the reason in `what`.
    pub(super) fn nonsense(endpoint: &str, what: Nonsense, phase: Phase) -> Self {
        let message = format!("{endpoint}: its answer {what}; is that an etcd?");
        let error = StoreError { kind: ErrorKind::Unavailable, ambiguous: phase == Phase::Write, message };
        let next = if phase == Phase::Write { Next::Stop } else { Next::OtherEndpoint };
        Self { error, avoid: true, next }
    }

    /// An exchange that ended with `status`; `last_words` is what TLS ended the connection with, if it did.
    pub(super) fn classify(endpoint: &str, status: &Status, phase: Phase, last_words: Option<&TlsError>) -> Self {
        if let Some(source) = status.source() {
            return Self::from_source(endpoint, source, phase, last_words);
        }
        let verdict = Verdict::of(status);
        // What only reads may be asked elsewhere whatever became of it here.
        let next = if verdict.next == Next::Stop && verdict.avoid && phase != Phase::Write {
            Next::OtherEndpoint
        } else {
            verdict.next
        };
        let text = status.message().strip_prefix(FROM_ETCD).unwrap_or(status.message());
        let text = text::excerpt(if text.is_empty() { status.code().description() } else { text });
        let mut message = format!("{endpoint}: {text}");
        if let Some(advice) = verdict.advice {
            message = format!("{message}; {advice}");
        }
        let ambiguous = phase == Phase::Write && !verdict.no_effect;
        Self { error: StoreError { kind: verdict.kind, ambiguous, message }, avoid: verdict.avoid, next }
    }

    /// A failure on this side of the wire: no connection, or one that broke.
    fn from_source(
        endpoint: &str,
        source: &(dyn StdError + 'static),
        phase: Phase,
        last_words: Option<&TlsError>,
    ) -> Self {
        let chain = Chain(Some(source));
        let tls = chain.clone().find_map(|error| error.downcast_ref::<TlsError>()).or(last_words);
        let (kind, cause) = match tls.map(|error| (error, certificate_problem(error))) {
            Some((error, Some(advice))) => {
                (ErrorKind::Unauthenticated, format!("{}; {advice}", text::excerpt(&error.to_string())))
            }
            Some((TlsError::InvalidMessage(_), None)) => (ErrorKind::Unavailable, NO_TLS.to_owned()),
            Some((error, None)) => (ErrorKind::Unavailable, format!("TLS: {}", text::excerpt(&error.to_string()))),
            None if endpoint.starts_with("http://") && chain.clone().any(is_hang_up) => {
                (ErrorKind::Unavailable, ONLY_TLS.to_owned())
            }
            None => match root_cause(chain) {
                // tokio-rustls's words for a server that hangs up on our first word; etcd without TLS does.
                cause if cause == "tls handshake eof" => (ErrorKind::Unavailable, NO_TLS.to_owned()),
                cause => (ErrorKind::Unavailable, text::excerpt(&cause).into_owned()),
            },
        };
        // A server that refuses our certificate says so after our side of the handshake, when requests are on the way already;
        // it never looks at them.
        let refused = phase != Phase::Write || kind == ErrorKind::Unauthenticated;
        let next = if refused { Next::OtherEndpoint } else { Next::Stop };
        Self {
            error: StoreError { kind, ambiguous: !refused, message: format!("{endpoint}: {cause}") },
            avoid: true,
            next,
        }
    }
}

/// What the code and the message of a status say.
struct Verdict {
    kind: ErrorKind,
    /// Whether the request surely has no effect.
    no_effect: bool,
    avoid: bool,
    next: Next,
    advice: Option<&'static str>,
}

impl Verdict {
    fn of(status: &Status) -> Self {
        if let Some(text) = status.message().strip_prefix(FROM_ETCD)
            && let Some(verdict) = Self::of_message(text)
        {
            return verdict;
        }
        // Raft says this one without the prefix, when it has no leader to propose to.
        if status.message().contains("raft proposal dropped") {
            return Self::ask_elsewhere();
        }
        // etcd checks a request before it proposes it; the same codes made up on this side of the wire say nothing.
        let from_etcd = status.message().starts_with(FROM_ETCD);
        let verdict = |kind, no_effect, avoid| Self { kind, no_effect, avoid, next: Next::Stop, advice: None };
        match status.code() {
            Code::Unavailable | Code::Cancelled | Code::Aborted => verdict(ErrorKind::Unavailable, false, true),
            Code::DeadlineExceeded => verdict(ErrorKind::Timeout, false, true),
            Code::Unauthenticated => verdict(ErrorKind::Unauthenticated, true, false),
            Code::PermissionDenied => verdict(ErrorKind::PermissionDenied, true, false),
            Code::ResourceExhausted => verdict(ErrorKind::ResourceExhausted, false, false),
            Code::Unimplemented => verdict(ErrorKind::Unsupported, true, false),
            Code::InvalidArgument
            | Code::OutOfRange
            | Code::FailedPrecondition
            | Code::NotFound
            | Code::AlreadyExists
                if from_etcd =>
            {
                verdict(ErrorKind::Invalid, true, false)
            }
            _ => verdict(ErrorKind::Internal, false, false),
        }
    }

    /// The errors of etcd whose code alone does not say enough.
    fn of_message(text: &str) -> Option<Self> {
        let stop = |kind, no_effect, advice| Self { kind, no_effect, avoid: false, next: Next::Stop, advice };
        Some(match text {
            "requested lease not found" => stop(ErrorKind::LeaseNotFound, true, None),
            "lease already exists" => stop(ErrorKind::LeaseExists, true, None),
            "permission denied" => stop(
                ErrorKind::PermissionDenied,
                true,
                Some("grant the user's role read and write on the key's prefix"),
            ),
            "authentication failed, invalid user ID or password" => stop(ErrorKind::Unauthenticated, true, None),
            "too many requests" => stop(ErrorKind::ResourceExhausted, true, None),
            // The write that crosses the limit is applied and answered with this very error.
            "mvcc: database space exceeded" => {
                stop(ErrorKind::ResourceExhausted, false, Some("compact and defragment etcd, then disarm its alarm"))
            }
            "invalid auth token" | "revision of auth store is old" => {
                Self { next: Next::NewToken, ..stop(ErrorKind::Unauthenticated, true, None) }
            }
            "user name is empty" => Self {
                next: Next::NewToken,
                ..stop(ErrorKind::Unauthenticated, true, Some("this etcd wants a user and a password"))
            },
            "no leader" | "not capable" | "rpc not supported for learner" => Self::ask_elsewhere(),
            _ => return None,
        })
    }

    /// The member cannot serve the request, and did not try to.
    fn ask_elsewhere() -> Self {
        Self { kind: ErrorKind::Unavailable, no_effect: true, avoid: true, next: Next::OtherEndpoint, advice: None }
    }
}

/// Why a server ended a watch, from the reason that it gives in words only.
pub(super) fn cancelled_watch(endpoint: &str, reason: &str, compact_revision: i64) -> Failure {
    if compact_revision != 0 {
        let message = format!("{endpoint}: the watch fell behind the compaction of revision {compact_revision}");
        let error = StoreError::refused(ErrorKind::Unavailable, message);
        return Failure { error, avoid: false, next: Next::Stop };
    }
    // The reason is the text of a status, sometimes with gRPC's own words in front, and means what it means there.
    let text = reason.rsplit("desc = ").next().unwrap_or(reason);
    let mut failure = Failure::classify(endpoint, &Status::new(Code::Unavailable, text), Phase::Read, None);
    failure.avoid = false;
    failure
}

/// What to do about a certificate that one side refused; nothing if the error is about something else.
fn certificate_problem(error: &TlsError) -> Option<&'static str> {
    match error {
        TlsError::InvalidCertificate(_) => {
            Some("check the CA certificate that was given, and that the server's certificate names this host")
        }
        TlsError::AlertReceived(
            Alert::NoCertificate
            | Alert::BadCertificate
            | Alert::UnsupportedCertificate
            | Alert::CertificateRevoked
            | Alert::CertificateExpired
            | Alert::CertificateUnknown
            | Alert::CertificateRequired
            | Alert::UnknownCA
            | Alert::AccessDenied
            | Alert::DecryptError,
        ) => Some(
            "the server refused our client certificate, or wants one: check the certificate and key that were given",
        ),
        _ => None,
    }
}

/// An error and everything below it, also what an [`io::Error`] wraps, which its own `source` skips.
#[derive(Clone)]
struct Chain<'a>(Option<&'a (dyn StdError + 'static)>);

impl<'a> Iterator for Chain<'a> {
    type Item = &'a (dyn StdError + 'static);

    fn next(&mut self) -> Option<Self::Item> {
        let error = self.0?;
        let wrapped = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        self.0 = wrapped.map(|wrapped| wrapped as &(dyn StdError + 'static)).or_else(|| error.source());
        Some(error)
    }
}

/// Whether this says that the other side ended the connection in the middle of HTTP/2; the system's own errors are others.
fn is_hang_up(error: &(dyn StdError + 'static)) -> bool {
    let error = error.downcast_ref::<io::Error>();
    error.is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe && error.raw_os_error().is_none())
}

/// The innermost error in words, without the operating system's numbers.
fn root_cause(chain: Chain<'_>) -> String {
    chain.last().map_or_else(
        || "the connection failed".to_owned(),
        |error| match error.downcast_ref::<io::Error>() {
            Some(error) if error.raw_os_error().is_some() => error.kind().to_string(),
            _ => error.to_string(),
        },
    )
}

#[cfg(test)]
mod tests {
    use tokio_rustls::rustls::CertificateError;

    use super::*;

    fn judge(code: Code, message: &str, phase: Phase) -> (ErrorKind, bool, Next) {
        let failure = Failure::classify("http://e:1", &Status::new(code, message), phase, None);
        assert!(failure.error.message.starts_with("http://e:1: "), "{}", failure.error.message);
        (failure.error.kind, failure.error.ambiguous, failure.next)
    }

    #[test]
    fn what_etcd_refuses_before_it_proposes_has_no_effect() {
        use ErrorKind::*;
        for (code, text, kind, next) in [
            (Code::Unavailable, "no leader", Unavailable, Next::OtherEndpoint),
            (Code::FailedPrecondition, "rpc not supported for learner", Unavailable, Next::OtherEndpoint),
            (Code::NotFound, "requested lease not found", LeaseNotFound, Next::Stop),
            (Code::FailedPrecondition, "lease already exists", LeaseExists, Next::Stop),
            (Code::Unauthenticated, "invalid auth token", Unauthenticated, Next::NewToken),
            (Code::InvalidArgument, "revision of auth store is old", Unauthenticated, Next::NewToken),
            (Code::InvalidArgument, "user name is empty", Unauthenticated, Next::NewToken),
            (Code::InvalidArgument, "authentication failed, invalid user ID or password", Unauthenticated, Next::Stop),
            (Code::PermissionDenied, "permission denied", PermissionDenied, Next::Stop),
            (Code::ResourceExhausted, "too many requests", ResourceExhausted, Next::Stop),
            (Code::InvalidArgument, "request is too large", Invalid, Next::Stop),
            (Code::InvalidArgument, "duplicate key given in txn request", Invalid, Next::Stop),
            (Code::OutOfRange, "too large lease TTL", Invalid, Next::Stop),
        ] {
            let message = format!("{FROM_ETCD}{text}");
            assert_eq!(judge(code, &message, Phase::Write), (kind, false, next), "{text}");
        }
        assert_eq!(
            judge(Code::Unknown, "raft proposal dropped", Phase::Write),
            (Unavailable, false, Next::OtherEndpoint)
        );
        assert_eq!(judge(Code::Unimplemented, "unknown service", Phase::Write), (Unsupported, false, Next::Stop));
    }

    #[test]
    fn what_may_have_been_proposed_is_ambiguous_for_writes_only() {
        use ErrorKind::*;
        for (code, message, kind) in [
            (Code::Unavailable, "etcdserver: request timed out", Unavailable),
            (Code::Unavailable, "etcdserver: request timed out, possibly due to previous leader failure", Unavailable),
            (Code::Unavailable, "etcdserver: request timed out, possibly due to connection lost", Unavailable),
            (Code::Unavailable, "etcdserver: leader changed", Unavailable),
            (Code::Unavailable, "etcdserver: server stopped", Unavailable),
            (Code::Cancelled, "etcdserver: request canceled", Unavailable),
            (Code::DeadlineExceeded, "context deadline exceeded", Timeout),
            (Code::Unavailable, "transport is closing", Unavailable),
            (Code::ResourceExhausted, "etcdserver: mvcc: database space exceeded", ResourceExhausted),
            (Code::OutOfRange, "Error, decoded message length too large", Internal),
            (Code::Unknown, "something new", Internal),
        ] {
            let (seen, ambiguous, next) = judge(code, message, Phase::Write);
            assert_eq!((seen, ambiguous, next), (kind, true, Next::Stop), "{message}");
            let (_, ambiguous, next) = judge(code, message, Phase::Read);
            assert!(!ambiguous, "{message}");
            assert_eq!(next == Next::OtherEndpoint, matches!(kind, Unavailable | Timeout), "{message}");
        }
    }

    #[test]
    fn silence_is_ambiguous_only_for_a_write_that_was_sent() {
        for (phase, ambiguous, next) in [
            (Phase::Unsent, false, Next::OtherEndpoint),
            (Phase::Read, false, Next::Stop),
            (Phase::Write, true, Next::Stop),
        ] {
            let failure = Failure::timeout("http://e:1", phase);
            assert_eq!((failure.error.kind, failure.error.ambiguous), (ErrorKind::Timeout, ambiguous));
            assert_eq!((failure.avoid, failure.next), (true, next));
        }
    }

    /// As tonic wraps what goes wrong with a connection.
    fn broken(cause: io::Error) -> Status {
        Status::from_error(Box::new(tonic::ConnectError(Box::new(cause))))
    }

    #[test]
    fn the_innermost_cause_is_named_in_words() {
        let refused = broken(io::Error::from_raw_os_error(111));
        let failure = Failure::classify("http://e:1", &refused, Phase::Unsent, None);
        assert_eq!(failure.error, StoreError::refused(ErrorKind::Unavailable, "http://e:1: connection refused"));
        assert_eq!(failure.next, Next::OtherEndpoint);
        let reset = Failure::classify("http://e:1", &broken(io::ErrorKind::ConnectionReset.into()), Phase::Write, None);
        assert!(reset.error.ambiguous && reset.avoid);
        assert_eq!(reset.next, Next::Stop);
    }

    #[test]
    fn a_refused_certificate_is_found_below_the_io_error_that_wraps_it() {
        let wrapped = |error: TlsError| broken(io::Error::new(io::ErrorKind::InvalidData, error));
        let unknown_ca = wrapped(CertificateError::UnknownIssuer.into());
        let failure = Failure::classify("https://e:1", &unknown_ca, Phase::Unsent, None);
        assert_eq!((failure.error.kind, failure.error.ambiguous), (ErrorKind::Unauthenticated, false));
        assert!(failure.error.message.contains("UnknownIssuer"), "{}", failure.error.message);
        assert!(failure.error.message.contains("CA certificate"), "{}", failure.error.message);
        let no_client_certificate = wrapped(TlsError::AlertReceived(Alert::CertificateRequired));
        let failure = Failure::classify("https://e:1", &no_client_certificate, Phase::Write, None);
        assert_eq!((failure.error.kind, failure.error.ambiguous), (ErrorKind::Unauthenticated, false));
        assert!(failure.error.message.contains("client certificate"), "{}", failure.error.message);
        let other = wrapped(TlsError::AlertReceived(Alert::InternalError));
        let failure = Failure::classify("https://e:1", &other, Phase::Write, None);
        assert_eq!((failure.error.kind, failure.error.ambiguous), (ErrorKind::Unavailable, true));
    }

    #[test]
    fn the_reason_of_a_cancelled_watch_is_judged_like_a_status() {
        let judge = |reason: &str, compacted| {
            let failure = cancelled_watch("http://e:1", reason, compacted);
            (failure.error.kind, failure.next)
        };
        assert_eq!(judge("etcdserver: invalid auth token", 0), (ErrorKind::Unauthenticated, Next::NewToken));
        assert_eq!(judge("etcdserver: permission denied", 0), (ErrorKind::PermissionDenied, Next::Stop));
        let wordy = "rpc error: code = PermissionDenied desc = etcdserver: permission denied";
        assert_eq!(judge(wordy, 0), (ErrorKind::PermissionDenied, Next::Stop));
        assert_eq!(judge("etcdserver: mvcc: required revision has been compacted", 12).0, ErrorKind::Unavailable);
    }
}
