//! SimPool (Psomas et al. 2023, "Keep it SimPool"): the mean token attends to the layer-normed tokens.
//!
//! With `n_i = (t_i - mean) / sqrt(variance + 1e-6)` over a token's channels and `x_i = w * n_i + b` (`norm_patches`),
//! `a = softmax_i((Wq m) . (Wk x_i) / sqrt(d))` for the mean m of the tokens as they are (`wq.weight`, `wk.weight` `[d, d]`, no
//! bias), and `z = sum_i a_i x_i`. With `gamma`: `z = (sum_i a_i (x_i - least + 1e-6)^gamma)^(1 / gamma)`, channel by channel,
//! where `least` is the smallest value of the image.
//!
//! Follows billpsomas/simpool (sp.py) and billpsomas/efficient-probing at b8f4fb8 (poolings/simpool.py, without gamma), without
//! `beta`. There `least` is taken over the whole batch, so that an image's features depend on the others; here it is the image's
//! own, as there in a batch of one. Layers are initialised as in `nn.Linear`.

use super::cross;
use super::prelude::*;
use crate::model::ops::softmax::softmax;
use crate::model::probe::settings;

/// Added to the variance over the channels, and above the least value.
const EPSILON: f64 = 1e-6;

pub const SPEC: HeadSpec = HeadSpec {
    id: "simpool",
    name: "SimPool",
    summary: "The mean token attends to layer-normed tokens",
    group: Group::Pooling,
    tier: Tier::Content,
    in_paper: false,
    paper_cost: None,
    build: Build::Normed(Norm::None, |config| {
        let within = |gamma| settings::within("gamma", gamma, 1e-3..=1e3, "a number from 0.001 to 1000");
        Ok(Box::new(SimPool { gamma: config.gamma.map(within).transpose()? }))
    }),
};

/// Pools by the attention of the mean token.
struct SimPool {
    /// Exponent of the power mean; `None` for the plain mean.
    gamma: Option<f64>,
}

/// The weights of the normed tokens, `[B, 1, N]`, and the normed tokens, `[B, N, d]`.
fn weights(params: &Params, patches: &Tensor<3>) -> (Tensor<3>, Tensor<3>) {
    let [_, _, d] = patches.dims();
    let normed = cross::normed(patches, EPSILON);
    let mean: Tensor<2> = patches.clone().mean_dim(1).squeeze_dim(1); // [B, d]
    let query = mean
        .precise_matmul(params.get::<2>("wq.weight").transpose())
        .precise_matmul(params.get::<2>("wk.weight"));
    // For tokens without the norm's weight; the norm's bias shifts all logits alike.
    let query = query * params.get::<1>("norm_patches.weight").unsqueeze_dim(0); // [B, d]
    let logits = query.unsqueeze_dim::<3>(1).precise_matmul(normed.clone().swap_dims(1, 2)); // [B, 1, N]
    // Multiplied, not divided: burn rounds the divisor to float32 in the gradient of a quotient.
    (softmax(logits, (d as f64).sqrt().recip(), None), normed)
}

impl Head for SimPool {
    fn specs(&self, dims: &Dims) -> Vec<Spec> {
        let layer = |name| linear::specs(name, dims.width, dims.width).swap_remove(0); // without its bias
        let mut specs = linear::norm_specs("norm_patches", dims.width);
        specs.extend([layer("wq"), layer("wk")]);
        specs
    }

    fn settings(&self, _: usize) -> Config {
        Config { gamma: self.gamma, ..Config::default() }
    }

