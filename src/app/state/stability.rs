//! How stable orders are, as far as it was measured: the latest few are kept.

use std::sync::Arc;

use super::State;
use super::jobs::JobKind;
use super::library::Reader;
use crate::app::jobs::evaluate::EvalProbe;
use crate::app::jobs::stability::{StabilityAnswer, StabilityRequest};
use crate::app::jobs::{ColumnId, Compute, ImageId, JobId, Request};
use crate::app::user_error::UserError;
use crate::model::explain::stability::Stability;

/// Measurements kept.
const KEPT: usize = 64;

/// Measurements, and the one under way.
#[derive(Default)]
pub struct Stabilities {
    /// The job that measures, and what.
    pub asking: Option<(JobId, EvalProbe, ImageId)>,
    /// Why the last one gave nothing, and what it was of.
    fault: Option<(EvalProbe, ImageId, UserError)>,
    /// Each with who reads, and the seed of the changes.
    known: Vec<(Reader, u64, StabilityAnswer)>,
    /// Who reads in the one under way.
    asked: Option<(Reader, u64)>,
}

impl State {
    /// The probe and the image of a column.
    fn subject_of(&self, column: ColumnId) -> Option<(EvalProbe, ImageId)> {
        let column = self.columns.get(&column)?;
        let (backbone, _) = self.library.backbone_of(column.probe)?;
        let image = column.image.or(self.selection.image)?;
        Some((EvalProbe { probe: column.probe, backbone, change: column.change }, image))
    }

    /// How stable the order of a column is, where it was measured as probe and backbone are now.
    pub fn stability_of(&self, column: ColumnId) -> Option<Result<&Arc<Stability>, &UserError>> {
        let wanted = self.subject_of(column)?;
        let reader = self.library.reader(wanted.0.probe)?;
        let known = self.stabilities.known.iter().find(|(own, seed, answer)| {
            (answer.subject, answer.image) == wanted && *own == reader && *seed == self.look.seed
        });
        let failed = self.stabilities.fault.as_ref().filter(|fault| (fault.0, fault.1) == wanted);
        known.map(|(.., answer)| answer.result.as_ref()).or(failed.map(|(.., fault)| Err(fault)))
    }

    /// The job that measures a column.
    pub fn steadying(&self, column: ColumnId) -> Option<JobId> {
        let wanted = self.subject_of(column)?;
        let asking = self.stabilities.asking.filter(|(_, subject, image)| (*subject, *image) == wanted);
        asking.map(|(job, ..)| job)
    }

    /// Measures the order of a column; a newer measurement ends an older one.
    pub(super) fn measure_stability(&mut self, column: ColumnId) -> Vec<Request> {
        let Some((subject, image)) = self.subject_of(column) else { return Vec::new() };
        let Some(place) = self.library.images.get(&image).map(|image| image.place.clone()) else {
            return Vec::new();
        };
        let mut requests = Vec::new();
        if let Some((old, ..)) = self.stabilities.asking.take() {
            self.jobs.shift_remove(&old);
            requests.push(Request::Cancel(old));
        }
        let title = format!("Changing {} a little", place.short());
        let job = self.begin(JobKind::Stability, title);
        (self.stabilities.asking, self.stabilities.fault) = (Some((job, subject, image)), None);
        let (seed, draw) = (self.look.seed, self.library.draw(image));
        self.stabilities.asked = self.library.reader(subject.probe).map(|reader| (reader, seed));
        requests.push(Request::Compute(
            job,
            Compute::Stability(StabilityRequest { subject, image, place, seed, draw }),
        ));
        requests
    }

    /// It was measured; too late where probe or backbone have been opened anew since.
    pub(super) fn steadied(&mut self, answer: StabilityAnswer) {
        let Some((reader, seed)) = self.stabilities.asked.clone() else { return };
        if self.library.reader(answer.subject.probe).as_ref() != Some(&reader) {
            return;
        }
        let known = &mut self.stabilities.known;
        known.retain(|(.., old)| (old.subject, old.image) != (answer.subject, answer.image));
        if known.len() >= KEPT {
            known.remove(0);
        }
        known.push((reader, seed, answer));
    }

    /// The job that measures is over.
    pub(super) fn end_stability(&mut self, job: JobId, fault: Option<&UserError>) {
        let Some((_, subject, image)) = self.stabilities.asking.take_if(|asking| asking.0 == job) else {
            return;
        };
        self.stabilities.fault = fault.map(|fault| (subject, image, fault.clone()));
    }
}
