//! A matrix and one vector, of each image of a batch. Kernels for products of matrices leave most of a GPU without work here:
//! theirs has so many workgroups as the product has numbers, and of the 50,000 tokens of a batch it is one vector.
//!
//! A matrix whose rows lie side by side is read row by row, either way:
//!
//! * times a column: a row's numbers by 32 threads, which then add up what they have;
//! * a row times it: a thread a column, some rows a workgroup; workgroups that share a column leave a sum each, which are added
//!   up afterwards.
//!
//! Where vectors of four may begin at every row a thread reads those in place of numbers: read one by one, so few are on their way
//! that memory waits for threads.

use burn::backend::{TensorMetadata, ops::FloatTensorOps};
use burn::tensor::DType;
use burn_cubecl::cubecl;
use burn_cubecl::{CubeBackend, tensor::CubeTensor};
use cubecl::prelude::*;

use super::shape_of;
use crate::model::ops::gpu::columns::{COLUMNS, UNITS, UNROLL, add_up, leave, share};
use crate::model::ops::gpu::fold::total;
use crate::model::ops::gpu::{arg, counts, empty, workgroups};

/// Numbers of a vector.
const WIDE: usize = 4;
/// Threads that read rows together, [`UNROLL`] of them, where it is a row's sum that is asked.
const LANES: usize = 32;
/// Such groups of threads of a workgroup.
const GROUPS: usize = UNITS / LANES;

/// `left right` where one is a row or a column, by these kernels; none where they do not take it: of other numbers than float32, of
/// more than three axes, of more numbers than they count, of a matrix in which neither rows nor columns lie side by side.
pub(super) fn multiply(left: &CubeTensor, right: &CubeTensor) -> Option<CubeTensor> {
    let takes = |factor: &CubeTensor| {
        let shape = factor.shape();
        factor.dtype == DType::F32 && (2..=3).contains(&shape.num_dims()) && counts(shape.num_elements())
    };
    let has_units = left.client.properties().hardware.max_units_per_cube as usize >= UNITS;
    if !(has_units && takes(left) && takes(right)) {
        return None;
    }
    let [row, matrix] = match (Matrix::new(left), Matrix::new(right)) {
        (left, right) if left.rows == 1 => [left, right],
        (left, right) if right.columns == 1 => [right.transposed(), left.transposed()],
        _ => return None,
    };
    let product = if matrix.column_step == 1 {
        sums_of_columns(&row, &matrix)
    } else if matrix.row_step == 1 {
        sums_of_rows(&row, &matrix.transposed())
    } else {
        return None;
    };
    Some(CubeBackend::float_reshape(product, shape_of(left, right)))
}

/// How the matrices of a batch lie.
struct Matrix<'a> {
    tensor: &'a CubeTensor,
    batches: usize,
    rows: usize,
    columns: usize,
    /// From one matrix to the next; 0 where it is one for all.
    batch_step: usize,
    row_step: usize,
    column_step: usize,
}

impl<'a> Matrix<'a> {
    fn new(tensor: &'a CubeTensor) -> Self {
        let (shape, strides) = (tensor.shape(), tensor.meta.strides());
        let last = shape.num_dims() - 1;
        let (batches, batch_step) = if last == 2 { (shape[0], strides[0]) } else { (1, 0) };
        Self {
            tensor,
            batches,
            rows: shape[last - 1],
            columns: shape[last],
            batch_step: if batches == 1 { 0 } else { batch_step },
            row_step: strides[last - 1],
            column_step: strides[last],
        }
    }

    fn transposed(&self) -> Self {
        let Self { tensor, batches, rows, columns, batch_step, row_step, column_step } = *self;
        let (rows, columns, row_step, column_step) = (columns, rows, column_step, row_step);
        Self { tensor, batches, rows, columns, batch_step, row_step, column_step }
    }

    /// Numbers that are read together: four where a vector begins at every row, and holds nothing that is not the matrix'.
    fn size(&self) -> usize {
        let row_step = if self.rows == 1 { 0 } else { self.row_step };
        let is_whole = self.column_step == 1
            && [self.columns, row_step, self.batch_step].iter().all(|start| start.is_multiple_of(WIDE))
            && self.tensor.handle.offset_start.unwrap_or(0).is_multiple_of(16);
        if is_whole { WIDE } else { 1 }
    }
}

/// How the kernels find their weights and what they weigh, in what is read together.
#[derive(CubeType, CubeLaunch, Clone, Copy)]
struct Places {
    weights_batch: usize,
    weights_step: usize,
    matrix_batch: usize,
    row_step: usize,
    rows: usize,
    columns: usize,
}

/// Those of `matrix`, weighed by `row`, of which so many numbers are read together, and how many of them there are in the batch.
fn places(row: &Matrix, matrix: &Matrix, [weights, size]: [usize; 2]) -> (PlacesLaunch, usize) {
    let places = PlacesLaunch::new(
        row.batch_step / weights,
        row.column_step, // 1 where they are vectors
        matrix.batch_step / size,
        matrix.row_step / size,
        matrix.rows,
        matrix.columns / size,
    );
    (places, row.batches.max(matrix.batches))
}

