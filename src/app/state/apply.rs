//! Applies the worker's events to the state.

use std::path::PathBuf;
use std::sync::Arc;

use super::State;
use super::jobs::{JobKind, Severity};
use super::library::{Image, Label, Status};
use super::run_choice::MAX_AUTO_COLUMNS;
use crate::app::jobs::evaluate::EvalSplit;
use crate::app::jobs::info::{BackboneInfo, ProbeInfo};
use crate::app::jobs::user_error::UserError;
use crate::app::jobs::{BackboneId, DatasetId, Event, ImageId, JobId, ProbeId, Request};
use crate::model::data::ImageSource;

impl State {
    /// Applies an event of the worker; returns the requests that follow from it.
    pub fn apply(&mut self, event: Event) -> Vec<Request> {
        if self.is_stale(&event) {
            return Vec::new();
        }
        self.explain_event(&event);
        if let Event::Explained { job, results } = &event {
            self.sheet_explained(*job, results);
            self.shared_explained(*job, results);
        }
        // Read before the job is removed from the list.
        let kind = match &event {
            Event::Failed(job, _) | Event::Cancelled(job) | Event::Finished(job) => {
                self.jobs.get(job).map(|job| job.kind)
            }
            _ => None,
        };
        self.job_event(&event);
        match event {
            Event::BackboneOpened { job, entry, info } => return self.backbone_opened(job, entry, info),
            Event::ProbeOpened { job, entry, info } => return self.probe_opened(job, entry, info),
            Event::ProbesListed { paths, sources, .. } => {
                let mut requests = self.open_sources(sources);
                requests.extend(self.open_run_probes(paths, true));
                return requests;
            }
            Event::ImagesListed { job, paths } => return self.add_images(job, paths),
            Event::DatasetOpened { job, entry, part } => return self.dataset_opened(job, entry, part),
            Event::StabilityMeasured { job, answer } => {
                self.stabilities.answered(job, answer.result, |key| key.is_read_by(&self.library));
            }
            Event::RemovalMeasured { job, answer } => {
                self.removals.answered(job, answer, |key| key.is_read_by(&self.library));
            }
            Event::ImagesCompared(job, space) => self.similarities.answered(job, Ok(space), |_| true),
            Event::Evaluated { job, answer } => self.evaluated(job, answer),
            Event::Recognised { found, .. } => return self.open_recognised(found),
            Event::FolderListed { job, folder } => self.folder_listed(job, folder),
            Event::ThumbnailReady { image, picture } => self.put_thumbnail(image, Ok(picture)),
            Event::ThumbnailFailed { image, error } => self.put_thumbnail(image, Err(error)),
            Event::Memory(bytes) => self.remote_memory = Some(bytes),
            Event::Training { job, event } => return self.training_event(job, event),
            Event::RunRead { job, folder, snapshot } => return self.read_run(job, folder, snapshot),
            Event::Failed(job, error) => return self.end_job(kind, job, Some(&error)),
            Event::Cancelled(job) => return self.end_job(kind, job, None),
            Event::Finished(job) => {
                self.end_results(kind, job, None);
                let mut requests = self.evaluate_interventions();
                requests.extend(self.end_sheet(job, None));
                requests.extend(self.end_shared(job, None));
                return requests;
            }
            // Applied by `explain_event` and `job_event` above, or sent to the command line alone.
            Event::Started(_)
            | Event::Progress(..)
            | Event::Explained { .. }
            | Event::Warning { .. }
            | Event::Inspect { .. }
            | Event::Eval { .. }
            | Event::Extract { .. } => {}
        }
        Vec::new()
    }

    /// Whether an event belongs to a job of a workspace that was closed meanwhile.
    fn is_stale(&self, event: &Event) -> bool {
        match event {
            Event::ProbesListed { job, .. }
            | Event::ImagesListed { job, .. }
            | Event::Recognised { job, .. }
            | Event::RunRead { job: Some(job), .. } => !self.jobs.contains_key(job),
            _ => false,
        }
    }

    /// Ends a job without a result: it failed with `error`, or was cancelled if there is none.
    fn end_job(&mut self, kind: Option<JobKind>, job: JobId, error: Option<&UserError>) -> Vec<Request> {
        self.library.end_opening(job, error);
        self.end_results(kind, job, error);
        let mut requests = self.show_best_of_run();
        requests.extend(self.adopt_probe_options());
        requests.extend(self.end_sheet(job, error));
        requests.extend(self.end_shared(job, error));
        // Columns may have waited for the entry that was being opened.
        requests.extend(self.request_columns());
        requests
    }

    /// Ends the waiting for a job's results: it failed with `error`, or was cancelled or finished if there is none. For a job
    /// that was replaced, which has no `kind`, nothing waits.
    fn end_results(&mut self, kind: Option<JobKind>, job: JobId, error: Option<&UserError>) {
        match kind {
            Some(JobKind::Plan | JobKind::Train | JobKind::Tasks) => self.end_training(job, error),
            Some(JobKind::Evaluate) => self.end_evaluation(job, error),
            Some(JobKind::Stability) => self.stabilities.end_with(job, error),
            Some(JobKind::Removal) => self.removals.end_with(job, error),
            Some(JobKind::Similarity) => self.end_similarity(job, error),
            Some(JobKind::Browse) => self.end_browsing(job, error),
            // Ended by `explain_event` and `end_opening`, and where further requests follow.
            Some(JobKind::Open | JobKind::List | JobKind::Explain | JobKind::Sheet | JobKind::Share)
            | None => {}
        }
    }

