//! Showing a finding: restores what was shown when it was kept, as one undoable step; closed images and probes are opened.

use std::path::Path;

use serde_json::Value;

use super::entries::removed;
use super::library::{Image, Probe, Status};
use super::parts::Parts;
use super::reveal::RevealTarget;
use super::{Column, FindingColumn, FindingId, FindingView, GalleryFilter, Scope, Selection, State};
use crate::app::jobs::{ColumnId, ImageId, ProbeId, Request};
use crate::model::data::ImageSource;

impl State {
    /// Restores what was shown when a finding was kept; opens its image and probes if they were closed. `layout` is the current
    /// layout of the panes.
    pub(super) fn show_finding(&mut self, id: FindingId, layout: Value) -> Vec<Request> {
        let Some(finding) = self.findings.get(id).cloned() else { return Vec::new() };
        let mut parts = Parts::default();
        let image = self.image_to_show(&finding.image, &mut parts);
        let mut selection = Selection { image: Some(image), ..self.selection.clone() };
        let view = finding.view.as_deref();
        let ids = view.map_or(Vec::new(), |view| self.columns_to_show(view, &mut parts));
        if let Some(view) = view {
            let at = |place: Option<usize>| ids.get(place?).copied();
            (selection.class, selection.follows_true) = (view.class.clone(), false);
            if !ids.is_empty() {
                selection.reference = at(view.reference);
                (selection.beside, selection.against) = (at(view.beside), at(view.against));
            }
            let mut wanted = self.preferences();
            (wanted.views, wanted.explain) = (view.views.clone(), view.explain);
            parts.preferences = Some(wanted).filter(|wanted| *wanted != self.preferences());
            if !view.layout.is_null() && view.layout != layout {
                self.layout = layout;
                parts.layout = Some(view.layout.clone());
            }
        }
        let new = Image::new(finding.image.clone());
        let shown = self.library.images.get(&image).unwrap_or(&new);
        parts.gallery = (!self.in_scope(shown)).then(|| {
            let dataset = shown.label.map(|label| label.dataset);
            let scope = dataset.map_or(Scope::Loose, Scope::Dataset);
            (dataset.or(self.evaluations.dataset), GalleryFilter::new(scope))
        });
        parts.selection = Some(selection).filter(|wanted| *wanted != self.selection);
        let changes = parts.selection.is_some() || parts.preferences.is_some() || parts.layout.is_some();
        let changes = changes || parts.gallery.is_some() || !parts.columns.is_empty();
        let opened: Vec<ProbeId> = parts.probes.keys().copied().collect();
        let mut requests = Vec::new();
        let focus = view.and_then(|view| ids.get(view.focus?).copied());
        if changes {
            if focus.is_some() {
                // The current focus, explicit or by default, is restored when the step is undone.
                self.selection.focus = self.focus();
                parts.selection.get_or_insert_with(|| self.selection.clone()).focus = focus;
            }
            let text = format!("Show the finding {}", finding.name());
            requests = self.change(text, |wanted| *wanted = parts);
            requests.extend(opened.into_iter().flat_map(|probe| self.load_probe(probe)));
            // Images that are still being listed no longer become the current one.
            self.jobs.values_mut().for_each(|job| job.selects = false);
        } else {
            self.selection.focus = focus.or(self.selection.focus);
        }
        self.reveal(RevealTarget::Token(view.and_then(|view| view.token)));
        requests
    }

    /// The id of an image; `parts` adds it to the library if it is not there.
    fn image_to_show(&mut self, source: &ImageSource, parts: &mut Parts) -> ImageId {
        let is_added = |(id, entry): (&ImageId, &Option<(usize, Image)>)| {
            entry.as_ref().is_some_and(|(_, image)| image.source == *source).then_some(*id)
        };
        let known = self.library.images.at(source).or_else(|| parts.images.iter().find_map(is_added));
        known.unwrap_or_else(|| {
            let (id, last) = (ImageId(self.fresh()), self.library.images.len() + parts.images.len());
            parts.images.insert(id, Some((last, Image::new(source.clone()))));
            id
        })
    }

    /// The id of a file's probe; `parts` adds it to the library if it is not there.
    fn probe_to_show(&mut self, path: &Path, parts: &mut Parts) -> ProbeId {
        let is_added = |(id, entry): (&ProbeId, &Option<(usize, Probe)>)| {
            entry.as_ref().is_some_and(|(_, probe)| probe.path == path).then_some(*id)
        };
        let known = self.library.probe_at(path).or_else(|| parts.probes.iter().find_map(is_added));
        known.unwrap_or_else(|| {
            let (id, last) = (ProbeId(self.fresh()), self.library.probes.len() + parts.probes.len());
            let probe = Probe { path: path.to_owned(), status: Status::Closed, expected: None, show: false };
            parts.probes.insert(id, Some((last, probe)));
            id
        })
    }

    /// The ids of a view's columns, in order; columns that show the same already are reused, all others are removed. If the
    /// view has none, nothing changes.
    fn columns_to_show(&mut self, view: &FindingView, parts: &mut Parts) -> Vec<ColumnId> {
        let mut left: Vec<ColumnId> = self.columns.keys().copied().collect();
        let mut ids = Vec::new();
        for (place, kept) in view.columns.iter().enumerate() {
            let probe = self.probe_to_show(&kept.probe, parts);
            let image = kept.image.as_ref().map(|image| self.image_to_show(image, parts));
            let same = |id: &ColumnId| {
                let column = &self.columns[id];
                column.probe == probe && column.image == image && column.change == kept.change
            };
            let known = left.iter().position(same).map(|at| left.remove(at));
            let column = known.map(|id| self.columns[&id].clone());
            let column = column.unwrap_or_else(|| Column::new(probe, image, kept.change.clone()));
            let id = known.unwrap_or_else(|| ColumnId(self.fresh()));
            parts.columns.insert(id, Some((place, Column { compared: kept.compared, ..column })));
            ids.push(id);
        }
        if ids.is_empty() {
            return ids;
        }
        let is_unchanged = |(id, kept): (&ColumnId, &FindingColumn)| {
            self.columns.get(id).is_some_and(|column| column.compared == kept.compared)
        };
        if left.is_empty() && self.columns.keys().eq(&ids) && ids.iter().zip(&view.columns).all(is_unchanged)
        {
            parts.columns.clear();
        }
        parts.columns.extend(removed(left));
        ids
    }
}
