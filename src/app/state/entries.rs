//! Some entries of an ordered map as they were: what closing takes away, and undo puts back.

use std::hash::Hash;

use indexmap::IndexMap;

/// Entries by key, each with its place in the map; nothing where it was not there.
pub(super) type Entries<K, V> = IndexMap<K, Option<(usize, V)>>;

/// These entries, taken away.
pub(super) fn gone<K: Eq + Hash, V>(ids: impl IntoIterator<Item = K>) -> Entries<K, V> {
    ids.into_iter().map(|id| (id, None)).collect()
}

/// Leaves out of `wanted` what is in `map` under another key.
pub(super) fn leave_out_open<K: Eq + Hash, V>(
    wanted: &mut Entries<K, V>,
    map: &IndexMap<K, V>,
    same: impl Fn(&V, &V) -> bool,
) {
    wanted.retain(|key, entry| {
        let Some((_, entry)) = entry else { return true };
        !map.iter().any(|(other, value)| other != key && same(entry, value))
    });
}

/// Takes the entries that `wanted` names out of `map`, and puts in those it has at their places; all
/// others keep their order. Returns the same entries as they were. O(n) for a map of n.
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
        let gone = swap(&mut letters, "acf".chars().map(|key| (key, None)).collect());
        assert_eq!(letters, map("bde"));
        letters.insert('x', ());
        let back = swap(&mut letters, gone);
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