    fn backbone_opened(&mut self, job: JobId, id: BackboneId, info: BackboneInfo) -> Vec<Request> {
        let backbone = self.library.backbones.get_mut(&id);
        let Some(backbone) = backbone.filter(|backbone| backbone.status == Status::Opening(job)) else {
            return Vec::new();
        };
        let changed = backbone.expected.take().is_some_and(|expected| expected != info.fingerprint);
        let text = format!("{}: the weights differ from when the workspace was saved", info.id);
        backbone.status = Status::Ready(Arc::new(info));
        if self.training.form.backbone.is_empty() {
            self.training.form.backbone.clone_from(&backbone.source);
        }
        if changed {
            self.note(Severity::Warning, text);
        }
        let mut requests = self.open_layers_of_run();
        requests.extend(self.explain_columns());
        requests
    }

    fn probe_opened(&mut self, job: JobId, id: ProbeId, info: ProbeInfo) -> Vec<Request> {
        let probe = self.library.probes.get_mut(&id);
        let Some(probe) = probe.filter(|probe| probe.status == Status::Opening(job)) else {
            return Vec::new();
        };
        let changed = probe.expected.take().is_some_and(|expected| expected != info.fingerprint);
        let text = format!("{}: has changed since the workspace was saved", probe.name());
        probe.status = Status::Ready(Arc::new(info));
        let show = std::mem::take(&mut probe.show);
        let show = show && self.compared().count() < MAX_AUTO_COLUMNS;
        if changed {
            self.note(Severity::Warning, text);
        }
        if show && self.columns.values().all(|column| column.probe != id) {
            self.push_column(id);
        }
        let mut requests = self.show_best_of_run();
        requests.extend(self.explain_columns());
        requests
    }

    /// Adds listed images. The first one of a job becomes the current image, unless another was selected since it began.
    fn add_images(&mut self, job: JobId, paths: Vec<PathBuf>) -> Vec<Request> {
        let images: Vec<ImageId> = paths.into_iter().map(|path| self.add_image(path.into())).collect();
        let Some(&first) = images.first() else { return Vec::new() };
        let selects = self.jobs.get_mut(&job).is_some_and(|job| std::mem::take(&mut job.selects));
        if !selects && self.selection.image.is_some() || self.selection.image == Some(first) {
            return Vec::new();
        }
        self.selection.image = Some(first);
        self.widen_gallery_to(first);
        self.explain_columns()
    }

    /// A dataset was opened: its images are added to the library, each with its class.
    fn dataset_opened(&mut self, job: JobId, id: DatasetId, part: Arc<EvalSplit>) -> Vec<Request> {
        let dataset = self.library.datasets.get_mut(&id);
        let Some(dataset) = dataset.filter(|dataset| dataset.status == Status::Opening(job)) else {
            return Vec::new();
        };
        dataset.status = Status::Ready(part.clone());
        let show = std::mem::take(&mut dataset.show);
        // The dataset's images may get new ids: the selected ones are found again by their paths.
        let source_of = |image: Option<ImageId>| Some(self.library.images.get(&image?)?.source.clone());
        let selected = source_of(self.selection.image);
        let in_columns: Vec<_> = self.columns.values().map(|column| source_of(column.image)).collect();
        self.evaluations.dataset.get_or_insert(id);
        self.evaluations.forget(id);
        self.training.form.data = self.training_data(id, None);
        // Images of another split are removed; those that are not of this dataset stay.
        let thumbnails = &mut self.thumbnails;
        self.library.images.retain(|image, known| {
            let keep = known.label.is_none_or(|label| label.dataset != id);
            if !keep {
                thumbnails.forget(image);
            }
            keep
        });
        let mut images = Vec::with_capacity(part.samples.len());
        for (at, sample) in part.samples.iter().enumerate() {
            let image = self.dataset_image(part.dataset.samples[*sample].source.clone(), id);
            self.library.images.label(image, Label { dataset: id, at, class: part.set.class[at] });
            images.push(image);
        }
        let first = images.first().copied();
        self.library.images.sort(id);
        self.library.datasets[&id].images = images;
        let library = &self.library.images;
        let find_again = |image: Option<ImageId>, source: Option<ImageSource>| {
            image.filter(|image| library.contains_key(image)).or_else(|| library.at(&source?))
        };
        self.selection.image = find_again(self.selection.image, selected).or(first);
        // Columns whose image was removed show the current one.
        for (column, source) in self.columns.values_mut().zip(in_columns) {
            column.image = find_again(column.image, source);
        }
        if show {
            self.show_dataset(id);
        }
        // The gallery of a restored session shows the current image: once all datasets are open it is known to be of none.
        let opening = self.library.datasets.values().any(|dataset| dataset.status.is_opening());
        let loose =
            |image: &ImageId| self.library.images.get(image).is_some_and(|image| image.label.is_none());
        if self.evaluations.is_restored
            && !opening
            && let Some(image) = self.selection.image.filter(loose)
        {
            self.widen_gallery_to(image);
        }
        self.explain_columns()
    }

    /// The id of a dataset's image. An image of the same path that is labelled by another dataset is not reused.
    fn dataset_image(&mut self, source: ImageSource, dataset: DatasetId) -> ImageId {
        let known = self.library.images.at(&source).filter(|id| {
            let label = self.library.images.get(id).and_then(|image| image.label);
            label.is_none_or(|label| label.dataset == dataset)
        });
        known.unwrap_or_else(|| self.insert_image(source))
    }

    /// The id of an image, which is added to the library if it is not there.
    fn add_image(&mut self, source: ImageSource) -> ImageId {
        self.library.images.at(&source).unwrap_or_else(|| self.insert_image(source))
    }

    fn insert_image(&mut self, source: ImageSource) -> ImageId {
        let id = ImageId(self.fresh());
        self.library.images.insert(id, Image::new(source));
        id
    }
}
