//! The tokens of a batch as the CPU reads them: an image at a time, some rows together.

use burn::tensor::DType;
use burn_flex::FlexTensor;
use half::f16;
use half::slice::HalfFloatSliceExt;

use super::products::{ROWS, add_weighted, dots};
use crate::model::ops::cpu::as_f32;

/// `[B, N, d]`, in float32 or in the float16 that caches hold.
pub(in crate::model) struct Tokens {
    values: FlexTensor,
    /// B.
    pub images: usize,
    /// N.
    pub count: usize,
    /// d.
    pub width: usize,
}

impl Tokens {
    /// Those of a tensor.
    ///
    /// # Panics
    /// If it has not three axes or another precision: a bug of the caller.
    pub fn new(values: &FlexTensor) -> Self {
        let shape: &[usize] = values.layout().shape();
        let &[images, count, width] = shape else { unreachable!("tokens have three axes") };
        let readable = matches!(values.dtype(), DType::F32 | DType::F16);
        assert!(readable, "tokens are float32 or float16, not {:?}", values.dtype());
        Self { values: values.to_contiguous(), images, count, width }
    }

    /// All of them, `[B, N, d]` row-major, where they are in float32.
    ///
    /// # Panics
    /// If they are not: a bug of the caller.
    pub fn as_f32(&self) -> &[f32] {
        as_f32(&self.values)
    }

    /// Hands the tokens of `image` to `read`, [`ROWS`] at a time, with the index of the first.
    pub fn each(&self, image: usize, mut read: impl FnMut(usize, &[f32])) {
        let of_image = image * self.count * self.width..(image + 1) * self.count * self.width;
        let size = ROWS * self.width;
        if let Some(values) = self.values.as_slice::<f32>() {
            values[of_image].chunks(size).enumerate().for_each(|(at, block)| read(at * ROWS, block));
        } else if let Some(values) = self.values.as_slice::<f16>() {
            let mut decoded = vec![0.0; size];
            for (at, block) in values[of_image].chunks(size).enumerate() {
                let decoded = &mut decoded[..block.len()];
                block.convert_to_f32_slice(decoded);
                read(at * ROWS, decoded);
            }
        }
    }

    /// Hands every token of `image` to `read`, with its index.
    pub fn each_token(&self, image: usize, mut read: impl FnMut(usize, &[f32])) {
        self.each(image, |at, block| {
            block.chunks_exact(self.width).enumerate().for_each(|(i, token)| read(at + i, token));
        });
    }

    /// `rows[m] . token` for every token: `[M, N]`.
    pub fn scores(&self, image: usize, rows: &[f32]) -> Vec<f64> {
        let count = rows.len() / self.width;
        let mut scores = vec![0.0; count * self.count];
        let mut block_scores = vec![0.0; count * ROWS];
        self.each(image, |at, block| {
            dots(block, rows, self.width, &mut block_scores);
            for (q, found) in block_scores.chunks(ROWS).enumerate() {
                let into = &mut scores[q * self.count + at..][..block.len() / self.width];
                into.iter_mut().zip(found).for_each(|(into, &x)| *into = f64::from(x));
            }
        });
        scores
    }

    /// Adds `weights` `[M, N]` times the tokens to `sums` `[M, d]`.
    pub fn add(&self, image: usize, weights: &[f64], sums: &mut [f32]) {
        let mut block_weights = vec![0.0; weights.len() / self.count * ROWS];
        self.each(image, |at, block| {
            if block.len() < ROWS * self.width {
                block_weights.fill(0.0);
            }
            for (m, weights) in weights.chunks(self.count).enumerate() {
                let into = block_weights[m * ROWS..].iter_mut();
                weights[at..].iter().take(ROWS).zip(into).for_each(|(&w, into)| *into = w as f32);
            }
            add_weighted(block, &block_weights, self.width, sums);
        });
    }
}
