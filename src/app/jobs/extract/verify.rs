//! Verifies cached tokens: shards against their digests, always; images against theirs, if requested.

use std::ops::ControlFlow;

use rayon::prelude::*;

use super::{Event, ExtractError, Plan};
use crate::app::rate::RateMeter;
use crate::model::data::token_cache::{CacheScan, TokenKey};
use crate::model::data::{Dataset, Sample};
use crate::model::io::sha256;

/// Images read between two progress events.
const AT_ONCE: usize = 256;

impl Plan {
    /// Drops damaged shards and those of changed images from `stock`, and sends an event for each.
    pub(super) fn verify(
        &self,
        stock: &mut CacheScan,
        dataset: &Dataset,
        tell: &mut dyn FnMut(Event) -> ControlFlow<()>,
    ) -> Result<(), ExtractError> {
        let verified = stock.verify(&mut |read, total| tell(Event::Verifying { read, total }))?;
        if !verified.finished {
            return Err(self.stopped(stock));
        }
        if verified.adopted > 0 {
            let _ = tell(Event::Adopted { shards: verified.adopted }); // the next progress decides
        }
        for damage in stock.damage() {
            let _ = tell(Event::Damaged(damage));
        }
        if self.options.tokens.verify {
            let changed = self.changed(stock, dataset, tell)?;
            stock.forget(&changed);
        }
        Ok(())
    }

    /// The images that have changed since their tokens were extracted.
    fn changed(
        &self,
        stock: &CacheScan,
        dataset: &Dataset,
        tell: &mut dyn FnMut(Event) -> ControlFlow<()>,
    ) -> Result<Vec<usize>, ExtractError> {
        let known: Vec<usize> = (0..self.images).filter(|&image| stock.knows(image)).collect();
        if let images @ 1.. = stock.done() - known.len() {
            let _ = tell(Event::Unknown { images });
        }
        let (mut changed, pace, mut done) = (Vec::new(), RateMeter::new(known.len(), 0), 0);
        for part in known.chunks(AT_ONCE) {
            let is_changed =
                |image: &&usize| stock.changed(**image, digest_of(&dataset.samples[**image]).as_deref());
            changed.par_extend(part.par_iter().filter(is_changed).copied());
            done += part.len();
            if tell(Event::Compared(pace.at(done))).is_break() && done < known.len() {
                return Err(self.stopped(stock));
            }
        }
        let mut stops = false;
        for &sample in &changed {
            stops |= tell(Event::Changed { sample }).is_break();
        }
        if stops { Err(self.stopped(stock)) } else { Ok(changed) }
    }

    /// This plan with the tokens of `source`, an earlier state of the same dataset, if all images are what
    /// they were then, whatever their times say; nothing where one is another, which is told, or where it is not known.
    ///
    /// # Errors
    /// If it was stopped, or what is kept cannot be read.
    pub fn as_of(
        &self,
        source: &TokenKey,
        dataset: &Dataset,
        tell: &mut dyn FnMut(Event) -> ControlFlow<()>,
    ) -> Result<Option<Self>, ExtractError> {
        let then = Self { done: self.images, ..self.with_dataset(&source.dataset) };
        for own in &then.sources {
            let stock = CacheScan::open(&self.root, own, None)?;
            let alike = TokenKey { layer: own.layer.clone(), ..source.clone() } == *own;
            if !alike || stock.images() != self.images || stock.done() < self.images {
                return Ok(None);
            }
            let all_known = (0..self.images).all(|image| stock.knows(image));
            if !self.changed(&stock, dataset, tell)?.is_empty() || !all_known {
                return Ok(None);
            }
        }
        Ok(Some(then))
    }

    fn stopped(&self, stock: &CacheScan) -> ExtractError {
        ExtractError::Stopped { done: stock.done(), images: self.images }
    }
}

/// SHA-256 of an image's file or table row; none where it cannot be read.
fn digest_of(sample: &Sample) -> Option<String> {
    sample.source.bytes().ok().map(|bytes| sha256::of_bytes(&bytes))
}
