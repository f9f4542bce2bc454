//! How many images go through a device together: as many as its memory is said to hold, and fewer once it ran out.

use std::collections::VecDeque;
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

/// Passes that a device is asked for before the answer to the one ahead of them is waited for: while the host copies what came of
/// one, the device computes the next and has the one after that.
const AHEAD: usize = 2;

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
            match guard(whole) {
                Ok(made) => return made,
                Err(said) => self.ran_out(batch.len(), device, &said),
            }
        }
        let size = batch.len().div_ceil(2);
        batch.chunks(size).flat_map(|half| self.run(half, device, pass)).collect()
    }

    /// The same of a batch that a GPU reads in passes of `size` images at most. `ask` leaves a pass to the device and gives what
    /// waits for it, which is called only when the next [`AHEAD`] have been left to it too; at once where room was short before.
    pub(super) fn run_ahead<'a, T, U, A: FnOnce() -> Vec<U>>(
        &self,
        batch: &'a [T],
        size: usize,
        device: &Device,
        ask: &impl Fn(&'a [T]) -> A,
    ) -> Vec<U> {
        let (mut left, mut asked, mut made) = (batch, VecDeque::new(), Vec::with_capacity(batch.len()));
        loop {
            while !left.is_empty() && asked.len() <= self.held().map_or(AHEAD, |_| 0) {
                let most = size.min(self.0.load(Ordering::Relaxed));
                let (pass, rest) = left.split_at(most.min(left.len()));
                left = rest;
                let step = || {
                    failpoint::device_step(pass.len());
                    ask(pass)
                };
                asked.push_back((pass, guard(step)));
            }
            let Some((pass, first)) = asked.pop_front() else { return made };
            let mut answers = vec![(pass, first.and_then(guard))];
            if answers[0].1.is_err() {
                // Nothing of the others may lie on the device when it is asked again, nor be copied when nobody waits for it.
                answers.extend(asked.drain(..).map(|(pass, next)| (pass, next.and_then(guard))));
            }
            for (pass, answer) in answers {
                made.extend(answer.unwrap_or_else(|said| {
                    self.ran_out(pass.len(), device, &said);
                    self.run(pass, device, &|part| ask(part)())
                }));
            }
        }
    }

    /// Has fewer images than these go through the device from now on, which `said` that it has no room for them.
    fn ran_out(&self, images: usize, device: &Device, said: &str) {
        let no_room = NO_ROOM.iter().any(|words| said.to_lowercase().contains(words));
        assert!(no_room && images > 1, "{said}");
        let _ = guard(|| device.memory_cleanup());
        self.0.fetch_min(images.div_ceil(2), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};

    use super::*;

    #[test]
    fn passes_are_asked_for_ahead_and_one_without_room_again() {
        let (at_once, batch) = (AtOnce::new(), [0, 1, 2, 3, 4, 5, 6, 7, 8]);
        let (steps, refused) = (&RefCell::new(String::new()), &Cell::new(false));
        let made = at_once.run_ahead(&batch, 2, &Device::flex(), &|pass| {
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
        assert_eq!(at_once.held(), Some(1));
    }
}
