//! How the scores of an image become the weights of its tokens: the part in which poolings differ.
//!
//! A rule is written twice: [`weigh`](WeightRule::weigh) for one image in float64 on the host, with its
//! vector-Jacobian product as a closure, for the CPU's [pass](super::pass); [`weights`](WeightRule::weights) on
//! tensors, for every other device. Tests check that the two agree.

use burn::tensor::Tensor;

use crate::model::ops::{self, scatter::gather_rows};

/// Computes the weights of a pooling from scores and gains.
pub trait WeightRule: Send + Sync {
    /// Number of weighted sums of an image, M.
    fn pools(&self) -> usize {
        1
    }

    /// Whether each weighted sum is followed by the sum of its weights: for weights that need not sum to 1.
    fn appends_sums(&self) -> bool {
        false
    }

    /// The weights `[M, N]` of image `image`, from its scores `[Q, N]` and the head's gains, for its `n` tokens.
    fn weigh(&self, image: usize, n: usize, scores: &[f64], gains: &[f64]) -> WeightsVjp;

    /// The weights of a batch of `tokens` `[B, N, d]`: `[B or 1, M, N]`. `scores`: `[B, Q, N]` where
    /// there are queries; `gains` where there are any.
    fn weights(&self, tokens: &Tensor<3>, scores: Option<Tensor<3>>, gains: Option<Tensor<2>>) -> Tensor<3>;
}

/// The weights of one image, and their vector-Jacobian product.
pub struct WeightsVjp {
    /// `[M, N]`.
    pub weights: Vec<f64>,
    /// The gradients of scores and gains, given that of the weights.
    pub vjp: Vjp,
}

/// Maps the gradient of the weights, `[M, N]`, to those of scores and gains.
pub type Vjp = Box<dyn Fn(&[f64]) -> WeightGrads + Send + Sync>;

/// Gradients of the scores and gains that gave the weights of one image.
pub struct WeightGrads {
    /// `[Q, N]`.
    pub scores: Vec<f64>,
    /// One for each gain.
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

/// The same weight for every token: `1 / N`.
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

/// The gains `[1, N]` are the weights, for every image.
pub struct FixedWeights;

impl WeightRule for FixedWeights {
    fn weigh(&self, _: usize, _: usize, _: &[f64], gains: &[f64]) -> WeightsVjp {
        let vjp = Box::new(|grad_weights: &[f64]| WeightGrads::of_gains(grad_weights.to_vec()));
        WeightsVjp { weights: gains.to_vec(), vjp }
    }

    fn weights(&self, _: &Tensor<3>, _: Option<Tensor<3>>, gains: Option<Tensor<2>>) -> Tensor<3> {
        gains.expect("weights are given").unsqueeze_dim(0)
    }
}

/// A token's weight is the gain of the position at which it is read; gains `[1, N]`, another order for every image.
pub struct PermutedWeights {
    /// The position at which each token of each image is read, `[B, N]` row-major.
    pub places: std::sync::Arc<Vec<usize>>,
}

impl WeightRule for PermutedWeights {
    fn weigh(&self, image: usize, n: usize, _: &[f64], gains: &[f64]) -> WeightsVjp {
        let own = image * n..(image + 1) * n;
        let weights = self.places[own.clone()].iter().map(|&k| gains[k]).collect();
        let places = self.places.clone();
        let vjp = move |grad_weights: &[f64]| {
            let mut gains = vec![0.0; n];
            places[own.clone()].iter().zip(grad_weights).for_each(|(&k, x)| gains[k] += x);
            WeightGrads::of_gains(gains)
        };
        WeightsVjp { weights, vjp: Box::new(vjp) }
    }

    fn weights(&self, tokens: &Tensor<3>, _: Option<Tensor<3>>, gains: Option<Tensor<2>>) -> Tensor<3> {
        let [images, n, _] = tokens.dims();
        let gains = gains.expect("positions have gains").transpose(); // [N, 1]
        gather_rows(gains, &self.places).reshape([images, 1, n])
    }
}

/// A softmax over the tokens for each query: `softmax_i(scale score_i)`.
pub struct AttentionWeights {
    /// Number of queries, and of weighted sums.
    pub queries: usize,
    /// Factor of the scores before the softmax.
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
        let vjp = move |grad_weights: &[f64]| {
            let rows = kept.chunks(n).zip(grad_weights.chunks(n));
            let grad_scores = rows.flat_map(|(soft, grad)| softmax_vjp(soft, grad)).map(|x| x * scale);
            WeightGrads::of_scores(grad_scores.collect())
        };
        WeightsVjp { weights, vjp: Box::new(vjp) }
    }

    fn weights(&self, _: &Tensor<3>, scores: Option<Tensor<3>>, _: Option<Tensor<2>>) -> Tensor<3> {
        ops::softmax::softmax(scores.expect("attention has queries"), self.scale, None)
    }
}

/// A softmax for each query over the tokens and one more entry beside them (a CLS token, say), the same for all images,
/// whose logit is the query's gain, `[Q, 1]`: `softmax([gain, scores])` without its first entry. The weights sum to 1
/// less the share of that entry.
pub struct SinkAttentionWeights {
    /// Number of queries, and of weighted sums.
    pub queries: usize,
}

impl WeightRule for SinkAttentionWeights {
    fn pools(&self) -> usize {
        self.queries
    }

    fn appends_sums(&self) -> bool {
        true
    }

    fn weigh(&self, _: usize, n: usize, scores: &[f64], gains: &[f64]) -> WeightsVjp {
        let row = |(gain, scores): (&f64, &[f64])| softmax(&[&[*gain], scores].concat());
        let soft: Vec<f64> = gains.iter().zip(scores.chunks(n)).flat_map(row).collect(); // [Q, 1 + N]
        let weights = soft.chunks(1 + n).flat_map(|soft| &soft[1..]).copied().collect();
        let vjp = move |grad_weights: &[f64]| {
            let (mut grad_scores, mut grad_gains) = (Vec::with_capacity(grad_weights.len()), vec![]);
            for (soft, grad_soft) in soft.chunks(1 + n).zip(grad_weights.chunks(n)) {
                let grad_logits = softmax_vjp(soft, &[&[0.0], grad_soft].concat());
                grad_gains.push(grad_logits[0]);
                grad_scores.extend_from_slice(&grad_logits[1..]);
            }
            WeightGrads { scores: grad_scores, gains: grad_gains }
        };
        WeightsVjp { weights, vjp: Box::new(vjp) }
    }

    fn weights(&self, _: &Tensor<3>, scores: Option<Tensor<3>>, gains: Option<Tensor<2>>) -> Tensor<3> {
        let scores = scores.expect("attention has queries"); // [B, Q, N]
        let beside = gains.expect("what stands beside has a logit").squeeze_dim(1); // [Q]
        ops::softmax::softmax(scores, 1.0, Some(beside))
    }
}

/// `exp(x) / sum exp(x)`, shifted by the largest `x` so that nothing overflows.
pub fn softmax(x: &[f64]) -> Vec<f64> {
    let largest = x.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let exps: Vec<f64> = x.iter().map(|x| (x - largest).exp()).collect();
    let total: f64 = exps.iter().sum();
    exps.iter().map(|exp| exp / total).collect()
}

/// The gradient of a softmax's logits, given its output `soft` and the gradient of that.
pub fn softmax_vjp(soft: &[f64], grad_soft: &[f64]) -> Vec<f64> {
    let mean: f64 = soft.iter().zip(grad_soft).map(|(p, grad)| p * grad).sum();
    soft.iter().zip(grad_soft).map(|(p, grad)| p * (grad - mean)).collect()
}
