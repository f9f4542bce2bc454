//! Values that are computed once for a key, of which only the newest are kept.

use std::hash::Hash;
use std::sync::{Mutex, PoisonError};

use indexmap::IndexMap;

/// What is known by a key, the oldest forgotten first. Shared between threads.
pub(in crate::model) struct Memo<K, V> {
    capacity: usize,
    known: Mutex<IndexMap<K, V>>,
}

impl<K: Hash + Eq, V: Clone> Memo<K, V> {
    /// Keeps so many values.
    pub fn new(capacity: usize) -> Self {
        Self { capacity, known: Mutex::default() }
    }

    /// The value of `key`, made where it is not known. Two threads that ask at once may both make it.
    pub fn get(&self, key: K, make: impl FnOnce() -> V) -> V {
        let known = || self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(value) = known().get(&key) {
            return value.clone();
        }
        // Computed without the lock: a rayon thread that waits on it could be the one to release it.
        let value = make();
        let mut known = known();
        if known.len() >= self.capacity {
            known.shift_remove_index(0);
        }
        known.insert(key, value.clone());
        value
    }
}
