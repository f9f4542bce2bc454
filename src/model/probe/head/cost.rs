//! What a head costs: trained parameters, floating point operations.
//!
//! Counted is one forward pass of one image, the classifier included: a multiply and an add are two
//! operations, an exponential or a comparison one. What all images of a batch share (the S4 kernel,
//! projections that are folded into one) is not counted. Routers are counted by the formula in their module's
//! doc, even where a device uses a cheaper one.
//!
//! Publications report other counts as FLOPs: [`counts`] adds up the [parts](Part) of a head by three conventions.

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

/// A part of a head as it would be written with PyTorch's layers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// What it computes.
    pub what: &'static str,
    /// Multiply-adds of products and convolutions; elementwise operations (softmax, norms, Sinkhorn's iterations) have none.
    pub multiply_adds: u64,
    /// What `thop` 0.1.1 counts for it, whose hooks only see layers: nothing for a formula or a bare parameter.
    pub hooked: u64,
}

impl Part {
    /// A linear layer or a convolution.
    pub(super) const fn layer(what: &'static str, multiply_adds: u64) -> Self {
        Self { what, multiply_adds, hooked: multiply_adds }
    }

    /// A product outside any layer.
    pub(super) const fn formula(what: &'static str, multiply_adds: u64) -> Self {
        Self { what, multiply_adds, hooked: 0 }
    }

    /// A norm of `values` numbers: hooks count two operations for each, and four with a weight and a bias.
    pub(super) const fn norm(values: u64, affine: bool) -> Self {
        Self { what: "norm", multiply_adds: 0, hooked: if affine { 4 * values } else { 2 * values } }
    }

    /// The scorer on N tokens of width d.
    pub(super) const fn scorer(n: u64, d: u64) -> Self {
        Self::layer("scores", n * d)
    }
}

/// The operations of one graph by three conventions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counts {
    /// Multiply-adds, which some count as one operation each and some as two.
    pub multiply_adds: u64,
    /// What `thop` reports.
    pub hooks: u64,
}

/// Operations, for one image, of a head as it would be written with PyTorch's layers, and of the classifier behind it.
pub fn counts(head: &dyn Head, dims: &Dims) -> Counts {
    let mut parts = head.parts(dims.grid.len() as u64, dims.width as u64);
    parts.push(Part::layer("classifier", (head.features_len(dims) * dims.classes) as u64));
    let multiply_adds = parts.iter().map(|part| part.multiply_adds).sum();
    let hooks = parts.iter().map(|part| part.hooked).sum();
    Counts { multiply_adds, hooks }
}

/// Operations of the standardised scores of N tokens of width d.
pub(super) fn scores(n: u64, d: u64) -> u64 {
    2 * n * d + 5 * n
}
