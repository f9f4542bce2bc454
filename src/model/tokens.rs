//! The tokens that a frozen backbone computes from one image.

use super::grid::Grid;

/// The tokens of one image, on the host: the output of the backbone's last layer, or of any other.
#[derive(Clone, Debug, PartialEq)]
pub struct Tokens {
    /// How the patch tokens are arranged over the image; `grid.len()` is N.
    pub grid: Grid,
    /// Hidden size of the backbone, d.
    pub width: usize,
    /// The CLS token, `[d]`; absent where the backbone has none.
    pub cls: Option<Vec<f32>>,
    /// The tokens between CLS and the patches, `[R, d]` row-major: register tokens, DeiT's distillation token;
    /// empty for most backbones.
    pub registers: Vec<f32>,
    /// Patch tokens, `[N, d]` row-major, in raster order.
    pub patches: Vec<f32>,
}

impl Tokens {
    /// The patch token `i`, `[d]`.
    pub fn patch(&self, i: usize) -> &[f32] {
        &self.patches[i * self.width..(i + 1) * self.width]
    }

    /// The same with other patch tokens, without a copy of its own.
    pub fn with_patches(&self, patches: Vec<f32>) -> Self {
        let Self { grid, width, ref cls, ref registers, .. } = *self;
        Self { grid, width, cls: cls.clone(), registers: registers.clone(), patches }
    }

    /// The same with the patch tokens `indices` alone, in their order.
    pub fn picked(&self, indices: &[usize]) -> Self {
        self.with_patches(indices.iter().flat_map(|&i| self.patch(i)).copied().collect())
    }
}
