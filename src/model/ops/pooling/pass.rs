//! One pass over the tokens of a batch for any number of poolings, on the CPU, and its backward pass.
//!
//! Each core takes one image at a time: its tokens fit the core's cache, so scores, weights and weighted sums
//! are computed while memory is read once; the backward pass reads it once more. The order of every sum
//! depends neither on the number of threads nor on the other requests, so that a pooling gives the same bits
//! alone and beside others.

use std::sync::Arc;

use burn_flex::FlexTensor;
use rayon::prelude::*;

use super::clock::Clock;
use super::token_batch::TokenBatch;
use super::weight_rule::{Vjp, WeightRule};

/// The batch is split into at most this many parts; gradients are summed within a part, then over the parts.
const PARTS: usize = 64;

/// One head's [`Pooling`](super::Pooling) as values on the host.
pub struct PoolRequest {
    /// Vectors that every token is multiplied with, `[Q, d]` row-major; may be empty.
    pub queries: Vec<f32>,
    /// What the weights depend on besides the scores; may be empty.
    pub gains: Vec<f64>,
    /// Computes the weights from scores and gains.
    pub rule: Arc<dyn WeightRule>,
}

/// The gradients of one [`PoolRequest`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Gradient {
    /// `[Q, d]` row-major.
    pub queries: Vec<f32>,
    /// One for each gain of the request.
    pub gains: Vec<f64>,
}

/// A finished forward pass, with what its backward pass needs.
pub struct Pass {
    tokens: TokenBatch,
    requests: Vec<PoolRequest>,
    /// `vjps[image][request]`; empty where the pass was not to be kept.
    vjps: Vec<Vec<Vjp>>,
    clock: Clock,
}

impl PoolRequest {
    /// Number of outputs of one pool of one image.
    fn row(&self, width: usize) -> usize {
        width + usize::from(self.rule.appends_sums())
    }

    /// Number of outputs of all pools of one image.
    fn size(&self, width: usize) -> usize {
        self.rule.pools() * self.row(width)
    }

    /// Whether there is anything to take a gradient of.
    fn is_trained(&self) -> bool {
        !self.queries.is_empty() || !self.gains.is_empty()
    }
}

impl Pass {
    /// Pools the tokens `[B, N, d]` for every request: `[B, M, d]` each, `[B, M, d + 1]` where the sum of the
    /// weights follows ([`WeightRule::appends_sums`]). [`backward`](Self::backward) works only with `keep`.
    pub fn forward(tokens: &FlexTensor, requests: Vec<PoolRequest>, keep: bool) -> (Vec<Vec<f32>>, Self) {
        let tokens = TokenBatch::new(tokens);
        let (n, width) = (tokens.count, tokens.width);
        let queries: Vec<f32> = requests.iter().flat_map(|request| request.queries.iter().copied()).collect();
        let pools: usize = requests.iter().map(|request| request.rule.pools()).sum();
        let clock = Clock::new(requests.len());
        let pool_image = |image: usize| {
            let scores = if queries.is_empty() { vec![] } else { tokens.scores(image, &queries) }; // [Q, N]
            let mut scores = scores.as_slice();
            let (mut weights, mut vjps) = (Vec::with_capacity(pools * n), vec![]);
            for (at, request) in requests.iter().enumerate() {
                let (own, others) = scores.split_at(request.queries.len() / width * n);
                scores = others;
                let routed = clock.rule(at, || request.rule.weigh(image, n, own, &request.gains));
                weights.extend(routed.weights);
                if keep {
                    vjps.push(routed.vjp);
                }
            }
            let mut pooled = vec![0.0; pools * width];
            tokens.add(image, &weights, &mut pooled);
            (outputs_of_image(&requests, &pooled, &weights, [n, width]), vjps)
        };
        let images = (0..tokens.images).into_par_iter();
        let (pooled, vjps): (Vec<_>, Vec<_>) = images.map(|image| clock.image(|| pool_image(image))).unzip();
        let mut start = 0;
        let gather = |request: &PoolRequest| {
            let own = start..start + request.size(width);
            start = own.end;
            let mut all = vec![0.0; tokens.images * own.len()];
            let images = all.par_chunks_mut(own.len()).zip(&pooled);
            images.for_each(|(into, pooled)| into.copy_from_slice(&pooled[own.clone()]));
            all
        };
        let outputs = requests.iter().map(gather).collect();
        (outputs, Self { tokens, requests, vjps, clock })
    }

