//! Regions of an image whose place is known (parts of a bird, the object of a scene, a box), as the patches have them:
//! plain data between who reads annotations and who draws or counts.

use serde::{Deserialize, Serialize};

use crate::model::grid::Grid;
use crate::model::trace::Picture;

/// One of them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Region {
    /// Its place among those of its dataset.
    pub number: u32,
    /// What it is called.
    pub name: String,
    /// How much of every patch it covers, `[N]`, 0 to 1; of a point 1 of the patch that holds it.
    pub cover: Vec<f64>,
}

/// Those of one image.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Regions {
    /// By their numbers. A part that is not to be seen in the image is not among them.
    pub list: Vec<Region>,
    /// How much of every patch the object covers as a whole, `[N]`: what the AUC is of.
    pub object: Vec<f64>,
    /// Names of regions that are marked and cover nothing: their mask is empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub empty: Vec<String>,
    /// Names of those that lie wholly beyond the crop.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cropped: Vec<String>,
}

/// Which tokens lie in a region that covers so much of every patch: those covered by half or more, or the one covered most
/// where there is none; none of a region that covers nothing.
pub fn members(cover: &[f64]) -> Vec<bool> {
    let most = cover.iter().copied().fold(0.0, f64::max);
    let least = most.clamp(f64::MIN_POSITIVE, 0.5);
    cover.iter().map(|&c| c >= least).collect()
}

/// How much of every patch the object covers, `[N]`, from a mask as the model would see it (white is
/// the object). Patches are as large as the picture allows.
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
