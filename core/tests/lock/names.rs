//! Which names are the same lock, and which are not.

use std::time::Duration;

use leasehold::Code;

use crate::support::{client, etcd, options};

/// Seen to fail with every key below the prefix taken for a contender.
#[tokio::test]
async fn names_that_only_look_alike_do_not_concern_each_other() {
    let cluster = etcd().await;
    let [one, two] = [(); 2].map(|()| client(&cluster));
    let names = ["/lock/a", "/lock/a/", "/lock/a//", "/lock/a/b", "/lock/a/b/c", "/lock/ab", "lock/a", "/lock/ä", "/"];
    let mut guards = Vec::new();
    for name in names {
        // By turns, so that neighbours never share a session.
        let client = if guards.len() % 2 == 0 { &one } else { &two };
        let guard = client.lock(name).acquire_within(Duration::from_secs(10)).await.expect(name);
        assert!(guard.key().starts_with(&format!("{name}/{}-", guard.lease())), "{}", guard.key());
        guards.push(guard);
    }
    for name in names {
        assert!(one.lock(name).try_acquire().await.unwrap().is_none(), "{name} is taken");
        assert_eq!(two.lock(name).queue().await.unwrap().len(), 1, "{name} has one contender");
    }
    // A release of one frees that one alone.
    for (place, guard) in guards.into_iter().enumerate() {
        guard.release().await.unwrap();
        let again = one.lock(names[place]).try_acquire().await.unwrap().expect(names[place]);
        again.release().await.unwrap();
        if let Some(next) = names.get(place + 1) {
            assert!(one.lock(next).try_acquire().await.unwrap().is_none(), "{next} is still taken");
        }
    }
    assert!(cluster.keys("").await.unwrap().is_empty());
}

/// Seen to fail with namespaces that are left out of the key.
#[tokio::test]
async fn a_namespace_stands_before_every_name() {
    let cluster = etcd().await;
    let within = |namespace: &str| options(&cluster).namespace(namespace).build().unwrap();
    let [red, blue, split] = [within("/red"), within("/blue"), within("/re")];
    let guard = red.lock("/a").acquire().await.unwrap();
    assert!(guard.key().starts_with("/red/a/"));
    assert_eq!(red.lock("/a").queue().await.unwrap()[0].key, guard.key());
    let _other = blue.lock("/a").try_acquire().await.unwrap().expect("another lock");
    // Namespace and name are put together verbatim: this is the same key, and so the same lock.
    let error = split.lock("d/a").acquire_within(Duration::from_millis(200)).await.unwrap_err();
    assert_eq!(error.code(), Code::NotAcquired);
}
