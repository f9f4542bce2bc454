//! `activate(x + bias)`, what follows the product of a linear layer: on GPUs one pass over the batch's tokens forward and one
//! back, where tensors take three and up to six, with a sum over all tokens among them that a thread a column makes alone.

use burn::backend::{Cube, TensorMetadata, ops::FloatTensorOps};
use burn::tensor::{Shape, Tensor, activation};
use burn_cubecl::cubecl;
use burn_cubecl::kernel::into_contiguous;
use burn_cubecl::{CubeBackend, tensor::CubeTensor};
use cubecl::prelude::*;

use super::custom_op::{CustomOp, apply};
use super::gpu::columns::{AT_ONCE, UNITS, add_up, leave, share, width};
use super::gpu::{arg, empty, takes, workgroups};

/// What a layer does with every number in the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Activation {
    /// Nothing.
    None,
    /// `max(x, 0)`.
    Relu,
    /// `tanh x`.
    Tanh,
}

/// `activate(x + bias)` of rows `[B, d]` and a bias `[d]`.
pub fn biased(x: Tensor<2>, bias: Tensor<1>, activation: Activation) -> Tensor<2> {
    if takes(&x, UNITS, 0) {
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
    /// The activation, and what came of it.
    type Saved = (Activation, Option<CubeTensor>);

    fn forward(self, inputs: [CubeTensor; 2], _: bool) -> (CubeTensor, Self::Saved) {
        let Self(activation) = self;
        let [x, bias] = inputs.map(into_contiguous);
        let [rows, columns] = x.shape().dims();
        let y = empty(&x, [rows, columns]);
        forward::launch(
            &x.client,
            workgroups((rows * columns).div_ceil(UNITS)),
            CubeDim::new_1d(UNITS as u32),
            arg(&x),
            arg(&bias),
            arg(&y),
            columns,
            activation,
        );
        let saved = (activation != Activation::None).then(|| y.clone());
        (y, (activation, saved))
    }

    fn vjp((activation, y): &Self::Saved, by_y: CubeTensor, _: [bool; 2]) -> [Option<CubeTensor>; 2] {
        let by_y = into_contiguous(by_y);
        let [rows, columns] = by_y.shape().dims();
        let by_x = if y.is_some() { empty(&by_y, [rows, columns]) } else { by_y.clone() };
        let y = y.as_ref().unwrap_or(&by_y);
        let lanes = width(rows, columns);
        let by_bias = add_up(&by_y, [1, rows, columns], lanes, |cubes, count, parts, sums| {
            backward::launch(
                &by_y.client,
                cubes,
                CubeDim::new_1d(UNITS as u32),
                arg(y),
                arg(&by_y),
                arg(&by_x),
                arg(sums),
                rows,
                columns,
                parts,
                count,
                lanes,
                *activation,
            );
        });
        [by_x, CubeBackend::float_reshape(by_bias, Shape::new([columns]))].map(Some)
    }
}

#[cube(launch)]
fn forward(x: &[f32], bias: &[f32], y: &mut [f32], columns: usize, #[comptime] activation: Activation) {
    let at = ABSOLUTE_POS;
    if at < y.len() {
        let z = x[at] + bias[at % columns];
        y[at] = match comptime!(activation) {
            Activation::None => z,
            Activation::Relu => max_nan(z, 0.0f32), // what is no number stays none
            Activation::Tanh => z.tanh(),
        };
    }
}

#[cube(launch)]
fn backward(
    y: &[f32],
    by_y: &[f32],
    by_x: &mut [f32],
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
    while row + comptime!((AT_ONCE - 1) * step) < share.end {
        let first = row * columns + share.column;
        let mut owed = Array::<f32>::new(AT_ONCE);
        #[unroll]
        for next in 0..AT_ONCE {
            owed[next] = by_z(y, by_y, first + comptime!(next * step) * columns, activation);
        }
        #[unroll]
        for next in 0..AT_ONCE {
            if comptime!(activation != Activation::None) {
                by_x[first + comptime!(next * step) * columns] = owed[next];
            }
            sum += owed[next];
        }
        row += comptime!(AT_ONCE * step);
    }
    while row < share.end {
        let at = row * columns + share.column;
        let owed = by_z(y, by_y, at, activation);
        if comptime!(activation != Activation::None) {
            by_x[at] = owed;
        }
        sum += owed;
        row += step;
    }
    leave::<Const<1>>(Vector::<f32, Const<1>>::new(sum), share, columns, sums, lanes);
}

/// The gradient of what was activated.
#[cube]
fn by_z(y: &[f32], by_y: &[f32], at: usize, #[comptime] activation: Activation) -> f32 {
    match comptime!(activation) {
        Activation::None => by_y[at],
        Activation::Relu => {
            if y[at] <= 0.0 {
                0.0f32
            } else {
                by_y[at]
            }
        }
        Activation::Tanh => by_y[at] * (1.0f32 - y[at] * y[at]),
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
    fn it_is_the_processors_and_so_are_its_gradients() {
        let mut rng = ChaCha8Rng::seed_from_u64(3);
        for [rows, columns] in [[1, 1], [3, 130], [513, 7], [1300, 129], [21, 7700]] {
            let [x, bias] = [vec![rows, columns], vec![columns]].map(|shape| {
                let count = shape.iter().product();
                let values = (0..count).map(|_| rng.random_range(-1.5_f32..1.0)).collect::<Vec<_>>();
                TensorData::new(values, shape)
            });
            for activation in [Activation::None, Activation::Relu, Activation::Tanh] {
                let of = |device: &Device, dtype: DType| {
                    let device = device.clone().autodiff();
                    let x = Tensor::<2>::from_data(x.clone(), (&device, dtype)).require_grad();
                    let bias = Tensor::<1>::from_data(bias.clone(), (&device, dtype)).require_grad();
                    let y = biased(x.clone(), bias.clone(), activation);
                    let gradients = (y.clone() + 1.0).square().sum().backward(); // owed where a ReLU is 0, too
                    let by_x = x.grad(&gradients).expect("a gradient").into_data();
                    let by_bias = bias.grad(&gradients).expect("a gradient").into_data();
                    [y.into_data(), by_x, by_bias].map(|data| data.iter::<f64>().collect::<Vec<_>>())
                };
                let expected = of(&Device::flex(), DType::F64);
                for (name, device) in gpus() {
                    for (found, expected) in of(&device, DType::F32).into_iter().zip(&expected) {
                        let what = format!("{activation:?} of {rows} x {columns} on {name}");
                        assert_close_to_largest(what, found, expected.clone(), 2e-6);
                    }
                }
            }
        }
    }
}
