//! Measuring how stable one image's order is: a forward pass of every changed picture, the order of
//! each, and the orders of probes that differ in their seed alone.

use std::sync::Arc;

use super::compute::{Compute, of_file};
use super::event_sender::{JobExit, JobReporter, failed, go_on};
use crate::app::jobs::stability::{StabilityAnswer, StabilityRequest};
use crate::app::jobs::{Cancel, Event, Unit};
use crate::app::user_error::UserError;
use crate::model::backbone::preprocess::Pixels;
use crate::model::explain::stability::perturb::{Perturbation, kinds};
use crate::model::explain::stability::{Measurement, Stability};
use crate::model::tokens::Tokens;

/// Pictures in one forward pass.
const BATCH: usize = 8;

impl Compute {
    /// Measures it, and tells.
    pub(super) fn stability(
        &mut self,
        clock: &JobReporter<'_>,
        ask: &StabilityRequest,
        cancel: &Cancel,
    ) -> Result<(), JobExit> {
        let result = match self.steadiness(clock, ask, cancel) {
            Ok(stability) => Ok(Arc::new(stability)),
            Err(JobExit::Failed(fault)) => Err(fault),
            Err(JobExit::Cancelled) => return Err(JobExit::Cancelled),
        };
        let answer = StabilityAnswer { subject: ask.subject, image: ask.image, result };
        clock.outbox.tell(Event::Steadied { job: ask.job, answer });
        Ok(())
    }

    fn steadiness(
        &mut self,
        clock: &JobReporter<'_>,
        ask: &StabilityRequest,
        cancel: &Cancel,
    ) -> Result<Stability, JobExit> {
        let change = ask.subject.change;
        let loaded = self.probes.get(&ask.subject.probe);
        let loaded = loaded.ok_or_else(|| UserError::new("The probe is not open").remedy("Open it again"))?;
        let name = loaded.path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let probe = loaded.probe.clone();
        let preprocessor = self.opened(ask.subject.backbone)?.preprocessor.clone();
        let photo = (self.world.photo)(&ask.place).map_err(|error| of_file(&ask.place.path, error))?;
        let seen = preprocessor.picture(&photo).map_err(failed)?;
        let kinds = kinds(ask.seed);
        let changes: Vec<Perturbation> =
            kinds.iter().flat_map(|(_, changes)| changes.iter().copied()).collect();
        let whole = std::iter::once(preprocessor.pixels(&seen));
        let pixels: Vec<Pixels> =
            whole.chain(changes.iter().map(|change| preprocessor.pixels(&change.picture(&seen)))).collect();
        let mut tokens: Vec<Tokens> = Vec::with_capacity(pixels.len());
        for batch in pixels.chunks(BATCH) {
            let total = Some(pixels.len() as u64);
            clock.progress("Reading changed pictures", tokens.len() as u64, total, Unit::Files);
            while self.serve(false) {}
            go_on(cancel)?;
            let open = self.opened(ask.subject.backbone)?;
            let read = open.model.forward_layers(batch, &[open.layer], true).map_err(failed)?;
            tokens.extend(read.into_iter().flatten());
        }
        // Open probes that differ in their seed alone, by their names.
        let peers = self
            .probes
            .values()
            .filter_map(|peer| Some((peer.path.file_stem()?.to_string_lossy().into_owned(), &peer.probe)));
        let (image, peers) = (ask.place.short(), peers.collect());
        let measurement = Measurement { image, name, probe: &probe, change, draw: ask.draw, peers };
        measurement.take(&tokens, &kinds).map_err(failed)
    }
}
