//! DeepSets: each token through the same small network, then the mean (Zaheer et al. 2017).
//!
//! `z = mean_i LayerNorm(W2 relu(W1 t_i + b1) + b2)`, d -> 192 -> d, with the names of
//! `phi = nn.Sequential(nn.Linear, nn.ReLU, nn.Linear)` and `norm = nn.LayerNorm`. The norm's own
//! weight and bias are linear, so they follow the mean.

mod fused;
mod vectors;

use burn::tensor::DType;

use super::prelude::*;
use super::{linear, opaque};
use crate::model::ops::bias::Activation;
use crate::model::ops::cpu::on_cpu;

/// Width between the two linear layers.
const HIDDEN: usize = 192;

/// Its entry in the [list](super::HEADS) of heads.
pub const SPEC: HeadSpec = HeadSpec {
    id: "deepsets",
    name: "DeepSets",
    summary: "Mean of a small network's view of each token",
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
        if on_cpu(&batch.patches.device()) && batch.patches.dtype() == DType::F32 {
            let weights = ["phi.0.weight", "phi.2.weight"].map(|name| params.get::<2>(name).into_dispatch());
            let biases = ["phi.0.bias", "phi.2.bias"].map(|name| params.get::<1>(name).into_dispatch());
            let ([inner, outer], [inner_bias, outer_bias]) = (weights, biases);
            let layers = [inner, inner_bias, outer, outer_bias];
            return linear::affine(params, "norm", fused::mean(&batch.patches, layers));
        }
        let [images, n, d] = batch.patches.dims();
        let tokens = batch.patches.clone().reshape([images * n, d]); // [B N, d]
        let hidden = linear::activated(params, "phi.0", tokens, Activation::Relu); // [B N, 192]
        let seen = linear::normalised(linear::apply(params, "phi.2", hidden)); // [B N, d]
        let mean = seen.reshape([images, n, d]).mean_dim(1).squeeze_dim(1); // [B, d]
        linear::affine(params, "norm", mean)
    }

    fn output_with(&self, params: &Arrays, _: &[Kernel], tokens: &Tokens, _: u64) -> HeadOutput {
        let why = "DeepSets is not linear in the tokens: no exact evidence exists";
        opaque::output(self, params, tokens, why)
    }

    fn flops(&self, n: u64, d: u64) -> u64 {
        let hidden = HIDDEN as u64;
        n * (4 * d * hidden + hidden + 8 * d) // two linear layers, ReLU, norm and mean
    }

    fn parts(&self, n: u64, d: u64) -> Vec<Part> {
        let layer = n * d * HIDDEN as u64;
        vec![Part::layer("phi.0", layer), Part::layer("phi.2", layer), Part::norm(n * d, true)]
    }
}
