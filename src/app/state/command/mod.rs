//! The user's commands: a [`Command`] carries all its arguments to [`State::dispatch`]; commands without arguments are in
//! menus, palette and shortcuts as an [`Action`].

mod action;
mod menu;
mod prompt;

use std::collections::BTreeSet;
use std::path::PathBuf;

use serde_json::Value;

pub use self::action::Action;
pub use self::menu::{CTRL, Effect, Menu, Shortcut};
pub use self::prompt::{FilePrompt, Prompt};

use super::entries::removed;
use super::evaluation::Wanted;
use super::jobs::JobKind;
use super::library::{Backbone, Dataset};
use super::settings::{LibrarySections, ThemeChoice, bounded_scale};
use super::share::Share;
use super::{Finding, FindingId, GalleryFilter, SheetView, State};
use crate::app::jobs::result_file::ResultFile;
use crate::app::jobs::tasks::TrainPlaceSettings;
use crate::app::jobs::train::TrainSettings;
use crate::app::jobs::{
    BackboneId, BackboneOptions, ClassChoice, ColumnId, DatasetId, ExplainSettings, Fetch, Files, ImageId,
    JobId, ProbeId, Request,
};
use crate::model::data::Split;
use crate::model::explain::intervention::Intervention;
use crate::model::explain::removal::Mode;
use crate::viz::Options;
use crate::viz::draw::hover::Hover;
use crate::viz::figures::dataset::Choice;

