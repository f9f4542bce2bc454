//! Opening: adds entries to the library, and requests that the worker opens them.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use super::jobs::{JobKind, Severity};
use super::library::{Backbone, Dataset, Library, Probe, Status};
use super::recent::{self, RecentItem};
use super::run_choice::MAX_AUTO_COLUMNS;
use super::{GalleryFilter, Scope, Selection, State};
use crate::app::jobs::{
    BackboneId, BackboneOptions, Compute, DatasetId, Fetch, Files, ImageId, JobId, PathKind, ProbeId, Request,
};
use crate::model::backbone::hub::is_id;
use crate::model::data::Split;

impl State {
    /// Opens a backbone, or opens the one of this source without options of its own again.
    pub(super) fn open_backbone(&mut self, source: &str) -> Vec<Request> {
        let source = source.trim().to_owned();
        if source.is_empty() {
            return Vec::new();
        }
        let id = self.backbone_from(source.clone(), None);
        let requests = self.load_backbone(id);
        if let Status::Opening(job) = self.library.backbones[&id].status {
            self.remember_on_finish(job, vec![RecentItem::Backbone(source)]);
        }
        requests
    }

    /// The backbone of this source with these options of its own, or with none; a closed one is added if the library has none.
    pub(super) fn backbone_from(&mut self, source: String, own: Option<BackboneOptions>) -> BackboneId {
        let mut all = self.library.backbones.iter();
        if let Some((id, _)) = all.find(|(_, known)| known.source == source && known.own == own) {
            return *id;
        }
        let id = BackboneId(self.fresh());
        let backbone = Backbone { source, status: Status::Closed, expected: None, own };
        self.library.backbones.insert(id, backbone);
        id
    }

    /// The name of the backbone that a probe was trained on, as its file says, and where that is opened from: one of the library, of
    /// the runs opened here, of the recent ones of this machine, or of the Hub. `None` if an open one serves the probe, if that of this
    /// name is open and does not, or if none is found.
    pub fn backbone_to_open(&self, probe: ProbeId) -> Option<(&str, String)> {
        let name = self.library.probe_info(probe)?.backbone.as_str();
        let is_named = |source: &&String| {
            source.as_str() == name || Path::new(source).file_name().is_some_and(|folder| folder == name)
        };
        let all = self.library.backbones.values();
        let is_open = |backbone: &Backbone| {
            let known = backbone.status.ready().is_some_and(|info| info.id == name);
            known || backbone.status.is_open() && is_named(&&backbone.source)
        };
        if self.library.backbone_of(probe).is_some() || all.clone().any(is_open) {
            return None;
        }
        let recent = self.settings.recent.backbones.iter().filter(|_| self.connection.host().is_none());
        let mut known = all.map(|backbone| &backbone.source).chain(&self.run_backbones).chain(recent);
        let known = known.find(is_named).cloned();
        Some((name, known.or_else(|| is_id(name).then(|| name.to_owned()))?))
    }

    /// Requests that the worker opens a backbone of the library, besides those that are open.
    pub(super) fn load_backbone(&mut self, id: BackboneId) -> Vec<Request> {
        let Some(backbone) = self.library.backbones.get(&id) else { return Vec::new() };
        let (source, name) = (backbone.source.clone(), backbone.name());
        let (status, options) = (backbone.status.clone(), backbone.own.unwrap_or(self.backbone_options));
        let (job, older) = self.begin_opening(&status, &name);
        let device = self.settings.device.clone();
        self.library.backbones[&id].status = Status::Opening(job);
        let open = Request::Fetch(job, Fetch::OpenBackbone { entry: id, source, device, options });
        older.into_iter().chain([open]).collect()
    }

    /// Begins the job that opens an entry, in place of one that is opening it now, and takes over what that was to remember.
    fn begin_opening<Info>(&mut self, now: &Status<Info>, name: &str) -> (JobId, Option<Request>) {
        let older = if let Status::Opening(job) = now { self.jobs.get(job) } else { None };
        let recent = older.map(|job| job.recent.clone()).unwrap_or_default();
        let cancelled = self.stop_opening(now);
        let job = self.begin(JobKind::Open, format!("Opening {name}"));
        self.remember_on_finish(job, recent);
        (job, cancelled)
    }

