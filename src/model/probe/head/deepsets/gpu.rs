//! DeepSets on GPUs as one operation with its own gradient, by the same algebra as on the CPU ([`fused`](super::fused)): the outer
//! layer is never applied to single tokens, which saves almost half of the operations.
//!
//! A 1 is appended to a token's hidden values, and the bias to the columns of the outer layer's weight: with `V` both, less their means
//! over the channels, `y = V h` and `|y|^2 = h . (V^T V) h`. Three zero columns pad the 193 columns of `h` and `V` to whole vectors,
//! which are read faster.

use burn::backend::DispatchTensor;

use super::HIDDEN;
use crate::model::ops::gpu::columns::{COLUMNS, STEP, UNITS, add_up, share, write_sums};
use crate::model::ops::gpu::prelude::*;
use crate::model::ops::gpu::{self, is_indexable};
use crate::model::ops::matmul::PreciseMatmul as _;

/// Columns of `h`: the hidden values of a token, the 1 and the zeros.
const PADDED: usize = HIDDEN + 4;
/// Threads that read a token's row together.
const LANES: usize = 32;

/// Whether these kernels can process tokens `[B, N, d]`.
pub(super) fn supports(tokens: &Tensor<3>) -> bool {
    let [images, n, width] = tokens.dims();
    gpu::supports(tokens, UNITS, 2 * width.div_ceil(UNITS)) && is_indexable(images * n * PADDED)
}

/// [`fused::mean`](super::fused::mean), on a GPU.
pub(super) fn mean(tokens: &Tensor<3>, layers: [DispatchTensor; 4]) -> Tensor<2> {
    apply::<Cube, _, 4, 2>(DeepSetsOp { tokens: tokens.clone().without_autodiff() }, layers)
}

/// [`mean`] of these tokens as a function of the layers.
struct DeepSetsOp {
    tokens: Tensor<3>,
}

/// What the backward pass needs.
struct Saved {
    /// `[B, N, d]`.
    tokens: Tensor<3>,
    /// `V`, `[d, 196]`.
    outer: Tensor<2>,
    /// `h` of every token, `[B N, 196]`.
    hidden: Tensor<2>,
    /// `V^T V h`, `[B N, 196]`.
    projected: Tensor<2>,
    /// The factor of every token's `y` in the mean, `1 / (N sqrt(|y|^2 / d + 1e-5))`, `[B, 1, N]`.
    scales: Tensor<3>,
    /// The sum of `h` times these factors, `[B, 196]`.
    pooled: Tensor<2>,
}

impl CustomOp<CubeBackend, 4> for DeepSetsOp {
    type Saved = Saved;

    fn forward(self, layers: [CubeTensor; 4], _: bool) -> (CubeTensor, Saved) {
        let Self { tokens } = self;
        let [images, n, width] = tokens.dims();
        let [inner, inner_bias, outer, outer_bias] = layers.map(into_contiguous);
        let rows = images * n;
        let (client, units) = (&inner.client, CubeDim::new_1d(UNITS as u32));

        let centred = empty(&inner, [width, PADDED]);
        let cubes = workgroups(PADDED);
        centre::launch(client, cubes, units, arg(&outer), arg(&outer_bias), arg(&centred), width);
        let outer = tensor::<2>(centred);

        let inner = tensor::<2>(inner.clone()).transpose();
        let products = cube(tokens.clone().reshape([rows, width]).precise_matmul(inner)); // [B N, 192]
        let hidden = empty(&products, [rows, PADDED]);
        let cubes = workgroups((rows * PADDED).div_ceil(UNITS));
        activate::launch(client, cubes, units, arg(&products), arg(&inner_bias), arg(&hidden));
        let hidden = tensor::<2>(hidden);

        let square = outer.clone().transpose().precise_matmul(outer.clone());
        let projected = hidden.clone().precise_matmul(square);
        let scales = empty(&products, [images, 1, n]);
        normalise::launch(
            client,
            workgroups(rows.div_ceil(UNITS / LANES)),
            units,
            arg(&cube(hidden.clone())),
            arg(&cube(projected.clone())),
            arg(&scales),
            1.0 / width as f32,
            1.0 / n as f32,
        );
        let scales = tensor::<3>(scales);
        let pooled =
            scales.clone().precise_matmul(hidden.clone().reshape([images, n, PADDED])).squeeze_dim(1);
        let mean = Tensor::<2>::clone(&pooled).precise_matmul(outer.clone().transpose());
        (cube(mean), Saved { tokens, outer, hidden, projected, scales, pooled })
    }

