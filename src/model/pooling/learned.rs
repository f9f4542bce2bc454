//! The route of the learned routers: standardised scores, a plan, and what each token counts when
//! positions count by the gains.

use std::sync::Arc;

use burn::tensor::Tensor;

use super::route::{Cotangents, Route, Weighed};
use crate::model::router::{Router, pull_standardised, standardise, standardise_batch};

/// `P gain_m` for each of M gains, behind one scorer.
pub struct Learned {
    /// Who comes late.
    pub router: Arc<dyn Router>,
    /// How many gains there are, M.
    pub pools: usize,
    /// The draw of each image while training; absent otherwise.
    pub draws: Option<Vec<u64>>,
}

impl Route for Learned {
    fn pools(&self) -> usize {
        self.pools
    }

    fn weigh(&self, image: usize, _: usize, scores: &[f64], gains: &[f64]) -> Weighed {
        let draw = self.draws.as_ref().map(|draws| draws[image]);
        let routed = self.router.route(&standardise(scores), draw);
        let weights = routed.weights(gains);
        let (scores, gains, kept) = (scores.to_vec(), gains.to_vec(), weights.clone());
        let back = move |by_weights: &[f64]| {
            let (by_standardised, by_gains) = routed.pull(&gains, &kept, by_weights);
            Cotangents { scores: pull_standardised(&scores, &by_standardised), gains: by_gains }
        };
        Weighed { weights, back: Box::new(back) }
    }

    fn weights(&self, _: &Tensor<3>, scores: Option<Tensor<3>>, gains: Option<Tensor<2>>) -> Tensor<3> {
        let scores = standardise_batch(scores.expect("a router has a scorer").squeeze_dim(1)); // [B, N]
        let gains = gains.expect("positions have gains"); // [M, N]
        if self.pools == 1 {
            let gain = gains.squeeze_dim::<1>(0); // [N]
            let weights = match &self.draws {
                Some(draws) => self.router.training_token_weights(scores, gain, draws),
                None => self.router.token_weights(scores, gain),
            };
            return weights.unsqueeze_dim(1);
        }
        let plans = match &self.draws {
            Some(draws) => self.router.training_plans(scores, draws),
            None => self.router.plans(scores),
        };
        plans.matmul(gains.transpose().unsqueeze_dim(0)).swap_dims(1, 2) // [B, M, N]
    }
}
