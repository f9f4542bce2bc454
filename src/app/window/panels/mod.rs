//! The panels of the window: a trait, the one list, and one file per panel.
//!
//! A panel reads the [`State`] and emits [`UiAction`]s; it changes nothing itself.

mod backbone_options;
mod column_head;
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
mod interventions;
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
mod shown_images;
mod similarity;
mod stability;
mod table;
mod tile;
mod tokens;
mod training;
mod true_class;

use std::cell::OnceCell;
use std::path::PathBuf;
use std::sync::Arc;

use eframe::egui;
use egui::{Label, Rect, RichText, Ui, Widget};

pub use self::compare::COMPARE;
pub use self::figure_view::TokenHover;
pub use self::interventions::{interventions, temperature_of_column};
pub use self::probe_table::ACCURACIES;
pub use self::shown_images::ShownImages;
pub use self::training::TRAINING;
use crate::app::jobs::info::BackboneInfo;
use crate::app::jobs::train::TrainSettings;
use crate::app::jobs::user_error::UserError;
use crate::app::jobs::{BackboneId, ColumnId, JobId};
use crate::app::state::command::{Action, Command, Prompt};
use crate::app::state::{Column, ColumnState, Finding, FindingId, JobKind, State};
use crate::app::window::dialogs::leaving::Leaving;
use crate::app::window::widgets::{choice_frame, combo, fit, set_full_text};
use crate::model::explain::evaluation::Evaluation;
use crate::model::trace::Trace;
use crate::viz::draw::theme::Theme;
use crate::viz::draw::{color32, font};
use crate::viz::figures::dataset::OVERVIEWS;
use crate::viz::figures::plot::Plot;
use crate::viz::{FIGURES, Figure, Info, Options};

/// What most panels import.
mod prelude {
    pub(super) use eframe::egui;
    pub(super) use egui::{
        Align, Button, Label, Layout, Rect, Response, RichText, Role, ScrollArea, Sense, TextEdit, Ui,
        UiBuilder, Vec2, WidgetInfo,
    };

    pub(super) use super::{Panel, PanelContext, PanelPlace, UiAction, placeholder};
    pub(super) use crate::app::format::counted;
    pub(super) use crate::app::jobs::ColumnId;
    pub(super) use crate::app::state::command::{Action, Command};
    pub(super) use crate::app::window::style;
    pub(super) use crate::app::window::widgets::{at_right, choice, combo, field, follow_focus, inset};
    pub(super) use crate::model::trace::Trace;
    pub(super) use crate::viz::draw::{color32, font};
    pub(super) use crate::viz::{Figure, Info, TabGroup};
}

/// Where a panel is placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PanelPlace {
    /// On the left.
    Left,
    /// On the left, in the place of the library, on request.
    OverLibrary,
    /// In the middle, as a pane to drag, split and close.
    Middle,
    /// Below, on request.
    Below,
}

/// A part of the window.
pub trait Panel {
    /// Its id, title, description and tab.
    fn info(&self) -> Info;

    /// Its id in layouts.
    fn id(&self) -> &'static str {
        self.info().id
    }

    /// Its title on the screen.
    fn title(&self) -> &'static str {
        self.info().title
    }

    /// What it shows, in a sentence.
    fn about(&self) -> &'static str {
        self.info().about
    }

    /// Where it is placed.
    fn place(&self) -> PanelPlace {
        PanelPlace::Middle
    }

    /// Whether it shows the focused probe.
    fn shows_probe(&self) -> bool {
        true
    }

    /// Whether it has something to show now; `None` if it always has.
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

