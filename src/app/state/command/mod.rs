//! What a person can want, and what comes of it: a [`Command`] carries all it needs to
//! [`State::dispatch`]; those that need nothing stand in menus, palette and keys as an [`Action`].

mod action;
mod menu;
mod prompt;

use std::path::PathBuf;

use serde_json::Value;

pub use self::action::{Action, Effect};
pub use self::menu::{Menu, Shortcut};
pub use self::prompt::{FilePrompt, Prompt};

use super::entries::removed;
use super::jobs::JobKind;
use super::library::{Backbone, Dataset};
use super::settings::{LibrarySections, ThemeChoice, bounded_scale};
use super::share::Share;
use super::{Finding, FindingId, GalleryFilter, State};
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

/// What a person wants of the state, with everything it needs.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    /// Open a backbone: a folder or an id of the Hub.
    OpenBackbone(String),
    /// Open probe files.
    OpenProbes(Vec<PathBuf>),
    /// Open the probes of a run's folder.
    OpenRun(PathBuf),
    /// List images; folders are searched.
    OpenImages(Vec<PathBuf>),
    /// Open a dataset, or another split of one that is open.
    OpenDataset(PathBuf, Option<Split>),
    /// Look at this dataset.
    UseDataset(DatasetId),
    /// Forget a dataset and its images.
    CloseDataset(DatasetId),
    /// Ask probes about the dataset: those of the columns, or all that fit.
    Evaluate {
        /// All that fit.
        all: bool,
    },
    /// Ask the probes of the columns about the dataset, and remove every image's tokens in these modes.
    EvaluateRemovals(Vec<Mode>),
    /// Measure how stable the order of a column is.
    MeasureStability(ColumnId),
    /// Remove the tokens of a column in these modes, and read the class.
    RemoveTokens(ColumnId, Vec<Mode>),
    /// Make the images of a dataset ready to be compared, as the probe of a column reads them.
    CompareImages(DatasetId, ColumnId),
    /// Show the images most alike to this one first.
    FindSimilar(ImageId),
    /// Show these images in the gallery.
    SetGalleryFilter(Box<GalleryFilter>),
    /// Set what overviews of a dataset show.
    SetOverview(Box<Choice>),
    /// Open whatever these are: dropped files.
    OpenAny(Vec<PathBuf>),
    /// Look into a folder of the machine that computes; into the user's own where it is empty.
    ListFolder(PathBuf),
    /// Send a file to the machine that computes, and open it there.
    SendFile(Box<ResultFile>),
    /// Load a backbone of the library again, on the device chosen now.
    UseBackbone(BackboneId),
    /// Forget a backbone.
    CloseBackbone(BackboneId),
    /// Try again to open a probe that failed.
    ReopenProbe(ProbeId),
    /// Forget probes and their columns.
    CloseProbes(Vec<ProbeId>),
    /// Forget images.
    CloseImages(Vec<ImageId>),
    /// Give an image a star, or take it away.
    Star(ImageId, bool),
    /// Keep this as a finding.
    KeepFinding(Box<Finding>),
    /// Write this note on a finding.
    WriteFinding(FindingId, String),
    /// Move a finding to this place.
    MoveFinding(FindingId, usize),
    /// Forget a finding.
    DeleteFinding(FindingId),
    /// Show what was shown when a finding was kept.
    ShowFinding {
        /// The finding.
        id: FindingId,
        /// How the panes stand now.
        layout: Value,
    },
    /// Explain findings, and have them written to files.
    Share(Box<Share>),
    /// Look at this image.
    SelectImage(ImageId),
    /// Look at the image so many further on in the list.
    Step(isize),
    /// Look through this column.
    Focus(ColumnId),
    /// Look through a probe, which need not stand in the comparison.
    ShowProbe(ProbeId),
    /// Add probes to the comparison.
    Compare(Vec<ProbeId>),
    /// Compare these probes and no others.
    CompareOnly(Vec<ProbeId>),
    /// Take probes out of the comparison.
    Uncompare(Vec<ProbeId>),
    /// Take all columns of the comparison away but this one.
    KeepColumn(ColumnId),
    /// Show a probe beside the others; on the current image where no other is given.
    AddColumn {
        /// The probe.
        probe: ProbeId,
        /// The image, if not the current one.
        image: Option<ImageId>,
        /// What is changed.
        change: Intervention,
    },
    /// Take a column away.
    RemoveColumn(ColumnId),
    /// Move a column to this place.
    MoveColumn(ColumnId, usize),
    /// Give a column its own image, or the current one again.
    SetImage(ColumnId, Option<ImageId>),
    /// Change how a column's probe reads.
    SetChange(ColumnId, Intervention),
    /// The same on the way to another change: all of them in a row are one step to take back.
    SlideChange(ColumnId, Intervention),
    /// Compare with this column, or with none.
    Pin(Option<ColumnId>),
    /// The pointer is over this.
    Hover(Hover),
    /// Choose the class of the evidence.
    SetClass(ClassChoice),
    /// Set the options of a figure.
    SetOptions(String, Options),
    /// Whether columns share limits.
    SetShared(bool),
    /// Whether columns show differences from the pinned one.
    SetDifference(bool),
    /// Set what explanations depend on.
    SetExplainSettings(ExplainSettings),
    /// Know regions of images from this folder of masks, or from what their datasets bring along.
    SetMasks(Option<PathBuf>),
    /// Set how backbones read images; the open one is opened again.
    SetBackboneOptions(BackboneOptions),
    /// Open a backbone once more beside itself, reading images so.
    OpenBeside(BackboneId, BackboneOptions),
    /// Set how one of those reads images.
    SetOwnOptions(BackboneId, BackboneOptions),
    /// Set the device; the open backbone moves there.
    SetDevice(String),
    /// Light or dark.
    SetTheme(ThemeChoice),
    /// Size of everything.
    SetScale(f32),
    /// How the library is divided.
    SetLibrary(Box<LibrarySections>),
    /// Look again at what failed.
    Retry,
    /// End a job early.
    Cancel(JobId),
    /// End all jobs early.
    CancelAll,
    /// Take a failed job's message away.
    Dismiss(JobId),
    /// Take a note away.
    DismissToast(u64),
    /// These images are in sight, in this order: their thumbnails are wanted.
    ShowThumbnails(Vec<ImageId>),
    /// These images are in sight as these columns see them: what a probe makes of each is wanted.
    ShowSheet(Vec<(ColumnId, ImageId)>),
    /// Fill in the next training.
    SetTrainForm(Box<TrainSettings>),
    /// Find out what the training that is filled in comes to.
    PlanTraining,
    /// Begin the training that was planned.
    StartTraining,
    /// Go on with the run of this folder.
    ResumeTraining(PathBuf),
    /// Let the training rest, or go on.
    PauseTraining(bool),
    /// Compute trainings there.
    SetTrainPlace(Box<TrainPlaceSettings>),
    /// Find out which tasks the training that is filled in would be.
    PlanTasks,
    /// Hand in again what failed or was stopped of the tasks of this folder.
    RetryTasks(PathBuf),
    /// End the tasks of this folder.
    EndTasks(PathBuf),
    /// Take a run's curves away; its files stay.
    CloseRun(PathBuf),
    /// The panes were arranged anew; how they stood before and stand now is the window's own.
    Arrange {
        /// What was done.
        text: String,
        /// The layout before.
        before: Value,
        /// The layout now.
        after: Value,
    },
    /// Undo the last close or change.
    Undo,
    /// Do again what was taken back.
    Redo,
}

