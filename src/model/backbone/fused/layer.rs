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
        positions: RelativePositions,
    ) -> Tensor<2> {
        let dtype = self.qkv.weight.dtype();
        let norm_if = |by: Option<&Norm>, x: Tensor<2>| match by {
            Some(by) => norm(by, x, dtype),
            None => x,
        };
        let [weights, value] = self.attention_fused(x.clone(), batch, positions, dtype);
        let mixed = weights.precise_matmul(value); // [B, heads, T, head_dim]
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

    /// The attention weights `[B, heads, T, T]` in `dtype`, and the values `[B, heads, T, head_dim]`.
    pub(in crate::model::backbone) fn attention_fused(
        &self,
        x: Tensor<2>,
        batch: usize,
        RelativePositions { bias, rotation }: RelativePositions,
        dtype: DType,
    ) -> [Tensor<4>; 2] {
        let (qkv, qkv_bias) = self.qkv.product_and_bias(norm(&self.norm1, x, self.qkv.weight.dtype()));
        let [query, key, value] =
            split_heads(cube(qkv), cube(qkv_bias), batch, self.heads, rotation).map(tensor);
        let weights = softmax::softmax(logits(query, key), self.scale(), bias.map(cube), dtype);
        [tensor(weights), value]
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

#[cfg(test)]
mod gpu_tests {
    use super::super::check::{close, halves, put, random, random_norm};
    use super::*;
    use crate::gpus::gpus;

    #[test]
    fn attention_holds_logits_past_the_range_of_halves() {
        let [batch, tokens, width, heads] = [2, 3, 8, 2];
        for (name, device) in gpus() {
            for (dtype, _) in halves(&name, &device) {
                let matrix = |shape: [usize; 2], most: f32| {
                    let values: Vec<f32> =
                        random(shape.iter().product(), 0).iter().map(|x| x * most).collect();
                    tensor::<2>(put(&values, shape, &device, dtype).0)
                };
                let linear = |rows: usize, most: f32| Linear {
                    weight: matrix([width, rows], most),
                    bias: Some(matrix([1, rows], most)),
                };
                let [(norm1, _), (norm2, _)] = [(); 2].map(|()| random_norm(width, &device));
                let block = Block {
                    heads,
                    norm1,
                    qkv: linear(3 * width, 2e3), // queries and keys of some thousands, logits of millions
                    attention_norm: None,
                    out: linear(width, 1.0),
                    norm2,
                    mlp: Mlp::Perceptron(linear(width, 1.0), Activation::Gelu, linear(width, 1.0)),
                };
                let x = matrix([batch * tokens, width], 1.0).cast(DType::F32);
                let positions = RelativePositions { bias: None, rotation: None };
                let found = block.attention(x, batch, positions).sum_dim(2).into_data();
                let sums: Vec<f64> = found.iter().collect();
                close(&format!("{dtype:?} on {name}"), &sums, &vec![1.0; batch * tokens], 1e-6);
            }
        }
    }
}