    /// Cancels the job that opens an entry, or removes it if it has failed.
    pub(super) fn stop_opening<Info>(&mut self, status: &Status<Info>) -> Option<Request> {
        match status {
            Status::Opening(job) => Some(self.replace_job(*job)),
            Status::Failed(job, _) => {
                self.jobs.shift_remove(job);
                None
            }
            Status::Ready(_) | Status::Closed => None,
        }
    }

    /// Opens probe files that are not open, each with a column, and remembers those that could be opened.
    pub(super) fn open_probe_files(&mut self, paths: Vec<PathBuf>) -> Vec<Request> {
        let mut requests = self.open_probes(paths.clone(), true);
        // By their common folder, else each by its path.
        let folder = recent::common_folder(&paths).map(RecentItem::Run);
        for request in &requests {
            if let Request::Compute(job, Compute::OpenProbe { path, .. }) = request {
                let item = folder.clone().unwrap_or_else(|| RecentItem::Probe(path.clone()));
                self.remember_on_finish(*job, vec![item]);
            }
        }
        // A single probe that gets no column is focused, so that what was opened is shown.
        let known = self.library.probes.iter().find(|(_, probe)| paths == [probe.path.as_path()]);
        if let Some((&id, probe)) = known
            && (probe.status.ready().is_some() || self.compared().count() >= MAX_AUTO_COLUMNS)
        {
            requests.extend(self.show_probe(id));
        }
        requests
    }

    /// Opens probe files that are not open. With `show` they get columns, up to [`MAX_AUTO_COLUMNS`] in the comparison.
    pub(super) fn open_probes(&mut self, paths: Vec<PathBuf>, show: bool) -> Vec<Request> {
        let mut requests = Vec::new();
        let known = self.library.probes.iter().map(|(id, probe)| (probe.path.clone(), *id));
        let mut known: HashMap<PathBuf, ProbeId> = known.collect();
        for path in paths {
            let id = *known.entry(path.clone()).or_insert_with(|| {
                let id = ProbeId(self.fresh());
                let probe = Probe { path, status: Status::Closed, expected: None, show: false };
                self.library.probes.insert(id, probe);
                id
            });
            let probe = &mut self.library.probes[&id];
            if !probe.status.is_open() {
                probe.show |= show;
                requests.extend(self.load_probe(id));
            }
        }
        requests
    }

    /// Requests that the worker opens a probe of the library.
    pub(super) fn load_probe(&mut self, id: ProbeId) -> Vec<Request> {
        let Some(probe) = self.library.probes.get(&id) else { return Vec::new() };
        let (path, name) = (probe.path.clone(), probe.name());
        let (job, older) = self.begin_opening(&probe.status.clone(), &name);
        self.library.probes[&id].status = Status::Opening(job);
        older.into_iter().chain([Request::Compute(job, Compute::OpenProbe { entry: id, path })]).collect()
    }

    /// Requests that the worker opens again what could not be opened.
    pub(super) fn reopen_failed(&mut self) -> Vec<Request> {
        let Library { backbones, probes, datasets, .. } = &self.library;
        let backbones = failed(backbones.iter().map(|(id, backbone)| (*id, &backbone.status)));
        let probes = failed(probes.iter().map(|(id, probe)| (*id, &probe.status)));
        let datasets = failed(datasets.iter().map(|(id, dataset)| ((*id, dataset.split), &dataset.status)));
        let mut requests: Vec<Request> =
            backbones.into_iter().flat_map(|id| self.load_backbone(id)).collect();
        requests.extend(probes.into_iter().flat_map(|id| self.load_probe(id)));
        requests.extend(datasets.into_iter().flat_map(|(id, split)| self.load_dataset(id, split)));
        requests
    }

