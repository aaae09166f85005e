//! Endpoints that are dead, silent, without a leader or not there: who is asked next, and what is ambiguous.

use std::time::{Duration, Instant};

use leasehold::store::{ErrorKind, Keys, ReplyBody, Request, Store, WatchId, WatchReply, WatchRequest};
use leasehold_etcd::{Cluster, Direction, Proxy};
use tokio::net::TcpSocket;

use super::{LIMIT, call, grant, key, next, range, store_at, store_of, write};

/// Too short for a silent endpoint, long enough for one that answers on a busy machine.
const SHORT: Duration = Duration::from_secs(3);

/// An endpoint that refuses connections, as long as its socket is kept: nobody listens there, and nobody else gets the port.
fn refusing() -> (String, TcpSocket) {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    (format!("http://{}", socket.local_addr().unwrap()), socket)
}

fn url(proxy: &Proxy) -> String {
    format!("http://{}", proxy.address())
}

#[tokio::test]
async fn an_endpoint_that_refuses_is_passed_over_at_once_also_by_writes() {
    let cluster = Cluster::builder().start().await.unwrap();
    let (refusing, _socket) = refusing();
    let store = store_at(vec![refusing, cluster.endpoint(0)]);
    let start = Instant::now();
    call(&store, write("a")).await.unwrap();
    assert!(start.elapsed() < SHORT, "{:?}", start.elapsed());
}

#[tokio::test]
async fn unreachable_endpoints_are_all_named_with_the_cause() {
    let [(one, _one), (two, _two)] = [refusing(), refusing()];
    let store = store_at(vec![one.clone(), two.clone()]);
    let error = call(&store, write("a")).await.unwrap_err();
    assert_eq!((error.kind, error.ambiguous), (ErrorKind::Unavailable, false), "{error}");
    assert!(error.message.contains(&format!("{one}: connection refused")), "{error}");
    assert!(error.message.contains(&format!("{two}: connection refused")), "{error}");

    let store = store_at(vec!["no-such-host.invalid:2379".into()]);
    let error = call(&store, write("a")).await.unwrap_err();
    assert_eq!((error.kind, error.ambiguous), (ErrorKind::Unavailable, false), "{error}");
    assert!(error.message.contains("http://no-such-host.invalid:2379"), "{error}");

    let error = next(&mut store_at(vec![one.clone()]).watches().replies).await;
    assert!(error.is_err_and(|error| error.message == format!("{one}: connection refused")));
}

/// An address whose connections are never completed: its queue of connections is full.
async fn swallowing() -> (String, Vec<tokio::net::TcpStream>, tokio::net::TcpListener) {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let listener = socket.listen(1).unwrap();
    let address = listener.local_addr().unwrap();
    let mut held = Vec::new();
    while let Ok(stream) =
        tokio::time::timeout(Duration::from_millis(300), tokio::net::TcpStream::connect(address)).await
    {
        held.push(stream.unwrap());
    }
    (format!("http://{address}"), held, listener)
}

#[tokio::test]
async fn an_endpoint_that_swallows_connections_costs_its_share_of_the_time_and_no_certainty() {
    let cluster = Cluster::builder().start().await.unwrap();
    let (dead, _held, _listener) = swallowing().await;
    let store = store_at(vec![dead.clone(), cluster.endpoint(0)]);
    store.call(write("a"), SHORT).await.unwrap();
    let start = Instant::now();
    store.call(write("b"), SHORT).await.unwrap();
    assert!(start.elapsed() < SHORT / 2, "the dead endpoint is not asked again: {:?}", start.elapsed());

    let error = store_at(vec![dead]).call(write("a"), SHORT).await.unwrap_err();
    assert_eq!((error.kind, error.ambiguous), (ErrorKind::Timeout, false), "{error}");
}

#[tokio::test]
async fn a_silent_endpoint_makes_a_write_ambiguous_and_is_avoided_then() {
    let cluster = Cluster::builder().start().await.unwrap();
    let proxy = Proxy::start(cluster.address(0)).unwrap();
    let store = store_at(vec![url(&proxy), cluster.endpoint(0)]);
    call(&store, write("a")).await.unwrap();
    proxy.hold(Direction::ToClient);
    let error = store.call(write("b"), SHORT).await.unwrap_err();
    assert_eq!((error.kind, error.ambiguous), (ErrorKind::Timeout, true), "{error}");
    assert!(error.message.contains(&url(&proxy)), "{error}");
    // It was applied: the answer was lost, not the request.
    let ReplyBody::Range(reply) = store.call(range("b"), SHORT).await.unwrap().body else { panic!("not a range") };
    assert_eq!(reply.count, 1);
    let start = Instant::now();
    store.call(write("c"), SHORT).await.unwrap();
    assert!(start.elapsed() < SHORT / 2, "{:?}", start.elapsed());
}

