//! Undo: a step keeps those parts of the state that it changed as they were, and nothing else. Going
//! over a step puts them back and keeps what stood there instead, for the way on.

use std::collections::VecDeque;
use std::path::PathBuf;

use serde_json::Value;

use super::backbone_options::CommonOptions;
use super::entries::{Entries, drop_duplicates, swap};
use super::findings::{Finding, FindingId};
use super::library::{Backbone, Dataset, Image, Label, Library, Probe, Status};
use super::settings::ThemeChoice;
use super::{Column, ColumnState, GalleryFilter, Scope, Selection, State, Views, WatchedRun};
use crate::app::jobs::{
    BackboneId, BackboneOptions, ColumnId, DatasetId, ExplainSettings, ImageId, ProbeId, Request,
};
use crate::model::backbone::token_spec::TokenSpec;
use crate::model::data::ImageSource;

/// Steps that can be taken back.
const MAX_STEPS: usize = 64;

/// Parts of the state, as they were or are to be; those that are empty stay as they are.
#[derive(Default)]
pub(super) struct Parts {
    pub backbones: Entries<BackboneId, Backbone>,
    pub probes: Entries<ProbeId, Probe>,
    pub datasets: Entries<DatasetId, Dataset>,
    pub images: Entries<ImageId, Image>,
    pub columns: Entries<ColumnId, Column>,
    pub runs: Entries<PathBuf, WatchedRun>,
    pub findings: Entries<FindingId, Finding>,
    pub stars: Entries<ImageSource, ()>,
    pub selection: Option<Selection>,
    pub layout: Option<Value>,
    pub preferences: Option<Preferences>,
    /// How images are read, and tokens for the next training taken where it follows.
    pub options: Option<(BackboneOptions, Option<TokenSpec>)>,
    /// How one backbone reads that has options of its own.
    pub own: Option<(BackboneId, BackboneOptions)>,
    /// The device, and that of the next training where it follows.
    pub device: Option<(String, Option<String>)>,
    /// The dataset that is looked at, and which of its images.
    pub sight: Option<(Option<DatasetId>, GalleryFilter)>,
    /// What the shown probes were trained on, as far as they agreed.
    common_options: Option<CommonOptions>,
}

/// Settings that nothing but a person changes.
#[derive(Clone, PartialEq)]
pub(super) struct Preferences {
    pub views: Views,
    pub explain: ExplainSettings,
    pub masks: Option<PathBuf>,
    pub theme: ThemeChoice,
    pub scale: f32,
}

/// What a menu calls a step, and the parts on its other side.
struct Step {
    text: String,
    /// Whether several of the same name in a row are one.
    slides: bool,
    parts: Parts,
}

/// What can be taken back, and done again.
#[derive(Default)]
pub(super) struct Undo {
    back: VecDeque<Step>,
    forth: VecDeque<Step>,
}

impl Undo {
    /// Keeps a step as the latest. Traces are kept by that one alone.
    fn keep(steps: &mut VecDeque<Step>, step: Step) {
        for (_, column) in
            steps.back_mut().iter_mut().flat_map(|last| last.parts.columns.values_mut()).flatten()
        {
            (column.shown, column.key, column.by_hand) = (ColumnState::Nothing, None, None);
        }
        if steps.len() >= MAX_STEPS {
            steps.pop_front();
        }
        steps.push_back(step);
    }
}

impl State {
    /// What Undo would take back.
    pub fn undo_text(&self) -> Option<&str> {
        self.undo.back.back().map(|step| step.text.as_str())
    }

    /// What Redo would do again. A run that is trained now stays.
    pub fn redo_text(&self) -> Option<&str> {
        let active = self.training.active.as_ref().and_then(|active| active.folder.as_ref());
        let step = self.undo.forth.back()?;
        (!active.is_some_and(|active| step.parts.runs.contains_key(active))).then_some(step.text.as_str())
    }

    /// Changes the parts of the state that `name` fills in, so that it can be taken back.
    pub(super) fn change(&mut self, text: impl Into<String>, name: impl FnOnce(&mut Parts)) -> Vec<Request> {
        self.take_step(text.into(), false, name)
    }

