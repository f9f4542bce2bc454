//! The interface of the networks that compute a backbone's tokens. Everything else, the folder on disk, preprocessing
//! and the order of tokens, is common to all. A family names its network by an [`Architecture`].

use std::sync::Arc;

use burn::tensor::{Device, Tensor};

use super::block::Reader;
use super::config::Config;
use super::weights::WeightsError;
use crate::model::device::FreeMemory;
use crate::model::grid::Grid;

/// A network prepared for images of one grid: maps `pixels` `[B, 3, H, W]` to the tokens after each of `layers`,
/// `[B, T, d]` each, CLS and registers before the patches. The last argument says whether the final norm is applied,
/// where there is one.
pub type GridEncoder<'a> = Arc<dyn Fn(Tensor<4>, &[usize], bool) -> Vec<Tensor<3>> + Send + Sync + 'a>;

/// A frozen network with its weights on a device.
pub trait Encoder: Send + Sync {
    /// Prepares the network for images of this grid; `device` is that of its weights.
    fn prepare(&self, grid: Grid, device: &Device) -> GridEncoder<'_>;

    /// Attention rollout (Abnar and Zuidema 2020) over the first `layers` layers, `[B, T, T]`, of `pixels` `[B, 3, H, W]`: the
    /// product of `(A + I) / 2` over the layers, A being the head-averaged attention; row t is the influence of every input
    /// token on token t. `None` for a network without attention.
    fn rollout(&self, _pixels: Tensor<4>, _grid: Grid, _layers: usize) -> Option<Tensor<3>> {
        None
    }

    /// The tokens after each of `layers`, `[B, T', d]` each, of one image `[1, 3, H, W]` of this grid, encoded once for every one
    /// of the B sets of patches in `kept`: patches outside the set are left out, the others keep their positions. All sets have
    /// one size; `normed` as in [`GridEncoder`].
    fn encode_subset(
        &self,
        pixels: Tensor<4>,
        grid: Grid,
        kept: &[&[usize]],
        layers: &[usize],
        normed: bool,
    ) -> Vec<Tensor<3>>;

    /// How many images of this size fit in a GPU's memory in one forward pass, at least 1.
    fn images_at_once(&self, height: usize, width: usize, grid: Grid, memory: FreeMemory) -> usize;
}

/// Names and shapes of tensors.
pub type Keys = Vec<(String, Vec<usize>)>;

/// An encoder, or why its weights cannot be used.
pub type ReadEncoder = Result<Box<dyn Encoder>, WeightsError>;

/// How the networks of an architecture are read.
#[derive(Clone, Copy, Debug)]
pub struct Architecture {
    /// Every tensor that the encoder reads, with this prefix before its name.
    pub keys: fn(&Config, &str) -> Keys,
    /// Reads the encoder of a configuration; its keys must have been checked.
    pub read: fn(&Config, &Reader) -> ReadEncoder,
}
