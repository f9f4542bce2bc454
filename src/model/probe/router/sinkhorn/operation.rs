//! Sinkhorn for a batch as operations in burn's graph with their own gradient: without noise no N x N tensor is stored
//! for an iteration, and for `P gain` none at all. [`super::cpu`] implements them for the CPU, [`super::gpu`] for GPUs.

use burn::backend::{Cube, Flex};
use burn::tensor::Tensor;

use super::Sinkhorn;
use super::noise::Noise;
use crate::model::ops::cpu::on_cpu;
use crate::model::ops::custom_op::apply;

/// `P gain` for a batch, as [`super::Router::token_weights`].
pub(super) fn token_weights(scores: Tensor<2>, gain: Tensor<1>, task: Task) -> Tensor<2> {
    let device = scores.device();
    let inputs = [scores.into_dispatch(), gain.into_dispatch()];
    match on_cpu(&device) {
        true => apply::<Flex, _, 2, 2>(TokenWeightsOp(task), inputs),
        false => apply::<Cube, _, 2, 2>(TokenWeightsOp(task), inputs),
    }
}

/// `P` for a batch, as [`super::Router::plans`].
pub(super) fn plans(scores: Tensor<2>, task: Task) -> Tensor<3> {
    match on_cpu(&scores.device()) {
        true => apply::<Flex, _, 1, 3>(PlansOp(task), [scores.into_dispatch()]),
        false => apply::<Cube, _, 1, 3>(PlansOp(task), [scores.into_dispatch()]),
    }
}

pub(super) struct Task {
    /// Temperature and iterations.
    pub sinkhorn: Sinkhorn,
    /// Noise to add to L.
    pub noise: Option<Noise>,
}

/// `P gain`, `[B, N]`, of scores `[B, N]` and gain `[N]`. On GPUs the task must have no noise.
pub(super) struct TokenWeightsOp(pub Task);

/// `P`, `[B, N, N]`, of scores `[B, N]`.
pub(super) struct PlansOp(pub Task);
