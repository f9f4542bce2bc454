//! Linear assignment: gives every row of a square cost table a column of its own at the least total cost, by shortest
//! augmenting paths.
//!
//! Jonker, Volgenant, *A Shortest Augmenting Path Algorithm for Dense and Sparse Linear Assignment Problems*, 1987,
//! without its two initial phases: tables of evidence are nearly of rank one, so the same few rows are the cheapest of
//! all columns, and what those phases assign is undone again. Rows are added one by one: Dijkstra's algorithm over
//! reduced costs `c[i, j] - v[j]` finds the shortest path to a free column, and the column prices `v` are updated so
//! that the reduced cost of every assigned entry stays the smallest of its row. `O(N^3)` in the worst case.
//!
//! No crate is used, because those tried are slower on such tables and each has a drawback: with 196 tokens and one
//! kernel per channel `lapjv` 0.3 took 34 to 60 ms (and needs a second ndarray), `pathfinding` 4.16 took 16 to 23 ms
//! (integers only), this takes 5 to 12 ms; one image needs four.

use crate::model::ops::simd::vectorised;

/// The column of every row in the assignment with the smallest total of `cost` `[N, N]`.
pub fn min_cost_assignment(cost: &[f64], n: usize) -> Vec<usize> {
    let mut price = vec![0.0; n];
    let (mut row_of, mut column_of) = (vec![usize::MAX; n], vec![usize::MAX; n]);
    let mut path = Path { distance: vec![0.0; n], closed: vec![0.0; n], from: vec![0; n] };
    for free_row in 0..n {
        path.distance.fill(f64::INFINITY);
        path.closed.fill(0.0);
        let (mut row, mut offset, mut closed) = (free_row, 0.0, Vec::new());
        let (mut column, end) = loop {
            let least = relax(&cost[row * n..][..n], &price, offset, row, &mut path);
            let is_next = |(d, closed): (&f64, &f64)| d + closed == least;
            let column = path.distance.iter().zip(&path.closed).position(is_next);
            let column = column.expect("a column is free while a row is");
            if row_of[column] == usize::MAX {
                break (column, least);
            }
            path.closed[column] = f64::INFINITY;
            closed.push((column, least));
            row = row_of[column];
            offset = cost[row * n + column] - price[column] - least;
        };
        closed.into_iter().for_each(|(column, at)| price[column] += at - end);
        // Back along the path: every row takes the column that the path goes to from it.
        loop {
            let row = path.from[column];
            row_of[column] = row;
            std::mem::swap(&mut column, &mut column_of[row]);
            if row == free_row {
                break;
            }
        }
    }
    column_of
}

/// Shortest paths found so far from one row to every column, `[N]` each.
struct Path {
    distance: Vec<f64>,
    /// Infinite for columns whose path is final (closed), else 0: added to a distance, it excludes them without a branch.
    closed: Vec<f64>,
    /// The last row on the path to a column.
    from: Vec<usize>,
}

vectorised! {
    /// Relaxes the paths to open columns through `row`, whose reduced costs less `offset` are path lengths; returns the
    /// shortest distance of an open column.
    fn relax<const FUSED: bool>(costs: &[f64], price: &[f64], offset: f64, row: usize, path: &mut Path) -> f64 {
        let n = costs.len();
        let (price, distance) = (&price[..n], &mut path.distance[..n]);
        let (closed, from) = (&path.closed[..n], &mut path.from[..n]);
        let mut least = f64::INFINITY;
        for j in 0..n {
            let through = costs[j] - price[j] - offset;
            // Infinite for a closed column: rounding must not shorten its path again.
            let shorter = through + closed[j] < distance[j];
            distance[j] = if shorter { through } else { distance[j] };
            from[j] = if shorter { row } else { from[j] };
            let open = distance[j] + closed[j];
            least = if open < least { open } else { least };
        }
        least
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pseudorandom numbers from -0.5 to 0.5.
    fn table(n: usize, seed: usize) -> Vec<f64> {
        (0..n * n).map(|at| ((at + 1) * (seed * 2 + 7919) % 1013) as f64 / 1013.0 - 0.5).collect()
    }

    fn total(cost: &[f64], columns: &[usize]) -> f64 {
        columns.iter().enumerate().map(|(row, column)| cost[row * columns.len() + column]).sum()
    }

    /// The smallest total over all permutations.
    fn brute_force(cost: &[f64], n: usize, row: usize, taken: &mut Vec<bool>) -> f64 {
        if row == n {
            return 0.0;
        }
        let mut best = f64::INFINITY;
        for column in 0..n {
            if !taken[column] {
                taken[column] = true;
                best = best.min(cost[row * n + column] + brute_force(cost, n, row + 1, taken));
                taken[column] = false;
            }
        }
        best
    }

    #[test]
    fn it_is_the_cheapest_of_all() {
        for n in 1..=7 {
            for seed in 0..40 {
                let cost = table(n, seed);
                let found = total(&cost, &min_cost_assignment(&cost, n));
                let best = brute_force(&cost, n, 0, &mut vec![false; n]);
                assert!((found - best).abs() < 1e-12, "{n} rows, table {seed}: {found}, not {best}");
            }
        }
    }

    #[test]
    fn ties_and_scales_are_no_trouble() {
        assert_eq!(total(&[1.0; 400], &min_cost_assignment(&[1.0; 400], 20)), 20.0);
        for scale in [1e-200, 1.0, 1e200] {
            let cost: Vec<f64> = table(60, 3).iter().map(|x| x * scale).collect();
            let mut columns = min_cost_assignment(&cost, 60);
            let found = total(&cost, &columns) / scale;
            let expected = total(&table(60, 3), &min_cost_assignment(&table(60, 3), 60));
            assert!((found - expected).abs() < 1e-12, "{scale}: {found}, not {expected}");
            columns.sort_unstable();
            assert!(columns.into_iter().eq(0..60), "a column is taken twice");
        }
    }

    /// With `c[i, j] = a_i b_j` sorting is the answer: the largest with the smallest.
    #[test]
    fn a_product_is_assigned_by_sorting() {
        let n = 150;
        let a: Vec<f64> = (0..n).map(|i| (i * 37 % n) as f64 / 10.0 - 5.0).collect();
        let b: Vec<f64> = (0..n).map(|j| (j * 91 % n) as f64 / 7.0 - 3.0).collect();
        let cost: Vec<f64> = a.iter().flat_map(|a| b.iter().map(move |b| a * b)).collect();
        let (mut up, mut down) = (a.clone(), b.clone());
        up.sort_by(f64::total_cmp);
        down.sort_by(|x, y| y.total_cmp(x));
        let expected: f64 = up.iter().zip(&down).map(|(a, b)| a * b).sum();
        let found = total(&cost, &min_cost_assignment(&cost, n));
        assert!((found - expected).abs() < 1e-9, "{found}, not {expected}");
    }
}
