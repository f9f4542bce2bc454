//! Loops over a token's values, compiled for the widest vector registers available.

use crate::model::ops::simd::vectorised;

/// Partial sums, added up at the end.
const LANES: usize = 16;

vectorised! {
    pub(super) fn sum<const FUSED: bool>(values: &[f32]) -> f32 {
        let (blocks, rest) = values.as_chunks::<LANES>();
        let mut sums = [0.0; LANES];
        for block in blocks {
            (0..LANES).for_each(|lane| sums[lane] += block[lane]);
        }
        sums.into_iter().sum::<f32>() + rest.iter().sum::<f32>()
    }
}

vectorised! {
    /// Replaces `q` by the gradient of `h`, `s u - w q` where the ReLU is active and else 0, and sets `weighted` to `w h`.
    pub(super) fn hidden_vjp<const FUSED: bool>(s: f32, w: f32, u: &[f32], h: &[f32], q: &mut [f32], weighted: &mut [f32]) {
        for (((u, h), q), weighted) in u.iter().zip(h).zip(q).zip(weighted) {
            *q = if *h > 0.0 { s * u - w * *q } else { 0.0 };
            *weighted = w * h;
        }
    }
}

/// The values less their mean.
pub(super) fn centred(values: &[f32]) -> Vec<f32> {
    let mean = sum(values) / values.len() as f32;
    values.iter().map(|x| x - mean).collect()
}
