//! Numbers without their level and spread: each row of a matrix, or each column. On GPUs a launch each way, a workgroup a line,
//! where tensors take eight and twenty, each of which reads all of them.

use burn::backend::{Cube, TensorMetadata};
use burn::tensor::Tensor;
use burn_cubecl::cubecl;
use burn_cubecl::kernel::into_contiguous;
use burn_cubecl::{CubeBackend, tensor::CubeTensor};
use cubecl::prelude::*;

use super::custom_op::{CustomOp, apply};
use super::gpu::fold::{Fold, fold};
use super::gpu::{arg, empty, takes, workgroups};

/// Threads of a workgroup.
const UNITS: usize = 128;

/// What lines are divided by, so that none is divided by 0.
#[derive(Clone, Copy, Debug)]
pub enum Spread {
    /// The population standard deviation, and this much more.
    Deviation(f64),
    /// The root of the population variance and of this much more, as in layer and batch normalisation.
    Root(f64),
}

/// Every line along `axis` of `x`, `[M, K]`, less its mean and over its spread.
pub fn standardise(x: Tensor<2>, axis: usize, spread: Spread) -> Tensor<2> {
    if let Some(standardised) = fused(&x, axis, spread) {
        return standardised;
    }
    let centred = x.clone() - x.mean_dim(axis);
    let variance = (centred.clone() * centred.clone()).mean_dim(axis);
    centred
        / match spread {
            Spread::Deviation(more) => {
                // The root has no slope at 0, where all are equal: nothing is to come back through it.
                let is_flat = variance.clone().equal_scalar(0.0);
                variance.mask_fill(is_flat.clone(), 1.0).sqrt().mask_fill(is_flat, 0.0) + more
            }
            Spread::Root(more) => (variance + more).sqrt(),
        }
}

/// The same where kernels take it: on GPUs, in float32.
pub fn fused(x: &Tensor<2>, axis: usize, spread: Spread) -> Option<Tensor<2>> {
    let rounds = 3 * x.dims()[axis].div_ceil(UNITS);
    let op = StandardiseOp { axis, spread };
    takes(x, UNITS, rounds).then(|| apply::<Cube, _, 1, 2>(op, [x.clone().into_dispatch()]))
}

struct StandardiseOp {
    axis: usize,
    spread: Spread,
}

/// How lines lie and what they are divided by.
#[derive(CubeType, CubeLaunch, Clone, Copy)]
struct Lines {
    count: usize,
    length: usize,
    /// From the start of a line to that of the next.
    apart: usize,
    /// From a number of a line to its next.
    step: usize,
    /// By how much that is more than the deviation.
    more: f32,
    /// Whether it is within the root.
    #[cube(comptime)]
    within: bool,
}

impl StandardiseOp {
    /// Those of `x`, and a workgroup for each.
    fn lines(&self, x: &CubeTensor) -> (LinesLaunch, CubeCount) {
        let [rows, columns] = x.shape().dims();
        let (count, length, apart, step) = match self.axis {
            0 => (columns, rows, 1, columns),
            _ => (rows, columns, columns, 1),
        };
        let (more, within) = match self.spread {
            Spread::Deviation(more) => (more as f32, false),
            Spread::Root(more) => (more as f32, true),
        };
        (LinesLaunch::new(count, length, apart, step, more, within), workgroups(count))
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

    fn vjp((op, x): &Self::Saved, by_standardised: CubeTensor, _: [bool; 1]) -> [Option<CubeTensor>; 1] {
        let by_x = empty::<2>(x, x.shape().dims());
        let by_standardised = into_contiguous(by_standardised);
        let (lines, cubes) = op.lines(x);
        let units = CubeDim::new_1d(UNITS as u32);
        backward::launch(&x.client, cubes, units, arg(x), arg(&by_standardised), arg(&by_x), lines);
        [Some(by_x)]
    }
}

#[cube(launch)]
fn forward(x: &[f32], standardised: &mut [f32], lines: Lines) {
    let first = usize::min(CUBE_POS, lines.count - 1) * lines.apart;
    let mut lanes = Shared::<[f32]>::new_slice(UNITS);
    let moments = moments(x, first, &mut lanes, &lines);
    let mut j = UNIT_POS as usize;
    while j < lines.length {
        let at = first + j * lines.step;
        standardised[at] = (x[at] - moments.mean) * moments.scale;
        j += UNITS;
    }
}

/// With `y` the standardised numbers: `scale (by - mean(by) - (x - mean) mean((x - mean) by) scale / deviation)`, the deviation
/// that of the root where that is what was divided by.
#[cube(launch)]
fn backward(x: &[f32], by_standardised: &[f32], by_x: &mut [f32], lines: Lines) {
    let first = usize::min(CUBE_POS, lines.count - 1) * lines.apart;
    let mut lanes = Shared::<[f32]>::new_slice(UNITS);
    let moments = moments(x, first, &mut lanes, &lines);
    let mut along = 0.0f32;
    let mut level = 0.0f32;
    let mut j = UNIT_POS as usize;
    while j < lines.length {
        let by = by_standardised[first + j * lines.step];
        along += (x[first + j * lines.step] - moments.mean) * by;
        level += by;
        j += UNITS;
    }
    let scale = moments.scale;
    let level = fold(level, &mut lanes, Fold::Sum, UNITS) * scale / f32::cast_from(lines.length);
    let along = fold(along, &mut lanes, Fold::Sum, UNITS) * scale * scale / f32::cast_from(lines.length);
    let mut spread = 0.0f32;
    if moments.deviation > 0.0 {
        spread = along / moments.deviation; // where all numbers are equal no direction changes the deviation
    }
    j = UNIT_POS as usize;
    while j < lines.length {
        let at = first + j * lines.step;
        by_x[at] = scale * by_standardised[at] - spread * (x[at] - moments.mean) - level;
        j += UNITS;
    }
}

#[derive(CubeType)]
struct Moments {
    mean: f32,
    /// What the spread grows with.
    deviation: f32,
    /// 1 over the spread.
    scale: f32,
}

/// Those of the line that begins at `first`.
#[cube]
fn moments(x: &[f32], first: usize, lanes: &mut [f32], lines: &Lines) -> Moments {
    let mut sum = 0.0f32;
    let mut j = UNIT_POS as usize;
    while j < lines.length {
        sum += x[first + j * lines.step];
        j += UNITS;
    }
    let mean = fold(sum, lanes, Fold::Sum, UNITS) / f32::cast_from(lines.length);
    let mut squares = 0.0f32;
    j = UNIT_POS as usize;
    while j < lines.length {
        let centred = x[first + j * lines.step] - mean;
        squares += centred * centred;
        j += UNITS;
    }
    let variance = fold(squares, lanes, Fold::Sum, UNITS) / f32::cast_from(lines.length);
    if comptime!(lines.within) {
        let deviation = (variance + lines.more).sqrt();
        Moments { mean, deviation, scale: 1.0f32 / deviation }
    } else {
        let deviation = variance.sqrt();
        Moments { mean, deviation, scale: 1.0f32 / (deviation + lines.more) }
    }
}

#[cfg(test)]
mod tests {
    use burn::tensor::{DType, Device, TensorData};

