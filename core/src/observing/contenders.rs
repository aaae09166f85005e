//! The contenders of an election as an observer knows them: in their order, each with what its key says. Sans I/O.

use std::{collections::BTreeMap, sync::Arc};

use crate::{
    queue::{
        view::Position,
        wire::{self, Prefix, Proclamation},
    },
    store::{Change, Key, KeyValue, Keys, WatchEvent},
};

/// Tells the proclamations of one election apart: the key, its create revision, and the revision of its last write.
pub(super) type Identity = (Key, i64, i64);

/// What a contender's key says.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Said {
    value: Arc<[u8]>,
    revision: i64,
}

/// The contenders below one name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Contenders {
    prefix: Prefix,
    order: BTreeMap<Position, Said>,
    /// The create revision of each of them.
    keys: BTreeMap<Key, i64>,
}

impl Contenders {
    /// Nobody is known yet.
    pub(super) fn new(prefix: Prefix) -> Self {
        Self { prefix, order: BTreeMap::new(), keys: BTreeMap::new() }
    }

    /// The keys that are theirs.
    pub(super) fn range(&self) -> &Keys {
        self.prefix.keys()
    }

    /// These are all that there are.
    pub(super) fn replace(&mut self, kvs: Vec<KeyValue>) {
        self.order.clear();
        self.keys.clear();
        for kv in kvs.into_iter().filter(|kv| self.prefix.is_contender(&kv.key)) {
            self.keys.insert(kv.key.clone(), kv.create_revision);
            let said = Said { value: kv.value, revision: kv.mod_revision };
            self.order.insert((kv.create_revision, kv.key), said);
        }
    }

    /// One of them changed.
    pub(super) fn take_in(&mut self, event: &WatchEvent) {
        if !self.prefix.is_contender(&event.key) {
            return;
        }
        let key = event.key.clone();
        if let Some(at) = self.keys.remove(&key) {
            self.order.remove(&(at, key.clone()));
        }
        if let Change::Put { value, create_revision, .. } = &event.change {
            self.keys.insert(key.clone(), *create_revision);
            let said = Said { value: value.clone(), revision: event.revision };
            self.order.insert((*create_revision, key), said);
        }
    }

    /// Who leads, and what it proclaims.
    pub(super) fn proclamation(&self) -> Option<Proclamation> {
        self.order.first_key_value().map(|((token, key), said)| Proclamation {
            key: key.clone(),
            token: *token,
            value: said.value.clone(),
            revision: said.revision,
        })
    }

    /// Who leads.
    pub(super) fn leader(&self) -> Option<Identity> {
        self.order.first_key_value().map(|((at, key), said)| (key.clone(), *at, said.revision))
    }

    /// Who would lead if these were all that there are.
    pub(super) fn first_of(&self, kvs: Vec<KeyValue>) -> Option<Identity> {
        wire::first(&self.prefix, kvs).map(|kv| (kv.key, kv.create_revision, kv.mod_revision))
    }
}
