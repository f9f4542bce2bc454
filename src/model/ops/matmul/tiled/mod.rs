//! Products in float32 by a kernel of our own: a workgroup makes a tile of the product, a thread a block of it in its registers.
//!
//! Both factors come through shared memory in slices of a few terms of the sums, the same way round whichever way they lie, so
//! that a thread reads what it multiplies as whole vectors; while a slice is multiplied, the next is on its way from memory. Tiles
//! are as large as leaves none of a GPU without work. Where even small ones are too few, sums are made in parts, which
//! a second kernel adds up, always in the same order.

mod kernels;
mod plan;

#[cfg(test)]
mod gpu_tests;

use burn::backend::TensorMetadata;
use burn::tensor::DType;
use burn_cubecl::cubecl::prelude::*;
use burn_cubecl::tensor::CubeTensor;

use self::kernels::{PlacesLaunch, SizesLaunch, add_parts, multiply_tiles};
use self::plan::{Plan, SLICE, Shares, Side, UNITS, WIDE, Way};
use crate::model::ops::gpu::{arg, counts, empty, workgroups};

/// Sums of fewer terms stay whole.
const LONG: usize = 512;
/// Slices of a part, at least.
const SHORTEST: usize = 8;
/// Parts of a sum, at most.
const MOST: usize = 8;

/// Multiprocessors of a GPU that does not say: an H100's.
const MULTIPROCESSORS: usize = 132;
/// Products that a multiprocessor makes in a clock.
const PER_CLOCK: usize = 128;
/// Clocks of a slice beside its products.
const BESIDE: usize = 150;
/// Clocks until memory answers.
const MEMORY: usize = 900;
/// Clocks of another launch.
const LAUNCH: usize = 4000;
/// Numbers of parts that are written and read again in a clock.
const ADDED: usize = 400;

/// Whether [`multiply`] takes these factors: float32, of at most two axes before their matrices', of as many numbers as it counts.
pub(super) fn takes(left: &CubeTensor, right: &CubeTensor) -> bool {
    Problem::new(left, right).is_some()
}

/// Writes `left right` into `product`, which has no gaps; none of factors that it does not take ([`takes`]). Axes before their
/// matrices' are those of a batch, where one of length 1 is repeated.
pub(super) fn multiply(left: &CubeTensor, right: &CubeTensor, product: &CubeTensor) -> Option<()> {
    Problem::new(left, right).map(|problem| problem.launch(product))
}

#[derive(Clone, Copy)]
struct Axis {
    length: usize,
    /// From a number to the next; 0 where there is but one.
    step: usize,
}

/// The four axes of a factor, those that it lacks of length 1; none where it has more.
fn axes(factor: &CubeTensor) -> Option<[Axis; 4]> {
    let (shape, strides) = (factor.shape(), factor.meta.strides());
    let lacking = 4_usize.checked_sub(shape.num_dims())?;
    Some(std::array::from_fn(|axis| match axis.checked_sub(lacking) {
        Some(axis) => Axis { length: shape[axis], step: if shape[axis] > 1 { strides[axis] } else { 0 } },
        None => Axis { length: 1, step: 0 },
    }))
}

/// Whether the kernel can count the way to a factor's last number.
fn within_reach(axes: &[Axis; 4]) -> bool {
    counts(axes.iter().map(|axis| axis.length.saturating_sub(1) * axis.step).sum())
}

/// A factor, and how its numbers are found, as [`kernels::Places`] has it.
struct Factor<'a> {
    tensor: &'a CubeTensor,
    way: Way,
    outer: usize,
    middle: usize,
    across: usize,
    along: usize,
    last_across: usize,
    last_along: usize,
}

impl<'a> Factor<'a> {
    /// `wide`: the axis that the product has, too; `inner`: that of the sums' terms.
    fn new(tensor: &'a CubeTensor, [outer, middle]: [Axis; 2], wide: Axis, inner: Axis) -> Self {
        let is_inner = inner.step == 1 || (wide.step != 1 && inner.step < wide.step);
        let (side, along, across) =
            if is_inner { (Side::Inner, inner, wide) } else { (Side::Outer, wide, inner) };
        // A vector begins where one may, and holds nothing that is not the factor's.
        let starts = [along.length, across.step, middle.step, outer.step];
        let is_whole = along.step == 1
            && starts.iter().all(|start| start.is_multiple_of(WIDE))
            && tensor.handle.offset_start.unwrap_or(0).is_multiple_of(16);
        let size = if is_whole { WIDE } else { 1 };
        Self {
            tensor,
            way: Way { side, size },
            outer: outer.step / size,
            middle: middle.step / size,
            across: across.step / size,
            along: along.step,
            last_across: across.length - 1,
            last_along: along.length / size - 1,
        }
    }

    fn places(&self) -> PlacesLaunch {
        PlacesLaunch::new(self.outer, self.middle, self.across, self.along, self.last_across, self.last_along)
    }
}

