//! A device's self-check: whether it multiplies matrices correctly, and how fast.
//!
//! `A B` for seeded `A, B` `[n, n]` with entries in [-1, 1), against the same product in float64 on
//! the host. Error: `max |got - expected| / max |expected|`. Speed: `2 n^3` operations per product,
//! including the wait for the device.

use std::time::{Duration, Instant};

use burn::tensor::{Device, Tensor, TensorData};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;
use serde::Serialize;

use super::{Found, Type};
use crate::model::io::catch_panic::catch_foreign;
use crate::model::ops::matmul::PreciseMatmul as _;

/// Largest error that rounding explains: float32 gives about 1e-7, tensor cores about 1e-4.
const MAX_ERROR: f64 = 1e-2;
/// How long the speed is measured.
const MEASURE_TIME: Duration = Duration::from_millis(300);

/// The result of a self-check.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Check {
    /// Rows and columns of the matrices.
    pub size: usize,
    /// Largest error, relative to the largest expected value.
    pub error: f64,
    /// Billions of floating-point operations per second.
    pub gflops: f64,
}

/// Why a self-check failed.
#[expect(missing_docs, reason = "each message says what it is and what its fields are")]
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum CheckError {
    #[error("a matrix product failed: {0}")]
    Failed(String),
    #[error(
        "a product of {size} x {size} matrices is off by {error:.1e} of its largest value; expected less \
         than {MAX_ERROR:.0e}. Update the driver, or use another device"
    )]
    Wrong { size: usize, error: f64 },
}

/// Checks `device`, which was opened as `found`: with matrices of 512 x 512, or of 128 x 128 for a software adapter.
pub fn check(found: &Found, device: &Device) -> Result<Check, CheckError> {
    let size = if found.kind == Type::Software { 128 } else { 512 };
    let measured = catch_foreign(|| multiply(size, device));
    let (product, gflops) = measured.map_err(CheckError::Failed)??;
    compare(size, &product, gflops)
}

/// Compares a device's product `[n, n]` with the expected one.
fn compare(size: usize, product: &[f32], gflops: f64) -> Result<Check, CheckError> {
    let [a, b] = operands(size);
    let error = largest_error(product, &expected(&a, &b, size));
    // Written so that NaN fails too.
    if error <= MAX_ERROR {
        Ok(Check { size, error, gflops })
    } else {
        Err(CheckError::Wrong { size, error })
    }
}

/// `A` and `B`, `[n, n]` row-major.
fn operands(n: usize) -> [Vec<f32>; 2] {
    let mut rng = ChaCha8Rng::seed_from_u64(0);
    [(); 2].map(|()| (0..n * n).map(|_| rng.random_range(-1.0..1.0)).collect())
}

/// The product `[n, n]` as the device computes it, and its speed in billions of operations per second.
fn multiply(n: usize, device: &Device) -> Result<(Vec<f32>, f64), CheckError> {
    let [a, b] = operands(n).map(|values| Tensor::<2>::from_data(TensorData::new(values, [n, n]), device)); // [n, n]
    let wait = || device.sync().map_err(|error| CheckError::Failed(format!("{error:?}")));
    let product = a.clone().precise_matmul(b.clone()); // compiles and autotunes the kernels
    let values = product.try_into_data().map_err(|error| CheckError::Failed(format!("{error:?}")))?;
    let values = values.try_into_vec().expect("float32 values");
    wait()?;
    let (start, mut rounds, mut batch) = (Instant::now(), 0, 1);
    while start.elapsed() < MEASURE_TIME {
        for _ in 0..batch {
            drop(a.clone().precise_matmul(b.clone()));
        }
        wait()?;
        rounds += batch;
        batch = (batch * 2).min(64);
    }
    let operations = 2.0 * (n as f64).powi(3) * f64::from(rounds);
    Ok((values, operations / start.elapsed().as_secs_f64() / 1e9))
}

/// `A B` in float64, `[n, n]` row-major.
fn expected(a: &[f32], b: &[f32], n: usize) -> Vec<f64> {
    let mut product = vec![0.0; n * n];
    product.par_chunks_mut(n).zip(a.par_chunks(n)).for_each(|(row, left)| {
        for (&x, right) in left.iter().zip(b.chunks(n)) {
            for (sum, &y) in row.iter_mut().zip(right) {
                *sum += f64::from(x) * f64::from(y);
            }
        }
    });
    product
}

/// `max |got - expected| / max |expected|`; NaN if any value is.
fn largest_error(got: &[f32], expected: &[f64]) -> f64 {
    let largest = |values: &mut dyn Iterator<Item = f64>| {
        values.fold(0.0, |most, x| if x.abs() > most || x.is_nan() { x.abs() } else { most })
    };
    let error = largest(&mut got.iter().zip(expected).map(|(&got, expected)| f64::from(got) - expected));
    error / largest(&mut expected.iter().copied())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::device;

    #[test]
    fn the_cpu_passes() {
        let chosen = device::choose("cpu").unwrap();
        let check = check(&chosen.found, &chosen.device).unwrap();
        assert_eq!(check.size, 512);
        assert!(check.error < 1e-6 && check.gflops > 0.1, "{check:?}");
    }

    #[test]
    fn errors_are_measured_and_nan_is_one() {
        assert!((largest_error(&[1.0, -2.0, 4.0], &[1.0, -2.0, 3.0]) - 1.0 / 3.0).abs() < 1e-12);
        assert!(largest_error(&[f32::NAN, 1.0], &[2.0, 1.0]).is_nan());
        assert!(largest_error(&[1.0, f32::NAN], &[2.0, 1.0]).is_nan());
        let [a, b] = operands(8);
        let mut product: Vec<f32> = expected(&a, &b, 8).iter().map(|x| *x as f32).collect();
        assert!(compare(8, &product, 1.0).is_ok());
        product[5] = f32::NAN;
        assert!(matches!(compare(8, &product, 1.0), Err(CheckError::Wrong { .. })));
        assert_eq!(expected(&[1.0, 2.0, 3.0, 4.0], &[5.0, 6.0, 7.0, 8.0], 2), [19.0, 22.0, 43.0, 50.0]);
    }
}
