//! What a head costs: trained parameters, floating point operations.
//!
//! Counted is one forward pass of one image, the classifier included: a multiply and an add are two
//! operations, an exponential or a comparison one. What all images of a batch share (the S4 kernel,
//! projections that are folded into one) is not counted. Routers are counted by the formula in their module's
//! doc, even where a device uses a cheaper one.
//!
//! Publications report other counts as FLOPs, by the conventions of [`Counts`].

use super::{Dims, Head};
use crate::model::probe::params::Spec;

/// Trained parameters of a head and the classifier behind it.
pub fn parameters(head: &dyn Head, dims: &Dims) -> usize {
    head.specs(dims).iter().map(Spec::trained).sum::<usize>()
        + (head.features_len(dims.width) + 1) * dims.classes
}

/// Operations of a head and the classifier behind it, for one image.
pub fn flops(head: &dyn Head, dims: &Dims) -> u64 {
    let (n, d) = (dims.grid.len() as u64, dims.width as u64);
    head.flops(n, d) + 2 * (head.features_len(dims.width) * dims.classes) as u64
}

/// The operations of a head as it would be written with PyTorch's layers, for one image.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Multiply-adds of products and convolutions, which some count as one operation each and some as two; elementwise operations
    /// (softmax, norms, Sinkhorn's iterations) have none.
    pub multiply_adds: u64,
    /// What `thop` 0.1.1 counts, whose hooks only see layers: nothing for a formula or a bare parameter.
    pub hooks: u64,
}

impl Counts {
    /// Linear layers and convolutions.
    pub(super) const fn layers(multiply_adds: u64) -> Self {
        Self { multiply_adds, hooks: multiply_adds }
    }

    /// Products outside any layer.
    pub(super) const fn formulas(multiply_adds: u64) -> Self {
        Self { multiply_adds, hooks: 0 }
    }

    /// Norms of `values` numbers: hooks count two operations for each, and four with a weight and a bias.
    pub(super) const fn norms(values: u64, affine: bool) -> Self {
        Self { multiply_adds: 0, hooks: if affine { 4 * values } else { 2 * values } }
    }
}

impl std::ops::Add for Counts {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { multiply_adds: self.multiply_adds + other.multiply_adds, hooks: self.hooks + other.hooks }
    }
}

/// [`Head::counts`], and those of the classifier behind it.
pub fn counts(head: &dyn Head, dims: &Dims) -> Counts {
    let classifier = (head.features_len(dims.width) * dims.classes) as u64;
    head.counts(dims.grid.len() as u64, dims.width as u64) + Counts::layers(classifier)
}

/// Operations of the standardised scores of N tokens of width d.
pub(super) fn scores(n: u64, d: u64) -> u64 {
    2 * n * d + 5 * n
}
