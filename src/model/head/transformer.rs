//! A transformer that reads the tokens through a learned CLS (paper, "Transformer").
//!
//! One post-norm encoder layer as `nn.TransformerEncoderLayer(d, 12, 192)` (ReLU, no dropout) over
//! `[cls, t_1 .. t_N]`, no position code; the features are the CLS row of its output. Where 12 does
//! not divide d, the largest divisor of d below takes its place (`heads` in the settings).
//!
//! Only the CLS row is read, and the CLS is the same for every image. So each of the H attention
//! heads is one fixed query on the raw tokens, `Wk_h^T q_h` (the key bias shifts all logits alike and
//! cancels), and values are projected after pooling, not before:
//! `out_h = Wv_h sum_i a_hi x_i + bv_h`. The layer's full `[N, N]` attention never exists.

use burn::tensor::{Tensor, activation};

use super::attention::QUERY_DEVIATION;
use super::memory::Kernel;
use super::{Batch, Config, ConfigError, Dims, Head, config, linear, opaque};
use crate::model::array::Arrays;
use crate::model::params::{Init, Params, Spec};
use crate::model::reading::Reading;
use crate::model::tokens::Tokens;

/// Width of the feed-forward layer.
const HIDDEN: usize = 192;
/// Attention heads, unless told otherwise.
const HEADS: usize = 12;

/// One encoder layer behind a learned CLS.
pub struct Transformer {
    /// Attention heads; where absent, the largest divisor of d up to 12.
    pub heads: Option<usize>,
}

impl Transformer {
    /// With the number of attention heads of the settings.
    pub fn new(config: &Config) -> Result<Self, ConfigError> {
        config::at_least_one("heads", config.heads, "a whole number from 1 that divides the hidden size")?;
        Ok(Self { heads: config.heads })
    }

    fn heads(&self, width: usize) -> usize {
        self.heads.unwrap_or_else(|| config::largest_divisor(width, HEADS))
    }
}

impl Head for Transformer {
    fn specs(&self, dims: &Dims) -> Vec<Spec> {
        let d = dims.width;
        let layer = |name: &str| format!("encoder.{name}");
        // As nn.MultiheadAttention: Xavier on the stacked projections, biases 0.
        let xavier = Init::Uniform((6.0 / (4 * d) as f32).sqrt());
        let mut specs = vec![
            Spec::new("cls", [1, 1, d], Init::Normal(QUERY_DEVIATION)),
            Spec::new(layer("self_attn.in_proj_weight"), [3 * d, d], xavier),
            Spec::new(layer("self_attn.in_proj_bias"), [3 * d], Init::Constant(0.0)),
        ];
        let mut out = linear::specs(&layer("self_attn.out_proj"), d, d);
        out[1].init = Init::Constant(0.0);
        specs.extend(out);
        specs.extend(linear::specs(&layer("linear1"), d, HIDDEN));
        specs.extend(linear::specs(&layer("linear2"), HIDDEN, d));
        specs.extend(linear::norm_specs(&layer("norm1"), d));
        specs.extend(linear::norm_specs(&layer("norm2"), d));
        specs
    }

    fn check(&self, dims: &Dims) -> Result<(), ConfigError> {
        config::divides("heads", self.heads(dims.width), dims.width)
    }

    fn settings(&self, dims: &Dims) -> Config {
        Config { heads: Some(self.heads(dims.width)), ..Config::default() }
    }

    fn features(&self, params: &Params, batch: &Batch) -> Tensor<2> {
        let patches = &batch.patches;
        let [images, n, d] = patches.dims();
        let (heads, each) = (self.heads(d), d / self.heads(d));
        let layer = |name: &str| format!("encoder.{name}");
        let weight = params.get::<2>(&layer("self_attn.in_proj_weight")); // [3 d, d]
        let bias = params.get::<1>(&layer("self_attn.in_proj_bias")); // [3 d]
        let cls = params.get::<3>("cls").reshape([1, d]);
        let part = |i: usize| weight.clone().narrow(0, i * d, d).reshape([heads, each, d]); // [H, e, d]

        let query = part(0).matmul(cls.clone().reshape([1, d, 1])); // [H, e, 1]
        let query = query + bias.clone().narrow(0, 0, d).reshape([heads, each, 1]);
        let query = query.swap_dims(1, 2) / (each as f64).sqrt(); // [H, 1, e]
        let folded = query.matmul(part(1)).reshape([heads, d]).transpose(); // [d, H]: on the raw tokens

        let own = cls.clone().matmul(folded.clone()).reshape([1, 1, heads]); // [1, 1, H]
        let logits = patches.clone().reshape([images * n, d]).matmul(folded); // [B N, H]
        let logits = Tensor::cat(vec![own.expand([images, 1, heads]), logits.reshape([images, n, heads])], 1);
        let share = activation::softmax(logits, 1).swap_dims(1, 2); // [B, H, 1 + N]
        let pooled = share.clone().narrow(2, 1, n).matmul(patches.clone()); // [B, H, d]
        let pooled = pooled + share.narrow(2, 0, 1) * cls.clone().reshape([1, 1, d]);

        let value = pooled.swap_dims(0, 1).matmul(part(2).swap_dims(1, 2)); // [H, B, e]
        let value = value.swap_dims(0, 1).reshape([images, d]) + bias.narrow(0, 2 * d, d).unsqueeze_dim(0);
        let attended = cls + linear::apply(params, &layer("self_attn.out_proj"), value); // [B, d]
        let attended = linear::affine(params, &layer("norm1"), linear::normalised(attended));
        let hidden = activation::relu(linear::apply(params, &layer("linear1"), attended.clone())); // [B, 192]
        let read = attended + linear::apply(params, &layer("linear2"), hidden); // [B, d]
        linear::affine(params, &layer("norm2"), linear::normalised(read))
    }

    fn reading_with(&self, params: &Arrays, _: &[Kernel], tokens: &Tokens, _: u64) -> Reading {
        let why = "The transformer is not linear in the tokens: no exact evidence exists";
        opaque::reading(self, params, tokens, why)
    }

    fn flops(&self, dims: &Dims) -> u64 {
        let (n, d) = (dims.grid.len() as u64, dims.width as u64);
        let (heads, hidden) = (self.heads(dims.width) as u64, HIDDEN as u64);
        let attention = 2 * n * d * heads + 4 * n * heads + 2 * n * d * heads;
        attention + 2 * d * d + 2 * d * d + 4 * d * hidden + 16 * d // pooling, values, output, feed-forward, norms
    }
}