/// A command to the state, with all its arguments.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "a variant says what its name and its fields do not")]
pub enum Command {
    /// Open a backbone: a folder or an id of the Hub.
    OpenBackbone(String),
    OpenProbes(Vec<PathBuf>),
    /// Open the probes of a run's folder.
    OpenRun(PathBuf),
    /// List images; folders are searched.
    OpenImages(Vec<PathBuf>),
    /// Open a dataset, or another split of one that is open.
    OpenDataset(PathBuf, Option<Split>),
    /// Make this the dataset in use.
    UseDataset(DatasetId),
    /// Close a dataset and its images.
    CloseDataset(DatasetId),
    /// Evaluate the columns on the dataset in use, or also all other probes that fit.
    Evaluate {
        all: bool,
    },
    /// Evaluate the columns on the dataset in use, with removal curves in these modes.
    EvaluateRemovals(Vec<Mode>),
    /// Measure how stable the order of a column is.
    MeasureStability(ColumnId),
    /// Compute the removal curves of a column in these modes.
    RemoveTokens(ColumnId, Vec<Mode>),
    /// Prepare the images of a dataset for comparison, as the probe of a column reads them.
    CompareImages(DatasetId, ColumnId),
    /// Show the images most similar to this one first.
    FindSimilar(ImageId),
    SetGalleryFilter(Box<GalleryFilter>),
    /// Set the choices of dataset overviews.
    SetOverview(Box<Choice>),
    /// Recognise these paths, as dropped, and open them.
    OpenAny(Vec<PathBuf>),
    /// List a folder of the worker's machine; the user's home folder if the path is empty.
    ListFolder(PathBuf),
    /// Send a file to the worker's machine, and open it there.
    SendFile(Box<ResultFile>),
    /// Open a backbone of the library again, on the current device.
    UseBackbone(BackboneId),
    CloseBackbone(BackboneId),
    /// Open a probe again that failed or is closed.
    ReopenProbe(ProbeId),
    /// Close probes and their columns.
    CloseProbes(Vec<ProbeId>),
    CloseImages(Vec<ImageId>),
    /// Star an image, or remove its star.
    Star(ImageId, bool),
    KeepFinding(Box<Finding>),
    /// Set the note of a finding.
    WriteFinding(FindingId, String),
    /// Move a finding to this index.
    MoveFinding(FindingId, usize),
    DeleteFinding(FindingId),
    /// Restore what was shown when a finding was kept; the layout is the current one of the panes.
    ShowFinding {
        id: FindingId,
        layout: Value,
    },
    /// Explain findings, for the window to write them to files.
    Share(Box<Share>),
    /// Make this the current image.
    SelectImage(ImageId),
    /// Move the current image by this many positions in the gallery.
    Step(isize),
    Focus(ColumnId),
    /// Focus a column of a probe, a temporary one if need be.
    ShowProbe(ProbeId),
    /// Add probes to the comparison.
    Compare(Vec<ProbeId>),
    /// Compare these probes and no others.
    CompareOnly(Vec<ProbeId>),
    /// Remove probes from the comparison.
    Uncompare(Vec<ProbeId>),
    /// Remove all columns of the comparison but this one.
    KeepColumn(ColumnId),
    /// Add a column to the comparison, of the current image unless another is given.
    AddColumn {
        probe: ProbeId,
        image: Option<ImageId>,
        change: Intervention,
    },
    RemoveColumn(ColumnId),
    /// Move a column to this index.
    MoveColumn(ColumnId, usize),
    /// Give a column its own image, or let it follow the current one.
    SetImage(ColumnId, Option<ImageId>),
    /// Set the intervention of a column.
    SetIntervention(ColumnId, Intervention),
    /// Set the intervention of a column while a control is dragged: consecutive changes are one undo step.
    SlideIntervention(ColumnId, Intervention),
    /// Pin this column, which others are compared with, or none.
    Pin(Option<ColumnId>),
    /// Set the column beside the focused one on a contact sheet, or none.
    SetBeside(Option<ColumnId>),
    /// Set the column on the y axis of a scatter plot; the focused one if `None`.
    SetAgainst(Option<ColumnId>),
    /// Set what the pointer is over.
    Hover(Hover),
    /// Set the class that the evidence is for.
    SetClass(ClassChoice),
    /// Show evidence for the true class of each image.
    FollowTrueClass,
    /// Set the options of a figure.
    SetOptions(String, Options),
    /// Set whether columns share scale limits.
    SetShared(bool),
    /// Set whether columns show differences from the pinned one.
    SetDifference(bool),
    /// Set the figures that are the rows of the comparison, by id.
    SetRows(BTreeSet<String>),
    /// Set how a contact sheet shows its images.
    SetSheetView(SheetView),
    SetExplainSettings(ExplainSettings),
    /// Take the regions of images from this folder of masks, or from their own datasets.
    SetMasks(Option<PathBuf>),
    /// Set the shared options of backbones; the open ones are opened again.
    SetBackboneOptions(BackboneOptions),
    /// Open a backbone a second time, with options of its own.
    OpenBeside(BackboneId, BackboneOptions),
    /// Set the options of a backbone that has its own.
    SetOwnOptions(BackboneId, BackboneOptions),
    /// Set the device; the open backbones are opened again on it.
    SetDevice(String),
    SetTheme(ThemeChoice),
    /// Set the zoom factor.
    SetScale(f32),
    /// Set the sections of the library pane.
    SetLibrary(Box<LibrarySections>),
    /// Explain failed columns again, and read unreadable images and failed maps of a contact sheet.
    Retry,
    Cancel(JobId),
    CancelAll,
    /// Remove a failed job from the list.
    Dismiss(JobId),
    /// Dismiss a note.
    DismissToast(u64),
    /// Request the thumbnails of these visible images.
    ShowThumbnails(Vec<ImageId>),
    /// Request the maps of these visible columns and images of a contact sheet.
    ShowSheet(Vec<(ColumnId, ImageId)>),
    SetTrainForm(Box<TrainSettings>),
    /// Request the preflight of the form.
    PlanTraining,
    /// Start the planned training.
    StartTraining,
    /// Resume the run of this folder.
    ResumeTraining(PathBuf),
    /// Pause or continue the training.
    PauseTraining(bool),
    /// Set where trainings run.
    SetTrainPlace(Box<TrainPlaceSettings>),
    /// Request the tasks of the form.
    PlanTasks,
    /// Submit the failed and stopped tasks of this folder again.
    RetryTasks(PathBuf),
    /// Cancel the tasks of this folder.
    EndTasks(PathBuf),
    /// Close a run; its files stay.
    CloseRun(PathBuf),
    /// Record a change of the window's layout as an undo step.
    Arrange {
        text: String,
        before: Value,
        after: Value,
    },
    Undo,
    Redo,
}

