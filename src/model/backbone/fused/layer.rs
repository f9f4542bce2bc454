//! One layer made of these kernels and of matrix products: [`Block::forward`] on a GPU.

use burn::tensor::{DType, Tensor};
use burn_cubecl::kernel::matmul::{MatmulStrategy, matmul};
use burn_cubecl::tensor::CubeTensor;

use super::heads::split_heads;
use super::{activation, cube, norm, residual, softmax, tensor};
use crate::model::backbone::block::{Block, Linear, Mlp, Norm, RelativePositions};
use crate::model::backbone::config::Activation;
use crate::model::ops::matmul::PreciseMatmul as _;

impl Block {
    /// [`forward`](Block::forward) by 6 kernels (up to 2 more in EVA-02, for its inner norms), one copy (heads back to tokens)
    /// and 6 matrix products.
    pub(in crate::model::backbone) fn forward_fused(
        &self,
        x: Tensor<2>,
        batch: usize,
        RelativePositions { bias, rotation }: RelativePositions,
    ) -> Tensor<2> {
        let dtype = self.qkv.weight.dtype();
        let norm_if = |by: Option<&Norm>, x: Tensor<2>| match by {
            Some(by) => norm(by, x, dtype),
            None => x,
        };
        let (qkv, qkv_bias) = self.qkv.product_and_bias(norm(&self.norm1, x.clone(), dtype));
        let [query, key, value] =
            split_heads(cube(qkv), cube(qkv_bias), batch, self.heads, rotation).map(tensor);
        let weights = softmax::softmax(logits(query, key), self.scale(), bias.map(cube), dtype);
        let mixed = tensor::<4>(weights).precise_matmul(value); // [B, heads, T, head_dim]
        let mixed = norm_if(self.attention_norm.as_ref(), mixed.swap_dims(1, 2).reshape(x.dims()));
        let (y, bias) = self.out.product_and_bias(mixed);
        let [x, normed] = residual::add_and_norm(cube(x), cube(y), cube(bias), &self.norm2);
        let (down, hidden) = match &self.mlp {
            Mlp::Perceptron(up, f, down) => (down, activated(up, *f, false, tensor(normed))),
            Mlp::Gated(both, f, norm, down) => {
                (down, norm_if(norm.as_deref(), activated(both, *f, true, tensor(normed))))
            }
        };
        let (y, bias) = down.product_and_bias(hidden);
        tensor(residual::add(x, cube(y), cube(bias)))
    }
}

impl Linear {
    /// The product without its bias, and the bias.
    fn product_and_bias(&self, x: Tensor<2>) -> (Tensor<2>, Tensor<2>) {
        (self.product(x), self.bias.clone().expect("maps of a layer on a GPU have a bias"))
    }
}

/// The attention logits, `[B, heads, T, T]`, in float32 whatever the precision of queries and keys.
fn logits(query: Tensor<4>, key: Tensor<4>) -> CubeTensor {
    let key = key.transpose();
    match query.dtype() {
        DType::F32 => cube(query.precise_matmul(key)),
        _ => matmul(cube(query), cube(key), None, MatmulStrategy::default(), DType::F32)
            .expect("a product of halves"),
    }
}

/// The hidden layer of the feed-forward network: its first map, then the activation.
fn activated(map: &Linear, by: Activation, gated: bool, x: Tensor<2>) -> Tensor<2> {
    let (y, bias) = map.product_and_bias(x);
    tensor(activation::activate(cube(y), cube(bias), by, gated))
}
