//! Removal curves: requests, and the latest results.

use super::explain::Key;
use super::jobs::JobKind;
use super::{Known, State};
use crate::app::jobs::removal::{RemovalAnswer, RemovalRequest};
use crate::app::jobs::{ColumnId, Compute, ImageId, JobId, Request};
use crate::app::user_error::UserError;
use crate::model::explain::removal::{Mode, Removal, RemovalSpec};

/// Most results that are kept.
const MAX_KEPT: usize = 64;

/// The known removal curves, and the job under way.
#[derive(Default)]
pub struct Removals {
    running: Option<(JobId, Key)>,
    /// The results with their inputs, the latest last.
    known: Vec<(Key, RemovalAnswer)>,
}

impl State {
    /// The image of a column, and the inputs of its curves.
    fn removal_key(&self, column: ColumnId) -> Option<(ImageId, Key)> {
        let image = self.columns.get(&column)?.image.or(self.selection.image)?;
        Some((image, self.key_of(column, image)?))
    }

    /// The removal curves of a column, if they were computed with the current inputs.
    pub fn removal_of(&self, column: ColumnId) -> Known<'_, Removal> {
        let wanted = self.removal_key(column)?.1;
        self.removals.known.iter().find(|(own, _)| *own == wanted).map(|(_, answer)| answer.as_ref())
    }

    /// The job that computes the curves of a column, if it runs.
    pub fn removing(&self, column: ColumnId) -> Option<JobId> {
        let wanted = self.removal_key(column)?.1;
        self.removals.running.as_ref().filter(|(_, own)| *own == wanted).map(|(job, _)| *job)
    }

    /// Requests the removal curves of a column; cancels an earlier request.
    pub(super) fn remove_tokens(&mut self, column: ColumnId, modes: Vec<Mode>) -> Vec<Request> {
        let Some((image, key)) = self.removal_key(column) else { return Vec::new() };
        let column = self.columns.get(&column);
        let subject = column.and_then(|column| self.library.subject(column.probe, column.change.clone()));
        let place = self.library.images.get(&image).map(|image| image.place.clone());
        let (Some(subject), Some(place)) = (subject, place) else { return Vec::new() };
        let older = self.removals.running.take();
        let mut requests: Vec<Request> = older.map(|(job, _)| self.replace_job(job)).into_iter().collect();
        let job = self.begin(JobKind::Removal, format!("Removing tokens of {}", place.short()));
        self.removals.running = Some((job, key));
        let spec = RemovalSpec { modes, seed: self.explain.seed, ..RemovalSpec::default() };
        let (class, draw) = (self.selection.class.clone(), self.library.draw(image));
        let request = RemovalRequest { subject, place, class, spec, draw };
        requests.push(Request::Compute(job, Compute::Removal(request)));
        requests
    }

    /// Stores a result, unless another request has replaced its job.
    pub(super) fn removal_measured(&mut self, job: JobId, answer: RemovalAnswer) {
        if let Some((_, key)) = self.removals.running.as_ref().filter(|(own, _)| *own == job) {
            self.removals.keep(key.clone(), answer);
        }
    }

    /// The job has ended; an error is stored as its result.
    pub(super) fn end_removal(&mut self, job: JobId, error: Option<&UserError>) {
        if let Some((_, key)) = self.removals.running.take_if(|(own, _)| *own == job)
            && let Some(error) = error
        {
            self.removals.keep(key, Err(error.clone()));
        }
    }
}

impl Removals {
    /// Stores a result as the latest.
    fn keep(&mut self, key: Key, answer: RemovalAnswer) {
        self.known.retain(|(own, _)| *own != key);
        if self.known.len() >= MAX_KEPT {
            drop(self.known.remove(0));
        }
        self.known.push((key, answer));
    }
}
