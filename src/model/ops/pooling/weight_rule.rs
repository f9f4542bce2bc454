//! From the scores of one image to the weights of its tokens, and back: what makes one pooling
//! differ from another.
//!
//! A rule says it twice: [`weigh`](WeightRule::weigh) for one image in float64 on the host, with the way
//! back as a function, for the [pass](super::pass) of the CPU; [`weights`](WeightRule::weights) on tensors,
//! for every other device. Tests hold the two together.

use burn::tensor::Tensor;

use crate::model::ops::{self, place::look_up};

/// From scores to weights.
pub trait WeightRule: Send + Sync {
    /// How many weighted sums it makes, M.
    fn pools(&self) -> usize {
        1
    }

    /// Whether the sum of its weights follows each weighted sum: for weights that need not sum to 1.
    fn counts(&self) -> bool {
        false
    }

    /// The weights of one image, `[M, N]`. `scores`: `[Q, N]`; `gains`: as the head made them.
    fn weigh(&self, image: usize, n: usize, scores: &[f64], gains: &[f64]) -> WeightsVjp;

    /// The weights of a batch of `tokens` `[B, N, d]`: `[B or 1, M, N]`. `scores`: `[B, Q, N]` where
    /// there are queries; `gains` where there are any.
    fn weights(&self, tokens: &Tensor<3>, scores: Option<Tensor<3>>, gains: Option<Tensor<2>>) -> Tensor<3>;
}

/// The weights of one image, and the way back.
pub struct WeightsVjp {
    /// `[M, N]`.
    pub weights: Vec<f64>,
    /// From the gradient of the weights to those of scores and gains.
    pub vjp: Vjp,
}

/// From the gradient of the weights, `[M, N]`, to those of scores and gains.
pub type Vjp = Box<dyn Fn(&[f64]) -> WeightGrads + Send + Sync>;

/// Gradients of what went into the weights of one image.
pub struct WeightGrads {
    /// `[Q, N]`.
    pub scores: Vec<f64>,
    /// As many as there were.
    pub gains: Vec<f64>,
}

impl WeightGrads {
    pub(in crate::model) fn of_scores(scores: Vec<f64>) -> Self {
        Self { scores, gains: vec![] }
    }

    fn of_gains(gains: Vec<f64>) -> Self {
        Self { scores: vec![], gains }
    }
}

/// Every token alike: `1 / N`.
pub struct UniformWeights;

impl WeightRule for UniformWeights {
    fn weigh(&self, _: usize, n: usize, _: &[f64], _: &[f64]) -> WeightsVjp {
        let vjp = Box::new(|_: &[f64]| WeightGrads::of_scores(vec![]));
        WeightsVjp { weights: vec![1.0 / n as f64; n], vjp }
    }

    fn weights(&self, tokens: &Tensor<3>, _: Option<Tensor<3>>, _: Option<Tensor<2>>) -> Tensor<3> {
        let [_, n, _] = tokens.dims();
        Tensor::full([1, 1, n], 1.0 / n as f64, (&tokens.device(), tokens.dtype()))
    }
}

/// The gains themselves, `[1, N]`, for every image.
pub struct FixedWeights;

impl WeightRule for FixedWeights {
    fn weigh(&self, _: usize, _: usize, _: &[f64], gains: &[f64]) -> WeightsVjp {
        let vjp = Box::new(|by_weights: &[f64]| WeightGrads::of_gains(by_weights.to_vec()));
        WeightsVjp { weights: gains.to_vec(), vjp }
    }

    fn weights(&self, _: &Tensor<3>, _: Option<Tensor<3>>, gains: Option<Tensor<2>>) -> Tensor<3> {
        gains.expect("weights are given").unsqueeze_dim(0)
    }
}

/// The gains `[1, N]` by position, at the tokens that are read there: another order for every image.
pub struct PermutedWeights {
    /// Which position each token of each image is read at, `[B, N]` row-major.
    pub places: std::sync::Arc<Vec<usize>>,
}

impl WeightRule for PermutedWeights {
    fn weigh(&self, image: usize, n: usize, _: &[f64], gains: &[f64]) -> WeightsVjp {
        let own = image * n..(image + 1) * n;
        let weights = self.places[own.clone()].iter().map(|&k| gains[k]).collect();
        let places = self.places.clone();
        let vjp = move |by_weights: &[f64]| {
            let mut gains = vec![0.0; n];
            places[own.clone()].iter().zip(by_weights).for_each(|(&k, x)| gains[k] += x);
            WeightGrads::of_gains(gains)
        };
        WeightsVjp { weights, vjp: Box::new(vjp) }
    }

