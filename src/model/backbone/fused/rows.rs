//! How a kernel shares out the rows of a tensor: a power of two of threads a row, several rows a workgroup where they are
//! short. A thread takes every `units`-th vector of its row and holds it in registers, so that a row is read once however
//! often its numbers are needed.

use burn::backend::TensorMetadata;
use burn::tensor::{DType, Shape};
use burn_cubecl::cubecl;
use burn_cubecl::kernel::into_contiguous;
use burn_cubecl::ops::numeric::empty_device_dtype;
use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;
use cubecl::zspace::striding::has_pitched_row_major_strides;

use crate::model::ops::gpu::{arg, workgroups};

/// Threads of a workgroup that has several rows.
const CUBE: usize = 128;
/// Threads of a row: at least and at most.
const UNITS: [usize; 2] = [32, 256];
/// Vectors of a row that a thread holds before the row gets more threads.
const HELD: usize = 8;

/// How rows of so many vectors are shared out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Split {
    /// Threads of a row, a power of two.
    pub units: usize,
    /// Rows of a workgroup.
    pub rows: usize,
    /// Vectors that a thread takes of its row, at most.
    pub steps: usize,
}

impl Split {
    /// For rows of `vectors` vectors, on the device of `tensor`.
    pub(super) fn new(vectors: usize, tensor: &CubeTensor) -> Self {
        let there = tensor.client.properties().hardware.max_units_per_cube as usize;
        let [least, most] = UNITS;
        let units = vectors.div_ceil(HELD).next_power_of_two().max(least).min(most.min(there));
        Self { units, rows: (CUBE.min(there) / units).max(1), steps: vectors.div_ceil(units) }
    }

    /// Threads of a workgroup.
    pub(super) const fn cube(self) -> usize {
        self.units * self.rows
    }

    /// The workgroups for so many rows; the last have threads without one.
    pub(super) fn launch(self, rows: usize) -> (CubeCount, CubeDim) {
        (workgroups(rows.div_ceil(self.rows)), CubeDim::new_1d(self.cube() as u32))
    }
}

/// A tensor as rows along its last axis.
pub(super) struct Rows {
    pub tensor: CubeTensor,
    /// How many.
    pub count: usize,
    /// Numbers of a row.
    pub width: usize,
    /// Numbers from the start of one to that of the next: on CUDA more than their width.
    pub stride: usize,
}

impl Rows {
    /// Those of a tensor, copied only if they do not lie evenly spaced.
    pub(super) fn of(tensor: CubeTensor) -> Self {
        let meta = &tensor.meta;
        let spaced = tensor.is_contiguous() || has_pitched_row_major_strides(meta.shape(), meta.strides());
        let tensor = if spaced { tensor } else { into_contiguous(tensor) };
        let shape = tensor.shape();
        let axes = shape.num_dims();
        let width = shape[axes - 1];
        let stride = if tensor.is_contiguous() { width } else { tensor.meta.strides()[axes - 2] };
        Self { count: shape.num_elements() / width, width, stride, tensor }
    }

    /// Those of a tensor that is to be written, on the device of `like`.
    pub(super) fn empty(like: &CubeTensor, shape: Shape, dtype: DType) -> Self {
        Self::of(empty_device_dtype(like.client.clone(), like.device.clone(), shape, dtype))
    }

    /// As an argument of a kernel.
    pub(super) fn arg(&self) -> BufferArg {
        arg(&self.tensor)
    }
}

/// How many numbers lie in a vector that divides all of `lengths`.
pub(super) fn vector(lengths: &[usize]) -> usize {
    [4, 2].into_iter().find(|size| lengths.iter().all(|length| length.is_multiple_of(*size))).unwrap_or(1)
}

/// The numbers that index all of these.
pub(super) fn address(tensors: &[&Rows]) -> AddressType {
    tensors.iter().map(|rows| rows.tensor.required_address_type()).max().unwrap_or_default()
}

/// The row of a thread.
#[cube]
pub(super) fn own_row(#[comptime] split: Split) -> usize {
    CUBE_POS * comptime!(split.rows) + UNIT_POS as usize / comptime!(split.units)
}

/// Which vector of its row a thread takes in this step; past the end, where there is none.
#[cube]
pub(super) fn own_vector(#[comptime] step: usize, #[comptime] split: Split) -> usize {
    UNIT_POS as usize % comptime!(split.units) + comptime!(step * split.units)
}

/// Which vector it may read: the last of the row in place of those past the end.
#[cube]
pub(super) fn within(vector: usize, vectors: usize) -> usize {
    usize::min(vector, vectors - 1)
}
