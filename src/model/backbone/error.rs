//! Why a backbone cannot be opened, or cannot read an image.

use super::config::{ConfigError, PATCH_LIMIT};
use super::order::MaeOrder;
use super::weights::WeightsError;

/// Why a backbone cannot be opened, or cannot read an image.
#[expect(missing_docs, reason = "each message says what it is and what its fields are")]
#[derive(Debug, thiserror::Error)]
pub enum BackboneError {
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error(transparent)]
    Weights(#[from] WeightsError),
    #[error(
        "an image of {height} x {width} pixels (height x width) does not divide into patches of {down} x \
         {right}; resize or crop it to a multiple of the patch size (--size)"
    )]
    Size { height: usize, width: usize, down: usize, right: usize },
    #[error(
        "an image of {height} x {width} pixels has {patches} patches; at most {PATCH_LIMIT} are supported"
    )]
    Patches { height: usize, width: usize, patches: usize },
    #[error("{device} does not support {wanted}; it supports {there}: use one of these, or another device")]
    Arithmetic { wanted: &'static str, device: String, there: String },
    #[error("layer {layer} requested, but the backbone has layers 1 to {layers}, and 0 for its embeddings")]
    Layer { layer: usize, layers: usize },
    #[error(
        "{joined} concatenated layers requested (--blocks), ending at layer {layer}, but there are only {} \
         up to it, embeddings (0) included: request fewer, or a later layer (--layer)", layer + 1
    )]
    Blocks { joined: usize, layer: usize },
    #[error(
        "patch tokens in the order {order} requested (--mae-order), but the backbone is {family}, and only ViT-MAE has \
         them in another order than kept: leave it out, or request kept"
    )]
    Order { order: MaeOrder, family: &'static str },
    #[error("The tokens are the embeddings of the patches: no attention comes before them")]
    BeforeAttention,
}
