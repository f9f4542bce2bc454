//! Products in float32 by our own tiled kernel: a workgroup computes a tile of the product, a thread a block of it in registers.
//!
//! Both factors are staged through shared memory in slices of a few terms of the sums, in the same layout whichever way they lie in
//! global memory, so that threads read whole vectors; while a slice is multiplied, the next is loaded. Tiles are as large as
//! possible without leaving a part of the GPU idle. Where even small tiles are too few, the sums are split into parts, which a
//! second kernel adds up, always in the same order.

mod kernels;
mod plan;

#[cfg(test)]
mod gpu_tests;

use burn::tensor::DType;

use self::kernels::{SizesLaunch, Strides, StridesLaunch, add_parts, multiply_tiles};
use self::plan::{Contiguous, FactorLayout, LANES, Plan, SLICE, Tiling, UNITS};
use crate::model::ops::gpu::prelude::*;
use crate::model::ops::gpu::{is_indexable, read_size};

/// Sums of fewer terms are not split.
const MIN_SPLIT_TERMS: usize = 512;
/// Fewest slices of a part.
const MIN_PART_SLICES: usize = 8;
/// Most parts of a sum.
const MAX_PARTS: usize = 8;

/// Multiprocessors assumed of a GPU that does not report them: an H100's.
const MULTIPROCESSORS: usize = 132;
/// Multiply-adds of a multiprocessor per clock.
const PRODUCTS_PER_CLOCK: usize = 128;
/// Clocks of a slice besides its products.
const SLICE_CLOCKS: usize = 150;
/// Latency of global memory, in clocks.
const MEMORY_CLOCKS: usize = 900;
/// Overhead of another launch, in clocks.
const LAUNCH_CLOCKS: usize = 4000;
/// Partial sums that are written and read again per clock.
const PARTIALS_PER_CLOCK: usize = 400;

/// Whether [`multiply`] supports these factors: float32, at most two batch axes, no more numbers than the kernel can index.
pub(super) fn supports(left: &CubeTensor, right: &CubeTensor) -> bool {
    Problem::new(left, right).is_some()
}

/// Writes `left right` into `product`, which is contiguous; none for factors that it does not [support](supports). Axes before the
/// last two are batch axes, broadcast where they have length 1.
pub(super) fn multiply(left: &CubeTensor, right: &CubeTensor, product: &CubeTensor) -> Option<()> {
    Problem::new(left, right).map(|problem| problem.launch(product))
}

#[derive(Clone, Copy)]
struct Axis {
    length: usize,
    /// Distance from a number to the next; 0 if the length is 1.
    stride: usize,
}

/// The four axes of a factor, with leading axes of length 1 where it has fewer; none where it has more.
fn axes(factor: &CubeTensor) -> Option<[Axis; 4]> {
    let (shape, strides) = (factor.shape(), factor.meta.strides());
    let missing = 4_usize.checked_sub(shape.num_dims())?;
    Some(std::array::from_fn(|axis| match axis.checked_sub(missing) {
        Some(axis) => Axis { length: shape[axis], stride: if shape[axis] > 1 { strides[axis] } else { 0 } },
        None => Axis { length: 1, stride: 0 },
    }))
}

/// Whether the kernel can index a factor's last number.
fn can_index(axes: &[Axis; 4]) -> bool {
    is_indexable(axes.iter().map(|axis| axis.length.saturating_sub(1) * axis.stride).sum())
}

/// A factor, and how its numbers are addressed.
struct Factor<'a> {
    tensor: &'a CubeTensor,
    contiguous: Contiguous,
    /// Numbers per read.
    size: usize,
    strides: Strides,
}

impl<'a> Factor<'a> {
    /// `outer` and `middle`: the batch axes; `free`: the axis that the product has too; `inner`: that of the sums' terms.
    fn new(tensor: &'a CubeTensor, [outer, middle]: [Axis; 2], free: Axis, inner: Axis) -> Self {
        let is_inner = inner.stride == 1 || (free.stride != 1 && inner.stride < free.stride);
        let (contiguous, along, across) =
            if is_inner { (Contiguous::Inner, inner, free) } else { (Contiguous::Free, free, inner) };
        let lengths = [along.length, across.stride, middle.stride, outer.stride];
        let size = read_size(tensor, along.stride, &lengths);
        Self {
            tensor,
            contiguous,
            size,
            strides: Strides {
                outer: outer.stride / size,
                middle: middle.stride / size,
                across: across.stride / size,
                along: along.stride,
                last_across: across.length - 1,
                last_along: along.length / size - 1,
            },
        }
    }

    fn layout(&self, vectors: usize) -> FactorLayout {
        FactorLayout { contiguous: self.contiguous, size: self.size, vectors }
    }

    fn strides(&self) -> StridesLaunch {
        let Strides { outer, middle, across, along, last_across, last_along } = self.strides;
        StridesLaunch::new(outer, middle, across, along, last_across, last_along)
    }
}

/// A product to compute, and how it is divided among workgroups.
struct Problem<'a> {
    left: Factor<'a>,
    right: Factor<'a>,
    /// Lengths of the batch axes.
    batch: [usize; 2],
    rows: usize,
    columns: usize,
    /// Terms of a sum.
    inner: usize,
    tiling: Tiling,
}

