//! What the window shows, as plain data: [`State::apply`] takes what the worker says,
//! [`State::dispatch`] what a person wants; both answer with what to ask the worker for. No thread,
//! no file, no window: the same calls give the same state.

mod apply;
mod backbone_options;
mod browser;
mod columns;
pub mod command;
mod comparison;
pub mod connection;
mod entries;
mod evaluation;
mod explain;
mod findings;
mod gallery_filter;
mod hand_order;
mod images;
mod jobs;
mod library;
mod open;
mod recent;
mod relative;
mod removal;
mod restore;
mod reveal;
mod run_choice;
pub mod settings;
pub mod share;
mod sheet;
mod show_finding;
mod similarity;
mod stability;
mod tasks;
mod thumbnails;
mod training;
mod undo;
mod unsaved;
mod watched_run;
pub mod workspace;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use self::browser::Browser;
pub use self::columns::{Column, ColumnState};
use self::connection::Connection;
pub use self::evaluation::Evaluations;
pub use self::findings::{Finding, FindingColumn, FindingId, FindingView, Findings, MAX_NOTE};
pub use self::gallery_filter::{GalleryFilter, Outcome, Scope, Sort};
pub use self::images::Images;
use self::jobs::Failure;
pub use self::jobs::{Job, JobKind, LogEntry, Severity, Toast};
pub use self::library::{Backbone, Dataset, Image, Label, Library, Probe, Status};
pub use self::removal::Removals;
pub use self::reveal::{Reveal, RevealTarget};
use self::run_choice::RunChoice;
use self::share::Sharing;
pub use self::sheet::{ImageMap, Sheet};
pub use self::similarity::Similarities;
pub use self::stability::{RunningStability, Stabilities};
pub use self::tasks::TaskPlan;
pub use self::thumbnails::{Thumbnail, Thumbnails};
pub use self::training::{ActiveRun, PreflightState, Training};
use self::undo::Undo;
pub use self::watched_run::{Phase, WatchedRun};
use super::jobs::{BackboneOptions, ClassChoice, ColumnId, ExplainSettings, ImageId, JobId, Request};
use crate::app::state::settings::Settings;
use crate::model::trace::Trace;
use crate::viz::draw::hover::Hover;
use crate::viz::figures::dataset::Choice;
use crate::viz::figures::scan_path;
use crate::viz::{FIGURES, Figure, Options, Shared, shared};

/// Everything the window shows.
#[derive(Default)]
pub struct State {
    /// What is open.
    pub library: Library,
    /// The comparison: one probe and image a column.
    pub columns: IndexMap<ColumnId, Column>,
    /// The current image, the pinned column, the class, what the pointer is over.
    pub selection: Selection,
    /// How figures are drawn.
    pub views: Views,
    /// What explanations depend on.
    pub explain: ExplainSettings,
    /// Folder of masks, or of a dataset's annotations; what the datasets of images bring along where absent.
    pub masks: Option<PathBuf>,
    /// How backbones read images.
    pub backbone_options: BackboneOptions,
    /// What is remembered from day to day.
    pub settings: Settings,
    /// How it stands with the way to who computes.
    pub connection: Connection,
    /// Bytes of memory that a worker elsewhere takes, as it said last.
    pub far_memory: Option<u64>,
    /// A folder of another machine that is looked into.
    pub browser: Browser,
    /// Running jobs, and failed ones until they are dismissed.
    pub jobs: IndexMap<JobId, Job>,
    /// Short notes, the oldest first.
    pub toasts: Vec<Toast>,
    /// Everything that went wrong or was noted, the oldest first; bounded.
    pub log: Vec<LogEntry>,
    /// Small pictures of images.
    pub thumbnails: Thumbnails,
    /// What probes made of the images of a contact sheet.
    pub sheet: Sheet,
    /// Training: its form, what that comes to, the one that runs, and runs that are open.
    pub training: Training,
    /// Findings, and stars on images.
    pub findings: Findings,
    /// Findings on their way into files.
    sharing: Option<Sharing>,
    /// Which images the gallery shows.
    pub gallery_filter: GalleryFilter,
    /// What probes made of datasets.
    pub evaluations: Evaluations,
    /// How stable orders are.
    pub stabilities: Stabilities,
    /// Removal curves.
    pub removals: Removals,
    /// Which images are read alike.
    pub similarities: Similarities,
    /// How the panes stand, as the window says it, where something was changed.
    pub layout: Value,
    /// Counts the changes of the layout.
    pub arranged: u64,
    /// What is to be brought into sight.
    pub reveal: Reveal,
    /// Probes that were opened together, of which some are to be shown.
    run_choice: RunChoice,
    /// What could not be opened, as it is noted.
    failure: Option<Failure>,
    /// Whether what is opened is the demo, which nobody chose.
    opens_demo: bool,
    undo: Undo,
    /// What the shown probes were trained on, as far as they agreed last.
    common_options: backbone_options::CommonOptions,
    /// The look that is under way.
    explaining: Option<JobId>,
    /// Looks that were answered.
    answered: u64,
    /// The next id of anything.
    next: u64,
}

