//! Where training reads its tokens, batch by batch: from a cache, or from whoever makes them anew.

use std::error::Error;

use half::f16;
use half::slice::HalfFloatSliceExt;

use super::{Precision, TokenCache};
use crate::model::grid::Grid;

/// The tokens of a batch of images.
pub struct Rows {
    /// Patch tokens, `[B, N, d]` row-major.
    pub patches: Vec<f32>,
    /// CLS tokens, `[B, d]` row-major; absent where the backbone has none.
    pub cls: Option<Vec<f32>>,
}

/// Why there are no tokens where there were to be some.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct TokenSourceError(pub Box<dyn Error + Send + Sync>);

/// The tokens of one batch after every layer that is read, one layer after the other.
pub type LayerRows<'a> = Box<dyn Iterator<Item = Rows> + 'a>;

/// Batches of tokens, one after the other.
pub type Batches<'a> = Box<dyn Iterator<Item = Result<LayerRows<'a>, TokenSourceError>> + 'a>;

/// Where training reads its tokens, of one layer or of several. The same images have the same tokens, to the bit, from a cache and
/// from what makes them anew in the cache's precision.
pub trait TokenSource {
    /// How the patch tokens lie over the images.
    fn grid(&self) -> Grid;

    /// Hidden size, d.
    fn width(&self) -> usize;

    /// Whether `image` has tokens.
    fn readable(&self, image: usize) -> bool;

    /// The tokens of each of `batches` of images, in this order: what comes next may be prepared while
    /// the one before is worked on.
    fn read(&self, batches: Vec<Vec<usize>>) -> Batches<'_>;

    /// The same to be trained on in an epoch, from 0, by a training of this seed: of images changed anew, where they are.
    fn read_changed(&self, batches: Vec<Vec<usize>>, _epoch: usize, _seed: u64) -> Batches<'_> {
        self.read(batches)
    }
}

impl TokenSource for TokenCache {
    fn grid(&self) -> Grid {
        self.grid()
    }

    fn width(&self) -> usize {
        self.width()
    }

    fn readable(&self, image: usize) -> bool {
        self.readable(image)
    }

    fn read(&self, batches: Vec<Vec<usize>>) -> Batches<'_> {
        read(std::slice::from_ref(self), batches)
    }
}

/// Caches of the same images, one a layer; there is at least one.
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

    fn read(&self, batches: Vec<Vec<usize>>) -> Batches<'_> {
        read(self, batches)
    }
}

/// A layer is read when it is its turn: no two layers of a batch are in memory.
fn read(caches: &[TokenCache], batches: Vec<Vec<usize>>) -> Batches<'_> {
    Box::new(batches.into_iter().map(|images| {
        let rows =
            move |cache: &TokenCache| Rows { patches: cache.patches(&images), cls: cache.cls(&images) };
        Ok(Box::new(caches.iter().map(rows)) as LayerRows)
    }))
}

/// Rounds `values` to what a cache of this precision gives back.
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