#[tokio::test]
async fn a_silent_endpoint_makes_no_read_ambiguous() {
    let cluster = Cluster::builder().start().await.unwrap();
    let proxy = Proxy::start(cluster.address(0)).unwrap();
    let store = store_at(vec![url(&proxy)]);
    call(&store, range("a")).await.unwrap();
    proxy.hold_all();
    let error = store.call(range("a"), SHORT).await.unwrap_err();
    assert_eq!((error.kind, error.ambiguous), (ErrorKind::Timeout, false), "{error}");
    proxy.pass();
    call(&store, range("a")).await.unwrap();
}

#[tokio::test]
async fn a_connection_that_breaks_under_a_write_is_ambiguous_and_under_a_read_is_not() {
    let cluster = Cluster::builder().start().await.unwrap();
    let proxy = Proxy::start(cluster.address(0)).unwrap();
    let store = store_at(vec![url(&proxy), cluster.endpoint(0)]);
    call(&store, write("a")).await.unwrap();
    proxy.hold(Direction::ToClient);
    let sent = proxy.bytes(Direction::ToServer);
    let under_way = {
        let store = store.clone();
        tokio::spawn(async move { call(&store, write("b")).await })
    };
    while proxy.bytes(Direction::ToServer) == sent {
        tokio::task::yield_now().await;
    }
    proxy.cut();
    let error = under_way.await.unwrap().unwrap_err();
    assert_eq!((error.kind, error.ambiguous), (ErrorKind::Unavailable, true), "{error}");

    let store = store_at(vec![url(&proxy), cluster.endpoint(0)]);
    proxy.pass();
    call(&store, write("a")).await.unwrap();
    proxy.hold(Direction::ToClient);
    let sent = proxy.bytes(Direction::ToServer);
    let under_way = {
        let store = store.clone();
        tokio::spawn(async move { call(&store, range("a")).await })
    };
    while proxy.bytes(Direction::ToServer) == sent {
        tokio::task::yield_now().await;
    }
    proxy.cut();
    under_way.await.unwrap().expect("the other endpoint answers");
}

#[tokio::test]
async fn a_frozen_member_times_out_and_another_serves() {
    let cluster = Cluster::builder().members(3).start().await.unwrap();
    let leader = cluster.leader().await.unwrap();
    let frozen = (leader + 1) % 3;
    let mut endpoints = cluster.endpoints();
    endpoints.rotate_left(frozen);
    let store = store_at(endpoints);
    call(&store, write("a")).await.unwrap();
    cluster.freeze(frozen).unwrap();
    let error = store.call(write("b"), SHORT).await.unwrap_err();
    assert_eq!((error.kind, error.ambiguous), (ErrorKind::Timeout, true), "{error}");
    for i in 0..20 {
        store.call(write(&format!("c{i}")), SHORT).await.unwrap();
    }
    cluster.thaw(frozen).unwrap();
}

#[tokio::test]
async fn a_member_without_a_leader_says_so_and_another_is_asked_with_the_same_write() {
    let cluster = Cluster::builder().members(3).start().await.unwrap();
    let alone = (cluster.leader().await.unwrap() + 1) % 3;
    let mut endpoints = cluster.endpoints();
    endpoints.rotate_left(alone);
    let only = store_at(vec![cluster.endpoint(alone)]);
    let store = store_at(endpoints);
    let mut watches = only.watches();
    watches.requests.send(WatchRequest::Create(WatchId(1), Keys::one(key("a")))).unwrap();
    assert!(matches!(next(&mut watches.replies).await, Ok(WatchReply::Created { .. })));
    cluster.cut_off(alone).unwrap();
    let broken = next(&mut watches.replies).await.unwrap_err();
    assert_eq!((broken.kind, broken.ambiguous), (ErrorKind::Unavailable, false), "{broken}");
    assert!(broken.message.ends_with("no leader"), "{broken}");

    let error = call(&only, write("a")).await.unwrap_err();
    assert_eq!((error.kind, error.ambiguous), (ErrorKind::Unavailable, false), "{error}");
    assert!(error.message.ends_with("no leader"), "{error}");
    call(&store, write("b")).await.unwrap();
}