    fn features(&self, params: &Params, batch: &Batch) -> Tensor<2> {
        let (weights, normed) = weights(params, &batch.patches);
        let [images, n, d] = normed.dims();
        let Some(gamma) = self.gamma else {
            let pooled: Tensor<2> = weights.precise_matmul(normed).squeeze_dim(1); // [B, d]
            return linear::affine(params, "norm_patches", pooled);
        };
        let values = linear::affine(params, "norm_patches", normed.reshape([images * n, d])); // [B N, d]
        let values = values.reshape([images, n * d]);
        let least = values.clone().min_dim(1); // [B, 1]
        let values = (values - least + EPSILON).reshape([images, n, d]);
        // Powers of shares of each channel's largest value: those of the values themselves would overflow float32.
        let most = values.clone().max_dim(1).detach(); // [B, 1, d]
        let mean = weights.precise_matmul((values / most.clone()).powf_scalar(gamma));
        // The root of 0 has no finite gradient.
        ((mean + f32::MIN_POSITIVE).powf_scalar(1.0 / gamma) * most).squeeze_dim(1)
    }

    fn output(&self, params: &HostParams<'_>, tokens: &Tokens, _: u64) -> HeadOutput {
        if self.gamma.is_some() {
            let why = "SimPool with gamma raises the tokens' channels to a power: no exact evidence exists";
            return float64::opaque(self, params, tokens, why);
        }
        let d = tokens.width;
        let (numbers, batch) = float64::inputs(self, params, tokens);
        let (weights, _) = weights(&numbers, &batch.patches);
        let weights = cross::raw_weights(weights.squeeze_dim(0), tokens, EPSILON);
        let mut map = vec![0.0; d * d]; // [F, d]: the norm's weight, after centring the token
        for (f, row) in map.chunks_exact_mut(d).enumerate() {
            row[f] = f64::from(params["norm_patches.weight"].data[f]);
        }
        cross::centre(&mut map, d);
        let bias = params["norm_patches.bias"].to_f64();
        HeadOutput { scores: None, form: Form::Projected { weights, map, mix: None, bias } }
    }

    fn flops(&self, n: u64, d: u64) -> u64 {
        let power = if self.gamma.is_some() { 3 * n * d + 2 * d } else { 0 };
        8 * n * d + n * d + 4 * d * d + 2 * n * d + 4 * n + 2 * n * d + power // norm, mean, query, attention, pooling
    }

    fn counts(&self, n: u64, d: u64) -> Counts {
        let layers = Counts::layers(d * d + n * d * d); // wq, wk
        Counts::norms(n * d, true) + layers + Counts::formulas(2 * n * d) // scores, pooling
    }
}

#[cfg(test)]
mod tests {
    use burn::tensor::{Device, TensorData};

    use super::*;
    use crate::model::grid::Grid;

    #[test]
    fn features_and_gradients_are_finite_with_every_exponent() {
        let (grid, device) = (Grid::new(1, 3), Device::flex());
        let dims = Dims { width: 4, grid, classes: 2 };
        let tokens: [f32; 12] = [9.0, 0.0, 0.0, 0.0, 0.0, 9.0, 1.0, -1.0, 0.0, 0.0, 8.0, -8.0];
        let patches = Tensor::from_data(TensorData::new(tokens.to_vec(), [1, 3, 4]), &device);
        let batch = Batch { patches, cls: None, grid, image_seeds: vec![0], training: false }.tracked();
        for gamma in [1e-3, 40.0, 1e3] {
            let head = SimPool { gamma: Some(gamma) };
            let params = Params::start(head.specs(&dims), 0, SPEC.id, &device).tracked();
            let features = head.features(&params, &batch);
            let gradients = features.clone().sum().backward();
            // Normed values of 4 channels are at most 3 ^ 0.5, so they are twice as much above the least.
            let found: Vec<f32> = features.into_data().iter().collect();
            assert!(found.iter().all(|x| (0.0..3.47).contains(x)), "{gamma}: {found:?}");
            for (spec, value) in params.iter() {
                let gradient = value.grad(&gradients).expect("a gradient").into_data();
                assert!(gradient.iter::<f32>().all(f32::is_finite), "{gamma}: {}", spec.name);
            }
        }
    }
}
