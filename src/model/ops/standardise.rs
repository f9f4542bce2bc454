//! Standardises the rows or the columns of a matrix: minus their mean, divided by their spread. On GPUs forward and backward are one launch
//! each, with one workgroup per line; burn's operations take eight and twenty launches, each of which reads the whole matrix.

use crate::model::ops::gpu::prelude::*;

/// Threads of a workgroup.
const UNITS: usize = 128;

/// What a line is divided by; the number is an epsilon against division by 0.
#[derive(Clone, Copy, Debug)]
pub enum Spread {
    /// The population standard deviation plus epsilon.
    Deviation(f64),
    /// The square root of the population variance plus epsilon, as in layer and batch normalisation.
    Root(f64),
}

/// Every line of `x` `[M, K]` along `axis` (0: columns, 1: rows), minus its mean and divided by its spread: `[M, K]`.
pub fn standardise(x: Tensor<2>, axis: usize, spread: Spread) -> Tensor<2> {
    if let Some(standardised) = fused(&x, axis, spread) {
        return standardised;
    }
    let centred = x.clone() - x.mean_dim(axis);
    let variance = (centred.clone() * centred.clone()).mean_dim(axis);
    centred
        / match spread {
            Spread::Deviation(epsilon) => {
                // The root has no derivative at 0, where all numbers are equal: the gradient through it is set to 0.
                let is_flat = variance.clone().equal_scalar(0.0);
                variance.mask_fill(is_flat.clone(), 1.0).sqrt().mask_fill(is_flat, 0.0) + epsilon
            }
            Spread::Root(epsilon) => (variance + epsilon).sqrt(),
        }
}

/// [`standardise`] by the kernels below; none where they do not support `x`: they need a GPU and float32.
pub fn fused(x: &Tensor<2>, axis: usize, spread: Spread) -> Option<Tensor<2>> {
    let rounds = 4 * x.dims()[axis].div_ceil(UNITS); // of the backward pass
    let op = StandardiseOp { axis, spread };
    supports(x, UNITS, rounds).then(|| apply::<Cube, _, 1, 2>(op, [x.clone().into_dispatch()]))
}

struct StandardiseOp {
    axis: usize,
    spread: Spread,
}

/// The layout of the lines in memory, and what they are divided by.
#[derive(CubeType, CubeLaunch, Clone, Copy)]
struct Lines {
    count: usize,
    length: usize,
    /// Distance from the start of a line to that of the next.
    line_stride: usize,
    /// Distance from a number of a line to its next.
    stride: usize,
    /// The number of [`Spread`].
    epsilon: f32,
    /// Whether it is added under the root ([`Spread::Root`]).
    #[cube(comptime)]
    in_root: bool,
}

impl StandardiseOp {
    /// The lines of `x`, and a launch of one workgroup per line.
    fn lines(&self, x: &CubeTensor) -> (LinesLaunch, CubeCount) {
        let [rows, columns] = x.shape().dims();
        let (count, length, line_stride, stride) = match self.axis {
            0 => (columns, rows, 1, columns),
            _ => (rows, columns, columns, 1),
        };
        let (epsilon, in_root) = match self.spread {
            Spread::Deviation(epsilon) => (epsilon as f32, false),
            Spread::Root(epsilon) => (epsilon as f32, true),
        };
        (LinesLaunch::new(count, length, line_stride, stride, epsilon, in_root), workgroups(count))
    }
}

impl CustomOp<CubeBackend, 1> for StandardiseOp {
    type Saved = (StandardiseOp, CubeTensor);

    fn forward(self, [x]: [CubeTensor; 1], _: bool) -> (CubeTensor, Self::Saved) {
        let x = into_contiguous(x);
        let standardised = empty::<2>(&x, x.shape().dims());
        let (lines, cubes) = self.lines(&x);
        let units = CubeDim::new_1d(UNITS as u32);
        forward::launch(&x.client, cubes, units, arg(&x), arg(&standardised), lines);
        (standardised, (self, x))
    }

    fn vjp((op, x): &Self::Saved, grad_standardised: CubeTensor, _: [bool; 1]) -> [Option<CubeTensor>; 1] {
        let grad_x = empty::<2>(x, x.shape().dims());
        let grad_standardised = into_contiguous(grad_standardised);
        let (lines, cubes) = op.lines(x);
        let units = CubeDim::new_1d(UNITS as u32);
        backward::launch(&x.client, cubes, units, arg(x), arg(&grad_standardised), arg(&grad_x), lines);
        [Some(grad_x)]
    }
}

#[cube(launch)]
fn forward(x: &[f32], standardised: &mut [f32], lines: Lines) {
    let first = usize::min(CUBE_POS, lines.count - 1) * lines.line_stride;
    let mut lanes = Shared::<[f32]>::new_slice(UNITS);
    let moments = moments(x, first, &mut lanes, &lines);
    let mut j = UNIT_POS as usize;
    while j < lines.length {
        let at = first + j * lines.stride;
        standardised[at] = (x[at] - moments.mean) * moments.scale;
        j += UNITS;
    }
}

