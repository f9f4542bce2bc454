//! The kernels: one computes tiles of a product, or of parts of its sums, another adds up the parts.

#![expect(clippy::trivially_copy_pass_by_ref, reason = "registers, which a kernel is handed like a slice")]

use super::plan::{Contiguous, FactorLayout, LANES, Plan, SLICE, UNROLL};
use crate::model::ops::gpu::prelude::*;

/// How a factor's numbers are addressed: strides and last indices, in units of the vectors that are read.
#[derive(CubeType, CubeLaunch, Clone, Copy)]
pub(super) struct Strides {
    /// Stride of the first batch axis.
    pub(super) outer: usize,
    /// Stride of the second.
    pub(super) middle: usize,
    /// Stride of the axis that is not contiguous.
    pub(super) across: usize,
    /// Stride of the contiguous axis, used where numbers are read one by one.
    pub(super) along: usize,
    /// Last index of the axis that is not contiguous.
    pub(super) last_across: usize,
    /// Last index of the contiguous axis.
    pub(super) last_along: usize,
}

#[derive(CubeType, CubeLaunch, Clone, Copy)]
pub(super) struct Sizes {
    pub(super) rows: usize,
    pub(super) columns: usize,
    /// Terms of a sum.
    pub(super) inner: usize,
    /// Terms of a part, whole slices.
    pub(super) length: usize,
    pub(super) parts: usize,
    /// Length of the second batch axis.
    pub(super) middle: usize,
    /// Number of workgroups.
    pub(super) count: usize,
}

/// Where a workgroup's tile finds its numbers of a factor.
#[derive(CubeType, Clone, Copy)]
struct Source {
    /// Offset of the matrix.
    start: usize,
    /// The tile's first row or column.
    free: usize,
    strides: Strides,
}

/// Writes `[outer, middle, parts, rows, columns]`: a workgroup computes a tile of one part of one matrix.
#[cube(launch)]
pub(super) fn multiply_tiles<A: Size, B: Size, C: Size>(
    left: &[Vector<f32, A>],
    right: &[Vector<f32, B>],
    product: &mut [Vector<f32, C>],
    left_strides: Strides,
    right_strides: Strides,
    sizes: Sizes,
    #[comptime] plan: Plan,
) {
    let Sizes { rows, columns, inner, length, parts, middle, count } = sizes;
    let unit = UNIT_POS as usize;
    let cube = usize::min(CUBE_POS, count - 1);
    let across = columns.div_ceil(comptime!(plan.columns * LANES * VECTOR_SIZE));
    let down = rows.div_ceil(comptime!(plan.rows * LANES * VECTOR_SIZE));
    let (column_tile, rest) = (cube % across, cube / across);
    let (row_tile, matrix) = (rest % down, rest / down);
    let (part, batch) = (matrix % parts, matrix / parts);
    let first_row = row_tile * comptime!(plan.rows * LANES * VECTOR_SIZE);
    let first_column = column_tile * comptime!(plan.columns * LANES * VECTOR_SIZE);
    let begin = part * length;
    let end = usize::min(begin + length, inner);
    let terms = end - begin;
    let slices = terms.div_ceil(SLICE);
    let left_source = source(left_strides, batch, middle, first_row);
    let right_source = source(right_strides, batch, middle, first_column);

    // The threads of a warp form a grid of four rows by eight columns, which reads the fewest vectors from shared memory.
    let row = unit / 64 * 4 + unit % 32 / 8;
    let column = unit / 32 % 2 * 8 + unit % 8;
    let mut sums = Array::<Vec4>::new(comptime!(plan.rows * VECTOR_SIZE * plan.columns));
    #[unroll]
    for at in 0..comptime!(plan.rows * VECTOR_SIZE * plan.columns) {
        sums[at] = Vec4::new(0.0);
    }
    // Double buffering: while one slice is multiplied, the next is stored.
    let mut tiles = Shared::<[Vec4]>::new_slice(comptime!(2 * plan.buffer()));
    let mut stage = Array::<Vec4>::new(VECTOR_SIZE);
    load_slice::<A, B>(left, right, &mut stage, &left_source, &right_source, begin, plan);
    store_slice(&mut tiles, &stage, 0usize, terms, plan);
    sync_cube();
    for slice in 0..slices {
        let next = slice + 1;
        if next < slices {
            let first = begin + next * SLICE;
            load_slice::<A, B>(left, right, &mut stage, &left_source, &right_source, first, plan);
        }
        let buffer = slice % 2 * comptime!(plan.buffer());
        let left_at = buffer + row;
        let right_at = buffer + comptime!(plan.left.slice()) + column;
        for round in 0..comptime!(SLICE / UNROLL) {
            #[unroll]
            for term in 0..UNROLL {
                let term = round * UNROLL + term;
                let left_line = left_at + term * comptime!(plan.left.stride());
                let right_line = right_at + term * comptime!(plan.right.stride());
                let mut right_vectors = Sequence::<Vec4>::new();
                #[unroll]
                for c in 0..comptime!(plan.columns) {
                    let vector = tiles[right_line + comptime!(c * LANES)];
                    right_vectors.push(vector);
                }
                #[unroll]
                for r in 0..comptime!(plan.rows) {
                    let vector = tiles[left_line + comptime!(r * LANES)];
                    #[unroll]
                    for lane in 0..VECTOR_SIZE {
                        let number = Vec4::new(vector.extract(lane));
                        #[unroll]
                        for c in 0..comptime!(plan.columns) {
                            sums[comptime!((r * VECTOR_SIZE + lane) * plan.columns + c)] +=
                                number * right_vectors[c];
                        }
                    }
                }
            }
        }
        if next < slices {
            let buffer = next % 2 * comptime!(plan.buffer());
            store_slice(&mut tiles, &stage, buffer, terms - next * SLICE, plan);
        }
        sync_cube();
    }

    #[unroll]
    for r in 0..comptime!(plan.rows) {
        #[unroll]
        for lane in 0..VECTOR_SIZE {
            let own = first_row + (row + comptime!(r * LANES)) * VECTOR_SIZE + lane;
            if own < rows {
                let line = (matrix * rows + own) * columns;
                #[unroll]
                for c in 0..comptime!(plan.columns) {
                    let first = first_column + (column + comptime!(c * LANES)) * VECTOR_SIZE;
                    let numbers = sums[comptime!((r * VECTOR_SIZE + lane) * plan.columns + c)];
                    write::<C>(product, numbers, line, first, columns, comptime!(plan.written));
                }
            }
        }
    }
}

