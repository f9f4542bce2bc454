//! Diagnostics of a soft permutation (docs/definitions.md, section 5; paper, "Balancing Exploration and
//! Exploitation via Sinkhorn").
//!
//! All are float64 functions of one plan `P` `[N, N]`, N >= 2. With `a_i = argmax_k P[i, k]`
//! and `b_k = argmax_i P[i, k]` (ties to the lowest index) and the expected position
//! `m_i = sum_k k P[i, k] / sum_k P[i, k]`, the list [`MEASURES`] defines every one of them; menus,
//! files, tables and tests iterate that list. A row without any mass is treated as uniform, so that
//! every measure is defined for every plan.

mod order;

use std::ops::Range;

use rayon::prelude::*;

use self::order::Row;
pub use self::order::{kendall_tau, path_length};
use crate::model::grid::Grid;
use crate::model::ops::simd::vectorised;
use crate::model::probe::head_output::{PlanRows, blocks};
use crate::model::stats::{argsort, quantiles};

/// An entry of the list of diagnostics.
pub struct Measure {
    /// Name in files.
    pub name: &'static str,
    /// Name on the screen.
    pub label: &'static str,
    /// Its least and its largest value.
    pub range: (f64, f64),
    /// Computes the value.
    pub compute: fn(&PlanStats) -> f64,
}

impl Measure {
    /// A band of values, cut off at what the measure can be.
    pub fn within(&self, (low, high): (f64, f64)) -> (f64, f64) {
        let (least, most) = self.range;
        (low.clamp(least, most), high.clamp(least, most))
    }
}

/// The range of a share.
const SHARE: (f64, f64) = (0.0, 1.0);
/// The range of what has no largest value.
const POSITIVE: (f64, f64) = (0.0, f64::INFINITY);

const fn entry(
    name: &'static str,
    label: &'static str,
    range: (f64, f64),
    compute: fn(&PlanStats) -> f64,
) -> Measure {
    Measure { name, label, range, compute }
}

/// Every diagnostic, in the order of docs/definitions.md, section 5.
pub const MEASURES: &[Measure] = &[
    entry("rank_coverage", "Rank coverage", SHARE, |s| coverage(&s.best_position)),
    entry("argmax_entropy", "Argmax entropy", SHARE, |s| entropy(&s.best_position)),
    entry("edge_mass_10", "Edge mass (10%)", SHARE, edge_mass),
    entry("row_max_mean", "Row maximum, mean", SHARE, |s| mean(&s.row_max)),
    entry("row_max_p95", "Row maximum, p95", SHARE, |s| quantiles(&s.row_max, [0.95])[0]),
    entry("row_marginal_error", "Row marginal error", POSITIVE, |s| marginal_error(&s.row_sum)),
    entry("column_marginal_error", "Column marginal error", POSITIVE, |s| marginal_error(&s.column_sum)),
    entry("token_coverage", "Token coverage", SHARE, |s| coverage(&s.best_token)),
    entry("token_entropy", "Token entropy", SHARE, |s| entropy(&s.best_token)),
    entry("mean_position_spread", "Position spread", POSITIVE, |s| mean(&s.spread)),
    entry("kendall_tau", "Kendall tau to raster", (-1.0, 1.0), |s| kendall_tau(&s.expected)),
    entry("path_length", "Path length", POSITIVE, |s| path_length(&argsort(&s.expected), s.grid)),
];

/// The values of all [`MEASURES`], in their order, of a plan over `grid`.
///
/// # Panics
/// As [`PlanStats::from_plan`].
pub fn measure(plan: &dyn PlanRows, grid: Grid) -> Vec<f64> {
    PlanStats::from_plan(plan, grid).measures()
}

/// Statistics of a plan that the measures are computed from, gathered in one pass. Every vector is `[N]`.
pub struct PlanStats {
    grid: Grid,
    row_sum: Vec<f64>,
    column_sum: Vec<f64>,
    row_max: Vec<f64>,
    best_position: Vec<usize>,
    best_token: Vec<usize>,
    expected: Vec<f64>,
    spread: Vec<f64>,
}

impl PlanStats {
    /// The values of all [`MEASURES`], in their order.
    pub fn measures(&self) -> Vec<f64> {
        MEASURES.iter().map(|measure| (measure.compute)(self)).collect()
    }

    /// Gathers the statistics.
    ///
    /// # Panics
    /// If the plan does not have one row and column for each patch, or fewer than two: a bug in the caller.
    pub fn from_plan(plan: &dyn PlanRows, grid: Grid) -> Self {
        let n = plan.tokens();
        assert!(n >= 2 && grid.len() == n, "a plan of {n} tokens over {} patches", grid.len());
        let parts: Vec<(Vec<Row>, Columns)> =
            blocks(n).into_par_iter().map(|tokens| block_stats(plan, tokens)).collect();
        let (mut rows, mut columns) = (Vec::with_capacity(n), Columns::new(n));
        for (part_rows, part_columns) in parts {
            rows.extend(part_rows);
            columns.merge(&part_columns);
        }
        Self {
            grid,
            row_sum: rows.iter().map(|row| row.sum).collect(),
            column_sum: columns.sum,
            row_max: rows.iter().map(|row| row.max).collect(),
            best_position: rows.iter().map(|row| row.best).collect(),
            best_token: columns.best,
            expected: rows.iter().map(|row| row.expected).collect(),
            spread: rows.iter().map(|row| row.spread).collect(),
        }
    }

