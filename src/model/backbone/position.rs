//! Position encodings by tables: absolute positions and relative biases, resampled to other grids.
//!
//! A table learned on one grid is resampled to another exactly as transformers does it
//! (`torch.nn.functional.interpolate`, `align_corners` false):
//!
//! | kernel | used by | reads at `(i + 1/2) n / m - 1/2` |
//! |---|---|---|
//! | [`Kernel::Bicubic`] | all other position tables | 4 taps, Keys' cubic with a = -0.75 |
//! | [`Kernel::BicubicAntialiased`] | DINOv2 with registers, EVA-02 | cubic with a = -0.5, stretched by the downscaling factor, normalised |
//! | [`Kernel::Bilinear`] | BEiT's relative biases | 2 taps |
//!
//! Taps beyond the border read the border (antialiased: are dropped). Computed in float64.
//!
//! BEiT (Bao et al., 2022, after Swin) adds to every attention logit a bias that depends on the
//! offset between two patches: a table of `(2 rows - 1)(2 cols - 1)` offsets and three more for
//! CLS to patch, patch to CLS and CLS to CLS; [`relative_index`] maps pairs to entries.

use crate::model::grid::Grid;

/// The interpolation kernel of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kernel {
    /// Two taps.
    Bilinear,
    /// Four taps, a = -0.75.
    Bicubic,
    /// a = -0.5, stretched by the scale when downscaling.
    BicubicAntialiased,
}

fn cubic(x: f64, a: f64) -> f64 {
    let x = x.abs();
    if x < 1.0 {
        ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0
    } else if x < 2.0 {
        (((x - 5.0) * x + 8.0) * x - 4.0) * a
    } else {
        0.0
    }
}

impl Kernel {
    /// For each of `to` output entries, the indices among `from` input entries and their weights.
    fn taps(self, from: usize, to: usize) -> Vec<Vec<(usize, f64)>> {
        let scale = from as f64 / to as f64;
        let clamp = |i: f64| i.clamp(0.0, (from - 1) as f64) as usize;
        let at = |i: usize| {
            let centre = scale * (i as f64 + 0.5);
            match self {
                Self::Bilinear => {
                    let x = (centre - 0.5).max(0.0);
                    let weight = x - x.floor();
                    vec![(clamp(x.floor()), 1.0 - weight), (clamp(x.floor() + 1.0), weight)]
                }
                Self::Bicubic => {
                    let x = centre - 0.5;
                    let tap = |k: i32| x.floor() + f64::from(k);
                    (-1..3).map(|k| (clamp(tap(k)), cubic(tap(k) - x, -0.75))).collect()
                }
                Self::BicubicAntialiased => {
                    let stretch = scale.max(1.0);
                    let first = (centre - 2.0 * stretch + 0.5).max(0.0) as usize;
                    let last = ((centre + 2.0 * stretch + 0.5) as usize).min(from);
                    let weight = |j: usize| cubic((j as f64 - centre + 0.5) / stretch, -0.5);
                    let total: f64 = (first..last).map(weight).sum();
                    (first..last).map(|j| (j, weight(j) / total)).collect()
                }
            }
        };
        (0..to).map(at).collect()
    }

    /// Resamples `table`, `[from.rows, from.cols, width]`, to `[to.rows, to.cols, width]`.
    pub fn resample(self, table: &[f32], from: Grid, to: Grid, width: usize) -> Vec<f32> {
        assert_eq!(table.len(), from.len() * width, "a table of {from:?}");
        let columns = self.taps(from.cols, to.cols);
        let mut wide = vec![0.0_f64; from.rows * to.cols * width]; // [from.rows, to.cols, width]
        for (out, row) in wide.chunks_exact_mut(to.cols * width).zip(table.chunks_exact(from.cols * width)) {
            for (out, taps) in out.chunks_exact_mut(width).zip(&columns) {
                for &(j, weight) in taps {
                    let entry = &row[j * width..(j + 1) * width];
                    out.iter_mut().zip(entry).for_each(|(o, &x)| *o += weight * f64::from(x));
                }
            }
        }
        let stride = to.cols * width;
        let mut tall = Vec::with_capacity(to.rows * stride); // [to.rows, to.cols, width]
        let mut sum = vec![0.0_f64; stride];
        for taps in self.taps(from.rows, to.rows) {
            sum.fill(0.0);
            for (j, weight) in taps {
                let row = &wide[j * stride..(j + 1) * stride];
                sum.iter_mut().zip(row).for_each(|(o, &x)| *o += weight * x);
            }
            tall.extend(sum.iter().map(|&x| x as f32));
        }
        tall
    }
}

