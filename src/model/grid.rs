//! The patch grid: how the N tokens lie over the image.

use serde::{Deserialize, Serialize};

/// Patches per column and row. Token `i` lies at row `i / cols`, column `i % cols`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Grid {
    /// Patches from top to bottom.
    pub rows: usize,
    /// Patches from left to right.
    pub cols: usize,
}

impl Grid {
    /// A grid of `rows` x `cols` patches.
    pub const fn new(rows: usize, cols: usize) -> Self {
        Self { rows, cols }
    }

    /// Number of patch tokens, N.
    pub const fn len(self) -> usize {
        self.rows * self.cols
    }

    /// Whether there is no patch at all.
    pub const fn is_empty(self) -> bool {
        self.len() == 0
    }
}
