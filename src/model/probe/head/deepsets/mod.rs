//! DeepSets: each token through the same small network, then the mean (Zaheer et al. 2017).
//!
//! `z = mean_i LayerNorm(W2 relu(W1 t_i + b1) + b2)`, d -> 192 -> d, with the names of
//! `phi = nn.Sequential(nn.Linear, nn.ReLU, nn.Linear)` and `norm = nn.LayerNorm`. The norm's own
//! weight and bias are linear, so they follow the mean.

mod fused;
mod gpu;

use burn::tensor::DType;

use super::prelude::*;
use crate::model::ops::bias::{Activation, biased};
use crate::model::ops::cpu::on_cpu;

/// Width between the two linear layers.
const HIDDEN: usize = 192;

pub const SPEC: HeadSpec = HeadSpec {
    id: "deepsets",
    name: "DeepSets",
    summary: "Mean of a small network's output per token",
    group: Group::Network,
    tier: Tier::Ablation,
    in_paper: true,
    paper_cost: Some(PaperCost { parameters: 1.07, flops: 118.35 }),
    build: Build::Own(|_| Ok(Box::new(DeepSets))),
};

/// The mean of a network's view of every token.
pub struct DeepSets;

impl Head for DeepSets {
    fn specs(&self, dims: &Dims) -> Vec<Spec> {
        let mut specs = linear::specs("phi.0", dims.width, HIDDEN);
        specs.extend(linear::specs("phi.2", HIDDEN, dims.width));
        specs.extend(linear::norm_specs("norm", dims.width));
        specs
    }

    fn features(&self, params: &Params, batch: &Batch) -> Tensor<2> {
        let weights = ["phi.0.weight", "phi.2.weight"].map(|name| params.get(name));
        let biases = ["phi.0.bias", "phi.2.bias"].map(|name| params.get(name));
        linear::affine(params, "norm", mean(&batch.patches, weights, biases))
    }

    fn output(&self, params: &HostParams<'_>, tokens: &Tokens, _: u64) -> HeadOutput {
        let why = "DeepSets is not linear in the tokens: no exact evidence exists";
        float64::opaque(self, params, tokens, why)
    }

    fn flops(&self, n: u64, d: u64) -> u64 {
        let hidden = HIDDEN as u64;
        n * (4 * d * hidden + hidden + 8 * d) // two linear layers, ReLU, norm and mean
    }

    fn counts(&self, n: u64, d: u64) -> Counts {
        Counts::layers(2 * n * d * HIDDEN as u64) + Counts::norms(n * d, true)
    }
}

/// `mean_i normalise(W2 relu(W1 t_i + b1) + b2)`, `[B, d]`, of tokens `[B, N, d]`: `weights` `[192, d]` and `[d, 192]`.
fn mean(tokens: &Tensor<3>, weights: [Tensor<2>; 2], biases: [Tensor<1>; 2]) -> Tensor<2> {
    let mean = if on_cpu(&tokens.device()) && tokens.dtype() == DType::F32 {
        fused::mean
    } else if gpu::supports(tokens) {
        gpu::mean
    } else {
        return token_by_token(tokens, weights, biases);
    };
    let ([inner, outer], [inner_bias, outer_bias]) =
        (weights.map(Tensor::into_dispatch), biases.map(Tensor::into_dispatch));
    mean(tokens, [inner, inner_bias, outer, outer_bias])
}

/// [`mean`] by tensor operations: the fallback of the fused implementations, and their reference.
fn token_by_token(
    tokens: &Tensor<3>,
    [inner, outer]: [Tensor<2>; 2],
    [inner_bias, outer_bias]: [Tensor<1>; 2],
) -> Tensor<2> {
    let [images, n, d] = tokens.dims();
    let products = tokens.clone().reshape([images * n, d]).precise_matmul(inner.transpose());
    let hidden = biased(products, inner_bias, Activation::Relu); // [B N, 192]
    let outputs = biased(hidden.precise_matmul(outer.transpose()), outer_bias, Activation::None); // [B N, d]
    linear::normalised(outputs).reshape([images, n, d]).mean_dim(1).squeeze_dim(1)
}
