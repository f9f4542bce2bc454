//! The softmax of attention in one launch: `exp(l - max l) / sum exp(l - max l)` with `l = scale * logit + bias` along every
//! row, in float32.

use burn::backend::cubecl::dtype_to_storage_type;
use burn::tensor::DType;

use super::rows::{Rows, Split, address, clamped, own_row, own_vector, vector};
use crate::model::ops::gpu::fold::total;
use crate::model::ops::gpu::prelude::*;

/// The softmax over the last axis of logits `[B, heads, T, T]` in float32, converted to `dtype`. `bias`: `[1 or B, heads, T, T]`
/// in float32.
pub(super) fn softmax(logits: CubeTensor, scale: f64, bias: Option<CubeTensor>, dtype: DType) -> CubeTensor {
    let logits = Rows::from_tensor(logits);
    let bias = bias.map(Rows::from_tensor);
    let out = Rows::empty(&logits.tensor, logits.tensor.shape(), dtype);
    let strides = [&logits, &out].into_iter().chain(&bias).map(|rows| rows.stride);
    let lengths: Vec<usize> = strides.chain([logits.width]).collect();
    let size = vector(&lengths);
    let vectors = logits.width / size;
    let (split, cubes, units) = Split::new(vectors, &logits);
    let [bias_rows, bias_stride] = bias.as_ref().map_or([1; 2], |bias| [bias.count, bias.stride / size]);
    softmax_rows::launch(
        &logits.tensor.client,
        cubes,
        units,
        address(&[&logits, &out]),
        size,
        logits.arg(),
        bias.map(|bias| bias.arg()).into(),
        out.arg(),
        scale as f32,
        logits.count,
        vectors,
        logits.stride / size,
        out.stride / size,
        bias_rows,
        bias_stride,
        split,
        dtype_to_storage_type(dtype),
    );
    out.tensor
}

/// Rows of `vectors` vectors; the strides are in vectors, too. The `bias_rows` rows of the bias are repeated.
#[cube(launch, address_type = "dynamic")]
fn softmax_rows<O: Float, N: Size>(
    logits: &[Vector<f32, N>],
    bias: ComptimeOption<&[Vector<f32, N>]>,
    output: &mut [Vector<O, N>],
    scale: f32,
    rows: usize,
    vectors: usize,
    logits_stride: usize,
    output_stride: usize,
    bias_rows: usize,
    bias_stride: usize,
    #[comptime] split: Split,
    #[define(O)] _dtype: ElemType,
) {
    let row = own_row(split);
    let own = clamped(row, rows);
    let mut lanes = Shared::<[f32]>::new_slice(comptime!(split.cube()));
    let mut values = Sequence::<Vector<f32, N>>::new();
    let mut largest = f32::new(LOWEST);
    #[unroll]
    for step in 0..comptime!(split.steps) {
        // Past the end the last vector is read again, which does not change the maximum.
        let at = clamped(own_vector(step, split), vectors);
        let offset: ComptimeOption<Vector<f32, N>> =
            bias.as_ref().map(|bias| bias[own % bias_rows * bias_stride + at]);
        let value = logits[own * logits_stride + at] * Vector::new(scale) + offset.unwrap_or_default();
        #[unroll]
        for lane in 0..N::value() {
            largest = max(largest, value.extract(lane));
        }
        values.push(value);
    }
    let largest = Vector::new(fold(largest, &mut lanes, Fold::Largest, comptime!(split.units)));
    let mut powers = Sequence::<Vector<f32, N>>::new();
    let mut sum = 0.0f32;
    #[unroll]
    for step in 0..comptime!(split.steps) {
        let power = Vector::exp(values[step] - largest);
        if own_vector(step, split) < vectors {
            sum += total::<N>(power);
        }
        powers.push(power);
    }
    let sum = Vector::new(fold(sum, &mut lanes, Fold::Sum, comptime!(split.units)));
    if row < rows {
        #[unroll]
        for step in 0..comptime!(split.steps) {
            let at = own_vector(step, split);
            if at < vectors {
                output[row * output_stride + at] = Vector::cast_from(powers[step] / sum);
            }
        }
    }
}

/// The initial maximum, below every logit.
const LOWEST: f32 = -3e38;

#[cfg(test)]
mod gpu_tests {
    use super::super::check::{WIDTHS, close, get, halves, put, random, spaced};
    use super::*;
    use crate::gpus::gpus;

    /// Rows of `width` logits in float64; the rows of the bias are repeated.
    fn weights(logits: &[f64], width: usize, scale: f64, bias: &[f64]) -> Vec<f64> {
        let biased = logits.iter().zip(bias.iter().cycle()).map(|(logit, bias)| scale * logit + bias);
        let biased: Vec<f64> = biased.collect();
        let row = |row: &[f64]| -> Vec<f64> {
            let most = row.iter().copied().fold(f64::MIN, f64::max);
            let powers: Vec<f64> = row.iter().map(|x| (x - most).exp()).collect();
            let sum: f64 = powers.iter().sum();
            powers.into_iter().map(|power| power / sum).collect()
        };
        biased.chunks(width).flat_map(row).collect()
    }

    #[test]
    fn weights_are_right_for_logits_of_any_size() {
        let [batch, heads] = [2, 3];
        for (name, device) in gpus() {
            let mut most = 0.0_f64;
            for (rows, width) in [1, 5].into_iter().flat_map(|rows| WIDTHS.map(|width| (rows, width))) {
                let shape = [batch, heads, rows, width];
                let many = random(shape.iter().product(), 0);
                for height in [1.0, 30.0, 1e4] {
                    let logits: Vec<f32> = many.iter().map(|x| x * height).collect();
                    let (logits, exact) = put(&logits, shape, &device, DType::F32);
                    let found = get(softmax(logits, 0.125, None, DType::F32));
                    let what = format!("{rows} x {width} up to {height} on {name}");
                    most = most.max(close(&what, &found, &weights(&exact, width, 0.125, &[0.0]), 1e-6));
                }
                for shared in [1, batch] {
                    let (logits, exact) = put(&many, shape, &device, DType::F32);
                    let shape = [shared, heads, rows, width];
                    let (bias, biases) = put(&random(shape.iter().product(), 1), shape, &device, DType::F32);
                    let found = get(softmax(logits, 3.0, Some(bias), DType::F32));
                    let what = format!("{rows} x {width} with a bias of {shared} on {name}");
                    most = most.max(close(&what, &found, &weights(&exact, width, 3.0, &biases), 1e-6));
                }
            }
            println!("parity {name}: softmax: {most:.1e} (at most 1e-6)");
        }
    }

    #[test]
    fn rows_may_be_spaced_and_halves_written() {
        for (name, device) in gpus() {
            let mut numbers = halves(&name, &device);
            numbers.push((DType::F32, 1e-6));
            for (dtype, unit) in numbers {
                for width in [5, 64] {
                    let (logits, exact) = spaced(5, width, &device);
                    let found = get(softmax(logits, 1.0, None, dtype));
                    close(&name, &found, &weights(&exact, width, 1.0, &[0.0]), unit);
                }
            }
        }
    }
}
