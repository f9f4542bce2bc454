//! The source of training's tokens, batch by batch: a cache, or an encoder that computes them anew.

use std::cell::RefCell;
use std::error::Error;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread;

use burn::tensor::{Bytes, Device, TensorData};
use half::f16;
use half::slice::HalfFloatSliceExt;

use super::{Precision, TokenCache};
use crate::model::grid::Grid;

/// The tokens of a batch of images.
pub struct Rows {
    /// Patch tokens, `[B, N, d]`, in float32, or in float16 if stored so: converted where they are used, they take half the memory.
    pub patches: TensorData,
    /// CLS tokens, `[B, d]` row-major; `None` if the backbone has none.
    pub cls: Option<Vec<f32>>,
}

/// Why the tokens of a batch could not be provided.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct TokenSourceError(pub Box<dyn Error + Send + Sync>);

/// The tokens of one batch after each layer that is read, in the order of the layers.
pub type LayerRows<'a> = Box<dyn ExactSizeIterator<Item = Rows> + 'a>;

/// The tokens of all requested batches, in order.
pub type Batches<'a> = Box<dyn Iterator<Item = Result<LayerRows<'a>, TokenSourceError>> + 'a>;

/// A source of training's tokens, of one layer or of several. A cache and an encoder that computes tokens anew in the cache's
/// precision give the same tokens to the bit.
pub trait TokenSource {
    /// The grid of patch tokens of an image.
    fn grid(&self) -> Grid;

    /// Hidden size, d.
    fn width(&self) -> usize;

    /// Whether `image` has tokens.
    fn readable(&self, image: usize) -> bool;

    /// The tokens of each of `batches` of image indices, in order, for `device`. The next batch may be read while the
    /// current one is being processed.
    fn read(&self, batches: Vec<Vec<usize>>, device: &Device) -> Batches<'_>;

    /// The same for training in an epoch, counted from 0, with a seed: sources that augment images do so here.
    fn read_changed(
        &self,
        batches: Vec<Vec<usize>>,
        device: &Device,
        _epoch: usize,
        _seed: u64,
    ) -> Batches<'_> {
        self.read(batches, device)
    }

    /// Takes back the memory of patch tokens that are no longer used, for those of a later batch: new memory of this size comes from
    /// the system, which clears it page by page.
    fn take_back(&self, _patches: Bytes) {}
}

/// Caches of the same images, one per layer; there is at least one.
impl TokenSource for Vec<TokenCache> {
    fn grid(&self) -> Grid {
        self[0].grid()
    }

    fn width(&self) -> usize {
        self[0].width()
    }

    fn readable(&self, image: usize) -> bool {
        self.iter().all(|cache| cache.readable(image))
    }

    fn read(&self, batches: Vec<Vec<usize>>, device: &Device) -> Batches<'_> {
        read(self, batches, device)
    }

    fn take_back(&self, patches: Bytes) {
        self[0].take_back(patches);
    }
}

/// The next layer is read in the background while the current one is being processed, into memory that this thread has allocated:
/// while a GPU records a step, no other thread may call its driver.
fn read<'a>(caches: &'a [TokenCache], batches: Vec<Vec<usize>>, device: &Device) -> Batches<'a> {
    let (count, layers) = (batches.len(), caches.len());
    let mut requests = batches.into_iter().flat_map(move |images| {
        let images = Arc::<[usize]>::from(images);
        caches.iter().map(move |cache| (cache.clone(), images.clone()))
    });
    let device = device.clone();
    let start = move |(cache, images): (TokenCache, Arc<[usize]>)| {
        let buffer = caches[0].buffer(images.len(), &device);
        start(cache, images, buffer)
    };
    let mut pending = requests.next().map(&start);
    let prefetch = Rc::new(RefCell::new(std::iter::from_fn(move || {
        let rows = pending.take()?.recv().expect("who was asked answers");
        let rows = rows.unwrap_or_else(|panic| resume_unwind(panic));
        pending = requests.next().map(&start);
        Some(rows)
    })));
    Box::new((0..count).map(move |_| {
        let prefetch = prefetch.clone();
        let next = move |_| prefetch.borrow_mut().next().expect("every layer of every batch has its turn");
        Ok(Box::new((0..layers).map(next)) as LayerRows)
    }))
}

