//! GPUs for tests in which steps are recorded.

use std::sync::{PoisonError, RwLockWriteGuard};

use crate::gpus::{Gpus, IN_USE, gpus_with};

/// Of this test alone: while CUDA records, it bears no wait of another thread, whatever that waits for.
pub(super) fn gpus_alone() -> Gpus<RwLockWriteGuard<'static, ()>> {
    gpus_with(IN_USE.write().unwrap_or_else(PoisonError::into_inner))
}
