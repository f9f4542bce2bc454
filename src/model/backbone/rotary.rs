//! Rotary positions (Su et al., 2021) over the image: pairs of channels of queries and keys are turned by angles of the
//! patch's place. What stands before the patches is not turned. Nothing is resampled: any grid has its angles.
//!
//! DINOv3 (Siméoni et al., 2025): a patch at row r, column c of a grid R x C lies at `y = 2 (r + 1/2) / R - 1`, `x`
//! likewise. In every head of width p, the channels j and j + p/2 are turned as a pair by the angle `2 pi y base^(-4j/p)`
//! for j < p/4, and by `2 pi x base^(-4(j - p/4)/p)` for the next quarter.
//!
//! EVA-02 (Fang et al., 2023): it lies at `y = S r / R`, `x = S c / C`, counted in patches of the grid of S x S that the model
//! was pre-trained on. The channels 2j and 2j + 1 are turned as a pair, by `y base^(-4j/p)` for j < p/4, and by
//! `x base^(-4(j - p/4)/p)` for the rest.

use std::f64::consts::TAU;

use burn::tensor::{Device, Int, Tensor, TensorData};

use crate::model::grid::Grid;

/// By which angles a family turns, and which channels together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rotary {
    /// DINOv3's: from the middle of the image.
    Centred {
        /// The base of the wavelengths.
        base: f64,
    },
    /// EVA-02's: from its first corner.
    Counted {
        /// The base of the wavelengths.
        base: f64,
        /// Patches along an edge of the grid that places are counted on.
        reference: usize,
    },
}

impl Rotary {
    /// The angle of a channel of a head of width `part` at a patch of `grid`, and whether the channel is the first of its
    /// pair.
    pub(super) fn angle(self, patch: usize, grid: Grid, channel: usize, part: usize) -> (f64, bool) {
        let (half, quarter) = (part / 2, part / 4);
        let (row, col) = ((patch / grid.cols, grid.rows), (patch % grid.cols, grid.cols));
        let ((at, of), j, is_first) = match self {
            Self::Centred { .. } => {
                let j = channel % half;
                (if j < quarter { row } else { col }, j % quarter, channel < half)
            }
            Self::Counted { .. } => {
                let j = channel / 2;
                (if j < quarter { row } else { col }, j % quarter, channel.is_multiple_of(2))
            }
        };
        let wave = |base: f64| base.powf(-(j as f64) / quarter as f64);
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
    /// For `prefix` tokens and those of `grid`, with heads of width `part`, a multiple of 4.
    pub fn new(grid: Grid, prefix: usize, part: usize, rotary: Rotary, device: &Device) -> Self {
        let mut cos = vec![1.0; prefix * part];
        let mut sin = vec![0.0; prefix * part];
        for patch in 0..grid.len() {
            for channel in 0..part {
                let (angle, is_first) = rotary.angle(patch, grid, channel, part);
                cos.push(angle.cos() as f32);
                sin.push(if is_first { -angle.sin() } else { angle.sin() } as f32);
            }
        }
        let shape = [1, 1, prefix + grid.len(), part];
        let tensor = |values| Tensor::from_data(TensorData::new(values, shape), device);
        Self { cos: tensor(cos), sin: tensor(sin), rotary }
    }

    /// Those of some tokens of each of `batch` images: `rows` `[B T']`.
    pub fn select(&self, rows: &Tensor<1, Int>, batch: usize) -> Self {
        let of = |all: &Tensor<4>| {
            let part = all.dims()[3];
            all.clone().select(2, rows.clone()).reshape([batch, 1, rows.dims()[0] / batch, part])
        };
        Self { cos: of(&self.cos), sin: of(&self.sin), rotary: self.rotary }
    }

    /// Queries or keys, `[B, heads, T, p]`, turned.
    pub fn turn(&self, x: Tensor<4>) -> Tensor<4> {
        let [images, heads, tokens, part] = x.dims();
        let swapped = match self.rotary {
            Rotary::Centred { .. } => x.clone().roll_dim((part / 2) as i64, 3),
            Rotary::Counted { .. } => {
                let pairs = x.clone().reshape([images, heads, tokens, part / 2, 2]);
                pairs.flip([4]).reshape([images, heads, tokens, part])
            }
        };
        x.clone() * self.cos.clone().cast(x.dtype()) + swapped * self.sin.clone().cast(x.dtype())
    }
}
