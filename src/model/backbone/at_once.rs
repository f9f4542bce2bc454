//! How many images go through a device together: as many as its memory is said to hold, and fewer once it ran out.

use std::sync::atomic::{AtomicUsize, Ordering};

use burn::tensor::Device;

use crate::model::io::catch_panic::guard;
use crate::model::io::failpoint;

/// What a device says when it has no room for a tensor: CUDA, Vulkan, and burn of either; and who then reads what was never made.
const NO_ROOM: [&str; 7] = [
    "out of device memory",
    "out of memory",
    "out-of-memory",
    "can't allocate",
    "couldn't map storage",
    "was never allocated",
    "holds no allocation",
];

/// The most images that a device was found to hold; nothing is known before it ran out of memory.
pub(super) struct AtOnce(AtomicUsize);

impl AtOnce {
    pub(super) fn new() -> Self {
        Self(AtomicUsize::new(usize::MAX))
    }

    /// How many, where it ran out of memory with more.
    pub(super) fn held(&self) -> Option<usize> {
        Some(self.0.load(Ordering::Relaxed)).filter(|most| *most != usize::MAX)
    }

    /// What `pass` makes of a batch; of its halves, one after the other, where a GPU has no room for all of it, and so for
    /// every batch from then on. A panic of any other kind, or of a single image, goes on.
    pub(super) fn run<T, U>(&self, batch: &[T], device: &Device, pass: &impl Fn(&[T]) -> Vec<U>) -> Vec<U> {
        let whole = || {
            failpoint::device_step(batch.len());
            pass(batch)
        };
        if *device == Device::flex() {
            return whole();
        }
        let most = self.0.load(Ordering::Relaxed);
        let said = match batch.len() > most {
            true => None,
            false => match guard(whole) {
                Ok(made) => return made,
                Err(said) => Some(said),
            },
        };
        if let Some(said) = said {
            let no_room = NO_ROOM.iter().any(|words| said.to_lowercase().contains(words));
            assert!(no_room && batch.len() > 1, "{said}");
            let _ = guard(|| device.memory_cleanup());
            self.0.fetch_min(batch.len().div_ceil(2), Ordering::Relaxed);
        }
        let size = batch.len().div_ceil(2);
        batch.chunks(size).flat_map(|half| self.run(half, device, pass)).collect()
    }
}
