//! Bias and activation between the two maps of the feed-forward network in one launch: `f(y + bias)`, or in a gated network
//! `f(a + bias_a) (b + bias_b)` with the two halves `a`, `b` of a row, in float32 by the formulas of
//! [`activation`](crate::model::backbone::activation).

use burn::backend::cubecl::dtype_to_storage_type;

use super::rows::{Rows, Split, address, own_row, own_vector, vector};
use crate::model::backbone::activation::{P, QUICK, SERIES, SILU, Slope, TANH};
use crate::model::backbone::config::Activation;
use crate::model::ops::gpu::FLAT;
use crate::model::ops::gpu::prelude::*;

/// The activated rows `[M, m]` of `y` `[M, m]`, or `[M, 2 m]` if `gated`, with a bias `[1, m]` or `[1, 2 m]`, all of one type.
pub(super) fn activate(y: CubeTensor, bias: CubeTensor, activation: Activation, gated: bool) -> CubeTensor {
    let y = Rows::from_tensor(y);
    let width = y.width / (1 + usize::from(gated));
    let out = Rows::empty(&y.tensor, [y.count, width].into(), y.tensor.dtype);
    let size = vector(&[width, y.stride, out.stride]);
    let vectors = width / size;
    let (split, cubes, units) = Split::new(vectors, &y);
    activate_rows::launch(
        &y.tensor.client,
        cubes,
        units,
        address(&[&y, &out]),
        size,
        y.arg(),
        arg(&bias),
        out.arg(),
        y.count,
        vectors,
        y.stride / size,
        out.stride / size,
        activation,
        gated,
        split,
        dtype_to_storage_type(y.tensor.dtype),
    );
    out.tensor
}

/// Rows of `vectors` vectors (in `y` twice as many if `gated`), `y_stride` and `output_stride` vectors apart.
#[cube(launch, address_type = "dynamic")]
fn activate_rows<F: Float, N: Size>(
    y: &[Vector<F, N>],
    bias: &[Vector<F, N>],
    output: &mut [Vector<F, N>],
    rows: usize,
    vectors: usize,
    y_stride: usize,
    output_stride: usize,
    #[comptime] activation: Activation,
    #[comptime] gated: bool,
    #[comptime] split: Split,
    #[define(F)] _dtype: ElemType,
) {
    let row = own_row(split);
    if row < rows {
        #[unroll]
        for step in 0..comptime!(split.steps) {
            let at = own_vector(step, split);
            if at < vectors {
                let y = &y[row * y_stride..(row + 1) * y_stride];
                let activated = activate_vector::<N>(load_biased::<F, N>(y, bias, at), activation);
                if comptime!(gated) {
                    let value = load_biased::<F, N>(y, bias, at + vectors);
                    output[row * output_stride + at] = Vector::cast_from(activated * value);
                } else {
                    output[row * output_stride + at] = Vector::cast_from(activated);
                }
            }
        }
    }
}

/// Vector `at` of a row plus its bias, in float32.
#[cube]
pub(super) fn load_biased<F: Float, N: Size>(
    y: &[Vector<F, N>],
    bias: &[Vector<F, N>],
    at: usize,
) -> Vector<f32, N> {
    Vector::<f32, N>::cast_from(y[at]) + Vector::<f32, N>::cast_from(bias[at])
}

#[cube]
fn activate_vector<N: Size>(x: Vector<f32, N>, #[comptime] activation: Activation) -> Vector<f32, N> {
    let mut activated = Vector::<f32, N>::empty();
    #[unroll]
    for lane in 0..N::value() {
        activated.insert(lane, activate_scalar(x.extract(lane), activation));
    }
    activated
}

#[cube]
fn activate_scalar(x: f32, #[comptime] activation: Activation) -> f32 {
    match comptime!(activation) {
        Activation::Gelu => gelu(x),
        Activation::GeluTanh => gate(x, TANH),
        Activation::QuickGelu => gate(x, QUICK),
        Activation::Relu => max_nan(x, 0.0f32), // NaN stays NaN
        Activation::Silu => gate(x, SILU),
    }
}

/// `x (1 + erf(x / sqrt 2)) / 2`.
#[cube]
fn gelu(x: f32) -> f32 {
    let scaled = x.abs() * comptime!(std::f32::consts::FRAC_1_SQRT_2);
    let t = 1.0f32 / (scaled * comptime!(P) + 1.0f32);
    let mut series = f32::new(comptime!(SERIES[4]));
    #[unroll]
    for back in 0..4usize {
        series = series * t + comptime!(SERIES[3 - back]);
    }
    let tail = 0.5f32 * series * t * (-scaled * scaled).exp();
    let probability = if x < 0.0f32 { tail } else { 1.0f32 - tail };
    x * probability
}

/// `x sigmoid(s(x))`.
#[cube]
fn gate(x: f32, #[comptime] slope: Slope) -> f32 {
    let s = x * (x * x * comptime!(slope.cubic) + comptime!(slope.linear));
    x / (1.0f32 + (-max(s, f32::new(FLAT))).exp())
}

