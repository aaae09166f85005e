//! Which numbers the keys of a session have in one queue: the smallest free one each, used again once its key is surely gone.
//!
//! Numbers are used again because etcd remembers every key that ever was until it compacts, and walks through the dead ones at
//! every read of the queue: with a new key for each acquire, an acquire took 140 µs longer after 1,200 others.
//!
//! A number is free again only when its key was seen deleted and no request about it can still be on its way. One whose fate
//! was ever unknown is never used again in its session.

use std::collections::BTreeSet;

/// The numbers of one session in one queue.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Numbers {
    /// Numbers up to this one have been used.
    highest: u64,
    free: BTreeSet<u64>,
}

impl Numbers {
    /// The smallest number that nobody uses.
    pub fn take(&mut self) -> u64 {
        self.free.pop_first().unwrap_or_else(|| {
            self.highest += 1;
            self.highest
        })
    }

    /// The key with this number is surely gone.
    pub fn give_back(&mut self, number: u64) {
        self.free.insert(number);
    }
}
