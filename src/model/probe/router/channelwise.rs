//! Pooling with a weight of its own for every channel: `z[c] = sum_i W[i, c] t_i[c]`, where `W` is the
//! gain `G` `[N, d]` itself, its rows in an order of each image, or `P G` with the plan `P` `[N, N]` that a
//! router makes of each image's scores.
//!
//! On the CPU one operation with its own gradient, an image to a core: scores, plan, `W` and its product
//! with the tokens follow each other, and none of them is ever held for a batch. With `z`'s gradient
//! `y`, `dW[i, c] = t_i[c] y[c]`, `dG = sum over images of P^T dW` and `dP = dW G^T`.

use std::fmt;
use std::sync::Arc;

use burn::backend::autodiff::Autodiff;
use burn::backend::autodiff::checkpoint::{base::Checkpointer, strategy::CheckpointStrategy};
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops, OpsKind};
use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, Dispatch, Flex, backend_extension};
use burn::tensor::{DType, Int, Tensor, TensorData};
use burn_flex::FlexTensor;
use rayon::prelude::*;

use crate::model::ops::gemm::Matrix;
use crate::model::ops::pooling::token_batch::Tokens;
use crate::model::ops::pooling::{on_cpu, tensor};
use crate::model::ops::simd::{add, add_product};
use crate::model::probe::router::{Routed, Router, pull_standardised, standardise, standardise_batch};

/// Parts a batch is cut into, each with a gradient of its own, summed in order at the end.
const PARTS: usize = 16;

/// What one head asks of the patch tokens.
pub struct Channelwise {
    /// What scores the tokens, `[1, d]`, where the order is learned.
    pub query: Option<Tensor<2>>,
    /// What every channel counts, `[N, d]`: by position, or by token where the order is given.
    pub gain: Tensor<2>,
    /// Which token is read at which position.
    pub order: Order,
}

/// Which token is read at which position.
#[derive(Clone)]
pub enum Order {
    /// The gain is by token already.
    Given,
    /// Which position each token of each image is read at, `[B, N]` row-major.
    Placed(Arc<Vec<usize>>),
    /// A plan for every image.
    Learned {
        /// Who comes late.
        router: Arc<dyn Router>,
        /// The draw of each image while training; absent otherwise.
        draws: Option<Vec<u64>>,
    },
}

impl Channelwise {
    /// `z`, `[B, d]`, of tokens `[B, N, d]`; differentiable in gain and query.
    pub fn pool(&self, tokens: &Tensor<3>) -> Tensor<2> {
        if !on_cpu(&tokens.device()) || tokens.dtype() != DType::F32 {
            return self.pool_plain(tokens);
        }
        // An operation takes tensors or none at all: one nobody reads stands for that which is absent.
        let nothing = || Tensor::<2>::zeros([1, 1], (&tokens.device(), tokens.dtype()));
        let query = self.query.clone().unwrap_or_else(nothing).into_dispatch();
        let (gain, tokens) = (self.gain.clone().into_dispatch(), tokens.clone().into_dispatch());
        Tensor::from_dispatch(<Dispatch as ChannelPoolOp>::by_channel(
            query,
            gain,
            tokens,
            self.order.clone(),
        ))
    }

    /// [`pool`](Self::pool) by elementary operations: for other devices, and the reference for the CPU's
    /// own.
    pub fn pool_plain(&self, tokens: &Tensor<3>) -> Tensor<2> {
        let [images, n, width] = tokens.dims();
        let weights = match &self.order {
            Order::Given => self.gain.clone().unsqueeze_dim::<3>(0), // [1, N, d]
            Order::Placed(places) => {
                let data: Vec<i32> = places.iter().map(|&k| k as i32).collect();
                let at = TensorData::new(data, [places.len()]);
                let at = Tensor::<1, Int>::from_data(at, &tokens.device());
                self.gain.clone().select(0, at).reshape([images, n, width])
            }
            Order::Learned { router, draws } => {
                let query = self.query.clone().expect("a learned order has a scorer").transpose(); // [d, 1]
                let raw = tokens.clone().reshape([images * n, width]).matmul(query); // [B N, 1]
                let scores = standardise_batch(raw.reshape([images, n])); // [B, N]
                let plans = match draws {
                    Some(draws) => router.training_plans(scores, draws),
                    None => router.plans(scores),
                };
                plans.matmul(self.gain.clone().unsqueeze_dim(0)) // [B, N, d]
            }
        };
        (tokens.clone() * weights).sum_dim(1).squeeze_dim(1)
    }
}

