//! The iterations on the logarithm of a plan in global memory, and the exact gradient through them: for kernels with noise on every
//! entry, which no vectors describe. One workgroup an image.
//!
//! As in [`plans_plain`](super::super::Sinkhorn::plans_plain) the plan itself is updated, not its potentials, so that all that
//! matters stays near 0 at any temperature. Each half iteration computes the sums of its lines; the next pass over rows subtracts
//! both from the plan in memory. Neighbouring threads read neighbouring entries: [`ROW_THREADS`] share a row, a column is one's.
//!
//! The backward pass makes the plans again from the last one, as each is the next one times the sums that it was divided by. The
//! gradient of `L` is never a table: with `A` normalised by rows and `C` by columns a cotangent goes back by `r -= C c` and
//! `c = -A^T r` (`../transport.rs`), and the gradient of a score is `kappa sum_k dL[i, k] (k - nearest_i)`.

use super::UNITS;
use super::noise::nearest;
use crate::model::ops::gpu::prelude::*;

/// Threads that share a row.
pub(super) const ROW_THREADS: usize = 16;
/// Rows that a workgroup reads at a time.
const ROWS_AT_ONCE: usize = UNITS / ROW_THREADS;
/// Entries that a thread has in flight.
pub(super) const ENTRIES_AT_ONCE: usize = 8;
/// Vectors of N of the backward pass in shared memory; the forward pass has fewer.
pub(super) const LANES: usize = 3;
/// Vectors of N kept of an iteration: the logarithms of what rows and columns summed to.
pub(super) const HISTORY_VECTORS: usize = 2;

/// Stands for the logarithm of 0.
const LOG_ZERO: f32 = -1e30;

/// The index of the entry of a row that a thread reads `ahead` turns after `k`; `k` itself beyond the row's end, which no other thread
/// writes.
#[cube]
fn within(k: usize, ahead: usize, #[comptime] n: usize) -> usize {
    let at = k + ahead * ROW_THREADS;
    select(at < n, at, k)
}

/// The plans `[B, N, N]` from the logarithms of their kernels, `log_plans`, which are overwritten by the logarithms of the plans;
/// with `keep` the logarithms of the sums of rows and columns into `kept`, `[B, iterations, HISTORY_VECTORS, N]`.
#[cube(launch)]
pub(super) fn forward(
    log_plans: &mut [f32],
    plans: &mut [f32],
    kept: &mut [f32],
    iterations: usize,
    #[comptime] n: usize,
    #[comptime] keep: bool,
) {
    let square = comptime!(n * n);
    let log_plan = &mut log_plans[CUBE_POS * square..(CUBE_POS + 1) * square];
    let history = comptime!(if keep { HISTORY_VECTORS * n } else { 0 }) * iterations;
    let kept = &mut kept[CUBE_POS * history..(CUBE_POS + 1) * history];
    let (down, across) = (UNIT_POS as usize / ROW_THREADS, UNIT_POS as usize % ROW_THREADS);
    let mut lanes = Shared::<[f32]>::new_slice(UNITS);
    let mut rows = Shared::<[f32]>::new_slice(n);
    let mut columns = Shared::<[f32]>::new_slice(n);
    for j in range_stepped(UNIT_POS as usize, n, UNITS) {
        rows[j] = 0.0;
        columns[j] = 0.0;
    }
    sync_cube();
    for t in 0..iterations {
        let slots = comptime!(if keep { HISTORY_VECTORS * n } else { 0 });
        let kept = &mut kept[t * slots..(t + 1) * slots];
        for first in range_stepped(0usize, n, ROWS_AT_ONCE) {
            let i = first + down;
            let mut sum = LogSum { largest: f32::new(LOG_ZERO), total: 0.0f32 };
            if i < n {
                let before = rows[i];
                for k in range_stepped(across, n, comptime!(ROW_THREADS * ENTRIES_AT_ONCE)) {
                    let mut entries = Array::<f32>::new(ENTRIES_AT_ONCE);
                    #[unroll]
                    for ahead in 0..ENTRIES_AT_ONCE {
                        let at = within(k, ahead, n);
                        entries[ahead] = log_plan[i * n + at] - before - columns[at];
                    }
                    #[unroll]
                    for ahead in 0..ENTRIES_AT_ONCE {
                        let at = k + comptime!(ahead * ROW_THREADS);
                        if at < n {
                            log_plan[i * n + at] = entries[ahead];
                        } else {
                            entries[ahead] = f32::new(LOG_ZERO);
                        }
                    }
                    sum.add(entries);
                }
            }
            let largest = fold(sum.largest, &mut lanes, Fold::Largest, ROW_THREADS);
            let scaled = sum.total * (sum.largest - largest).exp();
            let log = largest + fold(scaled, &mut lanes, Fold::Sum, ROW_THREADS).ln();
            if i < n && across == 0 {
                rows[i] = log;
                if comptime!(keep) {
                    kept[i] = log;
                }
            }
        }
        sync_storage(); // waits for shared memory, too
        for k in range_stepped(UNIT_POS as usize, n, UNITS) {
            let mut sum = LogSum { largest: f32::new(LOG_ZERO), total: 0.0f32 };
            for first in range_stepped(0usize, n, ENTRIES_AT_ONCE) {
                let mut entries = Array::<f32>::new(ENTRIES_AT_ONCE);
                #[unroll]
                for ahead in 0..ENTRIES_AT_ONCE {
                    let i = usize::min(first + ahead, comptime!(n - 1));
                    let entry = log_plan[i * n + k] - rows[i];
                    entries[ahead] = select(first + ahead < n, entry, f32::new(LOG_ZERO));
                }
                sum.add(entries);
            }
            let log = sum.largest + sum.total.ln();
            columns[k] = log;
            if comptime!(keep) {
                kept[n + k] = log;
            }
        }
        sync_storage();
    }
    let plan = &mut plans[CUBE_POS * square..(CUBE_POS + 1) * square];
    for at in range_stepped(UNIT_POS as usize, square, UNITS) {
        let entry = log_plan[at] - rows[at / n] - columns[at % n];
        plan[at] = entry.exp();
        if comptime!(keep) {
            log_plan[at] = entry;
        }
    }
}

