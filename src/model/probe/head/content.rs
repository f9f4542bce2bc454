//! Pooling by the scorer, without any order (paper, "Baselines"): content weights and top-k.
//!
//! Both use the standardised scores `s` of the learned routers, so that only the order
//! differs. `content`: `weight_i = softmax_i(s)`. `topk`: the mean of the k highest-scored tokens (all,
//! where there are fewer; ties by index). The selection has no gradient, so `topk` uses that of the
//! softmax (straight-through, Bengio et al. 2013):
//! `weight = chosen / k + softmax(s) - stop(softmax(s))`.

use super::prelude::*;
use crate::model::ops::pooling::weight_rule::softmax;
use crate::model::probe::router::learned_weights::{ContentWeights, best};
use crate::model::probe::settings::within;

/// The softmax of the scores, in the [list](super::HEADS) of heads.
pub const CONTENT: HeadSpec = HeadSpec {
    id: "content",
    name: "Content",
    summary: "Softmax of the scores, no reordering",
    group: Group::Pooling,
    tier: Tier::Content,
    in_paper: true,
    paper_cost: Some(PaperCost { parameters: 0.77, flops: 2.14 }),
    build: Build::Own(|_| Ok(Box::new(Content { best: None }))),
};

/// The best scored tokens, in the [list](super::HEADS) of heads.
pub const TOP_K: HeadSpec = HeadSpec {
    id: "topk",
    name: "Top-k",
    summary: "Mean of the top-scoring tokens",
    tier: Tier::Ablation,
    paper_cost: None,
    build: Build::Own(|config| {
        let k = within("k", config.k.unwrap_or(16), 1..=usize::MAX, "a whole number from 1")?;
        Ok(Box::new(Content { best: Some(k) }))
    }),
    ..CONTENT
};

/// Pools by a softmax over the scores, or takes the mean of the best scored tokens.
pub struct Content {
    /// Number of best tokens, at least 1; `None` for the softmax.
    pub best: Option<usize>,
}

impl Head for Content {
    fn specs(&self, dims: &Dims) -> Vec<Spec> {
        vec![scorer::spec(dims.width)]
    }

    fn settings(&self, _: usize) -> Config {
        Config { k: self.best, ..Config::default() }
    }

    fn has_hard_choice(&self) -> bool {
        self.best.is_some()
    }

    fn pooling(&self, params: &Params, _: &Batch) -> Option<Pooling> {
        Some(Pooling::by_scores(scorer::query(params), ContentWeights { best: self.best }))
    }

    fn output(&self, params: &HostParams<'_>, tokens: &Tokens, _: u64) -> HeadOutput {
        let scores = scorer::scores_host(params, tokens);
        let weights = match self.best {
            None => softmax(&scores),
            Some(k) => best(&scores, k.min(scores.len())),
        };
        HeadOutput { scores: Some(scores), form: Form::Pool(weights) }
    }

    fn flops(&self, n: u64, d: u64) -> u64 {
        match self.best {
            None => 2 * n * d + 9 * n + 2 * n * d, // scores, standardisation and softmax, pooling
            Some(k) => 2 * n * d + 5 * n + n.min(k as u64) * d, // scores, standardisation, mean
        }
    }

    fn counts(&self, n: u64, d: u64) -> Counts {
        let pooling = if self.best.is_none() { n * d } else { 0 };
        Counts::layers(n * d) + Counts::formulas(pooling) // scores, pooling
    }
}
