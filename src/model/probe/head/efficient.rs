//! Efficient Probing: several queries, no key projection (Psomas et al. 2025, "Attention, please!
//! Revisiting attentive probing through the lens of efficiency").
//!
//! M learned queries attend to the raw tokens, `a_m = softmax_i(q_m . t_i / sqrt(d))`; values
//! `v_i = V t_i` (`value.weight` `[F, d]`, no bias) are split over the queries in M equal parts:
//! `z = concat_m sum_i a_m[i] v_i^(m)`. M = 32, or the largest divisor of F below (`queries` in the
//! settings), and F = d (`width`; d divided by the authors' `d_out`). Values are projected after the pooling,
//! `z^(m) = V^(m) sum_i a_m[i] t_i`, which is the same. A [norm](super::normed) precedes the classifier.
//!
//! Follows billpsomas/efficient-probing at b8f4fb8: poolings/ep.py, whose `cls_token` `[1, M, d]` is `query` `[M, d]` and whose
//! `v.weight` is `value.weight`, and probe_heads.py. Queries start normal with standard deviation 0.02, values as in `nn.Linear`.

use super::attention::{self, QUERY_DEVIATION};
use super::prelude::*;
use crate::model::ops::pooling::weight_rule::AttentionWeights;
use crate::model::probe::settings::{self, MAX_WIDTH};

/// Default number of queries.
const QUERIES: usize = 32;

pub const SPEC: HeadSpec = HeadSpec {
    id: "efficient",
    name: "Efficient probing",
    summary: "Several learned queries attend to the tokens",
    group: Group::Pooling,
    tier: Tier::Content,
    in_paper: false,
    paper_cost: None,
    build: Build::Normed(Norm::Batch, |config| {
        let expected = "a whole number from 1 that divides the width of the values";
        let queries = |queries| settings::within("queries", queries, 1..=usize::MAX, expected);
        let width =
            |width| settings::within("width", width, 1..=MAX_WIDTH, "a whole number from 1 to 262144");
        let (queries, width) =
            (config.queries.map(queries).transpose()?, config.width.map(width).transpose()?);
        Ok(Box::new(Efficient { queries, width }))
    }),
};

/// Pools by the attention of several queries.
pub struct Efficient {
    /// Number of queries; `None` for the largest divisor of the width up to 32.
    pub queries: Option<usize>,
    /// Width of the values, F; `None` for d.
    pub width: Option<usize>,
}

impl Efficient {
    /// Queries and features for tokens of width `d`.
    fn sizes(&self, d: usize) -> (usize, usize) {
        let width = self.width.unwrap_or(d);
        (self.queries.unwrap_or_else(|| settings::largest_divisor(width, QUERIES)), width)
    }
}

impl Head for Efficient {
    fn specs(&self, dims: &Dims) -> Vec<Spec> {
        let d = dims.width;
        let (queries, width) = self.sizes(d);
        let linear = Init::Uniform(1.0 / (d as f32).sqrt());
        vec![
            Spec::new("query", [queries, d], Init::Normal(QUERY_DEVIATION)),
            Spec::new("value.weight", [width, d], linear),
        ]
    }

    fn check(&self, dims: &Dims) -> Result<(), ConfigError> {
        let (queries, width) = self.sizes(dims.width);
        if width.is_multiple_of(queries) {
            return Ok(());
        }
        let found = format!("{queries}, but the values are {width} wide");
        Err(ConfigError { field: "queries", found, expected: "a divisor of the width of the values" })
    }

    fn settings(&self, width: usize) -> Config {
        let (queries, width) = self.sizes(width);
        Config { queries: Some(queries), width: Some(width), ..Config::default() }
    }

    fn features_len(&self, width: usize) -> usize {
        self.sizes(width).1
    }

    fn pooling(&self, params: &Params, batch: &Batch) -> Option<Pooling> {
        let [_, _, d] = batch.patches.dims();
        let attend = AttentionWeights { queries: self.sizes(d).0, scale: (d as f64).sqrt().recip() };
        Some(Pooling::by_scores(params.get::<2>("query"), attend))
    }

    fn finish(&self, params: &Params, pooled: Tensor<3>, _: &Batch) -> Tensor<2> {
        let [images, queries, d] = pooled.dims();
        let value = params.get::<2>("value.weight"); // [F, d]
        let [width, _] = value.dims();
        let value = value.reshape([queries, width / queries, d]).swap_dims(1, 2); // [M, d, F/M]
        let parts = pooled.swap_dims(0, 1).precise_matmul(value); // [M, B, F/M]
        parts.swap_dims(0, 1).reshape([images, width])
    }

    fn output(&self, params: &HostParams<'_>, tokens: &Tokens, _: u64) -> HeadOutput {
        let d = tokens.width;
        let queries = params["query"].data.chunks_exact(d);
        let weights = queries.flat_map(|query| attention::weights(query, tokens)).collect();
        let map = params["value.weight"].to_f64();
        let bias = vec![0.0; map.len() / d];
        HeadOutput { scores: None, form: Form::Projected { weights, map, mix: None, bias } }
    }

    fn flops(&self, n: u64, d: u64) -> u64 {
        let (queries, width) = self.sizes(d as usize);
        queries as u64 * (2 * n * d + 4 * n + 2 * n * d) + 2 * width as u64 * d // attention and pooling, values
    }

    fn counts(&self, n: u64, d: u64) -> Counts {
        let (queries, width) = self.sizes(d as usize);
        let (queries, width) = (queries as u64, width as u64);
        Counts::layers(n * d * width) + Counts::formulas(queries * n * d + n * width) // values, scores, pooling
    }
}
