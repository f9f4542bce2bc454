//! Comparison of numbers within a tolerance; NaN, another shape, another length and an empty list fail as well.
//!
//! `assert_close` allows an absolute difference, `assert_close_to_largest` a share of the largest expected number, and
//! `distance` returns the largest difference. Values may be numbers, lists, lists of lists, or `(shape, values)`.

use std::fmt::Display;

/// Numbers that can be compared, in any container and of any precision.
pub trait Numbers {
    /// Sizes along the axes, outermost first; none for a single number.
    fn shape(&self) -> Vec<usize>;
    /// Every number, the last axis running fastest.
    fn values(&self) -> Vec<f64>;
}

macro_rules! number {
    ($($kind:ty),*) => {$(
        impl Numbers for $kind {
            fn shape(&self) -> Vec<usize> {
                Vec::new()
            }
            fn values(&self) -> Vec<f64> {
                vec![f64::from(*self)]
            }
        }
    )*};
}
number!(f32, f64, u8, u32);

impl<T: Numbers> Numbers for [T] {
    fn shape(&self) -> Vec<usize> {
        let rows: Vec<Vec<usize>> = self.iter().map(Numbers::shape).collect();
        let even = rows.windows(2).all(|pair| pair[0] == pair[1]);
        let inner = if even { rows.into_iter().next().unwrap_or_default() } else { rows.concat() };
        [vec![self.len()], inner].concat()
    }
    fn values(&self) -> Vec<f64> {
        self.iter().flat_map(Numbers::values).collect()
    }
}

impl<T: Numbers, const N: usize> Numbers for [T; N] {
    fn shape(&self) -> Vec<usize> {
        self.as_slice().shape()
    }
    fn values(&self) -> Vec<f64> {
        self.as_slice().values()
    }
}

impl<T: Numbers> Numbers for Vec<T> {
    fn shape(&self) -> Vec<usize> {
        self.as_slice().shape()
    }
    fn values(&self) -> Vec<f64> {
        self.as_slice().values()
    }
}

impl<T: Numbers + ?Sized> Numbers for &T {
    fn shape(&self) -> Vec<usize> {
        (**self).shape()
    }
    fn values(&self) -> Vec<f64> {
        (**self).values()
    }
}

/// A shape and the flat list of its values.
impl<S: AsRef<[usize]>, T: Numbers> Numbers for (S, T) {
    fn shape(&self) -> Vec<usize> {
        self.0.as_ref().to_vec()
    }
    fn values(&self) -> Vec<f64> {
        self.1.values()
    }
}

/// The pair of numbers with the largest difference.
struct Worst {
    at: usize,
    shape: Vec<usize>,
    found: f64,
    expected: f64,
    difference: f64,
    /// The largest |expected| of all pairs.
    largest: f64,
}

#[track_caller]
fn worst(name: &impl Display, found: &impl Numbers, expected: &impl Numbers) -> Worst {
    let shape = expected.shape();
    assert_eq!(found.shape(), shape, "{name}: shape (found, expected)");
    let (found, expected) = (found.values(), expected.values());
    assert_eq!(found.len(), expected.len(), "{name}: how many numbers (found, expected)");
    assert!(!expected.is_empty(), "{name}: nothing to compare");
    let mut worst =
        Worst { at: 0, shape, found: found[0], expected: expected[0], difference: -1.0, largest: 0.0 };
    for (at, (&found, &expected)) in found.iter().zip(&expected).enumerate() {
        let numbers = !found.is_nan() && !expected.is_nan();
        assert!(numbers, "{name}{}: found {found}, expected {expected}", place(at, &worst.shape));
        let difference = if found == expected { 0.0 } else { (found - expected).abs() };
        if difference > worst.difference {
            worst = Worst { at, found, expected, difference, ..worst };
        }
        worst.largest = worst.largest.max(expected.abs());
    }
    worst
}

/// The index of a number along every axis: `[2][5]`.
fn place(at: usize, shape: &[usize]) -> String {
    let mut rest = at;
    let mut places: Vec<String> = Vec::new();
    for size in shape.iter().rev() {
        places.push(format!("[{}]", rest % size.max(&1)));
        rest /= size.max(&1);
    }
    places.into_iter().rev().collect()
}

