//! Sums of a matrix' columns, as the gradient of a bias is one. Threads side by side read columns side by side, groups of them
//! other rows of the same columns, and workgroups other columns, or rows further down; what workgroups leave is added up afterwards.

use burn::backend::ops::FloatTensorOps;
use burn_cubecl::cubecl;
use burn_cubecl::{CubeBackend, tensor::CubeTensor};
use cubecl::prelude::*;

use super::{empty, workgroups};

/// Threads of a workgroup.
pub(crate) const UNITS: usize = 256;
/// Columns of a workgroup.
const COLUMNS: usize = 64;
/// Workgroups that keep a GPU busy.
const ENOUGH: usize = 512;
/// Rows of a workgroup, at least.
const ROWS: usize = 512;
/// From a row of a thread to its next.
pub(crate) const STEP: usize = UNITS / COLUMNS;
/// Rows that a thread reads together, which memory is asked for at once.
pub(crate) const AT_ONCE: usize = 4;

/// Adds up the columns of every matrix of a batch, `[B, 1, columns]`: `launch` is given the workgroups, how many they are, what a
/// matrix' rows are shared out into, and room for what each of those leaves, `[B, parts, columns]`.
pub(crate) fn add_up(
    like: &CubeTensor,
    [batches, rows, columns]: [usize; 3],
    launch: impl FnOnce(CubeCount, usize, usize, &CubeTensor),
) -> CubeTensor {
    let across = batches * columns.div_ceil(COLUMNS);
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
    pub column: usize,
    /// Its first row; others follow in [`STEP`]s.
    pub row: usize,
    /// The row at which it ends; a thread beyond the last column has none.
    pub end: usize,
}

/// The share of this thread, of `count` workgroups.
#[cube]
pub(crate) fn share(rows: usize, columns: usize, parts: usize, count: usize) -> Share {
    let unit = UNIT_POS as usize;
    let cube = usize::min(CUBE_POS, count - 1);
    let across = columns.div_ceil(COLUMNS);
    let (part, column) = (cube / across, cube % across * COLUMNS + unit % COLUMNS);
    let length = rows.div_ceil(parts);
    let first = part % parts * length;
    let end = if column < columns { usize::min(first + length, rows) } else { 0usize };
    Share { part, matrix: part / parts, column, row: first + unit / COLUMNS, end }
}

/// Leaves what the threads of a workgroup have added up. All of them come here together.
#[cube]
pub(crate) fn leave(sum: f32, share: Share, columns: usize, sums: &mut [f32]) {
    let mut lanes = Shared::<[f32]>::new_slice(UNITS);
    let unit = UNIT_POS as usize;
    lanes[unit] = sum;
    sync_cube();
    if unit < COLUMNS && share.column < columns {
        let mut all = 0.0f32;
        #[unroll]
        for group in 0..STEP {
            all += lanes[group * COLUMNS + unit];
        }
        sums[share.part * columns + share.column] = all;
    }
}
