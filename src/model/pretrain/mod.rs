//! Pre-trains the demo's tiny backbones on [`scenes`](crate::model::data::scenes), endlessly fresh ones: one as a
//! masked autoencoder (He et al. 2022), one supervised (Dosovitskiy et al. 2021), the two extremes the paper compares.
//!
//! The encoder is a plain pre-norm ViT with the parameter names of transformers' ViT, so what is
//! trained here is opened like any other backbone, from the [`folder`] it is saved to.

mod encoder;
pub mod folder;
mod masked;
mod supervised;

use std::ops::ControlFlow;

use burn::tensor::Device;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::model::data::scenes::{self, SIDE, Scene};
use crate::model::io::array::Arrays;
use crate::model::probe::params::{Params, Spec};
use crate::model::train::optim::{AdamW, cosine};

/// Side of a patch in pixels: a 14 x 14 grid, the paper's 196 tokens.
pub const PATCH: usize = 8;
const GRID: usize = SIDE / PATCH;
/// N.
const TOKENS: usize = GRID * GRID;
/// Values of a patch, P.
const PIXELS: usize = 3 * PATCH * PATCH;

/// What the backbone is trained for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Objective {
    /// To fill in the patterns of three fifths of the patches.
    Masked,
    /// To tell the class from the CLS token, and from every patch token on the object.
    Supervised,
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
    /// Scenes a step.
    pub batch: usize,
    /// Largest learning rate, after a warm-up over the first twentieth.
    pub rate: f64,
    /// Seed of parameters, scenes and masks.
    pub seed: u64,
}

impl Plan {
    /// Attention heads of every layer, 32 channels each.
    pub fn heads(&self) -> usize {
        self.width / 32
    }

    /// Share of the distractors at a step: a supervised pre-training starts with the object alone,
    /// and has all of them from half of its steps on.
    fn clutter(&self, step: usize) -> f64 {
        match self.objective {
            Objective::Masked => 1.0,
            Objective::Supervised => (2.0 * step as f64 / self.steps as f64).min(1.0),
        }
    }

    fn rate(&self, step: usize) -> f64 {
        let warm_up = (self.steps / 20).max(1);
        cosine(self.rate, step, self.steps) * ((step + 1) as f64 / warm_up as f64).min(1.0)
    }
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

/// Pre-trains a backbone; the weights under transformers' names. `progress` may stop it early: the
/// weights are then as far as they came.
pub fn pretrain(
    plan: &Plan,
    device: &Device,
    progress: &mut dyn FnMut(Progress) -> ControlFlow<()>,
) -> Arrays {
    let mut specs = encoder::specs(plan);
    let kept = specs.len();
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
    let mut params = Params::from_arrays(specs, &values, device);
    let mut adam = AdamW::default();
    let mut rng = ChaCha8Rng::seed_from_u64(plan.seed ^ 0x006d_6173_6b73);
    for step in 0..plan.steps {
        let first = (step * plan.batch) as u64;
        let draw = |i| scenes::draw_with(plan.seed, first + i, plan.clutter(step));
        let scenes: Vec<Scene> = (0..plan.batch as u64).into_par_iter().map(draw).collect();
        let patches: Vec<f32> = scenes.par_iter().flat_map_iter(patchify).collect(); // [B, N, P]
        let tracked = params.tracked();
        let (loss, accuracy) = match plan.objective {
            Objective::Masked => (masked::masked_loss(&tracked, plan, patches, device, &mut rng), None),
            Objective::Supervised => {
                let (loss, right) = supervised::supervised_loss(&tracked, plan, patches, &scenes, device);
                (loss, Some(right))
            }
        };
        params = adam.step(params, &tracked, &[&loss.backward()], plan.rate(step));
        let loss = loss.inner().into_scalar::<f32>();
        if progress(Progress { step: step + 1, loss, accuracy }).is_break() {
            break;
        }
    }
    let mut arrays = params.to_arrays();
    arrays.truncate(kept);
    arrays
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

#[cfg(test)]
mod tests {
    use burn::tensor::{Tensor, TensorData};

    use super::*;
    use crate::model::backbone::Backbone;
    use crate::model::backbone::preprocess::Preprocessor;
    use crate::model::data::image::Photo;

    const PLAN: Plan = Plan {
        objective: Objective::Masked,
        width: 32,
        layers: 1,
        steps: 12,
        batch: 12,
        rate: 2e-3,
        seed: 1,
    };

    fn trained(plan: &Plan) -> (Arrays, Vec<f32>) {
        let mut losses = Vec::new();
        let arrays = pretrain(plan, &Device::flex(), &mut |progress| {
            losses.push(progress.loss);
            ControlFlow::Continue(())
        });
        assert!(arrays.keys().all(|name| !name.contains("decoder") && !name.contains("classifier")));
        (arrays, losses)
    }

    /// A backbone that was saved in float32 says of a scene what the encoder said of it.
    fn opens_as_it_was(plan: &Plan, weights: &Arrays) {
        let device = Device::flex();
        let folder = tempfile::tempdir().unwrap();
        folder::save(folder.path(), plan, weights, folder::Precision::Single).unwrap();
        let backbone = Backbone::open(folder.path(), &device).unwrap();
        let scene = scenes::draw(5, 7);
        let photo = Photo { name: "scene".into(), picture: scene.picture.clone() };
        let pixels = Preprocessor::open(folder.path()).unwrap().apply(&photo).unwrap();
        let opened = backbone.forward(&[pixels]).unwrap().remove(0);

        let params = Params::from_arrays(encoder::specs(plan), weights, &device);
        let patches = TensorData::new(patchify(&scene), [TOKENS, PIXELS]);
        let tokens = encoder::encode(&params, plan, Tensor::from_data(patches, &device), None, 1);
        let expected: Vec<f32> = tokens.into_data().try_to_vec().unwrap(); // [1 + N, d]
        let found = [opened.cls.unwrap(), opened.patches].concat();
        crate::close::assert_close("tokens", found, expected, 1e-4);
    }

    #[test]
    fn the_masked_loss_falls_and_the_backbone_opens() {
        let (weights, losses) = trained(&PLAN);
        assert!(losses[11] < 0.8 * losses[0], "{losses:?}");
        opens_as_it_was(&PLAN, &weights);
    }

    #[test]
    fn the_supervised_loss_falls_and_the_backbone_opens() {
        let plan = Plan { objective: Objective::Supervised, ..PLAN };
        let (weights, losses) = trained(&plan);
        assert!(losses[11] < losses[0] && losses.iter().all(|loss| loss.is_finite()), "{losses:?}");
        opens_as_it_was(&plan, &weights);
    }
}
