//! What the paper's table says that a head costs, to be held against what is counted.

/// From "Probe Complexity and FLOPs": d 768, N 196, C 1000. Its `S4Head` stands for the raster scan.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PaperCost {
    /// Million parameters.
    pub parameters: f64,
    /// Million operations.
    pub flops: f64,
}
