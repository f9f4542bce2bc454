//! What a person wants, into the state and on to the worker.

use std::path::PathBuf;

use super::command::Command;
use super::jobs::JobKind;
use super::library::{Backbone, Dataset, Probe, Status};
use super::settings::{Settings, remember};
use super::undo::Change;
use super::{Column, State, Views};
use crate::app::jobs::{
    BackboneId, ClassChoice, ColumnId, Compute, Fetch, Files, ImageId, JobId, ProbeId, Request,
};
use crate::model::explain::intervention::Intervention;
use crate::viz::{FIGURES, Options};

impl State {
    /// Does what a person wants; answers with what to ask the worker for.
    pub fn dispatch(&mut self, command: Command) -> Vec<Request> {
        match command {
            Command::OpenBackbone(source) => self.open_backbone(&source),
            Command::OpenProbes(paths) => {
                self.remember_probes(&paths);
                self.open_probes(paths)
            }
            Command::OpenRun(folder) => self.open_run(folder),
            Command::OpenImages(paths) => self.open_images(paths),
            Command::OpenDataset(path, split) => self.open_dataset(path, split),
            Command::UseDataset(id) => self.use_dataset(id),
            Command::CloseDataset(id) => match self.library.datasets.get(&id).map(Dataset::name) {
                Some(name) => self.change(format!("Close the dataset {name}"), Change::DatasetOut(id)),
                None => Vec::new(),
            },
            Command::MeasureStability(column) => self.measure_stability(column),
            Command::AskProbes { all } => self.ask_probes(all),
            Command::SetSieve(sieve) => {
                self.sieve = *sieve;
                Vec::new()
            }
            Command::SetOverview(choice) => {
                let views = Views { overview: *choice, ..self.views.clone() };
                self.change_views("Set overview".into(), views)
            }
            Command::OpenAny(paths) => {
                let job = self.begin(JobKind::List, "Finding out what to open");
                vec![Request::Files(job, Files::Recognise { paths })]
            }
            Command::UseBackbone(id) => self.load_backbone(id),
            Command::ReopenProbe(id) => self.load_probe(id),
            Command::CloseBackbone(id) => match self.library.backbones.get(&id).map(Backbone::name) {
                Some(name) => self.change(format!("Close the backbone {name}"), Change::BackboneOut(id)),
                None => Vec::new(),
            },
            Command::CloseProbe(id) => match self.library.probes.get(&id).map(Probe::name) {
                Some(name) => self.change(format!("Close the probe {name}"), Change::ProbeOut(id)),
                None => Vec::new(),
            },
            Command::CloseImages(ids) => self.close_images(ids),
            Command::SelectImage(id) => self.select_image(id),
            Command::Step(by) => self.step(by),
            Command::AddColumn { probe, image, change } => self.add_column(probe, image, change),
            Command::RemoveColumn(id) => self.change_columns(self.naming("Remove", id), |state| {
                state.columns.shift_remove(&id);
                state.selection.reference = state.selection.reference.filter(|pinned| *pinned != id);
            }),
            Command::MoveColumn(id, to) => self.change_columns(self.naming("Move", id), |state| {
                if let Some(from) = state.columns.get_index_of(&id) {
                    state.columns.move_index(from, to.min(state.columns.len() - 1));
                }
            }),
            Command::SetImage(id, image) => {
                self.change_columns(self.naming("Change the image of", id), |state| {
                    let known = image.is_none_or(|image| state.library.images.contains_key(&image));
                    if let Some(column) = state.columns.get_mut(&id).filter(|_| known) {
                        column.image = image;
                    }
                })
            }
            Command::SetChange(id, change) => self.set_change(id, change),
            Command::Pin(id) => self.pin(id),
            Command::SetClass(class) => self.set_class(class),
            Command::Hover(hover) => {
                self.selection.hover = hover;
                Vec::new()
            }
            Command::SetOptions(figure, options) => self.set_options(figure, options),
            Command::SetShared(shared) => {
                self.change_views("Share limits".into(), Views { shared, ..self.views.clone() })
            }
            Command::SetDifference(difference) => {
                self.change_views("Show differences".into(), Views { difference, ..self.views.clone() })
            }
            Command::SetLook(look) if look == self.look => Vec::new(),
            Command::SetLook(look) => self.change("Set explanation", Change::Look(look)),
            Command::SetBackboneOptions(options) if options == self.backbone_options => Vec::new(),
            Command::SetBackboneOptions(options) => {
                self.change("Set how the backbone reads", Change::Options(options))
            }
            Command::SetDevice(device) if device == self.settings.device => Vec::new(),
            Command::SetDevice(device) => {
                self.change("Choose device", Change::Device(device.clone(), Some(device)))
            }
            Command::SetTheme(theme) => self.change_settings("Change theme", |s| s.theme = theme),
            Command::SetScale(scale) => self.change_settings("Change size", |s| {
                s.scale = if scale.is_finite() { scale.clamp(0.5, 4.0) } else { 1.0 };
            }),
            Command::Retry => self.retry(),
            Command::Cancel(job) => self.cancel(job).into_iter().collect(),
            Command::CancelAll => {
                let jobs: Vec<JobId> = self.jobs.keys().copied().collect();
                jobs.into_iter().filter_map(|job| self.cancel(job)).collect()
            }
            Command::Dismiss(job) => {
                if self.jobs.get(&job).is_some_and(|job| job.fault.is_some()) {
                    self.jobs.shift_remove(&job);
                }
                Vec::new()
            }
            Command::DismissToast(id) => {
                self.toasts.retain(|toast| toast.id != id);
                Vec::new()
            }
            Command::ShowThumbnails(images) => self.show_thumbnails(&images),
            Command::SetDraft(draft) => {
                self.set_draft(*draft);
                Vec::new()
            }
            Command::PlanTraining => self.plan_training(),
            Command::StartTraining => self.start_training(),
            Command::ResumeTraining(folder) => self.resume_training(folder),
            Command::PauseTraining(rest) => self.pause_training(rest),
            Command::CloseRun(folder) => self.close_run(&folder),
            Command::Arrange { text, before, after } => {
                self.layout = before;
                self.change(text, Change::Layout(after))
            }
            Command::Undo => self.take_back(),
            Command::Redo => self.do_again(),
        }
    }

