//! CoCa's attentional pooler with one query (Yu et al. 2022, "CoCa: Contrastive Captioners are Image-Text Foundation Models").
//!
//! A learned query `[1, d]`, layer-normed, [attends](super::cross) to the layer-normed tokens with H heads, and an output layer
//! `z = Wo y + bo` mixes the heads. H = 8, or the largest divisor of d below (`heads` in the settings).
//!
//! Follows open_clip's `AttentionalPooler(d, d, n_head=8, n_queries=1)` (mlfoundations/open_clip, src/open_clip/transformer.py),
//! with its names: `query`, `ln_q`, `ln_k`, `attn.in_proj_weight` `[3 d, d]` and so on. It is initialised as there: the query
//! from a standard normal, the rest as in `nn.MultiheadAttention`.

use super::cross::{self, Cross};
use super::prelude::*;
use crate::model::probe::settings::AttentionHeads;

/// Default number of attention heads.
const HEADS: usize = 8;

pub const SPEC: HeadSpec = HeadSpec {
    id: "coca",
    name: "CoCa pooler",
    summary: "Multi-head attention of one query, and an output layer",
    group: Group::Pooling,
    tier: Tier::Content,
    in_paper: false,
    paper_cost: None,
    build: Build::Normed(Norm::None, |config| {
        Ok(Box::new(Coca { heads: AttentionHeads::new(config, HEADS)? }))
    }),
};

/// Pools by the attention of one query.
struct Coca {
    heads: AttentionHeads,
}

impl Coca {
    fn cross(&self, params: &Params) -> Cross {
        let weight = |which: usize| linear::projection(params, "attn.in_proj_weight", which);
        let [_, d] = params.get::<2>("query").dims();
        let bias = |which: usize| params.get::<1>("attn.in_proj_bias").narrow(0, which * d, d);
        let normed_query = linear::affine(params, "ln_q", linear::normalised(params.get::<2>("query"))); // [1, d]
        let query: Tensor<1> = normed_query.precise_matmul(weight(0).transpose()).squeeze_dim(0);
        let norm = ["ln_k.weight", "ln_k.bias"].map(|name| params.get::<1>(name));
        let value = (weight(2), bias(2));
        Cross { heads: self.heads.at(d), norm, query: query + bias(0), key: weight(1), value }
    }
}

impl Head for Coca {
    fn specs(&self, dims: &Dims) -> Vec<Spec> {
        let d = dims.width;
        let mut specs = vec![Spec::new("query", [1, d], Init::Normal(1.0))];
        specs.extend(linear::norm_specs("ln_q", d));
        specs.extend(linear::norm_specs("ln_k", d));
        specs.extend(linear::attention_specs("attn", d));
        specs
    }

    fn check(&self, dims: &Dims) -> Result<(), ConfigError> {
        self.heads.check(dims.width)
    }

    fn settings(&self, width: usize) -> Config {
        self.heads.settings(width)
    }

    fn features(&self, params: &Params, batch: &Batch) -> Tensor<2> {
        linear::apply(params, "attn.out_proj", self.cross(params).read(&batch.patches))
    }

    fn output(&self, params: &HostParams<'_>, tokens: &Tokens, _: u64) -> HeadOutput {
        let (numbers, batch) = float64::inputs(self, params, tokens);
        let cross = self.cross(&numbers);
        let weights = cross::raw_weights(cross.weights(&batch.patches), tokens, linear::EPSILON);
        let (map, constant) = cross.map();
        let bias = float64::host(linear::apply(&numbers, "attn.out_proj", constant.unsqueeze_dim(0)));
        let mix = Some(params["attn.out_proj.weight"].to_f64());
        HeadOutput { scores: None, form: Form::Projected { weights, map, mix, bias } }
    }

    fn flops(&self, n: u64, d: u64) -> u64 {
        let heads = self.heads.at(d as usize) as u64;
        8 * n * d + heads * (2 * n * d + 4 * n + 2 * n * d) + 2 * d * d + 2 * d * d // norm, attention, values, output
    }

    fn counts(&self, n: u64, d: u64) -> Counts {
        // `nn.MultiheadAttention` calls no layer that a hook could count, not even its output projection.
        let projections = d * d + 2 * n * d * d + d * d; // query, keys and values, output
        Counts::norms(d + n * d, true) + Counts::formulas(projections + 2 * n * d)
    }
}
