//! Pooling by the scorer, without any order (paper, "Baselines"): content weights and top-k.
//!
//! Both take the standardised scores `s` of the learned routers, so that what differs is the order
//! alone. `content`: `weight_i = softmax_i(s)`. `topk`: the mean of the k best scored tokens (all,
//! where there are fewer; ties by index). A choice has no gradient, so `topk` passes that of the
//! softmax through (straight-through, Bengio et al. 2013):
//! `weight = chosen / k + softmax(s) - stop(softmax(s))`.

use super::prelude::*;
use super::scorer;
use crate::model::ops::pooling::weight_rule::softmax;
use crate::model::probe::router::learned_weights::{ContentWeights, best};
use crate::model::probe::settings::at_least_one;

/// The softmax of the scores, in the [list](super::HEADS) of heads.
pub const CONTENT: HeadSpec = HeadSpec {
    id: "content",
    name: "Content",
    summary: "Softmax of the scores, no reordering",
    group: Group::Pooling,
    tier: Tier::Content,
    in_paper: true,
    paper_cost: Some(PaperCost { parameters: 0.77, flops: 2.14 }),
    build: Build::Own(|_| Ok(Box::new(Content))),
};

/// The best scored tokens, in the [list](super::HEADS) of heads.
pub const TOP_K: HeadSpec = HeadSpec {
    id: "topk",
    name: "Top-k",
    summary: "Mean of the best scored tokens",
    group: Group::Pooling,
    tier: Tier::Ablation,
    in_paper: true,
    paper_cost: None,
    build: Build::Own(|config| {
        at_least_one("k", config.k, "a whole number from 1")?;
        Ok(Box::new(TopK { k: config.k.unwrap_or(16) }))
    }),
};

/// Pools by a softmax over the scores.
pub struct Content;

impl Head for Content {
    fn specs(&self, dims: &Dims) -> Vec<Spec> {
        vec![scorer::spec(dims.width)]
    }

    fn pooling(&self, params: &Params, _: &Batch) -> Option<Pooling> {
        Some(Pooling::by_scores(scorer::query(params), ContentWeights { best: None }))
    }

    fn reading_with(&self, params: &Arrays, _: &[Kernel], tokens: &Tokens, _: u64) -> HeadOutput {
        let scores = scorer::scores_host(params, tokens);
        let form = Form::Pool(softmax(&scores));
        HeadOutput { scores: Some(scores), form }
    }

    fn flops(&self, dims: &Dims) -> u64 {
        let (n, d) = (dims.grid.len() as u64, dims.width as u64);
        2 * n * d + 9 * n + 2 * n * d // scores, standardisation and softmax, pooling
    }
}

/// The mean of the `k` best scored tokens.
pub struct TopK {
    /// How many, at least 1.
    pub k: usize,
}

impl Head for TopK {
    fn specs(&self, dims: &Dims) -> Vec<Spec> {
        vec![scorer::spec(dims.width)]
    }

    fn settings(&self, _: &Dims) -> Config {
        Config { k: Some(self.k), ..Config::default() }
    }

    fn pooling(&self, params: &Params, _: &Batch) -> Option<Pooling> {
        Some(Pooling::by_scores(scorer::query(params), ContentWeights { best: Some(self.k) }))
    }

    fn reading_with(&self, params: &Arrays, _: &[Kernel], tokens: &Tokens, _: u64) -> HeadOutput {
        let scores = scorer::scores_host(params, tokens);
        let weight = best(&scores, self.k.min(scores.len()));
        HeadOutput { scores: Some(scores), form: Form::Pool(weight) }
    }

    fn flops(&self, dims: &Dims) -> u64 {
        let (n, d) = (dims.grid.len() as u64, dims.width as u64);
        2 * n * d + 5 * n + self.k.min(dims.grid.len()) as u64 * d // scores, standardisation, mean
    }
}
