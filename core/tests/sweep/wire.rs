//! The way of one client to every member of a cluster, over the wire: a proxy of bytes, a relay that knows gRPC, the member.
//!
//! A reply that is to come late passes the relay and is held as bytes: it reaches the client when that has given its call up and
//! said so, and so does everything else from that member, as on a network that stalls. A request that is to come late is held by
//! the relay and reaches its member whatever the client did meanwhile, and so are the unary requests after it: renewals pass, and
//! let the member look well, but the client gets on through another one only.

use std::{
    collections::HashMap,
    net::SocketAddr,
    sync::{
        Arc, Mutex, OnceLock,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use leasehold_etcd::{Direction, Fate, Gate, Passing, Proxy, Relay};
use tokio::time::{Instant, sleep};

use crate::{
    decode,
    tally::{Fault, Kind, Tally, UnderWay},
};

/// The way to all members.
pub struct Wire {
    tolls: Vec<Arc<Toll>>,
    /// Kept for as long as the client may connect.
    _relays: Vec<Relay>,
}

impl Wire {
    pub fn new(members: &[SocketAddr], tally: &Arc<Tally>) -> Self {
        let (mut tolls, mut relays) = (Vec::new(), Vec::new());
        for member in members {
            let toll = Arc::new(Toll {
                tally: tally.clone(),
                proxy: OnceLock::new(),
                calls: Mutex::default(),
                requests: AtomicUsize::new(0),
                held_until: Mutex::default(),
            });
            let relay = Relay::start(*member, toll.clone()).expect("a free port");
            let proxy = Proxy::start(relay.address()).expect("a free port");
            toll.proxy.set(Arc::new(proxy)).expect("set once");
            tolls.push(toll);
            relays.push(relay);
        }
        Self { tolls, _relays: relays }
    }

    /// How many unary requests of a lock came by on the way to each member.
    pub fn requests(&self) -> Vec<usize> {
        self.tolls.iter().map(|toll| toll.requests.load(Ordering::Relaxed)).collect()
    }

    pub fn endpoints(&self) -> Vec<String> {
        self.tolls.iter().map(|toll| format!("http://{}", toll.proxy().address())).collect()
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        for toll in &self.tolls {
            toll.proxy().cut();
        }
    }
}

/// What stands before one member: books what passes, and plays the fault that is planted for it.
struct Toll {
    tally: Arc<Tally>,
    proxy: OnceLock<Arc<Proxy>>,
    /// Unary calls without their reply.
    calls: Mutex<HashMap<u64, Call>>,
    requests: AtomicUsize,
    /// Unary requests are held up until then.
    held_until: Mutex<Option<Instant>>,
}

struct Call {
    kind: Kind,
    /// What is to become of its reply.
    fault: Option<Fault>,
    /// If its request was held up.
    _under_way: Option<UnderWay>,
}

impl Gate for Toll {
    fn judge(&self, passing: &Passing) -> Fate {
        match (&*passing.method, passing.direction) {
            ("LeaseKeepAlive", Direction::ToServer) => self.streamed(Kind::RenewalRequest),
            ("LeaseKeepAlive", Direction::ToClient) => self.streamed(Kind::RenewalReply),
            ("Watch", Direction::ToServer) => self.streamed(Kind::WatchRequest),
            ("Watch", Direction::ToClient) => self.streamed(Kind::WatchReply),
            (_, Direction::ToServer) => self.asked(passing),
            (_, Direction::ToClient) => self.answered(passing.exchange),
        }
    }

    fn over(&self, exchange: u64) {
        self.calls.lock().unwrap().remove(&exchange);
    }
}

impl Toll {
    fn proxy(&self) -> &Arc<Proxy> {
        self.proxy.get().expect("set before anybody connects")
    }

    fn streamed(&self, kind: Kind) -> Fate {
        let fault = self.tally.ask(kind);
        match fault {
            Some(Fault::Lost) => return Fate::Swallow,
            Some(Fault::LateRequest(after)) => {
                let under_way = self.tally.set_out();
                tokio::spawn(async move {
                    sleep(after).await;
                    drop(under_way);
                });
                return Fate::Late(after);
            }
            _ => {}
        }
        self.reply(kind, fault)
    }

    fn asked(&self, passing: &Passing) -> Fate {
        let Some(request) = decode::request(&passing.method, &passing.message) else { return Fate::Pass };
        self.requests.fetch_add(1, Ordering::Relaxed);
        self.tally.note_lease(&request);
        let kind = Kind::of(&request);
        let fault = self.tally.ask(kind);
        let mut held_until = self.held_until.lock().unwrap();
        if let Some(Fault::LateRequest(after)) = fault {
            *held_until = Some(Instant::now() + after);
        }
        let (fate, under_way) = match held_until.map(|until| until.saturating_duration_since(Instant::now())) {
            None | Some(Duration::ZERO) => (Fate::Pass, None),
            Some(rest) => (Fate::Late(rest), Some(self.tally.set_out())),
        };
        drop(held_until);
        self.calls.lock().unwrap().insert(passing.exchange, Call { kind, fault, _under_way: under_way });
        fate
    }

    fn answered(&self, exchange: u64) -> Fate {
        match self.calls.lock().unwrap().remove(&exchange) {
            Some(call) => self.reply(call.kind, call.fault),
            None => Fate::Pass,
        }
    }

    fn reply(&self, kind: Kind, fault: Option<Fault>) -> Fate {
        match fault {
            Some(Fault::Lost | Fault::Silent) => return Fate::Silence,
            Some(Fault::Broken) => {
                self.proxy().reset();
                return Fate::Silence;
            }
            Some(Fault::LateReply(after)) => self.stall(after),
            Some(Fault::LateRequest(_) | Fault::Refused) | None => {}
        }
        self.tally.answer(kind);
        Fate::Pass
    }

    /// Nothing reaches the client from this member for so long.
    fn stall(&self, long: Duration) {
        self.proxy().hold(Direction::ToClient);
        let (proxy, under_way) = (self.proxy().clone(), self.tally.set_out());
        tokio::spawn(async move {
            sleep(long).await;
            proxy.pass();
            drop(under_way);
        });
    }
}