/// Number of entries of a relative bias table for `grid`: one per offset, and three for CLS.
pub const fn relative_len(grid: Grid) -> usize {
    (2 * grid.rows - 1) * (2 * grid.cols - 1) + 3
}

/// Resamples BEiT's relative bias table `[relative_len(from), heads]` to another grid, transposed:
/// `[heads, relative_len(to)]`. transformers reads the table's offsets as `[2 cols - 1, 2 rows - 1]`,
/// with rows and columns exchanged; that matters for non-square grids only, and is reproduced.
pub fn resample_relative(table: &[f32], from: Grid, to: Grid, heads: usize) -> Vec<f32> {
    let offsets = relative_len(from) - 3;
    let old = Grid::new(2 * from.cols - 1, 2 * from.rows - 1);
    let new = Grid::new(2 * to.rows - 1, 2 * to.cols - 1);
    let mut resampled = Kernel::Bilinear.resample(&table[..offsets * heads], old, new, heads);
    resampled.extend_from_slice(&table[offsets * heads..]); // [relative_len(to), heads]
    (0..heads).flat_map(|h| resampled.iter().skip(h).step_by(heads).copied()).collect()
}

/// The entry of the relative bias table for each pair (query, key) of tokens, CLS first:
/// `[(N + 1) * (N + 1)]`, row-major.
pub fn relative_index(grid: Grid) -> Vec<i32> {
    let offsets = relative_len(grid) - 3;
    let entry = |query: usize, key: usize| match (query, key) {
        (0, 0) => offsets + 2,
        (_, 0) => offsets + 1,
        (0, _) => offsets,
        (q, k) => {
            let (q, k) = (q - 1, k - 1);
            let down = q / grid.cols + grid.rows - 1 - k / grid.cols;
            let right = q % grid.cols + grid.cols - 1 - k % grid.cols;
            down * (2 * grid.cols - 1) + right
        }
    };
    let tokens = grid.len() + 1;
    (0..tokens).flat_map(|q| (0..tokens).map(move |k| entry(q, k) as i32)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::close::assert_close;

    #[test]
    fn every_kernel_keeps_a_table_on_its_own_grid_and_a_constant_on_any() {
        let grid = Grid::new(3, 4);
        let table: Vec<f32> = (0..24).map(|i| (i as f32 * 0.7).sin()).collect();
        for kernel in [Kernel::Bilinear, Kernel::Bicubic, Kernel::BicubicAntialiased] {
            assert_close(format!("{kernel:?}"), kernel.resample(&table, grid, grid, 2), &table, 1e-6);
            for to in [Grid::new(2, 2), Grid::new(7, 5), Grid::new(1, 9)] {
                let flat = kernel.resample(&[1.5; 24], grid, to, 2);
                assert_close(format!("{kernel:?} {to:?}"), flat, vec![1.5; to.len() * 2], 1e-6);
            }
        }
    }

    #[test]
    fn cubic_taps_are_those_of_pytorch() {
        // Halfway between two entries: (a / 8) (1, 1) outside, 1/2 - a/8 inside.
        let taps = &Kernel::Bicubic.taps(8, 4)[1];
        let expected: [(usize, f64); 4] = [(1, -0.09375), (2, 0.59375), (3, 0.59375), (4, -0.09375)];
        assert_eq!(taps.iter().map(|tap| tap.0).collect::<Vec<_>>(), expected.map(|tap| tap.0));
        assert_close(
            "taps",
            taps.iter().map(|tap| tap.1).collect::<Vec<_>>(),
            expected.map(|tap| tap.1),
            1e-12,
        );
    }

    #[test]
    fn relative_entries_depend_on_the_offset_alone() {
        let grid = Grid::new(2, 3);
        let index = relative_index(grid);
        let at = |q: usize, k: usize| index[q * 7 + k];
        assert_eq!([at(0, 0), at(3, 0), at(0, 3)], [17, 16, 15]);
        assert_eq!(at(1, 1), at(6, 6));
        assert_eq!(at(1, 2), at(5, 6)); // one to the left
        assert_eq!(at(1, 6), 0); // the far corner
        assert_eq!(at(6, 1), 14);
        let mut seen: Vec<i32> = index.clone();
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen, (0..18).collect::<Vec<_>>());
    }
}
