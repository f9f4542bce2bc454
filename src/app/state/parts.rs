//! The parts of the state that a step of undo may change, and how they are swapped: what depends on them goes along, and the worker is
//! told what to close and what to open again.

use std::mem::take;
use std::path::PathBuf;

use serde_json::Value;

use super::backbone_options::CommonOptions;
use super::entries::{Entries, drop_duplicates, swap};
use super::findings::{Finding, FindingId};
use super::library::{Backbone, Dataset, Image, Label, Library, Probe};
use super::settings::ThemeChoice;
use super::{Column, ColumnState, GalleryFilter, Scope, Selection, State, Views, WatchedRun};
use crate::app::jobs::{
    BackboneId, BackboneOptions, ColumnId, DatasetId, ExplainSettings, ImageId, ProbeId, Request,
};
use crate::model::backbone::token_spec::TokenSpec;
use crate::model::data::ImageSource;

/// Values of parts of the state, previous or wanted; parts that are empty stay as they are.
#[derive(Default)]
pub(super) struct Parts {
    pub backbones: Entries<BackboneId, Backbone>,
    pub probes: Entries<ProbeId, Probe>,
    pub datasets: Entries<DatasetId, Dataset>,
    pub images: Entries<ImageId, Image>,
    pub columns: Entries<ColumnId, Column>,
    /// The temporary column that was there with these values.
    temporary: Option<ColumnId>,
    pub runs: Entries<PathBuf, WatchedRun>,
    pub findings: Entries<FindingId, Finding>,
    pub stars: Entries<ImageSource, ()>,
    pub selection: Option<Selection>,
    pub layout: Option<Value>,
    pub preferences: Option<Preferences>,
    /// The shared options of backbones, and the token spec of the next training's form if it follows them.
    pub options: Option<(BackboneOptions, Option<TokenSpec>)>,
    /// The options of a backbone that has its own.
    pub own: Option<(BackboneId, BackboneOptions)>,
    /// The device, and that of the next training's form if it follows.
    pub device: Option<(String, Option<String>)>,
    /// The dataset in use, and the filter of the gallery.
    pub gallery: Option<(Option<DatasetId>, GalleryFilter)>,
    /// The dataset in the form of the next training, if it still is the first of these two, and what it becomes.
    pub training_data: Option<(Option<PathBuf>, Option<PathBuf>)>,
    /// The options that the shown probes agreed on.
    common_options: Option<CommonOptions>,
}

/// Settings that only the user changes.
#[derive(Clone, PartialEq)]
pub(super) struct Preferences {
    pub views: Views,
    pub explain: ExplainSettings,
    pub masks: Option<PathBuf>,
    pub theme: ThemeChoice,
    pub scale: f32,
}

impl State {
    pub(super) fn preferences(&self) -> Preferences {
        let Self { views, explain, masks, settings, .. } = self;
        let (views, masks) = (views.clone(), masks.clone());
        Preferences { views, explain: *explain, masks, theme: settings.theme, scale: settings.scale }
    }