impl State {
    /// Carries out a command; returns the requests that follow from it.
    pub fn dispatch(&mut self, command: Command) -> Vec<Request> {
        let requests = self.carry_out(command);
        self.drop_settled_failure();
        requests
    }

    fn carry_out(&mut self, command: Command) -> Vec<Request> {
        match command {
            Command::OpenBackbone(source) => self.open_backbone(&source),
            Command::OpenProbes(paths) => self.open_probe_files(paths),
            Command::OpenRun(folder) => self.open_run(folder),
            Command::OpenImages(paths) => self.open_images(paths),
            Command::OpenDataset(path, split) => self.open_dataset(path, split),
            Command::UseDataset(id) => self.use_dataset(id),
            Command::CloseDataset(id) => match self.library.datasets.get(&id).map(Dataset::name) {
                Some(name) => {
                    self.change(format!("Close the dataset {name}"), |p| p.datasets = removed([id]))
                }
                None => Vec::new(),
            },
            Command::MeasureStability(column) => self.measure_stability(column),
            Command::RemoveTokens(column, modes) => self.remove_tokens(column, modes),
            Command::Evaluate { all: true } => self.evaluate_probes(Wanted::All, Vec::new()),
            Command::Evaluate { all: false } => self.evaluate_probes(Wanted::Shown, Vec::new()),
            Command::EvaluateRemovals(modes) => self.evaluate_probes(Wanted::Shown, modes),
            Command::CompareImages(dataset, column) => self.compare_images(dataset, column),
            Command::FindSimilar(image) => self.find_similar(image),
            Command::SetGalleryFilter(filter) => self.set_gallery_filter(*filter),
            Command::SetOverview(choice) => {
                self.similarities.forget_failures();
                self.adjust("Set overview", |p| p.views.overview = *choice)
            }
            Command::OpenAny(paths) => {
                let job = self.begin(JobKind::List, "Finding out what to open");
                vec![Request::Files(job, Files::Recognise { paths })]
            }
            Command::ListFolder(folder) => self.list_folder(folder),
            Command::SendFile(file) => {
                let job = self.begin(JobKind::List, format!("Sending {}", file.path.display()));
                vec![Request::Files(job, Files::Receive(*file))]
            }
            Command::UseBackbone(id) => self.load_backbone(id),
            Command::ReopenProbe(id) => self.load_probe(id),
            Command::CloseBackbone(id) => match self.library.backbones.get(&id).map(Backbone::name) {
                Some(name) => {
                    self.change(format!("Close the backbone {name}"), |p| p.backbones = removed([id]))
                }
                None => Vec::new(),
            },
            Command::CloseProbes(ids) => self.close_probes(ids),
            Command::CloseImages(ids) => self.close_images(ids),
            Command::Star(id, starred) => self.star(id, starred),
            Command::KeepFinding(finding) => self.keep_finding(*finding),
            Command::WriteFinding(id, note) => self.write_finding(id, &note),
            Command::MoveFinding(id, to) => self.move_finding(id, to),
            Command::DeleteFinding(id) => self.delete_finding(id),
            Command::ShowFinding { id, layout } => self.show_finding(id, layout),
            Command::Share(share) => self.share(*share),
            Command::SelectImage(id) => self.select_image(id),
            Command::Step(by) => self.step(by),
            Command::Focus(id) => {
                self.selection.focus = Some(id).filter(|id| self.columns.contains_key(id));
                Vec::new()
            }
            Command::ShowProbe(probe) => self.show_probe(probe),
            Command::Compare(probes) => self.compare_probes(&probes, false),
            Command::CompareOnly(probes) => self.compare_probes(&probes, true),
            Command::Uncompare(probes) => self.remove_from_comparison(&probes),
            Command::KeepColumn(id) => self.keep_column(id),
            Command::AddColumn { probe, image, change } => self.add_column(probe, image, change),
            Command::RemoveColumn(id) if !self.columns.contains_key(&id) => Vec::new(),
            Command::RemoveColumn(id) => {
                self.change(self.naming("Remove", id), |p| p.columns = removed([id]))
            }
            Command::MoveColumn(id, to) => {
                let last = self.columns.len().saturating_sub(1);
                self.edit_column(self.naming("Move", id), id, |place, _| *place = to.min(last))
            }
            Command::SetImage(_, Some(image)) if !self.library.images.contains_key(&image) => Vec::new(),
            Command::SetImage(id, image) => {
                self.edit_column(self.naming("Change the image of", id), id, |_, column| column.image = image)
            }
            Command::SetIntervention(id, change) => self.set_intervention(id, change),
            Command::SlideIntervention(id, change) => self.slide_intervention(id, change),
            Command::Pin(id) => self.pin(id),
            Command::SetBeside(id) => self.select("Choose the probe beside", |s| s.beside = id),
            Command::SetAgainst(id) => self.select("Choose the probe of the y axis", |s| s.against = id),
            Command::SetClass(class) => self.set_class(class),
            Command::FollowTrueClass => self.follow_true_class(),
            Command::Hover(hover) => {
                self.selection.hover = hover;
                Vec::new()
            }
            Command::SetOptions(figure, options) => self.set_options(figure, options),
            Command::SetShared(shared) => self.prefer("Shared scales", |p| p.views.shared = shared),
            Command::SetDifference(on) => self.prefer("Show differences", |p| p.views.difference = on),
            Command::SetRows(rows) => self.prefer("Choose the rows of Compare", |p| p.views.rows = rows),
            Command::SetSheetView(sheet) => self.adjust("Set contact sheet", |p| p.views.sheet = sheet),
            Command::SetExplainSettings(settings) => self.prefer("Set explanation", |p| p.explain = settings),
            Command::SetMasks(masks) => self.prefer("Choose masks", |p| p.masks = masks),
            Command::SetTheme(theme) => self.prefer("Change theme", |p| p.theme = theme),
            Command::SetScale(scale) => self.adjust("Change size", |p| p.scale = bounded_scale(scale)),
            Command::SetBackboneOptions(options) if options == self.backbone_options => Vec::new(),
            Command::SetBackboneOptions(options) => self.slide("Set how the backbone reads", |p| {
                p.options = Some((options, Some(options.token_spec())));
            }),
            Command::OpenBeside(id, options) => self.open_beside(id, options),
            Command::SetOwnOptions(id, options) => self.set_own_options(id, options),
            Command::SetDevice(device) if device == self.settings.device => Vec::new(),
            Command::SetDevice(device) => {
                let device = Some((device.clone(), Some(device)));
                self.change("Choose device", |p| p.device = device)
            }
            Command::Retry => self.retry(),
            Command::Cancel(job) => self.cancel(job).into_iter().collect(),
            Command::CancelAll => self.cancel_all(),
            Command::Dismiss(id) => {
                self.jobs.retain(|other, job| *other != id || job.error.is_none());
                Vec::new()
            }
            Command::DismissToast(id) => {
                self.dismiss_toast(id);
                Vec::new()
            }
            Command::ShowThumbnails(images) => self.show_thumbnails(&images),
            Command::SetLibrary(sections) => {
                self.settings.library = *sections;
                Vec::new()
            }
            Command::ShowSheet(places) => self.show_sheet(places),
            Command::SetTrainForm(form) => {
                self.training.form = form.bounded();
                Vec::new()
            }
            Command::PlanTraining => self.plan_training(),
            Command::StartTraining => self.start_training(),
            Command::ResumeTraining(folder) => self.resume_training(folder),
            Command::PauseTraining(pause) => self.pause_training(pause),
            Command::SetTrainPlace(place) => {
                self.settings.training = *place;
                Vec::new()
            }
            Command::PlanTasks => self.plan_tasks(),
            Command::RetryTasks(folder) => {
                self.request_for_tasks(&folder, "Retrying tasks", Fetch::RetryTasks)
            }
            Command::EndTasks(folder) => self.request_for_tasks(&folder, "Cancelling tasks", Fetch::EndTasks),
            Command::CloseRun(folder) => self.close_run(&folder),
            Command::Arrange { text, before, after } => {
                self.layout = before;
                self.change(text, |p| p.layout = Some(after))
            }
            Command::Undo => self.undo_step(),
            Command::Redo => self.redo_step(),
        }
    }
}