    /// `Remove the column gap`.
    fn naming(&self, what: &str, column: ColumnId) -> String {
        format!("{what} the column {}", self.column_title(column))
    }

    fn close_images(&mut self, mut ids: Vec<ImageId>) -> Vec<Request> {
        ids.retain(|id| self.library.images.contains_key(id));
        let text = match ids[..] {
            [] => return Vec::new(),
            [only] => format!("Close the image {}", self.library.images[&only].name()),
            _ => format!("Close {} images", ids.len()),
        };
        self.change(text, Change::ImagesOut(ids))
    }

    fn select_image(&mut self, id: ImageId) -> Vec<Request> {
        if self.library.images.contains_key(&id) {
            self.selection.image = Some(id);
        }
        self.relook()
    }

    fn pin(&mut self, id: Option<ColumnId>) -> Vec<Request> {
        let text = id.map_or_else(|| "Unpin the reference".to_owned(), |id| self.naming("Pin", id));
        self.change_columns(text, |state| {
            state.selection.reference = id.filter(|id| state.columns.contains_key(id));
        })
    }

    fn set_class(&mut self, class: ClassChoice) -> Vec<Request> {
        self.change_columns("Choose class", |state| {
            state.selection.class = match class {
                ClassChoice::Named(name) if name.trim().is_empty() => ClassChoice::Predicted,
                class => class,
            };
        })
    }

    fn set_options(&mut self, figure: String, options: Options) -> Vec<Request> {
        let known = FIGURES.iter().find(|known| known.id() == figure);
        let title = known.map_or(figure.clone(), |known| known.title().to_lowercase());
        let mut views = self.views.clone();
        views.options.insert(figure, options);
        self.change_views(format!("Set options of {title}"), views)
    }

    fn add_column(&mut self, probe: ProbeId, image: Option<ImageId>, change: Intervention) -> Vec<Request> {
        let name = self.library.probes.get(&probe).map(Probe::name).unwrap_or_default();
        let mut requests = self.change_columns(format!("Add a column of {name}"), |state| {
            let known = image.is_none_or(|image| state.library.images.contains_key(&image));
            if known && state.library.probes.contains_key(&probe) {
                let id = ColumnId(state.fresh());
                state.columns.insert(id, Column::new(probe, image, change));
            }
        });
        requests.extend(self.ask_changes());
        requests
    }

    fn set_change(&mut self, id: ColumnId, change: Intervention) -> Vec<Request> {
        let mut requests = self.change_columns(self.naming("Change how", id) + " reads", |state| {
            if let Some(column) = state.columns.get_mut(&id) {
                column.change = change;
            }
        });
        requests.extend(self.ask_changes());
        requests
    }

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
            self.jobs.shift_remove(&job);
            requests.push(Request::Cancel(job));
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
        let Some(probe) = self.library.probes.get(&id) else { return Vec::new() };
        if matches!(probe.status, Status::Opening(_)) {
            return Vec::new();
        }
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

    /// Changes theme or size so that it can be taken back.
    fn change_settings(&mut self, text: &str, edit: impl FnOnce(&mut Settings)) -> Vec<Request> {
        let mut wanted = self.settings.clone();
        edit(&mut wanted);
        if wanted == self.settings {
            return Vec::new();
        }
        self.change(text, Change::Settings(wanted.theme, wanted.scale))
    }

    /// Selects the image so many further on, ending at the first and last.
    fn step(&mut self, by: isize) -> Vec<Request> {
        let images = &self.library.images;
        let Some(last) = images.len().checked_sub(1) else { return Vec::new() };
        let from = self.selection.image.and_then(|id| images.get_index_of(&id));
        let to = from.map_or(0, |from| from.saturating_add_signed(by).min(last));
        self.selection.image = images.get_index(to).map(|(id, _)| *id);
        self.relook()
    }

    /// Changes the comparison so that it can be taken back; nothing if nothing comes of it.
    fn change_columns(&mut self, text: impl Into<String>, edit: impl FnOnce(&mut Self)) -> Vec<Request> {
        let before = self.columns();
        edit(self);
        let after = self.columns();
        let same = before.1 == after.1
            && before.0.len() == after.0.len()
            && before.0.iter().zip(&after.0).all(|((id, a), (other, b))| {
                id == other && (a.probe, a.image, a.change) == (b.probe, b.image, b.change)
            });
        if same {
            return Vec::new();
        }
        (self.columns, self.selection) = before;
        self.change(text, Change::Columns(after))
    }

    fn change_views(&mut self, text: String, views: Views) -> Vec<Request> {
        if views == self.views { Vec::new() } else { self.change(text, Change::Views(views)) }
    }

    fn cancel(&mut self, id: JobId) -> Option<Request> {
        let job = self.jobs.get_mut(&id).filter(|job| job.fault.is_none())?;
        job.cancelling = true;
        Some(Request::Cancel(id))
    }
}
