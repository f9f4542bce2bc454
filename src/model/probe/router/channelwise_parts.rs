//! [Pooling by channel](super::channelwise) behind a router on GPUs, some images at a time: neither the plans of a batch,
//! `[B, N, N]`, nor its weights, `[B, N, d]`, are held, nor what the way back would need of them. That makes the same
//! sums again, part by part.

use burn::backend::{Cube, tensor::FloatTensor};
use burn::tensor::Tensor;

use super::channelwise::{Channelwise, Order};
use crate::model::ops::custom_op::{CustomOp, apply};
use crate::model::ops::gpu::{cube, tensor};

/// Numbers in the plans and weights of a part: 256 MiB of float32.
const PART: usize = 1 << 26;

impl Channelwise {
    /// `z`, `[B, d]`, of tokens `[B, N, d]`, so many images at a time; differentiable in gain and query. As many as
    /// their plans and weights allow where absent.
    ///
    /// # Panics
    /// If nothing scores the tokens, or they are not on a GPU: a bug of the caller.
    pub fn pool_in_parts(&self, tokens: &Tensor<3>, images: Option<usize>) -> Tensor<2> {
        let [_, n, width] = tokens.dims();
        let images = images.unwrap_or(PART / (n * n.max(width))).max(1);
        let query = self.query.clone().expect("a learned order has a scorer");
        let op = PartsOp { tokens: tokens.clone().without_autodiff(), order: self.order.clone(), images };
        apply::<Cube, _, 2, 2>(op, [query.into_dispatch(), self.gain.clone().into_dispatch()])
    }
}

struct PartsOp {
    /// `[B, N, d]`, which record no gradient.
    tokens: Tensor<3>,
    order: Order,
    /// Of a part.
    images: usize,
}

impl PartsOp {
    /// Some images from the first on, and how they are pooled.
    fn parts(&self) -> impl Iterator<Item = (Tensor<3>, Order, std::ops::Range<usize>)> {
        let count = self.tokens.dims()[0];
        (0..count).step_by(self.images).map(move |first| {
            let range = first..(first + self.images).min(count);
            let order = match &self.order {
                Order::Learned { router, image_seeds } => Order::Learned {
                    router: router.clone(),
                    image_seeds: image_seeds.as_ref().map(|seeds| seeds[range.clone()].to_vec()),
                },
                given => given.clone(),
            };
            (self.tokens.clone().narrow(0, first, range.len()), order, range)
        })
    }
}

impl CustomOp<Cube, 2> for PartsOp {
    /// The operation with its inputs.
    type Saved = (Self, Tensor<2>, Tensor<2>);

    fn forward(self, inputs: [FloatTensor<Cube>; 2], _: bool) -> (FloatTensor<Cube>, Self::Saved) {
        let [query, gain] = inputs.map(tensor::<2>);
        let pool = |(tokens, order, _)| {
            Channelwise { query: Some(query.clone()), gain: gain.clone(), order }.pool_plain(&tokens)
        };
        let pooled = Tensor::cat(self.parts().map(pool).collect(), 0); // [B, d]
        (cube(pooled), (self, query, gain))
    }

    fn vjp(
        (op, query, gain): &Self::Saved,
        grad_pooled: FloatTensor<Cube>,
        _: [bool; 2],
    ) -> [Option<FloatTensor<Cube>>; 2] {
        let grad_pooled = tensor::<2>(grad_pooled);
        let (mut grad_query, mut grad_gain) = (query.zeros_like(), gain.zeros_like());
        for (tokens, order, range) in op.parts() {
            let [query, gain] = [query, gain].map(|input| input.clone().autodiff().require_grad());
            let asked = Channelwise { query: Some(query.clone()), gain: gain.clone(), order };
            let by = grad_pooled.clone().narrow(0, range.start, range.len()).autodiff();
            let gradients = (asked.pool_plain(&tokens.autodiff()) * by).sum().backward();
            let of = |input: &Tensor<2>| input.grad(&gradients).expect("the pooling depends on it");
            (grad_query, grad_gain) = (grad_query + of(&query), grad_gain + of(&gain));
        }
        [grad_query, grad_gain].map(cube).map(Some)
    }
}
