//! A sorted map that most of the time has an entry or two: a client with a lock for each of 50,000 orders has as many queues, each
//! with several of these, and a node of a B-tree takes the room of eleven entries however few there are.
//!
//! Up to [`FEW`] entries stand in a vector that is no larger than it must be, more in a B-tree. Which of them it is depends on
//! nothing but their number, so equal maps are equal whatever their past.

use std::{collections::BTreeMap, mem, ops::Index};

/// So many entries stand in a vector.
const FEW: usize = 4;

/// A sorted map.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Few<K, V> {
    /// In order; empty if there are many.
    few: Vec<(K, V)>,
    /// Empty if there are few.
    many: BTreeMap<K, V>,
}

impl<K, V> Few<K, V> {
    /// A map without entries, which takes no room elsewhere.
    pub const fn new() -> Self {
        Self { few: Vec::new(), many: BTreeMap::new() }
    }

    /// How many entries there are.
    pub fn len(&self) -> usize {
        self.few.len() + self.many.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.few.is_empty() && self.many.is_empty()
    }

    /// The entries in order.
    pub fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.few.iter().map(|(key, value)| (key, value)).chain(&self.many)
    }

    /// The keys in order.
    pub fn keys(&self) -> impl Iterator<Item = &K> {
        self.iter().map(|(key, _)| key)
    }
}

impl<K, V> Default for Few<K, V> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K: Ord, V> Few<K, V> {
    /// The value of `key`.
    pub fn get(&self, key: &K) -> Option<&V> {
        self.find(key).map_or_else(|_| self.many.get(key), |at| Some(&self.few[at].1))
    }

    /// The value of `key`.
    pub fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        match self.find(key) {
            Ok(at) => Some(&mut self.few[at].1),
            Err(_) => self.many.get_mut(key),
        }
    }

    /// Whether there is a value of `key`.
    pub fn contains_key(&self, key: &K) -> bool {
        self.get(key).is_some()
    }

    /// The first entry.
    pub fn first_key_value(&self) -> Option<(&K, &V)> {
        self.few.first().map(|(key, value)| (key, value)).or_else(|| self.many.first_key_value())
    }

    /// The last entry.
    pub fn last_key_value(&self) -> Option<(&K, &V)> {
        self.few.last().map(|(key, value)| (key, value)).or_else(|| self.many.last_key_value())
    }

    /// Gives `key` that value, whatever it had before.
    pub fn insert(&mut self, key: K, value: V) {
        match self.find(&key) {
            Ok(at) => self.few[at].1 = value,
            Err(at) if self.many.is_empty() && self.few.len() < FEW => {
                if self.few.len() == self.few.capacity() {
                    // One, two, four: most have no second one.
                    self.few.reserve_exact(self.few.len().max(1));
                }
                self.few.insert(at, (key, value));
            }
            Err(_) => {
                self.many.extend(mem::take(&mut self.few));
                self.many.insert(key, value);
            }
        }
    }

    /// Takes `key` out.
    pub fn remove(&mut self, key: &K) -> Option<V> {
        let value = match self.find(key) {
            Ok(at) => Some(self.few.remove(at).1),
            Err(_) => self.many.remove(key),
        };
        if self.is_empty() {
            self.few = Vec::new();
        } else if (1..=FEW).contains(&self.many.len()) {
            self.few = mem::take(&mut self.many).into_iter().collect();
        }
        value
    }

    /// The value of `key`, which is made if it is not there.
    pub fn get_or_default(&mut self, key: K) -> &mut V
    where
        K: Copy,
        V: Default,
    {
        if !self.contains_key(&key) {
            self.insert(key, V::default());
        }
        self.get_mut(&key).expect("an entry that is there")
    }

    fn find(&self, key: &K) -> Result<usize, usize> {
        self.few.binary_search_by(|(of, _)| of.cmp(key))
    }
}

impl<K: Ord, V> Index<&K> for Few<K, V> {
    type Output = V;

    fn index(&self, key: &K) -> &V {
        self.get(key).expect("an entry that is there")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whatever is put in and taken out, it has the entries that a B-tree has, in its order, and is equal to a map that never had
    /// others.
    #[test]
    fn it_is_a_sorted_map_however_many_there_are() {
        let mut random = fastrand::Rng::with_seed(7);
        for _ in 0..200 {
            let (mut map, mut model) = (Few::new(), BTreeMap::new());
            for _ in 0..60 {
                let key = random.u8(0..9);
                if random.bool() {
                    let value = random.u8(..);
                    map.insert(key, value);
                    model.insert(key, value);
                } else {
                    assert_eq!(map.remove(&key), model.remove(&key));
                }
                if let Some(value) = map.get_mut(&key) {
                    *value = value.wrapping_add(1);
                    *model.get_mut(&key).unwrap() = *value;
                }
                assert!(map.iter().eq(model.iter()));
                assert_eq!((map.len(), map.is_empty()), (model.len(), model.is_empty()));
                assert_eq!(map.get(&key), model.get(&key));
                assert_eq!(map.contains_key(&key), model.contains_key(&key));
                assert_eq!(map.first_key_value(), model.first_key_value());
                assert_eq!(map.last_key_value(), model.last_key_value());
                let mut fresh = Few::new();
                model.iter().for_each(|(key, value)| fresh.insert(*key, *value));
                assert_eq!(map, fresh);
            }
        }
    }

    #[test]
    fn few_take_no_more_room_than_they_need() {
        let mut map = Few::new();
        assert_eq!(map.few.capacity(), 0);
        map.insert(1, ());
        assert_eq!(map.few.capacity(), 1);
        map.insert(2, ());
        map.insert(3, ());
        assert_eq!(map.few.capacity(), 4);
        for key in 1..=3 {
            map.remove(&key);
        }
        assert_eq!(map.few.capacity(), 0);
    }

    #[test]
    fn an_entry_is_made_where_there_is_none() {
        let mut map: Few<u8, Vec<u8>> = Few::new();
        for key in 0..9 {
            map.get_or_default(key % 3 + key / 5).push(key);
        }
        assert_eq!(map.iter().map(|(_, value)| value.len()).sum::<usize>(), 9);
    }
}
