//! Pooling with separate weights for every channel: `z[c] = sum_i W[i, c] t_i[c]`, where `W` is the gain
//! `G`, `[N, d]`, itself, `G` with its rows permuted for each image, or `P G` with the plan `P`, `[N, N]`, that
//! a router makes from each image's scores.
//!
//! On the CPU it is one operation with its own gradient, parallel over images: scores, plan, `W` and its
//! product with the tokens are computed per image, and none of them is ever held for a batch. With the
//! gradient `y` of `z`: `dW[i, c] = t_i[c] y[c]`, `dG = sum over images of P^T dW` and `dP = dW G^T`.

use std::sync::Arc;

use burn::backend::Flex;
use burn::tensor::{DType, Tensor};
use burn_flex::FlexTensor;
use rayon::prelude::*;

use crate::model::ops::cpu::{as_f32, flex, from_f32, on_cpu};
use crate::model::ops::custom_op::{CustomOp, apply, optional};
use crate::model::ops::gemm::Matrix;
use crate::model::ops::matmul::PreciseMatmul as _;
use crate::model::ops::pooling::token_batch::TokenBatch;
use crate::model::ops::scatter::gather_rows;
use crate::model::ops::simd::{add, add_product};
use crate::model::probe::router::{Routed, Router, standardise, standardise_batch, standardise_vjp};

/// Number of parts that a batch is cut into for the backward pass; their gradients are summed in order.
const PARTS: usize = 16;

/// A pooling of the patch tokens with weights per channel.
pub struct Channelwise {
    /// The scorer's query, `[1, d]`, where the order is learned.
    pub query: Option<Tensor<2>>,
    /// The weight of every channel, `[N, d]`: by position, or by token where the order is [fixed](Order::Fixed).
    pub gain: Tensor<2>,
    /// Which token is read at which position.
    pub order: Order,
}

/// Which token is read at which position.
#[derive(Clone)]
pub enum Order {
    /// The same for every image: the gain is indexed by token.
    Fixed,
    /// The position of each token of each image, `[B, N]` row-major.
    Permuted(Arc<Vec<usize>>),
    /// A plan for every image, made by a router.
    Learned {
        /// Makes the plan from the scores.
        router: Arc<dyn Router>,
        /// Seeds of the router's noise in training, one per image; absent otherwise.
        image_seeds: Option<Vec<u64>>,
    },
}

impl Channelwise {
    /// `z`, `[B, d]`, of tokens `[B, N, d]`; differentiable in gain and query, not in the tokens.
    pub fn pool(&self, tokens: &Tensor<3>) -> Tensor<2> {
        if !on_cpu(&tokens.device()) {
            return match self.order {
                Order::Learned { .. } => self.pool_in_parts(tokens, None),
                Order::Fixed | Order::Permuted(_) => self.pool_plain(tokens),
            };
        }
        if tokens.dtype() != DType::F32 {
            return self.pool_plain(tokens);
        }
        let op = ChannelPoolOp { tokens: TokenBatch::new(&flex(tokens.clone())), order: self.order.clone() };
        apply(op, [optional(self.query.clone(), &tokens.device()), self.gain.clone().into_dispatch()])
    }

    /// [`pool`](Self::pool) by tensor operations: for other devices and precisions, and the tested reference.
    pub fn pool_plain(&self, tokens: &Tensor<3>) -> Tensor<2> {
        let [images, n, width] = tokens.dims();
        let weights = match &self.order {
            Order::Fixed => self.gain.clone().unsqueeze_dim::<3>(0), // [1, N, d]
            Order::Permuted(places) => gather_rows(self.gain.clone(), places).reshape([images, n, width]),
            Order::Learned { router, image_seeds } => {
                let query = self.query.clone().expect("a learned order has a scorer").transpose(); // [d, 1]
                let raw = tokens.clone().reshape([images * n, width]).precise_matmul(query); // [B N, 1]
                let scores = standardise_batch(raw.reshape([images, n])); // [B, N]
                let plans = router.plans(scores, image_seeds.as_deref());
                plans.precise_matmul(self.gain.clone().unsqueeze_dim(0)) // [B, N, d]
            }
        };
        (tokens.clone() * weights).sum_dim(1).squeeze_dim(1)
    }
}

/// [`Channelwise::pool`] on the CPU, as an operation on query and gain.
struct ChannelPoolOp {
    tokens: TokenBatch,
    order: Order,
}

/// What the backward pass needs of an image whose order is learned.
struct RoutedImage {
    /// Its scores before standardisation, `[N]`.
    raw: Vec<f64>,
    routed: Box<dyn Routed>,
}

impl CustomOp<Flex, 2> for ChannelPoolOp {
    /// The operation with its inputs, and every routed image; none where the order is not learned.
    type Saved = (Channels, Vec<RoutedImage>);

    fn forward(self, [query, gain]: [FlexTensor; 2], keep: bool) -> (FlexTensor, Self::Saved) {
        let Self { tokens, order } = self;
        let channels = Channels { tokens, query: query.to_contiguous(), gain: gain.to_contiguous(), order };
        let (pooled, routed) = channels.forward(keep);
        (pooled, (channels, routed))
    }

