//! Pre-trains tiny backbones: one as a masked autoencoder (He et al. 2022), one supervised (Dosovitskiy et al. 2021), the two
//! extremes the paper compares. From [`photographs`] of a dataset, or, for the demo, from
//! [`scenes`](crate::model::data::scenes), endlessly fresh ones.
//!
//! The encoder is a plain pre-norm ViT with the parameter names of transformers' ViT, so what is
//! trained here is opened like any other backbone, from the [`folder`] it is saved to.

pub mod checkpoint;
mod encoder;
pub mod folder;
mod fused;
mod masked;
pub mod photographs;
mod supervised;
#[cfg(test)]
mod tests;

use std::ops::{ControlFlow, Range};

use burn::tensor::{Device, Tensor};
use clap::ValueEnum;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::model::data::scenes::{self, Scene};
use crate::model::io::array::Arrays;
use crate::model::ops::cpu::on_cpu;
use crate::model::probe::params::{Params, Spec};
use crate::model::trace::Picture;
use crate::model::train::optim::{AdamW, cosine, gradients};

/// Share of a patch from which on its token is asked for the object's class, not for "none".
const LABELLED: f64 = 0.25;

/// What the backbone is trained for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Objective {
    /// To fill in the patterns of hidden patches.
    Masked,
    /// To tell the class from the CLS token, and of scenes from every patch token on the object.
    Supervised,
}

/// Of what pictures, and how they are learnt from.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Recipe {
    /// Side of a picture in pixels.
    pub side: usize,
    /// Side of a patch in pixels, which divides that of the picture.
    pub patch: usize,
    /// Classes that are told apart; supervised only.
    pub classes: usize,
    /// Whether patch tokens are asked for the class of what they show; supervised only.
    pub labels_tokens: bool,
    /// Share of the patches that are hidden, between 0 and 1; masked only.
    pub mask_ratio: f64,
    /// What is added to the variance of a patch before its pixels (from -1 to 1) are divided by the root of it, as they are
    /// filled in; masked only.
    pub flat: f32,
    /// Share of every weight of two or more dimensions that a step takes off, times the learning rate (AdamW).
    pub weight_decay: f64,
    /// Steps over which the learning rate rises; a twentieth of all where absent.
    pub warm_up: Option<usize>,
    /// On the CPU, pictures of a part of a step, each of which a core computes with [`fused`] operations; whatever their
    /// number, it does not depend on that of the cores. All of a step as one with burn's own operations where absent.
    pub part: Option<usize>,
}

impl Recipe {
    /// That of the demo's scenes: a 14 x 14 grid, the paper's 196 tokens. More patches are seen than the quarter of
    /// photographs, since an object covers few of them and must be told from those that are seen; flat patches would be
    /// their sensor noise, magnified.
    pub const SCENES: Self = Self {
        side: scenes::SIDE,
        patch: 8,
        classes: scenes::CLASSES,
        labels_tokens: true,
        mask_ratio: 0.6,
        flat: 0.02,
        weight_decay: 0.0,
        warm_up: None,
        part: None,
    };

    fn is_of_scenes(&self) -> bool {
        *self == Self::SCENES
    }
}

impl Default for Recipe {
    fn default() -> Self {
        Self::SCENES
    }
}

/// Sizes and schedule of a pre-training.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// What for.
    pub objective: Objective,
    /// Hidden size, d; a multiple of 32.
    pub width: usize,
    /// Transformer layers.
    pub layers: usize,
    /// Optimiser steps.
    pub steps: usize,
    /// Pictures a step.
    pub batch: usize,
    /// Largest learning rate, after a warm-up.
    pub rate: f64,
    /// Seed of parameters, pictures and masks.
    pub seed: u64,
    /// Of what pictures; the demo's scenes where absent.
    #[serde(default, skip_serializing_if = "Recipe::is_of_scenes")]
    pub recipe: Recipe,
}

impl Plan {
    /// Attention heads of every layer, 32 channels each.
    pub fn heads(&self) -> usize {
        self.width / 32
    }

    /// Whether [`fused`] operations are taken.
    fn fuses(&self, device: &Device) -> bool {
        self.recipe.part.is_some() && on_cpu(device)
    }

    /// Patches along a side.
    fn grid(&self) -> usize {
        self.recipe.side / self.recipe.patch
    }

    /// N.
    pub fn tokens(&self) -> usize {
        self.grid().pow(2)
    }

    /// Values of a patch, P.
    fn pixels(&self) -> usize {
        3 * self.recipe.patch.pow(2)
    }

