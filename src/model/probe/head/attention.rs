//! Attention pooling: one learned query attends to the patch tokens (paper, "Baselines").
//!
//! `weight_i = softmax_i(q . t_i / sqrt(d))`, `z = sum_i weight_i t_i`, with `query` `[d]`. One
//! attention head, no projections.

use super::prelude::*;
use crate::model::ops::pooling::weight_rule::{AttentionWeights, softmax};

/// Standard deviation of the initial learned queries and of the learned CLS, as in vision transformers.
pub const QUERY_DEVIATION: f32 = 0.02;

pub const SPEC: HeadSpec = HeadSpec {
    id: "attention",
    name: "Attention",
    summary: "One learned query attends to the tokens",
    group: Group::Pooling,
    tier: Tier::Content,
    in_paper: true,
    paper_cost: Some(PaperCost { parameters: 0.77, flops: 2.14 }),
    build: Build::Own(|_| Ok(Box::new(Attention))),
};

/// Pools by the attention of one query.
pub struct Attention;

impl Head for Attention {
    fn specs(&self, dims: &Dims) -> Vec<Spec> {
        vec![Spec::new("query", [dims.width], Init::Normal(QUERY_DEVIATION))]
    }

    fn pooling(&self, params: &Params, batch: &Batch) -> Option<Pooling> {
        let [_, _, width] = batch.patches.dims();
        let query = params.get::<1>("query").unsqueeze_dim(0); // [1, d]
        Some(Pooling::by_scores(query, AttentionWeights { queries: 1, scale: (width as f64).sqrt().recip() }))
    }

    fn output(&self, params: &HostParams<'_>, tokens: &Tokens, _: u64) -> HeadOutput {
        HeadOutput { scores: None, form: Form::Pool(weights(&params["query"].data, tokens)) }
    }

    fn flops(&self, n: u64, d: u64) -> u64 {
        2 * n * d + 4 * n + 2 * n * d // scores, softmax, pooling
    }

    fn counts(&self, n: u64, d: u64) -> Counts {
        Counts::formulas(2 * n * d) // scores, pooling
    }
}

/// The weights that a query `[d]` gives to the tokens of one image in float64, `[N]`.
pub fn weights(query: &[f32], tokens: &Tokens) -> Vec<f64> {
    let mut logits = scorer::dots(query, tokens);
    logits.iter_mut().for_each(|x| *x /= (tokens.width as f64).sqrt());
    softmax(&logits)
}
