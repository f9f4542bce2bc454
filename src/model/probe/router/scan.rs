//! Fixed scans: orders that depend on the grid alone and not on the image (docs/definitions.md, section 2).
//!
//! A scan is one permutation per direction; `order[k]` is the token read at step `k`, tokens
//! numbered row by row. Each direction has its own S4 and the readouts are averaged. The paper's are raster
//! order, VMamba's cross scan, PlainMamba's snake and diagonals. Every scan is defined for any grid, square or not.

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use crate::model::grid::Grid;
use crate::model::probe::PaperCost;
use crate::model::stats::shuffled;

/// A fixed order of the patch grid, in one or several directions.
#[derive(Debug)]
pub struct Scan {
    /// Its id in probe files and on the command line, which is also the id of the head that combines it with S4.
    pub id: &'static str,
    /// Its name on the screen.
    pub name: &'static str,
    /// What the head does, in one line.
    pub summary: &'static str,
    /// Whether the paper has it.
    pub in_paper: bool,
    /// The cost that the paper reports for the head.
    pub paper_cost: Option<PaperCost>,
    /// Permutations of the `grid.len()` tokens: entry `k` is the token read at step `k`.
    paths: &'static [fn(Grid) -> Vec<usize>],
    /// Whether each path is also read backwards.
    both_ways: bool,
}

/// Every scan.
pub const SCANS: &[&Scan] = &[&RASTER, &VMAMBA, &SNAKE, &DIAGONAL, &HILBERT, &SPIRAL];

/// Row by row.
pub const RASTER: Scan = Scan {
    id: "raster",
    name: "Raster",
    summary: "S4 row by row",
    in_paper: true,
    paper_cost: Some(PaperCost { parameters: 0.97, flops: 0.77 }),
    paths: &[rows],
    both_ways: false,
};

/// Row by row, and column by column.
const VMAMBA: Scan = Scan {
    id: "vmamba",
    name: "VMamba",
    summary: "S4 along rows and columns, both ways",
    paper_cost: None,
    paths: &[rows, columns],
    both_ways: true,
    ..RASTER
};

/// Rows alternately rightwards and leftwards; columns likewise.
const SNAKE: Scan = Scan {
    id: "snake",
    name: "Snake",
    summary: "S4 along snaking rows and columns, both ways",
    paths: &[snaking_rows, snaking_columns],
    ..VMAMBA
};

/// Diagonals `r + c` from the top-left, downwards within each; on the mirrored grid (column `cols - 1 - c`) likewise.
const DIAGONAL: Scan = Scan {
    id: "diagonal",
    name: "Diagonal",
    summary: "S4 along diagonals and anti-diagonals, both ways",
    paths: &[diagonals, anti_diagonals],
    ..VMAMBA
};

/// Hilbert's curve generalised to any rectangle, along the longer side.
const HILBERT: Scan = Scan {
    id: "hilbert",
    name: "Hilbert",
    summary: "S4 along the Hilbert curve, both ways",
    in_paper: false,
    paths: &[hilbert],
    ..VMAMBA
};

/// Clockwise from the top-left corner inwards, so that the centre is read last.
const SPIRAL: Scan = Scan {
    id: "spiral",
    name: "Spiral",
    summary: "S4 from the border to the centre, both ways",
    paths: &[spiral],
    ..HILBERT
};

impl Scan {
    /// Number of its directions, which is the length of [`orders`](Self::orders).
    pub const fn directions(&self) -> usize {
        self.paths.len() * if self.both_ways { 2 } else { 1 }
    }

    /// The token read at every step, for each direction: a path, then the same path backwards.
    pub fn orders(&self, grid: Grid) -> Vec<Vec<usize>> {
        let ways = |path: &fn(Grid) -> Vec<usize>| {
            let order = path(grid);
            let backwards = self.both_ways.then(|| order.iter().rev().copied().collect());
            std::iter::once(order).chain(backwards)
        };
        self.paths.iter().flat_map(ways).collect()
    }
}

/// A uniformly random permutation of `n` tokens: Fisher-Yates with ChaCha8 seeded by `seed`.
pub fn random(seed: u64, n: usize) -> Vec<usize> {
    shuffled(n, &mut ChaCha8Rng::seed_from_u64(seed))
}

