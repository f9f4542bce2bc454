//! One AdamW step on the CPU in one pass over values, gradients and moments, on all cores. Values are
//! independent of each other, so the number of threads changes no bit.

use burn::backend::Flex;
use burn::tensor::Tensor;
use rayon::prelude::*;

use super::{BETA_1, BETA_2, EPSILON, Update};
use crate::model::ops::cpu::flex;
use crate::model::ops::simd::vectorised;

/// Values per parallel task.
const CHUNK: usize = 1 << 14;

/// The updated values and moments from values, gradient and moments, each in place unless its storage is shared.
pub(super) fn step([value, gradient, mean, variance]: [Tensor<1>; 4], update: &Update) -> [Tensor<1>; 3] {
    let gradient = flex(gradient).to_contiguous();
    let gradient = gradient.as_slice::<f32>().expect("float32 gradients");
    let mut all = [value, mean, variance].map(|values| flex(values).to_contiguous());
    let [values, mean, variance] =
        all.each_mut().map(|values| values.storage_mut::<f32>().par_chunks_mut(CHUNK));
    let (parts, moments) = (values.zip(gradient.par_chunks(CHUNK)), mean.zip(variance));
    let (correction, rate) = (update.correction as f32, update.rate as f32);
    parts.zip(moments).for_each(|((value, gradient), (mean, variance))| {
        advance(value, gradient, mean, variance, correction, rate);
    });
    all.map(Tensor::from_primitive::<Flex>)
}

vectorised! {
    /// AdamW's formula for a chunk.
    fn advance<const FUSED: bool>(
        value: &mut [f32], gradient: &[f32], mean: &mut [f32], variance: &mut [f32], correction: f32, rate: f32,
    ) {
        let (keep_1, new_1) = (BETA_1 as f32, (1.0 - BETA_1) as f32);
        let (keep_2, new_2) = (BETA_2 as f32, (1.0 - BETA_2) as f32);
        let moments = mean.iter_mut().zip(variance.iter_mut());
        for ((value, &gradient), (mean, variance)) in value.iter_mut().zip(gradient).zip(moments) {
            *mean = *mean * keep_1 + gradient * new_1;
            *variance = *variance * keep_2 + gradient * gradient * new_2;
            let spread = (*variance / correction).sqrt() + EPSILON as f32;
            *value -= *mean / spread * rate;
        }
    }
}

#[cfg(test)]
mod tests {
    use burn::tensor::{Device, TensorData};

    use super::super::plain_step;
    use super::*;
    use crate::close::assert_close;
    use crate::model::ops::cpu::host;

    #[test]
    fn it_is_the_plain_step_on_any_number_of_threads() {
        let device = Device::flex();
        let count = 2 * CHUNK + 37;
        let tensor = |scale: f32, shift: f32| {
            let values = (0..count).map(|i| ((i * 7919) % 1013) as f32 / 506.0 * scale + shift).collect();
            Tensor::<1>::from_data(TensorData::new::<f32, _>(values, [count]), &device)
        };
        let given = || [tensor(1.0, -1.0), tensor(0.5, -0.3), tensor(0.1, 0.0), tensor(0.2, 0.0)];
        let update = Update { correction: 0.003, rate: 0.01 };
        let run = |threads: usize| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| step(given(), &update)).map(host)
        };
        let plain = plain_step(given(), &update).map(host);
        let found = run(1);
        assert_eq!(found, run(3));
        for (found, plain) in found.iter().zip(&plain) {
            // Each as a share of itself, or of a thousandth.
            let size = |(value, plain): (&f32, &f32)| value / plain.abs().max(1e-3);
            let [found, plain] =
                [found, plain].map(|all| all.iter().zip(plain).map(size).collect::<Vec<f32>>());
            assert_close("updated", found, plain, 1e-6);
        }
    }
}
