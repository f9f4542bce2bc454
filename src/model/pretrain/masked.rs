//! Filling in masked patches (masked autoencoders; He et al. 2022).

use burn::tensor::{Device, Int, Tensor, TensorData};
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

use super::Plan;
use super::encoder::{block, block_specs, encode, linear, linear_specs, norm, norm_specs, positions};
use crate::model::probe::params::{Init, Params, Spec};

const WIDTH: usize = 64;
const LAYERS: usize = 2;

/// The decoder, which stays behind.
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

/// The patches of a batch, and which of them are seen.
struct MaskedBatch {
    /// Pixels of the seen patches, `[B * V, P]`.
    seen: Vec<f32>,
    /// The token each of them is, `[B * V]`.
    places: Vec<i32>,
    /// Row of every token among the seen ones and, behind them, the blanks: `[B * N]`.
    restore: Vec<i32>,
    /// 1 for a hidden patch, 0 for a seen one, `[B, N]`.
    hidden: Vec<f32>,
}

impl MaskedBatch {
    /// Hides some of every image of `patches` `[B, N, P]`: all but the first of its order.
    fn new(patches: &[f32], plan: &Plan, orders: &[Vec<usize>]) -> Self {
        let (tokens, visible, pixels) = (plan.tokens(), plan.visible(), plan.pixels());
        let (mut seen, mut places, mut restore, mut hidden) =
            (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for (image, (patches, order)) in patches.chunks(tokens * pixels).zip(orders).enumerate() {
            let mut back = vec![0; tokens];
            let mut mask = vec![1.0_f32; tokens];
            for (place, &token) in order.iter().enumerate() {
                back[token] = (image * tokens + place) as i32;
                if place < visible {
                    seen.extend_from_slice(&patches[token * pixels..][..pixels]);
                    places.push(token as i32);
                    mask[token] = 0.0;
                }
            }
            restore.extend(back);
            hidden.extend(mask);
        }
        Self { seen, places, restore, hidden }
    }
}

/// In which order the patches of every picture are taken of which the first are seen.
pub(super) fn orders(plan: &Plan, pictures: usize, rng: &mut ChaCha8Rng) -> Vec<Vec<usize>> {
    let drawn = |_| {
        let mut order: Vec<usize> = (0..plan.tokens()).collect();
        order.shuffle(rng);
        order
    };
    (0..pictures).map(drawn).collect()
}

/// Mean squared error of the masked patches of `patches` `[B, N, P]`, each normalised by its own mean
/// and deviation: what counts is its pattern, not its colour.
pub(super) fn masked_loss(
    params: &Params,
    plan: &Plan,
    patches: Vec<f32>,
    orders: &[Vec<usize>],
    device: &Device,
) -> Tensor<1> {
    let (tokens, visible, pixels) = (plan.tokens(), plan.visible(), plan.pixels());
    let batch = orders.len();
    let MaskedBatch { seen, places, restore, hidden } = MaskedBatch::new(&patches, plan, orders);
    let index = |rows: Vec<i32>| {
        let count = rows.len();
        Tensor::<1, Int>::from_data(TensorData::new(rows, [count]), device)
    };
    let seen = Tensor::<2>::from_data(TensorData::new(seen, [batch * visible, pixels]), device).autodiff();
    let x = encode(params, plan, seen, Some(index(places)), batch); // [B, 1 + V, d]

    let x = linear(params, "decoder.decoder_embed", x); // [B, 1 + V, e]
    let blank = params.get::<3>("decoder.mask_token").expand([batch, tokens - visible, WIDTH]);
    let cls = x.clone().slice([0..batch, 0..1, 0..WIDTH]);
    let all = Tensor::cat(vec![x.slice([0..batch, 1..1 + visible, 0..WIDTH]), blank], 1); // [B, N, e]
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