    use super::*;

    /// Scores that a scorer of zeros makes.
    #[test]
    fn lines_of_equals_have_a_gradient() {
        for dtype in [DType::F32, DType::F64] {
            let data = TensorData::new(vec![0.5_f32; 4], [1, 4]);
            let x = Tensor::<2>::from_data(data, (&Device::flex().autodiff(), dtype)).require_grad();
            let weights = TensorData::new(vec![1.0_f32, 2.0, 3.0, 6.0], [1, 4]);
            let weights = Tensor::<2>::from_data(weights, (&x.device(), dtype));
            let gradients = (standardise(x.clone(), 1, Spread::Deviation(0.5)) * weights).sum().backward();
            let by_x = x.grad(&gradients).expect("a gradient").into_data();
            assert_eq!(by_x.iter::<f64>().collect::<Vec<_>>(), [-4.0, -2.0, 0.0, 6.0], "{dtype:?}");
        }
    }
}

#[cfg(test)]
mod gpu_tests {
    use burn::tensor::{DType, Device, TensorData};
    use rand::{Rng, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    use super::*;
    use crate::close::assert_close_to_largest;
    use crate::gpus::gpus;

    #[test]
    fn rows_and_columns_are_the_processors_and_so_is_their_gradient() {
        let mut rng = ChaCha8Rng::seed_from_u64(7);
        for (name, device) in gpus() {
            for shape in [[1, 3], [3, 49], [5, 196], [300, 5], [70_001, 12]] {
                let [x, by] = [(); 2].map(|()| -> Vec<f32> {
                    (0..shape[0] * shape[1]).map(|_| rng.random_range(-2.0..3.0)).collect()
                });
                for axis in [0, 1].into_iter().filter(|axis| shape[*axis] > 1) {
                    for spread in [Spread::Deviation(1e-6), Spread::Root(1e-5), Spread::Root(0.5)] {
                        let of = |device: &Device, dtype: DType| {
                            let put = |values: &[f32]| {
                                let data = TensorData::new(values.to_vec(), shape);
                                Tensor::<2>::from_data(data, (&device.clone().autodiff(), dtype))
                            };
                            let asked = put(&x).require_grad();
                            let found = standardise(asked.clone(), axis, spread);
                            let gradients = (found.clone() * put(&by)).sum().backward();
                            let by_asked = asked.grad(&gradients).expect("a gradient");
                            [found.into_data(), by_asked.into_data()]
                                .map(|data| data.iter::<f64>().collect::<Vec<_>>())
                        };
                        let [found, by_found] = of(&device, DType::F32);
                        let [expected, by_expected] = of(&Device::flex(), DType::F64);
                        let what = format!("{shape:?} along {axis} by {spread:?} on {name}");
                        assert_close_to_largest(&what, found, expected, 3e-6);
                        assert_close_to_largest(format!("{what}, gradient"), by_found, by_expected, 1e-5);
                    }
                }
            }
        }
    }
}
