//! Matrix products in full float32 precision, on every device; on the CPU in `cpu`, but batches of them by burn.
//!
//! With CUDA, burn's float32 kernels round their factors to TF32 (ten bits) wherever there are tensor cores, and nothing switches
//! that off: tokens would be off by 1e-3, and the repeated squares of S4 by 8e-3. There `float32` chooses among kernels that
//! multiply in float32, ours in `tiled` among them; elsewhere, and in float16, burn chooses. Products with a single row or
//! column are bound by how the other factor is read, and go to [`vector`]; small products of long sums are split by [`split_k`].

mod cpu;
#[cfg(feature = "cuda")]
mod float32;
mod split_k;
#[cfg(any(feature = "cuda", test))]
mod tiled;
mod vector;

use burn::backend::Flex;
use burn::tensor::{DType, Shape};

use super::cpu::on_cpu;
use super::gpu::gpu;
use crate::model::ops::gpu::prelude::*;

/// [`Tensor::matmul`] in the precision that its factors have.
pub trait PreciseMatmul {
    /// The product `self other` over the last two axes; the axes before them are batch axes, broadcast where they have length 1.
    fn precise_matmul(self, other: Self) -> Self;
}

impl<const D: usize> PreciseMatmul for Tensor<D> {
    #[expect(clippy::disallowed_methods, reason = "for factors that no kernel rounds")]
    fn precise_matmul(self, other: Self) -> Self {
        let is_float32 = self.dtype() == DType::F32;
        if is_float32 && gpu(&self).is_some() {
            return apply::<Cube, _, 2, D>(Product, [self.into_dispatch(), other.into_dispatch()]);
        }
        if is_float32 && D == 2 && on_cpu(&self.device()) {
            return apply::<Flex, _, 2, D>(Product, [self.into_dispatch(), other.into_dispatch()]);
        }
        self.matmul(other)
    }
}

/// The product of two matrices, or of batches of them.
struct Product;

impl CustomOp<CubeBackend, 2> for Product {
    /// Both factors.
    type Saved = [CubeTensor; 2];

    fn forward(self, factors: [CubeTensor; 2], _: bool) -> (CubeTensor, Self::Saved) {
        let [left, right] = factors.clone();
        (multiply(left, right), factors)
    }

    /// Skips the gradients that are not wanted: that of frozen tokens would be as large as they are. A gradient gets the memory
    /// layout of its factor, so that the gradient of a transposed weight is read without a copy.
    fn vjp(
        [left, right]: &Self::Saved,
        grad_product: CubeTensor,
        [left_wanted, right_wanted]: [bool; 2],
    ) -> [Option<CubeTensor>; 2] {
        let grad_left = left_wanted.then(|| factor_gradient(left, grad_product.clone(), transposed(right)));
        let grad_right = right_wanted.then(|| {
            let shared = is_broadcast(right, left);
            let [left, grad_product] =
                [left.clone(), grad_product].map(|x| if shared { stack_batch(x) } else { x });
            factor_gradient(right, transposed(&left), grad_product)
        });
        [grad_left, grad_right]
    }
}

/// The product, with contiguous rows.
fn multiply(left: CubeTensor, right: CubeTensor) -> CubeTensor {
    if let Some(product) = vector::multiply(&left, &right).or_else(|| split_k::multiply(&left, &right)) {
        return product;
    }
    #[cfg(feature = "cuda")]
    if float32::rounds(&left) {
        return float32::multiply(left, right);
    }
    into_contiguous(CubeBackend::float_matmul(left, right)) // CUDA pads its rows
}

/// `a b`, the gradient of `factor`: transposed in memory if `factor` is, and summed over its broadcast axes.
fn factor_gradient(factor: &CubeTensor, a: CubeTensor, b: CubeTensor) -> CubeTensor {
    let [row_stride, column_stride] = factor.meta.strides()[factor.shape().num_dims() - 2..] else {
        unreachable!()
    };
    let product = match row_stride < column_stride {
        true => transposed(&multiply(transposed(&b), transposed(&a))),
        false => multiply(a, b),
    };
    sum_broadcast(product, factor)
}

/// Whether a factor is one matrix for the whole batch of the other.
fn is_broadcast(factor: &CubeTensor, other: &CubeTensor) -> bool {
    factor.shape().num_dims() == 3 && factor.shape()[0] == 1 && other.shape()[0] > 1
}

/// Stacks the matrices of a batch `[B, M, K]` to one, `[1, B M, K]`.
fn stack_batch(batch: CubeTensor) -> CubeTensor {
    let [images, rows, columns] = batch.shape().dims();
    CubeBackend::float_reshape(batch, Shape::new([1, images * rows, columns]))
}

/// The shape of a product: batch axes of length 1 are broadcast.
fn shape_of(left: &CubeTensor, right: &CubeTensor) -> Shape {
    let last = left.shape().num_dims() - 1;
    let mut shape = left.shape().clone();
    (0..last - 1).for_each(|axis| shape[axis] = left.shape()[axis].max(right.shape()[axis]));
    shape[last] = right.shape()[last];
    shape
}

fn transposed(matrix: &CubeTensor) -> CubeTensor {
    let axes = matrix.shape().num_dims();
    CubeBackend::float_swap_dims(matrix.clone(), axes - 2, axes - 1)
}

