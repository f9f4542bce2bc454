//! Pre-trains the demo's tiny backbones on [`scenes`](super::scenes), endlessly fresh ones: one as a
//! masked autoencoder (He et al. 2022), one supervised through its CLS token (Dosovitskiy et al.
//! 2021), the two extremes the paper compares.
//!
//! The encoder is a plain pre-norm ViT with the parameter names of transformers' ViT, so what is
//! trained here is opened like any other backbone.

use std::ops::ControlFlow;

use burn::tensor::{Device, Int, Tensor, TensorData, activation, loss, module};
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;

use super::array::Arrays;
use super::optim::{AdamW, cosine};
use super::params::{Constraint, Init, Params, Spec};
use super::scenes::{self, CLASSES, SIDE, Scene};

/// Side of a patch in pixels: a 14 x 14 grid, the paper's 196 tokens.
pub const PATCH: usize = 8;
const GRID: usize = SIDE / PATCH;
const TOKENS: usize = GRID * GRID;
const PIXELS: usize = 3 * PATCH * PATCH;
/// Patches the masked autoencoder's encoder sees (a quarter).
const VISIBLE: usize = TOKENS / 4;
const DECODER_WIDTH: usize = 64;
const DECODER_LAYERS: usize = 2;

/// What the backbone is trained for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Objective {
    /// To fill in three quarters of the patches.
    Masked,
    /// To tell the class from the CLS token.
    Supervised,
}

/// Sizes and schedule of a pre-training.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// What for.
    pub objective: Objective,
    /// Hidden size, d; a multiple of 32.
    pub width: usize,
    /// Transformer layers.
    pub layers: usize,
    /// Optimiser steps.
    pub steps: usize,
    /// Scenes a step.
    pub batch: usize,
    /// Largest learning rate, after a warm-up over the first twentieth.
    pub rate: f64,
    /// Seed of parameters, scenes and masks.
    pub seed: u64,
}

/// Where a pre-training stands.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// Steps done.
    pub step: usize,
    /// Loss of the last step.
    pub loss: f32,
    /// Share of the last batch told right; supervised only.
    pub accuracy: Option<f32>,
}

/// Pre-trains a backbone; the effective weights under transformers' names. `progress` may stop it
/// early: the weights are then as far as they came.
pub fn pretrain(
    plan: &Plan,
    device: &Device,
    progress: &mut dyn FnMut(Progress) -> ControlFlow<()>,
) -> Arrays {
    let mut params = Params::start(specs(plan), plan.seed, "backbone", device);
    let mut adam = AdamW::default();
    let mut rng = ChaCha8Rng::seed_from_u64(plan.seed ^ 0x006d_6173_6b73);
    for step in 0..plan.steps {
        let first = (step * plan.batch) as u64;
        let scenes: Vec<Scene> =
            (0..plan.batch as u64).into_par_iter().map(|i| scenes::draw(plan.seed, first + i)).collect();
        let patches: Vec<f32> = scenes.par_iter().flat_map_iter(patchify).collect(); // [B, N, P]
        let tracked = params.tracked();
        let (loss, accuracy) = match plan.objective {
            Objective::Masked => (masked_loss(&tracked, plan, &patches, device, &mut rng), None),
            Objective::Supervised => {
                let (loss, right) = supervised_loss(&tracked, plan, patches, &scenes, device);
                (loss, Some(right))
            }
        };
        let warm_up = (plan.steps / 20).max(1);
        let rate = cosine(plan.rate, step, plan.steps) * ((step + 1) as f64 / warm_up as f64).min(1.0);
        params = adam.step(params, &tracked, &loss.backward(), rate);
        let loss = loss.inner().into_scalar::<f32>();
        if progress(Progress { step: step + 1, loss, accuracy }).is_break() {
            break;
        }
    }
    let arrays = params.to_arrays();
    arrays
        .into_iter()
        .filter(|(name, _)| !name.starts_with("decoder.") && !name.starts_with("classifier."))
        .collect()
}

/// Pixels of a scene as the encoder takes them, `[N, 3 * 8 * 8]`, each patch as channel, row, column.
fn patchify(scene: &Scene) -> Vec<f32> {
    let mut values = Vec::with_capacity(TOKENS * PIXELS);
    for token in 0..TOKENS {
        let (top, left) = (token / GRID * PATCH, token % GRID * PATCH);
        for channel in 0..3 {
            for row in 0..PATCH {
                let start = (top + row) * SIDE + left;
                let pixels = (start..start + PATCH).map(|i| scene.picture.rgb[i * 3 + channel]);
                values.extend(pixels.map(|byte| f32::from(byte) / 127.5 - 1.0));
            }
        }
    }
    values
}

