//! Sums over the rows of a matrix, column by column, such as the gradient of a bias. Neighbouring threads (`lanes`) read neighbouring
//! columns, or vectors of them; groups of threads read different rows of the same columns; workgroups have other columns, or another
//! part of the rows. The partial sums of workgroups are added up afterwards.

use crate::model::ops::gpu::prelude::*;

/// Threads of a workgroup.
pub(crate) const UNITS: usize = 256;
/// Most columns of a workgroup.
pub(crate) const COLUMNS: usize = 64;
/// Fewest columns of a workgroup: 32 bytes, one memory transaction.
const MIN_COLUMNS: usize = 8;
/// Rows are split into parts until there are this many workgroups, which keep a GPU busy.
const TARGET_WORKGROUPS: usize = 512;
/// Fewest workgroups that leave few multiprocessors idle.
const MIN_WORKGROUPS: usize = 120;
/// Fewest rows of a workgroup.
const MIN_ROWS: usize = 512;
/// The stride of a thread's loop over rows where a workgroup has [`COLUMNS`] lanes.
pub(crate) const STEP: usize = UNITS / COLUMNS;
/// Rows per iteration of an unrolled loop, whose reads are in flight at the same time.
pub(crate) const UNROLL: usize = 4;

/// Columns per workgroup for a single matrix: the fewer, the more of its rows are read at once, and by more workgroups.
pub(crate) fn workgroup_columns(rows: usize, columns: usize) -> usize {
    let keeps_busy = |width: &usize| columns.div_ceil(*width) * rows.div_ceil(MIN_ROWS) >= MIN_WORKGROUPS;
    [COLUMNS, 32, 16].into_iter().find(keeps_busy).unwrap_or(MIN_COLUMNS)
}

/// The column sums of every matrix of a batch, `[B, 1, columns]`, `width` columns per workgroup. `launch` gets the launch size, the
/// number of workgroups, the number of parts that the rows are split into, and the buffer for partial sums, `[B, parts, columns]`.
pub(crate) fn add_up(
    like: &CubeTensor,
    [batches, rows, columns]: [usize; 3],
    width: usize,
    launch: impl FnOnce(CubeCount, usize, usize, &CubeTensor),
) -> CubeTensor {
    let across = batches * columns.div_ceil(width);
    let parts = (TARGET_WORKGROUPS / across.max(1)).min(rows.div_ceil(MIN_ROWS)).max(1);
    let sums = empty(like, [batches, parts, columns]);
    let count = parts * across;
    launch(workgroups(count), count, parts, &sums);
    if parts == 1 { sums } else { CubeBackend::float_sum_dim(sums, 1) }
}

/// The numbers that a thread adds up.
#[derive(CubeType, Clone, Copy)]
pub(crate) struct Share {
    /// Index among the parts of all matrices.
    part: usize,
    /// Index of the matrix in the batch.
    pub matrix: usize,
    /// The column, or the vector of columns where the matrix is read in vectors.
    pub column: usize,
    /// Its first row; every `UNITS / lanes`-th follows.
    pub row: usize,
    /// The row at which it ends; 0 for a thread beyond the last column.
    pub end: usize,
}

/// The [`Share`] of this thread in a launch of `count` workgroups with `lanes` columns each.
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
    // Whole unrolled iterations, so that few threads read rows one by one; the last parts get the rest, or nothing.
    let round = comptime!(UNITS / lanes * UNROLL);
    let length = rows.div_ceil(parts).div_ceil(round) * round;
    let first = part % parts * length;
    let end = if column < columns { usize::min(first + length, rows) } else { 0usize };
    Share { part, matrix: part / parts, column, row: first + unit / lanes, end }
}

/// Adds up the `sum`s of a workgroup's threads, by column, and writes them to `sums`. It has a barrier: all threads must call it.
#[cube]
pub(crate) fn write_sums<N: Size>(
    sum: Vector<f32, N>,
    share: Share,
    columns: usize,
    sums: &mut [Vector<f32, N>],
    #[comptime] lanes: usize,
) {
    let mut partials = Shared::<[Vector<f32, N>]>::new_slice(UNITS);
    let unit = UNIT_POS as usize;
    partials[unit] = sum;
    sync_cube();
    if unit < lanes && share.column < columns {
        let mut column_sum = Vector::<f32, N>::new(0.0);
        #[unroll]
        for group in 0..comptime!(UNITS / lanes) {
            column_sum += partials[comptime!(group * lanes) + unit];
        }
        sums[share.part * columns + share.column] = column_sum;
    }
}