    /// Patches of a picture that a masked autoencoder's encoder sees: one at least, and not all.
    pub fn visible(&self) -> usize {
        let seen = self.tokens() as f64 * (1.0 - self.recipe.mask_ratio);
        ((seen + 1e-9) as usize).clamp(1, (self.tokens() - 1).max(1)) // 10 x (1 - 0.9) is a little less than 1
    }

    /// Share of the distractors at a step: a supervised pre-training starts with the object alone,
    /// and has all of them from half of its steps on.
    fn clutter(&self, step: usize) -> f64 {
        match self.objective {
            Objective::Masked => 1.0,
            Objective::Supervised => (2.0 * step as f64 / self.steps as f64).min(1.0),
        }
    }

    /// The learning rate at a step, from 0: half a cosine to 0, and over the warm-up a part of it.
    pub fn rate(&self, step: usize) -> f64 {
        let warm_up = self.recipe.warm_up.unwrap_or(self.steps / 20).max(1);
        cosine(self.rate, step, self.steps) * ((step + 1) as f64 / warm_up as f64).min(1.0)
    }
}

/// Pictures of a step, as the encoder takes them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Batch {
    /// Pixels from -1 to 1, patch by patch, `[B, N, P]`.
    patches: Vec<f32>,
    /// The class of each picture, `[B]`.
    classes: Vec<usize>,
    /// What each patch shows, `[B N]`, the number of classes where that is none of them; empty where nobody knows.
    token_classes: Vec<usize>,
}

impl Batch {
    /// Of how many pictures.
    pub fn len(&self) -> usize {
        self.classes.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.classes.is_empty()
    }

    /// Pictures of the right size, with their classes.
    fn from_pictures(plan: &Plan, pictures: &[(Picture, usize)]) -> Self {
        let patches = pictures.par_iter().flat_map_iter(|(picture, _)| patchify(plan, picture)).collect();
        Self {
            patches,
            classes: pictures.iter().map(|(_, class)| *class).collect(),
            token_classes: Vec::new(),
        }
    }

    /// Some of them.
    fn part(&self, plan: &Plan, pictures: Range<usize>) -> Self {
        let rows = |each: usize| pictures.start * each..pictures.end * each;
        let tokens = plan.tokens();
        Self {
            patches: self.patches[rows(tokens * plan.pixels())].to_vec(),
            classes: self.classes[pictures.clone()].to_vec(),
            token_classes: self.token_classes.get(rows(tokens)).map(<[_]>::to_vec).unwrap_or_default(),
        }
    }

    /// The scenes of a step, which no other step has.
    fn drawn(plan: &Plan, step: usize) -> Self {
        let first = (step * plan.batch) as u64;
        let draw = |i| scenes::draw_with(plan.seed, first + i, plan.clutter(step));
        let scenes: Vec<Scene> = (0..plan.batch as u64).into_par_iter().map(draw).collect();
        let on = |scene: &Scene, cover: f64| if cover >= LABELLED { scene.class } else { scenes::CLASSES };
        let patch = plan.recipe.patch;
        let each =
            |scene: &Scene| scene.cover(patch).into_iter().map(|cover| on(scene, cover)).collect::<Vec<_>>();
        let token_classes = match plan.objective {
            Objective::Masked => Vec::new(),
            Objective::Supervised => scenes.iter().flat_map(each).collect(),
        };
        let pictures: Vec<_> = scenes.into_iter().map(|scene| (scene.picture, scene.class)).collect();
        Self { token_classes, ..Self::from_pictures(plan, &pictures) }
    }
}

