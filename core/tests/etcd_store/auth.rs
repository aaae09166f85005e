//! Users, tokens that expire, and permissions.

use std::{io::Write, process::Stdio, time::Duration};

use leasehold::store::{
    ErrorKind, Keys, Request, Store, StoreError, Txn, WatchId, WatchReply, WatchRequest,
    etcd::{EtcdConfig, EtcdStore},
};
use leasehold_etcd::{Cluster, User, Version};

use super::{call, config, grant, key, new_lease, next, put, range, started, store_of, write};

/// A cluster with a user `app` for `/app/`.
async fn cluster(version: Version) -> Option<Cluster> {
    let app = User::new("app", "secret").prefix("/app/");
    started(Cluster::builder().version(version).auth("root-secret", [app])).await
}

/// Makes every token of `app` worthless at once, as its expiry does: that is what a new password does, also if it is the old one.
fn expire_tokens(cluster: &Cluster) {
    let mut passwd = cluster.etcdctl(["user", "passwd", "app", "--interactive=false"]).unwrap();
    let mut passwd = passwd.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    passwd.stdin.take().unwrap().write_all(b"secret\n").unwrap();
    assert!(passwd.wait().unwrap().success());
}

fn store_as(cluster: &Cluster, user: &str, password: &str) -> EtcdStore {
    let login = Some((user.to_owned(), password.to_owned()));
    EtcdStore::new(EtcdConfig { login, ..config(cluster.endpoints()) }).unwrap()
}

fn assert_refused(error: &StoreError, kind: ErrorKind) {
    assert_eq!((error.kind, error.ambiguous), (kind, false), "{error}");
    assert!(!error.message.contains("secret"), "{error}");
}

#[tokio::test]
async fn unary_calls_outlive_their_token() {
    for version in [Version::V3_4, Version::V3_5, Version::V3_7] {
        let Some(cluster) = cluster(version).await else { continue };
        let store = store_as(&cluster, "app", "secret");
        let lease = grant(&store, 60).await;
        call(&store, write("/app/a")).await.unwrap();
        expire_tokens(&cluster);
        let many: Vec<_> = (0..20)
            .map(|i| {
                let store = store.clone();
                tokio::spawn(async move { call(&store, write(&format!("/app/{i}"))).await })
            })
            .collect();
        for task in many {
            task.await.unwrap().unwrap();
        }
        expire_tokens(&cluster);
        call(&store, Request::LeaseTimeToLive { lease }).await.unwrap();
        call(&store, Request::LeaseRevoke { lease }).await.unwrap();
    }
}

#[tokio::test]
async fn renewals_outlive_their_token() {
    for version in [Version::V3_4, Version::V3_5, Version::V3_7] {
        let Some(cluster) = cluster(version).await else { continue };
        let store = store_as(&cluster, "app", "secret");
        let lease = grant(&store, 60).await;
        let mut stream = store.renewals(0);
        stream.requests.send(lease).unwrap();
        assert_eq!(next(&mut stream.replies).await.unwrap().ttl, 60);
        expire_tokens(&cluster);
        stream.requests.send(lease).unwrap();
        match next(&mut stream.replies).await {
            // Servers before the repair do not look at the token here.
            Ok(renewed) => assert!(version == Version::V3_4 && renewed.ttl == 60),
            Err(error) => {
                assert_refused(&error, ErrorKind::Unavailable);
                let mut stream = store.renewals(0);
                stream.requests.send(lease).unwrap();
                assert_eq!(next(&mut stream.replies).await.unwrap().ttl, 60);
            }
        }
    }
}

