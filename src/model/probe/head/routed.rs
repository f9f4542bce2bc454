//! S4 behind a learned router: the paper's probe (docs/definitions.md, sections 2 to 4).
//!
//! `P = router(scores)`, `z = sum_k gain[k] * (P^T T)[k] = sum_i (P gain)[i] * t_i`: a weighted sum
//! of tokens, so `P^T T` is never computed, and with a shared S4 not even the plan need be.

use std::sync::Arc;

use super::Sharing;
use super::prelude::*;
use super::s4_layer::S4Layer;
use crate::model::probe::head_output::Order;
use crate::model::probe::router::channelwise::{self, Channelwise};
use crate::model::probe::router::{Router, RouterSpec};

impl HeadSpec {
    /// The entry of the S4 behind this router in the [list](super::HEADS) of heads.
    pub(super) fn for_router(router: &'static RouterSpec) -> Self {
        let RouterSpec { id, name, summary, in_paper, paper_cost, .. } = *router;
        let (group, tier, build) = (Group::Router, Tier::Full, Build::Routed(router));
        Self { id, name, summary, group, tier, in_paper, paper_cost, build }
    }
}

/// S4 behind a learned router.
pub struct RoutedScan {
    /// What orders the tokens.
    pub router: Arc<dyn Router>,
    /// The S4 that reads them in that order.
    pub memory: S4Layer,
}

impl RoutedScan {
    /// With the router and the S4 of the settings; fails where one is out of range.
    pub(super) fn boxed(router: &RouterSpec, config: &Config) -> Result<Box<dyn Head>, ConfigError> {
        let router = (router.build)(config)?.into();
        Ok(Box::new(Self { router, memory: S4Layer::new(config, 1)? }))
    }
}

impl Head for RoutedScan {
    fn specs(&self, dims: &Dims) -> Vec<Spec> {
        std::iter::once(scorer::spec(dims.width)).chain(self.memory.specs(dims.width)).collect()
    }

    fn settings(&self, _: usize) -> Config {
        self.memory.settings(self.router.settings())
    }

    fn router(&self) -> Option<&dyn Router> {
        Some(&*self.router)
    }

    /// With a shared S4 only: then every position has one gain for all channels.
    fn pooling(&self, params: &Params, batch: &Batch) -> Option<Pooling> {
        if self.memory.sharing == Sharing::Channel {
            return None;
        }
        let [_, n, _] = batch.patches.dims();
        let gains = self.memory.gain(params, n).transpose(); // [1, N]
        Some(scorer::routed(params, &self.router, gains, batch))
    }

    fn features(&self, params: &Params, batch: &Batch) -> Tensor<2> {
        let patches = &batch.patches;
        if let Some(pooling) = self.pooling(params, batch) {
            return self.finish(params, pooling.pool(patches), batch);
        }
        let [_, n, _] = patches.dims();
        let (router, image_seeds) = (self.router.clone(), batch.training_seeds());
        let (query, gain) = (Some(scorer::query(params)), self.memory.gain(params, n));
        Channelwise { query, gain, order: channelwise::Order::Learned { router, image_seeds } }.pool(patches)
    }

    fn kernels(&self, params: &Arrays, n: usize) -> Vec<Kernel> {
        self.memory.kernels(params, n)
    }

    fn output(&self, params: &HostParams<'_>, tokens: &Tokens, _: u64) -> HeadOutput {
        let scores = scorer::scores_host(params, tokens);
        let plan = self.router.plan(&scores);
        let form = Form::Scan(vec![params.kernels[0].direction(Order::Plan(plan))]);
        HeadOutput { scores: Some(scores), form }
    }

    fn flops(&self, n: u64, d: u64) -> u64 {
        let weights = match self.memory.sharing {
            Sharing::Shared => 2 * n * n,
            Sharing::Channel => 2 * n * n * d,
        };
        cost::scores(n, d) + self.router.flops(n) + weights + 2 * n * d
    }

    fn counts(&self, n: u64, d: u64) -> Counts {
        Counts::layers(n * d) + Counts::formulas(n * n * d) + self.memory.counts(n, d) // scores, routing
    }
}