/// Pixels of a picture as the encoder takes them, `[N, 3 p p]`, each patch as channel, row, column.
fn patchify(plan: &Plan, picture: &Picture) -> Vec<f32> {
    let (grid, Recipe { side, patch, .. }) = (plan.grid(), plan.recipe);
    let mut values = Vec::with_capacity(plan.tokens() * plan.pixels());
    for token in 0..plan.tokens() {
        let (top, left) = (token / grid * patch, token % grid * patch);
        for channel in 0..3 {
            for row in 0..patch {
                let start = (top + row) * side + left;
                let pixels = (start..start + patch).map(|i| picture.rgb[i * 3 + channel]);
                values.extend(pixels.map(|byte| f32::from(byte) / 127.5 - 1.0));
            }
        }
    }
    values
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

/// A backbone that is being pre-trained: all that its next step depends on, besides the pictures.
pub struct Pretraining {
    plan: Plan,
    device: Device,
    params: Params,
    adam: AdamW,
    /// Which patches are hidden.
    masks: ChaCha8Rng,
    /// Steps done.
    step: usize,
}

/// Loss, share told right and gradients of some pictures of a step, as shares of the whole.
struct Part {
    loss: f32,
    accuracy: Option<f32>,
    gradients: Vec<Option<Tensor<1>>>,
}

impl Part {
    fn plus(self, other: Self) -> Self {
        let both = self.gradients.into_iter().zip(other.gradients);
        Self {
            loss: self.loss + other.loss,
            accuracy: self.accuracy.zip(other.accuracy).map(|(one, other)| one + other),
            gradients: both.map(|(one, other)| one.zip(other).map(|(one, other)| one + other)).collect(),
        }
    }
}

impl Pretraining {
    /// Before its first step.
    pub fn start(plan: &Plan, device: &Device) -> Self {
        let mut specs = encoder::specs(plan);
        specs.extend(match plan.objective {
            Objective::Masked => masked::specs(plan),
            Objective::Supervised => supervised::specs(plan),
        });
        // Keys start as queries: every token first attends to those like it, which by their positions
        // are its neighbours. From independent ones it takes a thousand steps to look nearby.
        let fresh = |spec: &Spec| {
            let name = spec.name.replace(".attention.key.", ".attention.query.");
            Spec { name, ..spec.clone() }.start(plan.seed, "backbone")
        };
        let values = specs.iter().map(|spec| (spec.name.clone(), fresh(spec))).collect();
        Self {
            plan: *plan,
            device: device.clone(),
            params: Params::from_arrays(specs, &values, device),
            adam: AdamW::default().with_decay(plan.recipe.weight_decay),
            masks: ChaCha8Rng::seed_from_u64(plan.seed ^ 0x006d_6173_6b73),
            step: 0,
        }
    }

    /// Steps done.
    pub fn steps_done(&self) -> usize {
        self.step
    }

    /// Learns from some pictures.
    pub fn step(&mut self, batch: &Batch) -> Progress {
        let orders = match self.plan.objective {
            Objective::Masked => masked::orders(&self.plan, batch.len(), &mut self.masks),
            Objective::Supervised => Vec::new(),
        };
        let size = self.plan.recipe.part.filter(|_| self.plan.fuses(&self.device)).unwrap_or(batch.len());
        let starts: Vec<usize> = (0..batch.len()).step_by(size).collect();
        let parts = starts
            .into_par_iter()
            .map(|start| self.part(batch, &orders, start..batch.len().min(start + size)));
        let sum = parts.collect::<Vec<_>>().into_iter().reduce(Part::plus);
        let Part { loss, accuracy, gradients } = sum.expect("pictures to learn from");
        let rate = self.plan.rate(self.step);
        self.params = self.adam.advance(self.params.clone(), gradients, rate);
        self.step += 1;
        Progress { step: self.step, loss, accuracy }
    }

    /// What some of the pictures of a step add to its loss and gradient.
    fn part(&self, batch: &Batch, orders: &[Vec<usize>], pictures: Range<usize>) -> Part {
        let Self { plan, device, .. } = self;
        let share = pictures.len() as f32 / batch.len() as f32;
        let part = batch.part(plan, pictures.clone());
        let tracked = self.params.tracked();
        let (loss, accuracy) = match plan.objective {
            Objective::Masked => {
                (masked::masked_loss(&tracked, plan, part.patches, &orders[pictures], device), None)
            }
            Objective::Supervised => {
                let (loss, right) = supervised::supervised_loss(&tracked, plan, part, device);
                (loss, Some(right * share))
            }
        };
        let loss = loss * share;
        let gradients = gradients(&tracked, &[&loss.backward()]);
        Part { loss: loss.inner().into_scalar::<f32>(), accuracy, gradients }
    }

    /// The encoder's weights under transformers' names.
    pub fn weights(&self) -> Arrays {
        let mut arrays = self.params.to_arrays();
        arrays.truncate(encoder::specs(&self.plan).len());
        arrays
    }
}

/// Pre-trains a backbone from scenes; the weights under transformers' names. `progress` may stop it early: the
/// weights are then as far as they came.
pub fn pretrain(
    plan: &Plan,
    device: &Device,
    progress: &mut dyn FnMut(Progress) -> ControlFlow<()>,
) -> Arrays {
    let mut pretraining = Pretraining::start(plan, device);
    for step in 0..plan.steps {
        if progress(pretraining.step(&Batch::drawn(plan, step))).is_break() {
            break;
        }
    }
    pretraining.weights()
}
