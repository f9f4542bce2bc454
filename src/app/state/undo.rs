//! Taking back: closings and settings, as changes that know their own opposite.

use std::collections::VecDeque;
use std::path::PathBuf;

use indexmap::IndexMap;
use serde_json::Value;

use super::super::job::{
    BackboneId, BackboneOptions, ColumnId, DatasetId, ImageId, LookSettings, ProbeId, Request,
};
use super::super::settings::ThemeChoice;
use super::library::{Backbone, Dataset, Image, Probe, Status};
use super::{Column, Followed, Selection, State, Views};

/// Steps that can be taken back.
const KEPT: usize = 64;

/// Something that was changed, so that it can be changed back.
pub(super) enum Change {
    BackboneIn(usize, BackboneId, Backbone),
    BackboneOut(BackboneId),
    ProbeIn(usize, ProbeId, Probe, Columns),
    ProbeOut(ProbeId),
    DatasetIn(usize, DatasetId, Dataset, Vec<Placed>, Columns),
    DatasetOut(DatasetId),
    ImagesIn(Vec<Placed>, Columns),
    ImagesOut(Vec<ImageId>),
    Columns(Columns),
    Views(Views),
    Layout(Value),
    RunIn(usize, PathBuf, Followed),
    RunOut(PathBuf),
    Look(LookSettings),
    Options(BackboneOptions),
    /// Theme, size of everything, device.
    Settings(ThemeChoice, f32, String),
}

/// The comparison: what is shown beside what.
pub(super) type Columns = (IndexMap<ColumnId, Column>, Selection);

/// An image and its place in the library.
type Placed = (usize, ImageId, Image);

/// A change and what a menu calls it.
struct Step {
    text: String,
    change: Change,
}

/// What can be taken back, and done again.
#[derive(Default)]
pub(super) struct Undo {
    back: VecDeque<Step>,
    forth: Vec<Step>,
}

impl State {
    /// What Undo would take back.
    pub fn undo_text(&self) -> Option<&str> {
        self.undo.back.back().map(|step| step.text.as_str())
    }

    /// What Redo would do again.
    pub fn redo_text(&self) -> Option<&str> {
        self.undo.forth.last().map(|step| step.text.as_str())
    }

    /// Changes something so that it can be taken back.
    pub(super) fn change(&mut self, text: impl Into<String>, change: Change) -> Vec<Request> {
        let text = text.into();
        let (opposite, requests) = self.make(change);
        self.undo.forth.clear();
        // One step for a slider that moves, not one for each of its places.
        let same = |last: &Step| last.text == text && opposite.is_setting() && last.change.is_setting();
        if self.undo.back.back().is_none_or(|last| !same(last)) {
            self.keep(Step { text, change: opposite });
        }
        requests
    }

    fn keep(&mut self, step: Step) {
        if self.undo.back.len() >= KEPT {
            self.undo.back.pop_front();
        }
        self.undo.back.push_back(step);
    }

    pub(super) fn take_back(&mut self) -> Vec<Request> {
        let Some(Step { text, change }) = self.undo.back.pop_back() else { return Vec::new() };
        let (change, requests) = self.make(change);
        self.undo.forth.push(Step { text, change });
        requests
    }

    pub(super) fn do_again(&mut self) -> Vec<Request> {
        let Some(Step { text, change }) = self.undo.forth.pop() else { return Vec::new() };
        let (change, requests) = self.make(change);
        self.keep(Step { text, change });
        requests
    }