/// What a person chose in a panel, for the window to execute.
#[derive(Clone)]
pub enum UiAction {
    /// Dispatch a command to the state.
    Command(Command),
    /// Choose an action of the menu. What it does is found out only when it is executed.
    Action(Action),
    /// Open a dialog or do something else of the window's.
    Prompt(Prompt),
    /// Show the pane of this panel.
    Show(&'static str),
    /// Show or hide the jobs.
    Jobs,
    /// Show or hide the findings.
    Findings,
    /// Show what was shown when a finding was kept.
    ShowFinding(FindingId),
    /// Edit the note of a finding.
    EditFinding(FindingId, Box<Finding>),
    /// Leave what is open for something else.
    Leave(Leaving),
    /// Try to connect now.
    ConnectNow,
    /// Open the export dialog for a figure.
    Export(Arc<dyn Plot>),
    /// Copy a figure to the clipboard as an image.
    CopyImage(Arc<dyn Plot>),
    /// Open a written file or folder with the system's program.
    OpenFile(PathBuf),
}

/// What a panel can read, and where it puts its output.
pub struct PanelContext<'a> {
    /// The state of the program.
    pub state: &'a State,
    /// Colours of figures and widgets.
    pub theme: &'a Theme,
    /// The column the panes of one probe show.
    pub focus: Option<ColumnId>,
    /// The images that the gallery shows.
    pub shown: &'a Arc<ShownImages>,
    /// The titles of all columns, once a frame has cut one of them.
    pub titles: OnceCell<Vec<String>>,
    /// The hovered and the pinned token.
    pub hover: &'a mut TokenHover,
    /// Actions that were chosen in this frame.
    pub actions: &'a mut Vec<UiAction>,
}

impl<'a> PanelContext<'a> {
    /// Sends a command to the state.
    pub fn send(&mut self, command: Command) {
        self.actions.push(UiAction::Command(command));
    }

    /// Chooses an action of the menu.
    pub fn choose(&mut self, action: Action) {
        self.actions.push(UiAction::Action(action));
    }

    /// Draws the button or checkbox of an action, with its tooltip and key, which chooses it; disabled while it has no effect. Whether
    /// it was clicked.
    pub fn button(&mut self, ui: &mut Ui, button: impl Widget, action: Action) -> bool {
        self.button_about(ui, button, action, &action.keyed_tooltip())
    }

    /// The same, with the tooltip `about`.
    pub fn button_about(&mut self, ui: &mut Ui, button: impl Widget, action: Action, about: &str) -> bool {
        let button = ui.add_enabled(action.enabled(self.state), button).on_hover_text(about);
        let clicked = button.on_disabled_hover_text(action.missing()).clicked();
        if clicked {
            self.choose(action);
        }
        clicked
    }

    /// Draws a hint on what to do while there is nothing to show, with the button of an action that does it.
    pub fn invite(&mut self, ui: &mut Ui, hint: &str, action: Action) {
        if placeholder::invite(ui, hint, action.text()) {
            self.choose(action);
        }
    }

