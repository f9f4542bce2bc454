//! Rows of a matrix in another order, of every image its own if need be.
//!
//! burn's scatter has one thread a column, which goes from row to row, and it is also how burn sends a gradient back through a
//! look-up: of the orders of 256 images 50,000 steps in a row. An order has every row once, so that on GPUs a thread an entry
//! does, both ways.

use burn::backend::{Cube, ops::FloatTensorOps};
use burn::tensor::{IndexingUpdateOp, Int, IntDType, Shape, Tensor, TensorData};
use burn_cubecl::cubecl;
use burn_cubecl::kernel::into_contiguous;
use burn_cubecl::{CubeBackend, tensor::CubeTensor};
use cubecl::prelude::*;

use super::custom_op::{CustomOp, apply};
use super::gpu::{arg, counts, empty, takes, workgroups};

/// Threads of a workgroup.
const UNITS: usize = 256;

/// `[N, c]` of rows `[N, c]`: row `k` is row `order[k]` of what comes out. Differentiable in `rows`.
pub(crate) fn place(rows: Tensor<2>, order: Tensor<1, Int>) -> Tensor<2> {
    if takes(&rows, UNITS, 1) {
        return on_gpu(rows, order);
    }
    rows.clone().detach().zeros_like().select_assign(0, order, rows, IndexingUpdateOp::Add)
}

/// `[B N, c]` of rows `[N, c]`: for token `i` of image `b` row `places[b, i]`; each image has every row once. Differentiable in
/// `rows`.
pub(crate) fn look_up(rows: Tensor<2>, places: &[usize]) -> Tensor<2> {
    let ([n, _], device) = (rows.dims(), rows.device());
    let index = |data: Vec<i32>| Tensor::from_data(TensorData::new(data, [places.len()]), &device);
    if takes(&rows, UNITS, 1) && counts(places.len() * rows.dims()[1]) {
        let mut order = vec![0; places.len()];
        for (order, places) in order.chunks_mut(n).zip(places.chunks(n)) {
            places.iter().enumerate().for_each(|(i, &k)| order[k] = i as i32);
        }
        return on_gpu(rows, index(order));
    }
    rows.select(0, index(places.iter().map(|&k| k as i32).collect()))
}

/// By an order of each image, `[B N]`.
fn on_gpu(rows: Tensor<2>, order: Tensor<1, Int>) -> Tensor<2> {
    let order = order.without_autodiff().cast(IntDType::I32);
    let order = order.try_into_primitive::<Cube>().expect("an order where the rows are");
    apply::<Cube, _, 1, 2>(PlaceOp { order: into_contiguous(order) }, [rows.into_dispatch()])
}

struct PlaceOp {
    /// Where every row goes within its image, `[B N]`.
    order: CubeTensor,
}

impl CustomOp<CubeBackend, 1> for PlaceOp {
    /// The operation, and the shape of the rows.
    type Saved = (Self, [usize; 2]);

    fn forward(self, [rows]: [CubeTensor; 1], _: bool) -> (CubeTensor, Self::Saved) {
        let (rows, [moved]) = (into_contiguous(rows), self.order.meta.shape().dims());
        let [n, width] = rows.meta.shape().dims();
        let placed = empty(&rows, [moved, width]);
        let (cubes, units) = threads(moved * width);
        let (order, into) = (arg(&self.order), arg(&placed));
        put::launch::<i32>(&rows.client, cubes, units, order, arg(&rows), into, n, width);
        (placed, (self, [n, width]))
    }

    fn vjp((op, shape): &Self::Saved, by_placed: CubeTensor, _: [bool; 1]) -> [Option<CubeTensor>; 1] {
        let (by_placed, [n, width]) = (into_contiguous(by_placed), *shape);
        let [moved, _] = by_placed.meta.shape().dims();
        let by_rows = empty(&by_placed, [moved / n, n * width]);
        let (cubes, units) = threads(moved * width);
        let (order, into) = (arg(&op.order), arg(&by_rows));
        take::launch::<i32>(&by_rows.client, cubes, units, order, arg(&by_placed), into, n, width);
        let by_rows = if moved == n { by_rows } else { CubeBackend::float_sum_dim(by_rows, 0) };
        [Some(CubeBackend::float_reshape(by_rows, Shape::new([n, width])))]
    }
}

/// A thread an entry.
fn threads(entries: usize) -> (CubeCount, CubeDim) {
    (workgroups(entries.div_ceil(UNITS)), CubeDim::new_1d(UNITS as u32))
}

/// Rows `[n, width]` placed for every image: its row `k` at its row `order[k]`.
#[cube(launch)]
pub(crate) fn put<I: Numeric>(order: &[I], rows: &[f32], placed: &mut [f32], n: usize, width: usize) {
    let at = ABSOLUTE_POS;
    if at < placed.len() {
        let row = at / width;
        placed[(row / n * n + usize::cast_from(order[row])) * width + at % width] = rows[at % (n * width)];
    }
}

/// The way back of [`put`], for every image on its own.
#[cube(launch)]
pub(crate) fn take<I: Numeric>(order: &[I], by_placed: &[f32], by_rows: &mut [f32], n: usize, width: usize) {
    let at = ABSOLUTE_POS;
    if at < by_rows.len() {
        let row = at / width;
        by_rows[at] = by_placed[(row / n * n + usize::cast_from(order[row])) * width + at % width];
    }
}

#[cfg(test)]
mod gpu_tests {
    use burn::tensor::Device;

    use super::*;
    use crate::gpus::gpus;

    #[test]
    fn rows_go_where_the_processor_places_them_and_so_do_their_gradients() {
        for (name, gpu) in gpus() {
            for (images, n, width) in [(1, 1, 1), (1, 7, 3), (3, 301, 1), (5, 49, 32)] {
                // Of every image another step through the rows, that shares no factor with their number.
                let places: Vec<_> = (0..images * n).map(|at| at % n * (2 + at / n * n) % n).collect();
                let order: Vec<_> = places[..n].iter().map(|&k| k as i32).collect();
                let run = |device: &Device, placing: bool| {
                    let values = |len: usize| (0..len).map(|x| (x as f32 * 0.37).sin()).collect::<Vec<_>>();
                    let tensor = |rows: usize| TensorData::new(values(rows * width), [rows, width]);
                    let device = device.clone().autodiff();
                    let rows = Tensor::<2>::from_data(tensor(n), &device).require_grad();
                    let order = || Tensor::from_data(TensorData::new(order.clone(), [n]), &device);
                    let placed =
                        if placing { place(rows.clone(), order()) } else { look_up(rows.clone(), &places) };
                    let [moved, _] = placed.dims();
                    let gradients =
                        (placed.clone() * Tensor::from_data(tensor(moved), &device)).sum().backward();
                    let by_rows = rows.grad(&gradients).expect("a gradient");
                    [placed.inner(), by_rows]
                        .map(|found| found.into_data().try_into_vec::<f32>().expect("float32"))
                };
                for placing in [true, false] {
                    let (found, expected) = (run(&gpu, placing), run(&Device::flex(), placing));
                    assert_eq!(found[0], expected[0], "{name}: {images} x {n} x {width}");
                    for (found, expected) in found[1].iter().zip(&expected[1]) {
                        assert!(
                            (found - expected).abs() < 1e-6,
                            "{name}: {images} x {n} x {width}, gradient"
                        );
                    }
                }
            }
        }
    }
}
