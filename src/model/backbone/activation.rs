//! Activations on the CPU in one SIMD pass. GELU (Hendrycks and Gimpel, 2016):
//! `x (1 + erf(x / sqrt 2)) / 2`. Gates `x sigmoid(s(x))`: SiLU with `s = x`, quick GELU with `s = 1.702 x`, GELU by its tanh
//! approximation with `s = 2 sqrt(2 / pi) (x + 0.044715 x^3)`, because `(1 + tanh u) / 2 = sigmoid(2 u)`.

use burn::backend::Flex;
use burn::tensor::Tensor;
use rayon::prelude::*;

use crate::model::ops::cpu::flex;
use crate::model::ops::simd::{Real, exp_single, vectorised};

/// Values per parallel task.
const CHUNK: usize = 1 << 13;

/// GELU of every value, in place if the tensor is not shared.
pub(super) fn gelu(x: Tensor<2>) -> Tensor<2> {
    in_parts(x, by_error_function)
}

/// Applies `each` to chunks of the values in parallel, in place if the tensor is not shared.
fn in_parts(x: Tensor<2>, each: impl Fn(&mut [f32]) + Send + Sync) -> Tensor<2> {
    let mut x = flex(x).to_contiguous();
    x.storage_mut::<f32>().par_chunks_mut(CHUNK).for_each(each);
    Tensor::from_primitive::<Flex>(x)
}

/// `p` and `a_1, a_2, ...` of the error function to 2e-7 (Abramowitz and Stegun, 7.1.26):
/// `1 - t (a_1 + t (a_2 + ...)) exp(-x^2)` with `t = 1 / (1 + p x)`.
pub(super) const P: f32 = 0.327_591_1;
/// See [`P`].
pub(super) const SERIES: [f32; 5] = [0.254_829_6, -0.284_496_72, 1.421_413_8, -1.453_152, 1.061_405_4];

/// The probability that a standard normal variable exceeds `|x|`, and `exp(-x^2 / 2)`.
#[inline(always)]
pub(in crate::model) fn tail<const FUSED: bool>(x: f32) -> [f32; 2] {
    let scaled = x.abs() * std::f32::consts::FRAC_1_SQRT_2;
    let t = 1.0 / f32::multiply_add::<FUSED>(P, scaled, 1.0);
    let mut series = SERIES[4];
    let mut term = 4;
    while term > 0 {
        term -= 1;
        series = f32::multiply_add::<FUSED>(series, t, SERIES[term]);
    }
    let bell = exp_single::<FUSED>(-scaled * scaled);
    [0.5 * series * t * bell, bell]
}

vectorised! {
    fn by_error_function<const FUSED: bool>(values: &mut [f32]) {
        for value in values {
            let x = *value;
            let [above, _] = tail::<FUSED>(x);
            *value = x * if x < 0.0 { above } else { 1.0 - above };
        }
    }
}

/// Coefficients of `s(x) = linear x + cubic x^3`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slope {
    pub linear: f32,
    pub cubic: f32,
}

pub(super) const SILU: Slope = Slope { linear: 1.0, cubic: 0.0 };
pub(super) const QUICK: Slope = Slope { linear: 1.702, cubic: 0.0 };
pub(super) const TANH: Slope = {
    let twice = 2.0 * std::f32::consts::FRAC_2_SQRT_PI * std::f32::consts::FRAC_1_SQRT_2;
    Slope { linear: twice, cubic: twice * 0.044715 }
};

/// `x sigmoid(s(x))` of every value, in place if the tensor is not shared.
pub(super) fn swish(x: Tensor<2>, slope: Slope) -> Tensor<2> {
    in_parts(x, |part| gate(part, slope))
}

vectorised! {
    fn gate<const FUSED: bool>(values: &mut [f32], slope: Slope) {
        for value in values {
            let x = *value;
            let s = x * f32::multiply_add::<FUSED>(x * x, slope.cubic, slope.linear);
            *value = x / (1.0 + exp_single::<FUSED>(-s));
        }
    }
}

#[cfg(test)]
mod tests {
    use burn::tensor::{Device, TensorData, activation};

    use super::*;
    use crate::close::assert_close;
    use crate::model::ops::cpu::host;

    /// From -12 to 12 by thousandths.
    fn values() -> Vec<f32> {
        (-12_000..12_000).map(|i| i as f32 * 1e-3).collect()
    }

    fn tensor() -> Tensor<2> {
        Tensor::from_data(TensorData::new(values(), [24, 1000]), &Device::flex())
    }

    #[test]
    fn gelu_is_that_of_elementary_operations() {
        let (found, expected) = (host(gelu(tensor())), host(activation::gelu(tensor())));
        assert_close("gelu from -12 by thousandths", found, expected, 5e-7);
    }

    /// [`swish`] by burn's elementary operations.
    fn elementary(x: Tensor<2>, Slope { linear, cubic }: Slope) -> Tensor<2> {
        let slope = (x.clone() * x.clone() * cubic + linear) * x.clone();
        x * activation::sigmoid(slope)
    }

    #[test]
    fn gates_are_those_of_elementary_operations() {
        let values = values();
        for slope in [SILU, QUICK, TANH] {
            let (found, expected) = (host(swish(tensor(), slope)), host(elementary(tensor(), slope)));
            assert_eq!(found.len(), values.len());
            let share =
                |all: Vec<f32>| all.iter().zip(&values).map(|(y, x)| y / (1.0 + x.abs())).collect::<Vec<_>>();
            assert_close(format!("{slope:?}"), share(found), share(expected), 1e-6);
        }
        let far = Tensor::<2>::from_data([[-1e6_f32, 1e6]], &Device::flex());
        let far = host(swish(far, TANH));
        assert!(far[0].abs() < 1e-30 && far[1] == 1e6, "{far:?}");
    }
}
