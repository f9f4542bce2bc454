//! One layer of these kernels and of matrix products: [`Block::forward`] where [`takes`](super::takes) says so.

use burn::tensor::{DType, Tensor};
use burn_cubecl::kernel::matmul::{MatmulStrategy, matmul};
use burn_cubecl::tensor::CubeTensor;

use super::heads::{Angles, Pairs, split_heads};
use super::{activation, affine, cube, norm, residual, softmax, tensor};
use crate::model::backbone::block::{Block, Linear, Mlp, Norm};
use crate::model::backbone::config::Activation;
use crate::model::backbone::rotary::{Rotary, Rotation};
use crate::model::ops::matmul::PreciseMatmul as _;

impl Block {
    /// Arguments as [`forward`](Block::forward) takes them. 6 kernels, a copy (of what the heads mixed, token by token again)
    /// and 6 matrix products.
    pub(in crate::model::backbone) fn forward_fused(
        &self,
        x: Tensor<2>,
        batch: usize,
        bias: Option<Tensor<4>>,
        rotation: Option<&Rotation>,
    ) -> Tensor<2> {
        let dtype = self.qkv.weight.dtype();
        let again = |by: Option<&Norm>, x: Tensor<2>| match by {
            Some(by) => norm(by, x, dtype),
            None => x,
        };
        let normed = norm(&self.norm1, x.clone(), dtype);
        let [query, key, value] = heads(&self.qkv, normed, batch, self.heads, rotation);
        let weights = softmax::softmax(logits(query, key), self.scale(), bias.map(cube), dtype);
        let mixed = tensor::<4>(weights).precise_matmul(value); // [B, heads, T, part]
        let mixed = again(self.mixed.as_ref(), mixed.swap_dims(1, 2).reshape(x.dims()));
        let (y, bias) = self.out.parts(mixed);
        let [x, normed] = residual::add_and_norm(cube(x), cube(y), cube(bias), &affine(&self.norm2));
        let (down, inside) = match &self.mlp {
            Mlp::Perceptron(up, f, down) => (down, activated(up, *f, false, tensor(normed))),
            Mlp::Gated(both, f, norm, down) => {
                (down, again(norm.as_deref(), activated(both, *f, true, tensor(normed))))
            }
        };
        let (y, bias) = down.parts(inside);
        tensor(residual::add(x, cube(y), cube(bias)))
    }
}

impl Linear {
    /// The product without its bias, and this.
    fn parts(&self, x: Tensor<2>) -> (Tensor<2>, Tensor<2>) {
        (self.product(x), self.bias.clone().expect("maps of a layer on a GPU have a bias"))
    }
}

/// Queries, keys and values, `[B, heads, T, part]` each, of normed tokens.
fn heads(
    qkv: &Linear,
    x: Tensor<2>,
    batch: usize,
    heads: usize,
    rotation: Option<&Rotation>,
) -> [Tensor<4>; 3] {
    let (qkv, bias) = qkv.parts(x);
    let angles = rotation.map(|Rotation { cos, sin, rotary }| Angles {
        cos: cube(cos.clone()),
        sin: cube(sin.clone()),
        pairs: match rotary {
            Rotary::Centred { .. } => Pairs::Halves,
            Rotary::Counted { .. } => Pairs::Neighbours,
        },
    });
    split_heads(cube(qkv), cube(bias), batch, heads, angles).map(tensor)
}

/// The attention's logits in float32, whatever queries and keys are in.
fn logits(query: Tensor<4>, key: Tensor<4>) -> CubeTensor {
    let key = key.transpose();
    match query.dtype() {
        DType::F32 => cube(query.precise_matmul(key)),
        _ => matmul(cube(query), cube(key), None, MatmulStrategy::default(), DType::F32)
            .expect("a product of halves"),
    }
}

/// The feed-forward network's inside, without its last map.
fn activated(map: &Linear, by: Activation, gated: bool, x: Tensor<2>) -> Tensor<2> {
    let (y, bias) = map.parts(x);
    tensor(activation::activate(cube(y), cube(bias), by, gated))
}