impl<'a> Problem<'a> {
    fn new(left: &'a CubeTensor, right: &'a CubeTensor) -> Option<Self> {
        if [left, right].iter().any(|factor| factor.dtype != DType::F32) {
            return None;
        }
        let (left_axes, right_axes) = (axes(left)?, axes(right)?);
        let [left_outer, left_middle, down, left_inner] = left_axes;
        let [right_outer, right_middle, right_inner, across] = right_axes;
        let batch =
            [(left_outer, right_outer), (left_middle, right_middle)].map(|(a, b)| a.length.max(b.length));
        let (rows, columns, inner) = (down.length, across.length, left_inner.length);
        let is_empty = left_axes.iter().chain(&right_axes).any(|axis| axis.length == 0);
        if is_empty || !can_index(&left_axes) || !can_index(&right_axes) {
            return None;
        }
        let untuned = Self {
            left: Factor::new(left, [left_outer, left_middle], down, left_inner),
            right: Factor::new(right, [right_outer, right_middle], across, right_inner),
            batch,
            rows,
            columns,
            inner,
            tiling: Tiling { rows: 1, columns: 1, parts: 1 },
        };
        Some(Self { tiling: untuned.fastest()?, ..untuned })
    }

    /// Number of matrices of the batch.
    fn matrices(&self) -> usize {
        self.batch.iter().product()
    }

    /// Number of elements of the product.
    fn numbers(&self) -> usize {
        self.matrices() * self.rows * self.columns
    }

    /// The tiling with the least estimated time, of equals that with the largest tiles and fewest parts; none if none can run.
    fn fastest(&self) -> Option<Tiling> {
        let slices = self.inner.div_ceil(SLICE);
        let most =
            if self.inner < MIN_SPLIT_TERMS { 1 } else { (slices / MIN_PART_SLICES).clamp(1, MAX_PARTS) };
        let tiles = [2, 1].into_iter().flat_map(|rows| [2, 1].map(|columns| (rows, columns)));
        tiles
            .flat_map(|(rows, columns)| (1..=most).map(move |parts| Tiling { rows, columns, parts }))
            .filter(|tiling| self.fits(*tiling))
            .min_by_key(|tiling| self.clocks(*tiling))
    }

    /// Whether the device can run a tiling.
    fn fits(&self, tiling: Tiling) -> bool {
        let hardware = &self.left.tensor.client.properties().hardware;
        let shared_bytes = 2 * self.plan(tiling).buffer() * VECTOR_SIZE * size_of::<f32>();
        hardware.max_units_per_cube as usize >= UNITS
            && hardware.max_shared_memory_size >= shared_bytes
            && is_indexable(self.numbers() * tiling.parts)
    }

    /// A rough estimate of the time on an H100, in clocks: a multiprocessor computes its tiles one after another, or waits for memory
    /// if its concurrent workgroups have too little to compute.
    fn clocks(&self, tiling: Tiling) -> usize {
        let hardware = &self.left.tensor.client.properties().hardware;
        let multiprocessors = hardware.num_streaming_multiprocessors.map_or(MULTIPROCESSORS, |n| n as usize);
        let [tile_rows, tile_columns] = tiling.tile();
        let tiles = self.matrices() * self.rows.div_ceil(tile_rows) * self.columns.div_ceil(tile_columns);
        let rounds = (tiles * tiling.parts).div_ceil(multiprocessors.max(1));
        // Registers suffice for four workgroups of small tiles, and for two of large ones.
        let concurrent = (4 / (tiling.rows * tiling.columns)).max(2);
        let computing = rounds * (tile_rows * tile_columns * SLICE / PRODUCTS_PER_CLOCK + SLICE_CLOCKS);
        let slice = computing.max(rounds.div_ceil(concurrent) * MEMORY_CLOCKS);
        let slices = self.inner.div_ceil(SLICE).div_ceil(tiling.parts);
        let adding = if tiling.parts == 1 {
            0
        } else {
            LAUNCH_CLOCKS + tiling.parts * self.numbers() / PARTIALS_PER_CLOCK
        };
        (slices + 2) * slice + adding // plus loading the first slice, and writing the tile
    }

    fn plan(&self, Tiling { rows, columns, .. }: Tiling) -> Plan {
        let written = if self.columns.is_multiple_of(VECTOR_SIZE) { VECTOR_SIZE } else { 1 };
        let (left, right) = (self.left.layout(rows * LANES), self.right.layout(columns * LANES));
        Plan { rows, columns, left, right, written }
    }

    /// Writes the product into `product`.
    fn launch(&self, product: &CubeTensor) {
        let Self { left, right, rows, columns, inner, tiling, .. } = self;
        let [tile_rows, tile_columns] = tiling.tile();
        let plan = self.plan(*tiling);
        let length = inner.div_ceil(SLICE).div_ceil(tiling.parts) * SLICE;
        let parts = inner.div_ceil(length); // rounding to whole slices may need fewer parts
        let partials = (parts > 1).then(|| empty(product, [self.matrices(), parts, *rows, *columns]));
        let count = self.matrices() * parts * rows.div_ceil(tile_rows) * columns.div_ceil(tile_columns);
        let (client, units) = (&product.client, CubeDim::new_1d(UNITS as u32));
        multiply_tiles::launch(
            client,
            workgroups(count),
            units,
            left.size,
            right.size,
            plan.written,
            arg(left.tensor),
            arg(right.tensor),
            arg(partials.as_ref().unwrap_or(product)),
            left.strides(),
            right.strides(),
            SizesLaunch::new(*rows, *columns, *inner, length, parts, self.batch[1], count),
            plan,
        );
        if let Some(partials) = partials {
            let vectors = rows * columns / plan.written;
            let all_vectors = self.matrices() * vectors;
            let (cubes, units) = threads(all_vectors, UNITS);
            add_parts::launch(
                client,
                cubes,
                units,
                plan.written,
                arg(&partials),
                arg(product),
                vectors,
                all_vectors,
                parts,
            );
        }
    }
}