#[cube]
fn source(strides: Strides, batch: usize, middle: usize, free: usize) -> Source {
    let start = batch / middle * strides.outer + batch % middle * strides.middle;
    Source { start, free, strides }
}

/// The first vector, along the free axis of a tile, of the 4 x 4 block that a thread loads. Where the terms of a sum are contiguous,
/// two neighbouring threads read eight of them: a whole memory transaction, and blocks that use different banks of shared memory.
#[cube]
fn free_vector(unit: usize, #[comptime] layout: FactorLayout) -> usize {
    let vectors = comptime!(layout.vectors);
    if comptime!(layout.contiguous == Contiguous::Inner) { unit / 2 % vectors } else { unit % vectors }
}

/// The first vector of that block along the terms of a slice.
#[cube]
fn inner_vector(unit: usize, #[comptime] layout: FactorLayout) -> usize {
    if comptime!(layout.contiguous == Contiguous::Inner) {
        unit / comptime!(2 * layout.vectors) * 2 + unit % 2
    } else {
        unit / comptime!(layout.vectors)
    }
}

/// Loads this thread's block of the slice that begins at term `first` into registers, of either factor; the last threads load none.
#[cube]
fn load_slice<A: Size, B: Size>(
    left: &[Vector<f32, A>],
    right: &[Vector<f32, B>],
    stage: &mut Array<Vec4>,
    left_source: &Source,
    right_source: &Source,
    first: usize,
    #[comptime] plan: Plan,
) {
    let unit = UNIT_POS as usize;
    if unit < comptime!(plan.left.units()) {
        load::<A>(left, stage, left_source, unit, first, comptime!(plan.left));
    } else if unit < comptime!(plan.left.units() + plan.right.units()) {
        let own = unit - comptime!(plan.left.units());
        load::<B>(right, stage, right_source, own, first, comptime!(plan.right));
    }
}