    fn weights(&self, tokens: &Tensor<3>, _: Option<Tensor<3>>, gains: Option<Tensor<2>>) -> Tensor<3> {
        let [images, n, _] = tokens.dims();
        let gains = gains.expect("positions have gains").transpose(); // [N, 1]
        look_up(gains, &self.places).reshape([images, 1, n])
    }
}

/// A softmax over the tokens for each query: `softmax_i(scale score_i)`.
pub struct AttentionWeights {
    /// How many queries, and pools.
    pub queries: usize,
    /// What scores are multiplied with.
    pub scale: f64,
}

impl WeightRule for AttentionWeights {
    fn pools(&self) -> usize {
        self.queries
    }

    fn weigh(&self, _: usize, n: usize, scores: &[f64], _: &[f64]) -> WeightsVjp {
        let scale = self.scale;
        let soft = |scores: &[f64]| softmax(&scores.iter().map(|s| s * scale).collect::<Vec<_>>());
        let weights: Vec<f64> = scores.chunks(n).flat_map(soft).collect();
        let kept = weights.clone();
        let vjp = move |by_weights: &[f64]| {
            let rows = kept.chunks(n).zip(by_weights.chunks(n));
            let by_scores = rows.flat_map(|(soft, by)| softmax_vjp(soft, by)).map(|x| x * scale);
            WeightGrads::of_scores(by_scores.collect())
        };
        WeightsVjp { weights, vjp: Box::new(vjp) }
    }

    fn weights(&self, _: &Tensor<3>, scores: Option<Tensor<3>>, _: Option<Tensor<2>>) -> Tensor<3> {
        ops::softmax::softmax(scores.expect("attention has queries"), self.scale, None)
    }
}

/// A softmax for each query over the tokens and one thing beside them, the same for all images, whose
/// logit is the query's gain, `[Q, 1]`: `softmax([gain, scores])` without its first. What is missing
/// from 1 belongs to that thing.
pub struct AttendBeside {
    /// How many queries, and pools.
    pub queries: usize,
}

impl WeightRule for AttendBeside {
    fn pools(&self) -> usize {
        self.queries
    }

    fn counts(&self) -> bool {
        true
    }

    fn weigh(&self, _: usize, n: usize, scores: &[f64], gains: &[f64]) -> WeightsVjp {
        let all = |(gain, scores): (&f64, &[f64])| softmax(&[&[*gain], scores].concat());
        let soft: Vec<f64> = gains.iter().zip(scores.chunks(n)).flat_map(all).collect(); // [Q, 1 + N]
        let weights = soft.chunks(1 + n).flat_map(|soft| &soft[1..]).copied().collect();
        let vjp = move |by_weights: &[f64]| {
            let (mut by_scores, mut by_gains) = (Vec::with_capacity(by_weights.len()), vec![]);
            for (soft, by) in soft.chunks(1 + n).zip(by_weights.chunks(n)) {
                let by = softmax_vjp(soft, &[&[0.0], by].concat());
                by_gains.push(by[0]);
                by_scores.extend_from_slice(&by[1..]);
            }
            WeightGrads { scores: by_scores, gains: by_gains }
        };
        WeightsVjp { weights, vjp: Box::new(vjp) }
    }

    fn weights(&self, _: &Tensor<3>, scores: Option<Tensor<3>>, gains: Option<Tensor<2>>) -> Tensor<3> {
        let scores = scores.expect("attention has queries"); // [B, Q, N]
        let beside = gains.expect("what stands beside has a logit").squeeze_dim(1); // [Q]
        ops::softmax::softmax(scores, 1.0, Some(beside))
    }
}

/// `exp(x) / sum exp(x)`.
pub fn softmax(x: &[f64]) -> Vec<f64> {
    let top = x.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let powers: Vec<f64> = x.iter().map(|x| (x - top).exp()).collect();
    let total: f64 = powers.iter().sum();
    powers.iter().map(|power| power / total).collect()
}

/// The gradient of what a softmax was taken of.
pub fn softmax_vjp(soft: &[f64], by_soft: &[f64]) -> Vec<f64> {
    let mean: f64 = soft.iter().zip(by_soft).map(|(p, by)| p * by).sum();
    soft.iter().zip(by_soft).map(|(p, by)| p * (by - mean)).collect()
}
