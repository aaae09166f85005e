//! A real etcd's store that notes when something is written.

use std::{
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use leasehold::store::{
    Op, RenewalStream, Reply, Request, Store, StoreFuture, Txn, WatchStream,
    etcd::{EtcdConfig, EtcdStore},
};

#[derive(Debug)]
pub struct Counted {
    etcd: EtcdStore,
    writes: Mutex<Vec<Instant>>,
}

impl Counted {
    pub fn new(endpoint: &str) -> Arc<Self> {
        let config = EtcdConfig {
            endpoints: vec![endpoint.to_owned()],
            tls: None,
            login: None,
            plaintext_password: false,
            connect_timeout: Duration::from_secs(2),
        };
        Arc::new(Self { etcd: EtcdStore::new(config).expect("a good endpoint"), writes: Mutex::default() })
    }

    /// The most writes within any second.
    pub fn most_writes(&self) -> usize {
        let writes = self.writes.lock().expect("whole");
        let within =
            |from: usize| writes[from..].iter().take_while(|at| at.duration_since(writes[from]) < SECOND).count();
        (0..writes.len()).map(within).max().unwrap_or(0)
    }
}

const SECOND: Duration = Duration::from_secs(1);

fn writes(txn: &Txn) -> bool {
    txn.then.iter().chain(&txn.otherwise).any(|op| match op {
        Op::Put { .. } | Op::Delete(_) => true,
        Op::Range(_) => false,
        Op::Txn(inner) => writes(inner),
    })
}

impl Store for Counted {
    fn call(&self, request: Request, timeout: Duration) -> StoreFuture<Reply> {
        let is_write = match &request {
            Request::Txn(txn) => writes(txn),
            Request::LeaseGrant { .. } | Request::LeaseRevoke { .. } => true,
            Request::Range(_) | Request::LeaseTimeToLive { .. } => false,
        };
        if is_write {
            self.writes.lock().expect("whole").push(Instant::now());
        }
        self.etcd.call(request, timeout)
    }

    fn renewals(&self, hedge: u32) -> RenewalStream {
        self.etcd.renewals(hedge)
    }

    fn watches(&self) -> WatchStream {
        self.etcd.watches()
    }
}
