//! Every server that is here starts, stores and asks for users and certificates: the harness must work before anything
//! that is tested with it.

use std::time::Instant;

use leasehold_etcd::{Certificates, Cluster, Storage, Tls, User, on_every_version};

#[tokio::test]
async fn every_version_stores_a_value() {
    on_every_version(|version| async move {
        for storage in [Storage::Memory, Storage::Disk] {
            let begun = Instant::now();
            let cluster = Cluster::builder().version(version).storage(storage).start().await.expect("starts");
            println!("{}, {storage:?}: ready after {:?}", cluster.server(), begun.elapsed());
            assert!(version.includes(cluster.release()), "{} is not of series {version}", cluster.release());
            cluster.ctl(&["put", "key", "value"]).await.expect("stores");
            assert_eq!(cluster.ctl(&["get", "key", "--print-value-only"]).await.expect("reads"), "value\n");
        }
    })
    .await;
}

#[tokio::test]
async fn mutual_tls_refuses_strangers_and_who_shows_no_certificate() {
    on_every_version(|version| async move {
        let cluster = Cluster::builder().version(version).tls(Tls::Mutual).start().await.expect("starts");
        assert!(cluster.endpoint(0).starts_with("https://127.0.0.1:"));
        cluster.ctl(&["put", "key", "value"]).await.expect("the client certificate is welcome");

        let directory = tempfile::tempdir().expect("a directory");
        let stranger = Certificates::generate(directory.path()).expect("generated");
        let ours = cluster.certificates().expect("made");
        for client in [None, Some(&stranger)] {
            let mut command = tokio::process::Command::new(cluster.server().etcdctl().expect("stands beside"));
            command.args(["--endpoints", &cluster.endpoint(0), "--command-timeout=1s", "--dial-timeout=1s"]);
            command.arg("--cacert").arg(&ours.ca_file);
            if let Some(files) = client {
                command.arg("--cert").arg(&files.cert_file).arg("--key").arg(&files.key_file);
            }
            let output = command.args(["get", "key"]).output().await.expect("runs");
            assert!(!output.status.success(), "etcd {version} let {client:?} in");
        }
    })
    .await;
}

#[tokio::test]
async fn users_reach_their_prefixes_alone() {
    on_every_version(|version| async move {
        let users = [User::new("alice", "secret").prefix("/lock/"), User::new("bob", "other").prefix("")];
        let builder = Cluster::builder().version(version).tls(Tls::Server).auth("root-password", users);
        let cluster = builder.start().await.expect("starts");
        cluster.ctl(&["put", "/anything", "by root"]).await.expect("root may do everything");
        let put = async |user: Option<&str>, key: &str| {
            let command = cluster.etcdctl_as(user, &cluster.endpoints(), ["put", key, "x"]).expect("stands beside");
            let output = tokio::process::Command::from(command).output().await.expect("runs");
            (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
        };
        assert!(put(Some("alice:secret"), "/lock/a").await.0);
        assert!(put(Some("bob:other"), "/anything").await.0);
        for (user, key, refusal) in [
            (Some("alice:secret"), "/elsewhere", "permission denied"),
            (Some("alice:wrong"), "/lock/a", "authentication failed"),
            (None, "/lock/a", "user name is empty"),
        ] {
            let (done, text) = put(user, key).await;
            assert!(!done && text.contains(refusal), "etcd {version}, {user:?}, {key}: {text}");
        }
    })
    .await;
}

#[tokio::test]
async fn a_wrong_argument_is_an_error_with_the_log() {
    let error = Cluster::builder().arg("--no-such-flag").start().await.expect_err("etcd refuses it");
    assert!(error.to_string().contains("no-such-flag"), "{error}");
    let error = Cluster::builder().members(0).start().await.expect_err("no members");
    assert!(error.to_string().contains("1 to 9"), "{error}");
}