#[tokio::test]
async fn a_hedged_renewal_goes_to_another_endpoint_and_is_answered_there() {
    let cluster = Cluster::builder().members(3).start().await.unwrap();
    let frozen = (cluster.leader().await.unwrap() + 1) % 3;
    let mut endpoints = cluster.endpoints();
    endpoints.rotate_left(frozen);
    let store = store_at(endpoints);
    let lease = grant(&store, 60).await;
    let mut first = store.renewals(0);
    first.requests.send(lease).unwrap();
    next(&mut first.replies).await.unwrap();

    cluster.freeze(frozen).unwrap();
    first.requests.send(lease).unwrap();
    // The stream passes the renewal on; only then is its silence worth a hedge.
    assert!(tokio::time::timeout(SHORT, first.replies.recv()).await.is_err());
    let start = Instant::now();
    let mut second = store.renewals(1);
    second.requests.send(lease).unwrap();
    assert_eq!(next(&mut second.replies).await.unwrap().lease, lease);
    assert!(start.elapsed() < SHORT, "{:?}", start.elapsed());
    // The first stream is given up unanswered, which tells the store about its endpoint before a call has to find out.
    drop(first);
    tokio::task::yield_now().await;
    store.call(write("a"), SHORT).await.unwrap();
    cluster.thaw(frozen).unwrap();
}

#[tokio::test]
async fn streams_on_a_frozen_server_end_with_an_error() {
    let cluster = Cluster::builder().start().await.unwrap();
    let store = store_of(&cluster);
    let lease = grant(&store, 60).await;
    let mut stream = store.renewals(0);
    stream.requests.send(lease).unwrap();
    next(&mut stream.replies).await.unwrap();
    cluster.freeze(0).unwrap();
    // Nobody sends anything: the ping of the connection finds out, 10 + 3 seconds later at most.
    let error = next(&mut stream.replies).await.unwrap_err();
    assert_eq!((error.kind, error.ambiguous), (ErrorKind::Unavailable, false), "{error}");
    cluster.thaw(0).unwrap();
}

/// Waits until the proxy has seen so many connections.
async fn connections(proxy: &Proxy, count: usize) {
    let seen = async {
        while proxy.accepted() < count {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(LIMIT, seen).await.expect("no new connection");
    assert_eq!(proxy.accepted(), count);
}

#[tokio::test]
async fn after_silence_the_only_endpoint_is_asked_on_one_new_connection() {
    let cluster = Cluster::builder().start().await.unwrap();
    let proxy = Proxy::start(cluster.address(0)).unwrap();
    let store = store_at(vec![url(&proxy)]);
    let within = |limit: Duration| {
        let store = store.clone();
        tokio::spawn(async move { store.call(range("a"), limit).await })
    };
    call(&store, write("a")).await.unwrap();
    connections(&proxy, 1).await;
    proxy.hold_all();
    let (first, second) = (within(SHORT / 2), within(SHORT));
    assert_eq!(first.await.unwrap().unwrap_err().kind, ErrorKind::Timeout);
    let third = within(LIMIT);
    connections(&proxy, 2).await;
    assert_eq!(second.await.unwrap().unwrap_err().kind, ErrorKind::Timeout);
    let fourth = within(LIMIT);
    proxy.pass();
    third.await.unwrap().unwrap();
    fourth.await.unwrap().unwrap();
    connections(&proxy, 2).await;
}

#[tokio::test]
async fn a_hedge_to_the_only_endpoint_has_a_connection_of_its_own() {
    let cluster = Cluster::builder().start().await.unwrap();
    let proxy = Proxy::start(cluster.address(0)).unwrap();
    let store = store_at(vec![url(&proxy)]);
    let lease = grant(&store, 60).await;
    let mut standing = store.renewals(0);
    standing.requests.send(lease).unwrap();
    next(&mut standing.replies).await.unwrap();
    proxy.hold_all();
    standing.requests.send(lease).unwrap();
    assert!(tokio::time::timeout(SHORT / 2, standing.replies.recv()).await.is_err());
    let mut hedge = store.renewals(1);
    hedge.requests.send(lease).unwrap();
    connections(&proxy, 2).await;
    proxy.pass();
    assert_eq!(next(&mut hedge.replies).await.unwrap().ttl, 60);
    assert_eq!(next(&mut standing.replies).await.unwrap().ttl, 60, "what was under way went on");
}

#[tokio::test]
async fn a_call_with_no_time_left_is_not_sent() {
    let cluster = Cluster::builder().start().await.unwrap();
    let store = store_of(&cluster);
    let error = store.call(write("a"), Duration::ZERO).await.unwrap_err();
    assert_eq!((error.kind, error.ambiguous), (ErrorKind::Timeout, false), "{error}");
    let ReplyBody::Range(reply) = call(&store, range("a")).await.unwrap().body else { panic!("not a range") };
    assert_eq!(reply.count, 0);
    store.call(Request::Range(super::read(Keys::one(key("a")))), Duration::MAX).await.unwrap();
}
