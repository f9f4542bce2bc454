//! GPUs for tests that record steps, and heads and batches to train on them.

use std::sync::{PoisonError, RwLockWriteGuard};

use burn::tensor::{Device, Tensor, TensorData};

use super::HeadTrainer;
use super::batches::Labels;
use super::classifier::Model;
use crate::gpus::{Gpus, IN_USE, gpus_with};
use crate::model::grid::Grid;
use crate::model::probe::head::{Batch, Config, Dims, find};

/// Sizes of the heads.
pub(super) const DIMS: Dims = Dims { grid: Grid::new(2, 3), width: 8, classes: 4 };

/// The GPUs, locked for this test alone: while CUDA captures a graph, no other thread may synchronise.
pub(super) fn gpus_alone() -> Gpus<RwLockWriteGuard<'static, ()>> {
    gpus_with(IN_USE.write().unwrap_or_else(PoisonError::into_inner))
}

/// A head before its first step.
pub(super) fn trainer(id: &str, device: &Device) -> HeadTrainer {
    let model = Model::start(find(id).expect("a head"), &Config::default(), DIMS, 0, device);
    HeadTrainer::new(id, model.expect("a head's start"))
}

/// The batch of a step, of this many images.
pub(super) fn batch(step: u64, images: usize, device: &Device) -> (Batch, Labels) {
    let value = |at: usize| ((at * 37 + 11 * step as usize) % 101) as f32 / 50.0 - 1.0;
    let patches = TensorData::new((0..images * 48).map(value).collect(), [images, 6, 8]);
    let cls = TensorData::new((0..images * 8).map(value).collect(), [images, 8]);
    let image_seeds = (0..images as u64).map(|image| 10 * step + image).collect();
    let (patches, cls) = (Tensor::<3>::from_data(patches, device), Tensor::<2>::from_data(cls, device));
    let batch = Batch { patches, cls: Some(cls), grid: DIMS.grid, image_seeds, training: false };
    let classes: Vec<usize> = (0..images).map(|image| (image + step as usize) % 4).collect();
    (batch.tracked(), Labels::new(&classes, device))
}
