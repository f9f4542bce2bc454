//! Random access to the tokens of a cache.

use std::fs::File;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicIsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use burn::tensor::{Bytes, DType, Device, TensorData};
use half::f16;
use half::slice::HalfFloatSliceExt;
use memmap2::Mmap;
use rayon::prelude::*;
use rayon::slice::ChunksMut;
use safetensors::tensor::SafeTensors;

use super::{
    CacheError, CacheManifest, CacheScan, Damage, Precision, SHARD, SKIPPED, TokenKey, count, io_error,
    shard_path,
};
use crate::model::grid::Grid;
use crate::model::io::atomic_file;
use crate::model::ops::gpu::page_locked;
use crate::model::tokens::Tokens;

/// Maps of shards that this process may still make. Linux allows a process some 65,000 in all, of which large allocations need some, and
/// four layers of ImageNet are 80,000 shards.
static FREE_MAPS: AtomicIsize = AtomicIsize::new(32_768);

/// The file of one shard.
pub(super) struct Shard {
    /// Its contents; `None` beyond [`FREE_MAPS`].
    map: Option<Mmap>,
    path: PathBuf,
    /// Byte offset of the patch tokens in the file.
    patches: usize,
    /// Byte offset of the CLS tokens, where there are any.
    cls: Option<usize>,
    /// Indices within the shard of images that could not be read.
    pub(super) skipped: Vec<usize>,
}

impl Shard {
    pub(super) fn open(path: &Path, manifest: &CacheManifest, index: usize) -> Result<Self, CacheError> {
        let damaged = |found: String| CacheError::Damaged { path: path.to_owned(), found };
        let file = atomic_file::open(path).map_err(io_error("open it", path))?;
        let map = mapped(&file, path)?;
        let count = count(manifest.images, index);
        let dtype = manifest.source.precision.dtype();
        let tensors = SafeTensors::deserialize(&map).map_err(|error| damaged(error.to_string()))?;
        let start = |name: &str, shape: &[usize]| {
            let view = tensors.tensor(name).map_err(|error| damaged(error.to_string()))?;
            if view.dtype() != dtype || view.shape() != shape {
                let found = view.shape();
                return Err(damaged(format!("`{name}` has shape {found:?}, expected {shape:?}")));
            }
            Ok(view.data().as_ptr() as usize - map.as_ptr() as usize)
        };
        let patches = start("patches", &[count, manifest.grid.len(), manifest.width])?;
        let cls = manifest.has_cls.then(|| start("cls", &[count, manifest.width])).transpose()?;
        let (_, header) = SafeTensors::read_metadata(&map).map_err(|error| damaged(error.to_string()))?;
        let skipped = header.metadata().as_ref().and_then(|entries| entries.get(SKIPPED));
        let skipped = skipped.map_or(Ok(Vec::new()), |text| serde_json::from_str(text));
        let skipped = skipped.map_err(|error| damaged(error.to_string()))?;
        let length = map.len();
        drop(map);
        // A new map has no resident pages: where pages are large, reading the header alone has loaded the
        // whole shard, and all shards together would count as used memory although nobody reads them.
        let map = mapped(&file, path)?;
        if map.len() != length {
            return Err(damaged("it changed while being opened".to_owned()));
        }
        let mut shard = Self { map: Some(map), path: path.to_owned(), patches, cls, skipped };
        if FREE_MAPS.fetch_sub(1, Ordering::Relaxed) <= 0 {
            shard.unmap();
        }
        Ok(shard)
    }

