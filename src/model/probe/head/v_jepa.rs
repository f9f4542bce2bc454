//! V-JEPA's attentive probe (Bardes et al. 2024, "Revisiting Feature Prediction for Learning Visual Representations from Video").
//!
//! A learned query q [attends](super::cross) to the layer-normed tokens with H heads; then `r = q + y`, and
//! `z = r + W2 gelu(W1 norm(r) + b1) + b2`, with a hidden width of 4 d. H = 12, or the largest divisor of d below (`heads` in the settings).
//!
//! Follows facebookresearch/jepa (src/models/attentive_pooler.py, `AttentivePooler(num_queries=1, depth=1)`) with its names,
//! `kv.weight` `[2 d, d]` among them. Its `xattn.proj` is a parameter that no forward pass reads, and is left out here. Weights
//! start normal with standard deviation 0.02, that of `mlp.fc2` divided by the root of 2, and biases at zero.

use std::f64::consts::FRAC_1_SQRT_2;

use super::attention::QUERY_DEVIATION;
use super::cross::Cross;
use super::prelude::*;
use crate::model::probe::settings::AttentionHeads;

/// Default number of attention heads.
const HEADS: usize = 12;
/// Hidden width of the feed-forward layer, in multiples of d.
const MLP_RATIO: usize = 4;

pub const SPEC: HeadSpec = HeadSpec {
    id: "v-jepa",
    name: "V-JEPA",
    summary: "One query in a cross-attention block",
    group: Group::Pooling,
    tier: Tier::Content,
    in_paper: false,
    paper_cost: None,
    build: Build::Normed(Norm::None, |config| {
        Ok(Box::new(VJepa { heads: AttentionHeads::new(config, HEADS)? }))
    }),
};

/// One block of cross-attention with a learned query.
struct VJepa {
    heads: AttentionHeads,
}

/// The name of a parameter of the block.
fn block(name: &str) -> String {
    format!("cross_attention_block.{name}")
}

impl Head for VJepa {
    fn specs(&self, dims: &Dims) -> Vec<Spec> {
        let d = dims.width;
        let layer = |name: &str, inputs, outputs| {
            let mut specs = linear::specs(&block(name), inputs, outputs);
            specs[0].init = Init::Normal(QUERY_DEVIATION);
            specs[1].init = Init::Constant(0.0);
            specs
        };
        let mut specs = vec![Spec::new("query_tokens", [1, 1, d], Init::Normal(QUERY_DEVIATION))];
        specs.extend(linear::norm_specs(&block("norm1"), d));
        specs.extend(layer("xattn.q", d, d));
        specs.extend(layer("xattn.kv", d, 2 * d));
        specs.extend(linear::norm_specs(&block("norm2"), d));
        specs.extend(layer("mlp.fc1", d, MLP_RATIO * d));
        let mut last = layer("mlp.fc2", MLP_RATIO * d, d);
        last[0].init = Init::Normal(QUERY_DEVIATION / 2.0_f32.sqrt());
        specs.extend(last);
        specs
    }

    fn check(&self, dims: &Dims) -> Result<(), ConfigError> {
        self.heads.check(dims.width)
    }

    fn settings(&self, width: usize) -> Config {
        self.heads.settings(width)
    }

    fn features(&self, params: &Params, batch: &Batch) -> Tensor<2> {
        let [_, _, d] = batch.patches.dims();
        let own = params.get::<3>("query_tokens").reshape([1, d]);
        let stacked = params.get::<2>(&block("xattn.kv.weight")); // [2 d, d]: keys, then values
        let attention = Cross {
            heads: self.heads.at(d),
            norm: ["weight", "bias"].map(|name| params.get::<1>(&block(&format!("norm1.{name}")))),
            query: linear::apply(params, &block("xattn.q"), own.clone()).squeeze_dim(0),
            key: stacked.clone().narrow(0, 0, d),
            value: (stacked.narrow(0, d, d), params.get::<1>(&block("xattn.kv.bias")).narrow(0, d, d)),
        };
        let read = own + attention.read(&batch.patches); // [B, d]
        let normed = linear::affine(params, &block("norm2"), linear::normalised(read.clone()));
        let hidden = linear::apply(params, &block("mlp.fc1"), normed); // [B, 4 d]
        // GELU by its exact formula: on GPUs burn's gradient is that of the approximation with tanh.
        let hidden = hidden.clone() * ((hidden * FRAC_1_SQRT_2).erf() + 1.0) * 0.5;
        read + linear::apply(params, &block("mlp.fc2"), hidden)
    }

    fn output(&self, params: &HostParams<'_>, tokens: &Tokens, _: u64) -> HeadOutput {
        let why =
            "V-JEPA's probe ends in a network that is not linear in the tokens: no exact evidence exists";
        float64::opaque(self, params, tokens, why)
    }

    fn flops(&self, n: u64, d: u64) -> u64 {
        let (heads, ratio) = (self.heads.at(d as usize) as u64, MLP_RATIO as u64);
        let attention = 8 * n * d + heads * (2 * n * d + 4 * n + 2 * n * d) + 2 * d * d; // norm, values
        attention + 8 * d + 4 * ratio * d * d + ratio * d // norm, feed-forward, GELU
    }

    fn counts(&self, n: u64, d: u64) -> Counts {
        let layers = d * d + 2 * n * d * d + 2 * MLP_RATIO as u64 * d * d; // q, kv, feed-forward
        Counts::norms(n * d + d, true) + Counts::layers(layers) + Counts::formulas(2 * n * d)
    }
}
