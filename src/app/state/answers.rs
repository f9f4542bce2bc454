//! The answers of one kind of job, of which one runs at a time.

use std::sync::Arc;

use super::{Known, Requested};
use crate::app::jobs::JobId;
use crate::app::jobs::user_error::UserError;

/// The latest `MAX` answers, each with its inputs, and the job under way.
pub(super) struct Answers<K, V, const MAX: usize> {
    running: Option<(JobId, K)>,
    /// The latest last.
    known: Vec<(K, Result<Arc<V>, UserError>)>,
}

impl<K, V, const MAX: usize> Default for Answers<K, V, MAX> {
    fn default() -> Self {
        Self { running: None, known: Vec::new() }
    }
}

impl<K: Clone + PartialEq, V, const MAX: usize> Answers<K, V, MAX> {
    pub(super) fn get(&self, key: &K) -> Known<'_, V> {
        self.known.iter().find(|(own, _)| own == key).map(|(_, answer)| answer.as_ref())
    }

    /// The answer for these inputs, and the job that computes it, if it runs.
    pub(super) fn requested(&self, key: &K) -> Requested<'_, V> {
        let running = self.running.as_ref().filter(|(_, own)| own == key);
        (self.get(key), running.map(|(job, _)| *job))
    }

    /// The inputs of the job under way, if it is this one.
    pub(super) fn asked(&self, job: JobId) -> Option<&K> {
        self.running.as_ref().filter(|(own, _)| *own == job).map(|(_, key)| key)
    }

    /// Whether the job under way is this one, and what it was asked for is known: its answer was no error.
    pub(super) fn has_result(&self, job: JobId) -> bool {
        self.asked(job).is_some_and(|key| matches!(self.get(key), Some(Ok(_))))
    }

    /// Remembers the job under way; returns the one that it replaces.
    pub(super) fn begin(&mut self, job: JobId, key: K) -> Option<JobId> {
        self.running.replace((job, key)).map(|(older, _)| older)
    }

    /// Stores the answer of a job, unless another one has replaced it, or its inputs are not `current` any more: it is unknown
    /// which ones it is of.
    pub(super) fn answered(
        &mut self,
        job: JobId,
        answer: Result<Arc<V>, UserError>,
        current: impl FnOnce(&K) -> bool,
    ) {
        if let Some(key) = self.asked(job).filter(|key| current(key)).cloned() {
            self.keep(key, answer);
        }
    }

    /// The inputs of the job under way, if it is this one, which has ended.
    pub(super) fn end(&mut self, job: JobId) -> Option<K> {
        self.running.take_if(|(own, _)| *own == job).map(|(_, key)| key)
    }

    /// The job has ended; an error is stored as its answer.
    pub(super) fn end_with(&mut self, job: JobId, error: Option<&UserError>) {
        if let (Some(key), Some(error)) = (self.end(job), error) {
            self.keep(key, Err(error.clone()));
        }
    }

    /// Stores an answer as the latest.
    pub(super) fn keep(&mut self, key: K, answer: Result<Arc<V>, UserError>) {
        self.known.retain(|(own, _)| *own != key);
        if self.known.len() >= MAX {
            drop(self.known.remove(0));
        }
        self.known.push((key, answer));
    }

    /// Forgets everything; returns the job under way.
    pub(super) fn clear(&mut self) -> Option<JobId> {
        std::mem::take(self).running.map(|(job, _)| job)
    }

    /// Forgets what failed, so that it is requested again.
    pub(super) fn forget_failures(&mut self) {
        self.known.retain(|(_, answer)| answer.is_ok());
    }
}
