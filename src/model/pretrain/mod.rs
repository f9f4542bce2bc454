//! Pre-trains tiny backbones, as a masked autoencoder (He et al. 2022) or supervised (Dosovitskiy et al. 2021), the two
//! extremes the paper compares; from [`photographs`] of a dataset, or, for the demo, from
//! [scenes], new ones in every step.
//!
//! The encoder is a plain pre-norm ViT with the parameter names of transformers' ViT, so a trained one is
//! opened like any other backbone, from the [`folder`] it is saved to.

pub mod checkpoint;
mod encoder;
pub mod folder;
mod fused;
mod masked;
mod memory;
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
use crate::model::device::free_main_memory;
use crate::model::io::array::Arrays;
use crate::model::ops::cpu::on_cpu;
use crate::model::picture::Picture;
use crate::model::probe::params::{Params, Spec};
use crate::model::train::optim::{AdamW, cosine, gradients};

/// Smallest share of a patch that the object must cover for the token's label to be the object's class, not "none".
const MIN_COVER: f64 = 0.25;

/// What the backbone is trained for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Objective {
    /// Reconstruct hidden patches, as a masked autoencoder (He et al. 2022).
    Masked,
    /// Classify from the CLS token.
    Supervised,
}

/// The pictures of a pre-training, and hyperparameters of its loss and optimiser.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Recipe {
    /// Side of a picture in pixels.
    pub side: usize,
    /// Side of a patch in pixels, which divides that of the picture.
    pub patch: usize,
    /// Number of classes; supervised only.
    pub classes: usize,
    /// Whether patch tokens are classified too (token labelling); supervised only.
    pub labels_tokens: bool,
    /// Share of the patches that are hidden, between 0 and 1; masked only.
    pub mask_ratio: f64,
    /// Epsilon of the normalisation of target patches: added to the variance of a patch's pixels (from -1 to 1) before they are
    /// divided by its square root; masked only.
    pub flat: f32,
    /// Weight decay of AdamW, on parameters of two or more dimensions.
    pub weight_decay: f64,
    /// Warm-up steps; a twentieth of all steps if absent.
    pub warm_up: Option<usize>,
    /// On the CPU, number of pictures per part of a step: parts run in parallel, each on one core with [`fused`] operations, and
    /// the result depends neither on the number of cores nor on memory. If absent, a step is one part with burn's own operations.
    pub part: Option<usize>,
}

impl Recipe {
    /// The recipe of the demo's scenes: a 14 x 14 grid, the paper's 196 tokens. More patches are visible than the quarter of
    /// photographs, since an object covers few of them and must be inferred from the visible ones. `flat` is large, since
    /// normalised flat patches would be amplified sensor noise.
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
    /// What the backbone is trained for.
    pub objective: Objective,
    /// Hidden size, d; a multiple of 32.
    pub width: usize,
    /// Transformer layers.
    pub layers: usize,
    /// Optimiser steps.
    pub steps: usize,
    /// Pictures per step.
    pub batch: usize,
    /// Learning rate, before its cosine and warm-up: see [`rate`](Self::rate).
    pub rate: f64,
    /// Seed of parameters, pictures and masks.
    pub seed: u64,
    /// Pictures and hyperparameters; those of the demo's scenes if absent.
    #[serde(default, skip_serializing_if = "Recipe::is_of_scenes")]
    pub recipe: Recipe,
}

impl Plan {
    /// Attention heads of every layer, 32 channels each.
    pub fn heads(&self) -> usize {
        self.width / 32
    }

    /// Whether [`fused`] operations are used.
    fn fuses(&self, device: &Device) -> bool {
        self.recipe.part.is_some() && on_cpu(device)
    }

    /// Patches along a side.
    fn grid(&self) -> usize {
        self.recipe.side / self.recipe.patch
    }

    /// Number of patch tokens, N.
    pub fn tokens(&self) -> usize {
        self.grid().pow(2)
    }

    /// Number of values of a patch, P.
    fn pixels(&self) -> usize {
        3 * self.recipe.patch.pow(2)
    }

