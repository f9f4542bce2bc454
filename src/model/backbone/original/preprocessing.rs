//! The preprocessing of an encoder: that of its project's evaluation, or of one model of timm, whose repositories on the Hub have
//! it in the `config.json` beside the weights.

use serde::Deserialize;
use serde_json::{Value, json};

use super::project::Scale;
use super::shapes::Encoder;
use super::{ImportOptions, OriginalError};
use crate::model::backbone::config::Config;
use crate::model::backbone::preprocess::Filter;

/// The preprocessing of a model's evaluation, under timm's names.
#[derive(Deserialize)]
pub(super) struct PretrainedCfg {
    /// Channels, height and width of its images.
    input_size: [usize; 3],
    /// Mean of red, green and blue, in 0 to 1.
    mean: [f64; 3],
    /// Their standard deviation.
    std: [f64; 3],
    /// The crop's share of the resized image's edge.
    crop_pct: f64,
    /// `squash`: both edges are resized, whatever the aspect ratio.
    #[serde(default)]
    crop_mode: Option<String>,
    interpolation: String,
}

impl PretrainedCfg {
    /// Whether its numbers can be used.
    pub fn is_valid(&self) -> bool {
        (0.1..=1.0).contains(&self.crop_pct) && self.std.iter().all(|std| *std > 1e-6)
    }

    /// Its crop mode, if it is neither the default, `center`, nor `squash`: `border` pads images, so that nothing is cut off.
    pub fn unknown_crop_mode(&self) -> Option<&str> {
        self.crop_mode.as_deref().filter(|mode| !["center", "squash"].contains(mode))
    }

    /// Height and width of its images.
    pub fn image(&self) -> [usize; 2] {
        let [_, height, width] = self.input_size;
        [height, width]
    }

    /// The filter of its resizing, if it is none of Pillow's: `random` draws one for every image of a training.
    pub fn unknown_filter(&self) -> Option<&str> {
        Some(&*self.interpolation).filter(|name| Filter::find(name).is_none())
    }

    /// The filter of its resizing, as Pillow's number.
    fn resample(&self) -> Option<usize> {
        Filter::ALL.iter().position(|filter| filter.name() == self.interpolation)
    }
}

impl Encoder<'_> {
    /// The contents of `preprocessor_config.json`: the preprocessing of the project's evaluation, or the model's own, as
    /// `published`.
    pub fn preprocessor(
        &self,
        options: &ImportOptions,
        config: &Config,
        published: Option<&PretrainedCfg>,
    ) -> Result<Value, OriginalError> {
        let own = || published.map(|cfg| (cfg.mean, cfg.std));
        let known = options.scale.or(self.project.scale).map(Scale::statistics).or_else(own);
        let (mean, std) = known
            .ok_or_else(|| OriginalError::Scale { path: self.path.to_owned(), project: self.project.name })?;
        let [down, right] = config.patch;
        let fits = |edge: &usize| edge.is_multiple_of(down) && edge.is_multiple_of(right);
        let edge = self.project.edge.filter(|edge| config.image[0].min(config.image[1]) > *edge);
        let [height, width] = edge.filter(fits).map_or(config.image, |edge| [edge; 2]);
        // The length to which an edge is resized before the crop leaves `edge` pixels of it.
        let resized = |edge: usize| match published {
            Some(cfg) => (edge as f64 / cfg.crop_pct).floor() as usize,
            // Up to 224 pixels all but CLIPs crop an eighth off the shorter edge; of larger images MAE and EVA-02 crop nothing.
            None if edge <= 224 && !self.prefix.ends_with("visual.") => edge * 256 / 224,
            None => edge,
        };
        // For non-square images, resizing the shorter edge may leave less than the crop along the other one.
        let oblong = height != width;
        let squashes = published.is_some_and(|cfg| cfg.crop_mode.as_deref() == Some("squash"));
        let size = match (squashes, oblong) {
            (true, _) => json!({"height": resized(height), "width": resized(width)}),
            (false, true) => json!({"height": height, "width": width}),
            (false, false) => json!({"shortest_edge": resized(height)}),
        };
        Ok(json!({
            "image_processor_type": "BitImageProcessor",
            "do_resize": true,
            "size": size,
            "resample": published.and_then(PretrainedCfg::resample).unwrap_or(self.project.resample),
            "do_center_crop": squashes || !oblong,
            "crop_size": {"height": height, "width": width},
            "do_rescale": true,
            "rescale_factor": 1.0 / 255.0,
            "do_normalize": true,
            "image_mean": mean,
            "image_std": std,
        }))
    }
}
