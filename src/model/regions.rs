//! Annotated regions of an image (parts of a bird, the object of a scene, a box), as fractions of patches: plain data
//! between the readers of annotations and those that draw or measure.

use serde::{Deserialize, Serialize};

use crate::model::grid::Grid;
use crate::model::picture::Picture;

/// An annotated region.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Region {
    /// Its number in its dataset.
    pub number: u32,
    /// Its name.
    pub name: String,
    /// The fraction of every patch that it covers, `[N]`, 0 to 1; for a point, 1 for the patch that holds it.
    pub cover: Vec<f64>,
}

/// The annotated regions of one image.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Regions {
    /// In the order of their numbers, without parts that are not visible in the image.
    pub list: Vec<Region>,
    /// The fraction of every patch that the whole object covers, `[N]`: the ground truth of the AUC.
    pub object: Vec<f64>,
    /// Names of annotated regions whose mask is empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub empty: Vec<String>,
    /// Names of regions that lie entirely outside the crop.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cropped: Vec<String>,
    /// Names of boxes and parts that reach beyond the image itself.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub beyond: Vec<String>,
}

/// Which tokens belong to a region, from the fraction of every patch that it covers: those covered by half or more; if there
/// are none, those that are covered most; none if the region covers nothing.
pub fn members(cover: &[f64]) -> Vec<bool> {
    let most = cover.iter().copied().fold(0.0, f64::max);
    let least = most.clamp(f64::MIN_POSITIVE, 0.5);
    cover.iter().map(|&c| c >= least).collect()
}

/// The fraction of every patch that the object covers, `[N]`, from a mask as the model would see it (white is
/// the object). Rows and columns of pixels that make no whole patch are ignored.
pub fn cover(mask: &Picture, grid: Grid) -> Vec<f64> {
    let (height, width) = (mask.height / grid.rows.max(1), mask.width / grid.cols.max(1));
    let patch = |i: usize| {
        let (top, left) = (i / grid.cols * height, i % grid.cols * width);
        let rows = (top..top + height).map(|y| &mask.rgb[3 * (y * mask.width + left)..][..3 * width]);
        let sum: f64 = rows.flatten().map(|&v| f64::from(v) / 255.0).sum();
        sum / (3 * height * width).max(1) as f64
    };
    (0..grid.len()).map(patch).collect()
}