    /// Changes a setting so that it can be taken back: one step for a slider that moves, not one for
    /// each of its places.
    pub(super) fn slide(&mut self, text: impl Into<String>, name: impl FnOnce(&mut Parts)) -> Vec<Request> {
        self.take_step(text.into(), true, name)
    }

    /// Edits the preferences so that it can be taken back; nothing if nothing comes of it.
    pub(super) fn prefer(
        &mut self,
        text: impl Into<String>,
        edit: impl FnOnce(&mut Preferences),
    ) -> Vec<Request> {
        let now = self.preferences();
        let mut wanted = now.clone();
        edit(&mut wanted);
        if wanted == now {
            return Vec::new();
        }
        self.slide(text, |p| p.preferences = Some(wanted))
    }

    /// The preferences as they are.
    pub(super) fn preferences(&self) -> Preferences {
        let Self { views, explain, masks, settings, .. } = self;
        let (views, masks) = (views.clone(), masks.clone());
        Preferences { views, explain: *explain, masks, theme: settings.theme, scale: settings.scale }
    }

    fn take_step(&mut self, text: String, slides: bool, name: impl FnOnce(&mut Parts)) -> Vec<Request> {
        let mut wanted = Parts::default();
        name(&mut wanted);
        let (parts, requests) = self.swap(wanted);
        self.undo.forth.clear();
        let last = self.undo.back.back();
        if !last.is_some_and(|last| slides && last.slides && last.text == text) {
            Undo::keep(&mut self.undo.back, Step { text, slides, parts });
        }
        requests
    }

    pub(super) fn undo_step(&mut self) -> Vec<Request> {
        let Some(step) = self.undo.back.pop_back() else { return Vec::new() };
        let (parts, requests) = self.swap(step.parts);
        Undo::keep(&mut self.undo.forth, Step { parts, ..step });
        requests
    }

    pub(super) fn redo_step(&mut self) -> Vec<Request> {
        if self.redo_text().is_none() {
            return Vec::new();
        }
        let Some(step) = self.undo.forth.pop_back() else { return Vec::new() };
        let (parts, requests) = self.swap(step.parts);
        Undo::keep(&mut self.undo.back, Step { parts, ..step });
        requests
    }