    pub(super) fn open_run(&mut self, folder: PathBuf) -> Vec<Request> {
        let job = self.begin(JobKind::List, format!("Opening {}", folder.display()));
        self.remember_on_finish(job, vec![RecentItem::Run(folder.clone())]);
        vec![Request::Files(job, Files::OpenRun { folder })]
    }

    pub(super) fn open_images(&mut self, paths: Vec<PathBuf>) -> Vec<Request> {
        if paths.is_empty() {
            return Vec::new();
        }
        let job = self.begin(JobKind::List, "Listing images");
        self.remember_on_finish(job, recent::image_items(&paths));
        vec![Request::Files(job, Files::OpenImages { paths })]
    }

    /// Opens a dataset, or another split of one that is open.
    pub(super) fn open_dataset(&mut self, path: PathBuf, split: Option<Split>) -> Vec<Request> {
        let known = self.library.datasets.iter().find(|(_, dataset)| dataset.path == path).map(|(id, _)| *id);
        let id = known.unwrap_or_else(|| DatasetId(self.fresh()));
        if known.is_none() {
            self.library.datasets.insert(id, Dataset::new(path.clone(), split));
        }
        self.library.datasets[&id].show = true;
        self.evaluations.deferred = None; // it was asked for on the dataset in use before
        let requests = self.load_dataset(id, split);
        if let Status::Opening(job) = self.library.datasets[&id].status {
            self.remember_on_finish(job, vec![RecentItem::Dataset(path)]);
        }
        requests
    }

    /// Requests that the worker opens a dataset of the library, unless it is being opened.
    pub(super) fn load_dataset(&mut self, id: DatasetId, split: Option<Split>) -> Vec<Request> {
        let dataset = self.library.datasets.get(&id).filter(|dataset| !dataset.status.is_opening());
        let Some(dataset) = dataset else { return Vec::new() };
        let (path, name, status) = (dataset.path.clone(), dataset.name(), dataset.status.clone());
        let (job, _) = self.begin_opening(&status, &name);
        let dataset = &mut self.library.datasets[&id];
        (dataset.status, dataset.split) = (Status::Opening(job), split);
        vec![Request::Files(job, Files::OpenDataset { entry: id, path, split })]
    }

    /// Makes a dataset the one in use, opening it if it is not open.
    pub(super) fn use_dataset(&mut self, id: DatasetId) -> Vec<Request> {
        let Some(dataset) = self.library.datasets.get_mut(&id) else { return Vec::new() };
        if dataset.status.ready().is_none() {
            dataset.show = true;
            let split = dataset.split;
            return self.load_dataset(id, split);
        }
        let text = format!("Use {}", dataset.name());
        self.choose_dataset(text, id, GalleryFilter::new(Scope::Dataset(id)), self.image_of(id))
    }

    /// Makes an open dataset the one in use, as an undoable step: the gallery shows `filter`, and `image` becomes the current image.
    pub(super) fn choose_dataset(
        &mut self,
        text: String,
        id: DatasetId,
        filter: GalleryFilter,
        image: Option<ImageId>,
    ) -> Vec<Request> {
        self.jobs.values_mut().for_each(|job| job.selects = false); // images that are still being listed
        let is_gallery = self.evaluations.dataset == Some(id) && self.gallery_filter == filter;
        if is_gallery && self.selection.image == image {
            return Vec::new();
        }
        let selection = Selection { image, ..self.selection.clone() };
        let data = (self.training.form.data.clone(), self.training_data(id, self.evaluations.dataset));
        self.change(text, |p| {
            (p.gallery, p.selection) = (Some((Some(id), filter)), Some(selection));
            p.training_data = (data.0 != data.1).then_some(data);
        })
    }

    /// Makes an open dataset the one in use: the gallery shows its images, and one of them becomes the current image.
    pub(super) fn show_dataset(&mut self, id: DatasetId) {
        let before = self.evaluations.dataset.replace(id);
        self.training.form.data = self.training_data(id, before);
        self.evaluations.revision += 1;
        self.gallery_filter = GalleryFilter::new(Scope::Dataset(id));
        self.selection.image = self.image_of(id);
    }