#[track_caller]
fn judge(name: &impl Display, worst: &Worst, tolerance: f64) {
    assert!(tolerance.is_finite() && tolerance >= 0.0, "{name}: tolerance {tolerance}");
    let Worst { at, shape, found, expected, difference, .. } = worst;
    assert!(
        *difference <= tolerance,
        "{name}{}: found {found:e}, expected {expected:e}: they differ by {difference:e}, allowed is {tolerance:e}",
        place(*at, shape),
    );
}

/// Panics unless every number is within `tolerance` of the expected one.
#[track_caller]
pub fn assert_close(name: impl Display, found: impl Numbers, expected: impl Numbers, tolerance: f64) {
    judge(&name, &worst(&name, &found, &expected), tolerance);
}

/// Panics unless every number is within `share` times the largest expected magnitude of the expected one.
#[track_caller]
pub fn assert_close_to_largest(name: impl Display, found: impl Numbers, expected: impl Numbers, share: f64) {
    let worst = worst(&name, &found, &expected);
    judge(&name, &worst, share * worst.largest);
}

/// The largest absolute difference; panics on NaN, shapes that differ and empty lists too.
#[track_caller]
pub fn distance(name: impl Display, found: impl Numbers, expected: impl Numbers) -> f64 {
    worst(&name, &found, &expected).difference
}

#[cfg(test)]
mod tests {
    use super::*;

    fn says(test: impl FnOnce() + std::panic::UnwindSafe) -> String {
        let fault = std::panic::catch_unwind(test).expect_err("this must fail");
        fault.downcast_ref::<String>().expect("a formatted message").clone()
    }

    #[test]
    fn what_is_close_passes_and_what_is_not_says_where() {
        assert_close("a number", 1.0_f32, 1.0 + 1e-9, 1e-8);
        assert_close("rows", [[1.0, 2.0], [3.0, 4.0]], vec![vec![1.0, 2.0], vec![3.0, 4.1]], 0.11);
        assert_close("with a shape", (&vec![2, 2], &[1.0_f32, 2.0, 3.0, 4.0]), [[1.0, 2.0], [3.0, 4.0]], 0.0);
        assert_close("the same infinity", [f64::INFINITY], [f64::INFINITY], 0.0);
        assert_close_to_largest("small beside large", [0.0, 100.0], [0.5, 100.0], 0.006);
        assert_eq!(distance("far", [1.0, 5.0], [1.0, 2.0]), 3.0);

        let far = says(|| assert_close("rows", [[1.0, 2.0], [3.0, 4.0]], [[1.0, 2.0], [3.0, 4.1]], 0.01));
        assert!(
            far.starts_with("rows[1][1]: found 4e0, expected 4.1e0") && far.ends_with("allowed is 1e-2"),
            "{far}"
        );
        assert!(says(|| assert_close_to_largest("x", [0.0, 1.0], [0.5, 1.0], 0.1)).starts_with("x[0]"));
        says(|| assert_close_to_largest("all of them zero", [1e-30], [0.0], 1.0));
    }

    #[test]
    fn nan_shape_length_nothing_and_infinity_fail() {
        for (found, expected) in [(f64::NAN, 1.0), (1.0, f64::NAN), (f64::NAN, f64::NAN)] {
            assert!(
                says(move || assert_close("x", [0.0, found], [0.0, expected], 1e9))
                    .starts_with("x[1]: found")
            );
            says(move || assert_close_to_largest("x", [0.0, found], [0.0, expected], 1e9));
            says(move || {
                distance("x", [0.0, found], [0.0, expected]);
            });
        }
        says(|| assert_close("longer", [1.0, 2.0], [1.0], 1.0));
        says(|| assert_close("turned", [[1.0, 2.0]], [[1.0], [2.0]], 9.0));
        says(|| {
            assert_close("ragged", vec![vec![1.0], vec![2.0, 3.0]], vec![vec![1.0, 2.0], vec![3.0]], 9.0);
        });
        says(|| assert_close("shorter than its shape", ([3], &[1.0, 2.0]), ([3], &[1.0, 2.0, 3.0]), 9.0));
        says(|| assert_close("nothing", Vec::<f32>::new(), Vec::<f32>::new(), 1.0));
        says(|| assert_close("one infinity", [f64::INFINITY], [1.0], 1e300));
        says(|| assert_close("any is allowed", [1.0], [1.0], f64::NAN));
        says(|| {
            assert_close_to_largest("a share of infinity", [1.0, f64::INFINITY], [2.0, f64::INFINITY], 0.1);
        });
    }
}
