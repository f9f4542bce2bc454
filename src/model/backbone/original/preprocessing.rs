//! The preprocessing of an encoder: that of its project's evaluation, or of one model of timm, whose repositories on the Hub have
//! it in the `config.json` beside the weights.

use std::path::Path;

use serde::Deserialize;
use serde_json::{Value, json};

use super::project::Scale;
use super::shapes::Encoder;
use super::{ImportOptions, OriginalError};
use crate::model::backbone::config::Config;
use crate::model::io::atomic_file;

/// Largest `config.json` read, in bytes.
const MAX_BYTES: u64 = 1 << 20;

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

#[derive(Deserialize)]
struct Published {
    pretrained_cfg: PretrainedCfg,
}

impl PretrainedCfg {
    /// That of the checkpoint at `path`, a file or a folder, of a model of images of `height` x `width`; `None` if no valid one is
    /// beside it.
    pub fn beside(path: &Path, [height, width]: [usize; 2]) -> Option<Self> {
        let folder = if path.is_dir() { path } else { path.parent()? };
        let text = atomic_file::read(&folder.join("config.json"), MAX_BYTES).ok()?;
        let Published { pretrained_cfg: own } = serde_json::from_slice(&text).ok()?;
        let valid = (0.1..=1.0).contains(&own.crop_pct) && own.std.iter().all(|std| *std > 1e-6);
        // One of another model may lie there.
        (valid && own.input_size == [3, height, width]).then_some(own)
    }

    /// The filter of its resizing, as Pillow's number, if it is a fixed one.
    fn resample(&self) -> Option<u8> {
        match self.interpolation.as_str() {
            "bilinear" => Some(2),
            "bicubic" => Some(3),
            _ => None,
        }
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