/// Row by row.
fn rows(grid: Grid) -> Vec<usize> {
    (0..grid.len()).collect()
}

/// Row by row, every other row backwards.
fn snaking_rows(grid: Grid) -> Vec<usize> {
    (0..grid.len()).map(|i| if i / grid.cols % 2 == 1 { mirrored(i, grid) } else { i }).collect()
}

/// The token in the place of token `i` in the mirrored grid, whose columns count from the right.
const fn mirrored(i: usize, grid: Grid) -> usize {
    i + grid.cols - 1 - 2 * (i % grid.cols)
}

/// Column by column.
fn columns(grid: Grid) -> Vec<usize> {
    transposed(grid, rows)
}

/// Column by column, every other column upwards.
fn snaking_columns(grid: Grid) -> Vec<usize> {
    transposed(grid, snaking_rows)
}

/// The path over the transposed grid, transposed back.
fn transposed(grid: Grid, path: fn(Grid) -> Vec<usize>) -> Vec<usize> {
    let path = path(Grid::new(grid.cols, grid.rows));
    path.into_iter().map(|i| (i % grid.rows) * grid.cols + i / grid.rows).collect()
}

/// Diagonals `r + c = 0, 1, ...`, by increasing row.
fn diagonals(grid: Grid) -> Vec<usize> {
    let mut cells = rows(grid);
    cells.sort_by_key(|i| i / grid.cols + i % grid.cols); // stable: by row within each
    cells
}

/// The same diagonals of the mirrored grid.
fn anti_diagonals(grid: Grid) -> Vec<usize> {
    diagonals(grid).into_iter().map(|i| mirrored(i, grid)).collect()
}

/// Clockwise from the top-left corner, ring by ring.
fn spiral(grid: Grid) -> Vec<usize> {
    let mut order = Vec::with_capacity(grid.len());
    let (mut top, mut left, mut bottom, mut right) = (0, 0, grid.rows, grid.cols); // unvisited: [top, bottom) x [left, right)
    while top < bottom && left < right {
        order.extend((left..right).map(|c| top * grid.cols + c));
        order.extend((top + 1..bottom).map(|r| r * grid.cols + right - 1));
        if bottom - top > 1 {
            order.extend((left..right - 1).rev().map(|c| (bottom - 1) * grid.cols + c));
        }
        if right - left > 1 {
            order.extend((top + 1..bottom - 1).rev().map(|r| r * grid.cols + left));
        }
        (top, left, bottom, right) = (top + 1, left + 1, bottom - 1, right - 1);
    }
    order
}

/// A vector on the grid, (column, row).
type Step = (i64, i64);

/// Hilbert's curve on any rectangle, starting at the top-left and running along the longer side.
/// Neighbouring steps are neighbouring patches, but for at most one diagonal step where an odd
/// length makes that impossible.
fn hilbert(grid: Grid) -> Vec<usize> {
    let (cols, rows) = (grid.cols as i64, grid.rows as i64);
    let mut order = Vec::with_capacity(grid.len());
    if !grid.is_empty() {
        let (along, across) = if cols >= rows { ((cols, 0), (0, rows)) } else { ((0, rows), (cols, 0)) };
        hilbert_rectangle(&mut |(c, r)| order.push((r * cols + c) as usize), (0, 0), along, across);
    }
    order
}

