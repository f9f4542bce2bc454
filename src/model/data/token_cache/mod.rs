//! The token cache: a frozen backbone runs once per image, and its tokens are kept on disk.
//!
//! A cache is a folder of shards, each a safetensors file with `patches [n, N, d]` and `cls [n, d]` in float16 or
//! float32, beside a `manifest.json`. The folder's name is a hash of what the tokens depend on ([`TokenKey`]), and the
//! manifest tells what the backbone's `config.json` adds to that, so a stale cache is never used. Shards are written
//! atomically: a killed extraction resumes after its last shard. Shards are memory-mapped, so memory stays bounded whatever
//! the dataset's size.
//!
//! Beside every shard lies its record: its cache and index there, the SHA-256 of the file, and that of
//! every image it was made from. Before a process uses a cache for the first time, all its shards are
//! read once and compared with their records ([`CacheScan::verify`]); one that differs is made again.

use std::path::{Path, PathBuf};

use clap::ValueEnum;
use safetensors::tensor::Dtype;
use serde::{Deserialize, Serialize};

use crate::model::grid::Grid;
use crate::model::io::{Format, atomic_file, if_there, sha256};

mod cache;
mod cache_scan;
mod error;
pub mod list;
mod record;
mod token_source;
mod verify;
mod writer;

pub use cache::TokenCache;
pub use cache_scan::{CacheScan, Damage};
pub use error::CacheError;
use error::io_error;
pub use record::{image_digests, tokens_digest};
pub use token_source::{Batches, LayerRows, Rows, TokenSource, TokenSourceError, round};
pub use verify::Verified;
pub use writer::{Writer, fits};

/// Images per shard; the last shard may hold fewer.
pub const SHARD: usize = 64;
const MANIFEST: &str = "manifest.json";
/// Longest manifest that is read, in bytes.
const MAX_MANIFEST_BYTES: u64 = 1 << 20;
/// Metadata key of a shard: a JSON list of the indices within it of images that could not be read.
const SKIPPED: &str = "skipped";

/// How tokens, and weights, are stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Precision {
    /// 2 bytes per value; training reads half the memory.
    #[default]
    Float16,
    /// 4 bytes per value.
    Float32,
}

impl Precision {
    /// Bytes per value.
    pub const fn bytes(self) -> u64 {
        match self {
            Self::Float16 => 2,
            Self::Float32 => 4,
        }
    }

    pub(in crate::model) const fn dtype(self) -> Dtype {
        match self {
            Self::Float16 => Dtype::F16,
            Self::Float32 => Dtype::F32,
        }
    }
}

/// Everything the cached tokens depend on; its hash is the folder's name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenKey {
    /// SHA-256 of the backbone's weights.
    pub weights: String,
    /// The preprocessing from image file to pixels, as the preprocessor's key states it.
    pub preprocessing: String,
    /// Hash of the ordered list of samples.
    pub dataset: String,
    /// The layer, `last` or a number, the order of MAE's tokens, and the precision of the backbone's products
    /// if that is not float32.
    pub layer: String,
    /// Precision of the stored values.
    pub precision: Precision,
}

impl TokenKey {
    /// Name of the cache folder: the first 24 hexadecimal digits of the SHA-256 of this key as JSON.
    pub fn key(&self) -> String {
        let text = serde_json::to_string(self).expect("plain strings serialise");
        let mut digits = sha256::of_bytes(text.as_bytes());
        digits.truncate(24);
        digits
    }
}

/// What the tokens were made from, by name: for people, as several may have the same [`TokenKey`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Names {
    /// The dataset's name.
    pub dataset: String,
    /// The backbone's name, as probe files record it.
    pub backbone: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct CacheManifest {
    /// Absent from caches of earlier versions.
    #[serde(default)]
    format: Format<1>,
    source: TokenKey,
    grid: Grid,
    width: usize,
    has_cls: bool,
    images: usize,
    /// Absent from caches of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    names: Option<Names>,
    /// What the tokens depend on besides the weights, from the backbone's `config.json`. Absent from caches of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    config: Option<String>,
    /// Whether every shard has its record; caches of earlier versions have none.
    #[serde(default)]
    records: bool,
}

