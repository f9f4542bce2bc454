//! What probes made of whole datasets: asked for here, kept until the dataset is closed and another
//! after it.

use std::path::PathBuf;
use std::sync::Arc;

use super::State;
use super::jobs::JobKind;
use super::library::{Dataset, Image, Label, Library, Reader, Status};
use super::settings::remember;
use crate::app::jobs::evaluate::{EvalAnswer, EvalProbe, EvalRequest, EvalSplit};
use crate::app::jobs::{ColumnId, Compute, DatasetId, Files, ImageId, JobId, ProbeId, Request};
use crate::app::user_error::UserError;
use crate::model::data::Split;
use crate::model::explain::intervention::Intervention;
use crate::model::explain::survey::Survey;

/// Surveys, and the one under way.
#[derive(Default)]
pub struct Surveys {
    /// The dataset that is looked at.
    pub dataset: Option<DatasetId>,
    /// The job that asks.
    pub asking: Option<JobId>,
    /// Why the last one gave nothing.
    pub fault: Option<UserError>,
    known: Vec<Known>,
    /// Who is being asked, as they were when they were asked.
    asked: Vec<(EvalProbe, Key)>,
    /// What is asked once all is open: the probes of the columns, or all.
    waiting: Option<bool>,
    /// Counts what came, so that whoever derives from it knows when to do so again.
    pub revision: u64,
}

/// Everything a survey depends on beside the images.
#[derive(Clone, Debug, PartialEq)]
struct Key {
    reader: Reader,
    change: Intervention,
    /// What null bands are made of: how many draws, from which seed.
    nulls: (usize, u64),
}

/// An answer that is kept.
struct Known {
    dataset: DatasetId,
    key: Key,
    result: Result<Arc<Survey>, UserError>,
}

impl Surveys {
    /// The latest answer of a probe, changed so, is the one that is kept.
    fn put(&mut self, known: Known) {
        let of = |known: &Known| (known.dataset, known.key.reader.probe, known.key.change);
        let own = of(&known);
        self.known.retain(|k| of(k) != own);
        self.known.push(known);
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
        let id = self.surveys.dataset?;
        Some((id, self.library.datasets.get(&id)?.status.ready()?))
    }

    /// Everything that what `probe`, changed so, makes of a dataset depends on.
    fn survey_key(&self, probe: ProbeId, change: Intervention) -> Option<Key> {
        let nulls = (self.look.null_draws, self.look.seed);
        Some(Key { reader: self.library.reader(probe)?, change, nulls })
    }

    /// What `probe`, changed so, made of the dataset; nothing where it was not asked as it is now: an
    /// answer of a file that was written anew, or by other weights, layer or size, is none.
    pub fn survey(&self, probe: ProbeId, change: Intervention) -> Option<Result<&Arc<Survey>, &UserError>> {
        let (dataset, _) = self.dataset()?;
        let key = self.survey_key(probe, change)?;
        let known = self.surveys.known.iter().find(|known| known.dataset == dataset && known.key == key);
        known.map(|known| known.result.as_ref())
    }

    /// What the probe of a column made of the dataset.
    pub fn survey_of(&self, column: ColumnId) -> Option<Result<&Arc<Survey>, &UserError>> {
        let column = self.columns.get(&column)?;
        self.survey(column.probe, column.change)
    }

    /// The image of a dataset at a place of its part.
    pub fn image_at(&self, dataset: DatasetId, at: usize) -> Option<ImageId> {
        self.library.datasets.get(&dataset)?.images.get(at).copied()
    }

    /// Opens a dataset, or another split of one that is open.
    pub(super) fn open_dataset(&mut self, path: PathBuf, split: Option<Split>) -> Vec<Request> {
        remember(&mut self.settings.recent.datasets, path.clone());
        let known = self.library.datasets.iter().find(|(_, dataset)| dataset.path == path).map(|(id, _)| *id);
        let id = known.unwrap_or_else(|| DatasetId(self.fresh()));
        if known.is_none() {
            self.library.datasets.insert(id, Dataset::new(path, split));
        }
        self.load_dataset(id, split)
    }

