//! Result of one image, as plain data; stored in a file when a dataset is evaluated in parts.

use serde::{Deserialize, Serialize};

use super::metrics::ImageMetrics;
use super::removals::Heights;
use super::vectors::ImageVectors;
use crate::model::explain::regions::RegionMeasures;
use crate::model::trace::OrderContrast;

/// Result of one image.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    pub(super) predicted: u32,
    pub(super) confidence: f32,
    pub(super) own: f32,
    /// Classes of the probe and their probabilities, best first.
    pub(super) top: Vec<(usize, f32)>,
    /// Every diagnostic, in the order of [`MEASURES`](crate::model::explain::diagnostics::MEASURES).
    pub(super) measures: Option<Vec<f64>>,
    /// Order test of the margin of its own class.
    pub(super) order: Option<Box<OrderContrast>>,
    /// Heights of the removal curves of its own class.
    pub(super) removals: Option<Heights>,
    pub(super) metrics: Option<Box<ImageMetrics>>,
    /// Evidence is for its own class.
    pub(super) regions: Option<Box<RegionMeasures>>,
    pub(super) maps: Maps,
}

/// Maps of one image, `[N]` each, and its vectors if they are stored; taken out once they are summed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Maps {
    pub(super) positions: Option<Vec<f64>>,
    pub(super) weights: Option<Vec<f64>>,
    pub(super) vectors: Option<ImageVectors>,
}