/// Mean squared error of the masked patches, each normalised by its own mean and deviation.
fn masked_loss(
    params: &Params,
    plan: &Plan,
    patches: &[f32],
    device: &Device,
    rng: &mut ChaCha8Rng,
) -> Tensor<1> {
    let batch = plan.batch;
    let (mut seen, mut places, mut restore, mut hidden) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let mut target = Vec::with_capacity(patches.len());
    for image in patches.chunks(TOKENS * PIXELS) {
        let mut order: Vec<usize> = (0..TOKENS).collect();
        order.shuffle(rng);
        let mut back = vec![0; TOKENS];
        let mut mask = vec![1.0_f32; TOKENS];
        for (place, &token) in order.iter().enumerate() {
            back[token] = place as i32;
            if place < VISIBLE {
                seen.extend_from_slice(&image[token * PIXELS..][..PIXELS]);
                places.push(token as i32);
                mask[token] = 0.0;
            }
        }
        restore.extend(back);
        hidden.extend(mask);
        for patch in image.chunks(PIXELS) {
            let mean = patch.iter().sum::<f32>() / PIXELS as f32;
            let variance = patch.iter().map(|x| (x - mean).powi(2)).sum::<f32>() / PIXELS as f32;
            target.extend(patch.iter().map(|x| (x - mean) / (variance + 1e-6).sqrt()));
        }
    }
    let seen = Tensor::<2>::from_data(TensorData::new(seen, [batch * VISIBLE, PIXELS]), device).autodiff();
    let places = Tensor::<1, Int>::from_data(TensorData::new(places, [batch * VISIBLE]), device);
    let x = encode(params, plan, seen, Some(places), batch); // [B, 1 + V, d]

    let x = linear(params, "decoder.decoder_embed", x); // [B, 1 + V, e]
    let blank = params.get::<3>("decoder.mask_token").expand([batch, TOKENS - VISIBLE, DECODER_WIDTH]);
    let cls = x.clone().slice([0..batch, 0..1, 0..DECODER_WIDTH]);
    let all = Tensor::cat(vec![x.slice([0..batch, 1..1 + VISIBLE, 0..DECODER_WIDTH]), blank], 1); // [B, N, e]
    let flat = all.reshape([batch * TOKENS, DECODER_WIDTH]);
    let shifted: Vec<i32> =
        restore.iter().enumerate().map(|(i, &place)| (i / TOKENS * TOKENS) as i32 + place).collect();
    let restore = Tensor::<1, Int>::from_data(TensorData::new(shifted, [batch * TOKENS]), device);
    let restored = flat.select(0, restore).reshape([batch, TOKENS, DECODER_WIDTH]);
    let mut x = Tensor::cat(vec![cls, restored], 1) + params.get::<3>("decoder.decoder_pos_embed"); // [B, 1 + N, e]
    for layer in 0..DECODER_LAYERS {
        x = block(params, &format!("decoder.decoder_layers.{layer}"), x, DECODER_WIDTH / 32);
    }
    let x = linear(params, "decoder.decoder_pred", norm(params, "decoder.decoder_norm", x)); // [B, 1 + N, P]
    let found = x.slice([0..batch, 1..1 + TOKENS, 0..PIXELS]);
    let target = Tensor::<3>::from_data(TensorData::new(target, [batch, TOKENS, PIXELS]), device).autodiff();
    let hidden = Tensor::<2>::from_data(TensorData::new(hidden, [batch, TOKENS]), device).autodiff();
    let error = (found - target).square().mean_dim(2).squeeze_dim::<2>(2); // [B, N]
    (error * hidden).sum() / (batch * (TOKENS - VISIBLE)) as f32
}

