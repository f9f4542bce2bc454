//! Standardisation of the scores of an image: on the host, and for a batch on tensors.

use burn::tensor::Tensor;

use crate::model::ops;
use crate::model::ops::standardise::Spread;

/// Added to the standard deviation, so that nothing is divided by 0.
const EPSILON: f64 = 1e-6;

/// `(s - mean) / (std + 1e-6)` with the population standard deviation (docs/definitions.md, section 1).
pub fn standardise(scores: &[f64]) -> Vec<f64> {
    let n = scores.len() as f64;
    let mean = scores.iter().sum::<f64>() / n;
    let variance = scores.iter().map(|s| (s - mean).powi(2)).sum::<f64>() / n;
    scores.iter().map(|s| (s - mean) / (variance.sqrt() + EPSILON)).collect()
}

/// The gradient of the raw `scores`, `[N]`, given that of the [standardised](standardise) ones.
pub fn standardise_vjp(scores: &[f64], grad_standardised: &[f64]) -> Vec<f64> {
    let n = scores.len() as f64;
    let mean = scores.iter().sum::<f64>() / n;
    let deviation = (scores.iter().map(|s| (s - mean).powi(2)).sum::<f64>() / n).sqrt();
    let scale = 1.0 / (deviation + EPSILON);
    let projection: f64 = scores.iter().zip(grad_standardised).map(|(s, grad)| (s - mean) * grad).sum();
    // Where all scores are equal the deviation has no derivative: its term is taken as 0.
    let spread = if deviation > 0.0 { projection * scale * scale / (n * deviation) } else { 0.0 };
    let level = grad_standardised.iter().sum::<f64>() * scale / n;
    scores.iter().zip(grad_standardised).map(|(s, grad)| scale * grad - spread * (s - mean) - level).collect()
}

/// [`standardise`] for every row of a batch, `[B, N]`.
pub fn standardise_batch(scores: Tensor<2>) -> Tensor<2> {
    ops::standardise::standardise(scores, 1, Spread::Deviation(EPSILON))
}

#[cfg(test)]
mod gpu_tests {
    use burn::tensor::TensorData;
    use rand::{Rng, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    use super::*;
    use crate::close::assert_close_to_largest;
    use crate::gpus::gpus;

    #[test]
    fn batches_and_gradients_agree_with_the_host() {
        let mut rng = ChaCha8Rng::seed_from_u64(7);
        let devices = gpus().chain([("cpu".to_owned(), burn::tensor::Device::flex())]);
        for (name, device) in devices {
            for (images, n) in [(1, 3), (3, 49), (5, 196), (2, 1025)] {
                let mut random =
                    || -> Vec<f32> { (0..images * n).map(|_| rng.random_range(-2.0..3.0)).collect() };
                let (scores, cotangent) = (random(), random());
                let put = |values: &[f32]| {
                    let data = TensorData::new(values.to_vec(), [images, n]);
                    Tensor::<2>::from_data(data, &device.clone().autodiff())
                };
                let input = put(&scores).require_grad();
                let found = standardise_batch(input.clone());
                let gradients = (found.clone() * put(&cotangent)).sum().backward();
                let host = |data: TensorData| data.try_into_vec::<f32>().expect("float32");
                let grad_scores = host(input.grad(&gradients).expect("a gradient").into_data());
                let wide = |values: &[f32]| values.iter().map(|&x| f64::from(x)).collect::<Vec<_>>();
                let (mut expected, mut expected_grad) = (Vec::new(), Vec::new());
                for (scores, cotangent) in scores.chunks(n).zip(cotangent.chunks(n)) {
                    expected.extend(standardise(&wide(scores)));
                    expected_grad.extend(standardise_vjp(&wide(scores), &wide(cotangent)));
                }
                assert_close_to_largest(&name, wide(&host(found.into_data())), expected, 3e-6);
                assert_close_to_largest(&name, wide(&grad_scores), expected_grad, 5e-6);
            }
        }
    }

    #[test]
    fn equal_scores_have_a_finite_gradient() {
        for (name, device) in gpus() {
            let data = TensorData::new(vec![0.25_f32; 4], [1, 4]);
            let input = Tensor::<2>::from_data(data, &device.autodiff()).require_grad();
            let found = standardise_batch(input.clone());
            let gradients = found.clone().slice([0..1, 0..1]).sum().backward();
            let grad_scores = input.grad(&gradients).expect("a gradient").into_data().try_into_vec::<f32>();
            let expected = standardise_vjp(&[0.25; 4], &[1.0, 0.0, 0.0, 0.0]);
            assert_close_to_largest(&name, grad_scores.expect("float32"), expected, 1e-6);
            assert_eq!(found.into_data().try_into_vec::<f32>().expect("float32"), [0.0; 4], "{name}");
        }
    }
}
