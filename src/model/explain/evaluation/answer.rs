//! What one image gave, as plain data, which goes into a file where images are asked about in parts.

use serde::{Deserialize, Serialize};

use super::metrics::ImageMetrics;
use super::removals::Heights;
use super::vectors::ImageVectors;
use crate::model::explain::regions::RegionMeasures;
use crate::model::trace::OrderContrast;

/// What one image gave.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    pub(super) predicted: u32,
    pub(super) confidence: f32,
    pub(super) own: f32,
    /// Classes of the probe and their probabilities, best first.
    pub(super) top: Vec<(usize, f32)>,
    /// Every diagnostic, in the order of [`MEASURES`](crate::model::explain::diagnostics::MEASURES).
    pub(super) measures: Option<Vec<f64>>,
    /// Of the margin of its own class.
    pub(super) order: Option<Box<OrderContrast>>,
    /// Of its own class.
    pub(super) removals: Option<Heights>,
    pub(super) metrics: Option<Box<ImageMetrics>>,
    /// Evidence is for its own class.
    pub(super) regions: Option<Box<RegionMeasures>>,
    pub(super) maps: Maps,
}

/// Maps of one image, `[N]` each, and its vectors where they are kept; gone once they are summed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Maps {
    pub(super) positions: Option<Vec<f64>>,
    pub(super) weights: Option<Vec<f64>>,
    pub(super) vectors: Option<ImageVectors>,
}
