//! Sinkhorn without a memory: the routed tokens are averaged, so that the order is lost again.
//!
//! `z = sum_k (P^T T)[k] / N`. With an exactly doubly stochastic plan this is `gap`; the difference shows
//! how far the row sums of Sinkhorn's plan are from 1. It separates routing from memory.

use std::sync::Arc;

use super::prelude::*;
use crate::model::probe::head_output::{Direction, Gain, Order};
use crate::model::probe::router::{Router, sinkhorn};

pub const SPEC: HeadSpec = HeadSpec {
    id: "sinkhorn-gap",
    name: "Sinkhorn + GAP",
    summary: "The mean behind Sinkhorn: routing without memory",
    group: Group::Router,
    tier: Tier::Ablation,
    in_paper: true,
    paper_cost: None,
    build: Build::Own(|config| {
        Ok(Box::new(SinkhornGap { router: Arc::from((sinkhorn::SPEC.build)(config)?) }))
    }),
};

/// The mean of the tokens as Sinkhorn routes them.
pub struct SinkhornGap {
    /// What orders the tokens.
    pub router: Arc<dyn Router>,
}

impl Head for SinkhornGap {
    fn specs(&self, dims: &Dims) -> Vec<Spec> {
        vec![scorer::spec(dims.width)]
    }

    fn router(&self) -> Option<&dyn Router> {
        Some(&*self.router)
    }

    fn pooling(&self, params: &Params, batch: &Batch) -> Option<Pooling> {
        let [_, n, _] = batch.patches.dims();
        let gains =
            Tensor::<2>::ones([1, n], (&batch.patches.device(), scorer::query(params).dtype())) / n as f64;
        Some(scorer::routed(params, &self.router, gains, batch))
    }

    fn output(&self, params: &HostParams<'_>, tokens: &Tokens, _: u64) -> HeadOutput {
        let n = tokens.grid.len();
        let scores = scorer::scores_host(params, tokens);
        let order = Order::Plan(self.router.plan(&scores));
        let gain = Gain::Shared(vec![1.0 / n as f64; n]);
        let direction = Direction { order, gain, kernel: Vec::new(), radius: None };
        HeadOutput { scores: Some(scores), form: Form::Scan(vec![direction]) }
    }

    fn flops(&self, n: u64, d: u64) -> u64 {
        cost::scores(n, d) + self.router.flops(n) + 2 * n * n + 2 * n * d
    }

    fn counts(&self, n: u64, d: u64) -> Counts {
        Counts::layers(n * d) + Counts::formulas(n * n * d) // scores, routing
    }
}