    /// Number of visible patches of a picture, V, that a masked autoencoder encodes: one at least, and not all.
    pub fn visible(&self) -> usize {
        let visible = self.tokens() as f64 * (1.0 - self.recipe.mask_ratio);
        ((visible + 1e-9) as usize).clamp(1, (self.tokens() - 1).max(1)) // 10 x (1 - 0.9) is a little less than 1
    }

    /// Share of the distractors in the scenes of a step: a supervised pre-training starts with the object
    /// alone, and has all distractors from half of its steps on.
    fn clutter(&self, step: usize) -> f64 {
        match self.objective {
            Objective::Masked => 1.0,
            Objective::Supervised => (2.0 * step as f64 / self.steps as f64).min(1.0),
        }
    }

    /// The learning rate at a step, from 0: half a cosine to 0, times a linear warm-up.
    pub fn rate(&self, step: usize) -> f64 {
        let warm_up = self.recipe.warm_up.unwrap_or(self.steps / 20).max(1);
        cosine(self.rate, step, self.steps) * ((step + 1) as f64 / warm_up as f64).min(1.0)
    }
}

/// The pictures of a step as patches, with their labels.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Batch {
    /// Pixels from -1 to 1, patch by patch, `[B, N, P]`.
    patches: Vec<f32>,
    /// The class of each picture, `[B]`.
    classes: Vec<usize>,
    /// The class of each patch, `[B N]`, or the number of classes if it shows none of them; empty if unknown.
    token_classes: Vec<usize>,
}

impl Batch {
    /// Number of pictures.
    pub fn len(&self) -> usize {
        self.classes.len()
    }

    /// Whether it has no pictures.
    pub fn is_empty(&self) -> bool {
        self.classes.is_empty()
    }

    /// A batch of pictures, which must have the plan's side, and their classes.
    fn from_pictures(plan: &Plan, pictures: &[(Picture, usize)]) -> Self {
        let patches = pictures.par_iter().flat_map_iter(|(picture, _)| patchify(plan, picture)).collect();
        Self { patches, classes: pictures.iter().map(|(_, class)| *class).collect(), ..Self::default() }
    }

    /// The batch of a range of its pictures.
    fn part(&self, plan: &Plan, pictures: Range<usize>) -> Self {
        let rows = |len: usize| pictures.start * len..pictures.end * len;
        let tokens = plan.tokens();
        Self {
            patches: self.patches[rows(tokens * plan.pixels())].to_vec(),
            classes: self.classes[pictures.clone()].to_vec(),
            token_classes: self.token_classes.get(rows(tokens)).map(<[_]>::to_vec).unwrap_or_default(),
        }
    }

    /// The scenes of a step, all different from those of other steps.
    fn drawn(plan: &Plan, step: usize) -> Self {
        let first = (step * plan.batch) as u64;
        let draw = |i| scenes::draw_with(plan.seed, first + i, plan.clutter(step));
        let scenes: Vec<Scene> = (0..plan.batch as u64).into_par_iter().map(draw).collect();
        let label =
            |scene: &Scene, cover: f64| if cover >= MIN_COVER { scene.class } else { scenes::CLASSES };
        let patch = plan.recipe.patch;
        let labels = |scene: &Scene| {
            scene.cover(patch).into_iter().map(|cover| label(scene, cover)).collect::<Vec<_>>()
        };
        let token_classes = match plan.objective {
            Objective::Masked => Vec::new(),
            Objective::Supervised => scenes.iter().flat_map(labels).collect(),
        };
        let pictures: Vec<_> = scenes.into_iter().map(|scene| (scene.picture, scene.class)).collect();
        Self { token_classes, ..Self::from_pictures(plan, &pictures) }
    }
}

/// The pixels of a picture from -1 to 1, patch by patch, `[N, 3 p p]`, each patch in order of channel, row, column.
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

/// The progress of a pre-training.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// Steps done.
    pub step: usize,
    /// Loss of the last step.
    pub loss: f32,
    /// Share of the last batch that was classified correctly, 0 to 1; supervised only.
    pub accuracy: Option<f32>,
}

/// A pre-training in progress: all that its next step depends on, besides the pictures.
pub struct Pretraining {
    plan: Plan,
    device: Device,
    params: Params,
    adam: AdamW,
    /// Draws which patches are hidden.
    masks: ChaCha8Rng,
    /// Steps done.
    step: usize,
    /// Number of parts of a step that are computed at a time.
    parts_at_once: usize,
}

