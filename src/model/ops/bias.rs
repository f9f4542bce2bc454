//! `activate(x + bias)`, which follows the product of a linear layer. On GPUs one pass over the batch's tokens forward and one
//! backward; burn's operations take three and up to six, among them a sum over all tokens with one thread per column.

use burn::tensor::{Shape, activation};

use super::gpu::columns::{UNITS, UNROLL, add_up, share, workgroup_columns, write_sums};
use crate::model::ops::gpu::prelude::*;

/// The activation of a linear layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Activation {
    /// The identity.
    None,
    /// `max(x, 0)`.
    Relu,
    /// `tanh x`.
    Tanh,
}

/// `activate(x + bias)` of `x` `[B, d]` and `bias` `[d]`: `[B, d]`.
pub fn biased(x: Tensor<2>, bias: Tensor<1>, activation: Activation) -> Tensor<2> {
    if supports(&x, UNITS, 0) {
        return apply::<Cube, _, 2, 2>(Biased(activation), [x.into_dispatch(), bias.into_dispatch()]);
    }
    let x = x + bias.unsqueeze_dim(0);
    match activation {
        Activation::None => x,
        Activation::Relu => activation::relu(x),
        Activation::Tanh => activation::tanh(x),
    }
}

/// [`biased`] as an operation.
pub(crate) struct Biased(Activation);

impl CustomOp<CubeBackend, 2> for Biased {
    /// The activation, and the output unless the activation is the identity.
    type Saved = (Activation, Option<CubeTensor>);

    fn forward(self, inputs: [CubeTensor; 2], _: bool) -> (CubeTensor, Self::Saved) {
        let Self(activation) = self;
        let [x, bias] = inputs.map(into_contiguous);
        let [rows, columns] = x.shape().dims();
        let y = empty(&x, [rows, columns]);
        let (cubes, units) = threads(rows * columns, UNITS);
        forward::launch(&x.client, cubes, units, arg(&x), arg(&bias), arg(&y), columns, activation);
        let saved = (activation != Activation::None).then(|| y.clone());
        (y, (activation, saved))
    }

    fn vjp((activation, y): &Self::Saved, grad_y: CubeTensor, _: [bool; 2]) -> [Option<CubeTensor>; 2] {
        let grad_y = into_contiguous(grad_y);
        let [rows, columns] = grad_y.shape().dims();
        let grad_x = if y.is_some() { empty(&grad_y, [rows, columns]) } else { grad_y.clone() };
        let y = y.as_ref().unwrap_or(&grad_y);
        let lanes = workgroup_columns(rows, columns);
        let grad_bias = add_up(&grad_y, [1, rows, columns], lanes, |cubes, count, parts, sums| {
            backward::launch(
                &grad_y.client,
                cubes,
                CubeDim::new_1d(UNITS as u32),
                arg(y),
                arg(&grad_y),
                arg(&grad_x),
                arg(sums),
                rows,
                columns,
                parts,
                count,
                lanes,
                *activation,
            );
        });
        [grad_x, CubeBackend::float_reshape(grad_bias, Shape::new([columns]))].map(Some)
    }
}

#[cube(launch)]
fn forward(x: &[f32], bias: &[f32], y: &mut [f32], columns: usize, #[comptime] activation: Activation) {
    let at = ABSOLUTE_POS;
    if at < y.len() {
        let z = x[at] + bias[at % columns];
        y[at] = match comptime!(activation) {
            Activation::None => z,
            Activation::Relu => max_nan(z, 0.0f32), // NaN stays NaN
            Activation::Tanh => z.tanh(),
        };
    }
}

#[cube(launch)]
fn backward(
    y: &[f32],
    grad_y: &[f32],
    grad_x: &mut [f32],
    sums: &mut [Vector<f32, Const<1>>],
    rows: usize,
    columns: usize,
    parts: usize,
    count: usize,
    #[comptime] lanes: usize,
    #[comptime] activation: Activation,
) {
    let share = share(rows, columns, parts, count, lanes);
    let step = comptime!(UNITS / lanes);
    let mut row = share.row;
    let mut sum = 0.0f32;
    while row + comptime!((UNROLL - 1) * step) < share.end {
        let first = row * columns + share.column;
        let mut grads = Array::<f32>::new(UNROLL);
        #[unroll]
        for next in 0..UNROLL {
            grads[next] = grad_z(y, grad_y, first + comptime!(next * step) * columns, activation);
        }
        #[unroll]
        for next in 0..UNROLL {
            if comptime!(activation != Activation::None) {
                grad_x[first + comptime!(next * step) * columns] = grads[next];
            }
            sum += grads[next];
        }
        row += comptime!(UNROLL * step);
    }
    while row < share.end {
        let at = row * columns + share.column;
        let grad = grad_z(y, grad_y, at, activation);
        if comptime!(activation != Activation::None) {
            grad_x[at] = grad;
        }
        sum += grad;
        row += step;
    }
    write_sums::<Const<1>>(Vector::<f32, Const<1>>::new(sum), share, columns, sums, lanes);
}

/// The gradient of `z = x + bias` at `at`, from the output `y` and its gradient.
#[cube]
fn grad_z(y: &[f32], grad_y: &[f32], at: usize, #[comptime] activation: Activation) -> f32 {
    match comptime!(activation) {
        Activation::None => grad_y[at],
        Activation::Relu => {
            if y[at] <= 0.0 {
                0.0f32
            } else {
                grad_y[at]
            }
        }
        Activation::Tanh => grad_y[at] * (1.0f32 - y[at] * y[at]),
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
    fn values_and_gradients_agree_with_the_cpu() {
        let mut rng = ChaCha8Rng::seed_from_u64(3);
        for [rows, columns] in [[1, 1], [3, 130], [513, 7], [1300, 129], [21, 7700]] {
            let [x, bias] = [vec![rows, columns], vec![columns]].map(|shape| {
                let count = shape.iter().product();
                let values = (0..count).map(|_| rng.random_range(-1.5_f32..1.0)).collect::<Vec<_>>();
                TensorData::new(values, shape)
            });
            for activation in [Activation::None, Activation::Relu, Activation::Tanh] {
                let what = format!("{activation:?} of {rows} x {columns}");
                assert_like_processor(gpus(), what, &[2e-6; 3], |device, dtype| {
                    let x = Tensor::<2>::from_data(x.clone(), (device, dtype)).require_grad();
                    let bias = Tensor::<1>::from_data(bias.clone(), (device, dtype)).require_grad();
                    let y = biased(x.clone(), bias.clone(), activation);
                    let gradients = (y.clone() + 1.0).square().sum().backward(); // not 0 where a ReLU is 0
                    let grad_x = x.grad(&gradients).expect("a gradient").into_data();
                    let grad_bias = bias.grad(&gradients).expect("a gradient").into_data();
                    vec![y.into_data(), grad_x, grad_bias]
                });
            }
        }
    }
}
