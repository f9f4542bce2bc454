//! Swapping entries of an ordered map: what closing an entry removes, undo puts back.

use std::hash::Hash;

use indexmap::IndexMap;

/// Entries by key, each with its index in the map; `None` for a key that is, or is to be, absent.
pub(super) type Entries<K, V> = IndexMap<K, Option<(usize, V)>>;

/// Entries that [`swap`] removes.
pub(super) fn removed<K: Eq + Hash, V>(ids: impl IntoIterator<Item = K>) -> Entries<K, V> {
    ids.into_iter().map(|id| (id, None)).collect()
}

/// Drops those entries from `wanted` that `map` already has under another key.
pub(super) fn drop_duplicates<K: Eq + Hash, V>(
    wanted: &mut Entries<K, V>,
    map: &IndexMap<K, V>,
    same: impl Fn(&V, &V) -> bool,
) {
    wanted.retain(|key, entry| {
        let Some((_, entry)) = entry else { return true };
        !map.iter().any(|(other, value)| other != key && same(entry, value))
    });
}

/// Replaces the entries of `map` with the keys of `wanted`: removes them, and inserts those that `wanted` holds at their
/// indices. All others keep their order. Returns the same keys with their previous entries. O(n) for a map of n entries.
pub(super) fn swap<K: Clone + Eq + Hash, V>(
    map: &mut IndexMap<K, V>,
    wanted: Entries<K, V>,
) -> Entries<K, V> {
    if wanted.is_empty() {
        return wanted;
    }
    let mut was: Entries<K, V> = wanted.keys().map(|key| (key.clone(), None)).collect();
    let mut rest = Vec::with_capacity(map.len());
    for (place, (key, value)) in std::mem::take(map).into_iter().enumerate() {
        match was.get_mut(&key) {
            Some(entry) => *entry = Some((place, value)),
            None => rest.push((key, value)),
        }
    }
    let placed =
        wanted.into_iter().filter_map(|(key, entry)| entry.map(|(place, value)| (place, key, value)));
    let mut placed: Vec<(usize, K, V)> = placed.collect();
    placed.sort_by_key(|(place, ..)| *place);
    let mut placed = placed.into_iter().peekable();
    for (key, value) in rest {
        while let Some((_, key, value)) = placed.next_if(|(place, ..)| *place <= map.len()) {
            map.insert(key, value);
        }
        map.insert(key, value);
    }
    map.extend(placed.map(|(_, key, value)| (key, value)));
    was
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_taken_out_comes_back_to_its_place_and_others_stay() {
        let map = |keys: &str| -> IndexMap<char, ()> { keys.chars().map(|key| (key, ())).collect() };
        let mut letters = map("abcdef");
        let removed = swap(&mut letters, "acf".chars().map(|key| (key, None)).collect());
        assert_eq!(letters, map("bde"));
        letters.insert('x', ());
        let back = swap(&mut letters, removed);
        assert!(
            letters.keys().eq(map("abcdefx").keys()) && back.values().all(Option::is_none),
            "{letters:?}"
        );
        let moved = swap(&mut letters, [('b', Some((4, ())))].into_iter().collect());
        assert!(letters.keys().eq(map("acdebfx").keys()), "{letters:?}");
        swap(&mut letters, moved);
        assert!(letters.keys().eq(map("abcdefx").keys()), "{letters:?}");
    }
}