    /// Asks the worker to read a dataset of the library.
    pub(super) fn load_dataset(&mut self, id: DatasetId, split: Option<Split>) -> Vec<Request> {
        let Some(dataset) = self.library.datasets.get(&id) else { return Vec::new() };
        if matches!(dataset.status, Status::Opening(_)) {
            return Vec::new();
        }
        let path = dataset.path.clone();
        let job = self.begin(JobKind::Open, format!("Opening {}", dataset.name()));
        let dataset = &mut self.library.datasets[&id];
        (dataset.status, dataset.split) = (Status::Opening(job), split);
        vec![Request::Files(job, Files::OpenDataset { entry: id, path, split })]
    }

    /// A dataset is there: its images join the library, each with its class.
    pub(super) fn dataset_opened(
        &mut self,
        job: JobId,
        entry: DatasetId,
        part: Arc<EvalSplit>,
    ) -> Vec<Request> {
        let Some(dataset) = self.library.datasets.get_mut(&entry) else { return Vec::new() };
        if dataset.status != Status::Opening(job) {
            return Vec::new();
        }
        dataset.status = Status::Ready(part.clone());
        self.surveys.dataset = Some(entry);
        self.surveys.forget(entry);
        self.train_on(entry);
        // Images of another split go; those that stood in the library by themselves stay.
        self.library.images.retain(|_, image| image.label.is_none_or(|label| label.dataset != entry));
        let mut images = Vec::with_capacity(part.samples.len());
        for (at, sample) in part.samples.iter().enumerate() {
            let place = part.dataset.samples[*sample].source.place();
            let id = self.library.images.at(&place).unwrap_or_else(|| {
                let id = ImageId(self.fresh());
                self.library.images.insert(id, Image::new(place));
                id
            });
            self.library.images.label(id, Label { dataset: entry, at, class: part.asked.class[at] });
            images.push(id);
        }
        let first = images.first().copied();
        if let Some(dataset) = self.library.datasets.get_mut(&entry) {
            dataset.images = images;
        }
        let known = |id: &ImageId| self.library.images.contains_key(id);
        self.selection.image = self.selection.image.filter(known).or(first);
        // Columns of images that went show the current one.
        self.columns.values_mut().for_each(|column| column.image = column.image.filter(known));
        self.relook()
    }

    /// Whether something of the library is being opened.
    fn is_opening(&self) -> bool {
        let Library { backbones, probes, datasets, .. } = &self.library;
        backbones.values().any(|one| matches!(one.status, Status::Opening(_)))
            || probes.values().any(|one| matches!(one.status, Status::Opening(_)))
            || datasets.values().any(|one| matches!(one.status, Status::Opening(_)))
    }

    /// Asks what waited until all was open.
    pub(super) fn ask_waiting(&mut self) -> Vec<Request> {
        if self.surveys.waiting.is_none() || self.is_opening() {
            return Vec::new();
        }
        self.surveys.waiting.take().map_or_else(Vec::new, |all| self.ask_probes(all))
    }

    /// Asks probes about the dataset: those of the columns, changes included, or all that fit; once all
    /// is open that is being opened.
    pub(super) fn ask_probes(&mut self, all: bool) -> Vec<Request> {
        if self.is_opening() {
            self.surveys.waiting = Some(all);
            return Vec::new();
        }
        let mut wanted: Vec<(ProbeId, Intervention)> = Vec::new();
        for column in self.columns.values() {
            if !wanted.contains(&(column.probe, column.change)) {
                wanted.push((column.probe, column.change));
            }
        }
        if all {
            for probe in self.library.probes.keys() {
                if !wanted.iter().any(|(known, change)| known == probe && *change == Intervention::None) {
                    wanted.push((*probe, Intervention::None));
                }
            }
        }
        self.ask(wanted)
    }

    /// Asks changed readings of probes that were asked as trained: what a change does to the accuracy
    /// stands beside it without another click. One survey at a time; the next follows when it is over.
    pub(super) fn ask_changes(&mut self) -> Vec<Request> {
        if self.surveys.asking.is_some() {
            return Vec::new();
        }
        let mut wanted: Vec<(ProbeId, Intervention)> = Vec::new();
        for column in self.columns.values().filter(|column| column.change != Intervention::None) {
            let subject = (column.probe, column.change);
            let trained = self.survey(column.probe, Intervention::None);
            let unknown = self.survey(column.probe, column.change).is_none();
            if unknown && trained.is_some_and(|found| found.is_ok()) && !wanted.contains(&subject) {
                wanted.push(subject);
            }
        }
        if wanted.is_empty() { Vec::new() } else { self.ask(wanted) }
    }

