//! Evaluations of probes on datasets. They are kept until a second dataset is closed, so that closing one can be undone.

use std::path::PathBuf;
use std::sync::Arc;

use indexmap::IndexMap;

use super::jobs::{JobKind, Severity};
use super::library::Reader;
use super::{Known, State};
use crate::app::format::counted;
use crate::app::jobs::evaluate::{EvalAnswer, EvalProbe, EvalRequest, EvalSplit};
use crate::app::jobs::regions::RegionSource;
use crate::app::jobs::user_error::UserError;
use crate::app::jobs::{ColumnId, Compute, DatasetId, ImageId, JobId, ProbeId, Request};
use crate::model::explain::evaluation::Evaluation;
use crate::model::explain::evaluation::vectors::{MAX_BYTES, keep_latest};
use crate::model::explain::intervention::Intervention;
use crate::model::explain::removal::Mode;

/// Most evaluations that are kept without being on screen.
const MAX_HIDDEN: usize = 16;

/// The known evaluations, and the one under way.
#[derive(Default)]
pub struct Evaluations {
    /// The dataset in use.
    pub dataset: Option<DatasetId>,
    /// The job under way, its dataset, and whether it is a lookup of what is known from before, which gives way to an evaluation.
    running: Option<(JobId, DatasetId, bool)>,
    /// Why the last evaluation failed, and on which dataset.
    error: Option<(DatasetId, UserError)>,
    /// What was last evaluated, with removal curves in these modes; once that failed, what it has no result of.
    latest: (Wanted, Vec<Mode>),
    /// How many probes the job under way could not evaluate as trained, and why the first.
    failed: Option<(usize, String)>,
    /// The results; the least recently shown come first.
    known: Vec<(Key, Result<Arc<Evaluation>, UserError>)>,
    /// The inputs, at the time of the request, of what the job under way has no result of yet, and whether each is only looked up.
    requested: Vec<(Key, bool)>,
    /// Inputs whose evaluation was cancelled or failed: they are not evaluated again automatically.
    abandoned: Vec<Key>,
    /// An evaluation to start once everything is open, with removal curves in these modes.
    pub(super) deferred: Option<(Wanted, Vec<Mode>)>,
    /// Whether the evaluations known from before are to be looked up once everything is open.
    pub(super) is_restored: bool,
    /// What a control that is dragged has reached: it is not evaluated before the control is let go.
    pub(super) sliding: Option<(ProbeId, Intervention)>,
    /// Incremented at every change, so that derived values can be cached.
    pub revision: u64,
}

/// What is evaluated.
#[derive(Clone, Default)]
pub(super) enum Wanted {
    /// The columns, with their interventions.
    #[default]
    Shown,
    /// Also all other probes, as trained.
    All,
    /// Of all, these alone.
    Only(Vec<(ProbeId, Intervention)>),
}

/// The inputs of an evaluation.
#[derive(Clone, Debug, PartialEq)]
struct Key {
    /// The dataset, whose evaluations are forgotten when it is opened again.
    dataset: DatasetId,
    reader: Reader,
    change: Intervention,
    /// The null bands: the number of draws, and the seed.
    nulls: (usize, u64),
    /// The folder of masks.
    masks: Option<PathBuf>,
}

impl Evaluations {
    /// The job under way: an evaluation or a lookup.
    pub fn under_way(&self) -> Option<JobId> {
        self.running.map(|(job, ..)| job)
    }

    /// The evaluation under way, if that is more than a lookup.
    pub fn job(&self) -> Option<JobId> {
        self.running.filter(|(.., is_lookup)| !is_lookup).map(|(job, ..)| job)
    }

    /// Whether an evaluation was asked for that begins once everything is open.
    pub fn is_deferred(&self) -> bool {
        self.deferred.is_some()
    }

