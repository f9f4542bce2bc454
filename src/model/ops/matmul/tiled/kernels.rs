//! The kernels: one makes tiles of a product, or of its parts, another adds the parts up.

#![expect(clippy::trivially_copy_pass_by_ref, reason = "registers, which a kernel is handed like a slice")]

use burn_cubecl::cubecl;
use cubecl::prelude::*;

use super::plan::{AT_ONCE, LANES, Plan, SLICE, Side, WIDE, Way};

/// A vector in shared memory and in registers.
type Each = Vector<f32, Const<WIDE>>;

/// How a factor's numbers are found: by steps, in what is read together.
#[derive(CubeType, CubeLaunch, Clone, Copy)]
pub(super) struct Places {
    /// Along the first axis of a batch.
    pub(super) outer: usize,
    /// Along the second.
    pub(super) middle: usize,
    /// To what does not lie beside a number.
    pub(super) across: usize,
    /// To what does, where numbers are read one by one.
    pub(super) along: usize,
    /// The last place across.
    pub(super) last_across: usize,
    /// The last place along, in what is read together.
    pub(super) last_along: usize,
}

#[derive(CubeType, CubeLaunch, Clone, Copy)]
pub(super) struct Sizes {
    pub(super) rows: usize,
    pub(super) columns: usize,
    /// Terms of a sum.
    pub(super) inner: usize,
    /// Terms of a part of it, whole slices.
    pub(super) length: usize,
    pub(super) parts: usize,
    /// Length of the second axis of a batch.
    pub(super) middle: usize,
    /// Workgroups.
    pub(super) count: usize,
}

/// Where a workgroup's tile has its numbers of a factor.
#[derive(CubeType, Clone, Copy)]
struct Source {
    /// The matrix' first number.
    start: usize,
    /// The tile's first row or column.
    wide: usize,
    across: usize,
    along: usize,
    last_across: usize,
    last_along: usize,
}

/// `[outer, middle, parts, rows, columns]`: a workgroup makes a tile of a part of a matrix.
#[cube(launch)]
pub(super) fn multiply_tiles<A: Size, B: Size, C: Size>(
    left: &[Vector<f32, A>],
    right: &[Vector<f32, B>],
    product: &mut [Vector<f32, C>],
    left_places: Places,
    right_places: Places,
    sizes: Sizes,
    #[comptime] plan: Plan,
) {
    let Sizes { rows, columns, inner, length, parts, middle, count } = sizes;
    let unit = UNIT_POS as usize;
    let cube = usize::min(CUBE_POS, count - 1);
    let across = columns.div_ceil(comptime!(plan.columns * LANES * WIDE));
    let down = rows.div_ceil(comptime!(plan.rows * LANES * WIDE));
    let (column_tile, above) = (cube % across, cube / across);
    let (row_tile, matrix) = (above % down, above / down);
    let (part, batch) = (matrix % parts, matrix / parts);
    let first_row = row_tile * comptime!(plan.rows * LANES * WIDE);
    let first_column = column_tile * comptime!(plan.columns * LANES * WIDE);
    let begin = part * length;
    let end = usize::min(begin + length, inner);
    let terms = end - begin;
    let slices = terms.div_ceil(SLICE);
    let left_source = source(left_places, batch, middle, first_row);
    let right_source = source(right_places, batch, middle, first_column);

    // Threads of a warp are eight across and four down, which reads the fewest vectors from shared memory.
    let row = unit / 64 * 4 + unit % 32 / 8;
    let column = unit / 32 % 2 * 8 + unit % 8;
    let mut sums = Array::<Each>::new(comptime!(plan.rows * WIDE * plan.columns));
    #[unroll]
    for at in 0..comptime!(plan.rows * WIDE * plan.columns) {
        sums[at] = Each::new(0.0);
    }
    // Two slices: while one is read, the other is written.
    let mut tiles = Shared::<[Each]>::new_slice(comptime!(2 * plan.buffer()));
    let mut stage = Array::<Each>::new(WIDE);
    read_slice::<A, B>(left, right, &mut stage, &left_source, &right_source, begin, plan);
    put_slice(&mut tiles, &stage, 0usize, terms, plan);
    sync_cube();
    for slice in 0..slices {
        let next = slice + 1;
        if next < slices {
            let first = begin + next * SLICE;
            read_slice::<A, B>(left, right, &mut stage, &left_source, &right_source, first, plan);
        }
        let buffer = slice % 2 * comptime!(plan.buffer());
        let left_at = buffer + row;
        let right_at = buffer + comptime!(plan.left_room()) + column;
        for round in 0..comptime!(SLICE / AT_ONCE) {
            #[unroll]
            for term in 0..AT_ONCE {
                let term = round * AT_ONCE + term;
                let left_line = left_at + term * comptime!(plan.left_line());
                let right_line = right_at + term * comptime!(plan.right_line());
                let mut beside = Sequence::<Each>::new();
                #[unroll]
                for c in 0..comptime!(plan.columns) {
                    let vector = tiles[right_line + comptime!(c * LANES)];
                    beside.push(vector);
                }
                #[unroll]
                for r in 0..comptime!(plan.rows) {
                    let vector = tiles[left_line + comptime!(r * LANES)];
                    #[unroll]
                    for lane in 0..WIDE {
                        let number = Each::new(vector.extract(lane));
                        #[unroll]
                        for c in 0..comptime!(plan.columns) {
                            sums[comptime!((r * WIDE + lane) * plan.columns + c)] += number * beside[c];
                        }
                    }
                }
            }
        }
        if next < slices {
            let buffer = next % 2 * comptime!(plan.buffer());
            put_slice(&mut tiles, &stage, buffer, terms - next * SLICE, plan);
        }
        sync_cube();
    }

    #[unroll]
    for r in 0..comptime!(plan.rows) {
        #[unroll]
        for lane in 0..WIDE {
            let own = first_row + (row + comptime!(r * LANES)) * WIDE + lane;
            if own < rows {
                let line = (matrix * rows + own) * columns;
                #[unroll]
                for c in 0..comptime!(plan.columns) {
                    let first = first_column + (column + comptime!(c * LANES)) * WIDE;
                    let numbers = sums[comptime!((r * WIDE + lane) * plan.columns + c)];
                    write::<C>(product, numbers, line, first, columns, comptime!(plan.written));
                }
            }
        }
    }
}