    /// Asks these about the dataset, in the place of who is being asked.
    fn ask(&mut self, wanted: Vec<(ProbeId, Intervention)>) -> Vec<Request> {
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
            self.surveys.fault = Some(
                UserError::new("No probe can be asked")
                    .remedy("Open a backbone, and probes that fit it; then ask again"),
            );
            return Vec::new();
        }
        let mut requests = Vec::new();
        if let Some(old) = self.surveys.asking.take() {
            self.jobs.shift_remove(&old);
            requests.push(Request::Cancel(old));
        }
        let s = if subjects.len() == 1 { "" } else { "s" };
        let title = format!("Asking {} probe{s} about {}", subjects.len(), part.asked.dataset);
        let job = self.begin(JobKind::Survey, title);
        let keyed = |subject: &EvalProbe| Some((*subject, self.survey_key(subject.probe, subject.change)?));
        self.surveys.asked = subjects.iter().filter_map(keyed).collect();
        (self.surveys.asking, self.surveys.fault) = (Some(job), None);
        requests.push(Request::Compute(
            job,
            Compute::Evaluate(EvalRequest { part, subjects, settings: self.look }),
        ));
        requests
    }

    /// An answer came. One about a split that is no longer looked at is too late, as is one of a probe
    /// or a backbone that has been opened anew since it was asked: nothing says which of the two spoke.
    pub(super) fn surveyed(&mut self, answer: EvalAnswer) {
        let EvalAnswer { subject, part, result } = answer;
        let own = |dataset: &Dataset| dataset.status.ready().is_some_and(|known| Arc::ptr_eq(known, &part));
        let Some((dataset, _)) = self.library.datasets.iter().find(|(_, dataset)| own(dataset)) else {
            return;
        };
        let dataset = *dataset;
        let asked =
            self.surveys.asked.iter().find(|(asked, _)| *asked == subject).map(|(_, key)| key.clone());
        if let Some(key) =
            asked.filter(|key| self.survey_key(subject.probe, subject.change).as_ref() == Some(key))
        {
            self.surveys.put(Known { dataset, key, result });
        }
    }

    /// The job that asks is over.
    pub(super) fn end_survey(&mut self, job: JobId, fault: Option<&UserError>) {
        if self.surveys.asking == Some(job) {
            self.surveys.asking = None;
            self.surveys.fault = fault.cloned();
        }
    }

    /// Looks at a dataset, opening it where it is not.
    pub(super) fn use_dataset(&mut self, id: DatasetId) -> Vec<Request> {
        let Some(dataset) = self.library.datasets.get(&id) else { return Vec::new() };
        if dataset.status.ready().is_none() {
            return self.load_dataset(id, dataset.split);
        }
        self.surveys.dataset = Some(id);
        self.surveys.revision += 1;
        self.train_on(id);
        Vec::new()
    }

    /// Fills a dataset in for the next training, where none is yet and it has images to train on.
    fn train_on(&mut self, id: DatasetId) {
        let Some(dataset) = self.library.datasets.get(&id) else { return };
        let trains = dataset.status.ready().is_some_and(|part| part.dataset.count(Split::Train) > 0);
        if trains && self.training.draft.data.is_none() {
            self.training.draft.data = Some(dataset.path.clone());
        }
    }

    /// A dataset is `gone`: the last of the others is looked at. Its surveys stay until another one goes,
    /// for who takes its closing back.
    pub(super) fn forget_dataset(&mut self, gone: DatasetId) {
        let open = &self.library.datasets;
        self.surveys.known.retain(|known| known.dataset == gone || open.contains_key(&known.dataset));
        let there = self.surveys.dataset.filter(|id| self.library.datasets.contains_key(id));
        self.surveys.dataset = there.or_else(|| self.library.datasets.keys().last().copied());
        self.surveys.revision += 1;
        self.sieve = super::GalleryFilter::default();
    }
}
