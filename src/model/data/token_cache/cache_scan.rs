//! The state of a cache on disk: which shards can be used, and which have to be made.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rayon::prelude::*;

use super::cache::{STALE_AFTER, Shard};
use super::record::{Record, Unusable};
use super::{
    CacheError, CacheManifest, MANIFEST, SHARD, TokenCache, TokenKey, count, io_error, read_manifest,
    shard_path,
};
use crate::model::io::{is_of_file, temporary};

/// Shards that are opened in parallel: on a network file system each takes a while, and ImageNet has 20,000.
const OPENED_AT_ONCE: usize = 512;

/// A shard that is damaged or belongs elsewhere, and has to be made again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The shard's file.
    pub path: PathBuf,
    /// Its index among the shards.
    pub shard: usize,
    /// What was found instead.
    pub found: String,
    /// What was expected.
    pub expected: String,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}, expected {}", self.path.display(), self.found, self.expected)
    }
}

/// The state of a cache on disk. Opening it writes nothing.
pub struct CacheScan {
    pub(super) folder: PathBuf,
    pub(super) source: TokenKey,
    /// Number of images the complete cache holds.
    pub images: usize,
    pub(super) manifest: Option<CacheManifest>,
    /// The usable shards by index, with their records; `None` for a shard that has to be made.
    pub(super) shards: Vec<Option<(Shard, Option<Record>)>>,
    /// Shards that exist and cannot be used.
    pub damage: Vec<Damage>,
    /// Shards to be made whose file was there when the cache was looked at: others may have been written since.
    pub(super) replaced: Vec<usize>,
}

