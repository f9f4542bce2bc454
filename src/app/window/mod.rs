//! How the window is arranged: menu bar, library, panes, jobs, status bar, and the dialogs above.
//!
//! [`MainWindow`] holds what belongs to the window alone (layout, focus, open dialogs); everything that is
//! worth keeping or testing without one is in the [`State`].

mod act;
mod app;
mod auto_tabs;
pub mod clipboard;
mod close_confirm;
mod connect;
mod connection_bar;
mod dialog;
mod drop_overlay;
mod engine;
mod export;
mod exporter;
mod file_picker;
mod files;
mod finding;
mod folder_browser;
mod help;
mod hub;
mod layout;
mod leaving;
mod menu;
mod named_workspace;
pub(crate) mod native;
pub mod opener;
mod order_files;
mod palette;
pub mod panels;
mod paste;
mod path;
mod pinned;
mod relink;
mod share;
mod status;
mod style;
mod tab;
mod tiles;
mod toasts;
mod token_mismatch;
mod toolbar;
mod tour;
mod widgets;

pub use self::app::App;
pub use self::engine::Engine;

use std::path::PathBuf;

use eframe::egui;
use egui::{CentralPanel, Frame, Margin, Ui, UiBuilder};

use self::connect::ConnectDialog;
use self::dialog::Answer;
use self::export::{Export, ExportStep};
use self::exporter::Exporter;
use self::file_picker::{FilePicker, FileRequest};
use self::finding::FindingDialog;
use self::folder_browser::FolderBrowser;
use self::help::Help;
use self::layout::Layout;
use self::leaving::Leaving;
use self::named_workspace::NamedWorkspace;
use self::opener::Opener;
use self::palette::{Chosen, Palette};
use self::panels::{ACCURACIES, COMPARE, Panel, PanelContext, PanelPlace, TokenHover, UiAction};
use self::relink::{Relink, RelinkStep};
use self::share::ShareDialog;
use self::tour::{Tour, Turn};
use super::state::{RevealTarget, Severity, State};
use super::user_error::UserError;
use crate::app::image_files::is_workspace;
use crate::app::jobs::{Cancel, JobId};
use crate::app::state::command::{Command, FilePrompt};
use crate::app::state::connection::Host;
use crate::app::state::workspace::Workspace;
use crate::viz::draw::{Hover, color32};
use crate::viz::figures::scan_path;

/// Least width of the library.
const LIBRARY_PX: f32 = 250.0;

/// What the window wants of the program around it.
pub enum WindowOrder {
    /// The state does it.
    Command(Command),
    /// Note this.
    Note(Severity, String),
    /// Restore everything from a workspace, which is of this file.
    Restore(PathBuf, Box<Workspace>),
    /// The workspace was saved in this file.
    Saved(PathBuf),
    /// Findings were written there, or could not be.
    Shared(JobId, Result<PathBuf, UserError>),
    /// Open the demo in the place of all that is open.
    Demo,
    /// Let a worker elsewhere compute, or this program, with nothing open.
    Connect(Option<Host>),
    /// Try to connect now.
    ConnectNow,
}

/// The window's own.
#[derive(Default)]
pub struct MainWindow {
    panels: Panels,
    layout: Layout,
    /// How often something was to be brought into sight when it was last looked.
    revealed: u64,
    pinned: pinned::PinnedToken,
    jobs: bool,
    /// Whether findings stand in the place of the library.
    findings: bool,
    /// Height of the jobs below the panes.
    below: f32,
    class_filter: String,
    palette: Option<Palette>,
    hub: Option<String>,
    connect: Option<ConnectDialog>,
    /// Looks for files where it is computed, where that is elsewhere, and what for.
    browser: Option<(FileRequest, FolderBrowser)>,
    /// The folder it looked into last.
    browsed: PathBuf,
    finding: Option<FindingDialog>,
    share: Option<ShareDialog>,
    /// What is being written, and whether it is still wanted.
    sharing: Option<(JobId, Cancel)>,
    export: Option<Export>,
    exporter: Exporter,
    /// What opens files that were written.
    pub opener: Opener,
    relink: Option<Relink>,
    picker: FilePicker,
    toasts: toasts::Toasts,
    close: close_confirm::CloseConfirm,
    help: Option<Help>,
    tour: Option<Tour>,
    /// Where one goes once it is known whether the workspace is saved.
    leaving: Option<Leaving>,
    named: NamedWorkspace,
}

/// All panels.
struct Panels(Vec<Box<dyn Panel>>);

impl Default for Panels {
    fn default() -> Self {
        Self(panels::all())
    }
}

impl MainWindow {
    /// Shows the pane of a panel.
    pub fn show(&mut self, id: &str) {
        let Some(panel) = self.panels.0.iter().find(|panel| panel.id() == id) else { return };
        match panel.place() {
            PanelPlace::Middle => self.layout.show(&**panel),
            PanelPlace::Below => self.jobs = true,
            PanelPlace::OverLibrary => self.findings = true,
            PanelPlace::Left => {}
        }
    }