    /// Sets parts of the state; returns their previous values, and the requests that follow.
    pub(super) fn swap(&mut self, mut wanted: Parts) -> (Parts, Vec<Request>) {
        self.add_dependents(&mut wanted);
        let temporary = self.columns.iter().find(|(_, column)| !column.compared).map(|(id, _)| *id);
        let (mut was, mut requests) = (Parts { temporary, ..Parts::default() }, Vec::new());
        let (common_options, options) = (self.common_options, self.backbone_options);
        let token_spec = self.training.form.tokens.token_spec;
        // Kept even if they are the current ones: a slider that came back to its start may be dragged on after undo and redo.
        let sets_options = wanted.options.is_some();
        let follows = sets_options && token_spec == options.token_spec();
        let compared = wanted.selection.is_some()
            || !(wanted.probes.is_empty() && wanted.datasets.is_empty())
            || !(wanted.images.is_empty() && wanted.columns.is_empty());
        let mut needs_traces = compared || !wanted.backbones.is_empty() || wanted.own.is_some();
        if let Some(new) = wanted.preferences.take() {
            let before = self.preferences();
            needs_traces |= before.explain != new.explain || before.masks != new.masks;
            was.preferences = Some(before);
            (self.views, self.explain, self.masks) = (new.views, new.explain, new.masks);
            (self.settings.theme, self.settings.scale) = (new.theme, new.scale);
        }
        if let Some(layout) = wanted.layout.take() {
            self.arranged += 1;
            was.layout = Some(std::mem::replace(&mut self.layout, layout));
        }
        if let Some((device, next)) = wanted.device.take() {
            let before = std::mem::replace(&mut self.settings.device, device);
            let form = &mut self.training.form.device;
            let next = next.filter(|_| *form == before).map(|next| std::mem::replace(form, next));
            was.device = Some((before, next));
            requests.extend(self.reload(|_| true));
        }
        if let Some(own) = wanted.own {
            let (before, asked) = self.swap_own_options(own);
            was.own = before;
            requests.extend(asked);
        }
        self.swap_library(&mut wanted, &mut was);
        was.findings = self.findings.swap(wanted.findings);
        was.stars = self.findings.swap_stars(wanted.stars);
        if compared {
            self.swap_comparison(wanted.images, wanted.columns, wanted.selection, &mut was);
        }
        let known = |(dataset, filter): &(Option<DatasetId>, GalleryFilter)| {
            let shown = filter.scope.dataset();
            [*dataset, shown].iter().flatten().all(|id| self.library.datasets.contains_key(id))
        };
        if let Some((dataset, filter)) = wanted.gallery.filter(known) {
            let filter = std::mem::replace(&mut self.gallery_filter, filter);
            was.gallery = Some((std::mem::replace(&mut self.evaluations.dataset, dataset), filter));
            self.evaluations.revision += 1;
        }
        if let Some((from, to)) = wanted.training_data.filter(|(from, _)| *from == self.training.form.data) {
            self.training.form.data.clone_from(&to);
            was.training_data = Some((to, from));
        }
        // The options are those of the step, whatever the shown probes agree on by now.
        self.common_options = wanted.common_options.unwrap_or(common_options);
        if let Some((options, token_spec)) = wanted.options {
            requests.extend(self.set_backbone_options(options, token_spec));
        }
        let opened = self.sync_worker(&was, &mut requests);
        // Entries that are opened again are explained once they are open.
        if needs_traces && !opened {
            if wanted.common_options.is_none() {
                requests.extend(self.adopt_probe_options());
            }
            requests.extend(self.request_columns());
        }
        was.common_options = needs_traces.then_some(common_options);
        let follows = follows || self.training.form.tokens.token_spec != token_spec;
        was.options = (sets_options || self.backbone_options != options)
            .then_some((options, follows.then_some(token_spec)));
        (was, requests)
    }

    /// Swaps runs and the library's entries except images, and removes from `wanted` what cannot come back any more.
    fn swap_library(&mut self, wanted: &mut Parts, was: &mut Parts) {
        // Entries that were opened again meanwhile, and runs that may have been resumed, stay as they are.
        let (runs, library) = (&mut self.training.runs, &mut self.library);
        wanted.runs.retain(|folder, run| run.is_none() || !runs.contains_key(folder));
        drop_duplicates(&mut wanted.backbones, &library.backbones, |a, b| {
            a.source == b.source && a.own.is_none() && b.own.is_none()
        });
        drop_duplicates(&mut wanted.probes, &library.probes, |a, b| a.path == b.path);
        drop_duplicates(&mut wanted.datasets, &library.datasets, |a, b| a.path == b.path);
        was.runs = swap(runs, take(&mut wanted.runs));
        was.backbones = swap(&mut library.backbones, take(&mut wanted.backbones));
        was.probes = swap(&mut library.probes, take(&mut wanted.probes));
        was.datasets = swap(&mut library.datasets, take(&mut wanted.datasets));
        // Columns of probes that were left out are left out, and so are images of a dataset that has others by now, and images that
        // were opened again since, which have a later id.
        let Library { probes, datasets, images, .. } = &self.library;
        wanted.columns.retain(|_, column| column.as_ref().is_none_or(|(_, c)| probes.contains_key(&c.probe)));
        if let Some(id) = was.temporary.filter(|_| was.temporary != wanted.temporary) {
            self.replace_temporary(id, &mut wanted.columns, &mut wanted.selection);
        }
        wanted.images.retain(|id, image| {
            match image.as_ref().map(|(_, image)| (image.label, &image.source)) {
                Some((Some(Label { dataset, at, .. }), _)) => {
                    datasets.get(&dataset).is_some_and(|dataset| dataset.images.get(at) == Some(id))
                }
                Some((None, source)) => images.at(source).is_none_or(|known| known <= *id),
                None => true,
            }
        });
    }