/// The cotangent of the scores `[B, N]`, from the logarithms of the plans and the plans' cotangent, `[B, N, N]`. `earlier`,
/// `[B, N, N]`, is scratch for the plans of earlier iterations.
#[cube(launch)]
pub(super) fn backward(
    scores: &[f32],
    log_plans: &[f32],
    cotangent: &[f32],
    kept: &[f32],
    grad_scores: &mut [f32],
    earlier: &mut [f32],
    kappa: f32,
    iterations: usize,
    #[comptime] n: usize,
) {
    let square = comptime!(n * n);
    let scores = &scores[CUBE_POS * n..(CUBE_POS + 1) * n];
    let grad_scores = &mut grad_scores[CUBE_POS * n..(CUBE_POS + 1) * n];
    let log_plan = &log_plans[CUBE_POS * square..(CUBE_POS + 1) * square];
    let cotangent = &cotangent[CUBE_POS * square..(CUBE_POS + 1) * square];
    let earlier = &mut earlier[CUBE_POS * square..(CUBE_POS + 1) * square];
    let history = comptime!(HISTORY_VECTORS * n) * iterations;
    let kept = &kept[CUBE_POS * history..(CUBE_POS + 1) * history];
    let (down, across) = (UNIT_POS as usize / ROW_THREADS, UNIT_POS as usize % ROW_THREADS);
    let mut lanes = Shared::<[f32]>::new_slice(UNITS);
    let mut rows = Shared::<[f32]>::new_slice(n); // gradient of the tokens' potentials
    let mut columns = Shared::<[f32]>::new_slice(n); // gradient of the positions'
    let mut masses = Shared::<[f32]>::new_slice(n); // sums of the columns
    for first in range_stepped(0usize, n, ROWS_AT_ONCE) {
        let i = first + down;
        let mut row = 0.0f32;
        let mut grad_score = 0.0f32;
        if i < n {
            let nearest = nearest(scores[i], n);
            for k in range_stepped(across, n, ROW_THREADS) {
                let entry = log_plan[i * n + k];
                earlier[i * n + k] = entry;
                let grad_entry = entry.exp() * cotangent[i * n + k];
                row += grad_entry;
                grad_score += grad_entry * (f32::cast_from(k) - nearest);
            }
        }
        let row = fold(row, &mut lanes, Fold::Sum, ROW_THREADS);
        let grad_score = fold(grad_score, &mut lanes, Fold::Sum, ROW_THREADS);
        if i < n && across == 0 {
            rows[i] = row;
            grad_scores[i] = kappa * grad_score;
        }
    }
    for k in range_stepped(UNIT_POS as usize, n, UNITS) {
        let mut sum = 0.0f32;
        for i in 0..n {
            sum += log_plan[i * n + k].exp() * cotangent[i * n + k];
        }
        columns[k] = sum;
        masses[k] = kept[(iterations - 1) * comptime!(HISTORY_VECTORS * n) + n + k].exp();
    }
    sync_storage();
    for back in 0..iterations {
        let now = (iterations - 1 - back) * comptime!(HISTORY_VECTORS * n);
        for first in range_stepped(0usize, n, ROWS_AT_ONCE) {
            let i = first + down;
            let mut row = 0.0f32;
            let mut moment = 0.0f32;
            let mut place = 0.0f32;
            if i < n {
                let nearest = nearest(scores[i], n);
                for k in range_stepped(across, n, comptime!(ROW_THREADS * ENTRIES_AT_ONCE)) {
                    let mut entries = Array::<f32>::new(ENTRIES_AT_ONCE);
                    #[unroll]
                    for ahead in 0..ENTRIES_AT_ONCE {
                        let at = within(k, ahead, n);
                        entries[ahead] = earlier[i * n + at];
                    }
                    if back > 0 {
                        let later = now + comptime!(HISTORY_VECTORS * n);
                        let row = kept[later + i];
                        #[unroll]
                        for ahead in 0..ENTRIES_AT_ONCE {
                            let at = within(k, ahead, n);
                            entries[ahead] += row + kept[later + n + at];
                        }
                    }
                    #[unroll]
                    for ahead in 0..ENTRIES_AT_ONCE {
                        let at = k + comptime!(ahead * ROW_THREADS);
                        if at < n {
                            earlier[i * n + at] = entries[ahead];
                            let share = entries[ahead].exp();
                            let apart = f32::cast_from(at) - nearest;
                            row += share * columns[at];
                            moment += share * columns[at] * apart;
                            place += share * masses[at] * apart;
                        }
                    }
                }
            }
            let row = fold(row, &mut lanes, Fold::Sum, ROW_THREADS);
            let moment = fold(moment, &mut lanes, Fold::Sum, ROW_THREADS);
            let place = fold(place, &mut lanes, Fold::Sum, ROW_THREADS);
            if i < n && across == 0 {
                let grad_row = select(back == 0, rows[i], 0.0f32) - row;
                rows[i] = grad_row;
                grad_scores[i] -= kappa * (moment + grad_row * place);
            }
        }
        sync_storage();
        for k in range_stepped(UNIT_POS as usize, n, UNITS) {
            let column = kept[now + n + k];
            let mut sum = 0.0f32;
            for first in range_stepped(0usize, n, ENTRIES_AT_ONCE) {
                #[unroll]
                for ahead in 0..ENTRIES_AT_ONCE {
                    let i = usize::min(first + ahead, comptime!(n - 1));
                    let share = (earlier[i * n + k] + column).exp() * rows[i];
                    sum += select(first + ahead < n, share, 0.0f32);
                }
            }
            columns[k] = -sum;
            if back + 1 < iterations {
                masses[k] = kept[now - comptime!(HISTORY_VECTORS * n) + n + k].exp();
            }
        }
        sync_storage();
    }
}

/// A sum of exponentials, as its largest exponent and the sum relative to it.
#[derive(CubeType)]
struct LogSum {
    largest: f32,
    total: f32,
}

#[cube]
impl LogSum {
    fn add(&mut self, exponents: Array<f32>) {
        let mut largest = self.largest;
        #[unroll]
        for at in 0..ENTRIES_AT_ONCE {
            largest = max(largest, exponents[at]);
        }
        let mut total = self.total * (self.largest - largest).exp();
        #[unroll]
        for at in 0..ENTRIES_AT_ONCE {
            total += (exponents[at] - largest).exp();
        }
        self.largest = largest;
        self.total = total;
    }
}
