//! What the worker says, into the state.

use std::path::PathBuf;
use std::sync::Arc;

use super::jobs::Severity;
use super::library::{Image, Status};
use super::settings::remember;
use super::thumbnails::Thumbnail;
use super::{Column, State};
use crate::app::jobs::{ColumnId, Event, ImageId, JobId, PathKind, Request};
use crate::app::user_error::UserError;
use crate::model::data::ImageSource;
use crate::model::explain::intervention::Intervention;

/// Probes that become columns by themselves; more are added by hand.
const COLUMNS: usize = 4;

impl State {
    /// Takes what the worker says; answers with what to ask it for next.
    pub fn apply(&mut self, event: Event) -> Vec<Request> {
        if self.is_late(&event) {
            return Vec::new();
        }
        self.see(&event);
        self.follow(&event);
        match event {
            Event::BackboneOpened { job, entry, facts } => {
                let Some(backbone) = self.library.backbones.get_mut(&entry) else { return Vec::new() };
                if backbone.status != Status::Opening(job) {
                    return Vec::new();
                }
                let expected = backbone.expected.take();
                let changed = expected.is_some_and(|expected| expected != facts.fingerprint);
                let name = facts.id.clone();
                backbone.status = Status::Ready(Arc::new(facts));
                if self.training.draft.backbone.is_empty() {
                    self.training.draft.backbone.clone_from(&backbone.source);
                }
                if changed {
                    self.note(
                        Severity::Warning,
                        format!("{name}: other weights than when the workspace was saved"),
                    );
                }
                self.relook()
            }
            Event::ProbeOpened { job, entry, facts } => {
                let Some(probe) = self.library.probes.get_mut(&entry) else { return Vec::new() };
                if probe.status != Status::Opening(job) {
                    return Vec::new();
                }
                let expected = probe.expected.take();
                let changed = expected.is_some_and(|expected| expected != facts.fingerprint);
                probe.status = Status::Ready(Arc::new(facts));
                let show = std::mem::take(&mut probe.show);
                let name = probe.name();
                if changed {
                    self.note(
                        Severity::Warning,
                        format!("{name}: has changed since the workspace was saved"),
                    );
                }
                if show && self.columns.len() < COLUMNS && self.columns.values().all(|c| c.probe != entry) {
                    let id = ColumnId(self.fresh());
                    self.columns.insert(id, Column::new(entry, None, Intervention::None));
                }
                self.relook()
            }
            Event::ProbesListed { paths, .. } => self.open_probes(paths),
            Event::ImagesListed { paths, .. } => self.add_images(paths),
            Event::DatasetOpened { job, entry, part } => self.dataset_opened(job, entry, part),
            Event::Steadied { answer, .. } => {
                self.steadied(answer);
                Vec::new()
            }
            Event::Surveyed { answer, .. } => {
                self.surveyed(answer);
                Vec::new()
            }
            Event::Recognised { found, .. } => self.open_recognised(found),
            Event::ThumbnailReady { image, picture } => {
                if self.library.images.contains_key(&image) {
                    self.thumbnails.put(image, Thumbnail::Ready(picture));
                }
                Vec::new()
            }
            Event::ThumbnailFailed { image, fault } => {
                if self.library.images.contains_key(&image) {
                    self.thumbnails.put(image, Thumbnail::Failed(fault.lines.join(": ")));
                }
                Vec::new()
            }
            Event::Training { job, news } => self.hear(job, news),
            Event::RunRead { folder, reading, .. } => self.read_run(folder, reading),
            Event::Failed(job, fault) => {
                self.settle(job, Some(&fault));
                self.end_training(job, Some(&fault));
                self.read_as_agreed()
            }
            Event::Cancelled(job) => {
                self.settle(job, None);
                self.end_training(job, None);
                self.read_as_agreed()
            }
            // Told by the job itself.
            Event::Started(_) | Event::Progress(..) | Event::Looked { .. } | Event::Warning { .. } => {
                Vec::new()
            }
            Event::Finished(job) => {
                self.end_training(job, None);
                self.end_survey(job, None);
                self.end_stability(job, None);
                self.ask_changes()
            }
        }
    }

    /// Whether an event was on its way still when the workspace it was for was gone.
    fn is_late(&self, event: &Event) -> bool {
        match event {
            Event::ProbesListed { job, .. }
            | Event::ImagesListed { job, .. }
            | Event::Recognised { job, .. }
            | Event::RunRead { job: Some(job), .. } => !self.jobs.contains_key(job),
            _ => false,
        }
    }

    /// Entries that `job` was opening are failed, or closed where there is no fault.
    fn settle(&mut self, job: JobId, fault: Option<&UserError>) {
        for backbone in self.library.backbones.values_mut() {
            if backbone.status == Status::Opening(job) {
                backbone.status = fault.map_or(Status::Closed, |fault| Status::Failed(fault.clone()));
            }
        }
        self.end_survey(job, fault);
        self.end_stability(job, fault);
        for dataset in self.library.datasets.values_mut() {
            if dataset.status == Status::Opening(job) {
                dataset.status = fault.map_or(Status::Closed, |fault| Status::Failed(fault.clone()));
            }
        }
        for probe in self.library.probes.values_mut() {
            if probe.status == Status::Opening(job) {
                probe.status = fault.map_or(Status::Closed, |fault| Status::Failed(fault.clone()));
            }
        }
    }

    /// Adds images that are not in the library; the first that was named becomes the current one.
    fn add_images(&mut self, paths: Vec<PathBuf>) -> Vec<Request> {
        let mut first = None;
        for place in paths.into_iter().map(ImageSource::from) {
            let id = self.library.images.at(&place).unwrap_or_else(|| {
                let id = ImageId(self.fresh());
                self.library.images.insert(id, Image::new(place));
                id
            });
            first.get_or_insert(id);
        }
        if first.is_none() || self.selection.image == first {
            return Vec::new();
        }
        self.selection.image = first;
        self.relook()
    }

    /// Opens what was dropped, each by its kind.
    fn open_recognised(&mut self, found: Vec<(PathBuf, PathKind)>) -> Vec<Request> {
        let of = |kind: PathKind| -> Vec<PathBuf> {
            found.iter().filter(|(_, found)| *found == kind).map(|(path, _)| path.clone()).collect()
        };
        let mut requests = Vec::new();
        for folder in of(PathKind::Backbone) {
            requests.extend(self.open_backbone(&folder.display().to_string()));
        }
        let probes = of(PathKind::Probe);
        if !probes.is_empty() {
            requests.extend(self.open_probes(probes));
        }
        for run in of(PathKind::Run) {
            requests.extend(self.open_run(run));
        }
        for path in of(PathKind::Dataset) {
            requests.extend(self.open_dataset(path, None));
        }
        let images = of(PathKind::Images);
        if !images.is_empty() {
            requests.extend(self.open_images(images));
        }
        for path in of(PathKind::Workspace) {
            remember(&mut self.settings.recent.workspaces, path.clone());
            let text =
                format!("{}: a workspace replaces all that is open; use Open workspace", path.display());
            self.note(Severity::Info, text);
        }
        for path in of(PathKind::Missing) {
            self.note(Severity::Warning, format!("{}: there is no such file or folder", path.display()));
        }
        for path in of(PathKind::Unknown) {
            let text = format!("{}: neither backbone, probe, dataset, image nor workspace", path.display());
            self.note(Severity::Warning, text);
        }
        requests
    }
}