    /// Adds what is removed along with other parts: the images of a dataset, the columns of a probe or an image.
    fn add_dependents(&self, parts: &mut Parts) {
        let Library { datasets, images, .. } = &self.library;
        let gone = |id: &DatasetId| parts.datasets.get(id).is_some_and(Option::is_none);
        if datasets.keys().any(gone) {
            let own =
                images.iter().filter(|(_, image)| image.label.is_some_and(|label| gone(&label.dataset)));
            own.for_each(|(id, _)| _ = parts.images.entry(*id).or_insert(None));
            let open = |id: &DatasetId| !gone(id);
            let shown = self.gallery_filter.scope.dataset();
            let last = || datasets.keys().copied().rfind(open);
            let next = self.evaluations.dataset.filter(open).or(shown.filter(open)).or_else(last);
            // A gallery of other images stays as it is.
            let stays = self.gallery_filter.scope == Scope::Loose || shown.is_some_and(|id| open(&id));
            let other = || GalleryFilter::new(next.map_or(Scope::All, Scope::Dataset));
            let filter = if stays { self.gallery_filter.clone() } else { other() };
            parts.gallery.get_or_insert((next, filter));
        }
        for (id, column) in &self.columns {
            let probe_goes = parts.probes.get(&column.probe).is_some_and(Option::is_none);
            let image = column.image.and_then(|image| parts.images.get(&image));
            if probe_goes || image.is_some_and(Option::is_none) {
                parts.columns.insert(*id, None);
            }
        }
    }

    /// Swaps images, columns and the selection. Columns that stay keep what they show.
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
            // If its image was removed with another split, it shows the current one.
            column.image = column.image.filter(|image| library.contains_key(image));
            match self.columns.get(id) {
                Some(now) => {
                    (column.shown, column.key) = (now.shown.clone(), now.key.clone());
                    column.by_hand.clone_from(&now.by_hand);
                }
                // The explanation it waited for when it was removed is over.
                None if matches!(column.shown, ColumnState::Waiting(_)) => column.key = None,
                None => {}
            }
        }
        was.columns = swap(&mut self.columns, columns);
        let before = self.selection.clone();
        let wanted = selection.unwrap_or_else(|| self.selection.clone());
        let known = |id: &ImageId| library.contains_key(id);
        // If the current image is removed, the next one that stays becomes current, or the last.
        let gone = |place: &usize| was.images.values().flatten().filter(|(gone, _)| gone < place).count();
        let next = || library.get_index(current? - gone(&current?)).or(library.last()).map(|(id, _)| *id);
        let image = wanted.image.filter(known).or(self.selection.image.filter(known)).or_else(next);
        let focus = wanted.focus.filter(|id| self.columns.contains_key(id)).or(before.focus);
        self.selection = Selection { image, focus, hover: before.hover, ..wanted };
        self.selection.retain(&self.columns);
        // A current image and focus that this step does not change are not restored on undo: the user may have moved on by then.
        let image = before.image.filter(|old| Some(*old) != image);
        let focus = before.focus.filter(|old| Some(*old) != focus);
        was.selection = Some(Selection { image, focus, ..before });
    }

    /// Requests to close removed entries and to open restored ones; returns whether a backbone or a probe is opened again.
    fn sync_worker(&mut self, was: &Parts, requests: &mut Vec<Request>) -> bool {
        let mut opened = false;
        for (id, backbone) in &was.backbones {
            if let Some((_, backbone)) = backbone {
                requests.extend(self.stop_opening(&backbone.status));
                requests.push(Request::CloseBackbone(*id));
            } else if self.library.backbones.get_mut(id).is_some_and(|backbone| backbone.status.close()) {
                opened = true;
                requests.extend(self.load_backbone(*id));
            }
        }
        for (id, probe) in &was.probes {
            if let Some((_, probe)) = probe {
                requests.extend(self.stop_opening(&probe.status));
                requests.push(Request::CloseProbe(*id));
            } else if self.library.probes.get_mut(id).is_some_and(|probe| probe.status.close()) {
                opened = true;
                requests.extend(self.load_probe(*id));
            }
        }
        for (id, dataset) in &was.datasets {
            if let Some((_, dataset)) = dataset {
                requests.extend(self.stop_opening(&dataset.status));
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
}
