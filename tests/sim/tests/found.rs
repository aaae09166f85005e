//! Bugs that the simulation found once in many thousand seeds, played by hand: each trace stands in its test.

use std::{sync::Arc, time::Duration};

use leasehold::{
    clock::Moment,
    hub::{Acquire, Action, Config, Hub, Input, RpcId},
    queue::member::{Mode, Ticket},
    store::{ErrorKind, Key, Keys, Range, Reply, Request, StoreError, memory::Kv},
};

/// A client and its etcd; every call waits until the test says what becomes of it.
struct Stage {
    hub: Hub,
    kv: Kv,
    now: Moment,
    calls: Vec<(RpcId, Request)>,
    told: Vec<Action>,
}

impl Stage {
    fn new() -> Self {
        let config = Config {
            namespace: String::new(),
            ttl: Duration::from_secs(15),
            call_timeout: Duration::from_secs(2),
            request_timeout: Duration::from_secs(10),
            seed: 1,
        };
        let now = Moment::from_nanos(1_000_000_000);
        Self { hub: Hub::new(config), kv: Kv::new(), now, calls: Vec::new(), told: Vec::new() }
    }

    fn feed(&mut self, input: Input) {
        let mut actions = Vec::new();
        self.hub.handle(self.now, input, &mut actions);
        for action in actions {
            match action {
                Action::Call(rpc, request, _) => self.calls.push((rpc, request)),
                other => self.told.push(other),
            }
        }
    }

    fn acquire(&mut self, ticket: u64, mode: Mode, ttl: u64, renew: bool) {
        let name = Arc::from("/a");
        let ttl = Duration::from_secs(ttl);
        let acquire = Acquire { name, mode, ttl, renew, requeue: true, wait: None, value: Arc::default() };
        self.feed(Input::Acquire(Ticket(ticket), acquire));
    }

    fn apply(&mut self, request: &Request) -> Result<Reply, StoreError> {
        self.kv.call(self.now, request)
    }

    /// The only call on its way.
    fn only_call(&mut self) -> (RpcId, Request) {
        assert_eq!(self.calls.len(), 1, "{:?}", self.calls);
        self.calls.remove(0)
    }

    /// Lets every call take effect and be answered, in their order, until there is none.
    fn settle(&mut self) {
        while !self.calls.is_empty() {
            let (rpc, request) = self.calls.remove(0);
            let result = self.apply(&request);
            self.feed(Input::Reply(rpc, result));
        }
    }

    fn time_out(&mut self, rpc: RpcId) {
        self.feed(Input::Reply(rpc, Err(StoreError::ambiguous(ErrorKind::Timeout, "no answer"))));
    }

    /// Time passes until the next timer.
    fn wake(&mut self) {
        self.now = self.hub.wake().expect("a timer");
        self.feed(Input::Wake);
    }

    fn keys(&self) -> Vec<Key> {
        let all = Range { keys: Keys::prefix(Key::from("/a/")), limit: 0, keys_only: false };
        self.kv.range(&all).kvs.into_iter().map(|kv| kv.key).collect()
    }

    fn token(&self, ticket: u64) -> Option<i64> {
        self.told.iter().find_map(|action| match action {
            Action::Acquired(of, hold) if of.0 == ticket => Some(hold.token),
            _ => None,
        })
    }
}

/// The first enqueue of K is held up and given up. Its retry puts K, the lock is held and released, the reply to the delete is lost.
/// Then the first enqueue takes effect: K stands again. The cleaner's delete is guarded by the first revision and finds nothing.
/// Rule: once the delete of a key is confirmed whose enqueue was ambiguous, the key is deleted by name.
#[test]
fn the_ghost_of_a_released_key_is_deleted() {
    let mut stage = Stage::new();
    stage.acquire(1, Mode::Wait, 15, true);
    let (rpc, grant) = stage.only_call();
    let granted = stage.apply(&grant);
    stage.feed(Input::Reply(rpc, granted));
    let (rpc, held_up) = stage.only_call();
    stage.time_out(rpc);
    stage.wake();
    stage.settle();
    assert!(stage.token(1).is_some(), "the retry wins: {:?}", stage.told);
    stage.feed(Input::Release(Ticket(1)));
    let (rpc, delete) = stage.only_call();
    stage.apply(&delete).expect("the delete");
    stage.time_out(rpc);
    stage.apply(&held_up).expect("the first enqueue");
    assert_eq!(stage.keys().len(), 1, "the ghost stands");
    stage.settle();
    assert_eq!(stage.keys(), [], "the ghost is gone");
}

/// A copy of an enqueue takes effect after its key K was deleted. The number of K is free again: the next try is given K and finds it
/// standing. Rule: what no earlier attempt of one's own can have written is not one's own.
#[test]
fn a_key_that_stands_already_is_not_taken_for_ones_own() {
    let mut stage = Stage::new();
    stage.acquire(1, Mode::Wait, 15, true);
    let (rpc, grant) = stage.only_call();
    let granted = stage.apply(&grant);
    stage.feed(Input::Reply(rpc, granted));
    let (rpc, enqueue) = stage.only_call();
    let joined = stage.apply(&enqueue);
    stage.feed(Input::Reply(rpc, joined));
    stage.feed(Input::Release(Ticket(1)));
    stage.settle();
    let copy = stage.apply(&enqueue).expect("the copy");
    assert_eq!(stage.keys().len(), 1, "the ghost stands");
    stage.acquire(2, Mode::Try, 15, true);
    stage.settle();
    // Whether the try wins depends on which is first, it or the delete of the ghost.
    assert!(stage.token(2).is_none_or(|token| token > copy.revision), "{:?}", stage.told);
    assert_eq!(stage.keys().len(), usize::from(stage.token(2).is_some()), "the ghost is gone");
}

/// A hold without renewal is released just before its end. The session reaches its limit and revokes its lease, the revoke overtakes
/// the delete. Rule: whoever releases while the session is valid has released.
#[test]
fn a_release_just_before_the_end_is_a_release() {
    let mut stage = Stage::new();
    stage.acquire(1, Mode::Wait, 2, false);
    stage.settle();
    assert!(stage.token(1).is_some());
    stage.now = stage.now + Duration::from_millis(1_890);
    stage.feed(Input::Release(Ticket(1)));
    let (delete_rpc, delete) = stage.only_call();
    stage.now = stage.now + Duration::from_millis(20);
    stage.feed(Input::Wake);
    stage.settle();
    let deleted = stage.apply(&delete);
    stage.feed(Input::Reply(delete_rpc, deleted));
    let released: Vec<_> = stage.told.iter().filter(|action| matches!(action, Action::Released(..))).collect();
    assert!(matches!(released[..], [Action::Released(Ticket(1), Ok(()))]), "{released:?}");
}