    /// With `e` the gradient of an image's mean, centred, `u = V^T e`, `s` a token's scale and `w = s^3 N^2 (u . h) / d`: the gradient of
    /// the hidden values is `s u - w (V^T V h)`, that of `V` is `sum e pooled^T - V (sum w h h^T)`.
    fn vjp(saved: &Saved, grad_mean: CubeTensor, _: [bool; 4]) -> [Option<CubeTensor>; 4] {
        let Saved { tokens, outer, hidden, projected, scales, pooled } = saved;
        let [images, n, width] = tokens.dims();
        let rows = images * n;
        let grad_mean = tensor::<2>(grad_mean);
        let grad_mean = grad_mean.clone() - grad_mean.mean_dim(1);
        let grad_pooled = grad_mean.clone().precise_matmul(outer.clone()); // [B, 196]
        let products_with_u =
            hidden.clone().reshape([images, n, PADDED]).precise_matmul(grad_pooled.clone().unsqueeze_dim(2));

        let like = cube(hidden.clone());
        let [grad_hidden, weighted] = [(); 2].map(|()| empty(&like, [rows, PADDED]));
        let grad_bias = add_up(&like, [1, rows, PADDED], COLUMNS, |cubes, count, parts, sums| {
            backward::launch(
                &like.client,
                cubes,
                CubeDim::new_1d(UNITS as u32),
                arg(&like),
                arg(&cube(projected.clone())),
                arg(&cube(scales.clone())),
                arg(&cube(products_with_u)),
                arg(&cube(grad_pooled)),
                arg(&grad_hidden),
                arg(&weighted),
                arg(sums),
                (n * n) as f32 / width as f32,
                rows,
                n,
                parts,
                count,
            );
        });
        let tokens = tokens.clone().reshape([rows, width]);
        let grad_inner = tensor::<2>(grad_hidden).transpose().precise_matmul(tokens); // [196, d]
        let squares = tensor::<2>(weighted).transpose().precise_matmul(hidden.clone());
        let grad_outer =
            grad_mean.transpose().precise_matmul(pooled.clone()) - outer.clone().precise_matmul(squares); // [d, 196]
        [
            cube(grad_inner.narrow(0, 0, HIDDEN)),
            cube(tensor::<3>(grad_bias).reshape([PADDED]).narrow(0, 0, HIDDEN)),
            cube(grad_outer.clone().narrow(1, 0, HIDDEN)),
            cube(grad_outer.narrow(1, HIDDEN, 1).reshape([width])),
        ]
        .map(Some)
    }
}

/// Computes `V`, one workgroup per column.
#[cube(launch)]
fn centre(weight: &[f32], bias: &[f32], centred: &mut [f32], width: usize) {
    let column = usize::min(CUBE_POS, comptime!(PADDED - 1));
    let mut sum = 0.0f32;
    for row in range_stepped(UNIT_POS as usize, width, UNITS) {
        sum += outer_entry(weight, bias, row, column);
    }
    let mut lanes = Shared::<[f32]>::new_slice(UNITS);
    let mean = fold(sum, &mut lanes, Fold::Sum, UNITS) / f32::cast_from(width);
    for row in range_stepped(UNIT_POS as usize, width, UNITS) {
        centred[row * PADDED + column] = outer_entry(weight, bias, row, column) - mean;
    }
}

/// An entry of the outer layer's weight, followed by the bias as a column and zero columns.
#[cube]
fn outer_entry(weight: &[f32], bias: &[f32], row: usize, column: usize) -> f32 {
    let mut number = 0.0f32;
    if column < HIDDEN {
        number = weight[row * HIDDEN + column];
    } else if column == HIDDEN {
        number = bias[row];
    }
    number
}

/// Computes `h`: the outputs of the ReLU, a 1, and zeros.
#[cube(launch)]
fn activate(products: &[f32], bias: &[f32], hidden: &mut [f32]) {
    let at = ABSOLUTE_POS;
    if at < hidden.len() {
        let (row, column) = (at / PADDED, at % PADDED);
        let mut number = 0.0f32;
        if column < HIDDEN {
            number = max_nan(products[row * HIDDEN + column] + bias[column], 0.0f32); // NaN stays NaN
        } else if column == HIDDEN {
            number = 1.0f32;
        }
        hidden[at] = number;
    }
}