/// Contributions of some pictures of a step to its loss, accuracy and gradients.
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
    /// A pre-training before its first step.
    pub fn start(plan: &Plan, device: &Device) -> Self {
        let mut specs = encoder::specs(plan);
        specs.extend(match plan.objective {
            Objective::Masked => masked::specs(plan),
            Objective::Supervised => supervised::specs(plan),
        });
        // Keys are initialised as queries: every token then first attends to similar ones, which by their
        // positions are its neighbours. With independent values it takes a thousand steps to attend nearby.
        let initial = |spec: &Spec| {
            let name = spec.name.replace(".attention.key.", ".attention.query.");
            Spec { name, ..spec.clone() }.start(plan.seed, "backbone")
        };
        let values = specs.iter().map(|spec| (spec.name.clone(), initial(spec))).collect();
        Self {
            plan: *plan,
            device: device.clone(),
            params: Params::from_arrays(specs, &values, device),
            adam: AdamW::default().with_decay(plan.recipe.weight_decay),
            masks: ChaCha8Rng::seed_from_u64(plan.seed ^ 0x006d_6173_6b73),
            step: 0,
            parts_at_once: plan.parts_at_once(
                device,
                rayon::current_num_threads(),
                free_main_memory().unwrap_or(u64::MAX),
            ),
        }
    }

    /// Steps done.
    pub fn steps_done(&self) -> usize {
        self.step
    }

    /// Whether no weight is NaN or infinite, as after an update that overflows, which only the next step's loss would show.
    pub fn is_finite(&self) -> bool {
        self.params.are_finite()
    }

    /// Takes one optimiser step on a batch, which must not be empty.
    pub fn step(&mut self, batch: &Batch) -> Progress {
        let orders = match self.plan.objective {
            Objective::Masked => masked::orders(&self.plan, batch.len(), &mut self.masks),
            Objective::Supervised => Vec::new(),
        };
        let size = self.plan.recipe.part.filter(|_| self.plan.fuses(&self.device)).unwrap_or(batch.len());
        let starts: Vec<usize> = (0..batch.len()).step_by(size).collect();
        // Added in their order whatever is computed at a time, so that the sum has the same bits.
        let parts = starts.chunks(self.parts_at_once).flat_map(|starts| {
            let part = |&start: &usize| self.part(batch, &orders, start..batch.len().min(start + size));
            starts.par_iter().map(part).collect::<Vec<_>>()
        });
        let sum = parts.reduce(Part::plus);
        let Part { loss, accuracy, gradients } = sum.expect("pictures to learn from");
        let rate = self.plan.rate(self.step);
        self.params = self.adam.step(self.params.clone(), gradients, rate);
        self.step += 1;
        Progress { step: self.step, loss, accuracy }
    }

    /// The contribution of a range of the pictures of a step to its loss and gradients.
    fn part(&self, batch: &Batch, orders: &[Vec<usize>], pictures: Range<usize>) -> Part {
        let Self { plan, device, .. } = self;
        let share = pictures.len() as f32 / batch.len() as f32;
        let part = batch.part(plan, pictures.clone());
        let tracked = self.params.tracked();
        let (loss, right) = match plan.objective {
            Objective::Masked => {
                (masked::masked_loss(&tracked, plan, part.patches, &orders[pictures], device), None)
            }
            Objective::Supervised => {
                let (loss, right) = supervised::supervised_loss(&tracked, plan, part, device);
                (loss, Some(right))
            }
        };
        let loss = loss * share;
        let gradients = gradients(&tracked, &[&loss.backward()]);
        // Read last: a value is waited for until the GPU has done the work before it.
        let accuracy = right.map(|right| right.into_scalar::<f32>() * share);
        Part { loss: loss.inner().into_scalar::<f32>(), accuracy, gradients }
    }

    /// The encoder's weights under transformers' names.
    pub fn weights(&self) -> Arrays {
        let mut arrays = self.params.to_arrays();
        arrays.truncate(encoder::specs(&self.plan).len());
        arrays
    }
}

/// Pre-trains a backbone on scenes; returns its weights under transformers' names. `progress` is called after every step
/// and may stop early; the weights are then those so far.
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
