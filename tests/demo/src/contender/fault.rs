//! Contenders that do what nobody should, on purpose: the demo must notice, and its tests see to it that it does.
//!
//! `LEASEHOLD_DEMO_FAULT=<fault>:<identity>` makes the contender of that identity a bad one.

use anyhow::{Context, bail};
use leasehold::Client;
use leasehold_demo::protocol::Setup;

const VARIABLE: &str = "LEASEHOLD_DEMO_FAULT";

/// What a contender does wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    None,
    /// `own-lock`: takes another lock than the others, and so writes without theirs.
    OwnLock,
    /// `stale-write`: writes, past the guard, what the guard has refused.
    StaleWrite,
    /// `leak`: leaves without closing its client.
    Leak,
}

impl Fault {
    pub(crate) fn from_environment(identity: &str) -> anyhow::Result<Self> {
        let Ok(value) = std::env::var(VARIABLE) else { return Ok(Self::None) };
        let (fault, whose) = value.split_once(':').with_context(|| format!("{VARIABLE} must be <fault>:<identity>"))?;
        if whose != identity {
            return Ok(Self::None);
        }
        Ok(match fault {
            "own-lock" => Self::OwnLock,
            "stale-write" => Self::StaleWrite,
            "leak" => Self::Leak,
            other => bail!("{VARIABLE} knows no {other:?}; known are own-lock, stale-write and leak"),
        })
    }

    pub(crate) fn lock_name(self, setup: &Setup) -> String {
        if self == Self::OwnLock { own_lock(setup) } else { setup.lock.clone() }
    }

    pub(crate) fn ignores_refusal(self) -> bool {
        self == Self::StaleWrite
    }

    pub(crate) fn leaves_without_a_word(self) -> bool {
        self == Self::Leak
    }
}

/// Writes without holding the lock that everybody else holds.
pub(crate) async fn write_anyway(client: &Client, setup: &Setup, value: i64) -> anyhow::Result<()> {
    let guard = client.lock(&own_lock(setup)).acquire().await?;
    guard.put(&setup.counter, value.to_string()).await?;
    Ok(guard.release().await?)
}

fn own_lock(setup: &Setup) -> String {
    format!("{}-of-{}", setup.lock, setup.identity)
}