impl State {
    /// Does what a person wants; answers with what to ask the worker for.
    pub fn dispatch(&mut self, command: Command) -> Vec<Request> {
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
            Command::Evaluate { all } => self.evaluate_probes(all),
            Command::EvaluateRemovals(modes) => self.evaluate_removals(modes),
            Command::CompareImages(dataset, column) => self.compare_images(dataset, column),
            Command::FindSimilar(image) => self.find_similar(image),
            Command::SetGalleryFilter(filter) => {
                self.gallery_filter = *filter;
                Vec::new()
            }
            Command::SetOverview(choice) => {
                self.similarities.forget_failures();
                self.prefer("Set overview", |p| p.views.overview = *choice)
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
            Command::Compare(probes) => self.compare_probes(&probes),
            Command::CompareOnly(probes) => self.compare_only(&probes),
            Command::Uncompare(probes) => self.remove_from_comparison(&probes),
            Command::KeepColumn(id) => self.keep_column(id),
            Command::AddColumn { probe, image, change } => self.add_column(probe, image, change),
            Command::RemoveColumn(id) if !self.columns.contains_key(&id) => Vec::new(),
            Command::RemoveColumn(id) => {
                self.change(self.step_text("Remove", id), |p| p.columns = removed([id]))
            }
            Command::MoveColumn(id, to) => {
                let last = self.columns.len().saturating_sub(1);
                self.edit_column(self.step_text("Move", id), id, |place, _| *place = to.min(last))
            }
            Command::SetImage(_, Some(image)) if !self.library.images.contains_key(&image) => Vec::new(),
            Command::SetImage(id, image) => {
                self.edit_column(self.step_text("Change the image of", id), id, |_, column| {
                    column.image = image
                })
            }
            Command::SetChange(id, change) => self.set_change(id, change),
            Command::SlideChange(id, change) => self.slide_change(id, change),
            Command::Pin(id) => self.pin(id),
            Command::SetClass(class) => self.set_class(class),
            Command::Hover(hover) => {
                self.selection.hover = hover;
                Vec::new()
            }
            Command::SetOptions(figure, options) => self.set_options(figure, options),
            Command::SetShared(shared) => self.prefer("Shared scales", |p| p.views.shared = shared),
            Command::SetDifference(on) => self.prefer("Show differences", |p| p.views.difference = on),
            Command::SetExplainSettings(settings) => self.prefer("Set explanation", |p| p.explain = settings),
            Command::SetMasks(masks) => self.prefer("Choose masks", |p| p.masks = masks),
            Command::SetTheme(theme) => self.prefer("Change theme", |p| p.theme = theme),
            Command::SetScale(scale) => self.prefer("Change size", |p| p.scale = bounded_scale(scale)),
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
            Command::CancelAll => {
                let jobs: Vec<JobId> = self.jobs.keys().copied().collect();
                jobs.into_iter().filter_map(|job| self.cancel(job)).collect()
            }
            Command::Dismiss(job) => {
                if self.jobs.get(&job).is_some_and(|job| job.error.is_some()) {
                    self.jobs.shift_remove(&job);
                }
                Vec::new()
            }
            Command::DismissToast(id) => {
                self.toasts.retain(|toast| toast.id != id);
                Vec::new()
            }
            Command::ShowThumbnails(images) => self.show_thumbnails(&images),
            Command::SetLibrary(sections) => {
                self.settings.library = *sections;
                Vec::new()
            }
            Command::ShowSheet(places) => self.show_sheet(places),
            Command::SetTrainForm(form) => {
                self.set_train_form(*form);
                Vec::new()
            }
            Command::PlanTraining => self.plan_training(),
            Command::StartTraining => self.start_training(),
            Command::ResumeTraining(folder) => self.resume_training(folder),
            Command::PauseTraining(rest) => self.pause_training(rest),
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
