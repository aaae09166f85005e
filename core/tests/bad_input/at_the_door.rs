//! What is refused before anything is sent.

use std::time::Duration;

use leasehold::{Client, ClientOptions, Code};
use leasehold_etcd::Cluster;

use crate::{errors_of_all, expect};

/// Nobody listens there: whoever gets another error than the one about the input has asked.
const NOBODY: &str = "http://127.0.0.1:1";

/// Seen to fail with names that are checked by etcd alone.
#[tokio::test]
async fn a_bad_name_is_refused_by_every_operation() {
    let client = Client::new(NOBODY).unwrap();
    for (name, problem) in [("", "is empty"), ("a\0b", "NUL"), (&*"x".repeat(1025), "1025 bytes")] {
        for error in errors_of_all(&client, name).await {
            expect(&error, Code::InvalidArgument, &[problem, "1 to 1024 bytes"]);
        }
    }
}

/// Seen to fail with a TTL that is passed on to etcd as it is.
#[tokio::test]
async fn an_absurd_ttl_is_refused_with_what_is_possible() {
    let absurd = [Duration::ZERO, Duration::from_millis(1999), Duration::from_secs(31 * 24 * 3600), Duration::MAX];
    let cluster = Cluster::builder().start().await.unwrap();
    let client = Client::new(cluster.endpoint(0)).unwrap();
    let guard = client.lock("/lock/a").acquire().await.unwrap();
    for ttl in absurd {
        let error = ClientOptions::new(NOBODY).ttl(ttl).build().unwrap_err();
        expect(&error, Code::InvalidArgument, &["TTL", "2 s and 30 days"]);
        let error = client.lock("/lock/b").ttl(ttl).acquire().await.unwrap_err();
        expect(&error, Code::InvalidArgument, &["TTL", "2 s and 30 days"]);
        let error = guard.extend(ttl).await.unwrap_err();
        expect(&error, Code::InvalidArgument, &["2 s to 30 days"]);
    }
    assert!(guard.is_held());
    assert_eq!(cluster.keys("").await.unwrap(), [guard.key()]);
}

/// Seen to fail with URLs that are looked at by the first call alone.
#[test]
fn a_wrong_url_is_refused_when_the_client_is_made() {
    for (url, part) in [
        ("", "no endpoint"),
        ("ftp://127.0.0.1:2379", "ftp"),
        ("http://", "http://"),
        ("http://127.0.0.1:99999", "99999"),
        ("http://127.0.0.1:2379/path", "/path"),
        ("http://127.0.0.1:2379?tll=5s", "tll"),
        ("http://127.0.0.1:2379?ttl=soon", "soon"),
        ("memory://", "memory://"),
        ("http://root:secret@127.0.0.1:2379", "user and password"),
    ] {
        let error = Client::new(url).map(drop).expect_err(url);
        expect(&error, Code::InvalidArgument, &[part]);
        assert!(!error.to_string().contains("secret"), "{error}");
    }
}

/// Seen to fail with files that are read by the first call.
#[test]
fn a_bad_certificate_file_is_named_when_the_client_is_made() {
    let https = || ClientOptions::new("https://127.0.0.1:2379");
    let missing = "/no/such/file.pem";
    expect(&https().ca_file(missing).build().unwrap_err(), Code::InvalidArgument, &["CA", missing]);
    let only_one = https().cert_file(missing).build().unwrap_err();
    expect(&only_one, Code::InvalidArgument, &["certificate file", "key file"]);
    let both = https().cert_file(missing).key_file(missing).build().unwrap_err();
    expect(&both, Code::InvalidArgument, &["certificate", missing]);
    // A file that is none: this very source.
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/bad_input/main.rs");
    expect(&https().ca_file(source).build().unwrap_err(), Code::InvalidArgument, &["CA", "PEM"]);
}
