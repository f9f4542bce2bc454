//! The costs of heads in the paper's table, to be compared with what is counted.

/// From "Probe Complexity and FLOPs": d 768, N 196, C 1000. Its `S4Head` stands for the raster scan.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PaperCost {
    /// Parameters, in millions.
    pub parameters: f64,
    /// Operations, in millions.
    pub flops: f64,
}
