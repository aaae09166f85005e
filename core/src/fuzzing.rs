//! The ways by which bytes of others come in, by name and without a network: for `tests/fuzz`.

use crate::{
    contender::{self, Contender},
    queue::wire::Prefix,
    store::{KeyValue, Reply, Request, WatchEvent, etcd},
};

/// What a server says with `message` to `request`; what is wrong with it otherwise.
///
/// # Errors
/// It is no message of that kind, or none that an etcd sends.
pub fn reply(request: &Request, message: &[u8]) -> Result<Reply, String> {
    etcd::understood(request, message)
}

/// What a watch tells with `message`.
///
/// # Errors
/// As for [`reply`].
pub fn event(message: &[u8]) -> Result<WatchEvent, String> {
    etcd::understood_event(message)
}

/// Who stands in a queue with these keys and values.
pub fn contenders(prefix: &Prefix, kvs: Vec<KeyValue>) -> Vec<Contender> {
    contender::in_order(prefix, kvs)
}
