//! `ln(1 + e^x)` of a few numbers. On GPUs forward and backward are one kernel launch each; burn's operations take two and five.

use crate::model::ops::gpu::prelude::*;

/// Threads of a workgroup.
const UNITS: usize = 32;

/// `ln(1 + e^x)` of every element of `x` `[n]`, none so large that its exponential overflows.
pub fn softplus(x: Tensor<1>) -> Tensor<1> {
    match supports(&x, UNITS, 0) {
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
        let (cubes, units) = threads(count, UNITS);
        forward::launch(&x.client, cubes, units, arg(&x), arg(&y));
        (y, x)
    }

    fn vjp(x: &CubeTensor, grad_y: CubeTensor, _: [bool; 1]) -> [Option<CubeTensor>; 1] {
        let [count] = x.shape().dims();
        let grad_x = empty(x, [count]);
        let (cubes, units) = threads(count, UNITS);
        backward::launch(&x.client, cubes, units, arg(x), arg(&into_contiguous(grad_y)), arg(&grad_x));
        [Some(grad_x)]
    }
}

/// For small `u = e^x`, `ln(1 + u)` on a GPU loses the digits of `u`, and the usual correction does too where a driver
/// simplifies `(1 + u) - 1` to `u`: below 0.1 it is the Taylor series.
#[cube(launch)]
fn forward(x: &[f32], y: &mut [f32]) {
    if ABSOLUTE_POS < y.len() {
        let u = x[ABSOLUTE_POS].exp();
        let tail = 0.2f32 - u * (comptime!(1.0f32 / 6.0f32) - u * comptime!(1.0f32 / 7.0f32));
        let series = 1.0f32 - u * (0.5f32 - u * (comptime!(1.0f32 / 3.0f32) - u * (0.25f32 - u * tail)));
        y[ABSOLUTE_POS] = if u < 0.1 { u * series } else { (1.0f32 + u).ln() };
    }
}

#[cube(launch)]
fn backward(x: &[f32], grad_y: &[f32], grad_x: &mut [f32]) {
    if ABSOLUTE_POS < grad_x.len() {
        grad_x[ABSOLUTE_POS] = grad_y[ABSOLUTE_POS] / (1.0f32 + (-x[ABSOLUTE_POS]).exp());
    }
}

#[cfg(test)]
mod gpu_tests {
    use burn::tensor::{DType, Device};

    use super::*;
    use crate::close::assert_close;
    use crate::gpus::gpus;

    #[test]
    fn values_and_gradients_agree_with_the_cpu() {
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
                let ratios: Vec<f64> =
                    found.iter().zip(&expected).map(|(found, expected)| found / expected).collect();
                assert_close(&name, ratios, vec![1.0; expected.len()], 2e-6);
            }
        }
    }
}