#[cube]
fn source(places: Places, batch: usize, middle: usize, wide: usize) -> Source {
    let start = batch / middle * places.outer + batch % middle * places.middle;
    Source {
        start,
        wide,
        across: places.across,
        along: places.along,
        last_across: places.last_across,
        last_along: places.last_along,
    }
}

/// How many vectors into a tile a thread's square begins. Where the terms of a sum lie side by side, two threads side by side read
/// eight of them: all that memory sends at once, and squares whose vectors then meet different banks of shared memory.
#[cube]
fn wide_of(unit: usize, #[comptime] vectors: usize, #[comptime] side: Side) -> usize {
    if comptime!(side == Side::Inner) { unit / 2 % vectors } else { unit % vectors }
}

/// At which vector of terms of a slice it begins.
#[cube]
fn inner_of(unit: usize, #[comptime] vectors: usize, #[comptime] side: Side) -> usize {
    if comptime!(side == Side::Inner) { unit / comptime!(2 * vectors) * 2 + unit % 2 } else { unit / vectors }
}

/// Reads this thread's square of the slice that begins at term `first`, of the factor that it reads; threads beyond both read none.
#[cube]
fn read_slice<A: Size, B: Size>(
    left: &[Vector<f32, A>],
    right: &[Vector<f32, B>],
    stage: &mut Array<Each>,
    left_source: &Source,
    right_source: &Source,
    first: usize,
    #[comptime] plan: Plan,
) {
    let unit = UNIT_POS as usize;
    if unit < comptime!(plan.left_units()) {
        let vectors = comptime!(plan.left_vectors());
        read::<A>(left, stage, left_source, unit, first, vectors, comptime!(plan.left));
    } else if unit < comptime!(plan.left_units() + plan.right_units()) {
        let vectors = comptime!(plan.right_vectors());
        let own = unit - comptime!(plan.left_units());
        read::<B>(right, stage, right_source, own, first, vectors, comptime!(plan.right));
    }
}