/// The gradient of `factor`, summed over the axes along which it was broadcast.
fn sum_broadcast(gradient: CubeTensor, factor: &CubeTensor) -> CubeTensor {
    let is_broadcast_axis =
        |gradient: &CubeTensor, axis: usize| factor.shape()[axis] == 1 && gradient.shape()[axis] > 1;
    (0..factor.shape().num_dims()).fold(gradient, |gradient, axis| match is_broadcast_axis(&gradient, axis) {
        true => CubeBackend::float_sum_dim(gradient, axis),
        false => gradient,
    })
}

#[cfg(test)]
mod gpu_tests {
    use burn::tensor::TensorData;
    use rand::{Rng, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    use super::*;
    use crate::gpus::gpus;
    use crate::model::ops::gpu::check::assert_like_processor;
    use crate::model::ops::gpu::cube;

    #[test]
    fn only_wanted_gradients_are_computed() {
        for (name, device) in gpus() {
            let [left, right, grad] =
                [[3, 2], [2, 4], [3, 4]].map(|shape| cube(Tensor::<2>::ones(shape, &device)));
            let made = <Product as CustomOp<CubeBackend, 2>>::vjp(&[left, right], grad, [false, true]);
            assert_eq!(made.each_ref().map(Option::is_some), [false, true], "{name}");
        }
    }

    /// A name, the shapes of both factors, and the product to take of them.
    type Case = (&'static str, [usize; 3], [usize; 3], fn(Tensor<3>, Tensor<3>) -> Tensor<3>);

    #[test]
    fn products_and_gradients_agree_with_the_cpu() {
        let matmul: fn(Tensor<3>, Tensor<3>) -> Tensor<3> = |a, b| a.precise_matmul(b);
        let flat = |a: Tensor<3>, b: Tensor<3>| {
            let [images, n, width] = a.dims();
            let product = a.reshape([images * n, width]).precise_matmul(b.squeeze_dim::<2>(0));
            product.reshape([images, n, 1])
        };
        let cases: [Case; 20] = [
            ("scores", [3, 49, 70], [1, 70, 1], flat),
            ("scores of many tokens", [4, 700, 12], [1, 12, 1], flat),
            ("a query of each image", [3, 49, 130], [3, 130, 1], matmul),
            ("a query of each image, in vectors", [3, 49, 132], [3, 132, 1], matmul),
            ("one query of all images", [3, 33, 130], [1, 130, 1], matmul),
            ("tokens weighed", [3, 1, 49], [3, 49, 130], matmul),
            ("many tokens weighed, in vectors", [2, 1, 690], [2, 690, 72], matmul),
            ("tokens weighed alike", [1, 1, 49], [3, 49, 130], matmul),
            ("more rows than a workgroup takes", [2, 1, 1300], [2, 1300, 5], matmul),
            ("transposed", [3, 1, 40], [3, 7, 40], |a, b| a.precise_matmul(b.swap_dims(1, 2))),
            ("a vector with gaps", [1, 49, 3], [3, 49, 20], |a, b| a.permute([2, 0, 1]).precise_matmul(b)),
            ("a shared matrix", [3, 49, 20], [1, 20, 7], matmul),
            ("of many columns", [3, 49, 20], [1, 20, 70], matmul),
            ("which are rows", [3, 49, 20], [1, 70, 20], |a, b| a.precise_matmul(b.swap_dims(1, 2))),
            ("a sum over many tokens", [300, 49, 20], [1, 20, 70], matmul),
            ("a matrix of each image", [3, 5, 20], [3, 20, 7], matmul),
            ("of long sums", [2, 3, 2048], [2, 2048, 5], matmul),
            ("of long sums with one", [2, 3, 2048], [1, 2048, 5], matmul),
            ("of long sums with columns", [2, 2048, 3], [2, 2048, 5], |a, b| {
                a.swap_dims(1, 2).precise_matmul(b)
            }),
            ("two numbers", [1, 1, 1], [2, 1, 1], matmul),
        ];
        let mut rng = ChaCha8Rng::seed_from_u64(5);
        for (what, left, right, product) in cases {
            let factors = [left, right].map(|shape| {
                let values = (0..shape.iter().product()).map(|_| rng.random_range(-1.0_f32..1.5));
                TensorData::new(values.collect::<Vec<_>>(), shape)
            });
            for wanted in [[true, true], [false, true], [true, false], [false, false]] {
                let shares = vec![2e-6; 1 + wanted.iter().filter(|wanted| **wanted).count()];
                assert_like_processor(gpus(), format!("{what}, {wanted:?}"), &shares, |device, dtype| {
                    let [a, b] = [0, 1].map(|at| {
                        let factor = Tensor::<3>::from_data(factors[at].clone(), (device, dtype));
                        if wanted[at] { factor.require_grad() } else { factor }
                    });
                    let found = product(a.clone(), b.clone());
                    let mut made = vec![found.clone().into_data()];
                    if wanted.contains(&true) {
                        let gradients = (found.clone() * found).sum().backward();
                        made.extend([a, b].iter().filter_map(|x| x.grad(&gradients)).map(Tensor::into_data));
                    }
                    made
                });
            }
        }
    }
}
