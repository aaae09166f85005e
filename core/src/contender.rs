//! Who stands in a queue, and what it says about itself: the value of a contender's key.

use std::time::SystemTime;

use serde_json::{Value, json};

use crate::{
    queue::{
        admission::{Claim, Line},
        wire::{self, Prefix},
    },
    store::{Key, KeyValue},
};

/// Somebody in the queue of a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Contender {
    /// Its key in etcd, namespace included.
    pub key: String,
    /// Its fencing token: the create revision of the key.
    pub token: i64,
    /// Its lease, in lower-case hexadecimal. `None` is a key that never ends by itself: somebody wrote it by hand.
    pub lease: Option<String>,
    /// Who it says it is.
    pub identity: Option<String>,
    /// The host it runs on.
    pub host: Option<String>,
    /// Its process there.
    pub pid: Option<u32>,
    /// Since when it waits or holds, in UTC (RFC 3339).
    pub since: Option<String>,
    /// The version of leasehold that it uses.
    pub version: Option<String>,
    /// What it claims of the name. Whatever leasehold does not know is exclusive.
    pub claim: Claim,
    /// Whether it holds; otherwise it waits for somebody ahead of it.
    pub is_holder: bool,
    /// Whether it is no client of leasehold but, say, `etcdctl lock`. A candidate of ours in an election is not foreign, although it says
    /// nothing about itself: the value of its key is what it proclaims.
    pub foreign: bool,
    pub(crate) raw_key: Key,
}

/// What the contenders of this process say about themselves, as JSON. Read by people.
#[derive(Debug)]
pub(crate) struct Metadata {
    /// All of it but since when, and without its last brace: this is the same for all.
    beginning: String,
}

impl Metadata {
    pub(crate) fn new(identity: &str, host: &str) -> Self {
        let fixed = json!({
            "identity": identity,
            "host": host,
            "pid": std::process::id(),
            "version": env!("CARGO_PKG_VERSION"),
        });
        let mut beginning = fixed.to_string();
        beginning.pop();
        Self { beginning }
    }

    /// What a contender says that begins now.
    pub(crate) fn now(&self) -> String {
        let since = humantime::format_rfc3339_millis(SystemTime::now());
        format!(r#"{},"since":"{since}"}}"#, self.beginning)
    }
}

/// The contenders among `kvs`, the holder or holders first.
pub(crate) fn in_order(prefix: &Prefix, kvs: Vec<KeyValue>) -> Vec<Contender> {
    let mut contenders: Vec<_> =
        kvs.into_iter().filter(|kv| prefix.is_contender(&kv.key)).map(Contender::from).collect();
    contenders.sort_by(|a, b| (a.token, &a.raw_key).cmp(&(b.token, &b.raw_key)));
    let line: Line<usize> = contenders.iter().map(|contender| contender.claim).enumerate().collect();
    for (at, contender) in contenders.iter_mut().enumerate() {
        contender.is_holder = line.admits(&at, contender.claim);
    }
    contenders
}

impl From<KeyValue> for Contender {
    fn from(kv: KeyValue) -> Self {
        let value: Value = serde_json::from_slice(&kv.value).unwrap_or_default();
        let text = |field: &str| value.get(field).and_then(Value::as_str).map(str::to_owned);
        // What a candidate of an election says is its own affair: its key tells that it is ours.
        let is_ours = kv.lease.is_some_and(|lease| wire::is_chosen_by(&kv.key, lease));
        let (identity, version) = (text("identity"), text("version"));
        Self {
            key: kv.key.to_text(),
            token: kv.create_revision,
            lease: kv.lease.map(|lease| lease.to_string()),
            foreign: (identity.is_none() || version.is_none()) && !is_ours,
            identity,
            host: text("host"),
            pid: value.get("pid").and_then(Value::as_u64).and_then(|pid| u32::try_from(pid).ok()),
            since: text("since"),
            version,
            claim: wire::claim_of(&kv.key),
            is_holder: false,
            raw_key: kv.key,
        }
    }
}
