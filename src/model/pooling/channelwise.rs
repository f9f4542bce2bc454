//! Pooling with a weight of its own for every channel: `z[c] = sum_i W[i, c] t_i[c]`, where `W` is the
//! same for all images or, behind a router, `W = P G` with each image's plan `P` `[N, N]`.
//!
//! On the CPU one operation with its own gradient, some images to a core: neither `W` nor its product
//! with the tokens is ever held for a batch. With `z`'s gradient `y`, `dW[i, c] = t_i[c] y[c]`,
//! `dG = sum over images of P^T dW` and `dP = dW G^T`.

use std::fmt;
use std::sync::Arc;

use burn::backend::autodiff::Autodiff;
use burn::backend::autodiff::checkpoint::{base::Checkpointer, strategy::CheckpointStrategy};
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops, OpsKind};
use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, Dispatch, Flex, backend_extension};
use burn::tensor::{DType, Tensor};
use burn_flex::FlexTensor;
use rayon::prelude::*;

use super::{on_cpu, tensor};
use crate::model::product::Matrix;
use crate::model::vectorise::{multiply_add, vectorised};

/// Parts a batch is cut into, each with a gradient of its own, summed in order at the end.
const PARTS: usize = 16;

/// `z`, `[B, d]`, of tokens `[B, N, d]`. `gain`: `[N, d]`, by position where there are `plans`
/// `[B, N, N]`, else by token. Differentiable in both.
pub fn pool(plans: Option<Tensor<3>>, gain: Tensor<2>, tokens: &Tensor<3>) -> Tensor<2> {
    if !on_cpu(&tokens.device()) || tokens.dtype() != DType::F32 {
        return pool_plain(plans, gain, tokens);
    }
    let has_plans = plans.is_some();
    // An operation takes tensors or none at all: one nobody reads stands for those that are absent.
    let plans = plans.unwrap_or_else(|| Tensor::zeros([1, 1, 1], (&tokens.device(), tokens.dtype())));
    let (plans, gain) = (plans.into_dispatch(), gain.into_dispatch());
    let tokens = tokens.clone().into_dispatch();
    Tensor::from_dispatch(<Dispatch as Weighing>::by_channel(plans, gain, tokens, has_plans))
}

/// [`pool`] by elementary operations: for other devices, and the reference for the CPU's own.
pub fn pool_plain(plans: Option<Tensor<3>>, gain: Tensor<2>, tokens: &Tensor<3>) -> Tensor<2> {
    let gain = gain.unsqueeze_dim::<3>(0); // [1, N, d]
    let weights = match plans {
        Some(plans) => plans.matmul(gain), // [B, N, d]
        None => gain,
    };
    (tokens.clone() * weights).sum_dim(1).squeeze_dim(1)
}

#[backend_extension(Autodiff, Flex)]
trait Weighing: Backend {
    fn by_channel(
        plans: FloatTensor<Self>,
        gain: FloatTensor<Self>,
        tokens: FloatTensor<Self>,
        has_plans: bool,
    ) -> FloatTensor<Self>;
}

impl Weighing for Flex {
    fn by_channel(plans: FlexTensor, gain: FlexTensor, tokens: FlexTensor, has_plans: bool) -> FlexTensor {
        Channels::new(has_plans.then_some(plans), &gain, &tokens).forward()
    }
}

impl<C: CheckpointStrategy> Weighing for Autodiff<Flex, C> {
    fn by_channel(
        plans: FloatTensor<Self>,
        gain: FloatTensor<Self>,
        tokens: FloatTensor<Self>,
        has_plans: bool,
    ) -> FloatTensor<Self> {
        let nodes = [plans.node(), gain.node()];
        let plans = has_plans.then(|| plans.into_primitive());
        let channels = Channels::new(plans, &gain.into_primitive(), &tokens.into_primitive());
        match BackFromChannels.prepare::<C>(nodes).compute_bound().stateful() {
            OpsKind::Tracked(prep) => {
                let pooled = channels.forward();
                prep.finish(Arc::new(channels), pooled)
            }
            OpsKind::UnTracked(prep) => prep.finish(channels.forward()),
        }
    }
}

/// The gradient of what was pooled.
#[derive(Debug)]
struct BackFromChannels;

impl Backward<Flex, 2> for BackFromChannels {
    type State = Arc<Channels>;

    fn backward(self, ops: Ops<Self::State, 2>, grads: &mut Gradients, _: &mut Checkpointer) {
        let cotangent = grads.consume::<Flex>(&ops.node).to_contiguous();
        let channels = &*ops.state;
        let (by_plans, by_gain) = channels.back(cotangent.as_slice::<f32>().expect("float32 gradients"));
        let [plans, gain] = ops.parents;
        if let (Some(node), false) = (plans, by_plans.is_empty()) {
            let shape = [channels.images, channels.count, channels.count];
            grads.register::<Flex>(node.id, tensor(by_plans, &shape));
        }
        if let Some(node) = gain {
            grads.register::<Flex>(node.id, tensor(by_gain, &[channels.count, channels.width]));
        }
    }
}

