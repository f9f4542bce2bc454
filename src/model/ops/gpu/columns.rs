//! Sums of a matrix' columns, as the gradient of a bias is one. Threads side by side (`lanes`) read columns side by side, or vectors
//! of them, groups of threads other rows of the same columns, and workgroups other columns, or rows further down; what workgroups
//! leave is added up afterwards.

use burn::backend::ops::FloatTensorOps;
use burn_cubecl::cubecl;
use burn_cubecl::{CubeBackend, tensor::CubeTensor};
use cubecl::prelude::*;

use super::{empty, workgroups};

/// Threads of a workgroup.
pub(crate) const UNITS: usize = 256;
/// Columns of a workgroup, at most.
pub(crate) const COLUMNS: usize = 64;
/// At least: 32 bytes, which memory sends together.
const NARROW: usize = 8;
/// Workgroups that keep a GPU busy.
const ENOUGH: usize = 512;
/// Workgroups that leave few multiprocessors without one.
const FEW: usize = 120;
/// Rows of a workgroup, at least.
const ROWS: usize = 512;
/// From a row of a thread to its next, where [`COLUMNS`] threads lie side by side.
pub(crate) const STEP: usize = UNITS / COLUMNS;
/// Rows that a thread reads together, which memory is asked for at once.
pub(crate) const AT_ONCE: usize = 4;

/// Columns of a workgroup for a single matrix: the fewer, the more of its rows are read at once, and by more workgroups.
pub(crate) fn width(rows: usize, columns: usize) -> usize {
    let keeps_busy = |width: &usize| columns.div_ceil(*width) * rows.div_ceil(ROWS) >= FEW;
    [COLUMNS, 32, 16].into_iter().find(keeps_busy).unwrap_or(NARROW)
}

/// Adds up the columns of every matrix of a batch, `[B, 1, columns]`, `width` of them a workgroup: `launch` is given the workgroups,
/// how many they are, what a matrix' rows are shared out into, and room for what each of those leaves, `[B, parts, columns]`.
pub(crate) fn add_up(
    like: &CubeTensor,
    [batches, rows, columns]: [usize; 3],
    width: usize,
    launch: impl FnOnce(CubeCount, usize, usize, &CubeTensor),
) -> CubeTensor {
    let across = batches * columns.div_ceil(width);
    let parts = (ENOUGH / across.max(1)).min(rows.div_ceil(ROWS)).max(1);
    let sums = empty(like, [batches, parts, columns]);
    let count = parts * across;
    launch(workgroups(count), count, parts, &sums);
    if parts == 1 { sums } else { CubeBackend::float_sum_dim(sums, 1) }
}

/// What a thread adds up.
#[derive(CubeType, Clone, Copy)]
pub(crate) struct Share {
    /// Of all parts of all matrices.
    part: usize,
    /// Of the batch.
    pub matrix: usize,
    /// A vector of them, where the matrix is read so.
    pub column: usize,
    /// Its first row; every `UNITS / lanes`-th follows.
    pub row: usize,
    /// The row at which it ends; a thread beyond the last column has none.
    pub end: usize,
}

/// The share of this thread, of `count` workgroups.
#[cube]
pub(crate) fn share(
    rows: usize,
    columns: usize,
    parts: usize,
    count: usize,
    #[comptime] lanes: usize,
) -> Share {
    let unit = UNIT_POS as usize;
    let cube = usize::min(CUBE_POS, count - 1);
    let across = columns.div_ceil(lanes);
    let (part, column) = (cube / across, cube % across * lanes + unit % lanes);
    // Whole rounds, so that few threads read rows one by one; the last parts have what is left, or nothing.
    let round = comptime!(UNITS / lanes * AT_ONCE);
    let length = rows.div_ceil(parts).div_ceil(round) * round;
    let first = part % parts * length;
    let end = if column < columns { usize::min(first + length, rows) } else { 0usize };
    Share { part, matrix: part / parts, column, row: first + unit / lanes, end }
}

/// Leaves what the threads of a workgroup have added up. All of them come here together.
#[cube]
pub(crate) fn leave<N: Size>(
    sum: Vector<f32, N>,
    share: Share,
    columns: usize,
    sums: &mut [Vector<f32, N>],
    #[comptime] lanes: usize,
) {
    let mut left = Shared::<[Vector<f32, N>]>::new_slice(UNITS);
    let unit = UNIT_POS as usize;
    left[unit] = sum;
    sync_cube();
    if unit < lanes && share.column < columns {
        let mut all = Vector::<f32, N>::new(0.0);
        #[unroll]
        for group in 0..comptime!(UNITS / lanes) {
            all += left[comptime!(group * lanes) + unit];
        }
        sums[share.part * columns + share.column] = all;
    }
}