    /// Puts parts in the place of what is there; what was there, and what to ask the worker for.
    fn swap(&mut self, mut wanted: Parts) -> (Parts, Vec<Request>) {
        self.add_dependents(&mut wanted);
        let (mut was, mut requests) = (Parts::default(), Vec::new());
        let (common_options, options) = (self.common_options, self.backbone_options);
        let token_spec = self.training.form.tokens.token_spec;
        let compared = wanted.selection.is_some()
            || !(wanted.probes.is_empty() && wanted.datasets.is_empty())
            || !(wanted.images.is_empty() && wanted.columns.is_empty());
        let mut looks = compared || !wanted.backbones.is_empty() || wanted.own.is_some();
        if let Some(new) = wanted.preferences {
            let views = std::mem::replace(&mut self.views, new.views);
            let explain = std::mem::replace(&mut self.explain, new.explain);
            let masks = std::mem::replace(&mut self.masks, new.masks);
            let theme = std::mem::replace(&mut self.settings.theme, new.theme);
            let scale = std::mem::replace(&mut self.settings.scale, new.scale);
            looks |= explain != self.explain || masks != self.masks;
            was.preferences = Some(Preferences { views, explain, masks, theme, scale });
        }
        if let Some(layout) = wanted.layout {
            self.arranged += 1;
            was.layout = Some(std::mem::replace(&mut self.layout, layout));
        }
        if let Some((device, next)) = wanted.device {
            let before = std::mem::replace(&mut self.settings.device, device);
            let form = &mut self.training.form.device;
            let next = next.filter(|_| *form == before).map(|next| std::mem::replace(form, next));
            was.device = Some((before, next));
            requests.extend(self.reload_backbone());
        }
        if let Some(own) = wanted.own {
            let (before, asked) = self.swap_own_options(own);
            was.own = before;
            requests.extend(asked);
        }
        // What was opened again meanwhile, and perhaps trained, stays as it is.
        let (runs, library) = (&mut self.training.runs, &self.library);
        wanted.runs.retain(|folder, run| run.is_none() || !runs.contains_key(folder));
        drop_duplicates(&mut wanted.backbones, &library.backbones, |a, b| {
            a.source == b.source && a.own.is_none() && b.own.is_none()
        });
        drop_duplicates(&mut wanted.probes, &library.probes, |a, b| a.path == b.path);
        drop_duplicates(&mut wanted.datasets, &library.datasets, |a, b| a.path == b.path);
        was.runs = swap(runs, wanted.runs);
        was.backbones = swap(&mut self.library.backbones, wanted.backbones);
        was.probes = swap(&mut self.library.probes, wanted.probes);
        was.datasets = swap(&mut self.library.datasets, wanted.datasets);
        // And so do columns of probes that are others by now, and images of a dataset that shows others.
        let Library { probes, datasets, images, .. } = &self.library;
        wanted.columns.retain(|_, column| column.as_ref().is_none_or(|(_, c)| probes.contains_key(&c.probe)));
        wanted.images.retain(|id, image| {
            match image.as_ref().map(|(_, image)| (image.label, &image.place)) {
                Some((Some(Label { dataset, at, .. }), _)) => {
                    datasets.get(&dataset).is_some_and(|dataset| dataset.images.get(at) == Some(id))
                }
                Some((None, place)) => images.at(place).is_none_or(|known| known == *id),
                None => true,
            }
        });
        was.findings = self.findings.swap(wanted.findings);
        was.stars = self.findings.swap_stars(wanted.stars);
        if compared {
            self.swap_comparison(wanted.images, wanted.columns, wanted.selection, &mut was);
        }
        let known = |(dataset, filter): &(Option<DatasetId>, GalleryFilter)| {
            let shown = if let Scope::Dataset(id) = filter.scope { Some(id) } else { None };
            [*dataset, shown].iter().flatten().all(|id| self.library.datasets.contains_key(id))
        };
        if let Some((dataset, filter)) = wanted.sight.filter(known) {
            let filter = std::mem::replace(&mut self.gallery_filter, filter);
            was.sight = Some((std::mem::replace(&mut self.evaluations.dataset, dataset), filter));
            self.evaluations.revision += 1;
        }
        // Images are read as they were there, whatever the shown probes agree on by now.
        self.common_options = wanted.common_options.unwrap_or(common_options);
        if let Some((options, token_spec)) = wanted.options {
            requests.extend(self.set_backbone_options(options, token_spec));
        }
        let opened = self.sync_worker(&was, &mut requests);
        // What is opened again is looked at once it is there.
        if looks && !opened {
            if wanted.common_options.is_none() {
                requests.extend(self.adopt_probe_options());
            }
            requests.extend(self.request_columns());
        }
        was.common_options = looks.then_some(common_options);
        let before = (options, (self.training.form.tokens.token_spec != token_spec).then_some(token_spec));
        was.options = (self.backbone_options != options).then_some(before);
        (was, requests)
    }

    /// Names what goes with what goes: the images of a dataset, the columns of a probe or an image.
    fn add_dependents(&self, parts: &mut Parts) {
        let Library { datasets, images, .. } = &self.library;
        let gone = |id: &DatasetId| parts.datasets.get(id).is_some_and(Option::is_none);
        if datasets.keys().any(gone) {
            let own =
                images.iter().filter(|(_, image)| image.label.is_some_and(|label| gone(&label.dataset)));
            own.for_each(|(id, _)| _ = parts.images.entry(*id).or_insert(None));
            let open = |id: &DatasetId| !gone(id);
            let next = self.evaluations.dataset.filter(open).or_else(|| datasets.keys().copied().rfind(open));
            let scope = next.map_or(Scope::All, Scope::Dataset);
            parts.sight.get_or_insert((next, GalleryFilter::new(scope)));
        }
        for (id, column) in &self.columns {
            let probe_goes = parts.probes.get(&column.probe).is_some_and(Option::is_none);
            let image = column.image.and_then(|image| parts.images.get(&image));
            if probe_goes || image.is_some_and(Option::is_none) {
                parts.columns.insert(*id, None);
            }
        }
    }

