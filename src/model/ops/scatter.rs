//! Puts the rows of a matrix into another order: the same for all images, or one for each image.
//!
//! burn's scatter, which is also the backward pass of its gather, has one thread per column, which goes from row to row: for the
//! orders of 256 images 50,000 sequential steps. Since an order holds every row exactly once, the kernels here have one thread
//! per entry, forward and backward.

use burn::tensor::{IndexingUpdateOp, Int, IntDType, Shape, TensorData};

use super::gpu::is_indexable;
use crate::model::ops::gpu::prelude::*;

/// Threads of a workgroup.
const UNITS: usize = 256;

/// Scatters rows `[N, c]` to `[N, c]`: row `k` becomes row `order[k]`. Differentiable in `rows`.
pub(crate) fn scatter_rows(rows: Tensor<2>, order: Tensor<1, Int>) -> Tensor<2> {
    if supports(&rows, UNITS, 1) {
        return on_gpu(rows, order);
    }
    rows.clone().detach().zeros_like().select_assign(0, order, rows, IndexingUpdateOp::Add)
}

/// Gathers `[B N, c]` from rows `[N, c]`: token `i` of image `b` gets row `places[b, i]`, where `places` `[B, N]` holds every row
/// once for each image. Differentiable in `rows`.
pub(crate) fn gather_rows(rows: Tensor<2>, places: &[usize]) -> Tensor<2> {
    let ([n, _], device) = (rows.dims(), rows.device());
    let index = |data: Vec<i32>| Tensor::from_data(TensorData::new(data, [places.len()]), &device);
    if supports(&rows, UNITS, 1) && is_indexable(places.len() * rows.dims()[1]) {
        let mut order = vec![0; places.len()];
        for (order, places) in order.chunks_mut(n).zip(places.chunks(n)) {
            places.iter().enumerate().for_each(|(i, &k)| order[k] = i as i32);
        }
        return on_gpu(rows, index(order));
    }
    rows.select(0, index(places.iter().map(|&k| k as i32).collect()))
}

/// Scatters rows `[N, c]` to `[B N, c]` by one `order` per image, `[B N]`.
fn on_gpu(rows: Tensor<2>, order: Tensor<1, Int>) -> Tensor<2> {
    let order = order.without_autodiff().cast(IntDType::I32);
    let order = order.try_into_primitive::<Cube>().expect("an order where the rows are");
    apply::<Cube, _, 1, 2>(ScatterOp { order: into_contiguous(order) }, [rows.into_dispatch()])
}

struct ScatterOp {
    /// The index within its image that every row is moved to, `[B N]`.
    order: CubeTensor,
}

impl CustomOp<CubeBackend, 1> for ScatterOp {
    /// The operation, and the shape of its input.
    type Saved = (Self, [usize; 2]);

    fn forward(self, [rows]: [CubeTensor; 1], _: bool) -> (CubeTensor, Self::Saved) {
        let (rows, [moved]) = (into_contiguous(rows), self.order.meta.shape().dims());
        let [n, width] = rows.meta.shape().dims();
        let scattered = empty(&rows, [moved, width]);
        let (cubes, units) = threads(moved * width, UNITS);
        let (order, into) = (arg(&self.order), arg(&scattered));
        scatter::launch::<i32>(&rows.client, cubes, units, order, arg(&rows), into, n, width);
        (scattered, (self, [n, width]))
    }

    fn vjp((op, shape): &Self::Saved, grad_scattered: CubeTensor, _: [bool; 1]) -> [Option<CubeTensor>; 1] {
        let (grad_scattered, [n, width]) = (into_contiguous(grad_scattered), *shape);
        let [moved, _] = grad_scattered.meta.shape().dims();
        let grad_rows = empty(&grad_scattered, [moved / n, n * width]);
        let (cubes, units) = threads(moved * width, UNITS);
        let (order, into) = (arg(&op.order), arg(&grad_rows));
        gather::launch::<i32>(&grad_rows.client, cubes, units, order, arg(&grad_scattered), into, n, width);
        let grad_rows = if moved == n { grad_rows } else { CubeBackend::float_sum_dim(grad_rows, 0) };
        [Some(CubeBackend::float_reshape(grad_rows, Shape::new([n, width])))]
    }
}

/// Scatters rows `[n, width]` for every image: row `k` to its row `order[k]`. One thread per entry of `scattered`.
#[cube(launch)]
pub(crate) fn scatter<I: Numeric>(order: &[I], rows: &[f32], scattered: &mut [f32], n: usize, width: usize) {
    let at = ABSOLUTE_POS;
    if at < scattered.len() {
        let row = at / width;
        scattered[(row / n * n + usize::cast_from(order[row])) * width + at % width] = rows[at % (n * width)];
    }
}

/// The backward pass of [`scatter()`] for every image on its own: a gather by `order`.
#[cube(launch)]
pub(crate) fn gather<I: Numeric>(
    order: &[I],
    grad_scattered: &[f32],
    grad_rows: &mut [f32],
    n: usize,
    width: usize,
) {
    let at = ABSOLUTE_POS;
    if at < grad_rows.len() {
        let row = at / width;
        grad_rows[at] = grad_scattered[(row / n * n + usize::cast_from(order[row])) * width + at % width];
    }
}

#[cfg(test)]
mod gpu_tests {
    use super::*;
    use crate::gpus::gpus;
    use crate::model::ops::gpu::check::assert_like_processor;

    #[test]
    fn rows_and_gradients_agree_with_the_cpu() {
        for (images, n, width) in [(1, 1, 1), (1, 7, 3), (3, 301, 1), (5, 49, 32)] {
            // Every image steps through the rows by another stride, coprime to their number.
            let places: Vec<_> = (0..images * n).map(|at| at % n * (2 + at / n * n) % n).collect();
            let order: Vec<_> = places[..n].iter().map(|&k| k as i32).collect();
            for scatters in [true, false] {
                let what = format!("{images} x {n} x {width}, {scatters}");
                assert_like_processor(gpus(), what, &[0.0, 1e-6], |device, dtype| {
                    let tensor = |rows: usize| {
                        let values = (0..rows * width).map(|x| (x as f32 * 0.37).sin()).collect::<Vec<_>>();
                        Tensor::<2>::from_data(TensorData::new(values, [rows, width]), (device, dtype))
                    };
                    let rows = tensor(n).require_grad();
                    let order = || Tensor::from_data(TensorData::new(order.clone(), [n]), device);
                    let scattered = if scatters {
                        scatter_rows(rows.clone(), order())
                    } else {
                        gather_rows(rows.clone(), &places)
                    };
                    let gradients = (scattered.clone() * tensor(scattered.dims()[0])).sum().backward();
                    let grad_rows = rows.grad(&gradients).expect("a gradient");
                    vec![scattered.into_data(), grad_rows.into_data()]
                });
            }
        }
    }
}
