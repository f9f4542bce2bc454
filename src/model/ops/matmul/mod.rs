//! Products of matrices in all digits of float32, on every device.
//!
//! On NVIDIA's GPUs CUDA's kernels for float32 round their factors to TF32, ten bits, where burn finds a tensor core, and nothing
//! switches that off. Tokens would be 1e-3 off, and the repeated squares of S4 8e-3. There the kernels are chosen in
//! [`float32`], among those that multiply in float32; elsewhere, and in halves, burn chooses. Where one factor is a single row or
//! column all that counts is how the other is read, and [`vector`] reads it.

#[cfg(feature = "cuda")]
mod float32;
mod vector;

use burn::backend::{Cube, TensorMetadata, ops::FloatTensorOps};
use burn::tensor::{DType, Tensor};
use burn_cubecl::{CubeBackend, tensor::CubeTensor};

use super::custom_op::{CustomOp, apply};
use super::gpu::gpu;

/// [`Tensor::matmul`] in the precision that its factors have.
pub trait PreciseMatmul {
    /// `self other`, of the last two axes; the axes before them are those of a batch, where one of length 1 is repeated.
    fn precise_matmul(self, other: Self) -> Self;
}

impl<const D: usize> PreciseMatmul for Tensor<D> {
    #[expect(clippy::disallowed_methods, reason = "for factors that no kernel rounds")]
    fn precise_matmul(self, other: Self) -> Self {
        if self.dtype() == DType::F32 && gpu(&self).is_some() {
            return apply::<Cube, _, 2, D>(Product, [self.into_dispatch(), other.into_dispatch()]);
        }
        self.matmul(other)
    }
}

/// The product of two matrices.
struct Product;

impl CustomOp<CubeBackend, 2> for Product {
    type Saved = [CubeTensor; 2];

    fn forward(self, factors: [CubeTensor; 2], _: bool) -> (CubeTensor, Self::Saved) {
        let [left, right] = factors.clone();
        (multiply(left, right), factors)
    }

    /// Of frozen tokens no gradient is wanted: it would be as large as they are. What is wanted lies as its factor does, so that
    /// the gradient of a weight that was transposed is read without a copy.
    fn vjp(
        [left, right]: &Self::Saved,
        by_product: CubeTensor,
        [of_left, of_right]: [bool; 2],
    ) -> [Option<CubeTensor>; 2] {
        let by_left = of_left.then(|| laid_as(left, by_product.clone(), transposed(right)));
        let by_right = of_right.then(|| laid_as(right, transposed(left), by_product));
        [by_left, by_right]
    }
}

fn multiply(left: CubeTensor, right: CubeTensor) -> CubeTensor {
    if let Some(product) = vector::multiply(&left, &right) {
        return product;
    }
    #[cfg(feature = "cuda")]
    if float32::rounds(&left) {
        return float32::multiply(left, right);
    }
    CubeBackend::float_matmul(left, right)
}

/// `a b`, the gradient of a factor: transposed in memory where that is, and summed along axes of it that were repeated.
fn laid_as(factor: &CubeTensor, a: CubeTensor, b: CubeTensor) -> CubeTensor {
    let [row_step, column_step] = factor.meta.strides()[factor.shape().num_dims() - 2..] else {
        unreachable!()
    };
    let product = match row_step < column_step {
        true => transposed(&multiply(transposed(&b), transposed(&a))),
        false => multiply(a, b),
    };
    summed(product, factor)
}

fn transposed(matrix: &CubeTensor) -> CubeTensor {
    let axes = matrix.shape().num_dims();
    CubeBackend::float_swap_dims(matrix.clone(), axes - 2, axes - 1)
}

/// The gradient of a factor, of which axes of length 1 were repeated.
fn summed(gradient: CubeTensor, factor: &CubeTensor) -> CubeTensor {
    let repeated =
        |gradient: &CubeTensor, axis: usize| factor.shape()[axis] == 1 && gradient.shape()[axis] > 1;
    (0..factor.shape().num_dims()).fold(gradient, |gradient, axis| match repeated(&gradient, axis) {
        true => CubeBackend::float_sum_dim(gradient, axis),
        false => gradient,
    })
}
