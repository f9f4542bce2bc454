//! Verifies cached tokens: shards against their digests, always; images against theirs, if requested.

use std::ops::ControlFlow;

use super::outage::{is_away, read_all};
use super::{Event, ExtractError, Plan};
use crate::app::rate::RateMeter;
use crate::model::data::Dataset;
use crate::model::data::token_cache::{CacheScan, TokenKey};
use crate::model::io::sha256;

/// Images compared with their digests between two progress events.
const COMPARED_AT_ONCE: usize = 256;

impl Plan {
    /// Drops damaged shards and those of changed images from `scan`, and sends an event for each.
    pub(super) fn verify(
        &self,
        scan: &mut CacheScan,
        dataset: &Dataset,
        on_event: &mut dyn FnMut(Event) -> ControlFlow<()>,
    ) -> Result<(), ExtractError> {
        let verified = scan.verify(&mut |read, total| on_event(Event::Verifying { read, total }))?;
        if !verified.finished {
            return Err(self.stopped(scan));
        }
        if verified.adopted > 0 {
            let _ = on_event(Event::Adopted { shards: verified.adopted }); // the next progress event decides
        }
        for damage in &scan.damage {
            let _ = on_event(Event::Damaged(damage));
        }
        if self.options.tokens.verify {
            let changed = self.changed(scan, dataset, on_event)?;
            scan.forget(&changed);
        }
        Ok(())
    }

    /// The images that have changed since their tokens were extracted; an error if one can no longer be read.
    fn changed(
        &self,
        scan: &CacheScan,
        dataset: &Dataset,
        on_event: &mut dyn FnMut(Event) -> ControlFlow<()>,
    ) -> Result<Vec<usize>, ExtractError> {
        let known: Vec<usize> = (0..self.images).filter(|&image| scan.knows(image)).collect();
        if let images @ 1.. = scan.done() - known.len() {
            let _ = on_event(Event::Unknown { images });
        }
        let (mut changed, meter, mut done) = (Vec::new(), RateMeter::new(known.len(), 0), 0);
        for part in known.chunks(COMPARED_AT_ONCE) {
            let compare = |&image: &usize| {
                let source = &dataset.samples[image].source; // a file, or a row of a table
                match source.bytes() {
                    Ok(bytes) => Ok(scan.changed(image, Some(&sha256::of_bytes(&bytes)))),
                    // Its disk may not answer: no reason to give up the tokens that it has.
                    Err(why) if scan.changed(image, None) => {
                        let (image, is_away) = (source.to_string(), is_away(source, &why));
                        Err(ExtractError::Vanished { image, why: why.to_string(), is_away })
                    }
                    Err(_) => Ok(false),
                }
            };
            let should_retry = |compared: &Result<bool, ExtractError>| {
                matches!(compared, Err(ExtractError::Vanished { is_away: true, .. }))
            };
            let compared = read_all(part, compare, should_retry);
            for (&image, compared) in part.iter().zip(compared) {
                changed.extend(compared?.then_some(image));
            }
            done += part.len();
            if on_event(Event::Compared(meter.at(done))).is_break() && done < known.len() {
                return Err(self.stopped(scan));
            }
        }
        let is_stopped = !changed.is_empty() && on_event(Event::Changed { samples: &changed }).is_break();
        if is_stopped { Err(self.stopped(scan)) } else { Ok(changed) }
    }

    /// This plan with the tokens cached under `source`, the key of an earlier state of the same dataset, if all
    /// images have the content they had then, whatever their modification times; `None` if one has changed, for which
    /// an event is sent, or if the earlier content of one is not on record.
    pub fn as_of(
        &self,
        source: &TokenKey,
        dataset: &Dataset,
        on_event: &mut dyn FnMut(Event) -> ControlFlow<()>,
    ) -> Result<Option<Self>, ExtractError> {
        let earlier = Self { done: self.images, bytes_missing: 0, ..self.with_dataset(&source.dataset) };
        for key in &earlier.sources {
            let scan = self.scan(key, None)?;
            let same_tokens = TokenKey { layer: key.layer.clone(), ..source.clone() } == *key;
            if !same_tokens || scan.images != self.images || scan.done() < self.images {
                return Ok(None);
            }
            let all_on_record = (0..self.images).all(|image| scan.knows(image));
            if !self.changed(&scan, dataset, on_event)?.is_empty() || !all_on_record {
                return Ok(None);
            }
        }
        Ok(Some(earlier))
    }

    /// The error of an extraction that was stopped with the shards of `scan` on disk.
    fn stopped(&self, scan: &CacheScan) -> ExtractError {
        ExtractError::Stopped { done: scan.done(), images: self.images }
    }
}
