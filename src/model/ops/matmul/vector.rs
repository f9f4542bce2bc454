//! Matrix-vector products, batched. Kernels for matrix-matrix products leave most of a GPU idle here: their number of
//! workgroups grows with the size of the product, which for the 50,000 tokens of a batch may be a single vector.
//!
//! A row-major matrix is read row by row in both directions:
//!
//! * matrix times column: 32 threads read a row, and add up their partial sums;
//! * row times matrix: one thread per column and some of the rows per workgroup, whose partial sums are added up afterwards.
//!
//! Where the rows are aligned to vectors of four numbers, threads read vectors: with single numbers too few reads are in flight to
//! use the memory's bandwidth.

use burn::tensor::DType;

use super::shape_of;
use crate::model::ops::gpu::columns::{COLUMNS, UNITS, UNROLL, add_up, share, write_sums};
use crate::model::ops::gpu::fold::total;
use crate::model::ops::gpu::prelude::*;
use crate::model::ops::gpu::{is_indexable, read_size};

/// Threads of a group that reads [`UNROLL`] rows together in `add_columns`.
const LANES: usize = 32;
/// Such groups of a workgroup.
const GROUPS: usize = UNITS / LANES;

/// `left right` where one of them is a row or a column; none where these kernels do not support it: factors that are not float32, that
/// have more than three axes or more numbers than the kernels can index, or a matrix of which neither axis is contiguous.
pub(super) fn multiply(left: &CubeTensor, right: &CubeTensor) -> Option<CubeTensor> {
    let is_supported = |factor: &CubeTensor| {
        let shape = factor.shape();
        factor.dtype == DType::F32
            && (2..=3).contains(&shape.num_dims())
            && is_indexable(shape.num_elements())
    };
    let has_units = left.client.properties().hardware.max_units_per_cube as usize >= UNITS;
    if !(has_units && is_supported(left) && is_supported(right)) {
        return None;
    }
    let [row, matrix] = match (Matrix::new(left), Matrix::new(right)) {
        (left, right) if left.rows == 1 => [left, right],
        (left, right) if right.columns == 1 => [right.transposed(), left.transposed()],
        _ => return None,
    };
    let product = if matrix.column_stride == 1 {
        sums_of_columns(&row, &matrix)
    } else if matrix.row_stride == 1 {
        sums_of_rows(&row, &matrix.transposed())
    } else {
        return None;
    };
    Some(CubeBackend::float_reshape(product, shape_of(left, right)))
}

/// The memory layout of a batch of matrices.
struct Matrix<'a> {
    tensor: &'a CubeTensor,
    batches: usize,
    rows: usize,
    columns: usize,
    /// Distance from one matrix to the next; 0 where one is shared by all.
    batch_stride: usize,
    row_stride: usize,
    column_stride: usize,
}

impl<'a> Matrix<'a> {
    fn new(tensor: &'a CubeTensor) -> Self {
        let (shape, strides) = (tensor.shape(), tensor.meta.strides());
        let last = shape.num_dims() - 1;
        let (batches, batch_stride) = if last == 2 { (shape[0], strides[0]) } else { (1, 0) };
        Self {
            tensor,
            batches,
            rows: shape[last - 1],
            columns: shape[last],
            batch_stride: if batches == 1 { 0 } else { batch_stride },
            row_stride: strides[last - 1],
            column_stride: strides[last],
        }
    }

    fn transposed(&self) -> Self {
        let Self { tensor, batches, rows, columns, batch_stride, row_stride, column_stride } = *self;
        let (rows, columns, row_stride, column_stride) = (columns, rows, column_stride, row_stride);
        Self { tensor, batches, rows, columns, batch_stride, row_stride, column_stride }
    }

    /// Numbers per read: four if every row begins at a multiple of a vector and holds whole vectors, else one.
    fn vector_size(&self) -> usize {
        let row_stride = if self.rows == 1 { 0 } else { self.row_stride };
        read_size(self.tensor, self.column_stride, &[self.columns, row_stride, self.batch_stride])
    }
}

/// Strides of the weights and of the matrix, and its size, in units of the vectors that are read.
#[derive(CubeType, CubeLaunch, Clone, Copy)]
struct Layout {
    weights_batch_stride: usize,
    weights_stride: usize,
    matrix_batch_stride: usize,
    row_stride: usize,
    rows: usize,
    columns: usize,
}

/// The [`Layout`] of `row` and `matrix`, whose numbers are read `row_size` and `size` at a time, and the number of matrices.
fn layout(row: &Matrix, matrix: &Matrix, [row_size, size]: [usize; 2]) -> (LayoutLaunch, usize) {
    let layout = LayoutLaunch::new(
        row.batch_stride / row_size,
        row.column_stride, // 1 where they are vectors
        matrix.batch_stride / size,
        matrix.row_stride / size,
        matrix.rows,
        matrix.columns / size,
    );
    (layout, row.batches.max(matrix.batches))
}

