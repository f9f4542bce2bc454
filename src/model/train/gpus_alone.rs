//! GPUs for tests that record steps.

use std::sync::{PoisonError, RwLockWriteGuard};

use crate::gpus::{Gpus, IN_USE, gpus_with};

/// The GPUs, locked for this test alone: while CUDA captures a graph, no other thread may synchronise.
pub(super) fn gpus_alone() -> Gpus<RwLockWriteGuard<'static, ()>> {
    gpus_with(IN_USE.write().unwrap_or_else(PoisonError::into_inner))
}
