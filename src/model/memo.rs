//! A bounded, thread-safe cache of computed values; and hashes of numbers, for its keys.

use std::hash::Hash;
use std::sync::{Mutex, PoisonError};

use indexmap::IndexMap;

/// A cache of values by key, which evicts the oldest first. Shared between threads.
pub(in crate::model) struct Memo<K, V> {
    capacity: usize,
    entries: Mutex<IndexMap<K, V>>,
}

impl<K: Hash + Eq, V: Clone> Memo<K, V> {
    /// An empty cache of at most `capacity` values.
    pub fn new(capacity: usize) -> Self {
        Self { capacity, entries: Mutex::default() }
    }

    /// The cached value of `key`, or what `make` returns, which is then cached. Two concurrent threads may both call `make`.
    pub fn get(&self, key: K, make: impl FnOnce() -> V) -> V {
        let entries = || self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(value) = entries().get(&key) {
            return value.clone();
        }
        // Computed without the lock: a rayon thread that waits in `make` may run another task that takes it.
        let value = make();
        let mut entries = entries();
        if entries.len() >= self.capacity && !entries.contains_key(&key) {
            entries.shift_remove_index(0);
        }
        entries.insert(key, value.clone());
        value
    }
}

/// A 64-bit hash of `values`, each given by its `bits`; `so_far` is the hash of what precedes them. Not cryptographic.
pub(in crate::model) fn mark<T: Copy>(so_far: u64, values: &[T], bits: impl Fn(T) -> u64) -> u64 {
    let fold = |hash: u64, bits: u64| (hash.rotate_left(5) ^ bits).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    // Eight independent hashes, so that multiplications overlap.
    let (blocks, rest) = values.as_chunks::<8>();
    let mut lanes = [so_far; 8];
    for block in blocks {
        lanes.iter_mut().zip(block).for_each(|(hash, value)| *hash = fold(*hash, bits(*value)));
    }
    lanes.into_iter().chain(rest.iter().map(|value| bits(*value))).fold(0, fold)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_that_two_threads_made_takes_the_place_of_no_other() {
        let memo = Memo::new(2);
        memo.get(1, || 'a');
        memo.get(2, || memo.get(2, || 'b')); // the inner one is the other thread's
        assert_eq!(memo.get(1, || 'c'), 'a');
        memo.get(3, || 'd'); // in place of the first
        assert_eq!(memo.get(1, || 'e'), 'e');
    }

    #[test]
    fn a_mark_tells_values_and_places() {
        let values: Vec<f64> = (0..21).map(f64::from).collect();
        let of = |values: &[f64]| mark(7, values, f64::to_bits);
        assert_eq!(of(&values), of(&values.clone()));
        for at in 0..values.len() {
            let mut other = values.clone();
            other[at] += 1e-9;
            assert_ne!(of(&values), of(&other), "at {at}");
            other.clone_from(&values);
            other.swap(at, (at + 8) % values.len());
            assert_ne!(of(&values), of(&other), "swapped at {at}");
        }
        assert_ne!(of(&values), mark(8, &values, f64::to_bits));
    }
}