    /// The current image if it is one of this dataset or that has none, else its first one.
    fn image_of(&self, id: DatasetId) -> Option<ImageId> {
        let images = &self.library.images;
        let own =
            |image: &ImageId| images.get(image)?.label.filter(|label| label.dataset == id).map(|_| *image);
        let current = self.selection.image.as_ref().and_then(own);
        let first = || self.library.datasets.get(&id)?.images.iter().find_map(own);
        current.or_else(first).or(self.selection.image)
    }

    /// The dataset in the form of the next training once `id` is in use: this one if it has a training split, unless another
    /// than the dataset in use `before` was chosen there.
    pub(super) fn training_data(&self, id: DatasetId, before: Option<DatasetId>) -> Option<PathBuf> {
        let (datasets, now) = (&self.library.datasets, &self.training.form.data);
        let before = before.and_then(|id| datasets.get(&id)).map(|dataset| &dataset.path);
        let is_chosen = now.is_some() && now.as_ref() != before;
        let trains = |dataset: &&Dataset| {
            dataset.status.ready().is_some_and(|part| part.dataset.count(Split::Train) > 0)
        };
        let next = datasets.get(&id).filter(|_| !is_chosen).filter(trains);
        next.map_or_else(|| now.clone(), |dataset| Some(dataset.path.clone()))
    }

    /// Opens what the probes of a run were trained on, so that they can be shown at once: its backbone if the library has
    /// none, its dataset if the library has neither dataset nor image.
    pub(super) fn open_sources(&mut self, mut sources: Vec<(PathBuf, PathKind)>) -> Vec<Request> {
        let backbones = sources.iter().filter(|(_, kind)| *kind == PathKind::Backbone);
        self.run_backbones.extend(backbones.map(|(path, _)| path.display().to_string()));
        let library = &self.library;
        sources.retain(|(_, kind)| match kind {
            PathKind::Backbone => library.backbones.is_empty(),
            _ => library.datasets.is_empty() && library.images.is_empty(),
        });
        self.open_recognised(sources)
    }

    /// Opens paths by their recognised kinds; notes those that cannot be opened.
    pub(super) fn open_recognised(&mut self, found: Vec<(PathBuf, PathKind)>) -> Vec<Request> {
        let all = |kind: PathKind| -> Vec<PathBuf> {
            found.iter().filter(|(_, found)| *found == kind).map(|(path, _)| path.clone()).collect()
        };
        let mut requests = Vec::new();
        for folder in all(PathKind::Backbone) {
            requests.extend(self.open_backbone(&folder.display().to_string()));
        }
        requests.extend(self.open_probe_files(all(PathKind::Probe)));
        for run in all(PathKind::Run) {
            requests.extend(self.open_run(run));
        }
        for path in all(PathKind::Dataset) {
            requests.extend(self.open_dataset(path, None));
        }
        requests.extend(self.open_images(all(PathKind::Images)));
        for path in all(PathKind::Workspace) {
            let text = format!(
                "{}: a workspace replaces everything that is open; use Open workspace",
                path.display()
            );
            if self.connection.host().is_none() {
                self.remember_workspace(path);
            }
            self.note(Severity::Info, text);
        }
        for path in all(PathKind::Missing) {
            let text = format!("{}: no such file or folder, or none that this user may read", path.display());
            self.note(Severity::Warning, text);
        }
        for path in all(PathKind::Unknown) {
            let text = format!("{}: not a backbone, probe, run, dataset, image or workspace", path.display());
            self.note(Severity::Warning, text);
        }
        requests
    }
}

/// Those of the entries that could not be opened.
fn failed<'a, Id, Info: 'a>(entries: impl Iterator<Item = (Id, &'a Status<Info>)>) -> Vec<Id> {
    entries.filter(|(_, status)| status.has_failed()).map(|(id, _)| id).collect()
}
