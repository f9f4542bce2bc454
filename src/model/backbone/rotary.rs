//! Rotary positions (Su et al., 2021) over the image: pairs of channels of queries and keys are rotated by angles that depend
//! on the patch's position. CLS and registers are not rotated. Angles follow from the grid, so no table is resampled.
//!
//! DINOv3 (Siméoni et al., 2025): a patch at row r, column c of a grid R x C lies at `y = 2 (r + 1/2) / R - 1`, `x`
//! likewise. In every head of width p, the channels j and j + p/2 are rotated as a pair by the angle `2 pi y base^(-4j/p)`
//! for j < p/4, and by `2 pi x base^(-4(j - p/4)/p)` for the next quarter.
//!
//! EVA-02 (Fang et al., 2023): the patch lies at `y = S r / R`, `x = S c / C`, counted in patches of the grid of S x S that the model
//! was pre-trained on. The channels 2j and 2j + 1 are rotated as a pair, by `y base^(-4j/p)` for j < p/4, and by
//! `x base^(-4(j - p/4)/p)` for the rest.

use std::f64::consts::TAU;

use burn::tensor::{Device, Int, Tensor, TensorData};

use crate::model::grid::Grid;

/// The angles of a family, and which channels it rotates as a pair.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rotary {
    /// DINOv3: coordinates are relative to the image's centre.
    Centred {
        /// The base of the wavelengths.
        base: f64,
    },
    /// EVA-02: coordinates are counted from the top-left corner.
    Counted {
        /// The base of the wavelengths.
        base: f64,
        /// Edge S, in patches, of the square grid that coordinates are scaled to.
        reference: usize,
    },
}

impl Rotary {
    /// The angle in radians of a channel of a head of width `head_dim` at a patch of `grid`, and whether the channel is the first
    /// of its pair.
    pub(super) fn angle(self, patch: usize, grid: Grid, channel: usize, head_dim: usize) -> (f64, bool) {
        let (half, quarter) = (head_dim / 2, head_dim / 4);
        let (pair, is_first) = match self {
            Self::Centred { .. } => (channel % half, channel < half),
            Self::Counted { .. } => (channel / 2, channel.is_multiple_of(2)),
        };
        let (row, col) = ((patch / grid.cols, grid.rows), (patch % grid.cols, grid.cols));
        let (at, of) = if pair < quarter { row } else { col };
        let wave = |base: f64| base.powf(-((pair % quarter) as f64) / quarter as f64);
        let angle = match self {
            Self::Centred { base } => TAU * (2.0 * (at as f64 + 0.5) / of as f64 - 1.0) * wave(base),
            Self::Counted { base, reference } => at as f64 * reference as f64 / of as f64 * wave(base),
        };
        (angle, is_first)
    }
}

/// Cosine and sine of every angle, for the tokens of one grid.
#[derive(Clone)]
pub struct Rotation {
    pub(super) cos: Tensor<4>, // [1 or B, 1, T, p]
    pub(super) sin: Tensor<4>, // [1 or B, 1, T, p], negative in the first channel of a pair
    pub(super) rotary: Rotary,
}

impl Rotation {
    /// The rotation for `prefix` tokens, which are not rotated, and those of `grid`; `head_dim` must be a multiple of 4.
    pub fn new(grid: Grid, prefix: usize, head_dim: usize, rotary: Rotary, device: &Device) -> Self {
        let mut cos = vec![1.0; prefix * head_dim];
        let mut sin = vec![0.0; prefix * head_dim];
        for patch in 0..grid.len() {
            for channel in 0..head_dim {
                let (angle, is_first) = rotary.angle(patch, grid, channel, head_dim);
                cos.push(angle.cos() as f32);
                sin.push(if is_first { -angle.sin() } else { angle.sin() } as f32);
            }
        }
        let shape = [1, 1, prefix + grid.len(), head_dim];
        let tensor = |values| Tensor::from_data(TensorData::new(values, shape), device);
        Self { cos: tensor(cos), sin: tensor(sin), rotary }
    }

    /// The rotation of a subset of the tokens of each of `batch` images: `rows` `[B T']` are their indices.
    pub fn select(&self, rows: &Tensor<1, Int>, batch: usize) -> Self {
        let of = |all: &Tensor<4>| {
            let head_dim = all.dims()[3];
            all.clone().select(2, rows.clone()).reshape([batch, 1, rows.dims()[0] / batch, head_dim])
        };
        Self { cos: of(&self.cos), sin: of(&self.sin), rotary: self.rotary }
    }

    /// Queries or keys, `[B, heads, T, p]` in float32, rotated.
    pub fn apply(&self, x: Tensor<4>) -> Tensor<4> {
        let [images, heads, tokens, head_dim] = x.dims();
        let swapped = match self.rotary {
            Rotary::Centred { .. } => x.clone().roll_dim((head_dim / 2) as i64, 3),
            Rotary::Counted { .. } => {
                let pairs = x.clone().reshape([images, heads, tokens, head_dim / 2, 2]);
                pairs.flip([4]).reshape([images, heads, tokens, head_dim])
            }
        };
        x * self.cos.clone() + swapped * self.sin.clone()
    }
}
