//! One learned query attends to layer-normed tokens with several attention heads, as `nn.MultiheadAttention` does before its
//! output layer: what CoCa's pooler and V-JEPA's probe have in common.
//!
//! With `n_i` a token standardised over its channels and `x_i = w * n_i + b`, the output of the norm, head h gives
//! `Wv_h sum_i a_hi x_i + bv_h`, `a_h = softmax_i(q_h . (Wk_h x_i) / sqrt(d / H))`. The query is the same for all images, so that
//! `(Wk_h^T q_h) * w` is multiplied with `n_i` directly: no keys are computed, and the biases of keys and norm shift all logits alike.
//! Values are projected after pooling. A token's deviation is made part of its weight: for fixed weights `z` is linear in the tokens.

use burn::tensor::{Tensor, activation};

use super::{float64, linear};
use crate::model::ops::matmul::PreciseMatmul as _;
use crate::model::ops::pooling::Pooling;
use crate::model::ops::pooling::weight_rule::AttentionWeights;
use crate::model::tokens::Tokens;

/// The parts of an attention, each `[d, d]` or `[d]`.
pub struct Cross {
    /// Attention heads, H.
    pub heads: usize,
    /// Weight and bias of the norm.
    pub norm: [Tensor<1>; 2],
    /// The query after its projection.
    pub query: Tensor<1>,
    /// Projection of the keys.
    pub key: Tensor<2>,
    /// Projection of the values, and its bias.
    pub value: (Tensor<2>, Tensor<1>),
}

/// Every token standardised over its channels, `[B, N, d]`; `epsilon` is added to the variance.
pub fn normed(patches: &Tensor<3>, epsilon: f64) -> Tensor<3> {
    let [images, n, d] = patches.dims();
    linear::normalised_by(patches.clone().reshape([images * n, d]), epsilon).reshape([images, n, d])
}

/// The weights of raw tokens, `[M, N]`, given those of the normed tokens: each divided by the token's deviation.
pub fn raw_weights(weights: Tensor<2>, tokens: &Tokens, epsilon: f64) -> Vec<f64> {
    let (n, d) = (tokens.grid.len(), tokens.width as f64);
    let deviation = |i: usize| {
        let mean = tokens.patch(i).iter().map(|&x| f64::from(x)).sum::<f64>() / d;
        let square = tokens.patch(i).iter().map(|&x| (f64::from(x) - mean).powi(2)).sum::<f64>();
        (square / d + epsilon).sqrt()
    };
    let deviations: Vec<f64> = (0..n).map(deviation).collect();
    float64::host(weights).iter().zip(deviations.iter().cycle()).map(|(weight, s)| weight / s).collect()
}

/// Subtracts the mean of each row of `d` values, so that the map gives the same for a token and for the centred token.
pub fn centre(map: &mut [f64], d: usize) {
    for row in map.chunks_exact_mut(d) {
        let mean = row.iter().sum::<f64>() / d as f64;
        row.iter_mut().for_each(|x| *x -= mean);
    }
}

impl Cross {
    /// The queries that are multiplied with normed tokens, `[H, d]`.
    fn queries(&self) -> Tensor<2> {
        let [d] = self.query.dims();
        let (heads, each) = (self.heads, d / self.heads);
        let query = self.query.clone().reshape([heads, 1, each]) / (each as f64).sqrt();
        let folded = query.precise_matmul(self.key.clone().reshape([heads, each, d])); // [H, 1, d]
        folded.reshape([heads, d]) * self.norm[0].clone().unsqueeze_dim(0)
    }

    /// The concatenated outputs of the heads, `[B, d]`.
    pub fn read(&self, patches: &Tensor<3>) -> Tensor<2> {
        let [images, _, d] = patches.dims();
        let heads = self.heads;
        let rule = AttentionWeights { queries: heads, scale: 1.0 };
        let pooled = Pooling::by_scores(self.queries(), rule).pool(&normed(patches, linear::EPSILON)); // [B, H, d]
        let [weight, bias] = self.norm.clone().map(|x| x.reshape([1, 1, d]));
        let value = self.value.0.clone().reshape([heads, d / heads, d]).swap_dims(1, 2); // [H, d, e]
        let read = (pooled * weight + bias).swap_dims(0, 1).precise_matmul(value); // [H, B, e]
        read.swap_dims(0, 1).reshape([images, d]) + self.value.1.clone().unsqueeze_dim(0)
    }

    /// The weights of the normed tokens of one image for each head, `[H, N]`.
    pub fn weights(&self, patches: &Tensor<3>) -> Tensor<2> {
        let normed: Tensor<2> = normed(patches, linear::EPSILON).squeeze_dim(0); // [N, d]
        activation::softmax(self.queries().precise_matmul(normed.transpose()), 1)
    }

    /// The linear map from raw tokens to the outputs of the heads, `[d, d]`, in float64, and the constant term, `[d]`.
    pub fn map(&self) -> (Vec<f64>, Tensor<1>) {
        let [weight, bias] = &self.norm;
        let (value, value_bias) = &self.value;
        let [d, _] = value.dims();
        let mut map = float64::host(value.clone() * weight.clone().unsqueeze_dim(0));
        centre(&mut map, d);
        let constant: Tensor<1> = value.clone().precise_matmul(bias.clone().unsqueeze_dim(1)).squeeze_dim(1);
        (map, constant + value_bias.clone())
    }
}