    fn unmap(&mut self) {
        if self.map.take().is_some() {
            FREE_MAPS.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Calls `read` on these bytes of the file.
    ///
    /// # Panics
    /// If the file was removed or cut meanwhile.
    fn read(&self, bytes: Range<usize>, read: impl FnOnce(&[u8])) {
        if let Some(map) = &self.map {
            return read(&map[bytes]);
        }
        let path = self.path.display();
        let open = || mapped(&File::open(&self.path).map_err(io_error("open it", &self.path))?, &self.path);
        let map = open().unwrap_or_else(|error| panic!("tokens are gone: {error}"));
        read(map.get(bytes).unwrap_or_else(|| panic!("{path}: it was cut while it was in use")));
    }
}

impl Drop for Shard {
    fn drop(&mut self) {
        self.unmap();
    }
}

fn mapped(file: &File, path: &Path) -> Result<Mmap, CacheError> {
    // SAFETY: shards are written whole, renamed into place and never changed afterwards.
    #[expect(unsafe_code, reason = "a map of a file cannot be made otherwise")]
    let map = unsafe { Mmap::map(file) };
    map.map_err(io_error("map it", path))
}

/// The cached tokens of a dataset, readable in any order.
#[derive(Clone)]
pub struct TokenCache {
    pub(super) manifest: CacheManifest,
    pub(super) shards: Arc<[Shard]>,
    /// Memory of the last [`MAX_SPARE`] batches that were given back.
    pub(super) spare: Arc<Mutex<Vec<Bytes>>>,
}

/// Buffers that are kept for later batches: the last batch of an epoch may be of another size.
const MAX_SPARE: usize = 2;
/// A shard takes seconds to write: an older temporary file was left by a killed process.
pub(super) const STALE_AFTER: Duration = Duration::from_mins(10);

impl TokenCache {
    /// The complete cache for `source` under `root`, if there is one. Only the headers of its
    /// shards are checked; [`CacheScan::verify`] reads their contents.
    pub fn find(root: &Path, source: &TokenKey) -> Result<Option<Self>, CacheError> {
        let scan = CacheScan::open(root, source, None)?;
        if let Some(Damage { path, found, expected, .. }) = scan.damage.first() {
            let (path, found) = (path.clone(), format!("{found}, expected {expected}"));
            return Err(CacheError::Damaged { path, found });
        }
        Ok(scan.into_cache().ok())
    }

    pub(super) fn from_manifest(manifest: CacheManifest, folder: &Path) -> Result<Self, CacheError> {
        let shards = (0..manifest.images.div_ceil(SHARD))
            .into_par_iter()
            .map(|index| Shard::open(&shard_path(folder, index), &manifest, index))
            .collect::<Vec<_>>();
        let shards = shards.into_iter().collect::<Result<Vec<_>, _>>()?; // the first error, always the same
        Ok(Self { manifest, shards: shards.into(), spare: Arc::default() })
    }

    /// The layer of its tokens, as [`TokenKey`] names it.
    pub fn layer(&self) -> &str {
        &self.manifest.source.layer
    }

    /// Number of images.
    pub fn len(&self) -> usize {
        self.manifest.images
    }

    /// Whether it holds no image.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The grid of patch tokens of an image.
    pub fn grid(&self) -> Grid {
        self.manifest.grid
    }

    /// Hidden size, d.
    pub fn width(&self) -> usize {
        self.manifest.width
    }

    /// Whether the file of `image` could be read when its tokens were computed.
    pub fn readable(&self, image: usize) -> bool {
        !self.shards[image / SHARD].skipped.contains(&(image % SHARD))
    }

    /// Patch tokens of `images`, `[B, N, d]` row-major, in float32.
    pub fn patches(&self, images: &[usize]) -> Vec<f32> {
        self.decoded(images, self.image_numbers(), |shard| shard.patches)
    }

    /// Numbers of an image's patch tokens, N d.
    fn image_numbers(&self) -> usize {
        self.manifest.grid.len() * self.manifest.width
    }

    /// Memory for the patch tokens of `count` images [as stored](Self::patches_as_stored), from which they are uploaded to `device`.
    pub(super) fn buffer(&self, count: usize, device: &Device) -> Bytes {
        let size = count * self.image_numbers() * self.manifest.source.precision.bytes() as usize;
        let mut spare = self.spare.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(at) = spare.iter().position(|buffer| buffer.len() == size) {
            return spare.swap_remove(at);
        }
        // Not as bytes, which could be less aligned than float16.
        page_locked(size, device).unwrap_or_else(|| Bytes::from_elems(vec![0_u16; size / 2]))
    }

    /// Takes back a [`buffer`](Self::buffer).
    pub(super) fn take_back(&self, buffer: Bytes) {
        let mut spare = self.spare.lock().unwrap_or_else(PoisonError::into_inner);
        spare.push(buffer);
        let excess = spare.len().saturating_sub(MAX_SPARE);
        spare.drain(..excess);
    }

    /// Patch tokens of `images`, `[B, N, d]`, in the precision of the cache, in a [`buffer`](Self::buffer) for as many images.
    pub(super) fn patches_as_stored(&self, images: &[usize], mut buffer: Bytes) -> TensorData {
        let dtype = match self.manifest.source.precision {
            Precision::Float32 => DType::F32,
            Precision::Float16 => DType::F16,
        };
        // The bytes as they are: little-endian, as all hosts of GPUs are.
        let size = self.image_numbers() * dtype.size();
        let copy = |bytes: &[u8], out: &mut [u8]| out.copy_from_slice(bytes);
        self.read(images, size, |shard| shard.patches, buffer.par_chunks_mut(size), copy);
        TensorData::from_bytes(buffer, [images.len(), self.manifest.grid.len(), self.manifest.width], dtype)
    }

    /// CLS tokens of `images`, `[B, d]` row-major; absent where the backbone has none.
    pub fn cls(&self, images: &[usize]) -> Option<Vec<f32>> {
        let start = |shard: &Shard| shard.cls.expect("checked on opening");
        self.manifest.has_cls.then(|| self.decoded(images, self.manifest.width, start))
    }

    /// The tokens of one image.
    pub fn tokens(&self, image: usize) -> Tokens {
        let (cls, patches) = (self.cls(&[image]), self.patches(&[image]));
        Tokens { grid: self.grid(), width: self.width(), cls, registers: Vec::new(), patches }
    }

    /// The values of `images`, `numbers` per image, `[B, numbers]`, of a tensor that begins at byte `start` of each shard.
    fn decoded(&self, images: &[usize], numbers: usize, start: fn(&Shard) -> usize) -> Vec<f32> {
        let decode = match self.manifest.source.precision {
            Precision::Float32 => decode_single,
            Precision::Float16 => decode_half,
        };
        let mut values = vec![0.0; images.len() * numbers];
        let size = numbers * self.manifest.source.precision.bytes() as usize;
        self.read(images, size, start, values.par_chunks_mut(numbers), decode);
        values
    }

    /// Calls `put` on the `size` bytes of each of `images` in a tensor that begins at byte `start` of each shard, and its place in `out`.
    fn read<T: Send>(
        &self,
        images: &[usize],
        size: usize,
        start: fn(&Shard) -> usize,
        out: ChunksMut<T>,
        put: impl Fn(&[u8], &mut [T]) + Sync,
    ) {
        out.zip(images).for_each(|(out, &image)| {
            let shard = &self.shards[image / SHARD];
            let first = start(shard) + (image % SHARD) * size;
            shard.read(first..first + size, |bytes| put(bytes, out));
        });
    }
}

fn decode_single(bytes: &[u8], out: &mut [f32]) {
    out.iter_mut().zip(bytes.as_chunks::<4>().0).for_each(|(x, b)| *x = f32::from_le_bytes(*b));
}

/// float16 little-endian bytes to float32, by the processor's own conversion where it has one.
fn decode_half(bytes: &[u8], out: &mut [f32]) {
    let mut block = [f16::ZERO; 512];
    for (bytes, out) in bytes.chunks(1024).zip(out.chunks_mut(512)) {
        let block = &mut block[..out.len()];
        for (x, b) in block.iter_mut().zip(bytes.as_chunks::<2>().0) {
            *x = f16::from_le_bytes(*b);
        }
        block.convert_to_f32_slice(out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::data::token_cache::{Writer, tests};
    use crate::model::io::catch_panic::catch_foreign;

    #[test]
    fn a_shard_without_a_map_is_mapped_for_every_read() {
        for precision in [Precision::Float16, Precision::Float32] {
            let root = tempfile::tempdir().unwrap();
            let mut writer = Writer::open(root.path(), tests::source(precision), 3).unwrap();
            tests::push(&mut writer, 0..3, None);
            let mut cache = writer.finish().unwrap();
            let tokens = [2, 0].map(|image| cache.tokens(image));
            Arc::get_mut(&mut cache.shards).unwrap().iter_mut().for_each(Shard::unmap);
            assert_eq!([2, 0].map(|image| cache.tokens(image)), tokens);
        }
    }

    #[test]
    fn a_driver_that_panics_leaves_the_spare_memory_usable() {
        let root = tempfile::tempdir().unwrap();
        let mut writer = Writer::open(root.path(), tests::source(Precision::Float16), 1).unwrap();
        tests::push(&mut writer, 0..1, None);
        let cache = writer.finish().unwrap();
        let panicked = catch_foreign::<()>(|| {
            let _held = cache.spare.lock();
            panic!("out of memory");
        });
        assert!(panicked.is_err() && cache.spare.is_poisoned());
        cache.take_back(cache.buffer(1, &Device::flex()));
    }
}