/// `[B, 1, columns]`: the sum of every column of `matrix`, with `row` as the weights of its rows.
fn sums_of_columns(row: &Matrix, matrix: &Matrix) -> CubeTensor {
    let size = matrix.vector_size();
    let (layout, batches) = layout(row, matrix, [1, size]);
    add_up(matrix.tensor, [batches, matrix.rows, matrix.columns], COLUMNS, |cubes, count, parts, sums| {
        add_rows::launch(
            &matrix.tensor.client,
            cubes,
            CubeDim::new_1d(UNITS as u32),
            size,
            arg(row.tensor),
            arg(matrix.tensor),
            arg(sums),
            layout,
            parts,
            count,
            COLUMNS / size,
        );
    })
}

/// `[B, rows]`: the sum of every row of `matrix`, with `row` as the weights of its columns.
fn sums_of_rows(row: &Matrix, matrix: &Matrix) -> CubeTensor {
    let size = row.vector_size().min(matrix.vector_size());
    let (layout, batches) = layout(row, matrix, [size, size]);
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
        layout,
        groups,
    );
    product
}

/// Sums every column: a thread per vector of columns, over its share of the rows.
#[cube(launch)]
fn add_rows<N: Size>(
    weights: &[f32],
    matrix: &[Vector<f32, N>],
    sums: &mut [Vector<f32, N>],
    layout: Layout,
    parts: usize,
    count: usize,
    #[comptime] lanes: usize,
) {
    let Layout { weights_batch_stride, weights_stride, matrix_batch_stride, row_stride, rows, columns } =
        layout;
    let share = share(rows, columns, parts, count, lanes);
    let step = comptime!(UNITS / lanes);
    let first_weight = share.matrix * weights_batch_stride;
    let first = share.matrix * matrix_batch_stride + share.column;
    let mut row = share.row;
    let mut sum = Vector::<f32, N>::new(0.0);
    while row + comptime!((UNROLL - 1) * step) < share.end {
        #[unroll]
        for next in 0..UNROLL {
            let at = row + comptime!(next * step);
            let weight = Vector::<f32, N>::new(weights[first_weight + at * weights_stride]);
            sum += matrix[first + at * row_stride] * weight;
        }
        row += comptime!(UNROLL * step);
    }
    while row < share.end {
        let weight = Vector::<f32, N>::new(weights[first_weight + row * weights_stride]);
        sum += matrix[first + row * row_stride] * weight;
        row += step;
    }
    write_sums::<N>(sum, share, columns, sums, lanes);
}

/// Sums every row, [`UNROLL`] rows per group of threads. A workgroup may have `groups` of several matrices, so that none is idle.
#[cube(launch)]
fn add_columns<N: Size>(
    weights: &[Vector<f32, N>],
    matrix: &[Vector<f32, N>],
    sums: &mut [f32],
    layout: Layout,
    groups: usize,
) {
    let Layout { weights_batch_stride, weights_stride, matrix_batch_stride, row_stride, rows, columns } =
        layout;
    let unit = UNIT_POS as usize;
    let (lane, group) = (unit % LANES, unit / LANES);
    // From the last rows to the first: in a training step this alternates with `add_rows`, and what that read last is still cached.
    // Excess groups repeat the sums of the first rows.
    let own = groups - 1 - usize::min(CUBE_POS * GROUPS + group, groups - 1);
    let across = rows.div_ceil(UNROLL);
    let (batch, first) = (own / across, own % across * UNROLL);
    let (first_weight, start) = (batch * weights_batch_stride, batch * matrix_batch_stride);

    let mut row_sums = Array::<Vector<f32, N>>::new(UNROLL);
    #[unroll]
    for next in 0..UNROLL {
        row_sums[next] = Vector::<f32, N>::new(0.0);
    }
    let mut column = lane;
    while column < columns {
        let weight = weights[first_weight + column * weights_stride];
        #[unroll]
        for next in 0..UNROLL {
            let row = usize::min(first + next, rows - 1);
            row_sums[next] += matrix[start + row * row_stride + column] * weight;
        }
        column += LANES;
    }
    // Every row has 32 partial sums: eight threads add up four each, and one thread the eight results.
    let mut partials = Shared::<[f32]>::new_slice(comptime!(UNITS * UNROLL));
    #[unroll]
    for next in 0..UNROLL {
        let row_sum = row_sums[next];
        partials[(group * UNROLL + next) * LANES + lane] = total::<N>(row_sum);
    }
    let mut fours = Shared::<[f32]>::new_slice(UNITS);
    sync_cube();
    let from = unit * UNROLL;
    fours[unit] = (partials[from] + partials[from + 1]) + (partials[from + 2] + partials[from + 3]);
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
