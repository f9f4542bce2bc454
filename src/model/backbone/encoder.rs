//! What computes the tokens of a backbone: the seam between the folder on disk, its preprocessing and its order
//! of tokens, which are the same for all, and a network. A family says by [`Architecture`] which it is.

use std::sync::Arc;

use burn::tensor::{Device, Tensor};

use super::block::Reader;
use super::config::Config;
use super::weights::WeightsError;
use crate::model::device::FreeMemory;
use crate::model::grid::Grid;

/// A network that is made ready for images of one grid: from `pixels` `[B, 3, H, W]` to the tokens after each of
/// `layers`, `[B, T, d]` each, those before the patches first. The last argument says whether the final norm is
/// applied, where there is one.
pub type GridEncoder<'a> = Arc<dyn Fn(Tensor<4>, &[usize], bool) -> Vec<Tensor<3>> + Send + Sync + 'a>;

/// A frozen network with its weights on a device.
pub trait Encoder: Send + Sync {
    /// Itself for images of this grid, on the device of its weights.
    fn prepare(&self, grid: Grid, device: &Device) -> GridEncoder<'_>;

    /// Which tokens those after so many `layers` attended to, `[B, T, T]`, rows first, of `pixels` `[B, 3, H, W]`: the
    /// attention of every layer, heads averaged, and as much of the token itself, multiplied (rollout, Abnar and Zuidema
    /// 2020). `None` of a network without attention.
    fn rollout(&self, _pixels: Tensor<4>, _grid: Grid, _layers: usize) -> Option<Tensor<3>> {
        None
    }

    /// The tokens after each of `layers` of one image `[1, 3, H, W]` of this grid, where only the patches of each of `left` are
    /// read, each with its own position: `[B, T, d]` each, what stands before the patches first. All of `left` are equally
    /// long; `normed` as [`GridEncoder`] takes it.
    fn encode_subset(
        &self,
        pixels: Tensor<4>,
        grid: Grid,
        left: &[&[usize]],
        layers: &[usize],
        normed: bool,
    ) -> Vec<Tensor<3>>;

    /// How many images of this size fit in a GPU's memory in one forward pass, at least 1.
    fn images_at_once(&self, height: usize, width: usize, grid: Grid, memory: FreeMemory) -> usize;
}

/// Names of tensors and their shapes.
pub type Keys = Vec<(String, Vec<usize>)>;

/// An encoder, or what is wrong with its weights.
pub type ReadEncoder = Result<Box<dyn Encoder>, WeightsError>;

/// How the networks of a family are read.
#[derive(Clone, Copy, Debug)]
pub struct Architecture {
    /// Every key the encoder reads behind this prefix, with its shape.
    pub keys: fn(&Config, &str) -> Keys,
    /// The encoder of this configuration; its keys have been checked before.
    pub read: fn(&Config, &Reader) -> ReadEncoder,
}