#[tokio::test]
async fn watches_outlive_their_token() {
    for version in [Version::V3_4, Version::V3_5, Version::V3_7] {
        let Some(cluster) = cluster(version).await else { continue };
        let store = store_as(&cluster, "app", "secret");
        let watch = |id| WatchRequest::Create(WatchId(id), Keys::prefix(key("/app/")));
        let mut stream = store.watches();
        stream.requests.send(watch(1)).unwrap();
        assert!(matches!(next(&mut stream.replies).await, Ok(WatchReply::Created { .. })));
        expire_tokens(&cluster);
        // What stands goes on; what is new needs a token that is good, and that belongs to the stream.
        call(&store, write("/app/a")).await.unwrap();
        assert!(matches!(next(&mut stream.replies).await, Ok(WatchReply::Events { id: WatchId(1), .. })));
        stream.requests.send(watch(2)).unwrap();
        let error = next(&mut stream.replies).await.unwrap_err();
        assert_refused(&error, ErrorKind::Unavailable);
        assert!(error.message.ends_with("invalid auth token"), "{error}");
        assert!(stream.replies.recv().await.is_none());

        let mut stream = store.watches();
        stream.requests.send(watch(3)).unwrap();
        let created = next(&mut stream.replies).await.unwrap();
        assert!(matches!(created, WatchReply::Created { id: WatchId(3), .. }), "{created:?}");
    }
}

#[tokio::test]
async fn a_token_that_expires_by_itself_is_replaced() {
    let app = User::new("app", "secret").prefix("/app/");
    let builder = Cluster::builder().auth("root-secret", [app]);
    let cluster = builder.arg("--auth-token=simple").arg("--auth-token-ttl=1").start().await.unwrap();
    let store = store_as(&cluster, "app", "secret");
    let mut stream = store.watches();
    stream.requests.send(WatchRequest::Create(WatchId(1), Keys::prefix(key("/app/")))).unwrap();
    assert!(matches!(next(&mut stream.replies).await, Ok(WatchReply::Created { .. })));
    // Every use prolongs a token, so there is nothing to wait for but time. The server looks once a second.
    tokio::time::sleep(Duration::from_secs(3)).await;
    stream.requests.send(WatchRequest::Create(WatchId(2), Keys::prefix(key("/app/")))).unwrap();
    let error = next(&mut stream.replies).await.unwrap_err();
    assert!(error.message.ends_with("invalid auth token"), "{error}");
    call(&store, write("/app/a")).await.unwrap();
}

#[tokio::test]
async fn a_stream_whose_first_request_needs_the_token_logs_in_first() {
    let cluster = cluster(Version::Any).await.unwrap();
    let store = store_as(&cluster, "app", "secret");
    let mut stream = store.watches();
    stream.requests.send(WatchRequest::Create(WatchId(1), Keys::prefix(key("/app/")))).unwrap();
    assert!(matches!(next(&mut stream.replies).await, Ok(WatchReply::Created { .. })));
}

#[tokio::test]
async fn a_wrong_password_is_told_and_not_repeated() {
    let cluster = cluster(Version::Any).await.unwrap();
    for (user, password) in [("app", "secret-no"), ("nobody", "secret")] {
        let store = store_as(&cluster, user, password);
        let error = call(&store, write("/app/a")).await.unwrap_err();
        assert_refused(&error, ErrorKind::Unauthenticated);
        assert!(error.message.contains("invalid user ID or password"), "{error}");
        let lease = new_lease();
        let mut renewals = store.renewals(0);
        renewals.requests.send(lease).unwrap();
        assert_refused(&next(&mut renewals.replies).await.unwrap_err(), ErrorKind::Unauthenticated);
        assert_refused(&next(&mut store.watches().replies).await.unwrap_err(), ErrorKind::Unauthenticated);
    }
}

#[tokio::test]
async fn without_a_user_etcd_asks_for_one() {
    let cluster = cluster(Version::Any).await.unwrap();
    let error = call(&store_of(&cluster), write("/app/a")).await.unwrap_err();
    assert_refused(&error, ErrorKind::Unauthenticated);
    assert!(error.message.contains("user and a password"), "{error}");
}

