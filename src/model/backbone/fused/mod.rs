//! A layer of a frozen backbone on GPUs, where what stands between its matrix products costs more than these: tensors that
//! are read and written once more for every operation. Here each is read and written once, by CubeCL kernels for wgpu and CUDA.
//!
//! | file | one launch for |
//! |---|---|
//! | `norm` | layer norm, and the numbers of the product that follows |
//! | `heads` | bias of queries, keys and values, rotary positions, and their layout by heads |
//! | `softmax` | scale, bias, softmax, and the numbers of the product that follows |
//! | `activation` | bias and nonlinearity, gated or not |
//! | `residual` | bias, sum with what runs through the layers, and the norm that follows |
//!
//! `rows` has what they share, `layer` puts them together. Tensors come as float32, float16 or bfloat16; everything is
//! computed in float32. There is no way back: where a gradient is recorded, and on the processor, `block` computes with
//! burn's own operations.

#![expect(
    clippy::used_underscore_binding,
    reason = "numbers that a launch chooses are an argument with no use but that"
)]

mod activation;
#[cfg(test)]
mod check;
mod heads;
mod layer;
mod norm;
mod residual;
mod rows;
mod softmax;

use burn::tensor::{DType, Tensor};

use self::norm::Affine;
use super::block::Norm;
use crate::model::ops::gpu::{cube, gpu, tensor};

/// Whether a tensor lies on a GPU, and no gradient is recorded there.
pub(super) fn applies_to<const D: usize>(x: &Tensor<D>) -> bool {
    gpu(x).is_some() && !x.device().is_autodiff()
}

/// The norm of `x` over its last axis, in one kind of numbers or another.
pub(super) fn norm<const D: usize>(by: &Norm, x: Tensor<D>, dtype: DType) -> Tensor<D> {
    tensor(norm::norm(cube(x), &affine(by), dtype))
}

fn affine(norm: &Norm) -> Affine {
    let Norm { gain, offset, epsilon } = norm;
    Affine { gain: cube(gain.clone()), offset: cube(offset.clone()), epsilon: *epsilon }
}