/// Tokens, plans and gain on the host.
struct Channels {
    tokens: FlexTensor,
    plans: Option<FlexTensor>,
    gain: FlexTensor,
    images: usize,
    count: usize,
    width: usize,
}

impl fmt::Debug for Channels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Channels({} images)", self.images)
    }
}

impl Channels {
    fn new(plans: Option<FlexTensor>, gain: &FlexTensor, tokens: &FlexTensor) -> Self {
        let shape: &[usize] = tokens.layout().shape();
        let &[images, count, width] = shape else { unreachable!("tokens have three axes") };
        let plans = plans.map(|plans| plans.to_contiguous());
        Self { tokens: tokens.to_contiguous(), plans, gain: gain.to_contiguous(), images, count, width }
    }

    fn gain(&self) -> &[f32] {
        self.gain.as_slice::<f32>().expect("a float32 gain")
    }

    fn image(&self, image: usize) -> &[f32] {
        let size = self.count * self.width;
        &self.tokens.as_slice::<f32>().expect("float32 tokens")[image * size..(image + 1) * size]
    }

    /// The plan of an image, `[N, N]`.
    fn plan(&self, image: usize) -> Option<Matrix<'_, f32>> {
        let plans = self.plans.as_ref()?.as_slice::<f32>().expect("float32 plans");
        let size = self.count * self.count;
        Some(Matrix::new(&plans[image * size..(image + 1) * size], self.count))
    }

    /// How many images a part has.
    fn part(&self) -> usize {
        self.images.div_ceil(PARTS).max(1)
    }

    fn forward(&self) -> FlexTensor {
        let mut pooled = vec![0.0; self.images * self.width];
        let parts = pooled.par_chunks_mut(self.part() * self.width).enumerate();
        parts.for_each(|(part, pooled)| {
            let mut weights = vec![0.0; if self.plans.is_some() { self.gain().len() } else { 0 }];
            for (at, pooled) in pooled.chunks_exact_mut(self.width).enumerate() {
                let image = part * self.part() + at;
                if let Some(plan) = self.plan(image) {
                    weights.fill(0.0);
                    plan.times(Matrix::new(self.gain(), self.width), &mut weights);
                }
                let weights = if self.plans.is_some() { &weights } else { self.gain() };
                let tokens = self.image(image).chunks_exact(self.width);
                tokens.zip(weights.chunks_exact(self.width)).for_each(|(t, w)| add_product(t, w, pooled));
            }
        });
        tensor(pooled, &[self.images, self.width])
    }

    /// The gradients of plans, `[B, N, N]` or nothing, and gain, `[N, d]`, given that of `z`, `[B, d]`.
    fn back(&self, cotangent: &[f32]) -> (Vec<f32>, Vec<f32>) {
        let table = if self.plans.is_some() { self.count * self.count } else { 0 };
        let one_part = |part: usize| {
            let images = part * self.part()..((part + 1) * self.part()).min(self.images);
            let mut by_plans = vec![0.0; images.len() * table];
            let mut by_gain = vec![0.0; self.gain().len()];
            let mut by_weights = vec![0.0; if table > 0 { by_gain.len() } else { 0 }];
            for (at, image) in images.enumerate() {
                let by_pooled = &cotangent[image * self.width..(image + 1) * self.width];
                let tokens = self.image(image).chunks_exact(self.width);
                let Some(plan) = self.plan(image) else {
                    let rows = tokens.zip(by_gain.chunks_exact_mut(self.width));
                    rows.for_each(|(t, by)| add_product(t, by_pooled, by));
                    continue;
                };
                by_weights.fill(0.0);
                let rows = tokens.zip(by_weights.chunks_exact_mut(self.width));
                rows.for_each(|(t, by)| add_product(t, by_pooled, by));
                let by_weights = Matrix::new(&by_weights, self.width);
                plan.transposed().times(by_weights, &mut by_gain);
                let gain = Matrix::new(self.gain(), self.width).transposed();
                by_weights.times(gain, &mut by_plans[at * table..(at + 1) * table]);
            }
            (by_plans, by_gain)
        };
        let parts = self.images.div_ceil(self.part());
        let (by_plans, by_gain): (Vec<_>, Vec<_>) = (0..parts).into_par_iter().map(one_part).unzip();
        let mut total = vec![0.0; self.gain().len()];
        for part in by_gain {
            total.iter_mut().zip(part).for_each(|(total, x)| *total += x);
        }
        (by_plans.concat(), total)
    }
}

vectorised! {
    /// `into += a b`.
    fn add_product<const FUSED: bool>(a: &[f32], b: &[f32], into: &mut [f32]) {
        for ((into, &a), &b) in into.iter_mut().zip(a).zip(b) {
            *into = multiply_add::<FUSED, f32>(a, b, *into);
        }
    }
}
