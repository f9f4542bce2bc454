//! Opening: what is named joins the library, and the worker is asked to read it. What was recently used
//! is remembered as a person named it: of many files at once the folder they lie in.

use std::path::PathBuf;

use super::State;
use super::jobs::{JobKind, Severity};
use super::library::{Backbone, Dataset, Probe, Status};
use super::settings::remember;
use crate::app::jobs::{BackboneId, Compute, DatasetId, Fetch, Files, PathKind, ProbeId, Request};
use crate::model::data::Split;

impl State {
    /// Opens a backbone, or loads again the one of this source.
    pub(super) fn open_backbone(&mut self, source: &str) -> Vec<Request> {
        let source = source.trim().to_owned();
        if source.is_empty() {
            return Vec::new();
        }
        remember(&mut self.settings.recent.backbones, source.clone());
        let known = self.library.backbones.iter().find(|(_, backbone)| backbone.source == source);
        let id = known.map_or_else(|| BackboneId(self.next), |(id, _)| *id);
        if known.is_none() {
            let id = BackboneId(self.fresh());
            self.library.backbones.insert(id, Backbone { source, status: Status::Closed, expected: None });
        }
        self.load_backbone(id)
    }

    /// Asks the worker to load a backbone of the library, beside those that are open.
    pub(super) fn load_backbone(&mut self, id: BackboneId) -> Vec<Request> {
        let Some(backbone) = self.library.backbones.get(&id) else { return Vec::new() };
        let source = backbone.source.clone();
        let mut requests = Vec::new();
        if let Status::Opening(job) = backbone.status {
            requests.push(self.replace_job(job));
        }
        let job = self.begin(JobKind::Open, format!("Opening {source}"));
        let (device, options) = (self.settings.device.clone(), self.backbone_options);
        self.library.backbones[&id].status = Status::Opening(job);
        requests.push(Request::Fetch(job, Fetch::OpenBackbone { entry: id, source, device, options }));
        requests
    }

    /// Opens probe files that are not in the library.
    pub(super) fn open_probes(&mut self, paths: Vec<PathBuf>) -> Vec<Request> {
        let mut requests = Vec::new();
        for path in paths {
            if let Some((&id, probe)) = self.library.probes.iter().find(|(_, probe)| probe.path == path) {
                if matches!(probe.status, Status::Failed(_) | Status::Closed) {
                    requests.extend(self.load_probe(id));
                }
                continue;
            }
            let id = ProbeId(self.fresh());
            let probe = Probe { path, status: Status::Closed, expected: None, show: true };
            self.library.probes.insert(id, probe);
            requests.extend(self.load_probe(id));
        }
        requests
    }

    /// Asks the worker to load a probe of the library.
    pub(super) fn load_probe(&mut self, id: ProbeId) -> Vec<Request> {
        let probe = self.library.probes.get(&id).filter(|probe| !probe.status.is_opening());
        let Some(probe) = probe else { return Vec::new() };
        let (path, title) = (probe.path.clone(), format!("Opening {}", probe.name()));
        let job = self.begin(JobKind::Open, title);
        self.library.probes[&id].status = Status::Opening(job);
        vec![Request::Compute(job, Compute::OpenProbe { entry: id, path })]
    }

    pub(super) fn open_run(&mut self, folder: PathBuf) -> Vec<Request> {
        remember(&mut self.settings.recent.runs, folder.clone());
        let job = self.begin(JobKind::List, format!("Listing the probes of {}", folder.display()));
        vec![Request::Files(job, Files::OpenRun { folder })]
    }

