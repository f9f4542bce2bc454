//! A matrix and one vector, of each image of a batch. Kernels for products of matrices leave most of a GPU without work here:
//! theirs has so many workgroups as the product has numbers, and of the 50,000 tokens of a batch it is one vector.
//!
//! A matrix whose rows lie side by side is read row by row, either way:
//!
//! * times a column: a row's numbers by 32 threads, which then add up what they have;
//! * a row times it: a thread a column, some rows a workgroup; workgroups that share a column leave a sum each, which are added
//!   up afterwards.

use burn::backend::{TensorMetadata, ops::FloatTensorOps};
use burn::tensor::DType;
use burn_cubecl::cubecl;
use burn_cubecl::{CubeBackend, tensor::CubeTensor};
use cubecl::prelude::*;

use super::shape_of;
use crate::model::ops::gpu::columns::{AT_ONCE, STEP, UNITS, add_up, leave, share};
use crate::model::ops::gpu::{arg, counts, empty, workgroups};

/// Threads that read one row together, where it is a row's sum that is asked.
const LANES: usize = 32;
/// Rows of a workgroup there.
const ROWS: usize = UNITS / LANES * AT_ONCE;

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
}

/// How the kernels find their weights and what they weigh.
#[derive(CubeType, CubeLaunch, Clone, Copy)]
struct Places {
    weights_batch: usize,
    weights_step: usize,
    matrix_batch: usize,
    row_step: usize,
    rows: usize,
    columns: usize,
}

/// Those of `matrix`, weighed by `row`, and how many of them there are in the batch.
fn places(row: &Matrix, matrix: &Matrix) -> (PlacesLaunch, usize) {
    let places = PlacesLaunch::new(
        row.batch_step,
        row.column_step,
        matrix.batch_step,
        matrix.row_step,
        matrix.rows,
        matrix.columns,
    );
    (places, row.batches.max(matrix.batches))
}

/// `[B, 1, columns]`: what every column of `matrix` adds up to, its rows weighed by `row`.
fn sums_of_columns(row: &Matrix, matrix: &Matrix) -> CubeTensor {
    let (places, batches) = places(row, matrix);
    add_up(matrix.tensor, [batches, matrix.rows, matrix.columns], |cubes, count, parts, sums| {
        add_rows::launch(
            &matrix.tensor.client,
            cubes,
            CubeDim::new_1d(UNITS as u32),
            arg(row.tensor),
            arg(matrix.tensor),
            arg(sums),
            places,
            parts,
            count,
        );
    })
}

/// `[B, rows]`: what every row of `matrix` adds up to, its columns weighed by `row`.
fn sums_of_rows(row: &Matrix, matrix: &Matrix) -> CubeTensor {
    let (places, batches) = places(row, matrix);
    let product = empty(matrix.tensor, [batches, matrix.rows]);
    let count = batches * matrix.rows.div_ceil(ROWS);
    add_columns::launch(
        &matrix.tensor.client,
        workgroups(count),
        CubeDim::new_1d(UNITS as u32),
        arg(row.tensor),
        arg(matrix.tensor),
        arg(&product),
        places,
        count,
    );
    product
}

#[cube(launch)]
fn add_rows(weights: &[f32], matrix: &[f32], sums: &mut [f32], places: Places, parts: usize, count: usize) {
    let Places { weights_batch, weights_step, matrix_batch, row_step, rows, columns } = places;
    let share = share(rows, columns, parts, count);
    let weight = share.matrix * weights_batch;
    let entry = share.matrix * matrix_batch + share.column;
    let mut row = share.row;
    let mut sum = 0.0f32;
    while row + comptime!((AT_ONCE - 1) * STEP) < share.end {
        #[unroll]
        for next in 0..AT_ONCE {
            let at = row + next * STEP;
            sum += matrix[entry + at * row_step] * weights[weight + at * weights_step];
        }
        row += comptime!(AT_ONCE * STEP);
    }
    while row < share.end {
        sum += matrix[entry + row * row_step] * weights[weight + row * weights_step];
        row += STEP;
    }
    leave(sum, share, columns, sums);
}

#[cube(launch)]
fn add_columns(weights: &[f32], matrix: &[f32], sums: &mut [f32], places: Places, count: usize) {
    let Places { weights_batch, weights_step, matrix_batch, row_step, rows, columns } = places;
    let unit = UNIT_POS as usize;
    let (lane, group) = (unit % LANES, unit / LANES);
    let cube = usize::min(CUBE_POS, count - 1);
    let across = rows.div_ceil(ROWS);
    let (batch, first) = (cube / across, cube % across * ROWS);
    let (weight, start) = (batch * weights_batch, batch * matrix_batch);
    let own = first + group * AT_ONCE;
    let last = rows - 1;
    let entry_a = start + usize::min(own, last) * row_step;
    let entry_b = start + usize::min(own + 1, last) * row_step;
    let entry_c = start + usize::min(own + 2, last) * row_step;
    let entry_d = start + usize::min(own + 3, last) * row_step;

    let mut a = 0.0f32;
    let mut b = 0.0f32;
    let mut c = 0.0f32;
    let mut d = 0.0f32;
    let mut column = lane;
    while column < columns {
        let by = weights[weight + column * weights_step];
        a += matrix[entry_a + column] * by;
        b += matrix[entry_b + column] * by;
        c += matrix[entry_c + column] * by;
        d += matrix[entry_d + column] * by;
        column += LANES;
    }
    // Of every row 32 numbers; eight threads take four each, and one the eight that they leave.
    let mut lanes = Shared::<[f32]>::new_slice(comptime!(ROWS * LANES));
    let at = group * comptime!(AT_ONCE * LANES) + lane;
    lanes[at] = a;
    lanes[at + LANES] = b;
    lanes[at + comptime!(2 * LANES)] = c;
    lanes[at + comptime!(3 * LANES)] = d;
    let mut halves = Shared::<[f32]>::new_slice(UNITS);
    sync_cube();
    let from = unit * comptime!(ROWS * LANES / UNITS);
    halves[unit] = (lanes[from] + lanes[from + 1]) + (lanes[from + 2] + lanes[from + 3]);
    sync_cube();
    if unit < ROWS && first + unit < rows {
        let mut sum = 0.0f32;
        #[unroll]
        for part in 0..comptime!(UNITS / ROWS) {
            sum += halves[unit * comptime!(UNITS / ROWS) + part];
        }
        sums[batch * rows + first + unit] = sum;
    }
}
