//! Efficient Probing: several queries, no key projection (Psomas et al. 2025, "Attention, please!
//! Revisiting attentive probing through the lens of efficiency").
//!
//! M learned queries attend to the raw tokens, `a_m = softmax_i(q_m . t_i / sqrt(d))`; values
//! `v_i = V t_i` (`value.weight` `[d, d]`, no bias) are split over the queries in M equal parts:
//! `z = concat_m sum_i a_m[i] v_i^(m)`. M = 32, or the largest divisor of d below (`queries` in the
//! settings). The projection follows the pooling: `z^(m) = V^(m) sum_i a_m[i] t_i`, which is the same.

use super::attention::QUERY_DEVIATION;
use super::prelude::*;
use super::scorer;
use crate::model::ops::pooling::weight_rule::{AttentionWeights, softmax};
use crate::model::probe::params::Init;
use crate::model::probe::settings;

/// Queries, unless told otherwise.
const QUERIES: usize = 32;

/// Its entry in the [list](super::HEADS) of heads.
pub const SPEC: HeadSpec = HeadSpec {
    id: "efficient",
    name: "Efficient probing",
    summary: "Several learned queries attend to the tokens",
    group: Group::Pooling,
    tier: Tier::Content,
    in_paper: false,
    paper_cost: None,
    build: Build::Own(|config| Ok(Box::new(Efficient::new(config)?))),
};

/// Pools by the attention of several queries.
pub struct Efficient {
    /// Queries; where absent, the largest divisor of d up to 32.
    pub queries: Option<usize>,
}

impl Efficient {
    /// With the number of queries of the settings.
    pub fn new(config: &Config) -> Result<Self, ConfigError> {
        let expected = "a whole number from 1 that divides the hidden size";
        let given = |queries| settings::within("queries", queries, 1..=usize::MAX, expected);
        Ok(Self { queries: config.queries.map(given).transpose()? })
    }

    fn queries(&self, width: usize) -> usize {
        self.queries.unwrap_or_else(|| settings::largest_divisor(width, QUERIES))
    }
}

impl Head for Efficient {
    fn specs(&self, dims: &Dims) -> Vec<Spec> {
        let d = dims.width;
        let linear = Init::Uniform(1.0 / (d as f32).sqrt());
        vec![
            Spec::new("query", [self.queries(d), d], Init::Normal(QUERY_DEVIATION)),
            Spec::new("value.weight", [d, d], linear),
        ]
    }

    fn check(&self, dims: &Dims) -> Result<(), ConfigError> {
        settings::divides("queries", self.queries(dims.width), dims.width)
    }

    fn settings(&self, dims: &Dims) -> Config {
        Config { queries: Some(self.queries(dims.width)), ..Config::default() }
    }

    fn pooling(&self, params: &Params, batch: &Batch) -> Option<Pooling> {
        let [_, _, d] = batch.patches.dims();
        let attend = AttentionWeights { queries: self.queries(d), scale: (d as f64).sqrt().recip() };
        Some(Pooling::by_scores(params.get::<2>("query"), attend))
    }

    fn finish(&self, params: &Params, pooled: Tensor<3>, _: &Batch) -> Tensor<2> {
        let [images, queries, d] = pooled.dims();
        let each = d / queries;
        let value = params.get::<2>("value.weight").reshape([queries, each, d]).swap_dims(1, 2); // [M, d, d/M]
        let parts = pooled.swap_dims(0, 1).matmul(value); // [M, B, d/M]
        parts.swap_dims(0, 1).reshape([images, d])
    }

    fn reading_with(&self, params: &Arrays, _: &[Kernel], tokens: &Tokens, _: u64) -> HeadOutput {
        let d = tokens.width;
        let attend = |query: &[f32]| {
            let mut logits = scorer::dots(query, tokens);
            logits.iter_mut().for_each(|x| *x /= (d as f64).sqrt());
            softmax(&logits)
        };
        let weights = params["query"].data.chunks_exact(d).flat_map(attend).collect();
        let (map, bias) = (params["value.weight"].to_f64(), vec![0.0; d]);
        HeadOutput { scores: None, form: Form::Projected { weights, map, bias } }
    }

    fn flops(&self, n: u64, d: u64) -> u64 {
        let queries = self.queries(d as usize) as u64;
        queries * (2 * n * d + 4 * n + 2 * n * d) + 2 * d * d // attention and pooling, values
    }

    fn parts(&self, n: u64, d: u64) -> Vec<Part> {
        let queries = self.queries(d as usize) as u64;
        let (scores, values) = (Part::formula("scores", queries * n * d), Part::layer("values", n * d * d));
        vec![scores, values, Part::formula("pooling", n * d)]
    }
}
