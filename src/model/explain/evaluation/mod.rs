//! The evaluation of one probe on all images of a dataset: plain host data that figures are drawn from, as they are from a
//! [`trace`](crate::model::trace) of one image. The [`evaluator`] computes it.
//!
//! Every measure is a column with one value per image, NaN for an image that could not be read. All
//! summaries are pure functions of these columns.

pub mod answer;
pub mod digits;
pub mod evaluator;
mod file;
mod means;
pub mod metrics;
pub mod orders;
pub mod regions;
pub mod removals;
pub mod similarity;
pub mod stability;
mod summary;
pub mod vectors;

use std::sync::Arc;

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

pub use self::file::{ENDING, FileError};
pub use self::means::Means;
use self::regions::RegionSummary;
pub use self::summary::{ClassRow, Confusion, spearman};
use self::vectors::{KeptVectors, VectorKind};
use crate::model::explain::diagnostics::MEASURES;
use crate::model::explain::null_model::MeanNull;
use crate::model::grid::Grid;
use crate::model::io::Format;

/// Predicted class of an image if it is none of the dataset's.
pub const OTHER: u32 = u32::MAX;
/// Column of the probability of the predicted class.
pub const CONFIDENCE: &str = "confidence";
/// Columns of the order test of the own class's margin: z, p, and headroom, the share of the best order's gain over the mean.
pub const ORDER: [&str; 3] = ["order_z", "order_p", "order_headroom"];
/// Column of the probability of the image's own class.
pub const OWN: &str = "own_class_probability";

/// The images that a probe is evaluated on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct EvalSet {
    /// Name of the dataset.
    pub dataset: String,
    /// Split of the dataset.
    pub split: String,
    /// Names of the classes.
    pub classes: Vec<String>,
    /// Names of the images.
    pub images: Vec<String>,
    /// Class of every image, an index into `classes`.
    pub class: Vec<u32>,
}

/// Results of one probe.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(remote = "Self")]
pub struct Evaluation {
    /// Version of the file format; absent in files of earlier versions.
    #[serde(default)]
    pub format: Format<1>,
    /// The images.
    #[serde(flatten)]
    pub set: Arc<EvalSet>,
    /// Name of the probe's file.
    pub probe: String,
    /// Head id.
    pub head: String,
    /// The intervention in its reading, in words; empty for none.
    pub change: String,
    /// Backbone id.
    pub backbone: String,
    /// Patch grid.
    pub grid: Grid,
    /// Predicted class of every image; [`OTHER`] for a class outside the dataset and for an image that could not be read.
    pub predicted: Vec<u32>,
    /// Columns by name: [`CONFIDENCE`], [`OWN`], then the diagnostics of heads with a plan, [`ORDER`] of heads with an order
    /// test, and, if they were requested, [removal curves](removals::COLUMNS) and [stability](stability::COLUMNS). Unknown
    /// values are NaN.
    #[serde(deserialize_with = "file::columns")]
    pub measures: IndexMap<&'static str, Vec<f32>>,
    /// 5th and 95th percentile under the null for a single image, by measure, for those with a null.
    #[serde(deserialize_with = "file::by_measure")]
    pub nulls: IndexMap<&'static str, (f64, f64)>,
    /// Null distribution of the mean over any number of images, by measure. Empty in files of earlier versions.
    #[serde(default, deserialize_with = "file::by_measure", skip_serializing_if = "IndexMap::is_empty")]
    pub mean_nulls: IndexMap<&'static str, MeanNull>,
    /// Expected position of the tokens, from 0 (first) to 1 (last): the mean over the images of every
    /// class. `None` if there is no single order, or tokens are shuffled.
    pub positions: Option<ClassMaps>,
    /// Weight of the tokens times N (1 as in GAP): the mean over the images of every class. `None` if
    /// there is no single weight, or tokens are shuffled.
    pub weights: Option<ClassMaps>,
    /// Region measures, if regions of some image are known. Absent in files of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub regions: Option<RegionSummary>,
    /// Values of every token of every image, by kind, or why they are not stored. Empty in files of earlier versions.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub vectors: IndexMap<VectorKind, KeptVectors>,
    /// What made it, in files of `ssmprobe eval`. Absent in those of earlier versions and of the window.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provenance: Option<Provenance>,
    /// Accuracy and means of the columns.
    #[serde(skip)]
    pub means: Means,
}

