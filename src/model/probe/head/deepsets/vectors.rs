//! Loops over a token's values, for the widest registers there are.

use crate::model::ops::simd::vectorised;

/// Lanes that sums are kept in until the end.
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
    /// `q` becomes what `h` is owed, `s u - w q` where the ReLU let it through, and `weighed` `w h`.
    pub(super) fn hidden_vjp<const FUSED: bool>(s: f32, w: f32, u: &[f32], h: &[f32], q: &mut [f32], weighed: &mut [f32]) {
        for (((u, h), q), weighed) in u.iter().zip(h).zip(q).zip(weighed) {
            *q = if *h > 0.0 { s * u - w * *q } else { 0.0 };
            *weighed = w * h;
        }
    }
}

/// Values less their mean.
pub(super) fn centred(of: &[f32]) -> Vec<f32> {
    let mean = sum(of) / of.len() as f32;
    of.iter().map(|x| x - mean).collect()
}