    /// Expected position of every token, `[N]`, from 0 to N - 1.
    pub fn expected(&self) -> &[f64] {
        &self.expected
    }
}

/// Column statistics of a block of rows, `[N]` each.
struct Columns {
    sum: Vec<f64>,
    max: Vec<f64>,
    best: Vec<usize>,
}

impl Columns {
    fn new(n: usize) -> Self {
        Self { sum: vec![0.0; n], max: vec![f64::NEG_INFINITY; n], best: vec![0; n] }
    }

    /// Adds the statistics of a later block; on ties the earlier token stays the best.
    fn merge(&mut self, later: &Self) {
        for k in 0..self.sum.len() {
            self.sum[k] += later.sum[k];
            if later.max[k] > self.max[k] {
                (self.max[k], self.best[k]) = (later.max[k], later.best[k]);
            }
        }
    }
}

/// Row and column statistics of a block of rows; each row is used for both while it is in the CPU cache.
fn block_stats(plan: &dyn PlanRows, tokens: Range<usize>) -> (Vec<Row>, Columns) {
    let n = plan.tokens();
    let (mut buffer, mut columns) = (vec![0.0; n], Columns::new(n));
    let rows = tokens.map(|i| {
        let row = plan.row(i, &mut buffer);
        add_row(i, row, &mut columns.sum, &mut columns.max, &mut columns.best);
        Row::from_shares(row)
    });
    (rows.collect(), columns)
}

vectorised! {
    /// Adds row `i` to the column statistics.
    fn add_row<const FUSED: bool>(i: usize, row: &[f64], sum: &mut [f64], max: &mut [f64], best: &mut [usize]) {
        for (((&share, sum), max), best) in row.iter().zip(sum).zip(max).zip(best) {
            *sum += share;
            let larger = share > *max;
            *max = if larger { share } else { *max };
            *best = if larger { i } else { *best };
        }
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// How often each index that occurs among N of `0..N` does, in the order of the indices.
fn counts(indices: &[usize]) -> impl Iterator<Item = usize> {
    let mut counts = vec![0; indices.len()];
    indices.iter().for_each(|&i| counts[i] += 1);
    counts.into_iter().filter(|&count| count > 0)
}

fn coverage(indices: &[usize]) -> f64 {
    counts(indices).count() as f64 / indices.len() as f64
}

fn entropy(indices: &[usize]) -> f64 {
    let n = indices.len() as f64;
    let shares = counts(indices).map(|count| count as f64 / n);
    // Clamped against the -0 of a single peak and the rounding of a flat histogram.
    (-shares.map(|p| p * p.ln()).sum::<f64>() / n.ln()).abs().min(1.0)
}

fn edge_mass(stats: &PlanStats) -> f64 {
    let n = stats.best_position.len();
    let edge = (n / 10).max(1);
    let at_edge = stats.best_position.iter().filter(|&&a| a < edge || a >= n - edge).count();
    at_edge as f64 / n as f64
}

fn marginal_error(sums: &[f64]) -> f64 {
    sums.iter().map(|sum| (sum - 1.0).abs()).fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::probe::head_output::Plan;
    use crate::model::stats::argmax;

    #[test]
    fn an_empty_row_counts_as_uniform() {
        let at = MEASURES.iter().position(|m| m.name == "mean_position_spread").expect("a listed measure");
        let spread = |share: f64| measure(&Plan { n: 4, share: vec![share; 16] }, Grid::new(1, 4))[at];
        assert!((spread(0.0) - f64::sqrt(1.25)).abs() < 1e-12);
        assert!((spread(0.0) - spread(0.25)).abs() < 1e-12);
    }

    /// Against the definitions, with a plan of several blocks of which the last is shorter.
    #[test]
    fn plans_in_parts_are_gathered_as_a_whole() {
        let n = 1100;
        let share: Vec<f64> = (0..n * n).map(|at| ((at * 7919 + at / n * 31) % 1009) as f64 / 4e5).collect();
        let plan = Plan { n, share };
        assert!(blocks(n).len() > 2 && n % blocks(n)[0].len() != 0);
        let stats = PlanStats::from_plan(&plan, Grid::new(20, 55));
        for at in 0..n {
            let (row, column) = (plan.row(at), (0..n).map(|i| plan.row(i)[at]).collect::<Vec<_>>());
            assert_eq!((stats.best_position[at], stats.best_token[at]), (argmax(row), argmax(&column)));
            assert_eq!(stats.row_max[at], row[argmax(row)]);
            let (sum, column): (f64, f64) = (row.iter().sum(), column.iter().sum());
            let mean = row.iter().enumerate().map(|(k, p)| k as f64 * p).sum::<f64>() / sum;
            let spread =
                row.iter().enumerate().map(|(k, p)| (k as f64 - mean).powi(2) * p).sum::<f64>() / sum;
            let pairs =
                [(stats.row_sum[at], sum), (stats.column_sum[at], column), (stats.expected[at], mean)];
            for (found, expected) in pairs.into_iter().chain([(stats.spread[at], spread.sqrt())]) {
                assert!((found - expected).abs() < 1e-12 * expected, "{found} {expected}");
            }
        }
    }
}
