//! A layer of a frozen backbone on GPUs. Between its matrix products, separate operations would each read and write whole
//! tensors, which costs more than the products; CubeCL kernels for wgpu and CUDA fuse them, so that each tensor is read and
//! written once.
//!
//! | file | what one launch computes |
//! |---|---|
//! | `norm` | layer norm, and the conversion to the precision of the next product |
//! | `heads` | bias of queries, keys and values, rotary positions, and the split into heads |
//! | `softmax` | scale, bias, softmax, and the conversion to the precision of the next product |
//! | `activation` | bias and nonlinearity, gated or not |
//! | `residual` | bias, residual sum, and the layer norm that follows |
//!
//! `rows` has what they share, `layer` combines them. Tensors are float32, float16 or bfloat16; all arithmetic is in float32.
//! There is no backward pass, as backbones are frozen. On the CPU `block` uses burn's own operations.

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

use super::block::Norm;
use crate::model::ops::gpu::{cube, tensor};

/// The layer norm of `x` over its last axis, converted to `dtype`.
pub(super) fn norm<const D: usize>(by: &Norm, x: Tensor<D>, dtype: DType) -> Tensor<D> {
    tensor(norm::norm(cube(x), by, dtype))
}
