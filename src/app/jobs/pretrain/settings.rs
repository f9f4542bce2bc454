//! Settings of a pre-training: the flags of `ssmprobe pretrain`, as its folder's manifest records them.

use std::path::PathBuf;

use clap::Args;
use serde::{Deserialize, Serialize};

use crate::app::jobs::train::{BATCHES, COUNTS, SEEDS, is_rate, is_share};
use crate::app::jobs::user_error::{Usage, refuse};
use crate::app::value_parser::{fraction, number, whole_number};
use crate::model::backbone::preprocess::augment::Augmentation;
use crate::model::data::Split;
use crate::model::pretrain::photographs::Photographs;
use crate::model::pretrain::{Objective, Plan, Recipe};

/// Number of pictures per part of a step: their tokens fit in a core's cache.
pub(super) const PART: usize = 32;
/// Epsilon added to the variance of a patch's pixels, from -1 to 1, when target patches are normalised (He et al. 2022).
const PATCH_EPSILON: f32 = 1e-6;

/// Pictures, objective, sizes and hyperparameters of a pre-training. The docs of its fields are the help of the flags.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Args)]
#[serde(default)]
pub struct PretrainSettings {
    /// Images: a folder with a folder for each class, or a table of paths and labels.
    #[arg(long, value_name = "DIR|TABLE", required_unless_present = "resume")]
    pub data: Option<PathBuf>,
    /// Split to train on: train, val or test [default: train].
    #[arg(long, value_name = "SPLIT")]
    pub split: Split,
    /// Objective: masked or supervised [default: masked].
    #[arg(long)]
    pub objective: Objective,
    /// Side of the images in pixels, as the backbone reads them [default: 32].
    #[arg(long, value_name = "PIXELS", value_parser = whole_number(COUNTS))]
    pub size: usize,
    /// Side of a patch in pixels [default: 4].
    #[arg(long, value_name = "PIXELS", value_parser = whole_number(COUNTS))]
    pub patch: usize,
    /// Transformer layers [default: 6].
    #[arg(long, value_parser = whole_number(COUNTS))]
    pub layers: usize,
    /// Hidden size, a multiple of 32, the channels of an attention head [default: 128].
    #[arg(long, value_parser = whole_number(COUNTS))]
    pub width: usize,
    /// Passes over the images [default: 50].
    #[arg(long, value_parser = whole_number(COUNTS))]
    pub epochs: usize,
    /// Images in one step [default: 256].
    #[arg(long, value_parser = whole_number(BATCHES))]
    pub batch: usize,
    /// Learning rate of AdamW, times half a cosine to 0 over all steps and a linear rise during the warm-up [default: 0.001].
    #[arg(long, value_parser = number("above 0", is_rate))]
    pub rate: f64,
    /// Weight decay of AdamW [default: 0.05].
    #[arg(long, value_name = "DECAY", value_parser = fraction::<f64>)]
    pub weight_decay: f64,
    /// Epochs of the warm-up [default: a twentieth of --epochs].
    #[arg(long, value_name = "EPOCHS", value_parser = whole_number(COUNTS))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warm_up: Option<usize>,
    /// Share of the patches to hide from a masked autoencoder [default: 0.75].
    #[arg(long, value_name = "SHARE", value_parser = number("between 0 and 1", is_share))]
    pub mask_ratio: f64,
    /// Augmentation: none, shift (by up to an eighth, and mirrored) or crop (a fifth to all of the image, and
    /// mirrored) [default: shift].
    #[arg(long, value_name = "HOW")]
    pub augment: Augmentation,
    /// Seed of parameters, order, augmentation and masks [default: 0].
    #[arg(long, value_parser = whole_number(SEEDS))]
    pub seed: u64,
    /// Steps between two checkpoints [default: one epoch, or 10 minutes if that takes longer].
    #[arg(long, value_name = "STEPS", value_parser = whole_number(COUNTS))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checkpoint_every: Option<usize>,
    /// Where to compute: cpu, wgpu, cuda or auto [default: auto, or where it was started].
    #[arg(long)]
    pub device: String,
}

impl Default for PretrainSettings {
    fn default() -> Self {
        Self {
            data: None,
            split: Split::Train,
            objective: Objective::Masked,
            size: 32,
            patch: 4,
            layers: 6,
            width: 128,
            epochs: 50,
            batch: 256,
            rate: 1e-3,
            weight_decay: 0.05,
            warm_up: None,
            mask_ratio: 0.75,
            augment: Augmentation::Shift,
            seed: 0,
            checkpoint_every: None,
            device: "auto".to_owned(),
        }
    }
}

impl PretrainSettings {
    /// The plan of these settings for `images` images of `classes` classes.
    pub fn plan(&self, images: usize, classes: usize) -> Result<Plan, Usage> {
        let Self { size, patch, width, layers, epochs, objective, batch, .. } = *self;
        let require = |flag: &str, value: usize, holds: bool, expected: String| match holds {
            true => Ok(()),
            false => Err(Usage(format!("--{flag} {value}: expected {expected}"))),
        };
        let divides = size.is_multiple_of(patch);
        require("patch", patch, divides, format!("a divisor of --size {size}"))?;
        require("patch", patch, size > patch, format!("less than --size {size}: one patch has no order"))?;
        require("size", size, size <= 1024, "1024 pixels at most".into())?;
        let fits_heads = width.is_multiple_of(32) && width <= 4096;
        require("width", width, fits_heads, "a multiple of 32 up to 4096".into())?;
        require("layers", layers, layers <= 64, "1 to 64".into())?;
        if let Some(warm_up) = self.warm_up {
            require("warm-up", warm_up, warm_up < epochs, format!("less than --epochs {epochs}"))?;
        }
        if objective == Objective::Supervised && classes < 2 {
            refuse!(
                "--objective supervised: the images are of {classes} class, expected at least two; \
                 --objective masked needs none"
            );
        }
        let epoch_steps = Photographs::steps(images, batch);
        let recipe = Recipe {
            side: size,
            patch,
            classes,
            labels_tokens: false,
            mask_ratio: self.mask_ratio,
            flat: PATCH_EPSILON,
            weight_decay: self.weight_decay,
            warm_up: self.warm_up.map(|epochs| epochs * epoch_steps),
            part: Some(PART),
        };
        let Self { rate, seed, .. } = *self;
        Ok(Plan { objective, width, layers, steps: epochs * epoch_steps, batch, rate, seed, recipe })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_plan_counts_in_steps_what_is_set_in_epochs() {
        let settings = PretrainSettings {
            epochs: 4,
            batch: 10,
            warm_up: Some(2),
            weight_decay: 0.1,
            mask_ratio: 0.5,
            ..PretrainSettings::default()
        };
        let Plan { steps, batch, recipe, .. } = settings.plan(25, 2).unwrap();
        assert_eq!((steps, batch, recipe.warm_up), (4 * 3, 10, Some(2 * 3)));
        assert_eq!((recipe.weight_decay, recipe.mask_ratio, recipe.classes), (0.1, 0.5, 2));
        assert_eq!(PretrainSettings::default().plan(25, 2).unwrap().recipe.warm_up, None);
    }
}
