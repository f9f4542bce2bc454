//! The iterations on the logarithm of a plan that lies in memory, and the exact gradient through them: for kernels with noise
//! on every entry, of which no vector tells more. One workgroup an image.
//!
//! As in [`plans_plain`](super::super::Sinkhorn::plans_plain) the plan itself is carried on and no potential, so that what counts
//! stays near 0 at any temperature. Each half iteration finds what its lines sum to; the next walk over rows takes both sums off
//! the plan in memory. Neighbouring threads read neighbouring entries: a row is shared by [`ACROSS`] of them, a column is one's.
//!
//! On the way back the plans come again from the last one, as each is the next one times the sums that it was divided by. What
//! `L` is owed is never a table: with `A` balanced by rows and `C` by columns a cotangent runs back by `r -= C c` and
//! `c = -A^T r` (`../transport.rs`), and a score is owed `kappa sum_k dL[i, k] (k - nearest_i)`.

use burn_cubecl::cubecl;
use cubecl::prelude::*;

use super::UNITS;
use super::noise::nearest;
use crate::model::ops::gpu::fold::{Fold, fold};

/// Threads that share a row.
pub(super) const ACROSS: usize = 16;
/// Rows that are walked at once.
const DOWN: usize = UNITS / ACROSS;
/// Entries that a thread asks for at once.
pub(super) const AT_ONCE: usize = 8;
/// Vectors of N that the way back keeps in a workgroup's memory; the way there keeps fewer.
pub(super) const LANES: usize = 3;
/// Vectors of N kept of an iteration: the logarithms of what rows and columns summed to.
pub(super) const HISTORY_VECTORS: usize = 2;

/// A logarithm of nothing.
const NOTHING: f32 = -1e30;

/// The entry of a row that a thread asks for at once with `k` and that many of its own between; `k` again where the row has ended,
/// which no other thread writes.
#[cube]
fn within(k: usize, ahead: usize, #[comptime] n: usize) -> usize {
    let at = k + ahead * ACROSS;
    select(at < n, at, k)
}

/// The plans `[B, N, N]` of the logarithms of their kernels, `log_plans`, in whose place come the logarithms of the plans; with
/// `keep` what rows and columns summed to into `kept`, `[B, iterations, HISTORY_VECTORS, N]`.
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
    let (down, across) = (UNIT_POS as usize / ACROSS, UNIT_POS as usize % ACROSS);
    let mut lanes = Shared::<[f32]>::new_slice(UNITS);
    let mut rows = Shared::<[f32]>::new_slice(n);
    let mut columns = Shared::<[f32]>::new_slice(n);
    let mut j = UNIT_POS as usize;
    while j < n {
        rows[j] = 0.0;
        columns[j] = 0.0;
        j += UNITS;
    }
    sync_cube();
    for t in 0..iterations {
        let slots = comptime!(if keep { HISTORY_VECTORS * n } else { 0 });
        let kept = &mut kept[t * slots..(t + 1) * slots];
        for first in range_stepped(0usize, n, DOWN) {
            let i = first + down;
            let mut sum = LogSum { largest: f32::new(NOTHING), total: 0.0f32 };
            if i < n {
                let before = rows[i];
                let mut k = across;
                while k < n {
                    let mut entries = Array::<f32>::new(AT_ONCE);
                    #[unroll]
                    for ahead in 0..AT_ONCE {
                        let at = within(k, ahead, n);
                        entries[ahead] = log_plan[i * n + at] - before - columns[at];
                    }
                    #[unroll]
                    for ahead in 0..AT_ONCE {
                        let at = k + comptime!(ahead * ACROSS);
                        if at < n {
                            log_plan[i * n + at] = entries[ahead];
                        } else {
                            entries[ahead] = f32::new(NOTHING);
                        }
                    }
                    sum.add(entries);
                    k += comptime!(ACROSS * AT_ONCE);
                }
            }
            let largest = fold(sum.largest, &mut lanes, Fold::Largest, ACROSS);
            let scaled = sum.total * (sum.largest - largest).exp();
            let log = largest + fold(scaled, &mut lanes, Fold::Sum, ACROSS).ln();
            if i < n && across == 0 {
                rows[i] = log;
                if comptime!(keep) {
                    kept[i] = log;
                }
            }
        }
        wait();
        let mut k = UNIT_POS as usize;
        while k < n {
            let mut sum = LogSum { largest: f32::new(NOTHING), total: 0.0f32 };
            for first in range_stepped(0usize, n, AT_ONCE) {
                let mut entries = Array::<f32>::new(AT_ONCE);
                #[unroll]
                for ahead in 0..AT_ONCE {
                    let i = usize::min(first + ahead, comptime!(n - 1));
                    let entry = log_plan[i * n + k] - rows[i];
                    entries[ahead] = select(first + ahead < n, entry, f32::new(NOTHING));
                }
                sum.add(entries);
            }
            let log = sum.largest + sum.total.ln();
            columns[k] = log;
            if comptime!(keep) {
                kept[n + k] = log;
            }
            k += UNITS;
        }
        wait();
    }
    let plan = &mut plans[CUBE_POS * square..(CUBE_POS + 1) * square];
    let mut at = UNIT_POS as usize;
    while at < square {
        let entry = log_plan[at] - rows[at / n] - columns[at % n];
        plan[at] = entry.exp();
        if comptime!(keep) {
            log_plan[at] = entry;
        }
        at += UNITS;
    }
}

