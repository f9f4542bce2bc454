//! [Weight rules](WeightRule) that weigh tokens by learned scores `s`, standardised. With a router: `w = P(s) gain`,
//! where position `k` has weight `gain[k]` and `P` is the router's plan. Without an order: a softmax of the scores, or
//! equal weights for the tokens with the highest scores.

use std::sync::Arc;

use burn::tensor::{Tensor, TensorData};

use crate::model::ops;
use crate::model::ops::matmul::PreciseMatmul as _;
use crate::model::ops::pooling::weight_rule::{WeightGrads, WeightRule, WeightsVjp, softmax, softmax_vjp};
use crate::model::probe::router::hard_sort::HardSort;
use crate::model::probe::router::{Router, standardise, standardise_batch, standardise_vjp};
use crate::model::stats::argsort;

/// `P gain_m` for each of M gains, with one plan `P` from one scorer.
pub struct RoutedWeights {
    /// Makes the plan from the scores.
    pub router: Arc<dyn Router>,
    /// Number of gains, M.
    pub pools: usize,
    /// Seeds of the router's noise in training, one per image; absent otherwise.
    pub image_seeds: Option<Vec<u64>>,
}

impl WeightRule for RoutedWeights {
    fn pools(&self) -> usize {
        self.pools
    }

    fn weigh(&self, image: usize, _: usize, scores: &[f64], gains: &[f64]) -> WeightsVjp {
        let image_seed = self.image_seeds.as_ref().map(|image_seeds| image_seeds[image]);
        let routed = self.router.route(&standardise(scores), image_seed);
        let weights = routed.weights(gains);
        let (scores, gains, kept) = (scores.to_vec(), gains.to_vec(), weights.clone());
        let vjp = move |grad_weights: &[f64]| {
            let (grad_standardised, grad_gains) = routed.vjp(&gains, &kept, grad_weights);
            WeightGrads { scores: standardise_vjp(&scores, &grad_standardised), gains: grad_gains }
        };
        WeightsVjp { weights, vjp: Box::new(vjp) }
    }

    fn weights(&self, _: &Tensor<3>, scores: Option<Tensor<3>>, gains: Option<Tensor<2>>) -> Tensor<3> {
        let scores = standardise_batch(scores.expect("a router has a scorer").squeeze_dim(1)); // [B, N]
        let gains = gains.expect("positions have gains"); // [M, N]
        let image_seeds = self.image_seeds.as_deref();
        if self.pools == 1 {
            let gain = gains.squeeze_dim::<1>(0); // [N]
            return self.router.token_weights(scores, gain, image_seeds).unsqueeze_dim(1);
        }
        let plans = self.router.plans(scores, image_seeds);
        plans.precise_matmul(gains.transpose().unsqueeze_dim(0)).swap_dims(1, 2) // [B, M, N]
    }
}

/// A softmax over the standardised scores; with `best`, the mean of that many tokens with the highest scores (ties
/// by index), with the softmax's gradient passed straight through.
pub struct ContentWeights {
    /// Number of tokens that are chosen; absent for the softmax itself.
    pub best: Option<usize>,
}

impl WeightRule for ContentWeights {
    fn weigh(&self, _: usize, n: usize, scores: &[f64], _: &[f64]) -> WeightsVjp {
        let raw = scores.to_vec();
        let scores = standardise(&raw);
        let soft = softmax(&scores);
        let weights = match self.best {
            None => soft.clone(),
            Some(k) => best(&scores, k.min(n)),
        };
        let vjp = move |grad_weights: &[f64]| {
            WeightGrads::of_scores(standardise_vjp(&raw, &softmax_vjp(&soft, grad_weights)))
        };
        WeightsVjp { weights, vjp: Box::new(vjp) }
    }

    fn weights(&self, _: &Tensor<3>, scores: Option<Tensor<3>>, _: Option<Tensor<2>>) -> Tensor<3> {
        let scores = standardise_batch(scores.expect("content has a scorer").squeeze_dim(1)); // [B, N]
        let soft = ops::softmax::softmax(scores.clone().unsqueeze_dim(1), 1.0, None).squeeze_dim::<2>(1); // [B, N]
        let Some(k) = self.best else { return soft.unsqueeze_dim(1) };
        let [_, n] = scores.dims();
        let k = k.min(n);
        let counts = (0..n).map(|rank| f64::from(rank < k) / k as f64).collect();
        let counts = TensorData::new::<f64, _>(counts, [n]);
        let counts = Tensor::from_data(counts, (&scores.device(), scores.dtype()));
        // Sorted by the negated score, so that tied tokens stay in the order of their indices.
        let chosen = HardSort { temperature: 1.0 }.token_weights(-scores.detach(), counts, None); // [B, N]
        (chosen + (soft.clone() - soft.detach())).unsqueeze_dim(1)
    }
}

/// `1 / k` for the `k` tokens with the highest scores, ties by index; 0 for all others, `[N]`.
pub fn best(scores: &[f64], k: usize) -> Vec<f64> {
    let order = argsort(&scores.iter().map(|score| -score).collect::<Vec<_>>());
    let mut weights = vec![0.0; scores.len()];
    order[..k].iter().for_each(|&i| weights[i] = 1.0 / k as f64);
    weights
}

#[cfg(test)]
mod gpu_tests {
    use burn::tensor::{DType, Device};

    use super::*;
    use crate::close::assert_close;
    use crate::gpus::gpus;

    #[test]
    fn of_equal_scores_the_earlier_tokens_are_the_best() {
        let scores: [f64; 10] = [1.0, 2.0, 1.0, 3.0, 1.0, 1.0, 2.0, 2.0, 2.0, 1.0];
        let processor = ("the processor".to_owned(), Device::flex());
        for (name, device) in gpus().chain([processor]) {
            for k in [1, 3, 4, 7, 12] {
                let rows = TensorData::new(scores.repeat(2), [2, 1, 10]);
                let rows = Tensor::<3>::from_data(rows, (&device, DType::F32));
                let found = ContentWeights { best: Some(k) }.weights(&rows, Some(rows.clone()), None);
                let expected = best(&scores, k.min(10)).repeat(2);
                let found = found.into_data().iter::<f64>().collect::<Vec<_>>();
                assert_close(format!("{k} best on {name}"), found, expected, 1e-7);
            }
        }
    }
}