/// What is pointed at.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Selection {
    /// The current image.
    pub image: Option<ImageId>,
    /// The column others are compared with.
    pub reference: Option<ColumnId>,
    /// The column that was chosen to be looked through.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub focus: Option<ColumnId>,
    /// The class of the evidence.
    pub class: ClassChoice,
    /// The token and position the pointer is over, in every figure.
    #[serde(skip)]
    pub hover: Hover,
}

/// How figures are drawn.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Views {
    /// Options of figures by id, those that differ from the defaults.
    pub options: BTreeMap<String, Options>,
    /// Whether all columns of a figure share their limits.
    pub shared: bool,
    /// Whether columns show their difference from the pinned one.
    pub difference: bool,
    /// What overviews of a dataset show.
    pub overview: Choice,
}

impl Default for Views {
    fn default() -> Self {
        Self { options: BTreeMap::new(), shared: true, difference: false, overview: Choice::default() }
    }
}

impl Views {
    /// The options of a figure.
    pub fn figure_options(&self, figure: &str) -> Options {
        let own = self.options.get(figure).cloned().unwrap_or_default();
        Options { step: self.step(), ..own }
    }

    /// How many tokens of the reading are looked at, in every figure; nothing where it is all of them.
    pub fn step(&self) -> Option<usize> {
        self.options.get(scan_path::ID)?.step
    }
}

impl State {
    /// An empty state with remembered settings.
    pub fn new(settings: Settings) -> Self {
        let mut state = Self { settings, next: 1, ..Self::default() };
        state.training.form.device.clone_from(&state.settings.device);
        state
    }

    /// Opens the demo, which nobody chose and which is therefore not remembered as used.
    pub fn open_demo(&mut self, commands: Vec<command::Command>) -> Vec<Request> {
        self.opens_demo = true;
        let requests = commands.into_iter().flat_map(|command| self.dispatch(command)).collect();
        self.opens_demo = false;
        requests
    }

    /// The current image.
    pub fn current_image(&self) -> Option<&Image> {
        self.library.images.get(&self.selection.image?)
    }

    /// The trace of the pinned column.
    pub fn reference(&self) -> Option<&Arc<Trace>> {
        self.columns.get(&self.selection.reference?)?.shown.trace()
    }

    /// The name of a column: probe, backbone where several are open, image where it is not the current
    /// one, and what is changed.
    pub fn column_title(&self, id: ColumnId) -> String {
        let Some(column) = self.columns.get(&id) else { return String::new() };
        let probe = self.library.probe_name(column.probe);
        let image = column.image.and_then(|image| self.library.images.get(&image)).map(Image::name);
        let change = (!column.change.is_none()).then(|| column.change.to_string());
        // Probes of several backbones often share a name.
        let several = self.library.open_backbones().count() > 1;
        let backbone = self.library.backbone_of(column.probe).filter(|_| several);
        let backbone = backbone.and_then(|(id, _)| Some(self.library.backbones.get(&id)?.name()));
        [Some(probe), backbone, image, change].into_iter().flatten().collect::<Vec<_>>().join(" · ")
    }

    /// Every figure, of methods of attribution those that are computed.
    pub fn figures(&self) -> impl Iterator<Item = &'static dyn Figure> + use<> {
        let asked = self.explain.attributions;
        let known =
            move |figure: &&dyn Figure| figure.attribution().is_none_or(|method| asked.contains(method));
        FIGURES.iter().copied().filter(known)
    }

    /// Limits of a figure over all columns, where they are shared.
    pub fn shared_limits(&self, figure: &str) -> Shared {
        let known = FIGURES.iter().find(|known| known.id() == figure).filter(|_| self.views.shared);
        let Some(figure) = known else { return [None; 2] };
        shared(*figure, self.columns.values().filter_map(|column| Some(&**column.shown.trace()?)))
    }

    /// A new number for an id.
    fn fresh(&mut self) -> u64 {
        self.next += 1;
        self.next - 1
    }
}