    /// Forgets the evaluations on a dataset, also those that are not done yet.
    pub(super) fn forget(&mut self, dataset: DatasetId) {
        self.known.retain(|(key, _)| key.dataset != dataset);
        self.requested.retain(|(key, _)| key.dataset != dataset);
        self.error.take_if(|(of, _)| *of == dataset);
        self.revision += 1;
    }
}

impl State {
    /// The dataset in use, once it is open.
    pub fn dataset(&self) -> Option<(DatasetId, &Arc<EvalSplit>)> {
        let id = self.evaluations.dataset?;
        Some((id, self.library.split(id)?))
    }

    /// Whether an evaluation of `probe` with an intervention has these inputs now.
    fn is_key_of(&self, key: &Key, dataset: DatasetId, probe: ProbeId, change: &Intervention) -> bool {
        (key.dataset, key.reader.probe, &key.change) == (dataset, probe, change)
            && (key.nulls, &key.masks) == (self.nulls(), &self.masks)
            && self.library.reader(probe).as_ref() == Some(&key.reader)
    }

    /// The number of draws of the null bands, and the seed.
    fn nulls(&self) -> (usize, u64) {
        (self.explain.null_draws, self.explain.seed)
    }

    /// The evaluation of `probe` with an intervention on the dataset in use; `None` unless it was evaluated with the current
    /// inputs: a result of an earlier file, or of other weights, layer or size, does not count.
    pub fn evaluation(&self, probe: ProbeId, change: &Intervention) -> Known<'_, Evaluation> {
        self.evaluation_for(self.evaluations.dataset?, probe, change)
    }

    fn evaluation_for(&self, on: DatasetId, probe: ProbeId, change: &Intervention) -> Known<'_, Evaluation> {
        self.library.split(on)?;
        let known = self.evaluations.known.iter().find(|(key, _)| self.is_key_of(key, on, probe, change));
        known.map(|(_, result)| result.as_ref())
    }

    /// The evaluation of a column on any open dataset.
    pub fn evaluation_on(&self, dataset: DatasetId, column: ColumnId) -> Known<'_, Evaluation> {
        let column = self.columns.get(&column)?;
        self.evaluation_for(dataset, column.probe, &column.change)
    }

    /// The evaluations of a column on all open datasets.
    pub fn evaluations_of(&self, column: ColumnId) -> impl Iterator<Item = (DatasetId, &Arc<Evaluation>)> {
        let all = self.library.datasets.keys();
        all.filter_map(move |id| Some((*id, self.evaluation_on(*id, column)?.ok()?)))
    }

    /// The evaluation of a column on the dataset in use.
    pub fn evaluation_of(&self, column: ColumnId) -> Known<'_, Evaluation> {
        self.evaluation_on(self.evaluations.dataset?, column)
    }

    /// Why a column has no evaluation on the dataset in use: its own error, or that of the last evaluation if it was on this dataset.
    pub fn evaluation_error(&self, column: Option<ColumnId>) -> Option<&UserError> {
        match column.and_then(|column| self.evaluation_of(column)) {
            Some(known) => known.err(),
            None => self.failed_evaluation(),
        }
    }

    /// The image at an index of a dataset's split.
    pub fn image_at(&self, dataset: DatasetId, at: usize) -> Option<ImageId> {
        self.library.datasets.get(&dataset)?.images.get(at).copied()
    }

    /// Starts the deferred evaluation, or defers it again while something is being opened; looks up what was known in a restored workspace.
    pub(super) fn evaluate_waiting(&mut self) -> Vec<Request> {
        if let Some((wanted, removals)) = self.evaluations.deferred.take() {
            return self.evaluate_probes(wanted, removals);
        }
        if self.library.is_opening() || !self.evaluations.is_restored {
            return Vec::new();
        }
        let requests = self.request_evaluation("Looking for evaluations of", Vec::new(), Vec::new());
        self.evaluations.is_restored = false;
        requests
    }

    /// Takes what a restored session has not looked up yet: it has just been opened, or other work takes the lookup's place.
    fn take_lookups(&mut self, dataset: DatasetId) -> Vec<EvalProbe> {
        if !std::mem::take(&mut self.evaluations.is_restored) {
            let unanswered = std::mem::take(&mut self.evaluations.requested).into_iter();
            let rest = unanswered.filter(|(key, is_lookup)| *is_lookup && key.dataset == dataset);
            return rest
                .filter_map(|(key, _)| self.library.eval_probe(key.reader.probe, key.change))
                .collect();
        }
        let mut all = self.eval_probes(self.readings(&Wanted::All));
        all.reverse(); // the columns come last: of the latest, also the numbers per token are kept
        all
    }

    /// The probes and interventions that are wanted, each pair once.
    fn readings(&self, wanted: &Wanted) -> Vec<(ProbeId, Intervention)> {
        let columns = self.columns.values().map(|column| (column.probe, column.change.clone()));
        let others = self.library.probes.keys().filter(|_| !matches!(wanted, Wanted::Shown));
        let mut readings: Vec<(ProbeId, Intervention)> = Vec::new();
        for reading in columns.chain(others.map(|probe| (*probe, Intervention::None))) {
            let is_left_out = matches!(wanted, Wanted::Only(only) if !only.contains(&reading));
            if !is_left_out && !readings.contains(&reading) {
                readings.push(reading);
            }
        }
        readings
    }

    /// Evaluates what is wanted and fits an open backbone on the dataset in use, and computes removal curves of every image in these
    /// modes. Deferred while something is being opened.
    pub(super) fn evaluate_probes(&mut self, wanted: Wanted, removals: Vec<Mode>) -> Vec<Request> {
        if self.library.is_opening() {
            self.evaluations.deferred = Some((wanted, removals));
            return Vec::new();
        }
        self.evaluations.abandoned.clear();
        let requests = self.start_evaluation(wanted, removals);
        let asked = self.evaluations.requested.iter().filter(|(_, is_lookup)| !is_lookup);
        let differs = |probe: ProbeId| Some((probe, self.library.token_mismatch(probe)?.0));
        let others: IndexMap<ProbeId, String> =
            asked.filter_map(|(key, _)| differs(key.reader.probe)).collect();
        if let Some((first, why)) = others.first().filter(|_| !requests.is_empty()) {
            let (many, first) = (counted(others.len(), "probe", "probes"), self.library.probe_name(*first));
            let text = format!(
                "The accuracy of {many} will mean little, as their tokens differ from those in training. {first}: {why}"
            );
            self.note(Severity::Warning, text);
        }
        requests
    }

    /// Why the last evaluation failed, if it was on the dataset in use.
    pub(super) fn failed_evaluation(&self) -> Option<&UserError> {
        let (dataset, error) = self.evaluations.error.as_ref()?;
        (self.evaluations.dataset == Some(*dataset)).then_some(error)
    }

    /// Evaluates what the last evaluation has no result of, if it failed.
    pub(super) fn evaluate_again(&mut self) -> Vec<Request> {
        let failed = self.failed_evaluation().is_some();
        self.evaluations.error.take_if(|_| failed);
        let (wanted, removals) = self.evaluations.latest.clone();
        if failed { self.evaluate_probes(wanted, removals) } else { Vec::new() }
    }

    /// Evaluates columns with an intervention whose probe was evaluated without one, so that the change of the accuracy shows
    /// without another click, unless that evaluation was cancelled or failed before. A hand-made order is edited in many small
    /// steps: it is evaluated only on request, and of a control that is dragged only the final value. One evaluation runs at a
    /// time; the next follows when it has finished.
    pub(super) fn evaluate_interventions(&mut self) -> Vec<Request> {
        let Evaluations { dataset: Some(dataset), running: None, .. } = self.evaluations else {
            return Vec::new();
        };
        let abandoned = &self.evaluations.abandoned;
        let is_wanted = |reading: &(ProbeId, Intervention)| {
            let (probe, change) = reading;
            !matches!(change, Intervention::None | Intervention::Order(_))
                && self.evaluations.sliding.as_ref() != Some(reading)
                && self.evaluation(*probe, &Intervention::None).is_some_and(|trained| trained.is_ok())
                && self.evaluation(*probe, change).is_none()
                && !abandoned.iter().any(|key| self.is_key_of(key, dataset, *probe, change))
        };
        let wanted: Vec<_> = self.readings(&Wanted::Shown).into_iter().filter(is_wanted).collect();
        if wanted.is_empty() { Vec::new() } else { self.start_evaluation(Wanted::Only(wanted), Vec::new()) }
    }

    /// Starts an evaluation in place of the one under way, with removal curves in these modes.
    fn start_evaluation(&mut self, wanted: Wanted, removals: Vec<Mode>) -> Vec<Request> {
        let Some((dataset, _)) = self.dataset() else { return Vec::new() };
        let subjects = self.eval_probes(self.readings(&wanted));
        self.evaluations.latest = (wanted, removals.clone());
        if subjects.is_empty() {
            let error = UserError::new("No probe can be evaluated")
                .remedy("Open a backbone, and probes that fit it; then evaluate again");
            self.evaluations.error = Some((dataset, error));
            return Vec::new();
        }
        self.request_evaluation("Evaluating", subjects, removals)
    }

    /// Those of these readings that an open backbone fits, grouped by backbone, so that its tokens are looked up once.
    fn eval_probes(&self, wanted: Vec<(ProbeId, Intervention)>) -> Vec<EvalProbe> {
        let subjects =
            wanted.into_iter().filter_map(|(probe, change)| self.library.eval_probe(probe, change));
        let mut subjects: Vec<EvalProbe> = subjects.collect();
        subjects.sort_by_key(|subject| subject.backbone);
        subjects
    }

    /// Requests, in place of the evaluation under way, to evaluate `subjects` with removal curves in these modes, and to look up what was
    /// [not yet](Self::take_lookups).
    fn request_evaluation(
        &mut self,
        verb: &str,
        subjects: Vec<EvalProbe>,
        removals: Vec<Mode>,
    ) -> Vec<Request> {
        let Some((dataset, part)) = self.dataset() else { return Vec::new() };
        let part = part.clone();
        let mut stored = self.take_lookups(dataset);
        stored.retain(|subject| !subjects.contains(subject));
        let shown = if subjects.is_empty() { &stored } else { &subjects };
        if shown.is_empty() {
            return Vec::new();
        }
        let probes = counted(shown.len(), "probe", "probes");
        let title = format!("{verb} {probes} on {}", part.set.dataset);
        let regions = RegionSource::new(self.masks.clone());
        let job = self.begin(JobKind::Evaluate, title);
        let with_key = |(subject, is_lookup): (&EvalProbe, bool)| {
            let (nulls, masks, change) = (self.nulls(), self.masks.clone(), subject.change.clone());
            let reader = self.library.reader(subject.probe)?;
            Some((Key { dataset, reader, change, nulls, masks }, is_lookup))
        };
        let evaluated = subjects.iter().map(|subject| (subject, false));
        let requested = evaluated.chain(stored.iter().map(|subject| (subject, true)));
        self.evaluations.requested = requested.filter_map(with_key).collect();
        (self.evaluations.error, self.evaluations.failed) = (None, None);
        let older = self.evaluations.running.replace((job, dataset, subjects.is_empty()));
        let request = EvalRequest { part, subjects, settings: self.explain, regions, removals, stored };
        self.send_instead(older.map(|(older, ..)| older), Request::Compute(job, Compute::Evaluate(request)))
    }

    /// Stores a result. Ignores one of a job that was replaced, or of a dataset, probe or backbone that was opened again since
    /// the request: it is unknown which version was evaluated.
    pub(super) fn evaluated(&mut self, job: JobId, answer: EvalAnswer) {
        if self.evaluations.under_way() != Some(job) {
            return;
        }
        let EvalAnswer { subject, result } = answer;
        let is_unchanged =
            |(key, _): &(Key, bool)| self.is_key_of(key, key.dataset, subject.probe, &subject.change);
        if let Some(at) = self.evaluations.requested.iter().position(is_unchanged) {
            let (key, _) = self.evaluations.requested.swap_remove(at);
            if let Err(error) = &result {
                let name = self.library.probe_name(subject.probe);
                self.record(Severity::Error, format!("Evaluating {name}: {error}"));
                if subject.change.is_none() {
                    let first = || (0, format!("{name}: {}", error.one_line()));
                    self.evaluations.failed.get_or_insert_with(first).0 += 1;
                }
            }
            self.keep_evaluation(key, result);
        }
    }

    /// Stores a result in place of an earlier one of the same dataset, probe and intervention. Of those that are not on screen
    /// only [`MAX_HIDDEN`] stay.
    fn keep_evaluation(&mut self, new: Key, result: Result<Arc<Evaluation>, UserError>) {
        let mut known = std::mem::take(&mut self.evaluations.known);
        let subject = |key: &Key| (key.dataset, key.reader.probe, key.change.clone());
        known.retain(|(key, _)| subject(key) != subject(&new));
        known.sort_by_key(|(key, _)| self.is_on_screen(key));
        let hidden = known.partition_point(|(key, _)| !self.is_on_screen(key));
        known.drain(..hidden.saturating_sub(MAX_HIDDEN));
        known.push((new, result));
        keep_latest(known.iter_mut().filter_map(|(_, result)| result.as_mut().ok()), MAX_BYTES);
        self.evaluations.known = known;
        self.evaluations.revision += 1;
    }

    /// Whether an evaluation on an open dataset is shown: of an open probe as trained in the lists of probes, of any other reading
    /// in its columns.
    fn is_on_screen(&self, key: &Key) -> bool {
        let (library, probe) = (&self.library, key.reader.probe);
        let is_shown = match key.change {
            Intervention::None => library.probes.contains_key(&probe),
            _ => self.columns.values().any(|column| (column.probe, &column.change) == (probe, &key.change)),
        };
        is_shown && library.datasets.contains_key(&key.dataset)
    }

    /// An evaluation job has ended; `error` says why it failed.
    pub(super) fn end_evaluation(&mut self, job: JobId, error: Option<&UserError>) {
        if let Some((_, dataset, _)) = self.evaluations.running.take_if(|(own, ..)| *own == job) {
            self.evaluations.error = error.map(|error| (dataset, error.clone()));
            let unanswered = std::mem::take(&mut self.evaluations.requested);
            let left = unanswered.iter().filter(|(_, is_lookup)| !is_lookup);
            let left: Vec<_> = left.map(|(key, _)| (key.reader.probe, key.change.clone())).collect();
            if !left.is_empty() {
                self.evaluations.latest.0 = Wanted::Only(left);
            }
            self.evaluations.abandoned.extend(unanswered.into_iter().map(|(key, _)| key));
            // Tables of all probes leave them out.
            if let Some((count, first)) = self.evaluations.failed.take() {
                let text = match count {
                    1 => format!("Could not be evaluated: {first}"),
                    _ => format!(
                        "{count} probes could not be evaluated; the first: {first}\nJobs and log lists all of them"
                    ),
                };
                self.note(Severity::Warning, text);
            }
        }
    }

    /// A dataset was closed. Its evaluations are kept until another one is closed, in case that is undone.
    pub(super) fn forget_evaluations(&mut self, closed: DatasetId) {
        let open = &self.library.datasets;
        let known = &mut self.evaluations.known;
        known.retain(|(key, _)| key.dataset == closed || open.contains_key(&key.dataset));
    }
}