/// Bytes the tokens of one image take in a cache.
pub fn image_bytes(grid: Grid, width: usize, has_cls: bool, precision: Precision) -> u64 {
    (grid.len() + usize::from(has_cls)) as u64 * width as u64 * precision.bytes()
}

/// Writes `bytes` to `path` atomically.
fn write_atomically(path: &Path, bytes: &[u8]) -> Result<(), CacheError> {
    atomic_file::write(path, bytes).map_err(io_error("write it", path))
}

fn shard_path(folder: &Path, index: usize) -> PathBuf {
    folder.join(format!("tokens-{index:06}.safetensors"))
}

/// Number of images in shard `index` of a cache of `images` images.
fn count(images: usize, index: usize) -> usize {
    (images - index * SHARD).min(SHARD)
}

/// The manifest of a cache folder; `None` if there is none.
fn read_manifest(folder: &Path) -> Result<Option<CacheManifest>, CacheError> {
    let path = folder.join(MANIFEST);
    let bytes = if_there(atomic_file::read(&path, MAX_MANIFEST_BYTES)).map_err(io_error("read it", &path))?;
    bytes
        .map(|bytes| serde_json::from_slice(&bytes))
        .transpose()
        .map_err(|error| CacheError::Damaged { path, found: error.to_string() })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::model::tokens::Tokens;

    pub(super) fn source(precision: Precision) -> TokenKey {
        let text = |s: &str| s.to_owned();
        TokenKey {
            weights: text("w"),
            preprocessing: text("p"),
            dataset: text("d"),
            layer: text("last"),
            precision,
        }
    }

    fn tokens(image: usize) -> Tokens {
        let grid = Grid::new(2, 3);
        let patches = (0..24).map(|i| (image * 24 + i) as f32 / 8.0).collect();
        Tokens { grid, width: 4, cls: Some(vec![image as f32; 4]), registers: Vec::new(), patches }
    }

    /// Pushes the tokens of these images, each with this digest of its file.
    pub(super) fn push(writer: &mut Writer, images: std::ops::Range<usize>, digest: Option<&str>) {
        for image in images {
            writer.push(Some(tokens(image)), digest.map(str::to_owned)).unwrap();
        }
    }

    #[test]
    fn what_is_written_is_read_in_any_order_and_a_killed_extraction_goes_on() {
        for precision in [Precision::Float16, Precision::Float32] {
            let root = tempfile::tempdir().unwrap();
            let images = SHARD + 5;
            // To a part, the shards of others are neither missing nor done.
            let mut part = Writer::open(root.path(), source(precision), images).unwrap();
            part.only(1..2);
            assert_eq!((part.missing().len(), part.done()), (5, 0));
            drop(part);
            let mut writer = Writer::open(root.path(), source(precision), images).unwrap();
            for image in 0..SHARD + 2 {
                writer.push((image != 1).then(|| tokens(image)), None).unwrap();
            }
            drop(writer); // killed: two images are lost, the first shard is not
            assert!(TokenCache::find(root.path(), &source(precision)).unwrap().is_none());
            let mut writer = Writer::open(root.path(), source(precision), images).unwrap();
            assert_eq!(writer.done(), SHARD);
            for image in writer.done()..images {
                writer.push((image != SHARD + 3).then(|| tokens(image)), None).unwrap();
            }
            let cache = writer.finish().unwrap();
            assert_eq!(cache.len(), images);
            for image in [images - 1, 0, SHARD] {
                assert_eq!(cache.tokens(image), tokens(image));
            }
            assert_eq!(cache.patches(&[3, 2])[24..], tokens(2).patches);
            let unreadable: Vec<usize> = (0..images).filter(|image| !cache.readable(*image)).collect();
            assert_eq!(unreadable, [1, SHARD + 3]);
            assert!(TokenCache::find(root.path(), &source(precision)).unwrap().is_some());
        }
    }

    #[test]
    fn what_images_were_is_known_beside_one_that_could_not_be_read() {
        let (root, source) = (tempfile::tempdir().unwrap(), source(Precision::Float16));
        let mut writer = Writer::open(root.path(), source.clone(), 3).unwrap();
        for (image, digest) in [Some("a"), None, Some("c")].into_iter().enumerate() {
            writer.push(digest.map(|_| tokens(image)), digest.map(str::to_owned)).unwrap();
        }
        writer.finish().unwrap();
        let digest = |root: &Path| tokens_digest(root, &source, 3);
        let known = digest(root.path()).expect("all are on record");
        let other = tempfile::tempdir().unwrap();
        let mut writer = Writer::open(other.path(), source.clone(), 3).unwrap();
        assert_eq!(digest(other.path()), None);
        push(&mut writer, 0..3, Some("a"));
        writer.finish().unwrap();
        assert_ne!(digest(other.path()).expect("all are on record"), known, "other tokens");
        let scan = CacheScan::open(root.path(), &source, Some(3)).unwrap();
        assert!((0..3).all(|image| scan.knows(image)));
        for (image, now, changed) in [
            (0, Some("a"), false),
            (0, Some("b"), true),
            (0, None, true), // it cannot be read any more
            (1, None, false),
            (1, Some("b"), true),
            (2, Some("c"), false),
        ] {
            assert_eq!(scan.changed(image, now), changed, "image {image}, now {now:?}");
        }
    }

    #[test]
    fn a_shard_that_another_has_made_meanwhile_keeps_its_file() {
        let (root, source) = (tempfile::tempdir().unwrap(), source(Precision::Float16));
        let mut first = Writer::open(root.path(), source.clone(), 2).unwrap();
        let before = CacheScan::open(root.path(), &source, Some(2)).unwrap();
        push(&mut first, 0..2, Some("a"));
        let mapped = first.finish().unwrap();
        let mut late = Writer::resume(before).unwrap();
        // As on a processor that rounds differently.
        push(&mut late, 1..3, Some("b"));
        assert_eq!(late.finish().unwrap().tokens(0), tokens(0));
        assert_eq!(mapped.tokens(1), tokens(1));
        let scan = CacheScan::open(root.path(), &source, Some(2)).unwrap();
        assert!(scan.damage.is_empty() && scan.done() == 2 && !scan.changed(0, Some("a")));
        // A damaged shard is named, and replaced.
        let path = shard_path(&scan.folder, 0);
        drop(mapped);
        let whole = fs::read(&path).unwrap();
        fs::write(&path, &whole[..whole.len() - 1]).unwrap();
        let error = TokenCache::find(root.path(), &source).map(|_| ()).unwrap_err().to_string();
        assert!(error.contains("tokens-000000"), "{error}");
        let mut again = Writer::open(root.path(), source.clone(), 2).unwrap();
        push(&mut again, 0..2, Some("a"));
        assert_eq!(again.finish().unwrap().tokens(1), tokens(1));
        assert!(CacheScan::open(root.path(), &source, Some(2)).unwrap().damage.is_empty());
    }

    /// The files below a folder that this process has mapped.
    #[cfg(target_os = "linux")]
    fn mapped(folder: &Path) -> Vec<String> {
        let maps = fs::read_to_string("/proc/self/maps").unwrap();
        let below = maps.lines().filter_map(|line| line.split_once(folder.to_str().unwrap()));
        let mut names: Vec<String> =
            below.map(|(_, path)| path.rsplit('/').next().unwrap().to_owned()).collect();
        names.dedup();
        names
    }

    #[cfg(unix)]
    #[test]
    fn a_shard_that_its_disk_does_not_give_is_neither_missing_nor_damaged() {
        let (root, source) = (tempfile::tempdir().unwrap(), source(Precision::Float16));
        let folder = root.path().join(source.key());
        fs::create_dir(&folder).unwrap();
        let path = shard_path(&folder, 0);
        std::os::unix::fs::symlink(&path, &path).unwrap(); // a link to itself cannot be followed
        let refused = CacheScan::open(root.path(), &source, Some(1)).map(drop).unwrap_err();
        assert!(matches!(refused, CacheError::Io { .. }), "{refused}");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_shard_that_its_disk_does_not_give_when_it_is_verified_is_not_damaged() {
        let (root, source) = (tempfile::tempdir().unwrap(), source(Precision::Float16));
        push(&mut Writer::open(root.path(), source.clone(), 1).unwrap(), 0..1, None);
        let mut scan = CacheScan::open(root.path(), &source, Some(1)).unwrap();
        let path = shard_path(&scan.folder, 0);
        fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink("/proc/self/mem", &path).unwrap(); // whose beginning no process can read
        let refused = scan.verify(&mut |_, _| std::ops::ControlFlow::Continue(())).unwrap_err();
        assert!(matches!(refused, CacheError::Io { .. }) && scan.damage.is_empty(), "{refused}");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn what_another_is_still_writing_is_not_mapped() {
        let (root, source) = (tempfile::tempdir().unwrap(), source(Precision::Float16));
        let mut writer = Writer::open(root.path(), source.clone(), 2 * SHARD).unwrap();
        push(&mut writer, 0..SHARD, None);
        let look = || CacheScan::open(root.path(), &source, Some(2 * SHARD)).unwrap();
        let whole = fs::read(shard_path(&look().folder, 0)).unwrap();
        // A temporary file, as this program writes it before renaming.
        fs::write(look().folder.join(".ssmprobe-1a2b3c"), &whole[..whole.len() / 2]).unwrap();
        let first = "tokens-000000.safetensors";
        let scan = look();
        assert_eq!((scan.done(), mapped(root.path())), (SHARD, vec![first.to_owned()]));
        assert!(scan.damage.is_empty() && TokenCache::find(root.path(), &source).unwrap().is_none());
        drop(scan);
        assert!(mapped(root.path()).is_empty());
        // A copy in place by another program: half of it, then all of it, without a record.
        for part in [&whole[..whole.len() / 2], &whole] {
            fs::write(shard_path(&look().folder, 1), part).unwrap();
            let scan = look();
            assert_eq!((scan.done(), scan.damage.len()), (SHARD, 1));
            assert_eq!(mapped(root.path()), [first]);
        }
    }

    #[test]
    fn what_cannot_be_kept_is_refused() {
        for (precision, value, words) in [
            (Precision::Float32, -7e4, None),
            (Precision::Float16, -7e4, Some("-7e4, but float16 ends at 65504; keep tokens in float32")),
            // What lies between 65504 and 65520 is rounded down, and from there on to infinity.
            (Precision::Float16, 65_519.0, None),
            (Precision::Float16, 65_520.0, Some("6.552e4, but float16 ends")),
            (Precision::Float16, f32::NAN, Some("NaN")),
            (Precision::Float32, f32::INFINITY, Some("inf")),
        ] {
            let root = tempfile::tempdir().unwrap();
            let mut writer = Writer::open(root.path(), source(precision), 2).unwrap();
            writer.push(Some(tokens(0)), None).unwrap();
            let broken = Tokens { cls: Some(vec![0.0, value, 0.0, 0.0]), ..tokens(1) };
            let error = writer.push(Some(broken), None).err().map(|error| error.to_string());
            let is_told = |error: &String| {
                words.is_some_and(|words| error.contains(words)) && error.contains("image 1")
            };
            assert!(error.as_ref().map_or(words.is_none(), is_told), "{value}: {error:?}");
        }
    }

    #[test]
    fn a_manifest_of_other_tokens_is_named() {
        let root = tempfile::tempdir().unwrap();
        let mut writer = Writer::open(root.path(), source(Precision::Float32), 2).unwrap();
        writer.push(Some(tokens(0)), None).unwrap();
        let turned = Tokens { grid: Grid::new(3, 2), ..tokens(1) };
        for other in [Tokens { width: 3, ..tokens(1) }, Tokens { cls: None, ..tokens(1) }, turned] {
            let error = writer.push(Some(other), None).unwrap_err().to_string();
            assert!(error.contains("manifest.json: it is of") && error.contains("cache clear"), "{error}");
        }
        drop(writer);
        // A folder that was given another cache's name.
        let other = source(Precision::Float16);
        let [own, renamed] = [source(Precision::Float32).key(), other.key()].map(|key| root.path().join(key));
        fs::rename(own, renamed).unwrap();
        let error = CacheScan::open(root.path(), &other, Some(2)).err().expect("an error").to_string();
        assert!(error.contains("manifest.json: it is the manifest of another cache"), "{error}");
    }
}
