//! Products of few numbers that are long sums, as the gradient of a weight is one over all tokens of a batch. A kernel has a
//! workgroup a tile of the product, which leaves most of a GPU without work: the sums are made in parts, which are added up.

use burn::backend::{TensorMetadata, ops::FloatTensorOps};
use burn_cubecl::CubeBackend;
use burn_cubecl::cubecl::zspace::metadata::Metadata;
use burn_cubecl::tensor::CubeTensor;

use super::shape_of;

/// Numbers of a product, those of its parts counted apart, that keep a GPU busy: a thread makes up to 64 of them, and with 67,000
/// threads an H100 waits for none.
const ENOUGH: usize = 1 << 22;
/// Sums of fewer terms stay whole: another launch would take longer.
const LONG: usize = 2048;
/// Terms of a part's sums, at least.
const SHORTEST: usize = 512;

/// `left right`, two matrices, in parts; none where that brings nothing.
pub(super) fn multiply(left: &CubeTensor, right: &CubeTensor) -> Option<CubeTensor> {
    let shape = shape_of(left, right);
    let numbers: usize = shape.iter().product();
    let ([rows, inner], left_steps) = matrix(left)?;
    let ([_, columns], right_steps) = matrix(right)?;
    let most = if inner < LONG { 1 } else { (ENOUGH / numbers.max(1)).min(inner / SHORTEST) };
    let parts = (2..=most).rev().find(|parts| inner.is_multiple_of(*parts))?;

    let each = inner / parts;
    let [row, column] = left_steps;
    let left = laid(left, [parts, rows, each], [each * column, row, column]);
    let [row, column] = right_steps;
    let right = laid(right, [parts, each, columns], [each * row, row, column]);
    let sum = CubeBackend::float_sum_dim(super::multiply(left, right), 0);
    Some(CubeBackend::float_reshape(sum, shape))
}

/// The lengths of its rows and columns and from one to the next, unless it is a batch of matrices.
fn matrix(factor: &CubeTensor) -> Option<([usize; 2], [usize; 2])> {
    let (shape, strides) = (factor.shape(), factor.meta.strides());
    let last = shape.num_dims() - 1;
    let one = shape[..last - 1].iter().all(|&axis| axis == 1);
    one.then(|| ([shape[last - 1], shape[last]], [strides[last - 1], strides[last]]))
}

/// The same numbers, read in another shape.
fn laid(factor: &CubeTensor, shape: [usize; 3], strides: [usize; 3]) -> CubeTensor {
    let mut laid = factor.clone();
    *laid.meta = Metadata::new(shape, strides);
    laid
}
