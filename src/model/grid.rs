//! The patch grid: how the N patch tokens are arranged over the image.

use serde::{Deserialize, Serialize};

/// Number of rows and columns of patches. Token `i` lies at row `i / cols`, column `i % cols`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "Sides")]
pub struct Grid {
    /// Patches from top to bottom.
    pub rows: usize,
    /// Patches from left to right.
    pub cols: usize,
}

/// Most tokens of an image that a file may state.
pub(in crate::model) const MAX_TOKENS: usize = 1 << 20;

/// A grid as read from a file, before its size is checked.
#[derive(Deserialize)]
struct Sides {
    rows: usize,
    cols: usize,
}

impl TryFrom<Sides> for Grid {
    type Error = String;

    fn try_from(Sides { rows, cols }: Sides) -> Result<Self, String> {
        let fits = rows.checked_mul(cols).is_some_and(|n| n <= MAX_TOKENS);
        fits.then_some(Self { rows, cols })
            .ok_or_else(|| format!("a patch grid of {rows} x {cols}; expected up to {MAX_TOKENS} tokens"))
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grid_whose_tokens_cannot_be_counted_is_none() {
        let read = |rows: u64, cols: u64| {
            serde_json::from_str::<Grid>(&format!(r#"{{"rows": {rows}, "cols": {cols}}}"#))
        };
        assert_eq!(read(3, 4).unwrap(), Grid::new(3, 4));
        assert_eq!(serde_json::to_string(&Grid::new(3, 4)).unwrap(), r#"{"rows":3,"cols":4}"#);
        // 2^62 + 4 rows of 4: that is 16, and 2^64.
        for (rows, cols) in [((1 << 62) + 4, 4), (1 << 20, 2), (u64::MAX, 1)] {
            let error = read(rows, cols).unwrap_err().to_string();
            assert!(error.contains(&format!("{rows} x {cols}")), "{error}");
        }
    }
}
