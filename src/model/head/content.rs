//! Pooling by the scorer, without any order (paper, "Baselines"): content weights and top-k.
//!
//! Both take the standardised scores `s` of the learned routers, so that what differs is the order
//! alone. `content`: `weight_i = softmax_i(s)`. `topk`: the mean of the k best scored tokens (all,
//! where there are fewer; ties by index). A choice has no gradient, so `topk` passes that of the
//! softmax through (straight-through, Bengio et al. 2013):
//! `weight = chosen / k + softmax(s) - stop(softmax(s))`.

use burn::tensor::{IndexingUpdateOp, Tensor, activation};

use super::{Batch, Config, Dims, Head, Kernel, scorer};
use crate::model::array::Arrays;
use crate::model::params::{Params, Spec};
use crate::model::reading::{Form, Reading};
use crate::model::tokens::Tokens;

/// Pools by a softmax over the scores.
pub struct Content;

impl Head for Content {
    fn specs(&self, dims: &Dims) -> Vec<Spec> {
        vec![scorer::spec(dims.width)]
    }

    fn features(&self, params: &Params, batch: &Batch) -> Tensor<2> {
        let scores = scorer::scores(params, &batch.patches); // [B, N]
        scorer::pool(activation::softmax(scores, 1), &batch.patches)
    }

    fn reading_with(&self, params: &Arrays, _: &[Kernel], tokens: &Tokens, _: u64) -> Reading {
        let scores = scorer::scores_host(params, tokens);
        let form = Form::Pool(scorer::softmax(&scores));
        Reading { scores: Some(scores), form }
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

    fn features(&self, params: &Params, batch: &Batch) -> Tensor<2> {
        let scores = scorer::scores(params, &batch.patches); // [B, N]
        let k = self.k.min(scores.dims()[1]);
        let (best, at) = scores.clone().detach().topk_with_indices(k, 1); // [B, k]
        let each = best.zeros_like() + 1.0 / k as f64; // [B, k]
        let nothing = scores.clone().detach().zeros_like(); // [B, N]
        let chosen = nothing.scatter(1, at, each, IndexingUpdateOp::Add); // [B, N]
        let soft = activation::softmax(scores, 1); // [B, N]
        scorer::pool(chosen + (soft.clone() - soft.detach()), &batch.patches)
    }

    fn reading_with(&self, params: &Arrays, _: &[Kernel], tokens: &Tokens, _: u64) -> Reading {
        let scores = scorer::scores_host(params, tokens);
        let k = self.k.min(scores.len());
        let mut order: Vec<usize> = (0..scores.len()).collect();
        order.sort_by(|&a, &b| scores[b].total_cmp(&scores[a])); // stable: ties by index
        let mut weight = vec![0.0; scores.len()];
        order[..k].iter().for_each(|&i| weight[i] = 1.0 / k as f64);
        Reading { scores: Some(scores), form: Form::Pool(weight) }
    }

    fn flops(&self, dims: &Dims) -> u64 {
        let (n, d) = (dims.grid.len() as u64, dims.width as u64);
        2 * n * d + 5 * n + self.k.min(dims.grid.len()) as u64 * d // scores, standardisation, mean
    }
}