    /// The gradients of every request, given the cotangents of what [`forward`](Self::forward) returned; none
    /// for a request without a cotangent, or with neither queries nor gains.
    pub fn backward(&self, cotangents: &[Option<Vec<f32>>]) -> Vec<Option<Gradient>> {
        let is_active = |at: &usize| cotangents[*at].is_some() && self.requests[*at].is_trained();
        let active: Vec<usize> = (0..self.requests.len()).filter(is_active).collect();
        let part = self.tokens.images.div_ceil(PARTS).max(1);
        let images: Vec<usize> = (0..self.tokens.images).collect();
        let mut parts: Vec<_> = images
            .par_chunks(part)
            .map(|images| {
                let zeros = |&at: &usize| Gradient {
                    queries: vec![0.0; self.requests[at].queries.len()],
                    gains: vec![0.0; self.requests[at].gains.len()],
                };
                let mut sums: Vec<Gradient> = active.iter().map(zeros).collect();
                images.iter().for_each(|&image| {
                    self.clock.image(|| self.accumulate_image(image, &active, cotangents, &mut sums));
                });
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

    /// The share of each request in the time of this pass, forward and backward so far.
    pub fn shares(&self) -> Vec<f64> {
        let pools: Vec<usize> = self.requests.iter().map(|request| request.rule.pools()).collect();
        self.clock.shares(&pools)
    }

    /// Adds the gradients that come from `image` to the `sums` of the `active` requests.
    fn accumulate_image(
        &self,
        image: usize,
        active: &[usize],
        cotangents: &[Option<Vec<f32>>],
        sums: &mut [Gradient],
    ) {
        let (n, width) = (self.tokens.count, self.tokens.width);
        let (mut grad_pools, mut grad_sums) = (vec![], vec![]);
        for &at in active {
            let (row, size) = (self.requests[at].row(width), self.requests[at].size(width));
            let cotangent = cotangents[at].as_ref().expect("an active request has a cotangent");
            for grad_pool in cotangent[image * size..(image + 1) * size].chunks_exact(row) {
                grad_pools.extend_from_slice(&grad_pool[..width]);
                grad_sums.push(grad_pool.get(width).copied());
            }
        }
        if grad_pools.is_empty() {
            return;
        }
        let mut grad_weights = self.tokens.scores(image, &grad_pools); // [M, N]
        for (grad_weights, grad_sum) in grad_weights.chunks_exact_mut(n).zip(grad_sums) {
            if let Some(grad_sum) = grad_sum {
                grad_weights.iter_mut().for_each(|x| *x += f64::from(grad_sum));
            }
        }
        let mut grad_weights = grad_weights.as_slice();
        let mut grad_scores = vec![];
        for (&at, sums) in active.iter().zip(sums.iter_mut()) {
            let (own, others) = grad_weights.split_at(self.requests[at].rule.pools() * n);
            grad_weights = others;
            let cotangents = self.clock.rule(at, || self.vjps[image][at](own));
            sums.gains.iter_mut().zip(cotangents.gains).for_each(|(sum, x)| *sum += x);
            grad_scores.push(cotangents.scores); // [Q, N]
        }
        let mut grad_queries: Vec<f32> =
            sums.iter_mut().flat_map(|sum| std::mem::take(&mut sum.queries)).collect();
        if !grad_queries.is_empty() {
            self.tokens.add(image, &grad_scores.concat(), &mut grad_queries);
        }
        let mut rest = grad_queries.as_slice();
        for (&at, sum) in active.iter().zip(sums) {
            let (own, others) = rest.split_at(self.requests[at].queries.len());
            rest = others;
            sum.queries = own.to_vec();
        }
    }
}

/// The outputs of one image for every request in turn: its `pooled` tokens `[M, d]`, each followed by the sum of
/// its `weights` `[M, N]` where the rule [appends](WeightRule::appends_sums) it.
fn outputs_of_image(
    requests: &[PoolRequest],
    pooled: &[f32],
    weights: &[f64],
    [n, width]: [usize; 2],
) -> Vec<f32> {
    let mut pools = pooled.chunks_exact(width).zip(weights.chunks_exact(n));
    let mut outputs = Vec::with_capacity(requests.iter().map(|request| request.size(width)).sum());
    for request in requests {
        for (pooled, weights) in pools.by_ref().take(request.rule.pools()) {
            outputs.extend_from_slice(pooled);
            outputs.extend(request.rule.appends_sums().then(|| weights.iter().sum::<f64>() as f32));
        }
    }
    outputs
}

/// Adds `more` to `total`, which may still be empty.
fn add<T: Copy + std::ops::AddAssign>(total: &mut Vec<T>, more: Vec<T>) {
    if total.is_empty() {
        *total = more;
    } else {
        total.iter_mut().zip(more).for_each(|(sum, x)| *sum += x);
    }
}
