//! Writing a token cache, shard by shard.

use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use std::path::{Path, PathBuf};

use half::f16;
use half::slice::HalfFloatSliceExt;

use super::cache::{STALE_AFTER, TokenCache};
use super::record::Record;
use super::{
    CacheError, CacheManifest, CacheScan, MANIFEST, Names, Precision, SHARD, SKIPPED, TokenKey, count,
    io_error, shard_path, write_atomically,
};
use crate::model::grid::Grid;
use crate::model::io::array::to_safetensors;
use crate::model::io::file_lock::{LockedFile, share_folder};
use crate::model::io::{Format, atomic_file, sha256, temporary};
use crate::model::tokens::Tokens;

/// Receives the tokens of the missing images in order, and writes a shard as soon as it is full.
pub struct Writer {
    folder: PathBuf,
    source: TokenKey,
    images: usize,
    manifest: Option<CacheManifest>,
    /// What a new manifest records besides: the names, and what the backbone's `config.json` says.
    about: Option<(Names, String)>,
    pending: Vec<PendingImage>,
    /// Shards still to be written, in order.
    wanted: VecDeque<usize>,
    /// Those of them whose file exists and is damaged.
    replaced: Vec<usize>,
    /// Number of missing images that are left to other writers.
    left_to_others: usize,
    /// Keeps `cache clear` from the folder.
    _lock: Option<LockedFile>,
}

/// The tokens of an image, none where it could not be read, and the SHA-256 of its file, where known.
type PendingImage = (Option<Tokens>, Option<String>);

impl Writer {
    /// Opens the cache for `source` under `root`, to hold `images` images, keeping what an earlier
    /// extraction left.
    pub fn open(root: &Path, source: TokenKey, images: usize) -> Result<Self, CacheError> {
        Self::resume(CacheScan::open(root, &source, Some(images))?)
    }

    /// Continues the cache of a scan: its missing and damaged shards will be written.
    pub fn resume(scan: CacheScan) -> Result<Self, CacheError> {
        let wanted: VecDeque<usize> = scan.missing().into();
        let CacheScan { folder, source, images, manifest, replaced, .. } = scan;
        atomic_file::make_folder(&folder).map_err(io_error("create the folder", &folder))?;
        if !wanted.is_empty() {
            // Before the backbone runs: the folder may be another user's.
            atomic_file::can_write(&folder).map_err(io_error("write into it", &folder))?;
        }
        temporary::tidy(&folder, STALE_AFTER).map_err(io_error("clean it up", &folder))?;
        Ok(Self {
            _lock: share_folder(&folder),
            folder,
            source,
            images,
            manifest,
            about: None,
            pending: Vec::new(),
            wanted,
            replaced,
            left_to_others: 0,
        })
    }

    /// Records these names, and what the backbone's `config.json` says besides the weights, in the cache's manifest, unless an
    /// earlier extraction has written it.
    pub fn named(self, names: Names, config: String) -> Self {
        Self { about: Some((names, config)), ..self }
    }

    /// The same writer before the images of which no whole shard is written yet: they are pushed once more.
    pub fn rewound(self) -> Self {
        Self { pending: Vec::new(), ..self }
    }

    /// Restricts this writer to the shards of a range; other writers may write the others at the same time.
    pub fn only(&mut self, shards: Range<usize>) {
        let before = self.missing().len();
        self.wanted.retain(|shard| shards.contains(shard));
        self.left_to_others = before - self.missing().len();
    }

    /// Number of images on disk: those found when it was opened, and those written since.
    pub fn done(&self) -> usize {
        self.images - self.left_to_others - self.missing().len()
    }

    /// The images whose tokens are to be pushed, in this order: those of every shard not written yet.
    pub fn missing(&self) -> Vec<usize> {
        let images_of = |&shard: &usize| shard * SHARD..shard * SHARD + count(self.images, shard);
        self.wanted.iter().flat_map(images_of).collect()
    }

    /// Adds the tokens of the next image; `None` for one that could not be read, which keeps its
    /// index, so that indices are those of the dataset. `sha256` is the digest of the image's file.
    pub fn push(&mut self, tokens: Option<Tokens>, sha256: Option<String>) -> Result<(), CacheError> {
        if let Some(tokens) = &tokens {
            self.check(tokens)?;
        }
        self.pending.push((tokens, sha256));
        while let (Some(_), Some(&shard)) = (&self.manifest, self.wanted.front())
            && self.pending.len() >= count(self.images, shard)
        {
            self.flush(shard)?;
        }
        Ok(())
    }

    /// Index in the dataset of the next image to be pushed.
    fn next(&self) -> usize {
        let ahead = self.pending.len();
        self.wanted.get(ahead / SHARD).map_or(self.images, |shard| shard * SHARD + ahead % SHARD)
    }

