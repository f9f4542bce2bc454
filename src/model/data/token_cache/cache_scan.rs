//! What lies in a cache's folder: shards that can be used, and those that have to be made.

use std::fmt;
use std::path::{Path, PathBuf};

use super::cache::{STALE_AFTER, Shard};
use super::record::Record;
use super::{
    CacheError, CacheManifest, MANIFEST, SHARD, TokenCache, TokenKey, count, read_manifest, shard_path,
};
use crate::model::io::temporary;

/// A shard that is not the one it should be. It is made again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The shard's file.
    pub path: PathBuf,
    /// Its place among the shards.
    pub shard: usize,
    /// What is wrong with it.
    pub found: String,
    /// What it should be.
    pub expected: String,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}, expected {}", self.path.display(), self.found, self.expected)
    }
}

/// What lies in a cache's folder. Nothing is written by looking.
pub struct CacheScan {
    pub(super) folder: PathBuf,
    pub(super) source: TokenKey,
    pub(super) images: usize,
    pub(super) manifest: Option<CacheManifest>,
    /// The shards that can be used, each at its place.
    pub(super) shards: Vec<Option<(Shard, Option<Record>)>>,
    pub(super) damage: Vec<Damage>,
}

impl CacheScan {
    /// What there is of the cache for `source` under `root`, which is to hold `images` images; or as many as
    /// its manifest says, and then up to the first shard that is missing. Headers of shards are read, their
    /// tokens are not.
    pub fn open(root: &Path, source: &TokenKey, images: Option<usize>) -> Result<Self, CacheError> {
        let (key, source) = (source.key(), source.clone());
        let folder = root.join(&key);
        let manifest = read_manifest(&folder)?;
        let known = manifest.as_ref().map_or(0, |manifest| manifest.images);
        let (asked, images) = (images.is_some(), images.unwrap_or(known));
        if let Some(manifest) = &manifest {
            let found = match (manifest.source == source, known == images) {
                (true, true) => None,
                (false, _) => Some("it is the manifest of another cache".to_owned()),
                (_, false) => Some(format!("it is of {known} images, expected {images}")),
            };
            if let Some(found) = found {
                return Err(CacheError::Damaged { path: folder.join(MANIFEST), found });
            }
        }
        let (mut shards, mut damage) = (Vec::new(), Vec::new());
        for index in 0..images.div_ceil(SHARD) {
            let path = shard_path(&folder, index);
            let shard = match &manifest {
                Some(manifest) if path.exists() => match usable(&folder, &key, manifest, index) {
                    Ok(shard) => Some(shard),
                    Err((found, expected)) => {
                        damage.push(Damage { path, shard: index, found, expected });
                        None
                    }
                },
                _ => None,
            };
            // A manifest alone may say any number.
            let ends = shard.is_none() && !asked;
            shards.push(shard);
            if ends {
                break;
            }
        }
        Ok(Self { folder, source, images, manifest, shards, damage })
    }

    /// Where it lies.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Number of images it is to hold.
    pub fn images(&self) -> usize {
        self.images
    }

    /// Shards that are there and cannot be used.
    pub fn damage(&self) -> &[Damage] {
        &self.damage
    }

    /// Images whose tokens are there.
    pub fn done(&self) -> usize {
        let there = (0..self.shards.len()).filter(|&index| self.shards[index].is_some());
        there.map(|index| count(self.images, index)).sum()
    }

    /// Shards that have to be made, in order.
    pub(super) fn missing(&self) -> Vec<usize> {
        (0..self.shards.len()).filter(|&index| self.shards[index].is_none()).collect()
    }

    /// Images whose tokens are wanted anew: their shards are made again.
    pub fn forget(&mut self, images: &[usize]) {
        for image in images {
            self.shards[image / SHARD] = None;
        }
    }

    /// The record of the images around `image`, where its tokens are there and it is known what they were
    /// taken from.
    fn digests(&self, image: usize) -> Option<&[Option<String>]> {
        let (_, record) = self.shards[image / SHARD].as_ref()?;
        record.as_ref()?.images.as_deref()
    }

    /// Whether it is known what `image` was when its tokens were taken.
    pub fn knows(&self, image: usize) -> bool {
        self.digests(image).is_some()
    }

    /// Whether `image`, whose file has this SHA-256 now (none if it cannot be read), is another than when its
    /// tokens were taken, as far as that is known.
    pub fn changed(&self, image: usize, now: Option<&str>) -> bool {
        self.digests(image).is_some_and(|digests| digests[image % SHARD].as_deref() != now)
    }

    /// Whether nothing is missing.
    pub fn is_complete(&self) -> bool {
        self.manifest.is_some() && self.shards.iter().all(Option::is_some)
    }

    /// The cache, where nothing is missing; else what there is.
    pub fn into_cache(self) -> Result<TokenCache, Box<Self>> {
        let complete = self.is_complete();
        match self {
            Self { manifest: Some(manifest), shards, folder, .. } if complete => {
                // What a kill left beside them; where nothing may be written, it stays.
                let _ = temporary::tidy(&folder, STALE_AFTER);
                let shards = shards.into_iter().flatten().map(|(shard, _)| shard).collect();
                Ok(TokenCache { manifest, shards, folder })
            }
            rest => Err(Box::new(rest)),
        }
    }
}

/// A shard that is what its header and its record say; what is wrong with it, and what was expected.
fn usable(
    folder: &Path,
    key: &str,
    manifest: &CacheManifest,
    index: usize,
) -> Result<(Shard, Option<Record>), (String, String)> {
    let shard = Shard::open(&shard_path(folder, index), manifest, index).map_err(|error| match error {
        CacheError::Damaged { found, .. } => (found, "a shard of this cache".to_owned()),
        CacheError::Io { source, .. } => (format!("it cannot be read: {source}"), "a file".to_owned()),
        other => (other.to_string(), "a shard of this cache".to_owned()),
    })?;
    let record = Record::read(folder, key, index, count(manifest.images, index))?;
    match record {
        None if manifest.records => Err(("it has no record of what is in it".into(), "one beside it".into())),
        record => Ok((shard, record)),
    }
}
