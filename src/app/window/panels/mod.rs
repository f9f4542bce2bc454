//! The panels of the window: a trait, the one list, one file a panel.
//!
//! A panel reads the [`State`] and says what it wants as [`UiAction`]es; it changes nothing itself.

mod backbone_options;
mod change;
mod compare;
mod contact_sheet;
mod controls;
mod differences;
mod eval_removals;
mod figure;
mod figure_view;
mod findings;
mod gallery;
mod gallery_filter;
mod getting_started;
mod image_map;
mod jobs;
mod library;
mod library_row;
mod library_section;
mod order_editor;
mod overview;
pub mod placeholder;
mod plot_view;
mod probe_rows;
mod probe_table;
mod removal;
mod similarity;
mod stability;
mod tile;
mod tokens;
mod training;
mod true_class;

use std::path::PathBuf;
use std::sync::Arc;

use eframe::egui;
use egui::Ui;

pub use self::change::{interventions, temperature_of_column};
pub use self::compare::COMPARE;
pub use self::figure_view::TokenHover;
pub use self::findings::FINDINGS;
pub use self::probe_table::ACCURACIES;
pub use self::training::TRAINING;
pub use self::true_class::class as true_class_of;
use crate::app::jobs::info::BackboneInfo;
use crate::app::jobs::train::TrainSettings;
use crate::app::jobs::{BackboneId, ColumnId, JobId};
use crate::app::state::command::{Action, Command, Effect, Prompt};
use crate::app::state::connection::Host;
use crate::app::state::workspace::Workspace;
use crate::app::state::{Column, ColumnState, Finding, FindingId, JobKind, State};
use crate::app::user_error::UserError;
use crate::model::explain::evaluation::Evaluation;
use crate::model::trace::Trace;
use crate::viz::draw::theme::Theme;
use crate::viz::figures::dataset::OVERVIEWS;
use crate::viz::figures::plot::Plot;
use crate::viz::{FIGURES, Info, Options};

/// Where a panel stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PanelPlace {
    /// On the left.
    Left,
    /// There, in the place of the library, when asked for.
    OverLibrary,
    /// In the middle, as a pane to drag, split and close.
    Middle,
    /// Below, when asked for.
    Below,
}

/// A part of the window.
pub trait Panel {
    /// What it is called, and what it shows.
    fn info(&self) -> Info;

    /// Its name in layouts.
    fn id(&self) -> &'static str {
        self.info().id
    }

    /// Its name on the screen.
    fn title(&self) -> &'static str {
        self.info().title
    }

    /// What it shows, in a sentence.
    fn about(&self) -> &'static str {
        self.info().about
    }

    /// Where it stands.
    fn place(&self) -> PanelPlace {
        PanelPlace::Middle
    }

    /// Whether what it shows is of the probe that is looked through.
    fn shows_probe(&self) -> bool {
        true
    }

    /// Whether it has something to show now; none where it always has.
    fn has_content(&self, _cx: &PanelContext<'_>) -> Option<bool> {
        None
    }

    /// Draws it.
    fn ui(&mut self, ui: &mut Ui, cx: &mut PanelContext<'_>);
}

/// The one list of panels.
pub fn all() -> Vec<Box<dyn Panel>> {
    let figures = FIGURES.iter().map(|figure| Box::new(figure::FigurePane::new(*figure)) as Box<dyn Panel>);
    let overviews = OVERVIEWS.iter().map(|one| Box::new(overview::OverviewPane::new(*one)) as Box<dyn Panel>);
    let mut panels: Vec<Box<dyn Panel>> = vec![Box::new(library::Library::default())];
    panels.extend(figures);
    panels.push(Box::new(compare::Compare::default()));
    panels.push(Box::new(contact_sheet::ContactSheet::default()));
    panels.push(Box::new(tokens::Tokens::default()));
    panels.push(Box::new(stability::StabilityPane::default()));
    panels.push(Box::new(removal::RemovalPane::default()));
    panels.extend(overviews);
    panels.push(Box::new(image_map::ImageMapPane::default()));
    panels.push(Box::new(probe_table::ProbeTable::default()));
    panels.push(Box::new(training::Training::default()));
    panels.push(Box::new(findings::Findings::default()));
    panels.push(Box::new(jobs::Jobs));
    panels
}

