//! A transformer that reads the tokens through a learned CLS (paper, "Transformer").
//!
//! One post-norm encoder layer as `nn.TransformerEncoderLayer(d, 12, 192)` (ReLU, no dropout) over
//! `[cls, t_1 .. t_N]`, without position embedding; the features are the CLS row of its output. Where 12 does
//! not divide d, the largest divisor of d below takes its place (`heads` in the settings).
//!
//! Only the CLS row is read, and the CLS is the same for every image. So each of the H attention
//! heads is one fixed query on the raw tokens, `Wk_h^T q_h` (the key bias shifts all logits alike and
//! cancels), and values are projected after pooling, not before:
//! `out_h = Wv_h sum_i a_hi x_i + bv_h`. The layer's full `[N, N]` attention is never computed, and the tokens are
//! pooled as by other heads; the CLS gets the rest of each head's attention.

use std::sync::Arc;

use super::attention::QUERY_DEVIATION;
use super::prelude::*;
use crate::model::ops::bias::Activation;
use crate::model::ops::pooling::weight_rule::SinkAttentionWeights;
use crate::model::probe::settings::AttentionHeads;

/// Width of the feed-forward layer.
const HIDDEN: usize = 192;
/// Default number of attention heads.
const HEADS: usize = 12;
/// Name of the stacked projections of queries, keys and values.
const STACKED: &str = "encoder.self_attn.in_proj_weight";

pub const SPEC: HeadSpec = HeadSpec {
    id: "transformer",
    name: "Transformer",
    summary: "A learned CLS token in one encoder layer",
    group: Group::Network,
    tier: Tier::Ablation,
    in_paper: true,
    paper_cost: Some(PaperCost { parameters: 3.43, flops: 120.15 }),
    build: Build::Own(|config| Ok(Box::new(Transformer { heads: AttentionHeads::new(config, HEADS)? }))),
};

/// One encoder layer behind a learned CLS.
struct Transformer {
    heads: AttentionHeads,
}

impl Head for Transformer {
    fn specs(&self, dims: &Dims) -> Vec<Spec> {
        let d = dims.width;
        let layer = |name: &str| format!("encoder.{name}");
        let mut specs = vec![Spec::new("cls", [1, 1, d], Init::Normal(QUERY_DEVIATION))];
        specs.extend(linear::attention_specs(&layer("self_attn"), d));
        specs.extend(linear::specs(&layer("linear1"), d, HIDDEN));
        specs.extend(linear::specs(&layer("linear2"), HIDDEN, d));
        specs.extend(linear::norm_specs(&layer("norm1"), d));
        specs.extend(linear::norm_specs(&layer("norm2"), d));
        specs
    }

    fn check(&self, dims: &Dims) -> Result<(), ConfigError> {
        self.heads.check(dims.width)
    }

    fn settings(&self, width: usize) -> Config {
        self.heads.settings(width)
    }

    fn pooling(&self, params: &Params, batch: &Batch) -> Option<Pooling> {
        let [_, _, d] = batch.patches.dims();
        let (heads, each) = (self.heads.at(d), d / self.heads.at(d));
        let cls = params.get::<3>("cls").reshape([d, 1]);
        let [query, key] = [0, 1].map(|i| linear::projection(params, STACKED, i).reshape([heads, each, d])); // [H, e, d]
        let bias = params.get::<1>("encoder.self_attn.in_proj_bias").narrow(0, 0, d); // [d]
        let query = query.precise_matmul(cls.clone().unsqueeze_dim(0)) + bias.reshape([heads, each, 1]); // [H, e, 1]
        let query = query.swap_dims(1, 2) / (each as f64).sqrt(); // [H, 1, e]
        let folded = query.precise_matmul(key).reshape([heads, d]); // [H, d]: on the raw tokens
        let cls_logits = folded.clone().precise_matmul(cls); // [H, 1]
        let rule = Arc::new(SinkAttentionWeights { queries: heads });
        Some(Pooling { queries: Some(folded), gains: Some(cls_logits), rule })
    }

    fn finish(&self, params: &Params, pooled: Tensor<3>, _: &Batch) -> Tensor<2> {
        let [images, heads, row] = pooled.dims();
        let (d, each) = (row - 1, (row - 1) / heads);
        let layer = |name: &str| format!("encoder.{name}");
        let cls = params.get::<3>("cls").reshape([1, d]);
        let value = linear::projection(params, STACKED, 2).reshape([heads, each, d]); // [H, e, d]
        let cls_value = value.clone().precise_matmul(cls.clone().reshape([1, d, 1])); // [H, e, 1]
        let value = Tensor::cat(vec![value, -cls_value.clone()], 2); // [H, e, d + 1]: the CLS loses what the tokens get
        let value = pooled.swap_dims(0, 1).precise_matmul(value.swap_dims(1, 2)); // [H, B, e]
        let bias =
            params.get::<1>(&layer("self_attn.in_proj_bias")).narrow(0, 2 * d, d) + cls_value.reshape([d]);
        let value = value.swap_dims(0, 1).reshape([images, d]) + bias.unsqueeze_dim(0); // [B, d]
        let attended = cls + linear::apply(params, &layer("self_attn.out_proj"), value); // [B, d]
        let attended = linear::affine(params, &layer("norm1"), linear::normalised(attended));
        let hidden = linear::activated(params, &layer("linear1"), attended.clone(), Activation::Relu); // [B, 192]
        let read = attended + linear::apply(params, &layer("linear2"), hidden); // [B, d]
        linear::affine(params, &layer("norm2"), linear::normalised(read))
    }

    fn output(&self, params: &HostParams<'_>, tokens: &Tokens, _: u64) -> HeadOutput {
        let why = "The transformer is not linear in the tokens: no exact evidence exists";
        float64::opaque(self, params, tokens, why)
    }

    fn flops(&self, n: u64, d: u64) -> u64 {
        let (heads, hidden) = (self.heads.at(d as usize) as u64, HIDDEN as u64);
        let attention = 2 * n * d * heads + 4 * n * heads + 2 * n * d * heads;
        attention + 2 * d * d + 2 * d * d + 4 * d * hidden + 16 * d // pooling, values, output, feed-forward, norms
    }

    fn counts(&self, n: u64, d: u64) -> Counts {
        let n = n + 1; // the tokens and the CLS
        // `nn.MultiheadAttention` calls no layer that a hook could count, not even its output projection.
        let attention = Counts::formulas(3 * n * d * d + 2 * n * n * d + n * d * d);
        attention + Counts::layers(2 * n * d * HIDDEN as u64) + Counts::norms(2 * n * d, true)
    }
}
