//! How a product is divided into tiles, and what its kernel is specialised for at compile time.

use crate::model::ops::gpu::VECTOR_SIZE;

/// Threads across a tile, and as many down.
pub(super) const LANES: usize = 16;
/// Threads of a workgroup.
pub(super) const UNITS: usize = LANES * LANES;
/// Terms of a slice: what a workgroup holds in shared memory at a time.
pub(super) const SLICE: usize = 16;
/// Terms per iteration of an unrolled loop, so that their reads are issued ahead of the products.
pub(super) const UNROLL: usize = 8;

/// The axis along which a factor's numbers are contiguous.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Contiguous {
    /// The inner (contracted) axis: the terms of a sum.
    Inner,
    /// The free axis, which the product has too: the rows of the left factor, or the columns of the right one.
    Free,
}

/// How a factor is read from global memory, and laid out in shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct FactorLayout {
    pub(super) contiguous: Contiguous,
    /// Numbers per read: [`VECTOR_SIZE`] or 1.
    pub(super) size: usize,
    /// Vectors along the rows of a tile, or along its columns for the right factor.
    pub(super) vectors: usize,
}

impl FactorLayout {
    /// Distance, in vectors, between two terms in shared memory: padded by one, so that threads that write different terms use
    /// different banks.
    pub(super) const fn stride(self) -> usize {
        self.vectors + 1
    }

    /// Size of a slice in shared memory, in vectors.
    pub(super) const fn slice(self) -> usize {
        SLICE * self.stride()
    }

    /// Threads that load it: each loads a block of four vectors.
    pub(super) const fn units(self) -> usize {
        self.vectors * (SLICE / VECTOR_SIZE)
    }
}

/// The compile-time parameters of `multiply_tiles`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Plan {
    /// Vectors of rows per thread.
    pub(super) rows: usize,
    /// Vectors of columns per thread.
    pub(super) columns: usize,
    pub(super) left: FactorLayout,
    pub(super) right: FactorLayout,
    /// Numbers per write of the product.
    pub(super) written: usize,
}

impl Plan {
    /// Size of a slice of both factors in shared memory, in vectors.
    pub(super) const fn buffer(self) -> usize {
        self.left.slice() + self.right.slice()
    }
}

/// How a product is divided among workgroups.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tiling {
    /// Vectors of rows per thread, 1 or 2.
    pub(super) rows: usize,
    /// Vectors of columns per thread, 1 or 2.
    pub(super) columns: usize,
    /// Parts that every sum is split into.
    pub(super) parts: usize,
}

impl Tiling {
    /// Rows and columns of a workgroup's tile.
    pub(super) const fn tile(self) -> [usize; 2] {
        [self.rows * LANES * VECTOR_SIZE, self.columns * LANES * VECTOR_SIZE]
    }
}
