//! What a frozen backbone says of one image.

use super::grid::Grid;

/// The tokens of one image, on the host, as the backbone's last layer (or any other) gives them.
#[derive(Clone, Debug, PartialEq)]
pub struct Tokens {
    /// How the patch tokens lie over the image; `grid.len()` is N.
    pub grid: Grid,
    /// Hidden size of the backbone, d.
    pub width: usize,
    /// The CLS token, `[d]`; absent where the backbone has none.
    pub cls: Option<Vec<f32>>,
    /// What stands between CLS and the patches, `[R, d]` row-major: register tokens, DeiT's token of
    /// distillation; empty for most backbones.
    pub registers: Vec<f32>,
    /// Patch tokens, `[N, d]` row-major, in raster order.
    pub patches: Vec<f32>,
}

impl Tokens {
    /// The patch token `i`, `[d]`.
    pub fn patch(&self, i: usize) -> &[f32] {
        &self.patches[i * self.width..(i + 1) * self.width]
    }
}
