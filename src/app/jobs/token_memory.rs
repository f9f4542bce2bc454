//! A cache of images' tokens in memory, so that another probe on the same image needs no forward pass. Bounded in bytes; the least
//! recently used are evicted first.

use std::sync::Arc;
use std::time::SystemTime;

use indexmap::IndexMap;

use crate::model::data::ImageSource;
use crate::model::tokens::Tokens;
use crate::model::trace::Picture;

/// The tokens of an image, and the pixels they were computed from.
pub(super) struct CachedTokens {
    pub(super) tokens: Tokens,
    pub(super) seen: Picture,
    /// Attention rollout of the image, or why there is none; absent if it was not requested.
    pub(super) rollout: Option<Result<Vec<f32>, String>>,
}

impl CachedTokens {
    fn bytes(&self) -> usize {
        let Tokens { cls, registers, patches, .. } = &self.tokens;
        let rollout = self.rollout.iter().flatten().map(Vec::len).sum::<usize>();
        let numbers = cls.as_ref().map_or(0, Vec::len) + registers.len() + patches.len() + rollout;
        numbers * size_of::<f32>() + self.seen.rgb.len()
    }
}

/// One image as a backbone with its options reads it. A changed file has another key.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Key {
    backbone: Arc<str>,
    source: ImageSource,
    length: u64,
    changed: Option<SystemTime>,
}

impl Key {
    /// The key of the file as it is now.
    pub(super) fn new(backbone: &Arc<str>, source: &ImageSource) -> std::io::Result<Self> {
        let meta = std::fs::metadata(&source.path)?;
        let (length, changed) = (meta.len(), meta.modified().ok());
        Ok(Self { backbone: backbone.clone(), source: source.clone(), length, changed })
    }
}

pub(super) struct TokenMemory {
    limit: usize,
    bytes: usize,
    /// Entries, the most recently used last.
    known: IndexMap<Key, Arc<CachedTokens>>,
}

impl TokenMemory {
    pub(super) fn new(limit: usize) -> Self {
        Self { limit, bytes: 0, known: IndexMap::new() }
    }

    pub(super) fn get(&mut self, key: &Key) -> Option<Arc<CachedTokens>> {
        let at = self.known.get_index_of(key)?;
        self.known.move_index(at, self.known.len() - 1);
        self.known.get(key).cloned()
    }

    pub(super) fn put(&mut self, key: Key, known: Arc<CachedTokens>) {
        let bytes = known.bytes();
        if bytes > self.limit {
            return;
        }
        if let Some(old) = self.known.shift_remove(&key) {
            self.bytes -= old.bytes();
        }
        self.bytes += bytes;
        self.known.insert(key, known); // as the latest used
        while self.bytes > self.limit {
            let Some((_, oldest)) = self.known.shift_remove_index(0) else { return };
            self.bytes -= oldest.bytes();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::model::grid::Grid;

    fn known(n: usize) -> Arc<CachedTokens> {
        let tokens = Tokens {
            grid: Grid::new(1, n),
            width: 1,
            cls: None,
            registers: Vec::new(),
            patches: vec![0.0; n],
        };
        Arc::new(CachedTokens { tokens, seen: Picture::default(), rollout: None })
    }

    #[test]
    fn a_file_written_again_with_as_many_bytes_is_another_image() {
        let folder = tempfile::TempDir::new().unwrap();
        let path = folder.path().join("a.png");
        crate::model::io::atomic_file::write(&path, b"12").unwrap();
        let key = |seconds: u64| {
            let time = SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(seconds);
            std::fs::File::options().write(true).open(&path).unwrap().set_modified(time).unwrap();
            Key::new(&"b".into(), &ImageSource::from(path.clone())).unwrap()
        };
        let before = key(1_000_000);
        assert_eq!(before, key(1_000_000));
        assert_ne!(before, key(1_000_001));
    }

    #[test]
    fn the_least_recently_used_go_first_and_the_bytes_are_held() {
        let backbone: Arc<str> = "b".into();
        let key = |name: &str| Key {
            backbone: backbone.clone(),
            source: ImageSource::from(PathBuf::from(name)),
            length: 0,
            changed: None,
        };
        let mut cache = TokenMemory::new(100);
        for name in ["a", "b", "c"] {
            cache.put(key(name), known(8)); // 32 bytes
        }
        assert!(cache.get(&key("a")).is_some());
        cache.put(key("d"), known(8));
        let there = |cache: &mut TokenMemory, name: &str| cache.get(&key(name)).is_some();
        assert_eq!(["a", "b", "c", "d"].map(|name| there(&mut cache, name)), [true, false, true, true]);
        cache.put(key("a"), known(16));
        assert!(cache.bytes <= 100 && there(&mut cache, "a"));
        cache.put(key("huge"), known(1000));
        assert!(!there(&mut cache, "huge") && there(&mut cache, "a"));
    }
}
