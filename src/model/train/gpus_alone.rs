//! GPUs for tests that record steps, and heads to train on them.

use std::sync::{PoisonError, RwLockWriteGuard};

use burn::tensor::Device;

use super::HeadTrainer;
use super::classifier::Model;
use crate::gpus::{Gpus, IN_USE, gpus_with};
use crate::model::grid::Grid;
use crate::model::probe::head::{Config, Dims, find};

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
