//! Reconstruction of masked patches (masked autoencoders; He et al. 2022).

use burn::tensor::{Device, Int, Tensor, TensorData};
use rand_chacha::ChaCha8Rng;

use super::Plan;
use super::encoder::{block, block_specs, encode, linear, linear_specs, norm, positions};
use crate::model::probe::head::linear::norm_specs;
use crate::model::probe::params::{Init, Params, Spec};
use crate::model::stats::shuffled;

/// Hidden size, e, and layers of the decoder.
pub(super) const WIDTH: usize = 64;
pub(super) const LAYERS: usize = 2;

/// The parameters of the decoder, which is not part of the backbone.
pub(super) fn specs(plan: &Plan) -> Vec<Spec> {
    let mut specs: Vec<Spec> = linear_specs("decoder.decoder_embed", plan.width, WIDTH).into();
    specs.push(Spec::new("decoder.mask_token", [1, 1, WIDTH], Init::Normal(0.02)));
    specs.push(positions("decoder.decoder_pos_embed", plan, WIDTH));
    for layer in 0..LAYERS {
        specs.extend(block_specs(&format!("decoder.decoder_layers.{layer}"), WIDTH));
    }
    specs.extend(norm_specs("decoder.decoder_norm", WIDTH));
    specs.extend(linear_specs("decoder.decoder_pred", WIDTH, plan.pixels()));
    specs
}

/// The visible patches of a batch, and where they belong.
struct MaskedBatch {
    /// Pixels of the visible patches, `[B * V, P]`.
    pixels: Vec<f32>,
    /// The token index of each, `[B * V]`.
    indices: Vec<i32>,
    /// The row of every token among the visible tokens followed by the mask tokens of its picture, `[B * N]`.
    restore: Vec<i32>,
    /// 1 for a hidden patch, 0 for a visible one, `[B, N]`.
    hidden: Vec<f32>,
}

impl MaskedBatch {
    /// Hides patches of every image of `patches` `[B, N, P]`: all but the first V of its order.
    fn new(patches: &[f32], plan: &Plan, orders: &[Vec<usize>]) -> Self {
        let (tokens, visible, len) = (plan.tokens(), plan.visible(), plan.pixels());
        let (mut pixels, mut indices, mut restore, mut hidden) =
            (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for (image, (patches, order)) in patches.chunks(tokens * len).zip(orders).enumerate() {
            let mut rows = vec![0; tokens];
            let mut mask = vec![1.0_f32; tokens];
            for (place, &token) in order.iter().enumerate() {
                rows[token] = (image * tokens + place) as i32;
                if place < visible {
                    pixels.extend_from_slice(&patches[token * len..][..len]);
                    indices.push(token as i32);
                    mask[token] = 0.0;
                }
            }
            restore.extend(rows);
            hidden.extend(mask);
        }
        Self { pixels, indices, restore, hidden }
    }
}

/// A random order of the patches of every picture, of which the first V are visible.
pub(super) fn orders(plan: &Plan, pictures: usize, rng: &mut ChaCha8Rng) -> Vec<Vec<usize>> {
    (0..pictures).map(|_| shuffled(plan.tokens(), rng)).collect()
}

/// Mean squared error of the reconstructed hidden patches of `patches` `[B, N, P]`, each normalised by its
/// own mean and standard deviation: its pattern counts, not its colour.
pub(super) fn masked_loss(
    params: &Params,
    plan: &Plan,
    patches: Vec<f32>,
    orders: &[Vec<usize>],
    device: &Device,
) -> Tensor<1> {
    let (tokens, visible, pixels) = (plan.tokens(), plan.visible(), plan.pixels());
    let batch = orders.len();
    let MaskedBatch { pixels: seen, indices, restore, hidden } = MaskedBatch::new(&patches, plan, orders);
    let index = |rows: Vec<i32>| Tensor::<1, Int>::from_data(&rows[..], device);
    let seen = Tensor::<2>::from_data(TensorData::new(seen, [batch * visible, pixels]), device).autodiff();
    let x = encode(params, plan, seen, Some(index(indices)), batch); // [B, 1 + V, d]

    let x = linear(params, "decoder.decoder_embed", x); // [B, 1 + V, e]
    let mask_tokens = params.get::<3>("decoder.mask_token").expand([batch, tokens - visible, WIDTH]);
    let cls = x.clone().slice([0..batch, 0..1, 0..WIDTH]);
    let all = Tensor::cat(vec![x.slice([0..batch, 1..1 + visible, 0..WIDTH]), mask_tokens], 1); // [B, N, e]
    let restored = all.reshape([batch * tokens, WIDTH]).select(0, index(restore));
    let restored = restored.reshape([batch, tokens, WIDTH]);
    let mut x = Tensor::cat(vec![cls, restored], 1) + params.get::<3>("decoder.decoder_pos_embed"); // [B, 1 + N, e]
    let fuses = plan.fuses(device);
    for layer in 0..LAYERS {
        x = block(params, &format!("decoder.decoder_layers.{layer}"), x, WIDTH / 32, fuses);
    }
    let x = linear(params, "decoder.decoder_pred", norm(params, "decoder.decoder_norm", x, fuses)); // [B, 1 + N, P]
    let found = x.slice([0..batch, 1..1 + tokens, 0..pixels]);
    let target = Tensor::<3>::from_data(TensorData::new(patches, [batch, tokens, pixels]), device);
    let hidden = Tensor::<2>::from_data(TensorData::new(hidden, [batch, tokens]), device).autodiff();
    let mean = target.clone().mean_dim(2); // [B, N, 1]
    let variance = (target.clone() - mean.clone()).square().mean_dim(2);
    let target = ((target - mean) / (variance + plan.recipe.flat).sqrt()).autodiff();
    let error = (found - target).square().mean_dim(2).squeeze_dim::<2>(2); // [B, N]
    (error * hidden).sum() / (batch * (tokens - visible)) as f32
}
