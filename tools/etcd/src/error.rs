//! What can go wrong around an etcd of a test.

use std::{fmt, io};

/// Why there is no etcd, or why it did not do what was asked.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// There is no such server on this machine; the text says how to get it. A test matrix may skip for this reason alone.
    Missing(String),
    /// A member did not start, or ended by itself; the text holds its log, shortened.
    Start(String),
    /// A call of `etcdctl` or of the Go compiler failed; the text holds what it printed.
    Command(String),
    /// The cluster did not reach the state that was waited for.
    Timeout(String),
    /// A wrong option or member number.
    Usage(String),
    /// The operating system refused something.
    Io {
        /// What was being done.
        doing: String,
        /// The operating system's answer.
        source: io::Error,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing(text) | Self::Start(text) | Self::Command(text) | Self::Timeout(text) | Self::Usage(text) => {
                f.write_str(text)
            }
            Self::Io { doing, source } => write!(f, "{doing}: {source}"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io { source, .. } => Some(source),
            _ => None,
        }
    }
}

/// Says what was being done when the operating system refused.
pub(crate) trait Doing<T> {
    fn doing(self, what: impl FnOnce() -> String) -> Result<T, Error>;
}

impl<T, E: Into<io::Error>> Doing<T> for Result<T, E> {
    fn doing(self, what: impl FnOnce() -> String) -> Result<T, Error> {
        self.map_err(|source| Error::Io { doing: what(), source: source.into() })
    }
}
