//! Matrix products by the `gemm` crate.

use gemm::Parallelism;

use super::simd::Real;

/// A view of a matrix.
#[derive(Clone, Copy)]
pub(crate) struct Matrix<'a, T> {
    /// From its first entry on.
    values: &'a [T],
    rows: usize,
    columns: usize,
    /// Distance in memory to the next row, and to the next column.
    strides: [usize; 2],
}

impl<'a, T: Real + 'static> Matrix<'a, T> {
    /// The row-major matrix `[values.len() / columns, columns]`.
    pub fn new(values: &'a [T], columns: usize) -> Self {
        Self::strided(values, [values.len() / columns, columns], [columns, 1])
    }

    /// The matrix `[rows, columns]` whose rows and columns are `strides` apart.
    ///
    /// # Panics
    /// If there are too few values: a bug of the caller.
    pub fn strided(values: &'a [T], [rows, columns]: [usize; 2], strides: [usize; 2]) -> Self {
        let end = |count: usize, stride: usize| count.saturating_sub(1) * stride;
        let last = end(rows, strides[0]) + end(columns, strides[1]);
        assert!(rows * columns == 0 || last < values.len(), "{rows} x {columns} of {}", values.len());
        Self { values, rows, columns, strides }
    }

    /// The transpose.
    pub fn transposed(self) -> Self {
        let Self { values, rows, columns, strides: [down, across] } = self;
        Self { values, rows: columns, columns: rows, strides: [across, down] }
    }

    /// Adds the product `self other` to `into`, row-major, on this thread alone: for operations that run images in parallel.
    ///
    /// # Panics
    /// If the sizes do not match: a bug of the caller.
    pub fn times(self, other: Matrix<T>, into: &mut [T]) {
        assert!(
            into.len() == self.rows * other.columns,
            "{} x {} in {}",
            self.rows,
            other.columns,
            into.len()
        );
        self.multiply(other, into.as_mut_ptr(), true, Parallelism::None);
    }

    /// The product `self other`, row-major.
    ///
    /// # Panics
    /// If the sizes do not match: a bug of the caller.
    pub fn product(self, other: Matrix<T>, parallelism: Parallelism) -> Vec<T> {
        let count = self.rows * other.columns;
        if self.columns == 0 {
            return vec![T::default(); count];
        }
        let mut product = Vec::with_capacity(count);
        self.multiply(other, product.as_mut_ptr(), false, parallelism);
        // SAFETY: there is room for as many, and `multiply` has written all of them.
        #[expect(unsafe_code, reason = "clearing memory first takes as long as a small product")]
        unsafe {
            product.set_len(count);
        }
        product
    }

    /// Writes the product to `into`, row-major, or adds it to what is there; writes nothing if a side is 0.
    fn multiply(self, other: Matrix<T>, into: *mut T, adds: bool, parallelism: Parallelism) {
        let (m, n, k) = (self.rows, other.columns, self.columns);
        assert!(k == other.rows, "{m} x {k} times {} x {n}", other.rows);
        if m * n * k == 0 {
            return;
        }
        let [down, across] = self.strides.map(|stride| stride as isize);
        let [other_down, other_across] = other.strides.map(|stride| stride as isize);
        let (kept, one) = (T::from_f64(f64::from(u8::from(adds))), T::from_f64(1.0));
        let (left, right) = (self.values.as_ptr(), other.values.as_ptr());
        // SAFETY: both callers give room for m n values, which nothing else refers to; the last entries of both factors
        // lie within their slices, checked when they were made.
        #[expect(unsafe_code, reason = "the `gemm` crate takes raw pointers")]
        unsafe {
            gemm::gemm(
                m,
                n,
                k,
                into,
                1,
                n as isize,
                adds,
                left,
                across,
                down,
                right,
                other_across,
                other_down,
                kept,
                one,
                false,
                false,
                false,
                parallelism,
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_and_their_transposes_are_those_by_hand() {
        let (a, b) = ([1.0, 2.0, 3.0, 4.0, 5.0, 6.0], [1.0, 0.0, 2.0, -1.0, 1.0, 1.0]);
        let mut found = vec![1.0; 4];
        Matrix::new(&a, 3).times(Matrix::new(&b, 2), &mut found); // [2, 3] [3, 2]
        assert_eq!(found, [9.0, 2.0, 21.0, 2.0]);
        let product = |a: Matrix<f64>, b: Matrix<f64>| a.product(b, Parallelism::Rayon(0));
        assert_eq!(product(Matrix::new(&a, 3), Matrix::new(&b, 2)), [8.0, 1.0, 20.0, 1.0]);
        assert_eq!(product(Matrix::strided(&a, [2, 2], [3, 1]), Matrix::new(&b[..2], 1)), [1.0, 4.0]);
        assert_eq!(
            product(Matrix::strided(&[], [2, 0], [0, 1]), Matrix::strided(&[], [0, 1], [1, 1])),
            [0.0; 2]
        );
        let mut found = vec![0.0; 9];
        Matrix::new(&a, 3).transposed().times(Matrix::new(&b, 3), &mut found); // [3, 2] [2, 3]
        assert_eq!(found, [-3.0, 4.0, 6.0, -3.0, 5.0, 9.0, -3.0, 6.0, 12.0]);
    }
}