impl CacheScan {
    /// Scans the cache for `source` under `root`, which is to hold `images` images. If `None`, it is as many as its
    /// manifest says, and the scan ends at the first unusable shard. Headers of shards are read, their tokens are not.
    pub fn open(root: &Path, source: &TokenKey, images: Option<usize>) -> Result<Self, CacheError> {
        let (key, source) = (source.key(), source.clone());
        let folder = root.join(&key);
        let manifest = read_manifest(&folder)?;
        let known = manifest.as_ref().map_or(0, |manifest| manifest.images);
        let (is_given, images) = (images.is_some(), images.unwrap_or(known));
        if let Some(manifest) = &manifest {
            let found = match (manifest.source == source, known == images) {
                (true, true) => None,
                (false, _) => Some("it is the manifest of another cache".to_owned()),
                (_, false) => Some(format!("it is for {known} images, expected {images}")),
            };
            if let Some(found) = found {
                return Err(CacheError::Damaged { path: folder.join(MANIFEST), found });
            }
        }
        let look = |index: usize| -> Result<_, CacheError> {
            let path = shard_path(&folder, index);
            let exists = path.try_exists().map_err(io_error("open it", &path))?;
            let manifest = manifest.as_ref().filter(|_| exists);
            match manifest.map(|manifest| open_shard(&folder, &key, manifest, index)).transpose() {
                Ok(shard) => Ok((exists, shard, None)),
                Err(Unusable::Damaged { found, expected }) => {
                    Ok((exists, None, Some(Damage { path, shard: index, found, expected })))
                }
                Err(Unusable::Disk(error)) => Err(error),
            }
        };
        let (mut shards, mut damage, mut replaced) = (Vec::new(), Vec::new(), Vec::new());
        let count = images.div_ceil(SHARD);
        'all: for first in (0..count).step_by(OPENED_AT_ONCE) {
            let some = first..(first + OPENED_AT_ONCE).min(count);
            let looked: Vec<_> = some.clone().into_par_iter().map(look).collect::<Result<_, _>>()?;
            for (index, (exists, shard, damaged)) in some.zip(looked) {
                damage.extend(damaged);
                replaced.extend((exists && shard.is_none()).then_some(index));
                // A manifest alone may claim any number of images.
                let ends = shard.is_none() && !is_given;
                shards.push(shard);
                if ends {
                    break 'all;
                }
            }
        }
        Ok(Self { folder, source, images, manifest, shards, damage, replaced })
    }

    /// The scan itself, unless the cache's tokens are of a backbone whose `config.json` says other than `config`, which names and
    /// shapes of weights do not tell. What caches of earlier versions are of is not recorded.
    pub fn of_config(self, config: &str) -> Result<Self, CacheError> {
        match self.manifest.as_ref().and_then(|manifest| manifest.config.clone()) {
            Some(found) if found != config => {
                Err(CacheError::Config { folder: self.folder, found, expected: config.to_owned() })
            }
            _ => Ok(self),
        }
    }

    /// Number of images in usable shards.
    pub fn done(&self) -> usize {
        let usable = (0..self.shards.len()).filter(|&index| self.shards[index].is_some());
        usable.map(|index| count(self.images, index)).sum()
    }

    /// Number of images in usable shards that could not be read when these were made.
    pub fn skipped(&self) -> usize {
        self.shards.iter().flatten().map(|(shard, _)| shard.skipped.len()).sum()
    }

    /// Indices of the shards that have to be made, in order.
    pub(super) fn missing(&self) -> Vec<usize> {
        (0..self.shards.len()).filter(|&index| self.shards[index].is_none()).collect()
    }

    /// Drops the shards of `images`, so that they are made again.
    pub fn forget(&mut self, images: &[usize]) {
        for shard in images.iter().map(|image| image / SHARD) {
            self.replaced.extend(self.shards[shard].take().map(|_| shard));
        }
    }

    /// SHA-256 of the images in the shard of `image`; `None` if the shard is not usable or its record has none.
    fn digests(&self, image: usize) -> Option<&[Option<String>]> {
        let (_, record) = self.shards[image / SHARD].as_ref()?;
        record.as_ref()?.images.as_deref()
    }

    /// Whether the state of `image` when its tokens were computed is on record.
    pub fn knows(&self, image: usize) -> bool {
        self.digests(image).is_some()
    }

    /// Whether `image` changed since its tokens were computed; `now` is the SHA-256 of its file, `None` if it
    /// cannot be read. `false` if nothing is on record.
    pub fn changed(&self, image: usize, now: Option<&str>) -> bool {
        self.digests(image).is_some_and(|digests| digests[image % SHARD].as_deref() != now)
    }

    /// Whether there is a manifest and every shard is usable.
    pub fn is_complete(&self) -> bool {
        self.manifest.is_some() && self.shards.iter().all(Option::is_some)
    }

    /// The cache if it is complete; otherwise the scan itself as the error.
    pub fn into_cache(self) -> Result<TokenCache, Box<Self>> {
        let complete = self.is_complete();
        match self {
            Self { manifest: Some(manifest), shards, folder, .. } if complete => {
                // Removes temporary files of killed processes; a failure on a read-only disk is ignored.
                let _ = temporary::tidy(&folder, STALE_AFTER);
                let shards = shards.into_iter().flatten().map(|(shard, _)| shard).collect();
                Ok(TokenCache { manifest, shards, spare: Arc::default() })
            }
            rest => Err(Box::new(rest)),
        }
    }
}

/// Opens a shard and checks it against the manifest and its record.
///
/// # Errors
/// If it is damaged, or its disk does not answer: then the shard may be whole, and hours would be spent on making it again.
fn open_shard(
    folder: &Path,
    key: &str,
    manifest: &CacheManifest,
    index: usize,
) -> Result<(Shard, Option<Record>), Unusable> {
    let shard = match Shard::open(&shard_path(folder, index), manifest, index) {
        Ok(shard) => shard,
        Err(CacheError::Io { source, .. }) if is_of_file(source.kind()) => {
            return Err(Unusable::damaged(format!("it cannot be read: {source}"), "a file"));
        }
        Err(CacheError::Damaged { found, .. }) => {
            return Err(Unusable::damaged(found, "a shard of this cache"));
        }
        Err(error) => return Err(Unusable::Disk(error)),
    };
    match Record::read(folder, key, index, count(manifest.images, index))? {
        None if manifest.records => {
            Err(Unusable::damaged("it has no record of its contents", "one next to it"))
        }
        record => Ok((shard, record)),
    }
}
