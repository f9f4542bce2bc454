//! Split-K: small products of long sums, such as the gradient of a weight, a sum over all tokens of a batch. With one workgroup per
//! tile of the product most of a GPU would be idle; so the sums are split into parts, which are added up afterwards.

use burn::backend::{TensorMetadata, ops::FloatTensorOps};
use burn_cubecl::CubeBackend;
use burn_cubecl::cubecl::zspace::metadata::Metadata;
use burn_cubecl::tensor::CubeTensor;

use super::shape_of;

/// Partial sums, over all parts, that keep a GPU busy: a thread computes up to 64 of them, and 67,000 threads keep an H100 from
/// waiting.
const MAX_PARTIALS: usize = 1 << 22;
/// Sums of fewer terms are not split: another launch would take longer.
const MIN_TERMS: usize = 2048;
/// Fewest terms of a part.
const MIN_PART_TERMS: usize = 512;

/// `left right` in parts; none where splitting does not pay.
pub(super) fn multiply(left: &CubeTensor, right: &CubeTensor) -> Option<CubeTensor> {
    let shape = shape_of(left, right);
    let last = shape.num_dims() - 1;
    let (numbers, inner) = (shape.num_elements(), left.shape()[last]);
    let most =
        if inner < MIN_TERMS { 1 } else { (MAX_PARTIALS / numbers.max(1)).min(inner / MIN_PART_TERMS) };
    let parts = (2..=most).rev().find(|parts| inner.is_multiple_of(*parts))?;
    let product = super::multiply(split(left, last, parts), split(right, last - 1, parts));
    Some(CubeBackend::float_reshape(CubeBackend::float_sum_dim(product, last - 1), shape))
}

/// A view of `factor` whose `axis` is split into `parts`, with the part as a new batch axis before the matrix' own two.
fn split(factor: &CubeTensor, axis: usize, parts: usize) -> CubeTensor {
    let (mut shape, mut strides) = (factor.shape().to_vec(), factor.meta.strides().to_vec());
    shape[axis] /= parts;
    let (batch_axis, part_stride) = (shape.len() - 2, shape[axis] * strides[axis]);
    shape.insert(batch_axis, parts);
    strides.insert(batch_axis, part_stride);
    let mut view = factor.clone();
    *view.meta = Metadata::new(shape, strides);
    view
}
