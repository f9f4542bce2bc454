//! Conversion between the state and a workspace.

use std::collections::HashSet;

use indexmap::IndexMap;
use serde_json::Value;

use super::backbone_options::CommonOptions;
use super::jobs::{Job, JobKind};
use super::library::{Backbone, Dataset, Image, Probe, Status};
use super::undo::Undo;
use super::workspace::{
    SavedBackbone, SavedColumn, SavedDataset, SavedImage, SavedNote, SavedProbe, Workspace,
};
use super::{Column, GalleryFilter, Scope, State};
use crate::app::jobs::{BackboneId, ImageId, JobId, Request};
use crate::model::data::{ImageSource, Split};

impl State {
    /// The state as a workspace; the window passes its `layout`.
    pub fn workspace(&self, layout: Value) -> Workspace {
        let backbone = |(id, backbone): (&BackboneId, &Backbone)| SavedBackbone {
            id: *id,
            source: backbone.source.clone(),
            fingerprint: backbone
                .status
                .ready()
                .map(|info| info.fingerprint.clone())
                .or(backbone.expected.clone()),
            options: backbone.own,
            open: backbone.status.is_open(),
        };
        let probes = self.library.probes.iter().map(|(id, probe)| SavedProbe {
            id: *id,
            path: probe.path.clone(),
            fingerprint: probe.status.ready().map(|info| info.fingerprint.clone()).or(probe.expected.clone()),
        });
        // Images of a dataset return with it; those that columns or the selection refer to are saved with their ids.
        let mut referenced: HashSet<ImageId> =
            self.columns.values().filter_map(|column| column.image).collect();
        referenced.extend(self.selection.image);
        let is_saved = |(id, image): &(&ImageId, &Image)| image.label.is_none() || referenced.contains(id);
        let images = self.library.images.iter().filter(is_saved);
        let images = images.map(|(id, image)| SavedImage { id: *id, source: image.source.clone() });
        let star =
            |source: &ImageSource| SavedNote { source: source.clone(), starred: true, text: String::new() };
        let datasets = self.library.datasets.iter().map(|(id, dataset)| SavedDataset {
            id: *id,
            path: dataset.path.clone(),
            split: dataset.split.map(|split| split.name().to_owned()),
        });
        let columns = self.columns.iter().map(|(id, column)| SavedColumn {
            id: *id,
            probe: column.probe,
            image: column.image,
            change: column.change.clone(),
            compared: column.compared,
        });
        Workspace {
            format: 0,
            backbones: self.library.backbones.iter().map(backbone).collect(),
            probes: probes.collect(),
            images: images.collect(),
            datasets: datasets.collect(),
            notes: self.findings.stars().map(star).collect(),
            findings: self.findings.iter().map(|(_, finding)| finding.clone()).collect(),
            dataset: self.evaluations.dataset,
            columns: columns.collect(),
            selection: self.selection.clone(),
            views: self.views.clone(),
            explain: self.explain,
            masks: self.masks.clone(),
            backbone_options: self.backbone_options,
            runs: self.training.runs.keys().chain(&self.training.unread).cloned().collect(),
            training: self.training.form.clone(),
            layout,
            host: self.connection.host().cloned(),
            saved_as: None,
            unsaved: false,
            saved_fingerprint: None,
            rest: self.rest.clone(),
        }
    }

    /// Replaces everything that is open by a workspace.
    pub fn restore(&mut self, workspace: Workspace) -> Vec<Request> {
        // A running training does not belong to the workspace: it goes on.
        let (kept, cancelled): (IndexMap<JobId, Job>, IndexMap<JobId, Job>) =
            std::mem::take(&mut self.jobs).into_iter().partition(|(_, job)| job.kind == JobKind::Train);
        let mut requests: Vec<Request> = cancelled.keys().map(|job| Request::Cancel(*job)).collect();
        requests.extend(self.sharing.take().and_then(|sharing| sharing.explaining()).map(Request::Cancel));
        requests.extend(self.library.probes.keys().map(|id| Request::CloseProbe(*id)));
        requests.extend(self.library.backbones.keys().map(|id| Request::CloseBackbone(*id)));
        self.next = workspace.ids().max().map_or(0, |id| id + 1).max(self.next);
        self.jobs = kept;
        requests.push(Request::Follow(Vec::new())); // resets the watcher, so that a run that stays is sent again
        requests.push(self.training.restore(workspace.training, workspace.runs));
        (self.explaining, self.browser) = (None, super::Browser::default());
        self.undo = Undo::default();
        self.thumbnails.restart();
        self.run_choice = super::RunChoice::default();
        self.run_backbones.clear();
        (self.gallery_filter, self.evaluations) = (GalleryFilter::default(), super::Evaluations::default());
        (self.stabilities, self.similarities) = (Default::default(), Default::default());
        (self.removals, self.sheet) = (Default::default(), super::Sheet::default());
        self.restore_findings(workspace.findings, workspace.notes.into_iter().map(|note| note.source));
        let open = workspace.backbones.iter().filter(|backbone| backbone.open);
        let open: Vec<BackboneId> = open.map(|backbone| backbone.id).collect();
        let entry = |saved: SavedBackbone| {
            let (source, expected) = (saved.source, saved.fingerprint);
            (saved.id, Backbone { source, status: Status::Closed, expected, own: saved.options })
        };
        self.library.backbones = workspace.backbones.into_iter().map(entry).collect();
        let entry = |saved: SavedProbe| {
            let (path, expected) = (saved.path, saved.fingerprint);
            (saved.id, Probe { path, status: Status::Closed, expected, show: false })
        };
        self.library.probes = workspace.probes.into_iter().map(entry).collect();
        self.library.datasets.clear();
        self.library.images.retain(|_, _| false);
        for SavedImage { id, source } in workspace.images {
            self.library.images.insert(id, Image::new(source));
        }
        let known = workspace.columns.into_iter().filter(|column| {
            let image = column.image.is_none_or(|image| self.library.images.contains_key(&image));
            image && self.library.probes.contains_key(&column.probe)
        });
        self.columns = known
            .map(|SavedColumn { id, probe, image, change, compared }| {
                (id, Column { compared, ..Column::new(probe, image, change) })
            })
            .collect();
        self.selection = workspace.selection;
        let there = self.selection.image.filter(|id| self.library.images.contains_key(id));
        self.selection.image = there.or_else(|| self.library.images.keys().next().copied());
        self.selection.retain(&self.columns);
        (self.views, self.explain, self.masks) = (workspace.views, workspace.explain, workspace.masks);
        (self.backbone_options, self.rest) = (workspace.backbone_options, workspace.rest);
        self.common_options =
            if self.columns.is_empty() { CommonOptions::Nothing } else { CommonOptions::Restored };
        requests.extend(open.into_iter().flat_map(|id| self.load_backbone(id)));
        for SavedDataset { id, path, split } in workspace.datasets {
            let split = split.and_then(|name| name.parse::<Split>().ok());
            self.library.datasets.insert(id, Dataset::new(path, split));
            requests.extend(self.load_dataset(id, split));
        }
        self.evaluations.dataset = workspace.dataset.filter(|id| self.library.datasets.contains_key(id));
        if let Some(id) = self.evaluations.dataset {
            self.evaluations.is_restored = true;
            self.gallery_filter = GalleryFilter::new(Scope::Dataset(id));
        }
        let probes: Vec<_> = self.library.probes.keys().copied().collect();
        requests.extend(probes.into_iter().flat_map(|id| self.load_probe(id)));
        self.drop_settled_failure();
        requests
    }
}
