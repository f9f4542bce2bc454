//! Layer norm (Ba et al., 2016) in one launch: `(x - mean) / sqrt(variance + epsilon) gain + offset` of every row.

use burn::backend::cubecl::dtype_to_storage_type;
use burn::tensor::DType;

use super::rows::{Rows, Split, address, clamped, own_row, own_vector, vector};
use crate::model::backbone::block::Norm;
use crate::model::ops::gpu::fold::total;
use crate::model::ops::gpu::prelude::*;

/// The layer norm of every row of `x`, converted to `dtype`.
pub(super) fn norm(x: CubeTensor, by: &Norm, dtype: DType) -> CubeTensor {
    let x = Rows::from_tensor(x);
    let out = Rows::empty(&x.tensor, x.tensor.shape(), dtype);
    let size = vector(&[x.width, x.stride, out.stride]);
    let vectors = x.width / size;
    let (split, cubes, units) = Split::new(vectors, &x);
    norm_rows::launch(
        &x.tensor.client,
        cubes,
        units,
        address(&[&x, &out]),
        size,
        x.arg(),
        arg(&cube(by.gain.clone())),
        arg(&cube(by.offset.clone())),
        out.arg(),
        by.epsilon as f32,
        x.count,
        vectors,
        x.stride / size,
        out.stride / size,
        split,
        [x.tensor.dtype, dtype].map(dtype_to_storage_type),
    );
    out.tensor
}

/// Rows of `vectors` vectors, `x_stride` and `output_stride` vectors apart.
#[cube(launch, address_type = "dynamic")]
fn norm_rows<I: Float, O: Float, N: Size>(
    x: &[Vector<I, N>],
    gain: &[Vector<f32, N>],
    offset: &[Vector<f32, N>],
    output: &mut [Vector<O, N>],
    epsilon: f32,
    rows: usize,
    vectors: usize,
    x_stride: usize,
    output_stride: usize,
    #[comptime] split: Split,
    #[define(I, O)] _dtypes: [ElemType; 2],
) {
    let row = own_row(split);
    let start = clamped(row, rows) * x_stride;
    let mut values = Sequence::<Vector<f32, N>>::new();
    #[unroll]
    for step in 0..comptime!(split.steps) {
        values.push(Vector::cast_from(x[start + clamped(own_vector(step, split), vectors)]));
    }
    let moments = moments::<N>(&values, vectors, epsilon, split);
    if row < rows {
        write_normed::<O, N>(&values, &moments, gain, offset, output, row * output_stride, vectors, split);
    }
}

/// Mean and scale of a row.
#[derive(CubeType)]
pub(super) struct Moments {
    mean: f32,
    /// Mean of the deviations from the rounded `mean`: its rounding error.
    mean_error: f32,
    /// `1 / sqrt(variance + epsilon)`.
    scale: f32,
}

/// The moments of a row whose vectors its threads hold: first the mean, then the variance around it. If the mean is large, its
/// rounding error is not small against the deviations; the mean of the deviations corrects it.
#[cube]
pub(super) fn moments<N: Size>(
    values: &Sequence<Vector<f32, N>>,
    vectors: usize,
    epsilon: f32,
    #[comptime] split: Split,
) -> Moments {
    let mut lanes = Shared::<[f32]>::new_slice(comptime!(split.cube()));
    let width = f32::cast_from(vectors * N::value());
    let mut sum = 0.0f32;
    #[unroll]
    for step in 0..comptime!(split.steps) {
        if own_vector(step, split) < vectors {
            sum += total::<N>(values[step]);
        }
    }
    let mean = fold(sum, &mut lanes, Fold::Sum, comptime!(split.units)) / width;
    let mut deviation_sum = 0.0f32;
    let mut squares = 0.0f32;
    #[unroll]
    for step in 0..comptime!(split.steps) {
        if own_vector(step, split) < vectors {
            let deviations = values[step] - Vector::new(mean);
            deviation_sum += total::<N>(deviations);
            squares += total::<N>(deviations * deviations);
        }
    }
    let mean_error = fold(deviation_sum, &mut lanes, Fold::Sum, comptime!(split.units)) / width;
    let variance =
        fold(squares, &mut lanes, Fold::Sum, comptime!(split.units)) / width - mean_error * mean_error;
    Moments { mean, mean_error, scale: 1.0 / (variance + epsilon).sqrt() }
}

/// Writes the normed row that its threads hold, from vector `start` of `output` on.
#[cube]
pub(super) fn write_normed<O: Float, N: Size>(
    values: &Sequence<Vector<f32, N>>,
    moments: &Moments,
    gain: &[Vector<f32, N>],
    offset: &[Vector<f32, N>],
    output: &mut [Vector<O, N>],
    start: usize,
    vectors: usize,
    #[comptime] split: Split,
) {
    let mean = Vector::new(moments.mean);
    let mean_error = Vector::new(moments.mean_error);
    let scale = Vector::new(moments.scale);
    #[unroll]
    for step in 0..comptime!(split.steps) {
        let at = own_vector(step, split);
        if at < vectors {
            let normed = (values[step] - mean - mean_error) * scale;
            output[start + at] = Vector::cast_from(normed * gain[at] + offset[at]);
        }
    }
}

#[cfg(test)]
mod gpu_tests {
    use super::super::check::{WIDTHS, close, get, halves, normed, put, random, random_norm};
    use super::super::check::{sizes, spaced};
    use super::*;
    use crate::gpus::gpus;

    #[test]
    fn it_keeps_its_digits_however_far_the_mean_is() {
        for (name, device) in gpus() {
            let mut most = 0.0_f64;
            for (rows, width) in sizes() {
                let (by, [gain, offset]) = random_norm(width, &device);
                for mean in [0.0, 1e3] {
                    let x: Vec<f32> = random(rows * width, 0).iter().map(|x| x + mean).collect();
                    let (x, exact) = put(&x, [rows, width], &device, DType::F32);
                    let found = get(norm(x, &by, DType::F32));
                    let what = format!("{rows} x {width} about {mean} on {name}");
                    most = most.max(close(&what, &found, &normed(&exact, &gain, &offset), 2e-6));
                }
            }
            println!("parity {name}: layer norm: {most:.1e} (at most 2e-6)");
        }
    }

    #[test]
    fn rows_may_lie_further_apart_than_they_are_long() {
        for (name, device) in gpus() {
            for width in [5, 64] {
                let (by, [gain, offset]) = random_norm(width, &device);
                let (x, exact) = spaced(5, width, &device);
                close(&name, &get(norm(x, &by, DType::F32)), &normed(&exact, &gain, &offset), 2e-6);
            }
        }
    }

    #[test]
    fn halves_are_read_and_written() {
        for (name, device) in gpus() {
            for (dtype, unit) in halves(&name, &device) {
                for width in WIDTHS {
                    let what = format!("{width} wide, {dtype:?} on {name}");
                    let (by, [gain, offset]) = random_norm(width, &device);
                    let (x, exact) = put(&random(5 * width, 0), [5, width], &device, DType::F32);
                    let found = get(norm(x, &by, dtype));
                    close(&what, &found, &normed(&exact, &gain, &offset), 4.0 * unit);
                    let (x, exact) = put(&random(5 * width, 0), [5, width], &device, dtype);
                    let found = get(norm(x, &by, DType::F32));
                    close(&what, &found, &normed(&exact, &gain, &offset), 2e-6);
                }
            }
        }
    }
}
