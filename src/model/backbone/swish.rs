//! Gates `x sigmoid(s(x))` on the CPU in one pass and in wide registers: SiLU with `s = x`, quick GELU with
//! `s = 1.702 x`, GELU by its tanh approximation with `s = 2 sqrt(2 / pi) (x + 0.044715 x^3)`, because
//! `(1 + tanh u) / 2 = sigmoid(2 u)`.

use burn::tensor::{Tensor, activation};

use super::gelu::in_parts;
use crate::model::ops::simd::{exp_single, multiply_add, vectorised};

/// `s(x) = linear x + cubic x^3`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slope {
    linear: f32,
    cubic: f32,
}

/// SiLU's.
pub(super) const SILU: Slope = Slope { linear: 1.0, cubic: 0.0 };
/// Quick GELU's.
pub(super) const QUICK: Slope = Slope { linear: 1.702, cubic: 0.0 };
/// Of GELU by tanh.
pub(super) const TANH: Slope = {
    let twice = 2.0 * std::f32::consts::FRAC_2_SQRT_PI * std::f32::consts::FRAC_1_SQRT_2;
    Slope { linear: twice, cubic: twice * 0.044715 }
};

/// `x sigmoid(s(x))` of every value; in place on the CPU where nobody else holds them.
pub(super) fn swish(x: Tensor<2>, slope: Slope) -> Tensor<2> {
    in_parts(x, |part| each(part, slope), |x| elementary(x, slope))
}

fn elementary(x: Tensor<2>, Slope { linear, cubic }: Slope) -> Tensor<2> {
    let slope = match cubic {
        0.0 => x.clone() * linear,
        _ => (x.clone() * x.clone() * cubic + linear) * x.clone(),
    };
    x * activation::sigmoid(slope)
}

vectorised! {
    fn each<const FUSED: bool>(values: &mut [f32], slope: Slope) {
        for value in values {
            let x = *value;
            let s = x * multiply_add::<FUSED, f32>(x * x, slope.cubic, slope.linear);
            *value = x / (1.0 + exp_single::<FUSED>(-s));
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
