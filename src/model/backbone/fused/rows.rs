//! How a kernel distributes the rows of a tensor over threads: a power of two of threads per row, and several short rows per
//! workgroup. A thread takes every `units`-th vector of its row and keeps it in registers, so that a row is read once however
//! often its values are needed.

use burn::tensor::{DType, Shape};
use burn_cubecl::ops::numeric::empty_device_dtype;
use cubecl::zspace::striding::has_pitched_row_major_strides;

use crate::model::ops::gpu::prelude::*;

/// Threads of a workgroup that has several rows.
const WORKGROUP_THREADS: usize = 128;
/// Fewest and most threads of a row.
const ROW_THREADS: [usize; 2] = [32, 256];
/// Most vectors that a thread holds while the row can still get more threads.
const VECTORS_PER_THREAD: usize = 8;

/// How rows of one length are distributed over threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Split {
    /// Threads per row, a power of two.
    pub units: usize,
    /// Rows per workgroup.
    pub rows: usize,
    /// Most vectors of its row that a thread takes.
    pub steps: usize,
}

impl Split {
    /// For rows of `vectors` vectors, with the workgroups and their size; the last workgroups may have threads without a row.
    pub(super) fn new(vectors: usize, Rows { tensor, count, .. }: &Rows) -> (Self, CubeCount, CubeDim) {
        let max_units = tensor.client.properties().hardware.max_units_per_cube as usize;
        let [least, most] = ROW_THREADS;
        let units =
            vectors.div_ceil(VECTORS_PER_THREAD).next_power_of_two().max(least).min(most.min(max_units));
        let rows = (WORKGROUP_THREADS.min(max_units) / units).max(1);
        let split = Self { units, rows, steps: vectors.div_ceil(units) };
        (split, workgroups(count.div_ceil(rows)), CubeDim::new_1d(split.cube() as u32))
    }

    /// Threads per workgroup.
    pub(super) const fn cube(self) -> usize {
        self.units * self.rows
    }
}

/// A tensor as rows along its last axis.
pub(super) struct Rows {
    pub tensor: CubeTensor,
    /// Number of rows.
    pub count: usize,
    /// Elements per row.
    pub width: usize,
    /// Elements from the start of one row to that of the next: on CUDA it may exceed the width.
    pub stride: usize,
}

impl Rows {
    /// The rows of a tensor, which is copied only if they are not evenly spaced.
    pub(super) fn from_tensor(tensor: CubeTensor) -> Self {
        let meta = &tensor.meta;
        let spaced = tensor.is_contiguous() || has_pitched_row_major_strides(meta.shape(), meta.strides());
        let tensor = if spaced { tensor } else { into_contiguous(tensor) };
        let shape = tensor.shape();
        let axes = shape.num_dims();
        let width = shape[axes - 1];
        let stride = if tensor.is_contiguous() { width } else { tensor.meta.strides()[axes - 2] };
        Self { count: shape.num_elements() / width, width, stride, tensor }
    }

    /// The rows of a new, uninitialised tensor on the device of `like`.
    pub(super) fn empty(like: &CubeTensor, shape: Shape, dtype: DType) -> Self {
        Self::from_tensor(empty_device_dtype(like.client.clone(), like.device.clone(), shape, dtype))
    }

    /// The tensor as an argument of a kernel.
    pub(super) fn arg(&self) -> BufferArg {
        arg(&self.tensor)
    }
}

/// The largest vector size of 4, 2 and 1 that divides all of `lengths`.
pub(super) fn vector(lengths: &[usize]) -> usize {
    [4, 2].into_iter().find(|size| lengths.iter().all(|length| length.is_multiple_of(*size))).unwrap_or(1)
}

/// The index type that can address all of these tensors.
pub(super) fn address(tensors: &[&Rows]) -> AddressType {
    tensors.iter().map(|rows| rows.tensor.required_address_type()).max().unwrap_or_default()
}

/// The index of a thread's row; past the end for the last threads.
#[cube]
pub(super) fn own_row(#[comptime] split: Split) -> usize {
    CUBE_POS * comptime!(split.rows) + UNIT_POS as usize / comptime!(split.units)
}

/// The index of the vector of its row that a thread takes in this step; it may be past the row's end.
#[cube]
pub(super) fn own_vector(#[comptime] step: usize, #[comptime] split: Split) -> usize {
    UNIT_POS as usize % comptime!(split.units) + comptime!(step * split.units)
}

/// An index that is safe to read: that of the last element in place of those past the end.
#[cube]
pub(super) fn clamped(index: usize, count: usize) -> usize {
    usize::min(index, count - 1)
}