/// A product that is to be made.
struct Problem<'a> {
    left: Factor<'a>,
    right: Factor<'a>,
    /// Lengths of the axes before a matrix' own.
    batch: [usize; 2],
    rows: usize,
    columns: usize,
    /// Terms of a sum.
    inner: usize,
    shares: Shares,
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
        if is_empty || !within_reach(&left_axes) || !within_reach(&right_axes) {
            return None;
        }
        let unshared = Self {
            left: Factor::new(left, [left_outer, left_middle], down, left_inner),
            right: Factor::new(right, [right_outer, right_middle], across, right_inner),
            batch,
            rows,
            columns,
            inner,
            shares: Shares { rows: 1, columns: 1, parts: 1 },
        };
        Some(Self { shares: unshared.fastest()?, ..unshared })
    }

    /// Matrices of the batch.
    fn matrices(&self) -> usize {
        self.batch.iter().product()
    }

    /// Numbers of the product.
    fn numbers(&self) -> usize {
        self.matrices() * self.rows * self.columns
    }

    /// The shares that take least; of those that take as much the largest tiles and fewest parts.
    fn fastest(&self) -> Option<Shares> {
        let slices = self.inner.div_ceil(SLICE);
        let most = if self.inner < LONG { 1 } else { (slices / SHORTEST).clamp(1, MOST) };
        let tiles = [2, 1].into_iter().flat_map(|rows| [2, 1].map(|columns| (rows, columns)));
        tiles
            .flat_map(|(rows, columns)| (1..=most).map(move |parts| Shares { rows, columns, parts }))
            .filter(|shares| self.fits(*shares))
            .min_by_key(|shares| self.clocks(*shares))
    }

    /// Whether the device can run it.
    fn fits(&self, shares: Shares) -> bool {
        let hardware = &self.left.tensor.client.properties().hardware;
        let room = 2 * self.plan(shares).buffer() * WIDE * size_of::<f32>();
        hardware.max_units_per_cube as usize >= UNITS
            && hardware.max_shared_memory_size >= room
            && counts(self.numbers() * shares.parts)
    }

    /// What it takes, roughly, on an H100: a multiprocessor makes its tiles one after another, or waits for memory if those
    /// that it has at the same time have too little to do.
    fn clocks(&self, shares: Shares) -> usize {
        let hardware = &self.left.tensor.client.properties().hardware;
        let multiprocessors = hardware.num_streaming_multiprocessors.map_or(MULTIPROCESSORS, |n| n as usize);
        let [tile_rows, tile_columns] = shares.tile();
        let tiles = self.matrices() * self.rows.div_ceil(tile_rows) * self.columns.div_ceil(tile_columns);
        let rounds = (tiles * shares.parts).div_ceil(multiprocessors.max(1));
        // Registers last for four workgroups of small tiles, and for two of large ones.
        let together = (4 / (shares.rows * shares.columns)).max(2);
        let multiplied = rounds * (tile_rows * tile_columns * SLICE / PER_CLOCK + BESIDE);
        let slice = multiplied.max(rounds.div_ceil(together) * MEMORY);
        let slices = self.inner.div_ceil(SLICE).div_ceil(shares.parts);
        let adding = if shares.parts == 1 { 0 } else { LAUNCH + shares.parts * self.numbers() / ADDED };
        (slices + 2) * slice + adding // the first slice is waited for, and the tile written
    }

    fn plan(&self, Shares { rows, columns, .. }: Shares) -> Plan {
        let written = if self.columns.is_multiple_of(WIDE) { WIDE } else { 1 };
        Plan { rows, columns, left: self.left.way, right: self.right.way, written }
    }

    /// Writes the product.
    fn launch(&self, product: &CubeTensor) {
        let Self { left, right, rows, columns, inner, shares, .. } = self;
        let [tile_rows, tile_columns] = shares.tile();
        let plan = self.plan(*shares);
        let length = inner.div_ceil(SLICE).div_ceil(shares.parts) * SLICE;
        let parts = inner.div_ceil(length); // whole slices may come to fewer parts
        let made = (parts > 1).then(|| empty(product, [self.matrices(), parts, *rows, *columns]));
        let count = self.matrices() * parts * rows.div_ceil(tile_rows) * columns.div_ceil(tile_columns);
        let (client, units) = (&product.client, CubeDim::new_1d(UNITS as u32));
        multiply_tiles::launch(
            client,
            workgroups(count),
            units,
            left.way.size,
            right.way.size,
            plan.written,
            arg(left.tensor),
            arg(right.tensor),
            arg(made.as_ref().unwrap_or(product)),
            left.places(),
            right.places(),
            SizesLaunch::new(*rows, *columns, *inner, length, parts, self.batch[1], count),
            plan,
        );
        if let Some(made) = made {
            let vectors = rows * columns / plan.written;
            let all = self.matrices() * vectors;
            let cubes = workgroups(all.div_ceil(UNITS));
            add_parts::launch(
                client,
                cubes,
                units,
                plan.written,
                arg(&made),
                arg(product),
                vectors,
                all,
                parts,
            );
        }
    }
}