#[backend_extension(Autodiff, Flex)]
trait ChannelPoolOp: Backend {
    fn by_channel(
        query: FloatTensor<Self>,
        gain: FloatTensor<Self>,
        tokens: FloatTensor<Self>,
        order: Order,
    ) -> FloatTensor<Self>;
}

impl ChannelPoolOp for Flex {
    fn by_channel(query: FlexTensor, gain: FlexTensor, tokens: FlexTensor, order: Order) -> FlexTensor {
        Channels::new(&query, &gain, &tokens, order).forward(false).0
    }
}

impl<C: CheckpointStrategy> ChannelPoolOp for Autodiff<Flex, C> {
    fn by_channel(
        query: FloatTensor<Self>,
        gain: FloatTensor<Self>,
        tokens: FloatTensor<Self>,
        order: Order,
    ) -> FloatTensor<Self> {
        let nodes = [query.node(), gain.node()];
        let [query, gain, tokens] = [query, gain, tokens].map(<FloatTensor<Self>>::into_primitive);
        let channels = Channels::new(&query, &gain, &tokens, order);
        match BackFromChannels.prepare::<C>(nodes).compute_bound().stateful() {
            OpsKind::Tracked(prep) => {
                let (pooled, routed) = channels.forward(true);
                prep.finish(Arc::new(Forward { channels, routed }), pooled)
            }
            OpsKind::UnTracked(prep) => prep.finish(channels.forward(false).0),
        }
    }
}

/// What the way back needs.
struct Forward {
    channels: Channels,
    /// Of every image, where it is routed.
    routed: Vec<Seen>,
}

impl fmt::Debug for Forward {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Forward({} images)", self.channels.tokens.images)
    }
}

/// An image that was routed.
struct Seen {
    /// Its scores as they come, `[N]`.
    raw: Vec<f64>,
    routed: Box<dyn Routed>,
}

/// The gradient of what was pooled.
#[derive(Debug)]
struct BackFromChannels;

impl Backward<Flex, 2> for BackFromChannels {
    type State = Arc<Forward>;

    fn backward(self, ops: Ops<Self::State, 2>, grads: &mut Gradients, _: &mut Checkpointer) {
        let cotangent = grads.consume::<Flex>(&ops.node).to_contiguous();
        let Forward { channels, routed } = &*ops.state;
        let cotangent = cotangent.as_slice::<f32>().expect("float32 gradients");
        let Owed { query: by_query, gain: by_gain } = channels.back(routed, cotangent);
        let [query, gain] = ops.parents;
        let Tokens { count, width, .. } = channels.tokens;
        if let (Some(node), false) = (query, by_query.is_empty()) {
            grads.register::<Flex>(node.id, tensor(by_query, &[1, width]));
        }
        if let Some(node) = gain {
            grads.register::<Flex>(node.id, tensor(by_gain, &[count, width]));
        }
    }
}

/// Tokens, query and gain on the host.
struct Channels {
    tokens: Tokens,
    /// `[d]`; of no meaning where the order is not learned.
    query: FlexTensor,
    gain: FlexTensor,
    order: Order,
}

/// What some images contribute to the gradients.
struct Owed {
    /// `[d]`, or nothing.
    query: Vec<f32>,
    /// `[N, d]`.
    gain: Vec<f32>,
}

impl Channels {
    fn new(query: &FlexTensor, gain: &FlexTensor, tokens: &FlexTensor, order: Order) -> Self {
        let [query, gain] = [query, gain].map(FlexTensor::to_contiguous);
        Self { tokens: Tokens::new(tokens), query, gain, order }
    }

