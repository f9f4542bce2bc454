//! `ln(1 + e^x)` of a few numbers: on GPUs a launch each way, where tensors take two and five.

use burn::backend::{Cube, TensorMetadata};
use burn::tensor::Tensor;
use burn_cubecl::cubecl;
use burn_cubecl::kernel::into_contiguous;
use burn_cubecl::{CubeBackend, tensor::CubeTensor};
use cubecl::prelude::*;

use super::custom_op::{CustomOp, apply};
use super::gpu::{arg, empty, takes, workgroups};

/// Threads of a workgroup.
const UNITS: usize = 32;

/// Of every number, none so large that its exponential has no end.
pub fn softplus(x: Tensor<1>) -> Tensor<1> {
    match takes(&x, UNITS, 0) {
        true => apply::<Cube, _, 1, 1>(SoftplusOp, [x.into_dispatch()]),
        false => x.exp().log1p(),
    }
}

struct SoftplusOp;

impl CustomOp<CubeBackend, 1> for SoftplusOp {
    type Saved = CubeTensor;

    fn forward(self, [x]: [CubeTensor; 1], _: bool) -> (CubeTensor, CubeTensor) {
        let x = into_contiguous(x);
        let [count] = x.shape().dims();
        let y = empty(&x, [count]);
        let cubes = workgroups(count.div_ceil(UNITS));
        forward::launch(&x.client, cubes, CubeDim::new_1d(UNITS as u32), arg(&x), arg(&y));
        (y, x)
    }

    fn vjp(x: &CubeTensor, by_y: CubeTensor, _: [bool; 1]) -> [Option<CubeTensor>; 1] {
        let [count] = x.shape().dims();
        let by_x = empty(x, [count]);
        let (cubes, by_y) = (workgroups(count.div_ceil(UNITS)), into_contiguous(by_y));
        backward::launch(&x.client, cubes, CubeDim::new_1d(UNITS as u32), arg(x), arg(&by_y), arg(&by_x));
        [Some(by_x)]
    }
}

/// A GPU's logarithm of 1 and a little more loses the little's digits, and so does what could make them good where a driver
/// takes `(1 + u) - 1` for `u`: of little ones the series.
#[cube(launch)]
fn forward(x: &[f32], y: &mut [f32]) {
    if ABSOLUTE_POS < y.len() {
        let u = x[ABSOLUTE_POS].exp();
        let late = 0.2f32 - u * (comptime!(1.0f32 / 6.0f32) - u * comptime!(1.0f32 / 7.0f32));
        let series = 1.0f32 - u * (0.5f32 - u * (comptime!(1.0f32 / 3.0f32) - u * (0.25f32 - u * late)));
        y[ABSOLUTE_POS] = if u < 0.1 { u * series } else { (1.0f32 + u).ln() };
    }
}

#[cube(launch)]
fn backward(x: &[f32], by_y: &[f32], by_x: &mut [f32]) {
    if ABSOLUTE_POS < by_x.len() {
        by_x[ABSOLUTE_POS] = by_y[ABSOLUTE_POS] / (1.0f32 + (-x[ABSOLUTE_POS]).exp());
    }
}

#[cfg(test)]
mod gpu_tests {
    use burn::tensor::{DType, Device};

    use super::*;
    use crate::close::assert_close;
    use crate::gpus::gpus;

    #[test]
    fn it_is_the_processors_and_so_is_its_gradient() {
        let values: Vec<f64> = (-120..40).map(|x| f64::from(x) / 10.0).collect();
        let of = |device: &Device, dtype: DType| {
            let x = Tensor::<1>::from_data(&values[..], (&device.clone().autodiff(), dtype)).require_grad();
            let y = softplus(x.clone());
            let gradients = (y.clone() * y.clone()).sum().backward();
            [y.into_data(), x.grad(&gradients).expect("a gradient").into_data()]
                .map(|data| data.iter::<f64>().collect::<Vec<_>>())
        };
        for (name, device) in gpus() {
            let found = of(&device, DType::F32);
            for (found, expected) in found.into_iter().zip(of(&Device::flex(), DType::F64)) {
                let shares: Vec<f64> =
                    found.iter().zip(&expected).map(|(found, expected)| found / expected).collect();
                assert_close(&name, shares, vec![1.0; expected.len()], 2e-6);
            }
        }
    }
}
