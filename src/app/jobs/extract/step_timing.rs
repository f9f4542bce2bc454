//! Measures how long the backbone takes per image, on a few images of the dataset.

use std::time::{Duration, Instant};

use burn::tensor::Device;
use rayon::prelude::*;

use super::flow::prepare;
use super::{ExtractError, Plan};
use crate::model::backbone::preprocess::Pixels;
use crate::model::data::Sample;
use crate::model::ops::cpu::on_cpu;

/// Maximum number of images to measure on.
pub const TRIED: usize = 8;

impl Plan {
    /// Mean time per image, decoding included, over the readable ones of `samples`, after a warm-up forward pass.
    /// `None` if none can be read.
    pub fn time(&self, samples: &[Sample], device: &Device) -> Result<Option<Duration>, ExtractError> {
        let begun = Instant::now();
        let pixels = samples.par_iter().filter_map(|sample| prepare(sample, &self.preprocessor).ok());
        let pixels: Vec<Pixels> = pixels.collect();
        let decoding = begun.elapsed();
        if pixels.is_empty() {
            return Ok(None);
        }
        let reader = self.open(device)?;
        // A GPU tunes its kernels for every size of a batch.
        let warm_up = if on_cpu(device) { 1 } else { pixels.len() };
        reader.forward(&pixels[..warm_up])?;
        let begun = Instant::now();
        reader.forward(&pixels)?;
        // An extraction decodes concurrently with the backbone: the slower of the two decides.
        Ok(Some(begun.elapsed().max(decoding) / pixels.len() as u32))
    }
}
