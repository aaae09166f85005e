//! TLS: certificates that fit, and every one that does not.

use std::fs;

use leasehold::store::{
    ErrorKind, Store, StoreError,
    etcd::{EtcdConfig, EtcdStore, TlsConfig},
};
use leasehold_etcd::{Certificates, Cluster, Tls, Version};

use super::{call, config, grant, next, started, write};

fn store_with(cluster: &Cluster, tls: TlsConfig) -> EtcdStore {
    EtcdStore::new(EtcdConfig { tls: Some(tls), ..config(cluster.endpoints()) }).unwrap()
}

/// What the cluster's own files give: its CA, and the client's certificate if `with_identity`.
fn options(files: &Certificates, with_identity: bool) -> TlsConfig {
    let read = |path| fs::read(path).unwrap();
    let identity = with_identity.then(|| (read(&files.cert_file), read(&files.key_file)));
    TlsConfig { ca: Some(read(&files.ca_file)), identity, domain_name: None }
}

/// The error of a first write. It is never ambiguous: nobody looked at it.
async fn refusal(store: &EtcdStore) -> StoreError {
    let error = call(store, write("a")).await.unwrap_err();
    assert_eq!((error.kind, error.ambiguous), (ErrorKind::Unauthenticated, false), "{error}");
    error
}

#[tokio::test]
async fn calls_and_streams_work_over_tls_with_and_without_a_client_certificate() {
    for (version, tls) in [(Version::V3_4, Tls::Mutual), (Version::V3_7, Tls::Mutual), (Version::Any, Tls::Server)] {
        let Some(cluster) = started(Cluster::builder().version(version).tls(tls)).await else { continue };
        let files = cluster.certificates().unwrap();
        let store = store_with(&cluster, options(files, tls == Tls::Mutual));
        let lease = grant(&store, 60).await;
        let mut stream = store.renewals(0);
        stream.requests.send(lease).unwrap();
        assert_eq!(next(&mut stream.replies).await.unwrap().ttl, 60);
    }
}

#[tokio::test]
async fn a_server_signed_by_a_stranger_is_refused() {
    let cluster = Cluster::builder().tls(Tls::Server).start().await.unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    let stranger = Certificates::generate(elsewhere.path()).unwrap();
    let store = store_with(&cluster, options(&stranger, false));
    let error = refusal(&store).await;
    assert!(error.message.contains(&cluster.endpoint(0)) && error.message.contains("CA certificate"), "{error}");
    let error = next(&mut store.watches().replies).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unauthenticated, "{error}");
}

#[tokio::test]
async fn a_server_with_another_name_is_refused() {
    let cluster = Cluster::builder().tls(Tls::Server).start().await.unwrap();
    let options = options(cluster.certificates().unwrap(), false);
    let error = refusal(&store_with(&cluster, TlsConfig { domain_name: Some("etcd.example".into()), ..options })).await;
    assert!(error.message.contains("names this host"), "{error}");
}

#[tokio::test]
async fn a_server_that_wants_a_client_certificate_says_so() {
    for version in [Version::V3_4, Version::V3_7] {
        let Some(cluster) = started(Cluster::builder().version(version).tls(Tls::Mutual)).await else { continue };
        let files = cluster.certificates().unwrap();
        let error = refusal(&store_with(&cluster, options(files, false))).await;
        assert!(error.message.contains("client certificate"), "{error}");

        let elsewhere = tempfile::tempdir().unwrap();
        let stranger = Certificates::generate(elsewhere.path()).unwrap();
        let ours = options(files, false);
        let theirs = options(&stranger, true);
        let error = refusal(&store_with(&cluster, TlsConfig { identity: theirs.identity, ..ours })).await;
        assert!(error.message.contains("client certificate"), "{error}");
    }
}

#[tokio::test]
async fn tls_and_plain_text_do_not_understand_each_other_and_the_message_says_where() {
    let plain = Cluster::builder().start().await.unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    let files = Certificates::generate(elsewhere.path()).unwrap();
    let tls = Some(options(&files, false));
    let endpoint = plain.endpoint(0).replace("http://", "https://");
    let store = EtcdStore::new(EtcdConfig { tls, ..config(vec![endpoint.clone()]) }).unwrap();
    let error = call(&store, write("a")).await.unwrap_err();
    assert_eq!((error.kind, error.ambiguous), (ErrorKind::Unavailable, false), "{error}");
    assert!(error.message.contains(&endpoint), "{error}");

    let secure = Cluster::builder().tls(Tls::Server).start().await.unwrap();
    let endpoint = secure.endpoint(0).replace("https://", "http://");
    let error = call(&super::store_at(vec![endpoint.clone()]), write("a")).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unavailable, "{error}");
    assert!(error.message.contains(&endpoint) && error.message.contains("is it an https:// endpoint?"), "{error}");
}

#[test]
fn a_key_that_does_not_fit_its_certificate_is_refused_at_construction() {
    let elsewhere = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let one = Certificates::generate(elsewhere.0.path()).unwrap();
    let other = Certificates::generate(elsewhere.1.path()).unwrap();
    let (ours, theirs) = (options(&one, true), options(&other, true));
    let identity = Some((ours.identity.unwrap().0, theirs.identity.unwrap().1));
    let tls = Some(TlsConfig { identity, ..TlsConfig::default() });
    let tls = tls.map(|tls| TlsConfig { ca: ours.ca, ..tls });
    let error = EtcdStore::new(EtcdConfig { tls, ..config(vec!["https://127.0.0.1:2379".into()]) }).unwrap_err();
    assert_eq!(error.code(), leasehold::Code::InvalidArgument, "{error}");
}
