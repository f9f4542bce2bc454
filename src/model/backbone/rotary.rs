//! Rotary positions (Su et al., 2021) over the image, as DINOv3 has them (Siméoni et al., 2025).
//!
//! A patch at row r, column c of a grid R x C lies at `y = 2 (r + 1/2) / R - 1`, `x` likewise. In every
//! head of width p, the channels j and j + p/2 of queries and keys are turned as a pair by the angle
//! `2 pi y base^(-4j/p)` for j < p/4, and by `2 pi x base^(-4(j - p/4)/p)` for the next quarter. What
//! stands before the patches is not turned. Nothing is resampled: any grid has its angles.

use std::f64::consts::TAU;

use burn::tensor::{Device, Int, Tensor, TensorData};

use crate::model::grid::Grid;

/// Cosine and sine of every angle, for the tokens of one grid.
#[derive(Clone)]
pub struct Rotation {
    cos: Tensor<4>, // [1 or B, 1, T, p]
    sin: Tensor<4>, // [1 or B, 1, T, p], negative in the first half
}

impl Rotation {
    /// For `prefix` tokens and those of `grid`, with heads of width `part`, a multiple of 4.
    pub fn new(grid: Grid, prefix: usize, part: usize, base: f64, device: &Device) -> Self {
        let (half, quarter) = (part / 2, part / 4);
        let mut cos = vec![1.0; prefix * part];
        let mut sin = vec![0.0; prefix * part];
        let place = |i: usize, of: usize| 2.0 * (i as f64 + 0.5) / of as f64 - 1.0;
        for patch in 0..grid.len() {
            let (y, x) = (place(patch / grid.cols, grid.rows), place(patch % grid.cols, grid.cols));
            for channel in 0..part {
                let j = channel % half;
                let along = if j < quarter { y } else { x };
                let angle = TAU * along * base.powf(-((j % quarter) as f64) / quarter as f64);
                cos.push(angle.cos() as f32);
                sin.push(if channel < half { -angle.sin() } else { angle.sin() } as f32);
            }
        }
        let shape = [1, 1, prefix + grid.len(), part];
        let tensor = |values| Tensor::from_data(TensorData::new(values, shape), device);
        Self { cos: tensor(cos), sin: tensor(sin) }
    }

    /// Those of some tokens of each of `batch` images: `rows` `[B T']`.
    pub fn select(&self, rows: &Tensor<1, Int>, batch: usize) -> Self {
        let of = |all: &Tensor<4>| {
            let part = all.dims()[3];
            all.clone().select(2, rows.clone()).reshape([batch, 1, rows.dims()[0] / batch, part])
        };
        Self { cos: of(&self.cos), sin: of(&self.sin) }
    }

    /// Queries or keys, `[B, heads, T, p]`, turned.
    pub fn turn(&self, x: Tensor<4>) -> Tensor<4> {
        let half = x.dims()[3] / 2;
        let swapped = x.clone().roll_dim(half as i64, 3);
        x.clone() * self.cos.clone().cast(x.dtype()) + swapped * self.sin.clone().cast(x.dtype())
    }
}
