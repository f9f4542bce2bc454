//! Measurements of the stability of orders: requests, and the latest results.

use super::jobs::JobKind;
use super::library::Reader;
use super::{Known, State};
use crate::app::jobs::evaluate::EvalProbe;
use crate::app::jobs::stability::{StabilityAnswer, StabilityRequest};
use crate::app::jobs::{ColumnId, Compute, ImageId, JobId, Request};
use crate::app::user_error::UserError;
use crate::model::explain::stability::Stability;

/// Most measurements that are kept.
const MAX_MEASUREMENTS: usize = 64;

/// The known measurements, and the one under way.
#[derive(Default)]
pub struct Stabilities {
    running: Option<RunningStability>,
    /// The last measurement, if it failed.
    failed: Option<KnownStability>,
    known: Vec<KnownStability>,
}

/// A result, with the reader and the seed of the perturbations.
type KnownStability = (Reader, u64, StabilityAnswer);

/// A measurement under way.
struct RunningStability {
    job: JobId,
    subject: EvalProbe,
    image: ImageId,
    /// The reader at the time of the request.
    reader: Reader,
    /// The seed of the perturbations.
    seed: u64,
}

impl State {
    /// The probe and the image of a column.
    fn stability_subject(&self, column: ColumnId) -> Option<(EvalProbe, ImageId)> {
        let column = self.columns.get(&column)?;
        let subject = self.library.subject(column.probe, column.change.clone())?;
        Some((subject, column.image.or(self.selection.image)?))
    }

    /// The stability of a column's order, if it was measured with the current inputs.
    pub fn stability_of(&self, column: ColumnId) -> Known<'_, Stability> {
        let wanted = self.stability_subject(column)?;
        let reader = self.library.reader(wanted.0.probe)?;
        let mut all = self.stabilities.known.iter().chain(&self.stabilities.failed);
        let found = all.find(|(own, seed, answer)| {
            (&answer.subject, answer.image) == (&wanted.0, wanted.1)
                && *own == reader
                && *seed == self.explain.seed
        });
        found.map(|(.., answer)| answer.result.as_ref())
    }

    /// The job that measures a column, if it runs.
    pub fn measuring_stability(&self, column: ColumnId) -> Option<JobId> {
        let wanted = self.stability_subject(column)?;
        let running = self.stabilities.running.as_ref()?;
        ((&running.subject, running.image) == (&wanted.0, wanted.1)).then_some(running.job)
    }

    /// Requests the measurement of a column's order; cancels an earlier request.
    pub(super) fn measure_stability(&mut self, column: ColumnId) -> Vec<Request> {
        let Some((subject, image)) = self.stability_subject(column) else { return Vec::new() };
        let place = self.library.images.get(&image).map(|image| image.place.clone());
        let (Some(place), Some(reader)) = (place, self.library.reader(subject.probe)) else {
            return Vec::new();
        };
        let older = self.stabilities.running.take();
        let mut requests: Vec<Request> = older.map(|older| self.replace_job(older.job)).into_iter().collect();
        let job = self.begin(JobKind::Stability, format!("Changing {} slightly", place.short()));
        let (seed, draw) = (self.explain.seed, self.library.draw(image));
        self.stabilities.running =
            Some(RunningStability { job, subject: subject.clone(), image, reader, seed });
        self.stabilities.failed = None;
        requests.push(Request::Compute(
            job,
            Compute::Stability(StabilityRequest { subject, image, place, seed, draw }),
        ));
        requests
    }

    /// Stores a result, unless another request has replaced its job, or the probe or the backbone was opened again since.
    pub(super) fn stability_measured(&mut self, job: JobId, answer: StabilityAnswer) {
        let Some(running) = self.stabilities.running.as_ref().filter(|running| running.job == job) else {
            return;
        };
        if self.library.reader(answer.subject.probe).as_ref() != Some(&running.reader) {
            return;
        }
        let (reader, seed) = (running.reader.clone(), running.seed);
        let known = &mut self.stabilities.known;
        known.retain(|(.., old)| (&old.subject, old.image) != (&answer.subject, answer.image));
        if known.len() >= MAX_MEASUREMENTS {
            known.remove(0);
        }
        known.push((reader, seed, answer));
    }

    /// The job has ended; `error` says why it failed.
    pub(super) fn end_stability(&mut self, job: JobId, error: Option<&UserError>) {
        let ended = self.stabilities.running.take_if(|running| running.job == job);
        if let Some(RunningStability { subject, image, reader, seed, .. }) = ended {
            let answer = |error: &UserError| StabilityAnswer { subject, image, result: Err(error.clone()) };
            self.stabilities.failed = error.map(|error| (reader, seed, answer(error)));
        }
    }
}
