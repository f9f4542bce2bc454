//! One pass over the tokens of a batch for any number of poolings, on the CPU, and the way back.
//!
//! An image at a time: its tokens fit a core's cache, so scores, routing and weighted sums follow each
//! other while memory is read once; the way back reads it once more. Images lie side by side on all
//! cores. Every sum has an order of its own, which depends neither on the number of threads nor on
//! what else is asked, so that a pooling gives the same bits alone and beside others.

use std::sync::Arc;

use burn_flex::FlexTensor;
use rayon::prelude::*;

use super::token_batch::Tokens;
use super::weight_rule::{Vjp, WeightRule};

/// Most parts a batch is cut into; gradients are summed within a part, then over the parts.
const PARTS: usize = 64;

/// What one head asks of the tokens.
pub struct PoolRequest {
    /// What every token is multiplied with, `[Q, d]` row-major; may be empty.
    pub queries: Vec<f32>,
    /// What the weights depend on beside the scores; may be empty.
    pub gains: Vec<f64>,
    /// From scores to weights.
    pub rule: Arc<dyn WeightRule>,
}

/// The gradients of one [`PoolRequest`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Gradient {
    /// `[Q, d]` row-major.
    pub queries: Vec<f32>,
    /// As many as the request has.
    pub gains: Vec<f64>,
}

/// A pass that was made, and what its way back needs.
pub struct Pass {
    tokens: Tokens,
    requests: Vec<PoolRequest>,
    /// For every image, for every request.
    vjps: Vec<Vec<Vjp>>,
}

impl PoolRequest {
    fn pools(&self) -> usize {
        self.rule.pools()
    }

    /// Values of one pool for an image.
    fn row(&self, width: usize) -> usize {
        width + usize::from(self.rule.counts())
    }

    /// Values of all pools for an image.
    fn size(&self, width: usize) -> usize {
        self.pools() * self.row(width)
    }

    fn trained(&self) -> bool {
        !self.queries.is_empty() || !self.gains.is_empty()
    }
}

impl Pass {
    /// Pools the tokens `[B, N, d]` for every request: `[B, M, d]` each, `[B, M, d + 1]` where its rule
    /// [counts](WeightRule::counts). With `keep`, the pass can be gone back.
    pub fn forward(tokens: &FlexTensor, requests: Vec<PoolRequest>, keep: bool) -> (Vec<Vec<f32>>, Self) {
        let tokens = Tokens::new(tokens);
        let (n, width) = (tokens.count, tokens.width);
        let queries: Vec<f32> = requests.iter().flat_map(|request| request.queries.iter().copied()).collect();
        let pools: usize = requests.iter().map(PoolRequest::pools).sum();
        let one = |image: usize| {
            let scores = if queries.is_empty() { vec![] } else { tokens.scores(image, &queries) }; // [Q, N]
            let mut scores = scores.as_slice();
            let (mut weights, mut vjps) = (Vec::with_capacity(pools * n), vec![]);
            for request in &requests {
                let (own, others) = scores.split_at(request.queries.len() / width * n);
                scores = others;
                let routed = request.rule.weigh(image, n, own, &request.gains);
                weights.extend(routed.weights);
                if keep {
                    vjps.push(routed.vjp);
                }
            }
            let mut pooled = vec![0.0; pools * width];
            tokens.add(image, &weights, &mut pooled);
            (outputs_of_image(&requests, &pooled, &weights, [n, width]), vjps)
        };
        let (pooled, vjps): (Vec<_>, Vec<_>) = (0..tokens.images).into_par_iter().map(one).unzip();
        let mut start = 0;
        let of = |request: &PoolRequest| {
            let own = start..start + request.size(width);
            start = own.end;
            let mut all = vec![0.0; tokens.images * own.len()];
            let images = all.par_chunks_mut(own.len()).zip(&pooled);
            images.for_each(|(into, pooled)| into.copy_from_slice(&pooled[own.clone()]));
            all
        };
        let outputs = requests.iter().map(of).collect();
        (outputs, Self { tokens, requests, vjps })
    }

