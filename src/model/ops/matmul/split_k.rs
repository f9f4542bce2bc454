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

/// `left right` in parts; none where that brings nothing.
pub(super) fn multiply(left: &CubeTensor, right: &CubeTensor) -> Option<CubeTensor> {
    let shape = shape_of(left, right);
    let last = shape.num_dims() - 1;
    let (numbers, inner) = (shape.num_elements(), left.shape()[last]);
    let most = if inner < LONG { 1 } else { (ENOUGH / numbers.max(1)).min(inner / SHORTEST) };
    let parts = (2..=most).rev().find(|parts| inner.is_multiple_of(*parts))?;
    let product = super::multiply(cut(left, last, parts), cut(right, last - 1, parts));
    Some(CubeBackend::float_reshape(CubeBackend::float_sum_dim(product, last - 1), shape))
}

/// The same numbers, of which `axis` is cut into parts: those of a matrix are an axis before its own two.
fn cut(factor: &CubeTensor, axis: usize, parts: usize) -> CubeTensor {
    let (mut shape, mut strides) = (factor.shape().to_vec(), factor.meta.strides().to_vec());
    shape[axis] /= parts;
    let (before, step) = (shape.len() - 2, shape[axis] * strides[axis]);
    shape.insert(before, parts);
    strides.insert(before, step);
    let mut cut = factor.clone();
    *cut.meta = Metadata::new(shape, strides);
    cut
}