/// Cross-entropy of the class read from CLS, and the share told right.
fn supervised_loss(
    params: &Params,
    plan: &Plan,
    patches: Vec<f32>,
    scenes: &[Scene],
    device: &Device,
) -> (Tensor<1>, f32) {
    let batch = plan.batch;
    let pixels =
        Tensor::<2>::from_data(TensorData::new(patches, [batch * TOKENS, PIXELS]), device).autodiff();
    let x = encode(params, plan, pixels, None, batch); // [B, 1 + N, d]
    let cls = x.slice([0..batch, 0..1, 0..plan.width]).reshape([batch, plan.width]);
    let logits = cls.matmul(params.get::<2>("classifier.weight").transpose())
        + params.get::<1>("classifier.bias").unsqueeze(); // [B, C]
    let labels: Vec<i32> = scenes.iter().map(|scene| scene.class as i32).collect();
    let labels = Tensor::<1, Int>::from_data(TensorData::new(labels, [batch]), device);
    let right = logits.clone().inner().argmax(1).squeeze_dim::<1>(1).equal(labels.clone()).float().mean();
    let target = labels.one_hot::<2>(CLASSES).float().autodiff();
    (loss::cross_entropy_with_logits(logits, target), right.into_scalar::<f32>())
}

/// The encoder: patches `[B * V, P]` at `places` (all of them where absent) to tokens `[B, 1 + V, d]`.
fn encode(
    params: &Params,
    plan: &Plan,
    patches: Tensor<2>,
    places: Option<Tensor<1, Int>>,
    batch: usize,
) -> Tensor<3> {
    let d = plan.width;
    let projection = "embeddings.patch_embeddings.projection";
    let weight = params.get::<4>(&format!("{projection}.weight")).reshape([d, PIXELS]);
    let bias = params.get::<1>(&format!("{projection}.bias")).unsqueeze();
    let x = patches.matmul(weight.transpose()) + bias; // [B * V, d]
    let visible = x.dims()[0] / batch;
    let positions = params.get::<3>("embeddings.position_embeddings"); // [1, 1 + N, d]
    let at_cls = positions.clone().slice([0..1, 0..1, 0..d]);
    let at_patches = positions.slice([0..1, 1..1 + TOKENS, 0..d]);
    let x = x.reshape([batch, visible, d]);
    let x = match places {
        Some(places) => x + at_patches.reshape([TOKENS, d]).select(0, places).reshape([batch, visible, d]),
        None => x + at_patches,
    };
    let cls = (params.get::<3>("embeddings.cls_token") + at_cls).expand([batch, 1, d]);
    let mut x = Tensor::cat(vec![cls, x], 1); // [B, 1 + V, d]
    for layer in 0..plan.layers {
        x = block(params, &format!("encoder.layer.{layer}"), x, d / 32);
    }
    norm(params, "layernorm", x)
}

/// A pre-norm transformer layer, `[B, T, d]` to the same.
fn block(params: &Params, name: &str, x: Tensor<3>, heads: usize) -> Tensor<3> {
    let [batch, tokens, d] = x.dims();
    let normed = norm(params, &format!("{name}.layernorm_before"), x.clone());
    let [query, key, value] = ["query", "key", "value"].map(|part| {
        linear(params, &format!("{name}.attention.attention.{part}"), normed.clone())
            .reshape([batch, tokens, heads, d / heads])
            .swap_dims(1, 2) // [B, h, T, d / h]
    });
    let scale = (d as f32 / heads as f32).sqrt();
    let shares = activation::softmax(query.matmul(key.transpose()) / scale, 3); // [B, h, T, T]
    let mixed = shares.matmul(value).swap_dims(1, 2).reshape([batch, tokens, d]);
    let x = x + linear(params, &format!("{name}.attention.output.dense"), mixed);
    let normed = norm(params, &format!("{name}.layernorm_after"), x.clone());
    let inner = activation::gelu(linear(params, &format!("{name}.intermediate.dense"), normed));
    x + linear(params, &format!("{name}.output.dense"), inner)
}

fn linear(params: &Params, name: &str, x: Tensor<3>) -> Tensor<3> {
    let [batch, tokens, d] = x.dims();
    let weight = params.get::<2>(&format!("{name}.weight")); // [o, d]
    let out = weight.dims()[0];
    let y = x.reshape([batch * tokens, d]).matmul(weight.transpose());
    (y + params.get::<1>(&format!("{name}.bias")).unsqueeze()).reshape([batch, tokens, out])
}

fn norm(params: &Params, name: &str, x: Tensor<3>) -> Tensor<3> {
    let (weight, bias) = (params.get(&format!("{name}.weight")), params.get(&format!("{name}.bias")));
    module::layer_norm(x, weight, Some(bias), 1e-12)
}