/// The cotangent of the scores `[B, N]`, from the logarithms of the plans and the plans' own, `[B, N, N]`. `earlier`, `[B, N, N]`,
/// is for the plans before them.
#[cube(launch)]
pub(super) fn backward(
    scores: &[f32],
    log_plans: &[f32],
    cotangent: &[f32],
    kept: &[f32],
    by_scores: &mut [f32],
    earlier: &mut [f32],
    kappa: f32,
    iterations: usize,
    #[comptime] n: usize,
) {
    let square = comptime!(n * n);
    let scores = &scores[CUBE_POS * n..(CUBE_POS + 1) * n];
    let by_scores = &mut by_scores[CUBE_POS * n..(CUBE_POS + 1) * n];
    let log_plan = &log_plans[CUBE_POS * square..(CUBE_POS + 1) * square];
    let cotangent = &cotangent[CUBE_POS * square..(CUBE_POS + 1) * square];
    let earlier = &mut earlier[CUBE_POS * square..(CUBE_POS + 1) * square];
    let history = comptime!(HISTORY_VECTORS * n) * iterations;
    let kept = &kept[CUBE_POS * history..(CUBE_POS + 1) * history];
    let (down, across) = (UNIT_POS as usize / ACROSS, UNIT_POS as usize % ACROSS);
    let mut lanes = Shared::<[f32]>::new_slice(UNITS);
    let mut rows = Shared::<[f32]>::new_slice(n); // what the potentials of the tokens are owed
    let mut columns = Shared::<[f32]>::new_slice(n); // what those of the positions are
    let mut masses = Shared::<[f32]>::new_slice(n); // what the columns summed to
    for first in range_stepped(0usize, n, DOWN) {
        let i = first + down;
        let mut row = 0.0f32;
        let mut owed = 0.0f32;
        if i < n {
            let nearest = nearest(scores[i], n);
            let mut k = across;
            while k < n {
                let entry = log_plan[i * n + k];
                earlier[i * n + k] = entry;
                let by_entry = entry.exp() * cotangent[i * n + k];
                row += by_entry;
                owed += by_entry * (f32::cast_from(k) - nearest);
                k += ACROSS;
            }
        }
        let row = fold(row, &mut lanes, Fold::Sum, ACROSS);
        let owed = fold(owed, &mut lanes, Fold::Sum, ACROSS);
        if i < n && across == 0 {
            rows[i] = row;
            by_scores[i] = kappa * owed;
        }
    }
    let mut k = UNIT_POS as usize;
    while k < n {
        let mut sum = 0.0f32;
        for i in 0..n {
            sum += log_plan[i * n + k].exp() * cotangent[i * n + k];
        }
        columns[k] = sum;
        masses[k] = kept[(iterations - 1) * comptime!(HISTORY_VECTORS * n) + n + k].exp();
        k += UNITS;
    }
    wait();
    for back in 0..iterations {
        let now = (iterations - 1 - back) * comptime!(HISTORY_VECTORS * n);
        for first in range_stepped(0usize, n, DOWN) {
            let i = first + down;
            let mut row = 0.0f32;
            let mut moment = 0.0f32;
            let mut place = 0.0f32;
            if i < n {
                let nearest = nearest(scores[i], n);
                let mut k = across;
                while k < n {
                    let mut entries = Array::<f32>::new(AT_ONCE);
                    #[unroll]
                    for ahead in 0..AT_ONCE {
                        let at = within(k, ahead, n);
                        entries[ahead] = earlier[i * n + at];
                    }
                    if back > 0 {
                        let later = now + comptime!(HISTORY_VECTORS * n);
                        let row = kept[later + i];
                        #[unroll]
                        for ahead in 0..AT_ONCE {
                            let at = within(k, ahead, n);
                            entries[ahead] += row + kept[later + n + at];
                        }
                    }
                    #[unroll]
                    for ahead in 0..AT_ONCE {
                        let at = k + comptime!(ahead * ACROSS);
                        if at < n {
                            earlier[i * n + at] = entries[ahead];
                            let share = entries[ahead].exp();
                            let apart = f32::cast_from(at) - nearest;
                            row += share * columns[at];
                            moment += share * columns[at] * apart;
                            place += share * masses[at] * apart;
                        }
                    }
                    k += comptime!(ACROSS * AT_ONCE);
                }
            }
            let row = fold(row, &mut lanes, Fold::Sum, ACROSS);
            let moment = fold(moment, &mut lanes, Fold::Sum, ACROSS);
            let place = fold(place, &mut lanes, Fold::Sum, ACROSS);
            if i < n && across == 0 {
                let owed = select(back == 0, rows[i], 0.0f32) - row;
                rows[i] = owed;
                by_scores[i] -= kappa * (moment + owed * place);
            }
        }
        wait();
        let mut k = UNIT_POS as usize;
        while k < n {
            let column = kept[now + n + k];
            let mut sum = 0.0f32;
            for first in range_stepped(0usize, n, AT_ONCE) {
                #[unroll]
                for ahead in 0..AT_ONCE {
                    let i = usize::min(first + ahead, comptime!(n - 1));
                    let share = (earlier[i * n + k] + column).exp() * rows[i];
                    sum += select(first + ahead < n, share, 0.0f32);
                }
            }
            columns[k] = -sum;
            if back + 1 < iterations {
                masses[k] = kept[now - comptime!(HISTORY_VECTORS * n) + n + k].exp();
            }
            k += UNITS;
        }
        wait();
    }
}

/// A sum of exponentials, as its largest exponent and what they come to beside that.
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
        for at in 0..AT_ONCE {
            largest = max(largest, exponents[at]);
        }
        let mut total = self.total * (self.largest - largest).exp();
        #[unroll]
        for at in 0..AT_ONCE {
            total += (exponents[at] - largest).exp();
        }
        self.largest = largest;
        self.total = total;
    }
}

/// Waits for the whole workgroup, and for what it wrote.
#[cube]
fn wait() {
    sync_cube();
    sync_storage();
}