/// Starts reading the tokens of `images` in their stored precision into `buffer`, on a worker thread.
fn start(cache: TokenCache, images: Arc<[usize]>, buffer: Bytes) -> Receiver<thread::Result<Rows>> {
    let (sender, receiver) = sync_channel(1);
    rayon::spawn(move || {
        let read = || Rows { patches: cache.patches_as_stored(&images, buffer), cls: cache.cls(&images) };
        let rows = catch_unwind(AssertUnwindSafe(read)); // a panic of a spawned task would end the program
        let _ = sender.send(rows); // nobody receives them if training was stopped
    });
    receiver
}

/// Rounds `values` as storing them in a cache of this precision would.
pub fn round(values: &mut [f32], precision: Precision) {
    if precision == Precision::Float16 {
        let mut halves = [f16::ZERO; 512];
        for part in values.chunks_mut(512) {
            let halves = &mut halves[..part.len()];
            halves.convert_from_f32_slice(part);
            halves.convert_to_f32_slice(part);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounding_is_to_the_nearest_half() {
        let mut values = vec![1.0, 1.000_1, 70_000.0, -0.1];
        round(&mut values, Precision::Float32);
        assert_eq!(values, [1.0, 1.000_1, 70_000.0, -0.1]);
        round(&mut values, Precision::Float16);
        assert_eq!(values, [1.0, 1.0, f32::INFINITY, -0.099_975_586]);
    }
}

#[cfg(test)]
mod gpu_tests {
    use burn::tensor::DType;

    use super::*;
    use crate::gpus::gpus;
    use crate::model::data::token_cache::{TokenKey, Writer, tests};
    use crate::model::ops::halves::widened;
    use crate::model::tokens::Tokens;

    /// Five images of 2 x 3 patches, as after layer `layer`.
    fn cache(layer: usize, precision: Precision) -> (tempfile::TempDir, TokenCache) {
        let key = TokenKey { layer: layer.to_string(), ..tests::source(precision) };
        let root = tempfile::tempdir().unwrap();
        let mut writer = Writer::open(root.path(), key, 5).unwrap();
        for image in 0..5 {
            let number = |i: usize| ((layer * 500 + image * 100 + i) as f32 * 0.37).sin();
            let (cls, patches) = (Some((90..93).map(number).collect()), (0..18).map(number).collect());
            let (grid, registers) = (Grid::new(2, 3), Vec::new());
            writer.push(Some(Tokens { grid, width: 3, cls, registers, patches }), None).unwrap();
        }
        (root, writer.finish().unwrap())
    }

    #[test]
    fn a_gpu_is_given_the_processors_tokens_batch_by_batch_and_layer_by_layer() {
        for (precision, kept) in [(Precision::Float16, DType::F16), (Precision::Float32, DType::F32)] {
            let (_roots, caches): (Vec<_>, Vec<_>) =
                [1, 2].map(|layer| cache(layer, precision)).into_iter().unzip();
            let wanted = vec![vec![3, 0], vec![2], vec![1, 4, 3]];
            let read = |device: &Device, dtype: DType| {
                let mut found = Vec::new();
                for layers in caches.read(wanted.clone(), device) {
                    for rows in layers.unwrap() {
                        assert_eq!(rows.patches.dtype(), dtype);
                        let patches = widened::<3>(rows.patches, device);
                        let dims = patches.dims();
                        found.push((dims, patches.into_data().try_into_vec::<f32>().unwrap(), rows.cls));
                    }
                }
                found
            };
            let expected = read(&Device::flex(), kept);
            assert_eq!(expected.len(), 2 * wanted.len());
            for (name, gpu) in gpus() {
                assert_eq!(read(&gpu, kept), expected, "{name}");
                // As where a training is stopped: its reader ends, too.
                let first = caches.read(wanted.clone(), &gpu).next().unwrap().unwrap().next().unwrap();
                assert_eq!(first.cls, expected[0].2);
            }
        }
    }
}
