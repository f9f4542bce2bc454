//! Why a backbone cannot be opened, or cannot read an image.

use super::PATCH_LIMIT;
use super::config::ConfigError;
use super::weights::WeightsError;

/// Why a backbone cannot be opened, or cannot read an image.
#[derive(Debug, thiserror::Error)]
pub enum BackboneError {
    /// Its `config.json`.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// Its weights.
    #[error(transparent)]
    Weights(#[from] WeightsError),
    /// An image whose sides the patch does not divide.
    #[error(
        "an image of {height} x {width} pixels (height x width) cannot be cut into patches of {down} x {right}; \
         resize or crop it to multiples of the patch"
    )]
    Size {
        /// Height of the image.
        height: usize,
        /// Width of the image.
        width: usize,
        /// Height of a patch.
        down: usize,
        /// Width of a patch.
        right: usize,
    },
    /// An image of too many patches.
    #[error(
        "an image of {height} x {width} pixels has {patches} patches; at most {PATCH_LIMIT} are supported"
    )]
    Patches {
        /// Height of the image.
        height: usize,
        /// Width of the image.
        width: usize,
        /// Number of patches.
        patches: usize,
    },
    /// Numbers the device does not compute in.
    #[error("{device} does not multiply in {wanted}; it has {there}: use one of these, or another device")]
    Arithmetic {
        /// What was asked for.
        wanted: &'static str,
        /// What the device calls itself.
        device: String,
        /// What it has.
        there: String,
    },
    /// A layer the backbone does not have.
    #[error("layer {layer} asked for; the backbone has layers 1 to {layers}, and 0 for its embeddings")]
    Layer {
        /// The layer asked for.
        layer: usize,
        /// How many there are.
        layers: usize,
    },
}
