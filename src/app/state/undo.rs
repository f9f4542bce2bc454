//! Taking back: closings and settings, as changes that know their own opposite.

use std::collections::VecDeque;
use std::path::PathBuf;

use indexmap::IndexMap;
use serde_json::Value;

use super::backbone_options::CommonOptions;
use super::library::{Backbone, Dataset, Image, Probe, Status};
use super::settings::ThemeChoice;
use super::{Column, Followed, GalleryFilter, Selection, State, Views};
use crate::app::jobs::{
    BackboneId, BackboneOptions, ColumnId, DatasetId, ExplainSettings, ImageId, ProbeId, Request,
};

/// Steps that can be taken back.
const KEPT: usize = 64;

/// Something that was changed, so that it can be changed back.
pub(super) enum Change {
    BackboneIn(usize, BackboneId, Backbone),
    BackboneOut(BackboneId),
    ProbeIn(usize, ProbeId, Probe, Columns),
    ProbeOut(ProbeId),
    DatasetIn(usize, DatasetId, Dataset, Vec<Placed>, Columns, Sight),
    DatasetOut(DatasetId),
    ImagesIn(Vec<Placed>, Columns),
    ImagesOut(Vec<ImageId>),
    Columns(Columns),
    Views(Views),
    Layout(Value),
    RunIn(usize, PathBuf, Followed),
    RunOut(PathBuf),
    Look(ExplainSettings),
    Options(BackboneOptions),
    /// Theme and size of everything.
    Settings(ThemeChoice, f32),
    /// The device, and that of the next training where it follows.
    Device(String, Option<String>),
}

/// The comparison: what is shown beside what.
pub(super) type Columns = (IndexMap<ColumnId, Column>, Selection);

/// An image and its place in the library.
type Placed = (usize, ImageId, Image);

/// The dataset that is looked at, and which of its images.
type Sight = (Option<DatasetId>, GalleryFilter);

/// A change and what a menu calls it.
struct Step {
    text: String,
    change: Change,
    /// On what the shown probes agreed where this leads; nothing known of a new step.
    agreed: Option<CommonOptions>,
    /// How images are read there, where another agreement changed that with the step.
    options: Option<BackboneOptions>,
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
        let step = Step { text: text.into(), change, agreed: None, options: None };
        let (opposite, requests) = self.turn(step);
        self.undo.forth.clear();
        // One step for a slider that moves, not one for each of its places.
        let slides = |last: &Step| {
            last.text == opposite.text && opposite.change.is_setting() && last.change.is_setting()
        };
        if self.undo.back.back().is_none_or(|last| !slides(last)) {
            self.keep(opposite);
        }
        requests
    }

    /// Goes over a step; the step back, and what to ask for.
    fn turn(&mut self, Step { text, change, agreed, options }: Step) -> (Step, Vec<Request>) {
        let before = (self.agreed, self.backbone_options);
        let chosen = matches!(change, Change::Options(_));
        self.agreed = agreed.unwrap_or(self.agreed);
        let mut requests = options.map_or_else(Vec::new, |options| self.read_as(options));
        let (change, more) = self.make(change);
        requests.extend(more);
        // Back or forth, images are read as they were there, whatever the shown probes agree on by now.
        if let Some(agreed) = agreed {
            self.agreed = agreed;
            let there = options.unwrap_or(before.1);
            if !chosen && self.backbone_options != there {
                requests.extend(self.read_as(there));
            }
        }
        let options = (!chosen && self.backbone_options != before.1).then_some(before.1);
        (Step { text, change, agreed: Some(before.0), options }, requests)
    }

    fn keep(&mut self, step: Step) {
        if self.undo.back.len() >= KEPT {
            self.undo.back.pop_front();
        }
        self.undo.back.push_back(step);
    }

    pub(super) fn take_back(&mut self) -> Vec<Request> {
        let Some(step) = self.undo.back.pop_back() else { return Vec::new() };
        let (step, requests) = self.turn(step);
        self.undo.forth.push(step);
        requests
    }

    pub(super) fn do_again(&mut self) -> Vec<Request> {
        let live = self.training.live.as_ref().and_then(|live| live.folder.as_ref());
        let possible = |step: &Step| !matches!(&step.change, Change::RunOut(folder) if Some(folder) == live);
        if !self.undo.forth.last().is_some_and(possible) {
            return Vec::new(); // nothing, or a run that is trained now
        }
        let Some(step) = self.undo.forth.pop() else { return Vec::new() };
        let (step, requests) = self.turn(step);
        self.keep(step);
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
                self.add_columns(columns);
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
            Change::DatasetIn(at, id, dataset, images, columns, sight) => {
                // What was being opened was cancelled when it went: it is opened again.
                let was_opening = matches!(dataset.status, Status::Opening(_));
                let status = if was_opening { Status::Closed } else { dataset.status };
                let (split, dataset) = (dataset.split, Dataset { status, ..dataset });
                self.library.datasets.shift_insert(at.min(self.library.datasets.len()), id, dataset);
                if was_opening {
                    requests.extend(self.load_dataset(id, split));
                }
                self.put_images(images);
                self.add_columns(columns);
                (self.surveys.dataset, self.sieve) = sight;
                self.surveys.revision += 1;
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
                    let sight = (self.surveys.dataset, self.sieve.clone());
                    self.forget_dataset(id);
                    requests.extend(self.relook());
                    Change::DatasetIn(at, id, dataset, images, columns, sight)
                }
                None => Change::DatasetOut(id),
            },
            Change::ImagesIn(images, columns) => {
                let ids = images.iter().map(|(_, id, _)| *id).collect();
                self.put_images(images);
                self.add_columns(columns);
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
            // Opened again meanwhile, and perhaps trained: it stays as it is.
            Change::RunIn(_, ref folder, _) if self.training.runs.contains_key(folder) => change,
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
                let before = self.backbone_options;
                requests.extend(self.read_as(options));
                Change::Options(before)
            }
            Change::Settings(theme, scale) => {
                let settings = &mut self.settings;
                let theme = std::mem::replace(&mut settings.theme, theme);
                Change::Settings(theme, std::mem::replace(&mut settings.scale, scale))
            }
            Change::Device(device, next) => {
                let before = std::mem::replace(&mut self.settings.device, device);
                let draft = &mut self.training.draft.device;
                let next = next.filter(|_| *draft == before).map(|next| std::mem::replace(draft, next));
                requests.extend(self.reload_backbone());
                Change::Device(before, next)
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
            if !self.library.probes.contains_key(&column.probe) {
                continue;
            }
            // Where its image has gone with another split, it shows the current one.
            column.image = column.image.filter(|image| self.library.images.contains_key(image));
            match now.get(&id) {
                Some(shown) => (column.shown, column.key) = (shown.shown.clone(), shown.key.clone()),
                // A look that was under way when it went is over.
                None if matches!(column.shown, super::ColumnState::Waiting(_)) => column.key = None,
                None => {}
            }
            self.columns.insert(id, column);
        }
        let known = |image: &ImageId| self.library.images.contains_key(image);
        let image = selection.image.filter(known).or(self.selection.image);
        self.selection = Selection { image, hover: self.selection.hover, ..selection };
        self.drop_lost_reference();
    }

    /// Puts back the columns that went with something; those that came since stay, behind the others.
    fn add_columns(&mut self, columns: Columns) {
        let now = self.columns.clone();
        self.put_columns(columns);
        for (id, column) in now {
            self.columns.entry(id).or_insert(column);
        }
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
