//! Loops over a token's values, for the widest registers there are.

use crate::model::vectorise::{multiply_add, vectorised};

/// Lanes that sums are kept in until the end.
const LANES: usize = 16;

vectorised! {
    /// `a . b`.
    pub(super) fn dot<const FUSED: bool>(a: &[f32], b: &[f32]) -> f32 {
        let (a, a_rest) = a.as_chunks::<LANES>();
        let (b, b_rest) = b.as_chunks::<LANES>();
        let mut sums = [0.0; LANES];
        for (a, b) in a.iter().zip(b) {
            (0..LANES).for_each(|lane| sums[lane] += a[lane] * b[lane]);
        }
        sums.into_iter().sum::<f32>() + a_rest.iter().zip(b_rest).map(|(a, b)| a * b).sum::<f32>()
    }
}

vectorised! {
    /// The sum.
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
    /// `into += factor values`.
    pub(super) fn add_scaled<const FUSED: bool>(factor: f32, values: &[f32], into: &mut [f32]) {
        for (into, &x) in into.iter_mut().zip(values) {
            *into = multiply_add::<FUSED, f32>(factor, x, *into);
        }
    }
}

vectorised! {
    /// `q` becomes what `h` is owed, `s u - w q` where the ReLU let it through, and `weighed` `w h`.
    pub(super) fn pull<const FUSED: bool>(s: f32, w: f32, u: &[f32], h: &[f32], q: &mut [f32], weighed: &mut [f32]) {
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