    pub(super) fn open_images(&mut self, paths: Vec<PathBuf>) -> Vec<Request> {
        if paths.is_empty() {
            return Vec::new();
        }
        self.remember_images(&paths);
        let job = self.begin(JobKind::List, "Listing images");
        vec![Request::Files(job, Files::OpenImages { paths })]
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
        let dataset = self.library.datasets.get(&id).filter(|dataset| !dataset.status.is_opening());
        let Some(dataset) = dataset else { return Vec::new() };
        let path = dataset.path.clone();
        let job = self.begin(JobKind::Open, format!("Opening {}", dataset.name()));
        let dataset = &mut self.library.datasets[&id];
        (dataset.status, dataset.split) = (Status::Opening(job), split);
        vec![Request::Files(job, Files::OpenDataset { entry: id, path, split })]
    }

    /// Looks at a dataset, opening it where it is not.
    pub(super) fn use_dataset(&mut self, id: DatasetId) -> Vec<Request> {
        let Some(dataset) = self.library.datasets.get(&id) else { return Vec::new() };
        if dataset.status.ready().is_none() {
            return self.load_dataset(id, dataset.split);
        }
        self.evaluations.dataset = Some(id);
        self.evaluations.revision += 1;
        self.train_on(id);
        Vec::new()
    }

    /// Fills a dataset in for the next training, where none is yet and it has images to train on.
    pub(super) fn train_on(&mut self, id: DatasetId) {
        let Some(dataset) = self.library.datasets.get(&id) else { return };
        let trains = dataset.status.ready().is_some_and(|part| part.dataset.count(Split::Train) > 0);
        if trains && self.training.form.data.is_none() {
            self.training.form.data = Some(dataset.path.clone());
        }
    }

    /// Opens what was dropped, each by its kind.
    pub(super) fn open_recognised(&mut self, found: Vec<(PathBuf, PathKind)>) -> Vec<Request> {
        let all = |kind: PathKind| -> Vec<PathBuf> {
            found.iter().filter(|(_, found)| *found == kind).map(|(path, _)| path.clone()).collect()
        };
        let mut requests = Vec::new();
        for folder in all(PathKind::Backbone) {
            requests.extend(self.open_backbone(&folder.display().to_string()));
        }
        requests.extend(self.open_probes(all(PathKind::Probe)));
        for run in all(PathKind::Run) {
            requests.extend(self.open_run(run));
        }
        for path in all(PathKind::Dataset) {
            requests.extend(self.open_dataset(path, None));
        }
        requests.extend(self.open_images(all(PathKind::Images)));
        for path in all(PathKind::Workspace) {
            let text =
                format!("{}: a workspace replaces all that is open; use Open workspace", path.display());
            remember(&mut self.settings.recent.workspaces, path);
            self.note(Severity::Info, text);
        }
        for path in all(PathKind::Missing) {
            self.note(Severity::Warning, format!("{}: there is no such file or folder", path.display()));
        }
        for path in all(PathKind::Unknown) {
            let text = format!("{}: neither backbone, probe, dataset, image nor workspace", path.display());
            self.note(Severity::Warning, text);
        }
        requests
    }

    /// Remembers probe files, or the folder of several.
    pub(super) fn remember_probes(&mut self, paths: &[PathBuf]) {
        let recent = &mut self.settings.recent;
        match folder_of(paths) {
            Some(folder) => remember(&mut recent.runs, folder),
            None => paths.iter().rev().for_each(|path| remember(&mut recent.probes, path.clone())),
        }
    }

    /// Remembers images and folders of images, or the folder of several.
    pub(super) fn remember_images(&mut self, paths: &[PathBuf]) {
        let recent = &mut self.settings.recent.images;
        match folder_of(paths) {
            Some(folder) => remember(recent, folder),
            None => paths.iter().rev().for_each(|path| remember(recent, path.clone())),
        }
    }
}

/// The folder in which several files lie, all of them.
fn folder_of(paths: &[PathBuf]) -> Option<PathBuf> {
    let folder = paths.first()?.parent().filter(|folder| folder.file_name().is_some())?;
    let all = paths.len() > 1 && paths.iter().all(|path| path.parent() == Some(folder));
    all.then(|| folder.to_owned())
}
