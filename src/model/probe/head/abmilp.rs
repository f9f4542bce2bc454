//! AbMILP: attention by a small network, token by token (Ilse et al. 2018, "Attention-based Deep Multiple Instance Learning",
//! as Przewięźlikowski et al. 2025 and Psomas et al. 2025 probe with it).
//!
//! `weight_i = softmax_i(W2 tanh(W1 t_i + b1) + b2)`, `z = sum_i weight_i t_i`, with the names of
//! `attention_predictor = nn.Sequential(nn.Linear(d, d), nn.Tanh(), nn.Linear(d, 1))`, and a [norm](super::normed) before the
//! classifier.
//!
//! As billpsomas/efficient-probing at b8f4fb8 has it, poolings/abmilp.py with `--abmilp_sa none`: neither gates nor the
//! self-attention that may stand in front of it. Layers start as `nn.Linear` does.

use burn::tensor::activation;

use super::prelude::*;
use super::{float64, linear};
use crate::model::probe::settings::Norm;

/// Its entry in the [list](super::HEADS) of heads.
pub const SPEC: HeadSpec = HeadSpec {
    id: "abmilp",
    name: "AbMILP",
    summary: "A small network says how much each token weighs",
    group: Group::Pooling,
    tier: Tier::Content,
    in_paper: false,
    paper_cost: None,
    build: Build::Normed(Norm::Batch, |_| Ok(Box::new(AbMilp))),
};

/// Pools by the attention that a network of two layers gives each token.
struct AbMilp;

/// The weights of tokens `[B, N, d]`, `[B, 1, N]`.
fn weights(params: &Params, patches: &Tensor<3>) -> Tensor<3> {
    let [images, n, d] = patches.dims();
    let tokens = patches.clone().reshape([images * n, d]);
    let hidden = activation::tanh(linear::apply(params, "attention_predictor.0", tokens)); // [B N, d]
    let logits = linear::apply(params, "attention_predictor.2", hidden); // [B N, 1]
    activation::softmax(logits.reshape([images, 1, n]), 2)
}

impl Head for AbMilp {
    fn specs(&self, dims: &Dims) -> Vec<Spec> {
        let mut specs = linear::specs("attention_predictor.0", dims.width, dims.width);
        specs.extend(linear::specs("attention_predictor.2", dims.width, 1));
        specs
    }

    fn features(&self, params: &Params, batch: &Batch) -> Tensor<2> {
        weights(params, &batch.patches).matmul(batch.patches.clone()).squeeze_dim(1)
    }

    fn reading_with(&self, params: &Arrays, _: &[Kernel], tokens: &Tokens, _: u64) -> HeadOutput {
        let (params, batch) = float64::of(self, params, tokens);
        let weights = float64::host(weights(&params, &batch.patches));
        HeadOutput { scores: None, form: Form::Pool(weights) }
    }

    fn flops(&self, n: u64, d: u64) -> u64 {
        n * (2 * d * d + d) + 2 * n * d + 4 * n + 2 * n * d // first layer and tanh, second, softmax, pooling
    }

    fn parts(&self, n: u64, d: u64) -> Vec<Part> {
        let layers = [("attention_predictor.0", n * d * d), ("attention_predictor.2", n * d)];
        let layers = layers.map(|(name, multiply_adds)| Part::layer(name, multiply_adds));
        layers.into_iter().chain([Part::formula("pooling", n * d)]).collect()
    }
}