#[cfg(test)]
mod gpu_tests {
    use burn::tensor::{DType, Device};

    use super::super::check::{close, get, halves, put, random, sizes, spaced};
    use super::*;
    use crate::gpus::gpus;

    /// The error function: `2 / sqrt(pi) exp(-x^2) sum 2^n x^(2n+1) / (1 3 5 ... (2n+1))`.
    fn erf(x: f64) -> f64 {
        if x.abs() > 6.0 {
            return x.signum();
        }
        let (mut term, mut sum) = (x, x);
        for n in 1..200 {
            term *= 2.0 * x * x / f64::from(2 * n + 1);
            sum += term;
        }
        std::f64::consts::FRAC_2_SQRT_PI * (-x * x).exp() * sum
    }

    fn activated(x: f64, by: Activation) -> f64 {
        let gate = |s: f64| x / (1.0 + (-s).exp());
        match by {
            Activation::Gelu => x * (1.0 + erf(x * std::f64::consts::FRAC_1_SQRT_2)) / 2.0,
            Activation::GeluTanh => {
                let u = (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x.powi(3));
                x * (1.0 + u.tanh()) / 2.0
            }
            Activation::QuickGelu => gate(1.702 * x),
            Activation::Relu => x.max(0.0),
            Activation::Silu => gate(x),
        }
    }

    const ALL: [Activation; 5] =
        [Activation::Gelu, Activation::GeluTanh, Activation::QuickGelu, Activation::Relu, Activation::Silu];

    /// The largest difference from float64 over inputs of `[-20, 20]` of type `dtype`, divided by `1 + |x|`; for gated networks
    /// by the product of both halves' `1 + |x|`.
    fn check(name: &str, device: &Device, dtype: DType, most: f64) -> f64 {
        let mut worst = 0.0_f64;
        let share = |y: &[f64], of: &[f64]| -> Vec<f64> { y.iter().zip(of).map(|(y, of)| y / of).collect() };
        for (rows, width) in sizes() {
            let y: Vec<f32> = random(rows * 2 * width, 0).iter().map(|y| 19.0 * y).collect();
            let (y, exact) = put(&y, [rows, 2 * width], device, dtype);
            let (bias, biases) = put(&random(2 * width, 1), [1, 2 * width], device, dtype);
            let x: Vec<f64> = exact.iter().zip(biases.iter().cycle()).map(|(y, bias)| y + bias).collect();
            let halves = || x.chunks(2 * width).flat_map(|row| row[..width].iter().zip(&row[width..]));
            for by in ALL {
                let what = format!("{by:?} of {rows} x {width}, {dtype:?} on {name}");
                let found = get(activate(y.clone(), bias.clone(), by, false));
                let expected: Vec<f64> = x.iter().map(|x| activated(*x, by)).collect();
                let large: Vec<f64> = x.iter().map(|x| 1.0 + x.abs()).collect();
                worst = worst.max(close(&what, &share(&found, &large), &share(&expected, &large), most));
                let found = get(activate(y.clone(), bias.clone(), by, true));
                let expected: Vec<f64> = halves().map(|(a, b)| activated(*a, by) * b).collect();
                let large: Vec<f64> = halves().map(|(a, b)| (1.0 + a.abs()) * (1.0 + b.abs())).collect();
                worst = worst.max(close(&what, &share(&found, &large), &share(&expected, &large), most));
            }
        }
        worst
    }

    #[test]
    fn values_agree_with_float64() {
        for (name, device) in gpus() {
            let most = check(&name, &device, DType::F32, 5e-7);
            println!("parity {name}: activations: {most:.1e} (at most 5e-7)");
            for (dtype, unit) in halves(&name, &device) {
                check(&name, &device, dtype, 1.1 * unit);
            }
        }
    }

    #[test]
    fn nan_stays_nan() {
        for (name, device) in gpus() {
            let [y, bias] = [vec![f32::NAN, 1.0], vec![0.5, 0.5]]
                .map(|values| put(&values, [1, 2], &device, DType::F32).0);
            for by in ALL {
                let found = get(activate(y.clone(), bias.clone(), by, false));
                assert_eq!([0, 1].map(|at| found[at].is_nan()), [true, false], "{by:?} on {name}");
            }
        }
    }

    #[test]
    fn rows_may_be_spaced_and_fill_two_axes_of_workgroups() {
        for (name, device) in gpus() {
            for (rows, width) in [(5, 5), (5, 64), (300_001, 1)] {
                let (y, exact) = spaced(rows, width, &device);
                let (bias, biases) = put(&random(width, 3), [1, width], &device, DType::F32);
                let found = get(activate(y, bias, Activation::Relu, false));
                let expected = exact.iter().zip(biases.iter().cycle()).map(|(x, bias)| (x + bias).max(0.0));
                close(&format!("{rows} on {name}"), &found, &expected.collect::<Vec<_>>(), 1e-6);
            }
        }
    }
}