/// All parameters by transformers' names; the decoder and the classifier are left behind.
fn specs(plan: &Plan) -> Vec<Spec> {
    let d = plan.width;
    let fixed = |width| {
        let shape = [1, 1 + TOKENS, width];
        Spec::new("", shape, Init::Values(sine_positions(width))).with(Constraint::Fixed)
    };
    let mut specs = vec![
        Spec::new("embeddings.cls_token", [1, 1, d], Init::Normal(0.02)),
        Spec { name: "embeddings.position_embeddings".to_owned(), ..fixed(d) },
        Spec::new("embeddings.patch_embeddings.projection.weight", [d, 3, PATCH, PATCH], Init::Uniform(0.07)),
        Spec::new("embeddings.patch_embeddings.projection.bias", [d], Init::Constant(0.0)),
    ];
    for layer in 0..plan.layers {
        specs.extend(block_specs(&format!("encoder.layer.{layer}"), d));
    }
    specs.extend(norm_specs("layernorm", d));
    match plan.objective {
        Objective::Supervised => specs.extend(linear_specs("classifier", d, CLASSES)),
        Objective::Masked => {
            let e = DECODER_WIDTH;
            specs.extend(linear_specs("decoder.decoder_embed", d, e));
            specs.push(Spec::new("decoder.mask_token", [1, 1, e], Init::Normal(0.02)));
            specs.push(Spec { name: "decoder.decoder_pos_embed".to_owned(), ..fixed(e) });
            for layer in 0..DECODER_LAYERS {
                specs.extend(block_specs(&format!("decoder.decoder_layers.{layer}"), e));
            }
            specs.extend(norm_specs("decoder.decoder_norm", e));
            specs.extend(linear_specs("decoder.decoder_pred", e, PIXELS));
        }
    }
    specs
}

fn block_specs(name: &str, d: usize) -> Vec<Spec> {
    let dense = [
        ("attention.attention.query", d, d),
        ("attention.attention.key", d, d),
        ("attention.attention.value", d, d),
        ("attention.output.dense", d, d),
        ("intermediate.dense", d, 4 * d),
        ("output.dense", 4 * d, d),
    ];
    let mut specs: Vec<Spec> = dense
        .iter()
        .flat_map(|(part, from, to)| linear_specs(&format!("{name}.{part}"), *from, *to))
        .collect();
    specs.extend(norm_specs(&format!("{name}.layernorm_before"), d));
    specs.extend(norm_specs(&format!("{name}.layernorm_after"), d));
    specs
}

/// Xavier's uniform start, as MAE's.
fn linear_specs(name: &str, from: usize, to: usize) -> [Spec; 2] {
    let bound = (6.0 / (from + to) as f32).sqrt();
    [
        Spec::new(format!("{name}.weight"), [to, from], Init::Uniform(bound)),
        Spec::new(format!("{name}.bias"), [to], Init::Constant(0.0)),
    ]
}

fn norm_specs(name: &str, d: usize) -> [Spec; 2] {
    [
        Spec::new(format!("{name}.weight"), [d], Init::Constant(1.0)),
        Spec::new(format!("{name}.bias"), [d], Init::Constant(0.0)),
    ]
}

/// Fixed two-dimensional sine and cosine positions, `[1 + N, d]`; zero for CLS (He et al. 2022).
fn sine_positions(d: usize) -> Vec<f32> {
    let mut table = vec![0.0; d];
    for token in 0..TOKENS {
        for place in [token % GRID, token / GRID] {
            let angles: Vec<f32> =
                (0..d / 4).map(|i| place as f32 / 10_000_f32.powf(i as f32 / (d / 4) as f32)).collect();
            table.extend(angles.iter().map(|angle| angle.sin()));
            table.extend(angles.iter().map(|angle| angle.cos()));
        }
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    fn losses(objective: Objective) -> Vec<f32> {
        let plan = Plan { objective, width: 32, layers: 1, steps: 12, batch: 12, rate: 2e-3, seed: 1 };
        let mut losses = Vec::new();
        let arrays = pretrain(&plan, &Device::flex(), &mut |progress| {
            losses.push(progress.loss);
            ControlFlow::Continue(())
        });
        assert!(arrays.keys().all(|name| !name.contains("decoder") && !name.contains("classifier")));
        losses
    }

    #[test]
    fn the_masked_loss_falls() {
        let losses = losses(Objective::Masked);
        assert!(losses[11] < 0.8 * losses[0], "{losses:?}");
    }

    #[test]
    fn the_supervised_loss_falls_to_chance_and_below_its_start() {
        let losses = losses(Objective::Supervised);
        assert!(losses[11] < losses[0] && losses.iter().all(|loss| loss.is_finite()), "{losses:?}");
    }
}
