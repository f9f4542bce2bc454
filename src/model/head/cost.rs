//! What a head costs: trained parameters, floating point operations, and the paper's own figures.
//!
//! Counted is one forward pass of one image, the classifier included: a multiply and an add are two
//! operations, an exponential or a comparison one. What all images of a batch share (the S4 kernel,
//! projections that are folded into one) is not counted. Routers count by the formula in their module's
//! doc, whatever shorter way a device knows.

use super::{Config, Dims, Head};
use crate::model::params::Spec;

/// What the paper's table says of a head ("Probe Complexity and FLOPs": d 768, N 196, C 1000).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Paper {
    /// Head id.
    pub id: &'static str,
    /// Million parameters.
    pub parameters: f64,
    /// Million operations.
    pub flops: f64,
}

/// The paper's table, row by row. Its `S4Head` stands for the raster scan.
pub const PAPER: &[Paper] = &[
    Paper { id: "gap", parameters: 0.77, flops: 1.54 },
    Paper { id: "cls", parameters: 0.77, flops: 1.54 },
    Paper { id: "attention", parameters: 0.77, flops: 2.14 },
    Paper { id: "content", parameters: 0.77, flops: 2.14 },
    Paper { id: "raster", parameters: 0.97, flops: 0.77 },
    Paper { id: "sinkhorn", parameters: 0.97, flops: 103.99 },
    Paper { id: "transformer", parameters: 3.43, flops: 120.15 },
    Paper { id: "deepsets", parameters: 1.07, flops: 118.35 },
    Paper { id: "random-fixed", parameters: 0.97, flops: 0.77 },
    Paper { id: "random-dynamic", parameters: 0.97, flops: 0.77 },
    Paper { id: "sinkhorn-conv", parameters: 0.93, flops: 289.70 },
    Paper { id: "bi-gru", parameters: 0.95, flops: 271.56 },
];

/// The paper's figures for the head of this id.
pub fn paper(id: &str) -> Option<&'static Paper> {
    PAPER.iter().find(|row| row.id == id)
}

/// Trained parameters of a head and the classifier behind it.
pub fn parameters(head: &dyn Head, dims: &Dims) -> usize {
    head.specs(dims).iter().map(Spec::trained).sum::<usize>() + (head.features_len(dims) + 1) * dims.classes
}

/// Operations of a head and the classifier behind it, for one image.
pub fn flops(head: &dyn Head, dims: &Dims) -> u64 {
    head.flops(dims) + 2 * (head.features_len(dims) * dims.classes) as u64
}

/// Scores of N tokens, standardised.
pub(super) fn scores(n: u64, d: u64) -> u64 {
    2 * n * d + 5 * n
}

/// The plan of the learned router `id` from N scores: entries times what each costs.
pub(super) fn plan(id: &str, config: &Config, n: u64) -> u64 {
    let softmax = 4; // subtract, exponential, add, divide
    let entry = match id {
        // The log kernel, then two log-softmaxes an iteration, and one exponential.
        "sinkhorn" | "gumbel-sinkhorn" => 5 + 2 * softmax * config.iterations.unwrap_or(20) as u64 + 1,
        // Distances and their sums, the logits, a softmax.
        "neuralsort" => 3 + 3 + softmax,
        // Ranks and sorting by comparison, distances, a softmax.
        "softsort" => 5 + 2 + 3 + softmax,
        // Ranks by comparison. The soft twin serves only the gradient.
        "hard-sort" => 5,
        other => unreachable!("no learned router `{other}`"),
    };
    entry * n * n
}
