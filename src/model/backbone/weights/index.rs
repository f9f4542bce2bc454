//! The index of weights that are split over several files (shards).
//!
//! `{"metadata": ..., "weight_map": {"tensor name": "model-00001-of-00002.safetensors", ...}}`. A shard must be in the
//! folder of its index: any other path is refused, whatever it leads to. Links are followed, since the Hub's cache
//! consists of them; whoever can place links in the folder could place the files themselves.

use std::collections::BTreeSet;
use std::fmt;
use std::path::{Component, Path};

use indexmap::IndexMap;
use serde::Deserialize;
use serde::de::{Deserializer, Error, IgnoredAny, MapAccess, Visitor};

use super::error::WeightsError;
use super::file::Mapped;

/// Largest index read, in bytes; those of the largest models have a few MB.
const MAX_INDEX: usize = 64 << 20;

#[derive(Deserialize)]
struct Index {
    weight_map: Map<String>,
}

/// Reads the index at `path`: for every tensor, the file name of its shard.
pub(in super::super) fn read(path: &Path) -> Result<IndexMap<String, String>, WeightsError> {
    let wrong = |what: String| WeightsError::Index { path: path.into(), what };
    let file = Mapped::open(path)?;
    if file.len() > MAX_INDEX {
        return Err(wrong(format!("{} bytes are too large for an index; download it again", file.len())));
    }
    let index: Index = serde_json::from_slice(&file)
        .map_err(|error| wrong(format!("not an index of weights: {error}; download it again")))?;
    let map = index.weight_map.0;
    if map.is_empty() {
        return Err(wrong("its weight_map is empty; download it again".into()));
    }
    for (tensor, shard) in &map {
        let mut parts = Path::new(shard).components();
        let plain = matches!((parts.next(), parts.next()), (Some(Component::Normal(_)), None));
        if !plain || shard.contains(['/', '\\', '\0', ':']) {
            return Err(wrong(format!(
                "it places tensor {tensor:?} in {shard:?}, but a shard must be a file next to the index; the \
                 file was not opened, and the index should not be trusted"
            )));
        }
    }
    Ok(map)
}

/// Fails if `json` is no JSON object or has a key twice.
pub(super) fn unique_keys(json: &[u8]) -> Result<(), String> {
    serde_json::from_slice::<Map<IgnoredAny>>(json).map(drop).map_err(|error| error.to_string())
}

/// A JSON object whose keys are unique.
struct Map<V>(IndexMap<String, V>);

impl<'de, V: Deserialize<'de>> Deserialize<'de> for Map<V> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Unique<V>(std::marker::PhantomData<V>);
        impl<'de, V: Deserialize<'de>> Visitor<'de> for Unique<V> {
            type Value = Map<V>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Map<V>, A::Error> {
                let mut entries = IndexMap::new();
                while let Some(key) = map.next_key::<String>()? {
                    if entries.contains_key(&key) {
                        return Err(A::Error::custom(format!("{key:?} occurs twice")));
                    }
                    entries.insert(key, map.next_value()?);
                }
                Ok(Map(entries))
            }
        }
        deserializer.deserialize_map(Unique(std::marker::PhantomData))
    }
}

/// The distinct shards that `map` names, sorted by name.
pub(in super::super) fn shards(map: &IndexMap<String, String>) -> Vec<&str> {
    map.values().map(String::as_str).collect::<BTreeSet<_>>().into_iter().collect()
}
