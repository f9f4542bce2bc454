//! What probes made of whole datasets: asked for here, kept until the dataset is closed and another
//! after it.

use std::path::PathBuf;
use std::sync::Arc;

use super::State;
use super::jobs::JobKind;
use super::library::{Dataset, Reader};
use crate::app::jobs::evaluate::{EvalAnswer, EvalProbe, EvalRequest, EvalSplit};
use crate::app::jobs::regions::RegionSource;
use crate::app::jobs::{ColumnId, Compute, DatasetId, ImageId, JobId, ProbeId, Request};
use crate::app::user_error::UserError;
use crate::model::explain::evaluation::Evaluation;
use crate::model::explain::evaluation::vectors::{MAX_BYTES, keep_latest};
use crate::model::explain::intervention::Intervention;
use crate::model::explain::removal::Mode;

/// Evaluations, and the one under way.
#[derive(Default)]
pub struct Evaluations {
    /// The dataset that is looked at.
    pub dataset: Option<DatasetId>,
    /// The job under way.
    pub job: Option<JobId>,
    /// Why the last one gave nothing.
    pub error: Option<UserError>,
    known: Vec<Known>,
    /// Who is being asked, as they were when they were asked.
    requested: Vec<(EvalProbe, Key)>,
    /// What an evaluation that was cancelled or failed left unanswered: it is asked by itself no more.
    called_off: Vec<Key>,
    /// What is asked once all is open: the probes of the columns, or all.
    waiting: Option<bool>,
    /// Counts what came, so that whoever derives from it knows when to do so again.
    pub revision: u64,
}

/// Everything an evaluation depends on beside the images.
#[derive(Clone, Debug, PartialEq)]
struct Key {
    reader: Reader,
    change: Intervention,
    /// What null bands are made of: how many draws, from which seed.
    nulls: (usize, u64),
    /// Where masks are.
    masks: Option<PathBuf>,
}

/// An answer that is kept.
struct Known {
    dataset: DatasetId,
    key: Key,
    result: Result<Arc<Evaluation>, UserError>,
}

impl Evaluations {
    /// The latest answer of a probe, changed so, is the one that is kept.
    fn put(&mut self, known: Known) {
        let subject = |known: &Known| (known.dataset, known.key.reader.probe, known.key.change.clone());
        let own = subject(&known);
        self.known.retain(|k| subject(k) != own);
        self.known.push(known);
        keep_latest(self.known.iter_mut().filter_map(|known| known.result.as_mut().ok()), MAX_BYTES);
        self.revision += 1;
    }

    /// Forgets what was made of a dataset.
    pub(super) fn forget(&mut self, dataset: DatasetId) {
        self.known.retain(|known| known.dataset != dataset);
        self.revision += 1;
    }
}

impl State {
    /// The dataset that is looked at, once it is open.
    pub fn dataset(&self) -> Option<(DatasetId, &Arc<EvalSplit>)> {
        let id = self.evaluations.dataset?;
        Some((id, self.library.datasets.get(&id)?.status.ready()?))
    }

    /// Everything that what `probe`, changed so, makes of a dataset depends on.
    fn evaluation_key(&self, probe: ProbeId, change: Intervention) -> Option<Key> {
        let nulls = (self.explain.null_draws, self.explain.seed);
        Some(Key { reader: self.library.reader(probe)?, change, nulls, masks: self.masks.clone() })
    }

    /// What `probe`, changed so, made of the dataset; nothing where it was not asked as it is now: an
    /// answer of a file that was written anew, or by other weights, layer or size, is none.
    pub fn evaluation(
        &self,
        probe: ProbeId,
        change: Intervention,
    ) -> Option<Result<&Arc<Evaluation>, &UserError>> {
        let (dataset, _) = self.dataset()?;
        self.known_evaluation(dataset, probe, change)
    }

    fn known_evaluation(
        &self,
        dataset: DatasetId,
        probe: ProbeId,
        change: Intervention,
    ) -> Option<Result<&Arc<Evaluation>, &UserError>> {
        let key = self.evaluation_key(probe, change)?;
        let known = self.evaluations.known.iter().find(|known| known.dataset == dataset && known.key == key);
        known.map(|known| known.result.as_ref())
    }

    /// What the probe of a column made of a dataset, be it the one that is looked at or another.
    pub fn evaluation_on(
        &self,
        dataset: DatasetId,
        column: ColumnId,
    ) -> Option<Result<&Arc<Evaluation>, &UserError>> {
        self.library.datasets.get(&dataset)?.status.ready()?;
        let column = self.columns.get(&column)?;
        self.known_evaluation(dataset, column.probe, column.change.clone())
    }

    /// What the probe of a column made of the dataset.
    pub fn evaluation_of(&self, column: ColumnId) -> Option<Result<&Arc<Evaluation>, &UserError>> {
        let column = self.columns.get(&column)?;
        self.evaluation(column.probe, column.change.clone())
    }

    /// The image of a dataset at a place of its part.
    pub fn image_at(&self, dataset: DatasetId, at: usize) -> Option<ImageId> {
        self.library.datasets.get(&dataset)?.images.get(at).copied()
    }

    /// Asks what waited until all was open.
    pub(super) fn evaluate_waiting(&mut self) -> Vec<Request> {
        if self.evaluations.waiting.is_none() || self.library.is_opening() {
            return Vec::new();
        }
        self.evaluations.waiting.take().map_or_else(Vec::new, |all| self.evaluate_probes(all))
    }

    /// The readings of the columns, each once.
    fn shown(&self) -> Vec<(ProbeId, Intervention)> {
        let mut shown: Vec<(ProbeId, Intervention)> = Vec::new();
        for column in self.columns.values() {
            let subject = (column.probe, column.change.clone());
            if !shown.contains(&subject) {
                shown.push(subject);
            }
        }
        shown
    }

