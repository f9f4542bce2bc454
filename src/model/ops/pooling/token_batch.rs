//! The tokens of a batch as the CPU reads them: one image at a time, in blocks of a few rows.

use burn::tensor::DType;
use burn_flex::FlexTensor;
use half::f16;
use half::slice::HalfFloatSliceExt;

use super::products::{ROWS, add_weighted, dots};
use crate::model::ops::cpu::as_f32;

/// `[B, N, d]`, in float32 or, as token caches hold them, in float16.
pub(in crate::model) struct TokenBatch {
    values: FlexTensor,
    /// Number of images, B.
    pub images: usize,
    /// Number of tokens of an image, N.
    pub count: usize,
    /// Number of channels of a token, d.
    pub width: usize,
}

impl TokenBatch {
    /// The tokens of a tensor `[B, N, d]`.
    ///
    /// # Panics
    /// If the tensor has not three axes, or is neither float32 nor float16: a bug of the caller.
    pub fn new(values: &FlexTensor) -> Self {
        let shape: &[usize] = values.layout().shape();
        let &[images, count, width] = shape else { unreachable!("tokens have three axes") };
        let readable = matches!(values.dtype(), DType::F32 | DType::F16);
        assert!(readable, "tokens are float32 or float16, not {:?}", values.dtype());
        Self { values: values.to_contiguous(), images, count, width }
    }

    /// All tokens, `[B, N, d]` row-major.
    ///
    /// # Panics
    /// If they are not float32: a bug of the caller.
    pub fn as_f32(&self) -> &[f32] {
        as_f32(&self.values)
    }

    /// Calls `read` on the tokens of `image`, [`ROWS`] at a time, with the index of the first of them.
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

    /// Calls `read` on every token of `image`, with its index.
    pub fn each_token(&self, image: usize, mut read: impl FnMut(usize, &[f32])) {
        self.each(image, |at, block| {
            block.chunks_exact(self.width).enumerate().for_each(|(i, token)| read(at + i, token));
        });
    }

    /// The dot products of `rows` `[M, d]` with every token of `image`: `[M, N]`.
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

    /// Adds `weights` `[M, N]` times the tokens of `image` to `sums` `[M, d]`.
    pub fn add(&self, image: usize, weights: &[f64], sums: &mut [f32]) {
        if weights.is_empty() {
            return; // without reading tokens, as where a batch's only head reads CLS tokens
        }
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
