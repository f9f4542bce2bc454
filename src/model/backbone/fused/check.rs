//! Helpers for the kernels' tests: tensors on devices, references in float64, and sizes that are no multiple of a vector or workgroup.

use burn::tensor::{DType, Device, Shape, Tensor, TensorData};
use burn_cubecl::tensor::CubeTensor;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::{cube, tensor};
use crate::close::{assert_close, distance};
use crate::model::backbone::arithmetic::Arithmetic;
use crate::model::backbone::block::Norm;

pub(super) const WIDTHS: [usize; 5] = [1, 3, 64, 768, 1025];
const EPSILON: f64 = 1e-6;

/// Pairs of a number of rows and a width of [`WIDTHS`].
pub(super) fn sizes() -> impl Iterator<Item = (usize, usize)> {
    [1, 5, 197].into_iter().flat_map(|rows| WIDTHS.map(|width| (rows, width)))
}

/// The 16-bit types that a device supports, each with its unit roundoff.
pub(super) fn halves(name: &str, device: &Device) -> Vec<(DType, f64)> {
    let has = |(arithmetic, _): &(Arithmetic, f64)| {
        let has = arithmetic.on(device);
        if !has {
            crate::skip::because(format!("{name} has no {}", arithmetic.name()));
        }
        has
    };
    let all = [(Arithmetic::Float16, 0.5_f64.powi(11)), (Arithmetic::Bfloat16, 0.5_f64.powi(8))];
    all.into_iter().filter(has).map(|(arithmetic, unit)| (arithmetic.dtype(), unit)).collect()
}

/// `count` random numbers of [-1, 1).
pub(super) fn random(count: usize, seed: u64) -> Vec<f32> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    (0..count).map(|_| rng.random_range(-1.0..1.0)).collect()
}

/// A tensor of `values` converted to `dtype` on a device, and the rounded values.
pub(super) fn put<const D: usize>(
    values: &[f32],
    shape: [usize; D],
    device: &Device,
    dtype: DType,
) -> (CubeTensor, Vec<f64>) {
    let data = TensorData::new(values.to_vec(), shape).convert_dtype(dtype);
    let rounded = data.iter::<f64>().collect();
    (cube(Tensor::<D>::from_data(data, (device, dtype))), rounded)
}

/// A norm with random gain and offset, and their values.
pub(super) fn random_norm(width: usize, device: &Device) -> (Norm, [Vec<f64>; 2]) {
    let (gain, gains) = put(&random(width, 1), [width], device, DType::F32);
    let (offset, offsets) = put(&random(width, 2), [width], device, DType::F32);
    (Norm { gain: tensor(gain), offset: tensor(offset), epsilon: EPSILON }, [gains, offsets])
}

/// The layer norm of every row in float64.
pub(super) fn normed(x: &[f64], gain: &[f64], offset: &[f64]) -> Vec<f64> {
    let width = gain.len();
    let row = |x: &[f64]| -> Vec<f64> {
        let mean = x.iter().sum::<f64>() / width as f64;
        let variance = x.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / width as f64;
        let by = |(x, (gain, offset)): (&f64, (&f64, &f64))| {
            (x - mean) / (variance + EPSILON).sqrt() * gain + offset
        };
        x.iter().zip(gain.iter().zip(offset)).map(by).collect()
    };
    x.chunks(width).flat_map(row).collect()
}

/// A random matrix with padding between its rows, as CUDA lays them out, and its values without the padding.
pub(super) fn spaced(rows: usize, width: usize, device: &Device) -> (CubeTensor, Vec<f64>) {
    let apart = width + 4;
    let (mut matrix, all) = put(&random(rows * apart, 7), [rows, apart], device, DType::F32);
    matrix.meta.shape = Shape::new([rows, width]);
    (matrix, all.chunks(apart).flat_map(|row| row[..width].to_vec()).collect())
}

/// The values of a tensor of 2 or 4 axes.
pub(super) fn get(found: CubeTensor) -> Vec<f64> {
    let data = match found.meta.shape().num_dims() {
        2 => tensor::<2>(found).into_data(),
        _ => tensor::<4>(found).into_data(),
    };
    data.iter::<f64>().collect()
}

/// The largest absolute difference; panics if it exceeds `most` or is NaN.
#[track_caller]
pub(super) fn close(what: &str, found: &[f64], expected: &[f64], most: f64) -> f64 {
    assert_close(what, found, expected, most);
    distance(what, found, expected)
}