    /// Asks the columns about the dataset, and removes the tokens of every image in these modes.
    pub(super) fn evaluate_removals(&mut self, modes: Vec<Mode>) -> Vec<Request> {
        self.evaluations.called_off.clear();
        self.ask(self.shown(), modes)
    }

    /// Asks probes about the dataset: those of the columns, changes included, or all that fit; once all
    /// is open that is being opened.
    pub(super) fn evaluate_probes(&mut self, all: bool) -> Vec<Request> {
        if self.library.is_opening() {
            self.evaluations.waiting = Some(all);
            return Vec::new();
        }
        self.evaluations.called_off.clear();
        let mut wanted = self.shown();
        if all {
            for probe in self.library.probes.keys() {
                if !wanted.iter().any(|(known, change)| known == probe && *change == Intervention::None) {
                    wanted.push((*probe, Intervention::None));
                }
            }
        }
        self.ask(wanted, Vec::new())
    }

    /// Asks changed readings of probes that were asked as trained: what a change does to the accuracy
    /// stands beside it without another click, unless that was called off. One evaluation at a time; the next
    /// follows when it is over.
    pub(super) fn evaluate_changes(&mut self) -> Vec<Request> {
        if self.evaluations.job.is_some() {
            return Vec::new();
        }
        let mut wanted: Vec<(ProbeId, Intervention)> = Vec::new();
        for column in self.columns.values().filter(|column| column.change != Intervention::None) {
            let subject = (column.probe, column.change.clone());
            let trained = self.evaluation(column.probe, Intervention::None);
            let key = self.evaluation_key(column.probe, column.change.clone());
            let unknown = self.evaluation(column.probe, column.change.clone()).is_none()
                && key.is_some_and(|key| !self.evaluations.called_off.contains(&key));
            if unknown && trained.is_some_and(|found| found.is_ok()) && !wanted.contains(&subject) {
                wanted.push(subject);
            }
        }
        if wanted.is_empty() { Vec::new() } else { self.ask(wanted, Vec::new()) }
    }

    /// Asks these about the dataset, in the place of who is being asked; tokens are removed in these modes, too.
    fn ask(&mut self, wanted: Vec<(ProbeId, Intervention)>, removals: Vec<Mode>) -> Vec<Request> {
        let Some((_, part)) = self.dataset() else { return Vec::new() };
        let part = part.clone();
        let subject = |(probe, change): (ProbeId, Intervention)| {
            let (backbone, _) = self.library.backbone_of(probe)?;
            Some(EvalProbe { probe, backbone, change })
        };
        let mut subjects: Vec<EvalProbe> = wanted.into_iter().filter_map(subject).collect();
        // Those of one backbone follow each other: its tokens are looked for once.
        subjects.sort_by_key(|subject| subject.backbone);
        if subjects.is_empty() {
            self.evaluations.error = Some(
                UserError::new("No probe can be evaluated")
                    .remedy("Open a backbone, and probes that fit it; then evaluate again"),
            );
            return Vec::new();
        }
        let older = self.evaluations.job.take();
        let mut requests: Vec<Request> = older.map(|older| self.replace_job(older)).into_iter().collect();
        let s = if subjects.len() == 1 { "" } else { "s" };
        let title = format!("Evaluating {} probe{s} on {}", subjects.len(), part.asked.dataset);
        let regions = RegionSource::new(self.masks.clone());
        let job = self.begin(JobKind::Evaluate, title);
        let keyed = |subject: &EvalProbe| {
            Some((subject.clone(), self.evaluation_key(subject.probe, subject.change.clone())?))
        };
        self.evaluations.requested = subjects.iter().filter_map(keyed).collect();
        (self.evaluations.job, self.evaluations.error) = (Some(job), None);
        requests.push(Request::Compute(
            job,
            Compute::Evaluate(EvalRequest { part, subjects, settings: self.explain, regions, removals }),
        ));
        requests
    }

    /// An answer came. One of a job that another has replaced is too late, as is one about a split that is
    /// no longer looked at, or of a probe or a backbone that has been opened anew since it was asked:
    /// nothing says which of the two spoke.
    pub(super) fn evaluated(&mut self, job: JobId, answer: EvalAnswer) {
        if self.evaluations.job != Some(job) {
            return;
        }
        let EvalAnswer { subject, part, result } = answer;
        let own = |dataset: &Dataset| dataset.status.ready().is_some_and(|known| Arc::ptr_eq(known, &part));
        let dataset = self.library.datasets.iter().find(|(_, dataset)| own(dataset)).map(|(id, _)| *id);
        let key = self.evaluation_key(subject.probe, subject.change.clone());
        let requested = &mut self.evaluations.requested;
        let unchanged =
            requested.iter().position(|(own, then)| *own == subject && Some(then) == key.as_ref());
        if let (Some(dataset), Some(key), Some(at)) = (dataset, key, unchanged) {
            requested.swap_remove(at);
            self.evaluations.put(Known { dataset, key, result });
        }
    }

    /// The job that asks is over.
    pub(super) fn end_evaluation(&mut self, job: JobId, error: Option<&UserError>) {
        if self.evaluations.job == Some(job) {
            self.evaluations.job = None;
            self.evaluations.error = error.cloned();
            let unanswered = std::mem::take(&mut self.evaluations.requested);
            self.evaluations.called_off.extend(unanswered.into_iter().map(|(_, key)| key));
        }
    }

    /// A dataset is `gone`. Its evaluations stay until another one goes, for who takes its closing back.
    pub(super) fn forget_evaluations(&mut self, gone: DatasetId) {
        let open = &self.library.datasets;
        self.evaluations.known.retain(|known| known.dataset == gone || open.contains_key(&known.dataset));
    }
}
