//! A client and its etcd, played by hand.

#![allow(dead_code, reason = "each test file plays something else")]

use std::{collections::VecDeque, sync::Arc, time::Duration};

use leasehold::{
    Claim,
    clock::Moment,
    hub::{Acquire, Action, Batching, Config, Hub, Input, LeaseIds, RpcId, WINDOW, Want},
    store::{
        ErrorKind, Key, Keys, Op, Pick, Range, Renewed, Reply, Request, StoreError, Txn, WatchId, WatchReply,
        memory::Kv,
    },
    terms::{Mode, Sharing, Ticket},
};

/// A client and its etcd; every call waits until the test says what becomes of it.
pub struct Stage {
    pub hub: Hub,
    pub kv: Kv,
    pub now: Moment,
    pub calls: VecDeque<(RpcId, Request)>,
    pub told: Vec<Action>,
}

impl Stage {
    pub fn new() -> Self {
        Self::with_window(WINDOW)
    }

    /// A client that has so many requests on their way at a time.
    pub fn with_window(window: usize) -> Self {
        let config = Config {
            namespace: String::new(),
            ttl: Duration::from_secs(15),
            call_timeout: Duration::from_secs(2),
            request_timeout: Duration::from_secs(10),
            window,
            batching: Batching::USUAL,
            seed: 1,
            lease_ids: LeaseIds::Seeded,
        };
        let now = Moment::from_nanos(1_000_000_000);
        Self { hub: Hub::new(config), kv: Kv::new(), now, calls: VecDeque::new(), told: Vec::new() }
    }

    pub fn feed(&mut self, input: Input) {
        let mut actions = Vec::new();
        self.hub.handle(self.now, input, &mut actions);
        for action in actions {
            match action {
                Action::Call(rpc, request, _) => self.calls.push_back((rpc, request)),
                other => self.told.push(other),
            }
        }
    }

    pub fn acquire(&mut self, ticket: u64, mode: Mode, ttl: u64, renew: bool) {
        self.acquire_name("/a", ticket, mode, ttl, renew);
    }

    pub fn acquire_name(&mut self, name: &str, ticket: u64, mode: Mode, ttl: u64, renew: bool) {
        let (wants, ttl) = (vec![Want { name: Arc::from(name), claim: Claim::Exclusive }], Duration::from_secs(ttl));
        let (sharing, value) = (Sharing::default(), Arc::default());
        let acquire =
            Acquire { wants, mode, ttl, renew, requeue: true, wait: None, sharing, value, is_candidate: false };
        self.feed(Input::Acquire(Ticket(ticket), acquire));
    }

    pub fn apply(&mut self, request: &Request) -> Result<Reply, StoreError> {
        self.kv.call(self.now, request)
    }

    /// A foreign contender joins.
    pub fn put(&mut self, key: &str) {
        let put = Op::Put { key: Key::from(key), value: Arc::default(), lease: None };
        self.apply(&Request::Txn(Txn { then: vec![put], ..Txn::default() })).expect("a foreign contender");
    }

    /// The watch that was asked for last.
    pub fn last_watch(&self) -> Option<WatchId> {
        self.told.iter().rev().find_map(|action| match action {
            Action::Watch(id, _) => Some(*id),
            _ => None,
        })
    }

    /// The first watch stands, if there is one.
    pub fn see_created(&mut self) -> Option<WatchId> {
        let id = self.told.iter().find_map(|action| match action {
            Action::Watch(id, _) => Some(*id),
            _ => None,
        })?;
        let revision = self.kv.revision();
        self.feed(Input::Watch(WatchReply::Created { id, revision }));
        Some(id)
    }

    /// The only call on its way.
    pub fn only_call(&mut self) -> (RpcId, Request) {
        assert_eq!(self.calls.len(), 1, "{:?}", self.calls);
        self.calls.pop_front().expect("a call")
    }

    /// Lets the only call take effect and be answered; says which it was.
    pub fn serve(&mut self) -> Request {
        let (rpc, request) = self.only_call();
        let reply = self.apply(&request);
        self.feed(Input::Reply(rpc, reply));
        request
    }

    /// Lets every call take effect and be answered, in their order, until there is none.
    pub fn settle(&mut self) {
        while !self.calls.is_empty() {
            let (rpc, request) = self.calls.pop_front().expect("a call");
            let result = self.apply(&request);
            self.feed(Input::Reply(rpc, result));
        }
    }

    pub fn time_out(&mut self, rpc: RpcId) {
        self.feed(Input::Reply(rpc, Err(StoreError::ambiguous(ErrorKind::Timeout, "no answer"))));
    }

    /// Time passes until the next timer.
    pub fn wake(&mut self) {
        self.now = self.hub.wake().expect("a timer");
        self.feed(Input::Wake);
    }

    /// Time passes until the next timer, and whatever is asked then is answered, renewals included; watches stay silent.
    pub fn pass_on(&mut self) {
        self.wake();
        let asked: Vec<_> = self.told.extract_if(.., |action| matches!(action, Action::Renew(..))).collect();
        for action in asked {
            let Action::Renew(stream, lease) = action else { continue };
            let ttl = self.kv.renew(self.now, lease);
            self.feed(Input::Renewed(stream, Renewed { lease, ttl }));
        }
        self.settle();
    }

    /// Whether the next timer is the one at which `watch` is closed.
    pub fn closes_at_next_wake(&self, watch: WatchId) -> bool {
        let (mut hub, mut actions) = (self.hub.clone(), Vec::new());
        hub.handle(hub.wake().expect("a timer"), Input::Wake, &mut actions);
        actions.contains(&Action::Unwatch(watch))
    }

    pub fn keys(&self) -> Vec<Key> {
        let all = Range { keys: Keys::prefix(Key::from("/a/")), limit: 0, keys_only: false, pick: Pick::All };
        self.kv.range(&all).kvs.into_iter().map(|kv| kv.key).collect()
    }

    pub fn token(&self, ticket: u64) -> Option<i64> {
        self.told.iter().find_map(|action| match action {
            Action::Acquired(of, hold) if of.0 == ticket => Some(hold.token),
            _ => None,
        })
    }
}