    /// Checks the tokens' values and shape; the first ones set the shape and write the manifest.
    fn check(&mut self, tokens: &Tokens) -> Result<(), CacheError> {
        fits(tokens, self.source.precision, self.next())?;
        if let Some(manifest) = &self.manifest {
            let (own, found) = (
                (manifest.grid, manifest.width, manifest.has_cls),
                (tokens.grid, tokens.width, tokens.cls.is_some()),
            );
            if own == found {
                return Ok(());
            }
            let words = |(grid, width, has_cls): (Grid, usize, bool)| {
                let cls = if has_cls { "with" } else { "without" };
                format!("{} tokens of width {width} {cls} CLS", grid.len())
            };
            let found = format!("it is of {}, and image {} has {}", words(own), self.next(), words(found));
            return Err(CacheError::Damaged { path: self.folder.join(MANIFEST), found });
        }
        let (names, config) = self.about.clone().unzip();
        let manifest = CacheManifest {
            format: Format,
            source: self.source.clone(),
            grid: tokens.grid,
            width: tokens.width,
            has_cls: tokens.cls.is_some(),
            images: self.images,
            names,
            config,
            records: true,
        };
        let text = serde_json::to_vec_pretty(&manifest).expect("plain data serialises");
        write_atomically(&self.folder.join(MANIFEST), &text)?;
        self.manifest = Some(manifest);
        Ok(())
    }

    /// Writes the oldest pending images as shard `shard`, then its record.
    fn flush(&mut self, shard: usize) -> Result<(), CacheError> {
        let manifest = self.manifest.as_ref().expect("some tokens came, so the shape is known");
        let (n, width, precision) = (manifest.grid.len(), manifest.width, self.source.precision);
        let count = count(self.images, shard);
        let images: Vec<Option<&Tokens>> =
            self.pending[..count].iter().map(|(tokens, _)| tokens.as_ref()).collect();
        let (no_patches, no_cls) = (vec![0.0; n * width], vec![0.0; width]);
        let patches = encode(images.iter().map(|t| t.map_or(&no_patches, |t| &t.patches)), precision);
        let skipped: Vec<usize> = (0..count).filter(|&i| images[i].is_none()).collect();
        let metadata =
            HashMap::from([(SKIPPED.to_owned(), serde_json::to_string(&skipped).expect("numbers"))]);
        let path = shard_path(&self.folder, shard);
        let mut tensors = vec![("patches".to_owned(), vec![count, n, width], precision.dtype(), patches)];
        if manifest.has_cls {
            let cls = images.iter().map(|t| t.map_or(&no_cls, |t| t.cls.as_ref().expect("a CLS token")));
            let cls = encode(cls, precision);
            tensors.push(("cls".to_owned(), vec![count, width], precision.dtype(), cls));
        }
        let bytes = to_safetensors(&tensors, metadata)
            .map_err(|error| CacheError::Damaged { path: path.clone(), found: error.to_string() })?;
        // A shard that another writer has written in the meantime is kept: another machine may have mapped it, and would
        // lose its data if a new file took that name.
        let is_written = match self.replaced.contains(&shard) {
            true => write_atomically(&path, &bytes).map(|()| true)?,
            false => atomic_file::write_new(&path, &bytes).map_err(io_error("write it", &path))?,
        };
        let digests: Vec<Option<String>> = self.pending.drain(..count).map(|(_, sha256)| sha256).collect();
        if is_written {
            // A shard whose record is missing after a kill is made again.
            let known = digests.iter().any(Option::is_some);
            let images = known.then_some(digests);
            let (cache, sha256) = (self.source.key(), sha256::of_bytes(&bytes));
            let written = Record { cache, shard, sha256, images }.write(&self.folder);
            written.inspect_err(|_| self.replaced.push(shard))?;
        }
        self.wanted.pop_front();
        Ok(())
    }

    /// Opens the written cache for reading.
    pub fn finish(self) -> Result<TokenCache, CacheError> {
        let manifest = self.manifest.ok_or_else(|| {
            io_error("read it", &self.folder.join(MANIFEST))(std::io::ErrorKind::NotFound.into())
        })?;
        TokenCache::from_manifest(manifest, &self.folder)
    }
}

/// Smallest value that rounds to infinity in float16.
const F16_END: f32 = 65520.0;

/// Checks that the tokens of image `image` are finite and within the range of `precision`. Layers before
/// the last norm may exceed float16; in training that would show only as a loss of NaN.
pub fn fits(tokens: &Tokens, precision: Precision, image: usize) -> Result<(), CacheError> {
    let mut values = tokens.patches.iter().chain(tokens.cls.iter().flatten());
    match values.find(|x| !x.is_finite() || precision == Precision::Float16 && x.abs() >= F16_END) {
        Some(&value) if !value.is_finite() => Err(CacheError::NotFinite { image, value }),
        Some(&value) => Err(CacheError::Large { image, value }),
        None => Ok(()),
    }
}

/// The values of all rows as little-endian bytes in `precision`.
fn encode<'a>(rows: impl Iterator<Item = &'a Vec<f32>>, precision: Precision) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut halves = Vec::new();
    for row in rows {
        match precision {
            Precision::Float32 => bytes.extend(row.iter().flat_map(|x| x.to_le_bytes())),
            Precision::Float16 => {
                halves.resize(row.len(), f16::ZERO);
                halves.convert_from_f32_slice(row);
                bytes.extend(halves.iter().flat_map(|x| x.to_le_bytes()));
            }
        }
    }
    bytes
}