#[tokio::test]
async fn what_the_role_does_not_allow_is_refused() {
    for version in [Version::V3_4, Version::V3_5, Version::V3_7] {
        let Some(cluster) = cluster(version).await else { continue };
        let store = store_as(&cluster, "app", "secret");
        for request in [write("/other/a"), range("/other/a")] {
            assert_refused(&call(&store, request).await.unwrap_err(), ErrorKind::PermissionDenied);
        }
        let mut stream = store.watches();
        stream.requests.send(WatchRequest::Create(WatchId(1), Keys::prefix(key("/other/")))).unwrap();
        stream.requests.send(WatchRequest::Create(WatchId(2), Keys::prefix(key("/app/")))).unwrap();
        match next(&mut stream.replies).await.unwrap() {
            WatchReply::Cancelled { id: WatchId(1), error } => assert_refused(&error, ErrorKind::PermissionDenied),
            other => panic!("{other:?}"),
        }
        let created = next(&mut stream.replies).await.unwrap();
        assert!(matches!(created, WatchReply::Created { id: WatchId(2), .. }), "{created:?}");
    }
}

#[tokio::test]
async fn a_user_is_no_obstacle_where_authentication_is_off_or_comes_later() {
    let cluster = Cluster::builder().start().await.unwrap();
    let store = store_as(&cluster, "root", "secret");
    call(&store, write("a")).await.unwrap();
    for arguments in [&["user", "add", "root:secret"][..], &["user", "grant-role", "root", "root"], &["auth", "enable"]]
    {
        cluster.ctl(arguments).await.unwrap();
    }
    call(&store, write("a")).await.expect("it logs in when etcd begins to ask");
}

#[tokio::test]
async fn a_restarted_server_has_forgotten_its_tokens() {
    let cluster = cluster(Version::Any).await.unwrap();
    let store = store_as(&cluster, "app", "secret");
    call(&store, write("/app/a")).await.unwrap();
    cluster.kill(0).unwrap();
    cluster.restart(0).await.unwrap();
    call(&store, write("/app/a")).await.unwrap();
}

/// What docs/operations.md says of leases: the permissions that count are those on the keys that stand on the lease.
#[tokio::test]
async fn a_lease_is_for_those_who_may_write_all_of_its_keys() {
    for version in [Version::V3_5, Version::V3_6, Version::V3_7] {
        let users = [User::new("app", "secret").prefix("/app/"), User::new("other", "secret").prefix("/other/")];
        let builder = Cluster::builder().version(version).auth("root-secret", users);
        let Some(cluster) = started(builder).await else { continue };
        let (app, other) = (store_as(&cluster, "app", "secret"), store_as(&cluster, "other", "secret"));
        let write_with = |name: &str, lease| Request::Txn(Txn { then: vec![put(name, Some(lease))], ..Txn::default() });
        let renew = async |store: &EtcdStore, lease| {
            let mut renewals = store.renewals(0);
            renewals.requests.send(lease).unwrap();
            next(&mut renewals.replies).await.map(|renewed| renewed.ttl)
        };

        // Without keys it is anybody's.
        let lease = grant(&app, 60).await;
        assert_eq!(renew(&other, lease).await.unwrap(), 60, "etcd {version}");

        call(&app, write_with("/app/a", lease)).await.unwrap();
        assert_eq!(renew(&app, lease).await.unwrap(), 60, "etcd {version}");
        assert_refused(&renew(&other, lease).await.unwrap_err(), ErrorKind::PermissionDenied);
        let add = write_with("/other/a", lease);
        for request in [add, Request::LeaseTimeToLive { lease }, Request::LeaseRevoke { lease }] {
            assert_refused(&call(&other, request).await.unwrap_err(), ErrorKind::PermissionDenied);
        }

        // One key that the owner of the lease may not write, and it is of no use to him either.
        cluster.ctl(&["put", "/other/b", "x", &format!("--lease={:x}", lease.0)]).await.unwrap();
        assert_refused(&renew(&app, lease).await.unwrap_err(), ErrorKind::PermissionDenied);
        assert_refused(&call(&app, write_with("/app/b", lease)).await.unwrap_err(), ErrorKind::PermissionDenied);
    }
}