/// What a person wants, as a panel hears it.
#[derive(Clone)]
pub enum UiAction {
    /// The state does it.
    Command(Command),
    /// The window does it.
    Prompt(Prompt),
    /// Show the pane of this panel.
    Show(&'static str),
    /// Show or hide the jobs.
    Jobs,
    /// Show or hide the findings.
    Findings,
    /// Show what was shown when a finding was kept.
    ShowFinding(FindingId),
    /// Write its note anew.
    EditFinding(FindingId, Box<Finding>),
    /// Restore this workspace, of this file.
    Restore(PathBuf, Box<Workspace>),
    /// Open the workspace of this file.
    OpenWorkspace(PathBuf),
    /// Let a worker elsewhere compute, or this program where none is named.
    Connect(Option<Host>),
    /// Try to connect now.
    ConnectNow,
    /// Ask how a picture is to be exported.
    Export(Arc<dyn Plot>),
    /// Put a picture on the clipboard.
    CopyImage(Arc<dyn Plot>),
    /// Open a file, or a folder, that was written.
    OpenFile(PathBuf),
}

impl UiAction {
    /// What choosing an action of the menu comes to.
    pub fn chosen(action: Action, state: &State) -> Self {
        match action.effect(state) {
            Effect::Command(command) => Self::Command(command),
            Effect::Prompt(prompt) => Self::Prompt(prompt),
        }
    }
}

/// What a panel sees and what it says.
pub struct PanelContext<'a> {
    /// Everything there is.
    pub state: &'a State,
    /// The look.
    pub theme: &'a Theme,
    /// The column the panes of one probe show.
    pub focus: Option<ColumnId>,
    /// The token that is pointed at.
    pub hover: &'a mut TokenHover,
    /// What is wanted.
    pub actions: &'a mut Vec<UiAction>,
}

impl<'a> PanelContext<'a> {
    /// Wants something of the state.
    pub fn send(&mut self, command: Command) {
        self.actions.push(UiAction::Command(command));
    }

    /// Chooses an action.
    pub fn choose(&mut self, action: Action) {
        self.actions.push(UiAction::chosen(action, self.state));
    }

    /// The column the panes of one probe show.
    pub fn column(&self) -> Option<&'a Column> {
        self.state.columns.get(&self.focus?)
    }

    /// What the column's probe made of the dataset, where it was evaluated.
    pub fn evaluation(&self) -> Option<&'a Arc<Evaluation>> {
        self.state.evaluation_of(self.focus?)?.ok()
    }

    /// The backbone whose tokens the focused column's probe reads; the first that is open where there is
    /// none.
    pub fn backbone(&self) -> Option<(BackboneId, &'a Arc<BackboneInfo>)> {
        let read = self.column().and_then(|column| self.state.library.backbone_of(column.probe));
        read.or_else(|| self.state.library.backbone())
    }

    /// What the focused column has to show; where that is nothing, says why.
    pub fn trace(&mut self, ui: &mut Ui) -> Option<Arc<Trace>> {
        match self.column().map(|column| &column.shown) {
            Some(ColumnState::Ready(trace) | ColumnState::Waiting(Some(trace))) => {
                return Some(trace.clone());
            }
            Some(ColumnState::Nothing) | None => self.hint(ui),
            Some(ColumnState::Waiting(None)) => {
                let look = self.state.jobs.iter().find(|(_, job)| job.kind == JobKind::Explain);
                self.busy(ui, "Looking…", look.map(|(id, _)| *id));
            }
            Some(ColumnState::Failed(error)) => self.failed(ui, error),
        }
        None
    }

    /// Says that work is going on: `what`, or what the job says of itself.
    pub fn busy(&self, ui: &mut Ui, what: &str, job: Option<JobId>) {
        let progress = job.and_then(|job| self.state.jobs.get(&job)?.progress.as_ref());
        placeholder::busy(ui, what, progress);
    }

    /// Says why something failed; the processor tries again if a person wants that.
    pub fn failed(&mut self, ui: &mut Ui, error: &UserError) {
        self.failed_with(ui, error, None);
    }

    /// The same with a button that tries it `again`; true once it is clicked.
    pub fn failed_with(&mut self, ui: &mut Ui, error: &UserError, again: Option<&str>) -> bool {
        let wanted = placeholder::failed(ui, error, again);
        if matches!(wanted, Some(placeholder::Wanted::OnCpu)) {
            let draft = TrainSettings { device: "cpu".to_owned(), ..self.state.training.form.clone() };
            self.send(Command::SetTrainForm(Box::new(draft)));
            self.send(Command::SetDevice("cpu".to_owned()));
            self.send(Command::Retry);
        }
        matches!(wanted, Some(placeholder::Wanted::Again))
    }

    /// Says what is missing before anything can be shown, and offers to open it.
    pub fn hint(&mut self, ui: &mut Ui) {
        if getting_started::needed(self.state) {
            return getting_started::ui(ui, self);
        }
        let why = self.focus.map(|id| self.state.why_nothing(id));
        placeholder::empty(ui, why.as_deref().unwrap_or("Choose a probe in the library to look through it"));
    }

    /// How a figure is drawn, limits shared by all columns included.
    pub fn options(&self, figure: &str) -> Options {
        self.state.views.figure_options(figure).within(self.state.shared_limits(figure))
    }
}
