//! What the window shows, as plain data: [`State::apply`] takes the worker's events, [`State::dispatch`] the user's
//! commands; both return requests for the worker. No thread, no file, no window: the same calls give the same state.

mod answers;
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
mod parts;
mod recent;
mod relative;
mod removal;
mod restore;
mod reveal;
mod run_choice;
pub mod settings;
pub mod share;
mod shared_limits;
mod sheet;
mod show_finding;
mod similarity;
mod stability;
mod tasks;
mod thumbnails;
mod training;
mod true_class;
mod undo;
mod unsaved;
mod watched_run;
pub mod workspace;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

pub use self::browser::Browser;
pub use self::columns::{Column, ColumnState};
use self::connection::Connection;
pub use self::evaluation::Evaluations;
pub use self::findings::{Finding, FindingColumn, FindingId, FindingView, Findings, MAX_NOTE};
pub use self::gallery_filter::{GalleryFilter, Outcome, Scope, Sort};
pub use self::images::Images;
use self::jobs::Failure;
pub use self::jobs::{Job, JobKind, LONG_WORK, LogEntry, Severity, Toast};
pub use self::library::{Backbone, Dataset, Image, Label, Library, Probe, Status};
pub use self::reveal::{Reveal, RevealTarget};
use self::run_choice::RunChoice;
use self::share::Sharing;
use self::shared_limits::KnownLimits;
pub use self::sheet::{ImageMap, Overlay, Sheet, SheetView};
pub use self::thumbnails::Thumbnails;
pub use self::training::{ActiveRun, Training};
use self::undo::Undo;
pub use self::watched_run::{Phase, WatchedRun};
use super::jobs::{
    BackboneOptions, ClassChoice, ColumnId, DatasetId, ExplainSettings, ImageId, JobId, ProbeId, Request,
};
use crate::app::jobs::user_error::UserError;
use crate::app::state::settings::Settings;
use crate::model::backbone::token_spec::Layer;
use crate::model::trace::Trace;
use crate::viz::draw::hover::Hover;
use crate::viz::figures::dataset::Choice;
use crate::viz::figures::scan_path;
use crate::viz::{FIGURES, Figure, Options};

/// What is known of a value that the worker computes: nothing, the value, or why there is none.
pub type Known<'a, T> = Option<Result<&'a Arc<T>, &'a UserError>>;

/// What is known of a value that is computed on request, and the job that computes it, if it runs.
pub type Requested<'a, T> = (Known<'a, T>, Option<JobId>);

/// Everything the window shows.
#[derive(Default)]
pub struct State {
    /// The entries that can be opened: backbones, probes, images, datasets.
    pub library: Library,
    /// The columns, each a probe on an image.
    pub columns: IndexMap<ColumnId, Column>,
    /// The current image, the pinned and the focused column, the class, and what the pointer is over.
    pub selection: Selection,
    /// How figures are drawn.
    pub views: Views,
    /// The settings of explanations.
    pub explain: ExplainSettings,
    /// Folder of masks, or of a dataset's annotations; if absent, those of the images' own datasets are used.
    pub masks: Option<PathBuf>,
    /// The options of all backbones without their own.
    pub backbone_options: BackboneOptions,
    /// Settings that are kept between sessions.
    pub settings: Settings,
    /// A folder that is removed with the window: its files are neither remembered nor opened again.
    pub temporary: Option<PathBuf>,
    /// The connection to the worker.
    pub connection: Connection,
    /// The resident memory in bytes that a remote worker reported last.
    pub remote_memory: Option<u64>,
    /// The folder browser on the worker's machine.
    pub browser: Browser,
    /// Running jobs, and failed ones until they are dismissed.
    pub jobs: IndexMap<JobId, Job>,
    /// Short notes, the oldest first.
    pub toasts: Vec<Toast>,
    /// Errors and notes, the oldest first; of bounded length.
    pub log: Vec<LogEntry>,
    /// The number of warnings so far, also of those that the log has dropped.
    pub warnings: usize,
    /// Thumbnails of images.
    pub thumbnails: Thumbnails,
    /// Maps of the images of a contact sheet.
    pub sheet: Sheet,
    /// Training: the form, its preflight, the active run, and the open runs.
    pub training: Training,
    /// Findings, and stars on images.
    pub findings: Findings,
    /// The findings that are being shared.
    sharing: Option<Sharing>,
    /// Which images the gallery shows.
    pub gallery_filter: GalleryFilter,
    /// Evaluations of probes on datasets.
    pub evaluations: Evaluations,
    stabilities: stability::Stabilities,
    removals: removal::Removals,
    similarities: similarity::Similarities,
    /// The layout of the panes in the window's own format, if it was changed.
    pub layout: Value,
    /// Incremented at every change of the layout.
    pub arranged: u64,
    /// What the window is to reveal.
    pub reveal: Reveal,
    /// Probes of a run that are being opened, the best of which are shown then.
    run_choice: RunChoice,
    /// The folders of the backbones that the runs opened here were trained on.
    run_backbones: BTreeSet<String>,
    /// The shown note about entries that could not be opened.
    failure: Option<Failure>,
    /// Whether the demo is being opened, which the user did not choose.
    opens_demo: bool,
    undo: Undo,
    /// What the workspace holds that this version does not know.
    rest: Map<String, Value>,
    /// The options that the shown probes were trained with, when last compared.
    common_options: backbone_options::CommonOptions,
    known_limits: KnownLimits,
    /// The explanation job under way.
    explaining: Option<JobId>,
    /// The number of explanations that have arrived.
    answered: u64,
    /// The next unused id.
    next: u64,
}

