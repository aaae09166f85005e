//! Which clients of this process speak to etcd over the same connections: those that were told the same.
//!
//! A connection carries any number of requests and streams, so a program that has a client for each of its parts, or makes one for
//! each job, needs no more of them than a program with a single one; nor does it log in more often, and what one client finds out
//! about an endpoint the others know.

use std::sync::{Arc, Mutex, Weak};

use super::{cluster::Cluster, config::EtcdConfig, lock};
use crate::{error::Result, process::PerProcess};

/// What is shared, and who was told what. The connections end with the last client.
static CLUSTERS: PerProcess<Mutex<Vec<Shared>>> = PerProcess::new();

struct Shared {
    told: EtcdConfig,
    is_shuffled: bool,
    cluster: Weak<Cluster>,
}

/// The cluster of those who were told `config`, and whether to begin with any of the endpoints, by a random number, or with the first.
pub(super) fn cluster(config: &EtcdConfig, shuffle: Option<u64>) -> Result<Arc<Cluster>> {
    let mut clusters = lock(CLUSTERS.get());
    clusters.retain(|shared| shared.cluster.strong_count() > 0);
    let is_same = |shared: &&Shared| shared.told == *config && shared.is_shuffled == shuffle.is_some();
    if let Some(known) = clusters.iter().find(is_same).and_then(|shared| shared.cluster.upgrade()) {
        return Ok(known);
    }
    let mut turned = config.clone();
    let count = turned.endpoints.len().max(1);
    turned.endpoints.rotate_left((shuffle.unwrap_or(0) % count as u64) as usize);
    let cluster = Arc::new(Cluster::new(turned)?);
    let (told, is_shuffled) = (config.clone(), shuffle.is_some());
    clusters.push(Shared { told, is_shuffled, cluster: Arc::downgrade(&cluster) });
    Ok(cluster)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn config(endpoint: &str, user: Option<&str>) -> EtcdConfig {
        EtcdConfig {
            endpoints: vec![endpoint.to_owned(), "http://other:1".to_owned()],
            tls: None,
            login: user.map(|user| (user.to_owned(), "secret".to_owned())),
            plaintext_password: true,
            connect_timeout: Duration::from_secs(5),
        }
    }

    /// Seen to fail with a login that is not compared.
    #[test]
    fn who_was_told_the_same_shares_and_nobody_else() {
        let one = cluster(&config("http://shared:1", None), Some(0)).unwrap();
        let same = cluster(&config("http://shared:1", None), Some(1)).unwrap();
        assert!(Arc::ptr_eq(&one, &same), "wherever it would have begun");
        let others = [
            config("http://shared:2", None),
            config("http://shared:1", Some("alice")),
            config("http://shared:1", Some("bob")),
        ];
        for told in others {
            assert!(!Arc::ptr_eq(&one, &cluster(&told, Some(0)).unwrap()), "{told:?}");
        }
        let slower = EtcdConfig { connect_timeout: Duration::from_secs(9), ..config("http://shared:1", None) };
        assert!(!Arc::ptr_eq(&one, &cluster(&slower, Some(0)).unwrap()));
    }

    /// Seen to fail with an order that is not compared.
    #[test]
    fn who_wants_an_order_does_not_share_one_that_is_shuffled() {
        let told = config("http://ordered:1", None);
        let shuffled = cluster(&told, Some(1)).unwrap();
        let ordered = cluster(&told, None).unwrap();
        assert!(!Arc::ptr_eq(&shuffled, &ordered));
        assert_eq!(ordered.names().next(), Some("http://ordered:1"));
        assert!(Arc::ptr_eq(&ordered, &cluster(&told, None).unwrap()));
    }

    #[test]
    fn what_nobody_uses_is_gone() {
        let told = config("http://gone:1", Some("carol"));
        let used = cluster(&told, Some(1)).unwrap();
        assert!(used.names().eq(["http://other:1", "http://gone:1"]));
        let gone = Arc::downgrade(&used);
        drop(used);
        assert_eq!(gone.strong_count(), 0);
        assert!(cluster(&told, Some(0)).unwrap().names().eq(["http://gone:1", "http://other:1"]), "it is another one");
    }
}
