//! What one probe made of all images of a dataset: plain host data, beside [`trace`](crate::model::trace)
//! the other thing that pictures are made of. [`evaluator`] makes one.
//!
//! Every measure is a column with one number an image; an image that could not be read holds no
//! number. All summaries are pure functions of these columns.

pub mod answer;
pub mod evaluator;
mod file;
pub mod maps;
pub mod metrics;
pub mod orders;
pub mod regions;
pub mod removals;
pub mod similarity;
pub mod stability;
mod summary;
mod sums;
pub mod vectors;

use std::sync::Arc;

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

use self::file::Stored;
pub use self::file::{ENDING, FileError};
use self::regions::RegionSummary;
pub use self::summary::{ClassRow, Confusion, spearman};
use self::vectors::{KeptVectors, VectorKind};
use crate::model::explain::null_model::MeanNull;
use crate::model::grid::Grid;

/// The class of an image that a probe took for something the dataset does not know.
pub const OTHER: u32 = u32::MAX;
/// The column with the probability of the predicted class.
pub const CONFIDENCE: &str = "confidence";
/// Columns of the order test of the margin for the image's own class: z, p, and the share of what the best order would add.
pub const ORDER: [&str; 3] = ["order_z", "order_p", "order_headroom"];
/// The column with the probability of the image's own class.
pub const OWN: &str = "own_class_probability";

/// The images that were asked about.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EvalSet {
    /// The dataset's name.
    pub dataset: String,
    /// Which part of it.
    pub split: String,
    /// Names of the classes.
    pub classes: Vec<String>,
    /// Names of the images.
    pub images: Vec<String>,
    /// The class of every image.
    pub class: Vec<u32>,
}

/// What one probe made of them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(into = "Stored", try_from = "Stored")]
pub struct Evaluation {
    /// The images.
    pub asked: Arc<EvalSet>,
    /// Name of the probe's file.
    pub probe: String,
    /// Head id.
    pub head: String,
    /// What was changed in its reading; empty for nothing.
    pub change: String,
    /// Backbone id.
    pub backbone: String,
    /// How the tokens lie.
    pub grid: Grid,
    /// The predicted class of every image, or [`OTHER`]; of one that could not be read too.
    pub predicted: Vec<u32>,
    /// Columns by name: [`CONFIDENCE`], [`OWN`], then the diagnostics of heads with a plan, then [`ORDER`] of
    /// heads with an order test, then [removal curves](removals::COLUMNS) and [stability](stability::COLUMNS) where they were asked. What is not known is not a number.
    pub measures: IndexMap<&'static str, Vec<f32>>,
    /// 5th and 95th percentile that chance gives for a single image, by measure, where it says
    /// something.
    pub nulls: IndexMap<&'static str, (f64, f64)>,
    /// What chance gives for the mean over any number of images, by measure. Earlier programs did not keep it.
    pub mean_nulls: IndexMap<&'static str, MeanNull>,
    /// Where tokens came in the order, 0 the first and 1 the last: the mean over the images of every
    /// class. Absent where there is no single order.
    pub positions: Option<ClassMaps>,
    /// What tokens counted, times N: 1 is an even share. The mean over the images of every class.
    pub weights: Option<ClassMaps>,
    /// How it read the regions of the images, where some are known. Earlier programs did not ask.
    pub regions: Option<RegionSummary>,
    /// What is kept of every token of every image, by kind, or why it is not. Earlier programs kept none.
    pub vectors: IndexMap<VectorKind, KeptVectors>,
}

/// One map over the grid for every class.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClassMaps {
    /// `[C, N]` row-major; not a number where a class has no readable image.
    pub values: Vec<f32>,
    /// How many images each is the mean of.
    pub counts: Vec<u32>,
}

impl ClassMaps {
    /// The map of a class, `[N]`.
    pub fn of_class(&self, class: usize) -> &[f32] {
        let n = self.values.len() / self.counts.len().max(1);
        &self.values[class * n..][..n]
    }

    /// The mean over all images, `[N]`, and how many there are.
    pub fn all(&self) -> (Vec<f32>, u32) {
        let n = self.values.len() / self.counts.len().max(1);
        let total: u32 = self.counts.iter().sum();
        let mut sums = vec![0.0f64; n];
        for (class, &count) in self.counts.iter().enumerate().filter(|(_, count)| **count > 0) {
            let share = f64::from(count) / f64::from(total);
            sums.iter_mut().zip(self.of_class(class)).for_each(|(sum, v)| *sum += share * f64::from(*v));
        }
        (sums.into_iter().map(|v| v as f32).collect(), total)
    }
}

impl Evaluation {
    /// Number of images, readable or not.
    pub fn len(&self) -> usize {
        self.predicted.len()
    }

    /// Whether it asked about none.
    pub fn is_empty(&self) -> bool {
        self.predicted.is_empty()
    }

    /// A column by its name.
    pub fn values(&self, measure: &str) -> Option<&[f32]> {
        self.measures.get(measure).map(Vec::as_slice)
    }

    /// Whether an image could be read.
    pub fn readable(&self, image: usize) -> bool {
        self.measures.get(CONFIDENCE).and_then(|column| column.get(image)).is_some_and(|v| v.is_finite())
    }

    /// Whether an image was taken for what it is; absent where it could not be read.
    pub fn right(&self, image: usize) -> Option<bool> {
        self.readable(image).then(|| self.predicted[image] == self.asked.class[image])
    }

    /// Top-1 accuracy in percent, over the images that could be read.
    pub fn accuracy(&self) -> f64 {
        let answers: Vec<bool> = (0..self.len()).filter_map(|image| self.right(image)).collect();
        100.0 * answers.iter().filter(|right| **right).count() as f64 / answers.len().max(1) as f64
    }

    /// The name of the class an image was taken for.
    pub fn predicted_name(&self, image: usize) -> &str {
        self.asked.classes.get(self.predicted[image] as usize).map_or("another class", String::as_str)
    }
}

/// How far two probes differ on an image: the difference of the probabilities they give its own
/// class, 0 to 1. Not a number where either knows nothing.
pub fn disagreement(one: &Evaluation, other: &Evaluation, image: usize) -> f32 {
    let own = |evaluation: &Evaluation| {
        evaluation.values(OWN).and_then(|v| v.get(image).copied()).unwrap_or(f32::NAN)
    };
    (own(one) - own(other)).abs()
}
