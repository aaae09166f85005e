//! The store of the small cluster: what is written to it, and what that tells the watches.

use leasehold::{
    clock::Moment,
    store::{
        Key, KeyValue, Keys, Pick, Range, WatchId, WatchReply,
        memory::{Kv, matching},
    },
};

use super::State;

impl State {
    /// Changes the store and tells the watches.
    pub(super) fn write(&mut self, act: impl FnOnce(&mut Kv, Moment)) {
        let now = self.now;
        let told: Vec<(u8, WatchReply)> = self.etcd.change(|etcd| {
            act(&mut etcd.kv, now);
            let changes = etcd.kv.take_changes();
            let tell = |(client, id): &(u8, WatchId), keys: &Keys| {
                let events = matching(keys, &changes);
                (!events.is_empty()).then_some((*client, WatchReply::Events { id: *id, events }))
            };
            etcd.watches.iter().filter_map(|(id, keys)| tell(id, keys)).collect()
        });
        if !told.is_empty() {
            self.wires.change(|wires| {
                for (client, reply) in told {
                    wires.watch_down[client as usize].push_back(reply);
                }
            });
        }
    }

    pub(super) fn expire(&mut self) {
        if self.etcd.kv.next_expiry().is_some_and(|at| at <= self.now) {
            self.write(|kv, now| drop(kv.expire(now)));
        }
    }

    pub(super) fn contenders(&self) -> Vec<KeyValue> {
        let keys = Keys::prefix(Key::from("/"));
        let mut found = self.etcd.kv.range(&Range { keys, limit: 0, keys_only: false, pick: Pick::All }).kvs;
        found.sort_by_key(|kv| kv.create_revision);
        found
    }
}
