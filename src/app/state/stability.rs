//! Measurements of the stability of orders: requests, and the latest results.

use super::answers::Answers;
use super::jobs::JobKind;
use super::library::{Library, Reader};
use super::{Known, State};
use crate::app::jobs::stability::StabilityRequest;
use crate::app::jobs::{ColumnId, Compute, JobId, Request};
use crate::model::explain::stability::Stability;

/// The known measurements, and the job under way.
pub(super) type Stabilities = Answers<Key, Stability, 64>;

/// The inputs of a measurement, and what read them.
#[derive(Clone, PartialEq)]
pub(super) struct Key {
    request: StabilityRequest,
    reader: Reader,
}

impl Key {
    /// Whether its probe and backbone are those that are open now.
    pub(super) fn is_read_by(&self, library: &Library) -> bool {
        library.reader(self.request.subject.probe).as_ref() == Some(&self.reader)
    }
}

impl State {
    /// The inputs of the measurement of a column.
    fn stability_key(&self, column: ColumnId) -> Option<Key> {
        let column = self.columns.get(&column)?;
        let subject = self.library.eval_probe(column.probe, column.change.clone())?;
        let image = column.image.or(self.selection.image)?;
        let place = self.library.images.get(&image)?.place.clone();
        let (seed, draw) = (self.explain.seed, self.library.draw(image));
        let request = StabilityRequest { subject, image, place, seed, draw };
        Some(Key { request, reader: self.library.reader(column.probe)? })
    }

    /// The stability of a column's order, if it was measured with the current inputs.
    pub fn stability_of(&self, column: ColumnId) -> Known<'_, Stability> {
        self.stabilities.get(&self.stability_key(column)?)
    }

    /// The job that measures a column, if it runs.
    pub fn measuring_stability(&self, column: ColumnId) -> Option<JobId> {
        self.stabilities.job(&self.stability_key(column)?)
    }

    /// Requests the measurement of a column's order; cancels an earlier request.
    pub(super) fn measure_stability(&mut self, column: ColumnId) -> Vec<Request> {
        let Some(key) = self.stability_key(column) else { return Vec::new() };
        let request = key.request.clone();
        let job = self.begin(JobKind::Stability, format!("Changing {} slightly", request.place.short()));
        self.stabilities.forget_failures();
        let older = self.stabilities.begin(job, key);
        self.compute_instead(older, job, Compute::Stability(request))
    }
}
