//! [Pooling by channel](super::channelwise) with a learned router on GPUs, in parts of a few images: neither the plans
//! of a whole batch, `[B, N, N]`, nor its weights, `[B, N, d]`, are ever held, and nothing of them is saved. The
//! backward pass computes each part again.

use burn::backend::{Cube, tensor::FloatTensor};
use burn::tensor::Tensor;

use super::channelwise::{Channelwise, Order};
use crate::model::ops::custom_op::{CustomOp, apply};
use crate::model::ops::gpu::{cube, tensor};

/// Most values in the plans of a part, and in its weights: 256 MiB each in float32.
const MAX_VALUES: usize = 1 << 26;

impl Channelwise {
    /// `z`, `[B, d]`, of tokens `[B, N, d]`; differentiable in gain and query. A part has `images` images; where that
    /// is absent, as many as keep its plans and its weights within 256 MiB each.
    ///
    /// # Panics
    /// If there is no query, or the tokens are not on a GPU: a bug of the caller.
    pub fn pool_in_parts(&self, tokens: &Tensor<3>, images: Option<usize>) -> Tensor<2> {
        let [_, n, width] = tokens.dims();
        let images = images.unwrap_or(MAX_VALUES / (n * n.max(width))).max(1);
        let query = self.query.clone().expect("a learned order has a scorer");
        let op = PartsOp { tokens: tokens.clone().without_autodiff(), order: self.order.clone(), images };
        apply::<Cube, _, 2, 2>(op, [query.into_dispatch(), self.gain.clone().into_dispatch()])
    }
}

struct PartsOp {
    /// `[B, N, d]`, outside the graph.
    tokens: Tensor<3>,
    order: Order,
    /// Images in a part.
    images: usize,
}

impl PartsOp {
    /// Each part in order: its tokens, their order, and the range of its images in the batch.
    fn parts(&self) -> impl Iterator<Item = (Tensor<3>, Order, std::ops::Range<usize>)> {
        let count = self.tokens.dims()[0];
        (0..count).step_by(self.images).map(move |first| {
            let range = first..(first + self.images).min(count);
            let order = match &self.order {
                Order::Learned { router, image_seeds } => Order::Learned {
                    router: router.clone(),
                    image_seeds: image_seeds.as_ref().map(|seeds| seeds[range.clone()].to_vec()),
                },
                other => other.clone(),
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
            let pooling = Channelwise { query: Some(query.clone()), gain: gain.clone(), order };
            let cotangent = grad_pooled.clone().narrow(0, range.start, range.len()).autodiff();
            let gradients = (pooling.pool_plain(&tokens.autodiff()) * cotangent).sum().backward();
            // The order of a single token does not depend on the query.
            let add = |total: Tensor<2>, input: &Tensor<2>| match input.grad(&gradients) {
                Some(grad) => total + grad,
                None => total,
            };
            (grad_query, grad_gain) = (add(grad_query, &query), add(grad_gain, &gain));
        }
        [grad_query, grad_gain].map(cube).map(Some)
    }
}