/// Computes the factor of every `y`, `scales`.
#[cube(launch)]
fn normalise(hidden: &[f32], projected: &[f32], scales: &mut [f32], inverse_width: f32, inverse_count: f32) {
    let (lane, group) = (UNIT_POS as usize % LANES, UNIT_POS as usize / LANES);
    let row = usize::min(CUBE_POS * comptime!(UNITS / LANES) + group, scales.len() - 1);
    let mut sum = 0.0f32;
    for column in range_stepped(lane, PADDED, LANES) {
        sum += hidden[row * PADDED + column] * projected[row * PADDED + column];
    }
    let mut lanes = Shared::<[f32]>::new_slice(UNITS);
    let square = fold(sum, &mut lanes, Fold::Sum, LANES);
    if lane == 0 {
        scales[row] = inverse_count / (max(square, 0.0) * inverse_width + 1e-5).sqrt();
    }
}

/// Computes the gradients of the inner layer's outputs, their partial sums over the tokens, and `w h`.
#[cube(launch)]
fn backward(
    hidden: &[f32],
    projected: &[f32],
    scales: &[f32],
    products_with_u: &[f32],
    grad_pooled: &[f32],
    grad_hidden: &mut [f32],
    weighted: &mut [f32],
    sums: &mut [Vector<f32, Const<1>>],
    factor: f32,
    rows: usize,
    n: usize,
    parts: usize,
    count: usize,
) {
    let share = share(rows, PADDED, parts, count, COLUMNS);
    let mut sum = 0.0f32;
    for row in range_stepped(share.row, share.end, STEP) {
        let at = row * PADDED + share.column;
        let (h, scale) = (hidden[at], scales[row]);
        let weight = scale * scale * scale * products_with_u[row] * factor;
        weighted[at] = weight * h;
        let mut grad = 0.0f32;
        if h > 0.0 {
            grad = scale * grad_pooled[row / n * PADDED + share.column] - weight * projected[at];
        }
        grad_hidden[at] = grad;
        sum += grad;
    }
    write_sums::<Const<1>>(Vector::<f32, Const<1>>::new(sum), share, PADDED, sums, COLUMNS);
}

#[cfg(test)]
mod gpu_tests {
    use burn::tensor::{DType, TensorData};
    use rand::{Rng, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    use super::super::mean;
    use super::*;
    use crate::gpus::gpus;
    use crate::model::ops::gpu::check::assert_like_processor;

    #[test]
    fn only_hidden_layers_with_indices_of_32_bits_are_supported() {
        const MAX_IMAGES: usize = u32::MAX as usize / (16 * PADDED);
        for (name, gpu) in gpus() {
            let is_supported =
                |images| supports(&Tensor::<3>::zeros([1, 1, 1], &gpu).expand([images, 16, 8]));
            assert_eq!([MAX_IMAGES, MAX_IMAGES + 1].map(is_supported), [true, false], "{name}");
        }
    }

    #[test]
    fn means_and_gradients_agree_with_the_network_token_by_token() {
        let mut rng = ChaCha8Rng::seed_from_u64(7);
        for [images, n, width] in [[1, 1, 8], [3, 49, 20], [9, 33, 300], [70, 16, 12]] {
            let mut draw = |shape: &[usize], most: f32| {
                let values = (0..shape.iter().product()).map(|_| rng.random_range(-most..most));
                TensorData::new(values.collect::<Vec<_>>(), shape.to_vec())
            };
            let (tokens, by) = (draw(&[images, n, width], 2.0), draw(&[images, width], 1.0));
            let weights = [[HIDDEN, width], [width, HIDDEN]].map(|shape| draw(&shape, 0.3));
            let biases = [HIDDEN, width].map(|length| draw(&[length], 0.5));
            let what = format!("{images} x {n} x {width}");
            assert_like_processor(gpus(), what, &[1e-5; 5], |device, dtype| {
                let on = (device, dtype);
                let weights = weights.clone().map(|data| Tensor::<2>::from_data(data, on).require_grad());
                let biases = biases.clone().map(|data| Tensor::<1>::from_data(data, on).require_grad());
                let tokens = Tensor::from_data(tokens.clone(), on);
                assert_eq!(supports(&tokens), dtype == DType::F32); // on the processor they go token by token
                let means = mean(&tokens, weights.clone(), biases.clone());
                let gradients = (means.clone() * Tensor::from_data(by.clone(), on)).sum().backward();
                let mut made = vec![means.into_data()];
                made.extend(weights.map(|x| x.grad(&gradients).expect("a gradient").into_data()));
                made.extend(biases.map(|x| x.grad(&gradients).expect("a gradient").into_data()));
                made
            });
        }
    }
}
