//! What a person can want. A [`Command`] carries all it needs to [`State::dispatch`]; those that need
//! nothing stand in menus, palette and keys as an [`Action`].
//!
//! [`State::dispatch`]: super::State::dispatch

mod action;

use std::path::PathBuf;

use serde_json::Value;

pub use self::action::{Action, Effect, Menu, Prompt, Shortcut};

use super::GalleryFilter;
use super::settings::ThemeChoice;
use crate::app::jobs::train::TrainForm;
use crate::app::jobs::{
    BackboneId, BackboneOptions, ClassChoice, ColumnId, DatasetId, ExplainSettings, ImageId, JobId, ProbeId,
};
use crate::model::data::Split;
use crate::model::explain::intervention::Intervention;
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
    /// Prompt probes about the dataset: those of the columns, or all that fit.
    AskProbes {
        /// All that fit.
        all: bool,
    },
    /// Measure how stable the order of a column is.
    MeasureStability(ColumnId),
    /// Show these images in the gallery.
    SetSieve(Box<GalleryFilter>),
    /// Set what overviews of a dataset show.
    SetOverview(Box<Choice>),
    /// Open whatever these are: dropped files.
    OpenAny(Vec<PathBuf>),
    /// Load a backbone of the library again, on the device chosen now.
    UseBackbone(BackboneId),
    /// Forget a backbone.
    CloseBackbone(BackboneId),
    /// Try again to open a probe that failed.
    ReopenProbe(ProbeId),
    /// Forget a probe and its columns.
    CloseProbe(ProbeId),
    /// Forget images.
    CloseImages(Vec<ImageId>),
    /// Look at this image.
    SelectImage(ImageId),
    /// Look at the image so many further on in the list.
    Step(isize),
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
    SetLook(ExplainSettings),
    /// Set how backbones read images; the open one is opened again.
    SetBackboneOptions(BackboneOptions),
    /// Set the device; the open backbone moves there.
    SetDevice(String),
    /// Light or dark.
    SetTheme(ThemeChoice),
    /// Size of everything.
    SetScale(f32),
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
    /// Fill in the next training.
    SetDraft(Box<TrainForm>),
    /// Find out what the training that is filled in comes to.
    PlanTraining,
    /// Begin the training that was planned.
    StartTraining,
    /// Go on with the run of this folder.
    ResumeTraining(PathBuf),
    /// Let the training rest, or go on.
    PauseTraining(bool),
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