    /// Exchanges images, columns and what is pointed at. What columns show already stays.
    fn swap_comparison(
        &mut self,
        images: Entries<ImageId, Image>,
        mut columns: Entries<ColumnId, Column>,
        selection: Option<Selection>,
        was: &mut Parts,
    ) {
        let library = &mut self.library.images;
        let current = self.selection.image.and_then(|id| library.get_index_of(&id));
        was.images = library.swap(images);
        let is_gone =
            |(id, image): &(&ImageId, &Option<(usize, Image)>)| image.is_some() && !library.contains_key(*id);
        was.images.iter().filter(is_gone).for_each(|(id, _)| self.thumbnails.forget(*id));
        for (id, (_, column)) in columns.iter_mut().filter_map(|(id, column)| Some((id, column.as_mut()?))) {
            // Where its image has gone with another split, it shows the current one.
            column.image = column.image.filter(|image| library.contains_key(image));
            match self.columns.get(id) {
                Some(now) => {
                    (column.shown, column.key) = (now.shown.clone(), now.key.clone());
                    column.by_hand.clone_from(&now.by_hand);
                }
                // A look that was under way when it went is over.
                None if matches!(column.shown, ColumnState::Waiting(_)) => column.key = None,
                None => {}
            }
        }
        was.columns = swap(&mut self.columns, columns);
        let before = self.selection.clone();
        let wanted = selection.unwrap_or_else(|| self.selection.clone());
        let known = |id: &ImageId| library.contains_key(id);
        // In the place of an image that goes the next one that stays is looked at, or the last.
        let gone = |place: &usize| was.images.values().flatten().filter(|(gone, _)| gone < place).count();
        let next = || library.get_index(current? - gone(&current?)).or(library.last()).map(|(id, _)| *id);
        let image = wanted.image.filter(known).or(self.selection.image.filter(known)).or_else(next);
        let there = |id: &ColumnId| self.columns.contains_key(id);
        let (reference, focus) =
            (wanted.reference.filter(there), wanted.focus.filter(there).or(before.focus));
        self.selection = Selection { image, reference, focus, hover: before.hover, ..wanted };
        // What is looked at or through, and stays so, stays on the way back, too: a person may have gone on by then.
        let image = before.image.filter(|old| Some(*old) != image);
        let focus = before.focus.filter(|old| Some(*old) != focus);
        was.selection = Some(Selection { image, focus, ..before });
    }

    /// Tells the worker what came back and what went; whether a backbone or a probe is opened again.
    fn sync_worker(&mut self, was: &Parts, requests: &mut Vec<Request>) -> bool {
        let mut opened = false;
        for (id, backbone) in &was.backbones {
            if let Some((_, backbone)) = backbone {
                requests.extend(self.stop(&backbone.status));
                requests.push(Request::CloseBackbone(*id));
            } else if self.library.backbones.get_mut(id).is_some_and(|backbone| backbone.status.close()) {
                opened = true;
                requests.extend(self.load_backbone(*id));
            }
        }
        for (id, probe) in &was.probes {
            if let Some((_, probe)) = probe {
                requests.extend(self.stop(&probe.status));
                requests.push(Request::CloseProbe(*id));
            } else if self.library.probes.get_mut(id).is_some_and(|probe| probe.status.close()) {
                opened = true;
                requests.extend(self.load_probe(*id));
            }
        }
        for (id, dataset) in &was.datasets {
            if let Some((_, dataset)) = dataset {
                requests.extend(self.stop(&dataset.status));
                self.forget_evaluations(*id);
            } else if let Some(dataset) = self.library.datasets.get_mut(id)
                && dataset.status.is_opening()
                && dataset.status.close()
            {
                let split = dataset.split;
                requests.extend(self.load_dataset(*id, split));
            }
        }
        if !was.runs.is_empty() {
            requests.push(self.follow_runs());
        }
        opened
    }

    /// Ends the job that opens an entry.
    fn stop<Info>(&mut self, status: &Status<Info>) -> Option<Request> {
        let Status::Opening(job) = status else { return None };
        Some(self.replace_job(*job))
    }
}