/// The user's selection.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Selection {
    /// The current image.
    pub image: Option<ImageId>,
    /// The pinned column, which others are compared with.
    pub reference: Option<ColumnId>,
    /// The column that was focused; [`State::focus`] gives a default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub focus: Option<ColumnId>,
    /// The column beside the focused one on a contact sheet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub beside: Option<ColumnId>,
    /// The column on the y axis of a scatter plot; the focused one if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub against: Option<ColumnId>,
    /// The class that the evidence is for; [`State::class_of`] follows true classes.
    pub class: ClassChoice,
    /// Whether it is the true class of each image instead, where that is known.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub follows_true: bool,
    /// The token and position the pointer is over, in every figure.
    #[serde(skip)]
    pub hover: Hover,
}

impl Selection {
    /// Forgets columns that no longer exist.
    fn retain(&mut self, columns: &IndexMap<ColumnId, Column>) {
        for id in [&mut self.reference, &mut self.beside, &mut self.against] {
            *id = id.filter(|id| columns.contains_key(id));
        }
    }
}

/// How figures are drawn.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Views {
    /// Options of figures by id, those that differ from the defaults.
    pub options: BTreeMap<String, Options>,
    /// Whether all columns of a figure share their scale limits.
    pub shared: bool,
    /// Whether columns show their difference from the pinned one.
    pub difference: bool,
    /// The choices of dataset overviews.
    pub overview: Choice,
    /// The ids of the figures that are the rows of the comparison.
    pub rows: BTreeSet<String>,
    /// How a contact sheet shows its images.
    pub sheet: SheetView,
}

impl Default for Views {
    fn default() -> Self {
        let rows = FIGURES
            .iter()
            .filter(|figure| figure.properties().is_compared)
            .map(|figure| figure.id().to_owned());
        Self {
            options: BTreeMap::new(),
            shared: true,
            difference: false,
            overview: Choice::default(),
            rows: rows.collect(),
            sheet: SheetView::default(),
        }
    }
}

impl Views {
    /// The options of a figure.
    pub fn figure_options(&self, figure: &str) -> Options {
        let own = self.options.get(figure).cloned().unwrap_or_default();
        Options { step: self.step(), ..own }
    }

    /// The number of steps of the reading that every figure shows; `None` for all of them.
    pub fn step(&self) -> Option<usize> {
        self.options.get(scan_path::ID)?.step
    }
}

impl State {
    /// An empty state with the given settings.
    pub fn new(settings: Settings) -> Self {
        let mut state = Self { settings, next: 1, ..Self::default() };
        state.training.form.device.clone_from(&state.settings.device);
        state
    }

    /// Opens the demo without remembering it as recently used, as the user did not choose it.
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

    /// The index of the current image in a dataset's split, if it is one of its images.
    pub fn current_index(&self, dataset: DatasetId) -> Option<usize> {
        self.current_image()?.label.filter(|label| label.dataset == dataset).map(|label| label.at)
    }

    /// The trace of the pinned column.
    pub fn reference(&self) -> Option<&Arc<Trace>> {
        self.columns.get(&self.selection.reference?)?.shown.trace()
    }

    /// The title of a column: its name, and the intervention.
    pub fn column_title(&self, id: ColumnId) -> String {
        let name = self.column_name(id);
        match self.columns.get(&id).map(|column| &column.change).filter(|change| !change.is_none()) {
            Some(change) => format!("{name} · {change}"),
            None => name,
        }
    }

    /// The name of a column: probe, backbone if several are open, and image if it is not the current one.
    pub fn column_name(&self, id: ColumnId) -> String {
        let Some(column) = self.columns.get(&id) else { return String::new() };
        let probe = self.with_backbone(self.library.probe_name(column.probe), column.probe);
        let image = column.image.and_then(|image| self.library.images.get(&image)).map(Image::name);
        std::iter::once(probe).chain(image).collect::<Vec<_>>().join(" · ")
    }

    /// The name of a probe with its backbone if several are open, as probes of several backbones often share a name; where one is
    /// open more than once, with how it is read there.
    pub fn with_backbone(&self, name: String, probe: ProbeId) -> String {
        let all = self.library.backbones.values();
        let open: Vec<&Backbone> = all.filter(|backbone| backbone.status.ready().is_some()).collect();
        let several = (open.len() > 1).then(|| self.library.backbone_of(probe)).flatten();
        let Some(backbone) = several.and_then(|(id, _)| self.library.backbones.get(&id)) else { return name };
        let options = backbone.own.unwrap_or(self.backbone_options);
        let is_one = open.iter().all(|other| other.source == backbone.source);
        let own = if is_one { options.short() } else { backbone.name() };
        // The folder of a probe may have the name of its backbone, and a run at several layers names its probes by them.
        let layer = format!("layer={}", Layer(options.layer));
        let one_layer = BackboneOptions { layer: options.layer, ..BackboneOptions::default() };
        let is_told = match is_one {
            true => own == one_layer.short() && name.split(['[', ',', ']']).any(|part| part == layer),
            false => name.ends_with(&format!(" · {own}")),
        };
        if is_told { name } else { format!("{name} · {own}") }
    }

    /// All figures, except those of attribution methods that are not computed.
    pub fn figures(&self) -> impl Iterator<Item = &'static dyn Figure> + use<> {
        let asked = self.explain.attributions;
        let known =
            move |figure: &&dyn Figure| figure.attribution().is_none_or(|method| asked.contains(method));
        FIGURES.iter().copied().filter(known)
    }

    /// Takes the next unused id.
    fn fresh(&mut self) -> u64 {
        self.next += 1;
        self.next - 1
    }
}
