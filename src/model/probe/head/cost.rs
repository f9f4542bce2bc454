//! What a head costs: trained parameters, floating point operations.
//!
//! Counted is one forward pass of one image, the classifier included: a multiply and an add are two
//! operations, an exponential or a comparison one. What all images of a batch share (the S4 kernel,
//! projections that are folded into one) is not counted. Routers count by the formula in their module's
//! doc, whatever shorter way a device knows.

use super::{Dims, Head};
use crate::model::probe::params::Spec;

/// Trained parameters of a head and the classifier behind it.
pub fn parameters(head: &dyn Head, dims: &Dims) -> usize {
    head.specs(dims).iter().map(Spec::trained).sum::<usize>() + (head.features_len(dims) + 1) * dims.classes
}

/// Operations of a head and the classifier behind it, for one image.
pub fn flops(head: &dyn Head, dims: &Dims) -> u64 {
    let (n, d) = (dims.grid.len() as u64, dims.width as u64);
    head.flops(n, d) + 2 * (head.features_len(dims) * dims.classes) as u64
}

/// Scores of N tokens, standardised.
pub(super) fn scores(n: u64, d: u64) -> u64 {
    2 * n * d + 5 * n
}