/// With `g` the gradient of the standardised numbers: `scale (g - mean(g) - (x - mean) mean((x - mean) g) scale / deviation)`, where
/// `deviation` includes epsilon if that is under the root.
#[cube(launch)]
fn backward(x: &[f32], grad_standardised: &[f32], grad_x: &mut [f32], lines: Lines) {
    let first = usize::min(CUBE_POS, lines.count - 1) * lines.line_stride;
    let mut lanes = Shared::<[f32]>::new_slice(UNITS);
    let moments = moments(x, first, &mut lanes, &lines);
    let mut dot = 0.0f32;
    let mut sum = 0.0f32;
    let mut j = UNIT_POS as usize;
    while j < lines.length {
        let grad = grad_standardised[first + j * lines.stride];
        dot += (x[first + j * lines.stride] - moments.mean) * grad;
        sum += grad;
        j += UNITS;
    }
    let scale = moments.scale;
    let grad_mean = fold(sum, &mut lanes, Fold::Sum, UNITS) * scale / f32::cast_from(lines.length);
    let mean_dot = fold(dot, &mut lanes, Fold::Sum, UNITS) * scale * scale / f32::cast_from(lines.length);
    let mut grad_spread = 0.0f32;
    if moments.deviation > 0.0 {
        grad_spread = mean_dot / moments.deviation; // 0 where all numbers are equal, as on the CPU
    }
    j = UNIT_POS as usize;
    while j < lines.length {
        let at = first + j * lines.stride;
        grad_x[at] = scale * grad_standardised[at] - grad_spread * (x[at] - moments.mean) - grad_mean;
        j += UNITS;
    }
}

#[derive(CubeType)]
struct Moments {
    mean: f32,
    /// The standard deviation; with epsilon under the root where it is there.
    deviation: f32,
    /// 1 over the spread.
    scale: f32,
}

/// The moments of the line that begins at `first`, in two passes. It has barriers: all threads of the workgroup must call it.
#[cube]
fn moments(x: &[f32], first: usize, lanes: &mut [f32], lines: &Lines) -> Moments {
    let mut sum = 0.0f32;
    let mut j = UNIT_POS as usize;
    while j < lines.length {
        sum += x[first + j * lines.stride];
        j += UNITS;
    }
    let mean = fold(sum, lanes, Fold::Sum, UNITS) / f32::cast_from(lines.length);
    let mut squares = 0.0f32;
    j = UNIT_POS as usize;
    while j < lines.length {
        let centred = x[first + j * lines.stride] - mean;
        squares += centred * centred;
        j += UNITS;
    }
    let variance = fold(squares, lanes, Fold::Sum, UNITS) / f32::cast_from(lines.length);
    if comptime!(lines.in_root) {
        let deviation = (variance + lines.epsilon).sqrt();
        Moments { mean, deviation, scale: 1.0f32 / deviation }
    } else {
        let deviation = variance.sqrt();
        Moments { mean, deviation, scale: 1.0f32 / (deviation + lines.epsilon) }
    }
}

#[cfg(test)]
mod tests {
    use burn::tensor::{DType, Device, TensorData};

    use super::*;

    /// All scores are equal where a scorer's weights are 0.
    #[test]
    fn lines_of_equal_numbers_have_a_gradient() {
        for dtype in [DType::F32, DType::F64] {
            let data = TensorData::new(vec![0.5_f32; 4], [1, 4]);
            let x = Tensor::<2>::from_data(data, (&Device::flex().autodiff(), dtype)).require_grad();
            let weights = TensorData::new(vec![1.0_f32, 2.0, 3.0, 6.0], [1, 4]);
            let weights = Tensor::<2>::from_data(weights, (&x.device(), dtype));
            let gradients = (standardise(x.clone(), 1, Spread::Deviation(0.5)) * weights).sum().backward();
            let grad_x = x.grad(&gradients).expect("a gradient").into_data();
            assert_eq!(grad_x.iter::<f64>().collect::<Vec<_>>(), [-4.0, -2.0, 0.0, 6.0], "{dtype:?}");
        }
    }
}

#[cfg(test)]
mod gpu_tests {
    use burn::tensor::TensorData;
    use rand::{Rng, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    use super::*;
    use crate::gpus::gpus;
    use crate::model::ops::gpu::check::assert_like_processor;

    #[test]
    fn rows_columns_and_gradients_agree_with_the_cpu() {
        let mut rng = ChaCha8Rng::seed_from_u64(7);
        for shape in [[1, 3], [3, 49], [5, 196], [300, 5], [70_001, 12]] {
            let [x, cotangent] = [(); 2].map(|()| {
                let values = (0..shape[0] * shape[1]).map(|_| rng.random_range(-2.0_f32..3.0));
                TensorData::new(values.collect::<Vec<_>>(), shape)
            });
            for axis in [0, 1].into_iter().filter(|axis| shape[*axis] > 1) {
                for spread in [Spread::Deviation(1e-6), Spread::Root(1e-5), Spread::Root(0.5)] {
                    let what = format!("{shape:?} along {axis} by {spread:?}");
                    assert_like_processor(gpus(), what, &[3e-6, 1e-5], |device, dtype| {
                        let put = |data: &TensorData| Tensor::<2>::from_data(data.clone(), (device, dtype));
                        let input = put(&x).require_grad();
                        let found = standardise(input.clone(), axis, spread);
                        let gradients = (found.clone() * put(&cotangent)).sum().backward();
                        let grad_input = input.grad(&gradients).expect("a gradient");
                        vec![found.into_data(), grad_input.into_data()]
                    });
                }
            }
        }
    }
}