    /// What came in since the last frame: files that were chosen, exports that are done.
    pub fn drain(&mut self, ctx: &egui::Context, state: &State) -> Vec<WindowOrder> {
        let mut orders = self.exported(ctx, state);
        orders.extend(self.write_shared(ctx, state));
        if let Some((what, paths)) = self.picker.answer() {
            self.chosen(what, paths, state, &mut orders);
        }
        let far = state.connection.host().is_some();
        orders.extend(paste::orders(ctx, &self.exporter, far));
        let dropped = ctx.input(|i| i.raw.dropped_files.clone());
        let mut dropped: Vec<PathBuf> = dropped.into_iter().map(|file| file.path().to_owned()).collect();
        // It replaces all that is open: the window asks first.
        if let Some(at) = dropped.iter().position(|path| is_workspace(path)) {
            let workspace = vec![dropped.remove(at)];
            self.chosen(FileRequest::Prompt(FilePrompt::OpenWorkspace), workspace, state, &mut orders);
        }
        if !dropped.is_empty() && far {
            orders.extend(self.exporter.send(ctx, dropped));
        } else if !dropped.is_empty() {
            orders.push(WindowOrder::Command(Command::OpenAny(dropped)));
        }
        orders
    }

    /// Turns to what the state wants in sight.
    fn reveal(&mut self, state: &State) {
        if std::mem::replace(&mut self.revealed, state.reveal.count) == state.reveal.count {
            return;
        }
        match state.reveal.place {
            Some(RevealTarget::Probe) => self.layout.show_probe(&self.panels.0),
            Some(RevealTarget::Compare(_)) => self.show(COMPARE),
            Some(RevealTarget::Accuracies) => self.show(ACCURACIES),
            Some(RevealTarget::Order) => self.show(scan_path::ID),
            Some(RevealTarget::Token(token)) => self.pinned.token = token,
            None => {}
        }
    }

    /// Draws everything.
    pub fn ui(&mut self, ui: &mut Ui, state: &State) -> Vec<WindowOrder> {
        self.reveal(state);
        let theme = style::theme(ui);
        let dialog = ui.ctx().memory(egui::Memory::top_modal_layer).is_some();
        self.pinned.keys(ui, dialog);
        let mut hover = TokenHover::new(state.selection.hover.token, self.pinned.token);
        let mut actions = Vec::new();
        let mut cx = PanelContext {
            state,
            theme: &theme,
            focus: state.focus(),
            hover: &mut hover,
            actions: &mut actions,
        };
        // What lies below a dialog has no keys.
        if !dialog && self.palette.is_none() && self.finding.is_none() {
            menu::keys(ui.ctx(), &mut cx);
        }
        let ctx = ui.ctx().clone();
        dialog::below(&ctx, || self.arrange(ui, &mut cx));
        let mut orders = Vec::new();
        self.dialogs(ui, state, &mut actions);
        if let Some((what, paths)) = self.picker.ui(ui, &state.settings.recent) {
            self.chosen(what, paths, state, &mut orders);
        }
        if let Some((what, paths)) = self.browse(ui, state, &mut actions) {
            self.chosen(what, paths, state, &mut orders);
        }
        self.toasts.ui(ui, state, self.below, &mut actions);
        self.named.settle(state);
        if self.close.ui(ui, state, || self.named.unsaved(state).is_some(), &mut actions) {
            self.leaving = Some(Leaving::Quit);
        }
        self.ask_to_save(ui, state, &mut orders);
        match self.tour.as_mut().map_or(Turn::Stay, |tour| tour.ui(ui, self.below)) {
            Turn::Stay => {}
            Turn::Show(pane) => self.show(pane),
            Turn::End => self.tour = None,
        }
        if ui.input(|i| !i.raw.hovered_files.is_empty()) {
            drop_overlay::ui(ui, &theme);
        }
        if let Some(token) = hover.clicked() {
            self.pinned.click(token);
            ui.ctx().request_repaint();
        }
        let token = hover.found();
        if token != state.selection.hover.token {
            orders.push(WindowOrder::Command(Command::Hover(Hover { token, ..Hover::default() })));
        }
        // Before the actions: one may be to take back what was just changed.
        orders.extend(self.layout.told().into_iter().map(WindowOrder::Command));
        for action in actions {
            self.act(ui.ctx(), action, state, &mut orders);
        }
        orders.extend(self.layout.told().into_iter().map(WindowOrder::Command));
        orders
    }

