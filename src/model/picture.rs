//! A picture as plain data, in pixels and in the patches of a grid.

use serde::{Deserialize, Serialize};

use super::grid::Grid;
use super::io::block;

/// An RGB picture on the host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Picture {
    /// Pixels from left to right.
    pub width: usize,
    /// Pixels from top to bottom.
    pub height: usize,
    /// `height * width * 3` bytes, row-major, RGB.
    #[serde(with = "block")]
    pub rgb: Vec<u8>,
}

impl Picture {
    /// Whether it has the bytes that its size implies.
    pub fn is_consistent(&self) -> bool {
        let pixels = self.width.checked_mul(self.height).and_then(|pixels| pixels.checked_mul(3));
        pixels == Some(self.rgb.len())
    }

    /// Its patches, each the bytes of its rows; none if the grid does not divide it.
    pub fn patches(&self, grid: Grid) -> Vec<Vec<u8>> {
        let is_divided = [(self.height, grid.rows), (self.width, grid.cols)]
            .into_iter()
            .all(|(size, count)| count > 0 && size.is_multiple_of(count));
        if !is_divided || !self.is_consistent() {
            return Vec::new();
        }
        let mut patches = vec![Vec::new(); grid.len()];
        for (at, part) in self.rgb.chunks_exact((self.width / grid.cols * 3).max(1)).enumerate() {
            let (row, column) = (at / grid.cols, at % grid.cols);
            patches[row / (self.height / grid.rows) * grid.cols + column].extend_from_slice(part);
        }
        patches
    }

    /// The picture with its patches in another order: at place `k` of the grid lies patch `order[k]`.
    pub fn rearranged(&self, grid: Grid, order: &[usize]) -> Self {
        let (height, bytes) = (self.height / grid.rows, self.width / grid.cols * 3);
        let mut rgb = self.rgb.clone();
        for (to, &from) in order.iter().enumerate() {
            for y in 0..height {
                let [to, from] = [to, from]
                    .map(|at| (at / grid.cols * height + y) * self.width * 3 + at % grid.cols * bytes);
                rgb[to..to + bytes].copy_from_slice(&self.rgb[from..from + bytes]);
            }
        }
        Self { rgb, ..*self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patches_of_a_picture_are_rearranged() {
        // Two patches of two pixels by two, side by side; three bytes a pixel.
        let picture = Picture { width: 4, height: 2, rgb: (0..24).collect() };
        let grid = Grid::new(1, 2);
        let swapped = picture.rearranged(grid, &[1, 0]);
        assert_eq!(swapped.rgb, [6..12, 0..6, 18..24, 12..18].into_iter().flatten().collect::<Vec<u8>>());
        assert_eq!(swapped.rearranged(grid, &[1, 0]), picture);
        let rows = picture.rearranged(Grid::new(2, 1), &[1, 0]);
        assert_eq!(rows.rgb, (12..24).chain(0..12).collect::<Vec<u8>>());
        assert_eq!(picture.rearranged(Grid::new(2, 4), &[0, 1, 2, 3, 4, 5, 6, 7]), picture);
        let halves = |grid| picture.patches(grid).concat();
        assert_eq!(halves(grid), [0..6, 12..18, 6..12, 18..24].into_iter().flatten().collect::<Vec<u8>>());
        assert_eq!(
            picture.patches(Grid::new(2, 1)),
            [picture.rgb[..12].to_vec(), picture.rgb[12..].to_vec()]
        );
    }
}
