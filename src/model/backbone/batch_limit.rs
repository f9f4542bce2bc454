//! Batch sizes under memory pressure: as many images as the device's memory is estimated to hold, and fewer once it ran out.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};

use burn::tensor::Device;

use crate::model::io::catch_panic::catch_foreign;
use crate::model::io::failpoint;

/// Parts of the messages of CUDA, Vulkan and burn on running out of memory; the last two appear when the missing tensor is read.
const OUT_OF_MEMORY: [&str; 7] = [
    "out of device memory",
    "out of memory",
    "out-of-memory",
    "can't allocate",
    "couldn't map storage",
    "was never allocated",
    "holds no allocation",
];

/// Passes submitted after the one whose result is being waited for: while the host copies the result of one, the device computes
/// the next and has another one queued.
const PASSES_AHEAD: usize = 2;

/// The most images per pass; `usize::MAX` until the device has run out of memory.
pub(super) struct BatchLimit(AtomicUsize);

impl BatchLimit {
    pub(super) fn new() -> Self {
        Self(AtomicUsize::new(usize::MAX))
    }

    /// The limit; `None` if the device has not run out of memory.
    pub(super) fn get(&self) -> Option<usize> {
        Some(self.0.load(Ordering::Relaxed)).filter(|most| *most != usize::MAX)
    }

    /// The results of `pass` for a batch. If a GPU runs out of memory, the batch is halved recursively, and the limit is lowered
    /// for all later batches. Any other panic, or one on a single image, is propagated.
    pub(super) fn run<'a, T, U>(
        &self,
        batch: &'a [T],
        device: &Device,
        pass: &impl Fn(&'a [T]) -> Vec<U>,
    ) -> Vec<U> {
        let whole = || {
            failpoint::device_step(batch.len());
            pass(batch)
        };
        if *device == Device::flex() {
            return whole();
        }
        if batch.len() <= self.0.load(Ordering::Relaxed) {
            match catch_foreign(whole) {
                Ok(results) => return results,
                Err(message) => self.lower(batch.len(), device, &message),
            }
        }
        let size = batch.len().div_ceil(2);
        batch.chunks(size).flat_map(|half| self.run(half, device, pass)).collect()
    }

    /// The results for a batch that a GPU processes in passes of at most `size` images. `submit` enqueues a pass and returns a
    /// function that waits for its results, which is called once the next [`PASSES_AHEAD`] passes have been submitted, or
    /// immediately if the device has run out of memory before.
    pub(super) fn run_ahead<'a, T, U, A: FnOnce() -> Vec<U>>(
        &self,
        batch: &'a [T],
        size: usize,
        device: &Device,
        submit: &impl Fn(&'a [T]) -> A,
    ) -> Vec<U> {
        let (mut rest, mut submitted) = (batch, VecDeque::new());
        let mut results = Vec::with_capacity(batch.len());
        loop {
            while !rest.is_empty() && submitted.len() <= self.get().map_or(PASSES_AHEAD, |_| 0) {
                let most = size.min(self.0.load(Ordering::Relaxed));
                let (pass, after) = rest.split_at(most.min(rest.len()));
                rest = after;
                let step = || {
                    failpoint::device_step(pass.len());
                    submit(pass)
                };
                submitted.push_back((pass, catch_foreign(step)));
            }
            let Some((pass, first)) = submitted.pop_front() else { return results };
            let mut finished = vec![(pass, first.and_then(catch_foreign))];
            if finished[0].1.is_err() {
                // The other passes are finished first, so that they hold no memory on the device when this one is repeated.
                finished.extend(submitted.drain(..).map(|(pass, next)| (pass, next.and_then(catch_foreign))));
            }
            for (pass, result) in finished {
                results.extend(result.unwrap_or_else(|message| {
                    self.lower(pass.len(), device, &message);
                    self.run(pass, device, &|part| submit(part)())
                }));
            }
        }
    }

    /// Lowers the limit to half of `images` after a pass of that many panicked with `message`.
    ///
    /// # Panics
    /// With the same message, if it does not say that memory ran out, or with a single image.
    fn lower(&self, images: usize, device: &Device, message: &str) {
        let no_room = OUT_OF_MEMORY.iter().any(|words| message.to_lowercase().contains(words));
        assert!(no_room && images > 1, "{message}");
        let _ = catch_foreign(|| device.memory_cleanup());
        self.0.fetch_min(images.div_ceil(2), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};

    use super::*;

    #[test]
    fn passes_are_submitted_ahead_and_repeated_where_memory_ran_out() {
        let (limit, batch) = (BatchLimit::new(), [0, 1, 2, 3, 4, 5, 6, 7, 8]);
        let (steps, refused) = (&RefCell::new(String::new()), &Cell::new(false));
        let made = limit.run_ahead(&batch, 2, &Device::flex(), &|pass| {
            *steps.borrow_mut() += &format!("ask {} ", pass[0]);
            move || {
                *steps.borrow_mut() += &format!("take {} ", pass[0]);
                assert!(pass[0] != 4 || refused.replace(true), "out of memory");
                pass.to_vec()
            }
        });
        assert_eq!(made, batch);
        assert_eq!(
            *steps.borrow(),
            "ask 0 ask 2 ask 4 take 0 ask 6 take 2 ask 8 take 4 take 6 take 8 ask 4 take 4 "
        );
        assert_eq!(limit.get(), Some(1));
        // With fewer images another panic would come again.
        let limit = BatchLimit::new();
        let lost = |_: &[i32]| || -> Vec<i32> { panic!("the device is lost") };
        let said = catch_foreign(|| limit.run_ahead(&batch, 2, &Device::flex(), &lost)).unwrap_err();
        assert!(said.contains("the device is lost") && limit.get().is_none(), "{said}");
    }
}