/// `[B, 1, columns]`: what every column of `matrix` adds up to, its rows weighed by `row`.
fn sums_of_columns(row: &Matrix, matrix: &Matrix) -> CubeTensor {
    let size = matrix.size();
    let (places, batches) = places(row, matrix, [1, size]);
    add_up(matrix.tensor, [batches, matrix.rows, matrix.columns], COLUMNS, |cubes, count, parts, sums| {
        add_rows::launch(
            &matrix.tensor.client,
            cubes,
            CubeDim::new_1d(UNITS as u32),
            size,
            arg(row.tensor),
            arg(matrix.tensor),
            arg(sums),
            places,
            parts,
            count,
            COLUMNS / size,
        );
    })
}

/// `[B, rows]`: what every row of `matrix` adds up to, its columns weighed by `row`.
fn sums_of_rows(row: &Matrix, matrix: &Matrix) -> CubeTensor {
    let size = row.size().min(matrix.size());
    let (places, batches) = places(row, matrix, [size, size]);
    let product = empty(matrix.tensor, [batches, matrix.rows]);
    let groups = batches * matrix.rows.div_ceil(UNROLL);
    add_columns::launch(
        &matrix.tensor.client,
        workgroups(groups.div_ceil(GROUPS)),
        CubeDim::new_1d(UNITS as u32),
        size,
        arg(row.tensor),
        arg(matrix.tensor),
        arg(&product),
        places,
        groups,
    );
    product
}

#[cube(launch)]
fn add_rows<N: Size>(
    weights: &[f32],
    matrix: &[Vector<f32, N>],
    sums: &mut [Vector<f32, N>],
    places: Places,
    parts: usize,
    count: usize,
    #[comptime] lanes: usize,
) {
    let Places { weights_batch, weights_step, matrix_batch, row_step, rows, columns } = places;
    let share = share(rows, columns, parts, count, lanes);
    let step = comptime!(UNITS / lanes);
    let weight = share.matrix * weights_batch;
    let entry = share.matrix * matrix_batch + share.column;
    let mut row = share.row;
    let mut sum = Vector::<f32, N>::new(0.0);
    while row + comptime!((UNROLL - 1) * step) < share.end {
        #[unroll]
        for next in 0..UNROLL {
            let at = row + comptime!(next * step);
            let by = Vector::<f32, N>::new(weights[weight + at * weights_step]);
            sum += matrix[entry + at * row_step] * by;
        }
        row += comptime!(UNROLL * step);
    }
    while row < share.end {
        let by = Vector::<f32, N>::new(weights[weight + row * weights_step]);
        sum += matrix[entry + row * row_step] * by;
        row += step;
    }
    leave::<N>(sum, share, columns, sums, lanes);
}

/// `groups`: of all matrices, which share a workgroup, so that the last rows of a matrix leave none of it without work.
#[cube(launch)]
fn add_columns<N: Size>(
    weights: &[Vector<f32, N>],
    matrix: &[Vector<f32, N>],
    sums: &mut [f32],
    places: Places,
    groups: usize,
) {
    let Places { weights_batch, weights_step, matrix_batch, row_step, rows, columns } = places;
    let unit = UNIT_POS as usize;
    let (lane, group) = (unit % LANES, unit / LANES);
    // From the last rows to the first: in a step this takes turns with [`add_rows`], and a cache still has some of what that read last.
    // Groups too many make the same sums as one that is not.
    let own = groups - 1 - usize::min(CUBE_POS * GROUPS + group, groups - 1);
    let across = rows.div_ceil(UNROLL);
    let (batch, first) = (own / across, own % across * UNROLL);
    let (weight, start) = (batch * weights_batch, batch * matrix_batch);

    let mut owed = Array::<Vector<f32, N>>::new(UNROLL);
    #[unroll]
    for next in 0..UNROLL {
        owed[next] = Vector::<f32, N>::new(0.0);
    }
    let mut column = lane;
    while column < columns {
        let by = weights[weight + column * weights_step];
        #[unroll]
        for next in 0..UNROLL {
            let row = usize::min(first + next, rows - 1);
            owed[next] += matrix[start + row * row_step + column] * by;
        }
        column += LANES;
    }
    // Of every row 32 numbers; eight threads take four each, and one the eight that they leave.
    let mut lanes = Shared::<[f32]>::new_slice(comptime!(UNITS * UNROLL));
    #[unroll]
    for next in 0..UNROLL {
        let numbers = owed[next];
        lanes[(group * UNROLL + next) * LANES + lane] = total::<N>(numbers);
    }
    let mut fours = Shared::<[f32]>::new_slice(UNITS);
    sync_cube();
    let from = unit * UNROLL;
    fours[unit] = (lanes[from] + lanes[from + 1]) + (lanes[from + 2] + lanes[from + 3]);
    sync_cube();
    if lane < UNROLL && first + lane < rows {
        let from = (group * UNROLL + lane) * comptime!(LANES / UNROLL);
        let mut sum = 0.0f32;
        #[unroll]
        for part in 0..comptime!(LANES / UNROLL) {
            sum += fours[from + part];
        }
        sums[batch * rows + first + lane] = sum;
    }
}