    /// Makes a change; its opposite, and what to ask for.
    fn make(&mut self, change: Change) -> (Change, Vec<Request>) {
        let mut requests = Vec::new();
        let opposite = match change {
            Change::BackboneIn(at, id, backbone) => {
                let was_open = !matches!(backbone.status, Status::Failed(_) | Status::Closed);
                let backbone = Backbone { status: Status::Closed, ..backbone };
                self.library.backbones.shift_insert(at.min(self.library.backbones.len()), id, backbone);
                if was_open {
                    requests.extend(self.load_backbone(id));
                }
                Change::BackboneOut(id)
            }
            Change::BackboneOut(id) => match self.library.backbones.shift_remove_full(&id) {
                Some((at, id, backbone)) => {
                    requests.extend(self.stop(&backbone.status));
                    requests.push(Request::CloseBackbone(id));
                    requests.extend(self.relook());
                    Change::BackboneIn(at, id, backbone)
                }
                None => Change::BackboneOut(id),
            },
            Change::ProbeIn(at, id, probe, columns) => {
                let failed = matches!(probe.status, Status::Failed(_));
                let probe = Probe { status: if failed { probe.status } else { Status::Closed }, ..probe };
                self.library.probes.shift_insert(at.min(self.library.probes.len()), id, probe);
                self.put_columns(columns);
                if !failed {
                    requests.extend(self.load_probe(id));
                }
                Change::ProbeOut(id)
            }
            Change::ProbeOut(id) => {
                let columns = self.columns();
                match self.library.probes.shift_remove_full(&id) {
                    Some((at, id, probe)) => {
                        requests.extend(self.stop(&probe.status));
                        requests.push(Request::CloseProbe(id));
                        self.columns.retain(|_, column| column.probe != id);
                        self.drop_lost_reference();
                        requests.extend(self.relook());
                        Change::ProbeIn(at, id, probe, columns)
                    }
                    None => Change::ProbeOut(id),
                }
            }
            Change::DatasetIn(at, id, dataset, images, columns) => {
                // What was being opened was cancelled when it went: it is opened again.
                let was_opening = matches!(dataset.status, Status::Opening(_));
                let status = if was_opening { Status::Closed } else { dataset.status };
                let (split, dataset) = (dataset.split, Dataset { status, ..dataset });
                self.library.datasets.shift_insert(at.min(self.library.datasets.len()), id, dataset);
                if was_opening {
                    requests.extend(self.load_dataset(id, split));
                }
                self.put_images(images);
                self.put_columns(columns);
                self.surveys.dataset = Some(id);
                requests.extend(self.relook());
                Change::DatasetOut(id)
            }
            Change::DatasetOut(id) => match self.library.datasets.shift_remove_full(&id) {
                Some((at, id, dataset)) => {
                    requests.extend(self.stop(&dataset.status));
                    let own = |image: &Image| image.label.is_some_and(|label| label.dataset == id);
                    let images = self.library.images.iter();
                    let ids: Vec<ImageId> =
                        images.filter(|(_, image)| own(image)).map(|(id, _)| *id).collect();
                    let (images, columns) = self.take_images(&ids);
                    self.forget_dataset(id);
                    requests.extend(self.relook());
                    Change::DatasetIn(at, id, dataset, images, columns)
                }
                None => Change::DatasetOut(id),
            },
            Change::ImagesIn(images, columns) => {
                let ids = images.iter().map(|(_, id, _)| *id).collect();
                self.put_images(images);
                self.put_columns(columns);
                requests.extend(self.relook());
                Change::ImagesOut(ids)
            }
            Change::ImagesOut(ids) => {
                let (removed, columns) = self.take_images(&ids);
                requests.extend(self.relook());
                Change::ImagesIn(removed, columns)
            }
            Change::Columns(columns) => {
                let before = self.columns();
                self.put_columns(columns);
                requests.extend(self.relook());
                Change::Columns(before)
            }
            Change::Views(views) => Change::Views(std::mem::replace(&mut self.views, views)),
            Change::Layout(layout) => {
                self.arranged += 1;
                Change::Layout(std::mem::replace(&mut self.layout, layout))
            }
            Change::RunIn(at, folder, run) => {
                let runs = &mut self.training.runs;
                runs.shift_insert(at.min(runs.len()), folder.clone(), run);
                requests.push(self.follow_runs());
                Change::RunOut(folder)
            }
            Change::RunOut(folder) => match self.training.runs.shift_remove_full(&folder) {
                Some((at, folder, run)) => {
                    requests.push(self.follow_runs());
                    Change::RunIn(at, folder, run)
                }
                None => Change::RunOut(folder),
            },
            Change::Look(look) => {
                let before = std::mem::replace(&mut self.look, look);
                requests.extend(self.relook());
                Change::Look(before)
            }
            Change::Options(options) => {
                let before = std::mem::replace(&mut self.backbone_options, options);
                self.training.draft.taking = options.taking();
                requests.extend(self.reload_backbone());
                Change::Options(before)
            }
            Change::Settings(theme, scale, device) => {
                let settings = &mut self.settings;
                let theme = std::mem::replace(&mut settings.theme, theme);
                let scale = std::mem::replace(&mut settings.scale, scale);
                let before = std::mem::replace(&mut settings.device, device);
                if self.training.draft.device == before {
                    self.training.draft.device.clone_from(&settings.device);
                }
                if before != settings.device {
                    requests.extend(self.reload_backbone());
                }
                Change::Settings(theme, scale, before)
            }
        };
        (opposite, requests)
    }