    /// The column the panes of one probe show.
    pub fn column(&self) -> Option<&'a Column> {
        self.state.columns.get(&self.focus?)
    }

    /// The focused column's evaluation on the current dataset, if there is one.
    pub fn evaluation(&self) -> Option<&'a Arc<Evaluation>> {
        self.state.evaluation_of(self.focus?)?.ok()
    }

    /// The name of the probe of an evaluated column, among those that are open.
    pub fn evaluated_name(&self, column: Option<ColumnId>) -> String {
        let probe = column.and_then(|column| Some(self.state.columns.get(&column)?.probe));
        probe.map_or_else(String::new, |probe| {
            self.state.with_backbone(self.state.library.probe_name(probe), probe)
        })
    }

    /// The backbone whose tokens the focused column's probe reads; the first open one if there is none.
    pub fn backbone(&self) -> Option<(BackboneId, &'a Arc<BackboneInfo>)> {
        let read = self.column().and_then(|column| self.state.library.backbone_of(column.probe));
        read.or_else(|| self.state.library.backbone())
    }

    /// The focused column's trace; if there is none, draws why.
    pub fn trace(&mut self, ui: &mut Ui) -> Option<Arc<Trace>> {
        match self.column().map(|column| &column.shown) {
            Some(ColumnState::Ready(trace) | ColumnState::Waiting(Some(trace))) => {
                return Some(trace.clone());
            }
            Some(ColumnState::Nothing) | None => self.hint(ui),
            Some(ColumnState::Waiting(None)) => {
                let explaining = self.state.jobs.iter().find(|(_, job)| job.kind == JobKind::Explain);
                self.busy(ui, "Explaining…", explaining.map(|(id, _)| *id));
            }
            Some(ColumnState::Failed(error)) => self.failed_column(ui, self.focus, error),
        }
        None
    }

    /// Whether the focused column still shows another image than its own.
    pub fn is_outdated(&self) -> bool {
        self.focus.is_some_and(|column| self.state.is_outdated(column))
    }

    /// Covers `rect`, in which a column was just drawn, while the column still shows another image than its own, and says so.
    pub fn overlay_outdated(&self, ui: &mut Ui, column: Option<ColumnId>, rect: Rect) {
        if column.is_some_and(|column| self.state.is_outdated(column)) {
            ui.painter().rect_filled(rect, 0.0, color32(self.theme.ground.alpha(0.75)));
            ui.place(rect, Label::new(RichText::new("Still the previous image…").strong()).wrap());
        }
    }

    /// Draws that work is in progress: `what`, or the job's own progress.
    pub fn busy(&self, ui: &mut Ui, what: &str, job: Option<JobId>) {
        let progress = job.and_then(|job| self.state.jobs.get(&job)?.progress.as_ref());
        placeholder::busy(ui, what, progress);
    }

    /// Draws why something failed, with a button to retry on the processor where that may help.
    pub fn failed(&mut self, ui: &mut Ui, error: &UserError) {
        placeholder::failed(ui, self, error, None);
    }

    /// Draws why a column failed, with a button to open the backbone of its probe if no open one fits.
    pub fn failed_column(&mut self, ui: &mut Ui, id: Option<ColumnId>, error: &UserError) {
        let probe = id.and_then(|id| self.state.columns.get(&id)).map(|column| column.probe);
        let (text, source) = probe.and_then(|probe| self.state.backbone_to_open(probe)).unzip();
        let text = text.map(|name| format!("Open {name}"));
        if placeholder::failed(ui, self, error, text.as_deref()) {
            source.into_iter().for_each(|source| self.send(Command::OpenBackbone(source)));
        }
    }

    /// Does again on the processor what failed.
    fn retry_on_cpu(&mut self) {
        let settings = TrainSettings { device: "cpu".to_owned(), ..self.state.training.form.clone() };
        self.send(Command::SetTrainForm(Box::new(settings)));
        self.send(Command::SetDevice("cpu".to_owned()));
        self.send(Command::Retry);
    }

    /// Draws what is missing before anything can be shown, with buttons that open it.
    pub fn hint(&mut self, ui: &mut Ui) {
        if getting_started::needed(self.state) {
            return getting_started::ui(ui, self);
        }
        let why = self.focus.map(|id| self.state.why_nothing(id));
        placeholder::empty(ui, why.as_deref().unwrap_or("Choose a probe in the library to show it"));
    }

    /// The title of a column in letters of `size`, cut to `room` such that it still differs from those of the others.
    pub fn fit_title(&self, title: &str, size: f32, room: f32) -> String {
        if font::width(title, size) <= room {
            return title.to_owned();
        }
        let all = || self.state.columns.keys().map(|id| self.state.column_title(*id)).collect();
        let titles = self.titles.get_or_init(all).iter().map(String::as_str);
        font::fit_among(title, &font::common(titles), size, room)
    }

    /// Draws a list of the columns besides the focused one that are `offered`, and of `none`; returns the choice.
    pub fn other_column(
        &self,
        ui: &mut Ui,
        label: &str,
        none: &str,
        mut chosen: Option<ColumnId>,
        offered: impl Fn(ColumnId) -> bool,
    ) -> Option<ColumnId> {
        let name = |column: Option<ColumnId>| match column {
            Some(column) => self.state.column_title(column),
            None => none.to_owned(),
        };
        let id = ui.label(label).id;
        let (title, room) = (name(chosen), 150.0 - choice_frame(ui));
        let shown = self.fit_title(&title, 13.5, room);
        let cut = (shown != title).then_some(&*title);
        let list = combo(ui, label, 150.0, fit(ui, shown, room), |ui| {
            ui.selectable_value(&mut chosen, None, none);
            let others = self.state.columns.keys().filter(|column| Some(**column) != self.focus);
            for column in others.copied().filter(|column| offered(*column)) {
                ui.selectable_value(&mut chosen, Some(column), name(Some(column)));
            }
        });
        let list = list.labelled_by(id);
        if let Some(whole) = cut {
            set_full_text(&list, whole);
            list.on_hover_text(whole);
        }
        chosen
    }

    /// Options of a figure of `trace`, with the limits shared by all columns on its scale.
    pub fn options(&self, figure: &dyn Figure, trace: &Trace) -> Options {
        self.state.views.figure_options(figure.id()).within(self.state.shared_limits(figure, trace))
    }
}