/// Four vectors along the factor's memory. Past its end its last numbers stand again: what a row or column beyond it comes to nobody
/// writes, and terms beyond it [`put`] leaves out. Nothing is done with what was read, so that nobody waits for it.
#[cube]
fn read<N: Size>(
    factor: &[Vector<f32, N>],
    stage: &mut Array<Each>,
    source: &Source,
    unit: usize,
    first: usize,
    #[comptime] vectors: usize,
    #[comptime] way: Way,
) {
    let side = comptime!(way.side);
    let wide = source.wide + wide_of(unit, vectors, side) * WIDE;
    let inner = first + inner_of(unit, vectors, side) * WIDE;
    let along = if comptime!(side == Side::Inner) { inner } else { wide };
    #[unroll]
    for line in 0..WIDE {
        let across = if comptime!(side == Side::Inner) { wide + line } else { inner + line };
        let begin = source.start + usize::min(across, source.last_across) * source.across;
        let mut each = Each::empty();
        if comptime!(way.size == WIDE) {
            let vector = factor[begin + usize::min(along / WIDE, source.last_along)];
            #[unroll]
            for lane in 0..WIDE {
                each.insert(lane, vector.extract(lane));
            }
        } else {
            #[unroll]
            for lane in 0..WIDE {
                let number = factor[begin + usize::min(along + lane, source.last_along) * source.along];
                each.insert(lane, number.extract(0usize));
            }
        }
        stage[line] = each;
    }
}

/// Puts what [`read_slice`] has read into shared memory, from vector `buffer` on. `terms`: how many of the sums are left.
#[cube]
fn put_slice(tiles: &mut [Each], stage: &Array<Each>, buffer: usize, terms: usize, #[comptime] plan: Plan) {
    let unit = UNIT_POS as usize;
    if unit < comptime!(plan.left_units()) {
        let vectors = comptime!(plan.left_vectors());
        put(tiles, stage, buffer, unit, terms, vectors, comptime!(plan.left.side));
    } else if unit < comptime!(plan.left_units() + plan.right_units()) {
        let vectors = comptime!(plan.right_vectors());
        let own = unit - comptime!(plan.left_units());
        let room = buffer + comptime!(plan.left_room());
        put(tiles, stage, room, own, terms, vectors, comptime!(plan.right.side));
    }
}

/// A thread's square, a vector a term. Terms past the end are 0 in both factors, whatever was read in their place.
#[cube]
fn put(
    tiles: &mut [Each],
    stage: &Array<Each>,
    room: usize,
    unit: usize,
    terms: usize,
    #[comptime] vectors: usize,
    #[comptime] side: Side,
) {
    let inner = inner_of(unit, vectors, side) * WIDE;
    let first = room + inner * comptime!(vectors + 1) + wide_of(unit, vectors, side);
    #[unroll]
    for line in 0..WIDE {
        let mut each = Each::empty();
        if comptime!(side == Side::Inner) {
            #[unroll]
            for lane in 0..WIDE {
                let vector = stage[lane];
                each.insert(lane, vector.extract(line));
            }
        } else {
            each = stage[line];
        }
        if inner + line >= terms {
            each = Each::new(0.0);
        }
        tiles[first + comptime!(line * (vectors + 1))] = each;
    }
}

/// Writes neighbouring numbers of the row that begins at number `line`, from column `first` on.
#[cube]
fn write<C: Size>(
    product: &mut [Vector<f32, C>],
    numbers: Each,
    line: usize,
    first: usize,
    columns: usize,
    #[comptime] size: usize,
) {
    if comptime!(size == WIDE) {
        if first < columns {
            let mut vector = Vector::<f32, C>::empty();
            #[unroll]
            for lane in 0..WIDE {
                vector.insert(lane, numbers.extract(lane));
            }
            product[(line + first) / WIDE] = vector;
        }
    } else {
        #[unroll]
        for lane in 0..WIDE {
            if first + lane < columns {
                product[line + first + lane] = Vector::<f32, C>::new(numbers.extract(lane));
            }
        }
    }
}

/// Adds up the parts of every matrix, `[matrices, parts, vectors]`: a thread a vector of the product, of `all`.
#[cube(launch)]
pub(super) fn add_parts<N: Size>(
    made: &[Vector<f32, N>],
    product: &mut [Vector<f32, N>],
    vectors: usize,
    all: usize,
    #[comptime] parts: usize,
) {
    let at = ABSOLUTE_POS;
    if at < all {
        let first = at / vectors * comptime!(parts) * vectors + at % vectors;
        let mut sum = Vector::<f32, N>::new(0.0);
        #[unroll]
        for part in 0..parts {
            sum += made[first + part * vectors];
        }
        product[at] = sum;
    }
}
