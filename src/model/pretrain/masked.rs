//! Filling in masked patches (masked autoencoders; He et al. 2022).

use burn::tensor::{Device, Int, Tensor, TensorData};
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

use super::encoder::{block, block_specs, encode, linear, linear_specs, norm, norm_specs, positions};
use super::{PIXELS, Plan, TOKENS};
use crate::model::probe::params::{Init, Params, Spec};

/// Patches the encoder sees: two fifths, more than the quarter of photographs, since an object covers
/// few patches and must be told from those of them that are seen.
const VISIBLE: usize = TOKENS * 2 / 5;
/// What is added to the variance of a patch before its pixels are divided by the root of it, as they
/// are filled in (pixels from -1 to 1): flat patches would else be their sensor noise, magnified.
const FLAT: f32 = 0.02;
const WIDTH: usize = 64;
const LAYERS: usize = 2;

/// The decoder, which stays behind.
pub(super) fn specs(plan: &Plan) -> Vec<Spec> {
    let mut specs: Vec<Spec> = linear_specs("decoder.decoder_embed", plan.width, WIDTH).into();
    specs.push(Spec::new("decoder.mask_token", [1, 1, WIDTH], Init::Normal(0.02)));
    specs.push(positions("decoder.decoder_pos_embed", WIDTH));
    for layer in 0..LAYERS {
        specs.extend(block_specs(&format!("decoder.decoder_layers.{layer}"), WIDTH));
    }
    specs.extend(norm_specs("decoder.decoder_norm", WIDTH));
    specs.extend(linear_specs("decoder.decoder_pred", WIDTH, PIXELS));
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
    /// Hides three fifths of every image of `patches` `[B, N, P]`.
    fn new(patches: &[f32], rng: &mut ChaCha8Rng) -> Self {
        let (mut seen, mut places, mut restore, mut hidden) =
            (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for (image, patches) in patches.chunks(TOKENS * PIXELS).enumerate() {
            let mut order: Vec<usize> = (0..TOKENS).collect();
            order.shuffle(rng);
            let mut back = vec![0; TOKENS];
            let mut mask = vec![1.0_f32; TOKENS];
            for (place, &token) in order.iter().enumerate() {
                back[token] = (image * TOKENS + place) as i32;
                if place < VISIBLE {
                    seen.extend_from_slice(&patches[token * PIXELS..][..PIXELS]);
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

/// Mean squared error of the masked patches of `patches` `[B, N, P]`, each normalised by its own mean
/// and deviation: what counts is its pattern, not its colour.
pub(super) fn masked_loss(
    params: &Params,
    plan: &Plan,
    patches: Vec<f32>,
    device: &Device,
    rng: &mut ChaCha8Rng,
) -> Tensor<1> {
    let batch = plan.batch;
    let MaskedBatch { seen, places, restore, hidden } = MaskedBatch::new(&patches, rng);
    let index = |rows: Vec<i32>| {
        let count = rows.len();
        Tensor::<1, Int>::from_data(TensorData::new(rows, [count]), device)
    };
    let seen = Tensor::<2>::from_data(TensorData::new(seen, [batch * VISIBLE, PIXELS]), device).autodiff();
    let x = encode(params, plan, seen, Some(index(places)), batch); // [B, 1 + V, d]

    let x = linear(params, "decoder.decoder_embed", x); // [B, 1 + V, e]
    let blank = params.get::<3>("decoder.mask_token").expand([batch, TOKENS - VISIBLE, WIDTH]);
    let cls = x.clone().slice([0..batch, 0..1, 0..WIDTH]);
    let all = Tensor::cat(vec![x.slice([0..batch, 1..1 + VISIBLE, 0..WIDTH]), blank], 1); // [B, N, e]
    let restored = all.reshape([batch * TOKENS, WIDTH]).select(0, index(restore));
    let restored = restored.reshape([batch, TOKENS, WIDTH]);
    let mut x = Tensor::cat(vec![cls, restored], 1) + params.get::<3>("decoder.decoder_pos_embed"); // [B, 1 + N, e]
    for layer in 0..LAYERS {
        x = block(params, &format!("decoder.decoder_layers.{layer}"), x, WIDTH / 32);
    }
    let x = linear(params, "decoder.decoder_pred", norm(params, "decoder.decoder_norm", x)); // [B, 1 + N, P]
    let found = x.slice([0..batch, 1..1 + TOKENS, 0..PIXELS]);
    let target = Tensor::<3>::from_data(TensorData::new(patches, [batch, TOKENS, PIXELS]), device);
    let hidden = Tensor::<2>::from_data(TensorData::new(hidden, [batch, TOKENS]), device).autodiff();
    let mean = target.clone().mean_dim(2); // [B, N, 1]
    let variance = (target.clone() - mean.clone()).square().mean_dim(2);
    let target = ((target - mean) / (variance + FLAT).sqrt()).autodiff();
    let error = (found - target).square().mean_dim(2).squeeze_dim::<2>(2); // [B, N]
    (error * hidden).sum() / (batch * (TOKENS - VISIBLE)) as f32
}
