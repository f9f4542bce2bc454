//! Products of two matrices in float32 on the CPU. The `gemm` crate multiplies, as for burn's own; but burn aligns every new tensor by
//! copying it, and computes the gradient of a transposed factor in another memory layout than the factor's.

use burn::backend::Flex;
use burn_flex::FlexTensor;
use gemm::Parallelism;

use super::Product;
use crate::model::ops::cpu::from_f32;
use crate::model::ops::custom_op::CustomOp;
use crate::model::ops::gemm::Matrix;

/// Minimum number of multiplications for which a product uses all threads.
const MIN_PARALLEL: usize = 192 * 192 * 192;

impl CustomOp<Flex, 2> for Product {
    /// Both factors.
    type Saved = [FlexTensor; 2];

    fn forward(self, factors: [FlexTensor; 2], _: bool) -> (FlexTensor, Self::Saved) {
        (multiply(&factors[0], &factors[1]), factors)
    }

    /// Skips the gradients that are not wanted. Each gets the memory layout of its factor.
    fn vjp(
        [left, right]: &Self::Saved,
        grad_product: FlexTensor,
        [left_wanted, right_wanted]: [bool; 2],
    ) -> [Option<FlexTensor>; 2] {
        [
            left_wanted.then(|| factor_gradient(left, &grad_product, &right.transpose(0, 1))),
            right_wanted.then(|| factor_gradient(right, &left.transpose(0, 1), &grad_product)),
        ]
    }
}

/// `a b`, the gradient of `factor`: transposed in memory if `factor` is.
fn factor_gradient(factor: &FlexTensor, a: &FlexTensor, b: &FlexTensor) -> FlexTensor {
    let strides = factor.layout().strides();
    match strides[0] < strides[1] {
        true => multiply(&b.transpose(0, 1), &a.transpose(0, 1)).transpose(0, 1),
        false => multiply(a, b),
    }
}

fn multiply(left: &FlexTensor, right: &FlexTensor) -> FlexTensor {
    let forward = |factor: &FlexTensor| match factor.layout().strides().iter().all(|&stride| stride >= 0) {
        true => factor.clone(),
        false => factor.to_contiguous(),
    };
    let (left, right) = (&forward(left), &forward(right));
    let (m, k, n) = (left.layout().shape()[0], left.layout().shape()[1], right.layout().shape()[1]);
    let parallelism = if m * n * k >= MIN_PARALLEL { Parallelism::Rayon(0) } else { Parallelism::None };
    from_f32(matrix(left).product(matrix(right), parallelism), &[m, n])
}

/// The values of a tensor `[rows, columns]` where they are.
fn matrix(tensor: &FlexTensor) -> Matrix<'_, f32> {
    let layout = tensor.layout();
    let [rows, columns] = layout.shape().dims();
    let strides = [0, 1].map(|axis| layout.strides()[axis].unsigned_abs());
    Matrix::strided(&tensor.storage()[layout.start_offset()..], [rows, columns], strides)
}