    fn gain(&self) -> Matrix<'_, f32> {
        Matrix::new(values(&self.gain), self.tokens.width)
    }

    /// Which row of the gain, or of `W`, a token of an image counts by.
    fn row(&self, image: usize, token: usize) -> usize {
        match &self.order {
            Order::Placed(places) => places[image * self.tokens.count + token],
            Order::Given | Order::Learned { .. } => token,
        }
    }

    fn route(&self, image: usize) -> Option<Seen> {
        let Order::Learned { router, draws } = &self.order else { return None };
        let raw = self.tokens.scores(image, values(&self.query));
        let routed = router.route(&standardise(&raw), draws.as_ref().map(|draws| draws[image]));
        Some(Seen { raw, routed })
    }

    /// `z`, `[B, d]`; with `keep`, what the way back needs.
    fn forward(&self, keep: bool) -> (FlexTensor, Vec<Seen>) {
        let Tokens { images, count, width, .. } = self.tokens;
        let mut pooled = vec![0.0; images * width];
        let room = || vec![0.0; if matches!(self.order, Order::Learned { .. }) { count * width } else { 0 }];
        let one = |weights: &mut Vec<f32>, (image, pooled): (usize, &mut [f32])| {
            let seen = self.route(image);
            let weights = match &seen {
                Some(Seen { routed, .. }) => {
                    weights.fill(0.0);
                    Matrix::new(&routed.table(), count).times(self.gain(), weights);
                    weights
                }
                None => values(&self.gain),
            };
            self.tokens.each_token(image, |i, token| {
                add_product(token, &weights[self.row(image, i) * width..][..width], pooled);
            });
            seen.filter(|_| keep)
        };
        let rows = pooled.par_chunks_mut(width).enumerate();
        let seen: Vec<_> = rows.map_init(room, one).collect();
        (tensor(pooled, &[images, width]), seen.into_iter().flatten().collect())
    }

    /// The gradients of query and gain, given that of `z`, `[B, d]`.
    fn back(&self, routed: &[Seen], cotangent: &[f32]) -> Owed {
        let images: Vec<usize> = (0..self.tokens.images).collect();
        let parts = images.par_chunks(images.len().div_ceil(PARTS).max(1));
        let parts: Vec<Owed> = parts.map(|images| self.back_through(images, routed, cotangent)).collect();
        let sum = |mut total: Owed, part: Owed| {
            add(&part.query, &mut total.query);
            add(&part.gain, &mut total.gain);
            total
        };
        parts.into_iter().reduce(sum).unwrap_or_else(|| self.nothing())
    }

    fn nothing(&self) -> Owed {
        let query = if matches!(self.order, Order::Learned { .. }) { self.tokens.width } else { 0 };
        Owed { query: vec![0.0; query], gain: vec![0.0; values(&self.gain).len()] }
    }

    /// What some images contribute.
    fn back_through(&self, images: &[usize], routed: &[Seen], cotangent: &[f32]) -> Owed {
        let Tokens { count, width, .. } = self.tokens;
        let mut owed = self.nothing();
        let mut by_weights = vec![0.0; if routed.is_empty() { 0 } else { count * width }];
        let mut by_plan = vec![0.0; if routed.is_empty() { 0 } else { count * count }];
        for &image in images {
            let by_pooled = &cotangent[image * width..(image + 1) * width];
            by_weights.fill(0.0);
            let into = if routed.is_empty() { &mut owed.gain } else { &mut by_weights };
            self.tokens.each_token(image, |i, token| {
                add_product(token, by_pooled, &mut into[self.row(image, i) * width..][..width]);
            });
            let Some(Seen { raw, routed }) = routed.get(image) else { continue };
            let by_weights = Matrix::new(&by_weights, width);
            Matrix::new(&routed.table(), count).transposed().times(by_weights, &mut owed.gain);
            by_plan.fill(0.0);
            by_weights.times(self.gain().transposed(), &mut by_plan);
            let by_raw = pull_standardised(raw, &routed.pull_table(&by_plan));
            self.tokens.add(image, &by_raw, &mut owed.query);
        }
        owed
    }
}

fn values(tensor: &FlexTensor) -> &[f32] {
    tensor.as_slice::<f32>().expect("float32 parameters")
}
