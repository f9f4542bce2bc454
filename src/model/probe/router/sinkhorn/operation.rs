//! Sinkhorn for a batch as one operation of burn with its own gradient: no N x N tensor of an
//! iteration is ever made, and for `P q` none at all. What a device does is its [`SinkhornBackend`].

use std::fmt::Debug;

use burn::backend::autodiff::Autodiff;
use burn::backend::autodiff::checkpoint::{base::Checkpointer, strategy::CheckpointStrategy};
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops, OpsKind};
use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, Cube, Dispatch, Flex, backend_extension};
use burn::tensor::Tensor;

use super::Sinkhorn;

/// `P q` for a batch, as [`super::Router::token_weights`].
pub(super) fn token_weights(scores: Tensor<2>, gain: Tensor<1>, task: Task) -> Tensor<2> {
    let (scores, gain) = (scores.into_dispatch(), gain.into_dispatch());
    Tensor::from_dispatch(<Dispatch as SinkhornOp>::token_weights(scores, gain, task))
}

/// P for a batch, as [`super::Router::plans`].
pub(super) fn plans(scores: Tensor<2>, task: Task) -> Tensor<3> {
    Tensor::from_dispatch(<Dispatch as SinkhornOp>::plans(scores.into_dispatch(), task))
}

/// What to do with a batch.
pub(super) struct Task {
    /// Temperature and iterations.
    pub sinkhorn: Sinkhorn,
    /// What is added to L, `[B, N, N]`; empty for nothing. The processor only.
    pub noise: Vec<f32>,
}

/// How a device computes it.
pub(super) trait SinkhornBackend: Backend {
    /// What the way back needs.
    type Kept: Clone + Debug + Send + 'static;

    /// `P gain` `[B, N]` for `scores` `[B, N]` and `gain` `[N]`; with `keep` what the way back needs.
    fn weigh(
        scores: FloatTensor<Self>,
        gain: FloatTensor<Self>,
        task: &Task,
        keep: bool,
    ) -> (FloatTensor<Self>, Option<Self::Kept>);

    /// P `[B, N, N]` for `scores` `[B, N]`; with `keep` what the way back needs.
    fn plan(scores: FloatTensor<Self>, task: &Task, keep: bool) -> (FloatTensor<Self>, Option<Self::Kept>);

    /// The cotangents of scores `[B, N]` and gain `[N]`, from that of `P gain`, `[B, N]`.
    fn back_from_weights(
        kept: Self::Kept,
        cotangent: FloatTensor<Self>,
    ) -> (FloatTensor<Self>, FloatTensor<Self>);

    /// The cotangent of the scores `[B, N]`, from that of P, `[B, N, N]`.
    fn back_from_plans(kept: Self::Kept, cotangent: FloatTensor<Self>) -> FloatTensor<Self>;
}

#[backend_extension(Autodiff, Flex, Cube)]
trait SinkhornOp: Backend {
    fn token_weights(scores: FloatTensor<Self>, gain: FloatTensor<Self>, task: Task) -> FloatTensor<Self>;
    fn plans(scores: FloatTensor<Self>, task: Task) -> FloatTensor<Self>;
}

macro_rules! without_gradient {
    ($backend:ty) => {
        impl SinkhornOp for $backend {
            fn token_weights(
                scores: FloatTensor<Self>,
                gain: FloatTensor<Self>,
                task: Task,
            ) -> FloatTensor<Self> {
                Self::weigh(scores, gain, &task, false).0
            }

            fn plans(scores: FloatTensor<Self>, task: Task) -> FloatTensor<Self> {
                Self::plan(scores, &task, false).0
            }
        }
    };
}
without_gradient!(Flex);
without_gradient!(Cube);

const KEPT: &str = "the machine was asked to keep it";

impl<B: SinkhornBackend + SinkhornOp, C: CheckpointStrategy> SinkhornOp for Autodiff<B, C> {
    fn token_weights(scores: FloatTensor<Self>, gain: FloatTensor<Self>, task: Task) -> FloatTensor<Self> {
        match BackFromWeights.prepare::<C>([scores.node(), gain.node()]).compute_bound().stateful() {
            OpsKind::Tracked(prep) => {
                let (weights, kept) = B::weigh(scores.into_primitive(), gain.into_primitive(), &task, true);
                prep.finish(kept.expect(KEPT), weights)
            }
            OpsKind::UnTracked(prep) => {
                prep.finish(B::token_weights(scores.into_primitive(), gain.into_primitive(), task))
            }
        }
    }

    fn plans(scores: FloatTensor<Self>, task: Task) -> FloatTensor<Self> {
        match BackFromPlans.prepare::<C>([scores.node()]).compute_bound().stateful() {
            OpsKind::Tracked(prep) => {
                let (plans, kept) = B::plan(scores.into_primitive(), &task, true);
                prep.finish(kept.expect(KEPT), plans)
            }
            OpsKind::UnTracked(prep) => prep.finish(B::plans(scores.into_primitive(), task)),
        }
    }
}

/// The gradient of `P q`.
#[derive(Debug)]
struct BackFromWeights;

impl<B: SinkhornBackend> Backward<B, 2> for BackFromWeights {
    type State = B::Kept;

    fn backward(self, ops: Ops<Self::State, 2>, grads: &mut Gradients, _: &mut Checkpointer) {
        let cotangent = grads.consume::<B>(&ops.node);
        let (by_scores, by_gain) = B::back_from_weights(ops.state, cotangent);
        let [scores, gain] = ops.parents;
        if let Some(node) = scores {
            grads.register::<B>(node.id, by_scores);
        }
        if let Some(node) = gain {
            grads.register::<B>(node.id, by_gain);
        }
    }
}

/// The gradient of P.
#[derive(Debug)]
struct BackFromPlans;

impl<B: SinkhornBackend> Backward<B, 1> for BackFromPlans {
    type State = B::Kept;

    fn backward(self, ops: Ops<Self::State, 1>, grads: &mut Gradients, _: &mut Checkpointer) {
        let cotangent = grads.consume::<B>(&ops.node);
        if let [Some(node)] = ops.parents {
            grads.register::<B>(node.id, B::back_from_plans(ops.state, cotangent));
        }
    }
}