    fn arrange(&mut self, ui: &mut Ui, cx: &mut PanelContext<'_>) {
        let panel = color32(style::panel(cx.theme));
        let frame = |x: i8, y: i8| Frame::new().fill(panel).inner_margin(Margin::symmetric(x, y));
        egui::Panel::top("menu").frame(frame(8, 4)).show(ui, |ui| menu::bar(self, ui, cx));
        egui::Panel::bottom("status").frame(frame(8, 2)).show(ui, |ui| status::ui(ui, cx, &mut self.pinned));
        if self.jobs {
            let below = egui::Panel::bottom("jobs").frame(frame(10, 4)).resizable(true).default_size(190.0);
            self.below = below.show(ui, |ui| self.place(ui, cx, PanelPlace::Below)).response.rect.height();
        } else {
            self.below = 0.0;
        }
        let zoom = (100.0 * ui.ctx().zoom_factor()) as u32;
        let left = egui::Panel::left(("library", zoom)).frame(frame(10, 6)).resizable(true);
        // A small or much enlarged window leaves the panes more of itself.
        let left = left
            .default_size((0.23 * ui.available_width()).clamp(LIBRARY_PX, 300.0))
            .size_range(LIBRARY_PX..=620.0);
        left.show(ui, |ui| {
            // What stands in it takes the room there is: the panes beside it keep theirs.
            let room = ui.available_rect_before_wrap();
            let mut inside = ui.new_child(UiBuilder::new().max_rect(room));
            inside.set_clip_rect(room.expand(2.0).intersect(ui.clip_rect()));
            let place = if self.findings { PanelPlace::OverLibrary } else { PanelPlace::Left };
            self.place(&mut inside, cx, place);
            ui.advance_cursor_after_rect(room);
        });
        CentralPanel::default().frame(frame(0, 0)).show(ui, |ui| {
            Frame::new().inner_margin(Margin::symmetric(10, 6)).show(ui, |ui| toolbar::ui(self, ui, cx));
            connection_bar::ui(ui, cx);
            token_mismatch::ui(ui, cx);
            self.layout.ui(ui, &mut self.panels.0, cx);
        });
    }

    /// Draws the panels of a place.
    fn place(&mut self, ui: &mut Ui, cx: &mut PanelContext<'_>, place: PanelPlace) {
        for panel in self.panels.0.iter_mut().filter(|panel| panel.place() == place) {
            panel.ui(ui, cx);
        }
    }

    fn dialogs(&mut self, ui: &Ui, state: &State, actions: &mut Vec<UiAction>) {
        if let Some(palette) = &mut self.palette {
            let answer = palette.ui(ui, state, &self.panels.0);
            if !matches!(answer, Answer::Open) {
                self.palette = None;
                ui.ctx().request_repaint(); // as dialogs do
            }
            match answer {
                Answer::Given(Chosen::Action(action)) => actions.push(UiAction::chosen(action, state)),
                Answer::Given(Chosen::Pane(id)) => self.show(id),
                Answer::Given(Chosen::UiAction(action)) => actions.push(*action),
                Answer::Open | Answer::Closed => {}
            }
        }
        if let Some(help) = &mut self.help {
            let answer = help.ui(ui);
            if !matches!(answer, Answer::Open) {
                self.help = None;
            }
            if let Answer::Given(action) = answer {
                actions.push(UiAction::chosen(action, state));
            }
        }
        if let Some(text) = &mut self.hub {
            let answer = hub::ui(ui, text);
            if !matches!(answer, Answer::Open) {
                self.hub = None;
            }
            if let Answer::Given(source) = answer {
                actions.push(UiAction::Command(Command::OpenBackbone(source)));
            }
        }
        if let Some(dialog) = &mut self.connect {
            let answer = dialog.ui(ui, state);
            if !matches!(answer, Answer::Open) {
                self.connect = None;
            }
            if let Answer::Given(host) = answer {
                actions.push(UiAction::Connect(host));
            }
        }
        if let Some(dialog) = &mut self.finding {
            let answer = dialog.ui(ui);
            if !matches!(answer, Answer::Open) {
                self.finding = None;
            }
            if let Answer::Given(command) = answer {
                actions.push(UiAction::Command(command));
            }
        }
        self.share_dialog(ui, state, actions);
        match self.relink.as_mut().map_or(Answer::Open, |dialog| dialog.ui(ui)) {
            Answer::Open => {}
            Answer::Closed => self.relink = None,
            Answer::Given(RelinkStep::Choose(entry)) => self.pick(ui.ctx(), FileRequest::Relink(entry)),
            Answer::Given(RelinkStep::Open) => {
                if let Some(Relink { path, workspace, .. }) = self.relink.take() {
                    actions.push(UiAction::Restore(path, Box::new(workspace)));
                }
            }
        }
        let Some(dialog) = &mut self.export else { return };
        match dialog.ui(ui) {
            Answer::Open => {}
            Answer::Closed => self.export = None,
            Answer::Given(ExportStep::Choose(name)) => self.pick(ui.ctx(), FileRequest::Export(name)),
            // It stays until what it is for is written.
            Answer::Given(ExportStep::Write) => {
                let written = dialog.clone();
                dialog.error = self.exporter.start(ui.ctx(), move || written.write()).err();
            }
        }
    }
}
