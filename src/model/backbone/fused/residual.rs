//! The end of a residual branch in one launch: `x + y + bias`, and where a layer norm follows, the norm of the sum, too.

use burn::backend::cubecl::dtype_to_storage_type;
use burn::tensor::DType;

use super::activation::load_biased;
use super::norm::{moments, write_normed};
use super::rows::{Rows, Split, address, clamped, own_row, own_vector, vector};
use crate::model::backbone::block::Norm;
use crate::model::ops::gpu::prelude::*;

/// `x + y + bias` in float32, for `x` `[M, d]` in float32, `y` `[M, d]` and `bias` `[1, d]` of one type.
pub(super) fn add(x: CubeTensor, y: CubeTensor, bias: CubeTensor) -> CubeTensor {
    let (x, y) = (Rows::from_tensor(x), Rows::from_tensor(y));
    let out = Rows::empty(&x.tensor, x.tensor.shape(), DType::F32);
    let size = vector(&[x.width, x.stride, y.stride, out.stride]);
    let vectors = x.width / size;
    let (split, cubes, units) = Split::new(vectors, &x);
    add_rows::launch(
        &x.tensor.client,
        cubes,
        units,
        address(&[&x, &y, &out]),
        size,
        x.arg(),
        y.arg(),
        arg(&bias),
        out.arg(),
        x.count,
        vectors,
        x.stride / size,
        y.stride / size,
        out.stride / size,
        split,
        dtype_to_storage_type(y.tensor.dtype),
    );
    out.tensor
}

/// `x + y + bias` as [`add()`] computes it, and its layer norm converted to the type of `y`.
pub(super) fn add_and_norm(x: CubeTensor, y: CubeTensor, bias: CubeTensor, by: &Norm) -> [CubeTensor; 2] {
    let (x, y) = (Rows::from_tensor(x), Rows::from_tensor(y));
    let dtype = y.tensor.dtype;
    let [out, normed] = [DType::F32, dtype].map(|dtype| Rows::empty(&x.tensor, x.tensor.shape(), dtype));
    let size = vector(&[x.width, x.stride, y.stride, out.stride, normed.stride]);
    let vectors = x.width / size;
    let (split, cubes, units) = Split::new(vectors, &x);
    add_and_norm_rows::launch(
        &x.tensor.client,
        cubes,
        units,
        address(&[&x, &y, &out, &normed]),
        size,
        x.arg(),
        y.arg(),
        arg(&bias),
        arg(&cube(by.gain.clone())),
        arg(&cube(by.offset.clone())),
        out.arg(),
        normed.arg(),
        by.epsilon as f32,
        x.count,
        vectors,
        x.stride / size,
        y.stride / size,
        out.stride / size,
        normed.stride / size,
        split,
        dtype_to_storage_type(dtype),
    );
    [out.tensor, normed.tensor]
}

/// Rows of `vectors` vectors; the strides are in vectors, too.
#[cube(launch, address_type = "dynamic")]
fn add_rows<F: Float, N: Size>(
    x: &[Vector<f32, N>],
    y: &[Vector<F, N>],
    bias: &[Vector<F, N>],
    output: &mut [Vector<f32, N>],
    rows: usize,
    vectors: usize,
    x_stride: usize,
    y_stride: usize,
    output_stride: usize,
    #[comptime] split: Split,
    #[define(F)] _dtype: ElemType,
) {
    let row = own_row(split);
    if row < rows {
        let y = &y[row * y_stride..(row + 1) * y_stride];
        #[unroll]
        for step in 0..comptime!(split.steps) {
            let at = own_vector(step, split);
            if at < vectors {
                output[row * output_stride + at] = x[row * x_stride + at] + load_biased::<F, N>(y, bias, at);
            }
        }
    }
}

/// The sums of `add_rows`, and the layer norm of every row.
#[cube(launch, address_type = "dynamic")]
fn add_and_norm_rows<F: Float, N: Size>(
    x: &[Vector<f32, N>],
    y: &[Vector<F, N>],
    bias: &[Vector<F, N>],
    gain: &[Vector<f32, N>],
    offset: &[Vector<f32, N>],
    output: &mut [Vector<f32, N>],
    normed: &mut [Vector<F, N>],
    epsilon: f32,
    rows: usize,
    vectors: usize,
    x_stride: usize,
    y_stride: usize,
    output_stride: usize,
    normed_stride: usize,
    #[comptime] split: Split,
    #[define(F)] _dtype: ElemType,
) {
    let row = own_row(split);
    let own = clamped(row, rows);
    let y = &y[own * y_stride..(own + 1) * y_stride];
    let mut values = Sequence::<Vector<f32, N>>::new();
    #[unroll]
    for step in 0..comptime!(split.steps) {
        let at = clamped(own_vector(step, split), vectors);
        values.push(x[own * x_stride + at] + load_biased::<F, N>(y, bias, at));
    }
    let moments = moments::<N>(&values, vectors, epsilon, split);
    if row < rows {
        #[unroll]
        for step in 0..comptime!(split.steps) {
            let at = own_vector(step, split);
            if at < vectors {
                output[row * output_stride + at] = values[step];
            }
        }
        write_normed::<F, N>(&values, &moments, gain, offset, normed, row * normed_stride, vectors, split);
    }
}

#[cfg(test)]
mod gpu_tests {
    use super::super::check::{close, get, halves, normed, put, random, random_norm};
    use super::super::check::{sizes, spaced};
    use super::*;
    use crate::gpus::gpus;

    /// `x + y + bias` in float64.
    fn summed(x: &[f64], y: &[f64], bias: &[f64]) -> Vec<f64> {
        x.iter().zip(y).zip(bias.iter().cycle()).map(|((x, y), bias)| x + y + bias).collect()
    }

    #[test]
    fn sums_are_those_of_float64_and_so_are_their_norms() {
        for (name, device) in gpus() {
            let mut numbers = halves(&name, &device);
            numbers.push((DType::F32, 5e-7));
            for (rows, width) in sizes() {
                let (by, [gain, offset]) = random_norm(width, &device);
                let (x, stream) = put(&random(rows * width, 3), [rows, width], &device, DType::F32);
                for (dtype, unit) in &numbers {
                    let what = format!("{rows} x {width}, {dtype:?} on {name}");
                    let (y, branch) = put(&random(rows * width, 4), [rows, width], &device, *dtype);
                    let (bias, biases) = put(&random(width, 5), [1, width], &device, *dtype);
                    let found = get(add(x.clone(), y.clone(), bias.clone()));
                    close(&what, &found, &summed(&stream, &branch, &biases), 1e-6);
                    let [again, after] = add_and_norm(x.clone(), y, bias, &by).map(get);
                    assert_eq!(found, again, "{what}: the same sum with and without a norm");
                    close(&what, &after, &normed(&found, &gain, &offset), 4.0 * unit);
                }
            }
        }
    }

    #[test]
    fn rows_may_lie_further_apart_than_they_are_long() {
        for (name, device) in gpus() {
            for width in [5, 64] {
                let (by, [gain, offset]) = random_norm(width, &device);
                let (x, exact) = spaced(5, width, &device);
                let (bias, biases) = put(&random(width, 5), [1, width], &device, DType::F32);
                let expected = summed(&exact, &exact, &biases);
                close(&name, &get(add(x.clone(), x.clone(), bias.clone())), &expected, 1e-6);
                let [found, after] = add_and_norm(x.clone(), x, bias, &by).map(get);
                close(&name, &found, &expected, 1e-6);
                close(&name, &after, &normed(&expected, &gain, &offset), 2e-6);
            }
        }
    }
}