    fn vjp(
        (channels, routed): &Self::Saved,
        grad_pooled: FlexTensor,
        _: [bool; 2],
    ) -> [Option<FlexTensor>; 2] {
        let ParamGrads { query, gain } = channels.backward(routed, as_f32(&grad_pooled.to_contiguous()));
        let TokenBatch { count, width, .. } = channels.tokens;
        let query = (!query.is_empty()).then(|| from_f32(query, &[1, width]));
        [query, Some(from_f32(gain, &[count, width]))]
    }
}

struct Channels {
    tokens: TokenBatch,
    /// `[1, d]`; a placeholder where the order is not learned.
    query: FlexTensor,
    gain: FlexTensor,
    order: Order,
}

struct ParamGrads {
    /// `[d]`; empty where the order is not learned.
    query: Vec<f32>,
    /// `[N, d]`.
    gain: Vec<f32>,
}

impl Channels {
    fn gain(&self) -> Matrix<'_, f32> {
        Matrix::new(as_f32(&self.gain), self.tokens.width)
    }

    /// The row of the gain, or of `W`, that weighs this token of this image.
    fn row(&self, image: usize, token: usize) -> usize {
        match &self.order {
            Order::Permuted(places) => places[image * self.tokens.count + token],
            Order::Fixed | Order::Learned { .. } => token,
        }
    }

    fn route(&self, image: usize) -> Option<RoutedImage> {
        let Order::Learned { router, image_seeds } = &self.order else { return None };
        let raw = self.tokens.scores(image, as_f32(&self.query));
        let routed =
            router.route(&standardise(&raw), image_seeds.as_ref().map(|image_seeds| image_seeds[image]));
        Some(RoutedImage { raw, routed })
    }

    /// `z`, `[B, d]`; with `keep`, also what the backward pass needs.
    fn forward(&self, keep: bool) -> (FlexTensor, Vec<RoutedImage>) {
        let TokenBatch { images, count, width, .. } = self.tokens;
        let mut pooled = vec![0.0; images * width];
        let buffer =
            || vec![0.0; if matches!(self.order, Order::Learned { .. }) { count * width } else { 0 }];
        let pool_image = |weights: &mut Vec<f32>, (image, pooled): (usize, &mut [f32])| {
            let image_state = self.route(image);
            let weights = match &image_state {
                Some(RoutedImage { routed, .. }) => {
                    weights.fill(0.0);
                    Matrix::new(&to_f32(routed.plan()), count).times(self.gain(), weights);
                    weights
                }
                None => as_f32(&self.gain),
            };
            self.tokens.each_token(image, |i, token| {
                add_product(token, &weights[self.row(image, i) * width..][..width], pooled);
            });
            image_state.filter(|_| keep)
        };
        let rows = pooled.par_chunks_mut(width).enumerate();
        let routed: Vec<_> = rows.map_init(buffer, pool_image).collect();
        (from_f32(pooled, &[images, width]), routed.into_iter().flatten().collect())
    }

    /// The gradients of query and gain, given that of `z`, `cotangent` `[B, d]`.
    fn backward(&self, routed: &[RoutedImage], cotangent: &[f32]) -> ParamGrads {
        let images: Vec<usize> = (0..self.tokens.images).collect();
        let parts = images.par_chunks(images.len().div_ceil(PARTS).max(1));
        let parts: Vec<ParamGrads> =
            parts.map(|images| self.backward_part(images, routed, cotangent)).collect();
        let sum = |mut total: ParamGrads, part: ParamGrads| {
            add(&part.query, &mut total.query);
            add(&part.gain, &mut total.gain);
            total
        };
        parts.into_iter().reduce(sum).unwrap_or_else(|| self.zero_grads())
    }

    fn zero_grads(&self) -> ParamGrads {
        let query = if matches!(self.order, Order::Learned { .. }) { self.tokens.width } else { 0 };
        ParamGrads { query: vec![0.0; query], gain: vec![0.0; as_f32(&self.gain).len()] }
    }

    /// What these images add to the gradients.
    fn backward_part(&self, images: &[usize], routed: &[RoutedImage], cotangent: &[f32]) -> ParamGrads {
        let TokenBatch { count, width, .. } = self.tokens;
        let mut grads = self.zero_grads();
        let mut grad_weights = vec![0.0; if routed.is_empty() { 0 } else { count * width }];
        let mut grad_plan = vec![0.0; if routed.is_empty() { 0 } else { count * count }];
        for &image in images {
            let grad_pooled = &cotangent[image * width..(image + 1) * width];
            grad_weights.fill(0.0);
            let into = if routed.is_empty() { &mut grads.gain } else { &mut grad_weights };
            self.tokens.each_token(image, |i, token| {
                add_product(token, grad_pooled, &mut into[self.row(image, i) * width..][..width]);
            });
            let Some(RoutedImage { raw, routed }) = routed.get(image) else { continue };
            let grad_weights = Matrix::new(&grad_weights, width);
            Matrix::new(&to_f32(routed.plan()), count).transposed().times(grad_weights, &mut grads.gain);
            grad_plan.fill(0.0);
            grad_weights.times(self.gain().transposed(), &mut grad_plan);
            let grad_raw = standardise_vjp(raw, &routed.vjp_of_plan(&grad_plan));
            self.tokens.add(image, &grad_raw, &mut grads.query);
        }
        grads
    }
}

/// A plan in the gains' precision.
fn to_f32(plan: Vec<f64>) -> Vec<f32> {
    plan.into_iter().map(|share| share as f32).collect()
}
