//! Accuracy and means over all images. A window shows them in every frame, so they are computed once.

use std::sync::OnceLock;

use super::Evaluation;
use crate::model::stats;

/// The accuracy and the mean of every measure, once they were asked for. A copy of an evaluation computes its own: its columns
/// may be changed.
#[derive(Debug, Default)]
pub struct Means(OnceLock<(f64, Vec<Option<f64>>)>);

impl Clone for Means {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl PartialEq for Means {
    /// They follow from the rest of the evaluation.
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Evaluation {
    /// Top-1 accuracy in percent, over the images that could be read.
    pub fn accuracy(&self) -> f64 {
        self.means().0
    }

    /// The mean of a measure over the images that have a value; `None` if there is none.
    pub fn mean(&self, measure: &str) -> Option<f64> {
        self.means().1[self.measures.get_index_of(measure)?]
    }

    fn means(&self) -> &(f64, Vec<Option<f64>>) {
        self.means.0.get_or_init(|| {
            let answers: Vec<bool> = (0..self.len()).filter_map(|image| self.is_correct(image)).collect();
            let right = answers.iter().filter(|right| **right).count();
            let mean = |values: &Vec<f32>| {
                stats::mean(values.iter().map(|v| f64::from(*v)).filter(|v| v.is_finite()))
            };
            (100.0 * right as f64 / answers.len().max(1) as f64, self.measures.values().map(mean).collect())
        })
    }
}
