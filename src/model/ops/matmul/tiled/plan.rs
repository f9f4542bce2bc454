//! How a product is shared out, and what its kernel is compiled for.

/// Numbers of a vector: 16 bytes, the most that a thread reads at once.
pub(super) const WIDE: usize = 4;
/// Threads across a tile, and as many down.
pub(super) const LANES: usize = 16;
/// Threads of a workgroup.
pub(super) const UNITS: usize = LANES * LANES;
/// Terms of a slice.
pub(super) const SLICE: usize = 16;
/// Terms whose products are written out one after another, so that what they read is asked for ahead.
pub(super) const AT_ONCE: usize = 8;

/// Which numbers of a factor lie side by side.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Side {
    /// The terms of a sum.
    Inner,
    /// Those of a column, of the left factor, or of a row, of the right one.
    Outer,
}

/// How a factor is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Way {
    pub(super) side: Side,
    /// Numbers that are read together: [`WIDE`] or 1.
    pub(super) size: usize,
}

/// What a kernel is compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Plan {
    /// Vectors of a thread down a tile.
    pub(super) rows: usize,
    /// Vectors of a thread across a tile.
    pub(super) columns: usize,
    pub(super) left: Way,
    pub(super) right: Way,
    /// Numbers that are written together.
    pub(super) written: usize,
}

impl Plan {
    /// Vectors down a tile.
    pub(super) const fn left_vectors(self) -> usize {
        self.rows * LANES
    }

    /// Vectors across a tile.
    pub(super) const fn right_vectors(self) -> usize {
        self.columns * LANES
    }

    /// Vectors from a term of the left factor to its next in shared memory: one more than there are, so that threads that write
    /// different terms meet different banks.
    pub(super) const fn left_line(self) -> usize {
        self.left_vectors() + 1
    }

    pub(super) const fn right_line(self) -> usize {
        self.right_vectors() + 1
    }

    /// Vectors of a slice of the left factor.
    pub(super) const fn left_room(self) -> usize {
        SLICE * self.left_line()
    }

    /// Vectors of a slice of both.
    pub(super) const fn buffer(self) -> usize {
        self.left_room() + SLICE * self.right_line()
    }

    /// Threads that read the left factor: a thread has a square of four vectors.
    pub(super) const fn left_units(self) -> usize {
        self.left_vectors() * (SLICE / WIDE)
    }

    pub(super) const fn right_units(self) -> usize {
        self.right_vectors() * (SLICE / WIDE)
    }
}

/// How a product is shared out.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shares {
    /// Vectors of a thread down a tile, 1 or 2.
    pub(super) rows: usize,
    /// Vectors of a thread across a tile, 1 or 2.
    pub(super) columns: usize,
    /// Parts of a sum.
    pub(super) parts: usize,
}

impl Shares {
    /// Rows and columns of a tile.
    pub(super) const fn tile(self) -> [usize; 2] {
        [self.rows * LANES * WIDE, self.columns * LANES * WIDE]
    }
}
