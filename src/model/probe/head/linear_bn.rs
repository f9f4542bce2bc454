//! Linear probing as MAE does it: batch normalisation without weight and bias before the linear
//! layer (He et al. 2022, appendix A).
//!
//! `z = (m - mean) / sqrt(variance + 1e-6)` of the mean token `m`. While training, mean and variance
//! are the batch's (population variance); in evaluation the running ones, the buffers
//! `norm.running_mean` and `norm.running_var` `[d]`, kept as `nn.BatchNorm1d(d, affine=False)` does:
//! a tenth of each new batch, its variance over `B - 1`.

use super::prelude::*;
use crate::model::probe::params::{Constraint, Init};

/// Added to the variance, as in MAE's probe.
const EPSILON: f64 = 1e-6;
/// Share of the newest batch in the running statistics.
const MOMENTUM: f64 = 0.1;

/// Its entry in the [list](super::HEADS) of heads.
pub const SPEC: HeadSpec = HeadSpec {
    id: "linear-bn",
    name: "Linear + BN",
    summary: "Batch-normalised mean of the patch tokens",
    group: Group::Pooling,
    tier: Tier::Floor,
    in_paper: false,
    paper_cost: None,
    build: Build::Own(|_| Ok(Box::new(LinearBn))),
};

/// The normalised mean of the patch tokens.
pub struct LinearBn;

/// Mean and population variance over the batch, `[1, d]` each, of features `[B, d]`.
fn statistics(mean_tokens: Tensor<2>) -> (Tensor<2>, Tensor<2>) {
    let mean = mean_tokens.clone().mean_dim(0);
    let centred = mean_tokens - mean.clone();
    (mean, (centred.clone() * centred).mean_dim(0))
}

impl Head for LinearBn {
    fn specs(&self, dims: &Dims) -> Vec<Spec> {
        let buffer = |name: &str, start: f32| {
            Spec::new(name, [dims.width], Init::Constant(start)).with(Constraint::Fixed)
        };
        vec![buffer("norm.running_mean", 0.0), buffer("norm.running_var", 1.0)]
    }

    fn pooling(&self, _: &Params, _: &Batch) -> Option<Pooling> {
        Some(Pooling::uniform())
    }

    fn finish(&self, params: &Params, pooled: Tensor<3>, batch: &Batch) -> Tensor<2> {
        let mean_tokens: Tensor<2> = pooled.squeeze_dim(1); // [B, d]
        let (mean, variance) = if batch.training {
            statistics(mean_tokens.clone())
        } else {
            let buffer = |name| params.get::<1>(name).unsqueeze_dim::<2>(0); // [1, d]
            (buffer("norm.running_mean"), buffer("norm.running_var"))
        };
        (mean_tokens - mean) / (variance + EPSILON).sqrt()
    }

    fn observe(&self, params: Params, batch: &Batch, pooled: Option<Tensor<3>>) -> Params {
        let [images, _, _] = batch.patches.dims();
        let pooled = pooled.unwrap_or_else(|| batch.patches.clone().mean_dim(1)); // [B, 1, d]
        let (mean, variance) = statistics(pooled.squeeze_dim(1));
        let unbiased = variance * (images as f64 / images.saturating_sub(1).max(1) as f64);
        params.map(|spec, value| {
            let new: Tensor<1> = match spec.name.as_str() {
                "norm.running_mean" => mean.clone().squeeze_dim(0),
                "norm.running_var" => unbiased.clone().squeeze_dim(0),
                _ => return value,
            };
            value.clone() + (new - value) * MOMENTUM
        })
    }

    fn reading_with(&self, params: &Arrays, _: &[Kernel], tokens: &Tokens, _: u64) -> HeadOutput {
        let (n, d) = (tokens.grid.len(), tokens.width);
        let (mean, variance) = (params["norm.running_mean"].to_f64(), params["norm.running_var"].to_f64());
        let scale: Vec<f64> = variance.iter().map(|v| 1.0 / (v + EPSILON).sqrt()).collect();
        let mut map = vec![0.0; d * d]; // [F, d]: diagonal
        scale.iter().enumerate().for_each(|(f, s)| map[f * (d + 1)] = *s);
        let bias = mean.iter().zip(&scale).map(|(m, s)| -m * s).collect();
        HeadOutput { scores: None, form: Form::Projected { weights: vec![1.0 / n as f64; n], map, bias } }
    }

    fn flops(&self, n: u64, d: u64) -> u64 {
        n * d + 2 * d
    }

    fn parts(&self, _: u64, d: u64) -> Vec<Part> {
        vec![Part::norm(d, false)]
    }
}
