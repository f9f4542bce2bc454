//! Single-threaded matrix products, for operations that run images in parallel.

use gemm::Parallelism;

use super::simd::Real;

/// A view of a row-major matrix, or of its transpose.
#[derive(Clone, Copy)]
pub(crate) struct Matrix<'a, T> {
    values: &'a [T],
    rows: usize,
    columns: usize,
    /// Distance in memory to the next row, and to the next column.
    strides: [usize; 2],
}

impl<'a, T: Real + 'static> Matrix<'a, T> {
    /// The matrix `[values.len() / columns, columns]`.
    pub fn new(values: &'a [T], columns: usize) -> Self {
        Self { values, rows: values.len() / columns, columns, strides: [columns, 1] }
    }

    /// The transpose.
    pub fn transposed(self) -> Self {
        let Self { values, rows, columns, strides: [down, across] } = self;
        Self { values, rows: columns, columns: rows, strides: [across, down] }
    }

    /// Adds the product `self other` to `into`, row-major.
    ///
    /// # Panics
    /// If the sizes do not match: a bug of the caller.
    pub fn times(self, other: Matrix<T>, into: &mut [T]) {
        let (m, n, k) = (self.rows, other.columns, self.columns);
        assert!(k == other.rows && into.len() == m * n, "{m} x {k} times {} x {n}", other.rows);
        debug_assert!(self.values.len() == m * k && other.values.len() == k * n);
        if m * n * k == 0 {
            return;
        }
        let [down, across] = self.strides.map(|stride| stride as isize);
        let [other_down, other_across] = other.strides.map(|stride| stride as isize);
        let one = T::from_f64(1.0);
        let (into, left, right) = (into.as_mut_ptr(), self.values.as_ptr(), other.values.as_ptr());
        // SAFETY: every pointer is to a slice of as many values as its matrix has, checked above, the
        // strides are those of its rows and columns, and only `into`, borrowed mutably, is written.
        #[expect(unsafe_code, reason = "the `gemm` crate takes raw pointers")]
        unsafe {
            gemm::gemm(
                m,
                n,
                k,
                into,
                1,
                n as isize,
                true,
                left,
                across,
                down,
                right,
                other_across,
                other_down,
                one,
                one,
                false,
                false,
                false,
                Parallelism::None,
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
        let mut found = vec![0.0; 9];
        Matrix::new(&a, 3).transposed().times(Matrix::new(&b, 3), &mut found); // [3, 2] [2, 3]
        assert_eq!(found, [-3.0, 4.0, 6.0, -3.0, 5.0, 9.0, -3.0, 6.0, 12.0]);
    }
}