/// What produced the results, so that a later run can check whether the same files are at hand.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Provenance {
    /// Name and version of the program.
    pub program: String,
    /// SHA-256 of the probe's file.
    pub probe_file: String,
    /// SHA-256 of the backbone's weights.
    pub weights: String,
    /// What its `config.json` adds to them, if that is known.
    pub config: Option<String>,
    /// The preprocessing from image file to pixels, as the preprocessor's key states it.
    pub preprocessing: String,
    /// The layer, the order of MAE's tokens, and the precision of the backbone's products, as runs name them.
    pub layer: String,
    /// SHA-256 of the digests of the images' files, if all are known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image_files: Option<String>,
    /// Seed of random draws.
    pub seed: u64,
}

impl Provenance {
    /// The provenance of results of this program, with the other fields empty.
    pub fn new() -> Self {
        Self { program: concat!("ssmprobe ", env!("CARGO_PKG_VERSION")).to_owned(), ..Self::default() }
    }
}

/// One map over the grid for every class.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ClassMaps {
    /// `[C, N]` row-major; NaN for a class without a readable image.
    #[serde(deserialize_with = "file::numbers")]
    pub values: Vec<f32>,
    /// Number of images that the map of each class is the mean of.
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

/// Sums of maps by class, and their number.
struct ClassSums {
    /// `[C, N]`.
    sums: Vec<f64>,
    counts: Vec<u32>,
}

impl ClassSums {
    fn new(classes: usize, n: usize) -> Self {
        Self { sums: vec![0.0; classes * n], counts: vec![0; classes] }
    }

    fn add(&mut self, class: usize, map: Option<&[f64]>) {
        let Some(map) = map else { return };
        self.counts[class] += 1;
        self.sums[class * map.len()..].iter_mut().zip(map).for_each(|(sum, v)| *sum += v);
    }

    /// The mean map of every class; `None` if there was no map at all.
    fn mean(self) -> Option<ClassMaps> {
        let n = self.sums.len() / self.counts.len().max(1);
        let count = |at: usize| f64::from(self.counts[at / n.max(1)]);
        // 0 / 0 is NaN for a class without images.
        let values = self.sums.iter().enumerate().map(|(at, sum)| (sum / count(at)) as f32).collect();
        self.counts.iter().any(|count| *count > 0).then_some(ClassMaps { values, counts: self.counts })
    }
}

impl Evaluation {
    /// Number of images, readable or not.
    pub fn len(&self) -> usize {
        self.predicted.len()
    }

    /// Whether there are no images.
    pub fn is_empty(&self) -> bool {
        self.predicted.is_empty()
    }

    /// The column of a measure by its name.
    pub fn values(&self, measure: &str) -> Option<&[f32]> {
        self.measures.get(measure).map(Vec::as_slice)
    }

    /// 5th and 95th percentile under the null for the mean of a measure over `images` images; `None` where the file has none.
    pub fn mean_null(&self, measure: &str, images: usize) -> Option<(f64, f64)> {
        let known = MEASURES.iter().find(|known| known.name == measure)?;
        Some(known.within(self.mean_nulls.get(measure)?.band(images)))
    }

    /// Whether an image could be read.
    pub fn readable(&self, image: usize) -> bool {
        self.measures.get(CONFIDENCE).and_then(|column| column.get(image)).is_some_and(|v| v.is_finite())
    }

    /// Whether the predicted class of an image is the true one; `None` if it could not be read.
    pub fn is_correct(&self, image: usize) -> Option<bool> {
        self.readable(image).then(|| self.predicted[image] == self.set.class[image])
    }

    /// The name of the predicted class of an image; empty if it could not be read.
    pub fn predicted_name(&self, image: usize) -> &str {
        if !self.readable(image) {
            return "";
        }
        self.set.classes.get(self.predicted[image] as usize).map_or("another class", String::as_str)
    }
}

/// Absolute difference of the probabilities that two probes give the own class of an image, 0 to 1. NaN if
/// either has none.
pub fn disagreement(one: &Evaluation, other: &Evaluation, image: usize) -> f32 {
    let own = |evaluation: &Evaluation| {
        evaluation.values(OWN).and_then(|v| v.get(image).copied()).unwrap_or(f32::NAN)
    };
    (own(one) - own(other)).abs()
}
