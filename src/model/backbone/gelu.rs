//! GELU (Hendrycks and Gimpel, 2016) on the CPU in one pass and in wide registers: `x (1 + erf(x / sqrt 2)) / 2`.

use burn::backend::Flex;
use burn::tensor::{DType, Tensor, activation};
use rayon::prelude::*;

use crate::model::ops::cpu::{flex, on_cpu};
use crate::model::ops::simd::{exp_single, multiply_add, vectorised};

/// Values a thread takes at once.
const CHUNK: usize = 1 << 13;

/// GELU of every value; in place on the CPU where nobody else holds them.
pub(super) fn gelu(x: Tensor<2>) -> Tensor<2> {
    in_parts(x, each, activation::gelu)
}

/// `each` of the values, in place and in parts on the CPU where nobody else holds them; `elementary`
/// elsewhere.
pub(super) fn in_parts(
    x: Tensor<2>,
    each: impl Fn(&mut [f32]) + Send + Sync,
    elementary: impl FnOnce(Tensor<2>) -> Tensor<2>,
) -> Tensor<2> {
    let device = x.device();
    if !on_cpu(&device) || device.is_autodiff() || x.dtype() != DType::F32 {
        return elementary(x);
    }
    let mut x = flex(x).to_contiguous();
    x.storage_mut::<f32>().par_chunks_mut(CHUNK).for_each(each);
    Tensor::from_primitive::<Flex>(x)
}

vectorised! {
    /// The error function to 2e-7 (Abramowitz and Stegun, 7.1.26):
    /// `1 - t (a_1 + t (a_2 + ...)) exp(-x^2)` with `t = 1 / (1 + p x)`.
    fn each<const FUSED: bool>(values: &mut [f32]) {
        const P: f32 = 0.327_591_1;
        const A: [f32; 5] = [0.254_829_6, -0.284_496_72, 1.421_413_8, -1.453_152, 1.061_405_4];
        for value in values {
            let x = *value;
            let scaled = x.abs() * std::f32::consts::FRAC_1_SQRT_2;
            let t = 1.0 / multiply_add::<FUSED, f32>(P, scaled, 1.0);
            let mut series = A[4];
            let mut term = 4;
            while term > 0 {
                term -= 1;
                series = multiply_add::<FUSED, f32>(series, t, A[term]);
            }
            let beyond = 0.5 * series * t * exp_single::<FUSED>(-scaled * scaled); // of |x|, in one tail
            *value = x * if x < 0.0 { beyond } else { 1.0 - beyond };
        }
    }
}

#[cfg(test)]
mod tests {
    use burn::tensor::{Device, TensorData};

    use super::*;
    use crate::close::assert_close;
    use crate::model::ops::cpu::host;

    #[test]
    fn it_is_that_of_elementary_operations() {
        let values: Vec<f32> = (-12_000..12_000).map(|i| i as f32 * 1e-3).collect();
        let tensor = || Tensor::<2>::from_data(TensorData::new(values.clone(), [24, 1000]), &Device::flex());
        let (found, expected) = (host(gelu(tensor())), host(activation::gelu(tensor())));
        assert_close("gelu from -12 by thousandths", found, expected, 5e-7);
    }
}
