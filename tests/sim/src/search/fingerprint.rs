//! Fingerprints of 128 bits, quick to take: two lanes of multiply and rotate.

use std::{
    hash::{Hash, Hasher},
    rc::Rc,
};

/// A hasher with two lanes, so that a million states collide with a chance of less than 10⁻²⁰.
#[derive(Clone, Copy, Debug)]
pub struct Wide {
    a: u64,
    b: u64,
}

impl Default for Wide {
    fn default() -> Self {
        Self { a: 0x243f_6a88_85a3_08d3, b: 0x1319_8a2e_0370_7344 }
    }
}

impl Wide {
    /// The fingerprint of all that was hashed.
    pub fn wide(mut self) -> u128 {
        self.write_u64(0x9e37_79b9_7f4a_7c15);
        self.write_u64(self.a >> 32);
        (u128::from(self.a) << 64) | u128::from(self.b)
    }
}

impl Hasher for Wide {
    fn finish(&self) -> u64 {
        self.a ^ self.b.rotate_left(32)
    }
    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.write_u64(u64::from_le_bytes(word));
        }
        self.write_u64(bytes.len() as u64);
    }
    fn write_u64(&mut self, value: u64) {
        let folded = |lane: u64, by: u64| {
            let product = u128::from(lane ^ value).wrapping_mul(u128::from(by));
            (product as u64) ^ ((product >> 64) as u64)
        };
        self.a = folded(self.a, 0xa076_1d64_78bd_642f).wrapping_add(value);
        self.b = folded(self.b.rotate_left(23), 0xe703_7ed1_a0b4_28db).wrapping_add(value.rotate_left(32));
    }
    fn write_u8(&mut self, value: u8) {
        self.write_u64(value.into());
    }
    fn write_u32(&mut self, value: u32) {
        self.write_u64(value.into());
    }
    fn write_usize(&mut self, value: usize) {
        self.write_u64(value as u64);
    }
    fn write_i64(&mut self, value: i64) {
        self.write_u64(value as u64);
    }
}

/// The fingerprint of `value`.
pub fn of(value: &impl Hash) -> u128 {
    let mut hasher = Wide::default();
    value.hash(&mut hasher);
    hasher.wide()
}

/// A part of a state that most steps leave as it is: shared between states, and fingerprinted only when it changes.
#[derive(Debug)]
pub struct Part<T> {
    value: Rc<T>,
    fingerprint: u128,
}

impl<T> Clone for Part<T> {
    fn clone(&self) -> Self {
        Self { value: self.value.clone(), fingerprint: self.fingerprint }
    }
}

impl<T: Clone + Hash> Part<T> {
    /// A part.
    pub fn new(value: T) -> Self {
        let fingerprint = of(&value);
        Self { value: Rc::new(value), fingerprint }
    }

    /// Its fingerprint.
    pub fn fingerprint(&self) -> u128 {
        self.fingerprint
    }

    /// Changes it.
    pub fn change<R>(&mut self, act: impl FnOnce(&mut T) -> R) -> R {
        let value = Rc::make_mut(&mut self.value);
        let result = act(value);
        self.fingerprint = of(value);
        result
    }
}

impl<T> std::ops::Deref for Part<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}