    /// The gradients of every request, given those of what [`forward`](Self::forward) gave; nothing for
    /// requests that get nothing.
    pub fn backward(&self, cotangents: &[Option<Vec<f32>>]) -> Vec<Option<Gradient>> {
        let asked = |at: &usize| cotangents[*at].is_some() && self.requests[*at].trained();
        let active: Vec<usize> = (0..self.requests.len()).filter(asked).collect();
        let part = self.tokens.images.div_ceil(PARTS).max(1);
        let images: Vec<usize> = (0..self.tokens.images).collect();
        let mut parts: Vec<_> = images
            .par_chunks(part)
            .map(|images| {
                let nothing = |&at: &usize| Gradient {
                    queries: vec![0.0; self.requests[at].queries.len()],
                    gains: vec![0.0; self.requests[at].gains.len()],
                };
                let mut sums: Vec<Gradient> = active.iter().map(nothing).collect();
                images.iter().for_each(|&image| self.back_through(image, &active, cotangents, &mut sums));
                sums
            })
            .collect();
        let mut gradients = vec![None; self.requests.len()];
        for (slot, &at) in active.iter().enumerate() {
            let mut total = Gradient::default();
            for part in &mut parts {
                let Gradient { queries, gains } = std::mem::take(&mut part[slot]);
                add(&mut total.queries, queries);
                add(&mut total.gains, gains);
            }
            gradients[at] = Some(total);
        }
        gradients
    }

    /// Adds what `image` contributes to the gradients of the `active` requests.
    fn back_through(
        &self,
        image: usize,
        active: &[usize],
        cotangents: &[Option<Vec<f32>>],
        sums: &mut [Gradient],
    ) {
        let (n, width) = (self.tokens.count, self.tokens.width);
        let (mut by_pools, mut by_sums) = (vec![], vec![]);
        for &at in active {
            let (row, size) = (self.requests[at].row(width), self.requests[at].size(width));
            let cotangent = cotangents[at].as_ref().expect("an active request has a cotangent");
            for by_pool in cotangent[image * size..(image + 1) * size].chunks_exact(row) {
                by_pools.extend_from_slice(&by_pool[..width]);
                by_sums.push(by_pool.get(width).copied());
            }
        }
        if by_pools.is_empty() {
            return;
        }
        let mut by_weights = self.tokens.scores(image, &by_pools); // [M, N]
        for (by_weights, by_sum) in by_weights.chunks_exact_mut(n).zip(by_sums) {
            if let Some(by_sum) = by_sum {
                by_weights.iter_mut().for_each(|x| *x += f64::from(by_sum));
            }
        }
        let mut by_weights = by_weights.as_slice();
        let mut by_scores = vec![];
        for (&at, sums) in active.iter().zip(sums.iter_mut()) {
            let (own, others) = by_weights.split_at(self.requests[at].pools() * n);
            by_weights = others;
            let cotangents = self.vjps[image][at](own);
            sums.gains.iter_mut().zip(cotangents.gains).for_each(|(sum, x)| *sum += x);
            by_scores.push(cotangents.scores); // [Q, N]
        }
        let mut by_queries: Vec<f32> =
            sums.iter_mut().flat_map(|sum| std::mem::take(&mut sum.queries)).collect();
        if !by_queries.is_empty() {
            self.tokens.add(image, &by_scores.concat(), &mut by_queries);
        }
        let mut rest = by_queries.as_slice();
        for (&at, sum) in active.iter().zip(sums) {
            let (own, others) = rest.split_at(self.requests[at].queries.len());
            rest = others;
            sum.queries = own.to_vec();
        }
    }
}

/// What every request gets of an image, one after another: its `pooled` tokens `[M, d]`, and behind each the
/// sum of its `weights` `[M, N]` where that was asked.
fn outputs_of_image(
    requests: &[PoolRequest],
    pooled: &[f32],
    weights: &[f64],
    [n, width]: [usize; 2],
) -> Vec<f32> {
    let mut pools = pooled.chunks_exact(width).zip(weights.chunks_exact(n));
    let mut outputs_of_image = Vec::with_capacity(requests.iter().map(|request| request.size(width)).sum());
    for request in requests {
        for (pooled, weights) in pools.by_ref().take(request.pools()) {
            outputs_of_image.extend_from_slice(pooled);
            outputs_of_image.extend(request.rule.counts().then(|| weights.iter().sum::<f64>() as f32));
        }
    }
    outputs_of_image
}

/// Adds `more` to `total`, which may still be empty.
fn add<T: Copy + std::ops::AddAssign>(total: &mut Vec<T>, more: Vec<T>) {
    if total.is_empty() {
        *total = more;
    } else {
        total.iter_mut().zip(more).for_each(|(sum, x)| *sum += x);
    }
}
