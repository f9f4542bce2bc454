//! The panels of the window: a trait, the one list, one file a panel.
//!
//! A panel reads the [`State`] and says what it wants as [`UiAction`]es; it changes nothing itself.

mod backbone_options;
mod compare;
mod controls;
mod difference;
mod figure;
mod figure_view;
mod gallery;
mod gallery_filter;
mod getting_started;
mod jobs;
mod library;
mod library_row;
mod overview;
pub mod placeholder;
mod plot_view;
mod probe_table;
mod stability;
mod tokens;
mod training;
mod true_class;

use std::path::PathBuf;
use std::sync::Arc;

use eframe::egui;
use egui::{Response, Ui};

pub use self::compare::interventions;
pub use self::figure_view::TokenHover;
pub use self::probe_table::any as any_asked;
pub use self::true_class::class as own_class;
use crate::app::jobs::info::BackboneInfo;
use crate::app::jobs::train::TrainForm;
use crate::app::jobs::{BackboneId, ColumnId};
use crate::app::state::command::{Action, Command, Effect, Prompt};
use crate::app::state::workspace::Workspace;
use crate::app::state::{ColumnState, State};
use crate::app::user_error::UserError;
use crate::model::trace::Trace;
use crate::viz::draw::theme::Theme;
use crate::viz::figures::dataset::OVERVIEWS;
use crate::viz::figures::plot::Plot;
use crate::viz::{FIGURES, Figure, Options, Shared};

/// Where a panel stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PanelPlace {
    /// On the left.
    Left,
    /// In the middle, as a pane to drag, split and close.
    Middle,
    /// Below, when asked for.
    Below,
}

/// A part of the window.
pub trait Panel {
    /// Its name in layouts.
    fn id(&self) -> &'static str;

    /// Its name on the screen.
    fn title(&self) -> &'static str;

    /// What it shows, in a sentence.
    fn about(&self) -> &'static str;

    /// Where it stands.
    fn place(&self) -> PanelPlace;

    /// Draws it.
    fn ui(&mut self, ui: &mut Ui, cx: &mut PanelContext<'_>);
}

/// The one list of panels.
pub fn all() -> Vec<Box<dyn Panel>> {
    let figures = FIGURES.iter().map(|figure| Box::new(figure::View::new(*figure)) as Box<dyn Panel>);
    let mut panels: Vec<Box<dyn Panel>> = vec![Box::new(library::Library::default())];
    panels.extend(figures);
    panels.push(Box::new(compare::Compare::default()));
    panels.push(Box::new(tokens::Tokens::default()));
    panels.push(Box::new(stability::Pane::default()));
    panels.extend(OVERVIEWS.iter().map(|one| Box::new(overview::Pane::new(*one)) as Box<dyn Panel>));
    panels.push(Box::new(probe_table::Asked::default()));
    panels.push(Box::new(training::Training::default()));
    panels.push(Box::new(jobs::Jobs));
    panels
}

/// What copying numbers gives.
const NUMBERS: &str = "The numbers behind it, a tab between columns, as a spreadsheet takes them";

/// What a person wants, as a panel hears it.
#[derive(Clone)]
pub enum UiAction {
    /// The state does it.
    Command(Command),
    /// The window does it.
    Prompt(Prompt),
    /// Show this column in the panes of one probe.
    Focus(ColumnId),
    /// Show the pane of this panel.
    Show(&'static str),
    /// Show or hide the jobs.
    Jobs,
    /// Export these figures of these traces, one alone with the limits it is shown with.
    Export(Vec<&'static str>, Vec<Arc<Trace>>, Shared),
    /// Restore this workspace, of this file.
    Restore(PathBuf, Box<Workspace>),
    /// Export a picture with its own data.
    ExportPlot(Arc<dyn Plot>),
    /// Put one on the clipboard.
    CopyPlot(Arc<dyn Plot>),
    /// Put a picture of this figure on the clipboard.
    CopyImage(&'static str, Arc<Trace>, Shared),
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
    pub lit: &'a mut TokenHover,
    /// What is wanted.
    pub wishes: &'a mut Vec<UiAction>,
}

impl PanelContext<'_> {
    /// Wants something of the state.
    pub fn send(&mut self, command: Command) {
        self.wishes.push(UiAction::Command(command));
    }

    /// Chooses an action.
    pub fn choose(&mut self, action: Action) {
        self.wishes.push(match action.effect(self.state) {
            Effect::Command(command) => UiAction::Command(command),
            Effect::Prompt(ask) => UiAction::Prompt(ask),
        });
    }

    /// The backbone whose tokens the focused column's probe reads; the first that is open where there is
    /// none.
    pub fn backbone(&self) -> Option<(BackboneId, &Arc<BackboneInfo>)> {
        let column = self.focus.and_then(|id| self.state.columns.get(&id));
        let read = column.and_then(|column| self.state.library.backbone_of(column.probe));
        read.or_else(|| self.state.library.backbone())
    }

    /// What the focused column has to show; where that is nothing, says why.
    pub fn trace(&mut self, ui: &mut Ui) -> Option<Arc<Trace>> {
        let Some(column) = self.focus.and_then(|id| self.state.columns.get(&id)) else {
            self.hint(ui);
            return None;
        };
        match &column.shown {
            ColumnState::Ready(trace) | ColumnState::Waiting(Some(trace)) => return Some(trace.clone()),
            ColumnState::Nothing => self.hint(ui),
            ColumnState::Waiting(None) => {
                let look = self.state.jobs.values().find(|job| job.kind == crate::app::state::JobKind::Look);
                placeholder::busy(ui, "Looking…", look.and_then(|job| job.progress.as_ref()));
            }
            ColumnState::Failed(fault) => self.failed(ui, fault),
        }
        None
    }

    /// Says why something failed; the processor tries again if a person wants that.
    pub fn failed(&mut self, ui: &mut Ui, fault: &UserError) {
        if placeholder::failed(ui, fault) {
            let draft = TrainForm { device: "cpu".to_owned(), ..self.state.training.draft.clone() };
            self.send(Command::SetDraft(Box::new(draft)));
            self.send(Command::SetDevice("cpu".to_owned()));
            self.send(Command::Retry);
        }
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
        self.state.views.of(figure).within(self.state.shared_limits(figure))
    }

    /// The menu of a figure under the right button; `limits` are those it is shown with.
    pub fn menu(
        &mut self,
        response: &Response,
        figure: &'static dyn Figure,
        trace: &Arc<Trace>,
        limits: Shared,
    ) {
        response.context_menu(|ui| {
            if ui.button("Export…").clicked() {
                self.wishes.push(UiAction::Export(vec![figure.id()], vec![trace.clone()], limits));
            }
            if ui.button("Copy image").clicked() {
                self.wishes.push(UiAction::CopyImage(figure.id(), trace.clone(), limits));
            }
            if ui.button("Copy numbers").on_hover_text(NUMBERS).clicked() {
                ui.ctx().copy_text(figure.table(trace).tsv());
            }
        });
    }
}
