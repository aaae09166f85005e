//! An etcd that knows who we are, or wants to, and refuses.

use std::time::Duration;

use leasehold::{ClientOptions, Code};
use leasehold_etcd::{Cluster, Tls, User, on_every_version};

use crate::{REQUEST_TIMEOUT, errors_of_all, expect, fails};

/// With a time limit far above that of the tests: a refusal is told at once.
fn options(cluster: &Cluster) -> ClientOptions {
    ClientOptions::from_endpoints(cluster.endpoints()).request_timeout(10 * REQUEST_TIMEOUT)
}

async fn with_alice(cluster: leasehold_etcd::Builder) -> Cluster {
    cluster.auth("root-password", [User::new("alice", "secret").prefix("/hers/")]).start().await.unwrap()
}

/// Seen to fail with a refusal that is taken for a passing failure and repeated.
#[tokio::test]
async fn a_wrong_password_and_none_are_said_to_be() {
    on_every_version(|version| async move {
        let cluster = with_alice(Cluster::builder().version(version)).await;
        let wrong = options(&cluster).user("alice", "wr0ng").build().unwrap();
        let errors = errors_of_all(&wrong, "/hers/a").await;
        for error in errors.into_iter().chain([fails("ping", wrong.ping()).await]) {
            expect(&error, Code::Unauthenticated, &["password"]);
            assert!(!error.to_string().contains("wr0ng"), "{error}");
        }
        let nobody = options(&cluster).build().unwrap();
        for error in errors_of_all(&nobody, "/hers/a").await {
            expect(&error, Code::Unauthenticated, &["user"]);
        }
        for client in [wrong, nobody] {
            client.close().await.unwrap();
        }
        assert!(cluster.keys("").await.unwrap().is_empty());
        assert!(cluster.leases().await.unwrap().is_empty(), "etcd {version}");
    })
    .await;
}

/// Seen to fail with a refusal that is taken for a passing failure and repeated.
#[tokio::test]
async fn a_name_outside_the_users_rights_is_said_to_be() {
    on_every_version(|version| async move {
        let cluster = with_alice(Cluster::builder().version(version)).await;
        let alice = options(&cluster).user("alice", "secret").build().unwrap();
        alice.ping().await.unwrap();
        for error in errors_of_all(&alice, "/theirs/a").await {
            expect(&error, Code::PermissionDenied, &["/theirs/a", "grant", "role"]);
        }
        // What is hers works all the same, and the guarded write stops where her rights do.
        let guard = alice.lock("/hers/a").acquire().await.unwrap();
        let error = guard.put("/theirs/data", "x").await.unwrap_err();
        expect(&error, Code::PermissionDenied, &["/hers/a", "grant"]);
        guard.put("/hers/data", "x").await.unwrap();
        guard.delete("/hers/data").await.unwrap();
        guard.release().await.unwrap();
        alice.close().await.unwrap();
        assert!(cluster.keys("").await.unwrap().is_empty());
        assert!(cluster.leases().await.unwrap().is_empty(), "etcd {version}");
    })
    .await;
}

/// Seen to fail with the error's code alone: a broken connection.
#[tokio::test]
async fn a_missing_or_unknown_certificate_is_said_to_be() {
    let cluster = Cluster::builder().tls(Tls::Mutual).start().await.unwrap();
    let files = cluster.certificates().unwrap();
    let directory = tempfile::tempdir().unwrap();
    let strangers = leasehold_etcd::Certificates::generate(directory.path()).unwrap();
    let none = options(&cluster).ca_file(&files.ca_file);
    let unknown =
        options(&cluster).ca_file(&files.ca_file).cert_file(&strangers.cert_file).key_file(&strangers.key_file);
    let other_ca = options(&cluster).ca_file(&strangers.ca_file).cert_file(&files.cert_file).key_file(&files.key_file);
    for (options, part) in [(none, "client certificate"), (unknown, "client certificate"), (other_ca, "CA certificate")]
    {
        let client = options.build().unwrap();
        for error in errors_of_all(&client, "/lock/a").await {
            expect(&error, Code::Unauthenticated, &[part]);
        }
        tokio::time::timeout(Duration::from_secs(10), client.close()).await.expect("closes in time").unwrap();
    }
    assert!(cluster.leases().await.unwrap().is_empty());
}