/// Visits every cell of the rectangle that `along` and `across` span from `at`, ending at the far end of `along`: out
/// over half of `across`, along the other half, and back over the first; a long rectangle is first cut in two.
fn hilbert_rectangle(visit: &mut dyn FnMut(Step), at: Step, along: Step, across: Step) {
    let length = |v: Step| (v.0 + v.1).abs();
    let unit = |v: Step| (v.0.signum(), v.1.signum());
    let plus = |a: Step, b: Step| (a.0 + b.0, a.1 + b.1);
    let minus = |a: Step, b: Step| (a.0 - b.0, a.1 - b.1);
    let line = |v: Step, visit: &mut dyn FnMut(Step)| {
        (0..length(v)).for_each(|k| visit((at.0 + k * unit(v).0, at.1 + k * unit(v).1)));
    };
    // Halves are even where the side allows: a part of even length is left on the side where it was entered.
    let half = |v: Step| {
        let half = (v.0.div_euclid(2), v.1.div_euclid(2));
        if length(half) % 2 == 1 && length(v) > 2 { plus(half, unit(v)) } else { half }
    };
    if length(across) == 1 {
        return line(along, visit);
    }
    if length(along) == 1 {
        return line(across, visit);
    }
    if 2 * length(along) > 3 * length(across) {
        let first = half(along);
        hilbert_rectangle(visit, at, first, across);
        hilbert_rectangle(visit, plus(at, first), minus(along, first), across);
    } else {
        let (out, first) = (half(across), (along.0.div_euclid(2), along.1.div_euclid(2)));
        let back = plus(plus(at, minus(along, unit(along))), minus(out, unit(across)));
        hilbert_rectangle(visit, at, out, first);
        hilbert_rectangle(visit, plus(at, out), along, minus(across, out));
        hilbert_rectangle(visit, back, (-out.0, -out.1), minus(first, along));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_scan_of_every_grid_is_a_permutation() {
        for grid in (1..=8).flat_map(|rows| (1..=8).map(move |cols| Grid::new(rows, cols))) {
            for scan in SCANS {
                let orders = scan.orders(grid);
                assert_eq!(orders.len(), scan.directions(), "{}", scan.id);
                for mut order in orders {
                    order.sort_unstable();
                    assert!(order.into_iter().eq(0..grid.len()), "{} on {grid:?}", scan.id);
                }
            }
        }
    }

    #[test]
    fn three_by_three_orders_are_those_written_by_hand() {
        // One digit per token, one word per direction.
        let by_hand = [
            ("raster", "012345678"),
            ("vmamba", "012345678 876543210 036147258 852741630"),
            ("snake", "012543678 876345210 036741258 852147630"),
            ("diagonal", "013246578 875642310 215048376 673840512"),
            ("hilbert", "036785412 214587630"),
            ("spiral", "012587634 436785210"),
        ];
        assert!(SCANS.iter().map(|scan| scan.id).eq(by_hand.map(|(id, _)| id)));
        for (scan, (_, orders)) in SCANS.iter().zip(by_hand) {
            let found = scan.orders(Grid::new(3, 3));
            let words = found.iter().map(|order| order.iter().map(ToString::to_string).collect::<String>());
            assert_eq!(words.collect::<Vec<_>>().join(" "), orders, "{}", scan.id);
        }
    }

    #[test]
    fn two_rows_of_three_are_those_written_by_hand() {
        let grid = Grid::new(2, 3);
        assert_eq!(SNAKE.orders(grid)[2], [0, 3, 4, 1, 2, 5]);
        assert_eq!(VMAMBA.orders(grid)[2], [0, 3, 1, 4, 2, 5]);
        assert_eq!(DIAGONAL.orders(grid)[2], [2, 1, 5, 0, 4, 3]);
        assert_eq!(SPIRAL.orders(grid)[0], [0, 1, 2, 5, 4, 3]);
    }

    #[test]
    fn curves_step_to_neighbours() {
        let apart = |a: usize, b: usize, cols: usize| {
            let (a, b) = ((a / cols, a % cols), (b / cols, b % cols));
            (a.0.abs_diff(b.0), a.1.abs_diff(b.1))
        };
        for grid in (1..=9).flat_map(|rows| (1..=9).map(move |cols| Grid::new(rows, cols))) {
            for order in [snaking_rows(grid), snaking_columns(grid), spiral(grid)] {
                let mut steps = order.windows(2).map(|w| apart(w[0], w[1], grid.cols));
                assert!(steps.all(|(r, c)| r + c == 1), "{grid:?}");
            }
            let jumps: Vec<_> = hilbert(grid).windows(2).map(|w| apart(w[0], w[1], grid.cols)).collect();
            assert!(jumps.iter().all(|&(r, c)| r <= 1 && c <= 1), "{grid:?}");
            let diagonal = jumps.iter().filter(|&&jump| jump == (1, 1)).count();
            let (long, short) = (grid.rows.max(grid.cols), grid.rows.min(grid.cols));
            let may_jump = long % 2 == 1 && short % 2 == 0;
            assert!(diagonal <= usize::from(may_jump), "{grid:?}: {diagonal}");
        }
    }
}