/// Loads four vectors along the contiguous axis. Indices are clamped to the factor: rows and columns past its end are not written to
/// the product, and terms past its end are zeroed by `store`. The numbers are not used here, so that no thread waits for them.
#[cube]
fn load<N: Size>(
    factor: &[Vector<f32, N>],
    stage: &mut Array<Vec4>,
    source: &Source,
    unit: usize,
    first: usize,
    #[comptime] layout: FactorLayout,
) {
    let contiguous = comptime!(layout.contiguous);
    let free = source.free + free_vector(unit, layout) * VECTOR_SIZE;
    let inner = first + inner_vector(unit, layout) * VECTOR_SIZE;
    let along = if comptime!(contiguous == Contiguous::Inner) { inner } else { free };
    #[unroll]
    for line in 0..VECTOR_SIZE {
        let across = if comptime!(contiguous == Contiguous::Inner) { free + line } else { inner + line };
        let begin = source.start + usize::min(across, source.strides.last_across) * source.strides.across;
        let mut loaded = Vec4::empty();
        if comptime!(layout.size == VECTOR_SIZE) {
            let vector = factor[begin + usize::min(along / VECTOR_SIZE, source.strides.last_along)];
            #[unroll]
            for lane in 0..VECTOR_SIZE {
                loaded.insert(lane, vector.extract(lane));
            }
        } else {
            #[unroll]
            for lane in 0..VECTOR_SIZE {
                let at = usize::min(along + lane, source.strides.last_along) * source.strides.along;
                let number = factor[begin + at];
                loaded.insert(lane, number.extract(0usize));
            }
        }
        stage[line] = loaded;
    }
}

/// Stores what `load_slice` has loaded in shared memory, from vector `buffer` on. `terms`: the number of terms that are left.
#[cube]
fn store_slice(tiles: &mut [Vec4], stage: &Array<Vec4>, buffer: usize, terms: usize, #[comptime] plan: Plan) {
    let unit = UNIT_POS as usize;
    if unit < comptime!(plan.left.units()) {
        store(tiles, stage, buffer, unit, terms, comptime!(plan.left));
    } else if unit < comptime!(plan.left.units() + plan.right.units()) {
        let own = unit - comptime!(plan.left.units());
        let start = buffer + comptime!(plan.left.slice());
        store(tiles, stage, start, own, terms, comptime!(plan.right));
    }
}

/// Stores a thread's block, one vector per term. Terms past the end become 0 in both factors, whatever was loaded for them.
#[cube]
fn store(
    tiles: &mut [Vec4],
    stage: &Array<Vec4>,
    start: usize,
    unit: usize,
    terms: usize,
    #[comptime] layout: FactorLayout,
) {
    let inner = inner_vector(unit, layout) * VECTOR_SIZE;
    let first = start + inner * comptime!(layout.stride()) + free_vector(unit, layout);
    #[unroll]
    for line in 0..VECTOR_SIZE {
        let mut term = Vec4::empty();
        if comptime!(layout.contiguous == Contiguous::Inner) {
            #[unroll]
            for lane in 0..VECTOR_SIZE {
                let vector = stage[lane];
                term.insert(lane, vector.extract(line));
            }
        } else {
            term = stage[line];
        }
        if inner + line >= terms {
            term = Vec4::new(0.0);
        }
        tiles[first + comptime!(line * layout.stride())] = term;
    }
}

/// Writes neighbouring numbers of the row of the product that begins at offset `line`, from column `first` on.
#[cube]
fn write<C: Size>(
    product: &mut [Vector<f32, C>],
    numbers: Vec4,
    line: usize,
    first: usize,
    columns: usize,
    #[comptime] size: usize,
) {
    if comptime!(size == VECTOR_SIZE) {
        if first < columns {
            let mut vector = Vector::<f32, C>::empty();
            #[unroll]
            for lane in 0..VECTOR_SIZE {
                vector.insert(lane, numbers.extract(lane));
            }
            product[(line + first) / VECTOR_SIZE] = vector;
        }
    } else {
        #[unroll]
        for lane in 0..VECTOR_SIZE {
            if first + lane < columns {
                product[line + first + lane] = Vector::<f32, C>::new(numbers.extract(lane));
            }
        }
    }
}

/// Adds up the parts of every matrix, `partials` `[matrices, parts, vectors]`: one thread per vector of the product.
#[cube(launch)]
pub(super) fn add_parts<N: Size>(
    partials: &[Vector<f32, N>],
    product: &mut [Vector<f32, N>],
    vectors: usize,
    all_vectors: usize,
    #[comptime] parts: usize,
) {
    let at = ABSOLUTE_POS;
    if at < all_vectors {
        let first = at / vectors * comptime!(parts) * vectors + at % vectors;
        let mut sum = Vector::<f32, N>::new(0.0);
        #[unroll]
        for part in 0..parts {
            sum += partials[first + part * vectors];
        }
        product[at] = sum;
    }
}
