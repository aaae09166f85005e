//! Endpoints where no etcd answers.

use std::time::Duration;

use leasehold::{Client, ClientOptions, Code};
use leasehold_etcd::{Cluster, Proxy, Tls, eventually};

use crate::{REQUEST_TIMEOUT, errors_of_all, expect, fails};

fn client(url: &str) -> Client {
    ClientOptions::new(url).request_timeout(REQUEST_TIMEOUT).build().unwrap()
}

/// Seen to fail with attempts that are repeated for ever.
#[tokio::test]
async fn where_nobody_listens_every_operation_says_so_in_time() {
    let url = "http://127.0.0.1:1";
    let client = client(url);
    let errors = errors_of_all(&client, "/lock/a").await;
    for error in errors.into_iter().chain([fails("ping", client.ping()).await]) {
        expect(&error, Code::Unavailable, &[url, "refused"]);
    }
    client.close().await.unwrap();
}

/// Seen to fail with NOT_ACQUIRED: whoever skips a job that is locked would skip it because etcd is down.
#[tokio::test]
async fn a_wait_limit_that_passes_while_nobody_listens_says_that_nobody_listens() {
    let url = "http://127.0.0.1:1";
    let client = client(url);
    let short = REQUEST_TIMEOUT / 4;
    let error = fails("acquire", client.lock("/lock/a").acquire_within(short)).await;
    expect(&error, Code::Unavailable, &[url, "refused"]);
    client.close().await.unwrap();
}

/// Seen to fail with calls that have no time limit of their own.
#[tokio::test]
async fn where_nobody_answers_every_operation_says_so_in_time() {
    let cluster = Cluster::builder().start().await.unwrap();
    let proxy = Proxy::start(cluster.address(0)).unwrap();
    proxy.hold_all();
    let options = ClientOptions::new(format!("http://{}", proxy.address())).request_timeout(REQUEST_TIMEOUT);
    let client = options.ttl(Duration::from_secs(2)).build().unwrap();
    let errors = errors_of_all(&client, "/lock/a").await;
    for error in errors.into_iter().chain([fails("ping", client.ping()).await]) {
        assert!(matches!(error.code(), Code::DeadlineExceeded | Code::Unavailable), "{error}");
        expect(&error, error.code(), &[&proxy.address().to_string()]);
    }
    client.close().await.unwrap();
    proxy.pass();
    assert!(cluster.keys("").await.unwrap().is_empty());
    // A request that arrives when its client is gone may still get a lease; it ends by itself.
    eventually("no lease is left", || async { cluster.leases().await.unwrap().is_empty() }).await;
}

/// Seen to fail with the error's code alone: a broken connection.
#[tokio::test]
async fn http_and_https_are_told_apart() {
    let tls = Cluster::builder().tls(Tls::Server).start().await.unwrap();
    let plain = Cluster::builder().start().await.unwrap();
    let to_tls = client(&tls.endpoint(0).replace("https", "http"));
    expect(&to_tls.ping().await.unwrap_err(), Code::Unavailable, &[&tls.address(0).to_string()]);
    let files = tls.certificates().unwrap();
    let to_plain = ClientOptions::new(plain.endpoint(0).replace("http", "https")).ca_file(&files.ca_file);
    let error = to_plain.request_timeout(REQUEST_TIMEOUT).build().unwrap().ping().await.unwrap_err();
    expect(&error, Code::Unavailable, &["http://"]);
}