    /// Puts images back where they were, the first first.
    fn put_images(&mut self, images: Vec<Placed>) {
        for (at, id, image) in images {
            self.library.images.insert_before(at, id, image);
        }
    }

    /// Takes images away, and the columns that show them; with the comparison as it was.
    fn take_images(&mut self, ids: &[ImageId]) -> (Vec<Placed>, Columns) {
        let columns = self.columns();
        let at = |id: &ImageId| self.library.images.get_index_of(id);
        let mut places: Vec<usize> = ids.iter().filter_map(at).collect();
        places.sort_unstable();
        places.dedup();
        let next = self.neighbour(&places);
        let image = |place: &usize| {
            let (id, image) = self.library.images.get_index(*place).expect("an image at its place");
            (*place, *id, image.clone())
        };
        let removed: Vec<_> = places.iter().map(image).collect();
        let gone: std::collections::HashSet<ImageId> = removed.iter().map(|(_, id, _)| *id).collect();
        self.library.images.retain(|id, _| !gone.contains(&id));
        gone.iter().for_each(|id| self.thumbnails.forget(*id));
        self.columns.retain(|_, column| column.image.is_none_or(|id| !gone.contains(&id)));
        self.drop_lost_reference();
        if self.selection.image.is_some_and(|id| gone.contains(&id)) {
            self.selection.image = next;
        }
        (removed, columns)
    }

    /// The comparison as it stands.
    pub(super) fn columns(&self) -> Columns {
        (self.columns.clone(), self.selection.clone())
    }

    /// Puts a comparison back, but for what has been closed since. What columns show already stays.
    fn put_columns(&mut self, (columns, selection): Columns) {
        let now = std::mem::take(&mut self.columns);
        for (id, mut column) in columns {
            let image = column.image.is_none_or(|image| self.library.images.contains_key(&image));
            if !image || !self.library.probes.contains_key(&column.probe) {
                continue;
            }
            match now.get(&id) {
                Some(shown) => (column.shown, column.key) = (shown.shown.clone(), shown.key.clone()),
                // A look that was under way when it went is over.
                None if matches!(column.shown, super::Shown::Waiting(_)) => column.key = None,
                None => {}
            }
            self.columns.insert(id, column);
        }
        let known = |image: &ImageId| self.library.images.contains_key(image);
        let image = selection.image.filter(known).or(self.selection.image);
        self.selection = Selection { image, hover: self.selection.hover, ..selection };
        self.drop_lost_reference();
    }

    fn drop_lost_reference(&mut self) {
        let columns = &self.columns;
        self.selection.reference = self.selection.reference.filter(|id| columns.contains_key(id));
    }

    /// The image to look at when those at `places` are gone: the next one that stays, or the last.
    fn neighbour(&self, places: &[usize]) -> Option<ImageId> {
        let from = self.selection.image.and_then(|id| self.library.images.get_index_of(&id)).unwrap_or(0);
        let count = self.library.images.len();
        let stays = |place: &usize| places.binary_search(place).is_err();
        let place = (from..count).find(stays).or_else(|| (0..from).rev().find(stays))?;
        self.library.images.get_index(place).map(|(id, _)| *id)
    }

    /// Ends the job that opens an entry.
    fn stop<Facts>(&mut self, status: &Status<Facts>) -> Option<Request> {
        let Status::Opening(job) = status else { return None };
        self.jobs.shift_remove(job);
        Some(Request::Cancel(*job))
    }
}

impl Change {
    /// Whether it is a setting, which sliders change many times in a row.
    fn is_setting(&self) -> bool {
        matches!(self, Self::Views(_) | Self::Look(_) | Self::Options(_) | Self::Settings(..))
    }
}
