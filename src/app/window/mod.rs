//! The window: menu bar, library, panes, jobs, status bar, and the dialogs above them.
//!
//! [`MainWindow`] holds what belongs to the window alone (layout, pinned token, open dialogs); everything worth
//! saving, or testing without a window, is in the [`State`].

mod act;
mod app;
mod auto_tabs;
mod background;
pub mod clipboard;
mod connection_bar;
mod dialogs;
mod drop_overlay;
mod files;
mod focus;
mod icon;
mod layout;
mod menu;
mod named_workspace;
pub(crate) mod native;
mod on_disk;
pub mod opener;
mod order_files;
pub mod panels;
mod paste;
mod pinned;
mod press;
mod session;
mod settings_file;
mod status;
mod style;
mod tab;
mod tiles;
mod title;
mod toasts;
mod token_mismatch;
mod toolbar;
mod widgets;
mod window_order;

pub use self::app::App;
pub use self::window_order::WindowOrder;

use std::cell::OnceCell;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;

use eframe::egui;
use egui::{CentralPanel, Frame, Margin, Ui, UiBuilder};

use self::background::BackgroundWork;
use self::dialogs::file_request::FileRequest;
use self::dialogs::leaving::Leaving;
use self::dialogs::{Dialogs, dialog};
use self::layout::Layout;
use self::named_workspace::NamedWorkspace;
use self::opener::Opener;
use self::panels::{ACCURACIES, COMPARE, Panel, PanelContext, PanelPlace, ShownImages, TokenHover};
use super::state::{RevealTarget, Severity, State};
use crate::app::image_files::is_workspace;
use crate::app::jobs::{Cancel, JobId};
use crate::app::state::command::{Command, FilePrompt};
use crate::viz::draw::{Hover, color32};
use crate::viz::figures::scan_path;

/// Minimum width of the library.
const LIBRARY_PX: f32 = 250.0;

/// Everything that belongs to the window alone.
#[derive(Default)]
pub struct MainWindow {
    panels: Panels,
    layout: Layout,
    /// The images that the gallery showed in the last frame.
    shown: Option<Arc<ShownImages>>,
    /// The count of the state's reveal requests that was last handled.
    revealed: u64,
    /// The pane requested on the command line, until the user acts.
    start_pane: Option<String>,
    pinned: pinned::PinnedToken,
    jobs: bool,
    /// The state's number of warnings when the log was last shown.
    read_warnings: usize,
    /// Whether findings are shown instead of the library.
    findings: bool,
    /// Height of the jobs panel below the panes, 0 while it is hidden.
    jobs_height: f32,
    class_filter: String,
    dialogs: Dialogs,
    /// The share job that is being written, and its cancellation.
    sharing: Option<(JobId, Cancel)>,
    background: BackgroundWork,
    /// Opens written files with the system's program.
    pub opener: Opener,
    /// Orders that are not carried out yet.
    orders: Vec<WindowOrder>,
    /// What is to be done once a question about a workspace that opens is answered.
    afterwards: Vec<Command>,
    toasts: toasts::Toasts,
    /// Cancels what would follow an unfinished save: only the last choice of what to open instead counts.
    after_save: Cancel,
    named: NamedWorkspace,
    /// Cancels the opening of the workspace that was asked for last.
    loading: Option<Cancel>,
    /// The thread that writes the workspace.
    saving: Option<JoinHandle<()>>,
}

/// All panels, with their own state.
struct Panels(Vec<Box<dyn Panel>>);

impl Default for Panels {
    fn default() -> Self {
        Self(panels::all())
    }
}

impl MainWindow {
    /// Shows the panel with this id.
    pub fn show(&mut self, id: &str) {
        let Some(panel) = self.panels.0.iter().find(|panel| panel.id() == id) else { return };
        match panel.place() {
            PanelPlace::Middle => self.layout.show(&**panel),
            PanelPlace::Below => self.jobs = true,
            PanelPlace::OverLibrary => self.findings = true,
            PanelPlace::Left => {}
        }
    }

    /// Shows the panel with this id, in front of whatever opens until the user acts.
    pub fn start_with(&mut self, id: &str) {
        self.show(id);
        self.start_pane = Some(id.to_owned());
    }

    /// Orders from what arrived since the last frame: finished exports, chosen files, a request to close the window.
    pub fn drain(&mut self, ctx: &egui::Context, state: &State) -> Vec<WindowOrder> {
        self.take_outcomes(ctx, state);
        self.write_shared(ctx, state);
        if let Some((what, paths)) = self.dialogs.picker.poll() {
            self.handle_files(ctx, what, paths, state);
        }
        if self.dialogs.close.decide(ctx, state, || self.named.unsaved(state).is_some()) {
            self.leave(Leaving::Quit, state);
        }
        self.take_orders()
    }

    /// Takes the orders since the last call.
    fn take_orders(&mut self) -> Vec<WindowOrder> {
        std::mem::take(&mut self.orders)
    }

    /// Orders to dispatch a command to the state.
    fn send(&mut self, command: Command) {
        self.orders.push(WindowOrder::Command(command));
    }

    /// Orders to add a note to log and toasts.
    fn note(&mut self, severity: Severity, text: String) {
        self.orders.push(WindowOrder::Note(severity, text));
    }

    /// Orders what was pasted or dropped on the window. Only a drawn frame has input of its own: a hidden window
    /// still holds that of the last one.
    fn take_files(&mut self, ctx: &egui::Context, state: &State) {
        self.paste(ctx, state);
        let mut dropped: Vec<PathBuf> =
            ctx.input(|i| i.raw.dropped_files.iter().map(|file| file.path().to_owned()).collect());
        // A workspace replaces everything that is open: it is handled as if chosen, which asks first.
        if let Some(at) = dropped.iter().position(|path| is_workspace(path)) {
            let workspace = vec![dropped.remove(at)];
            let what = FileRequest::Prompt(FilePrompt::OpenWorkspace);
            self.handle_files(ctx, what, workspace, state);
        }
        if !dropped.is_empty() && state.connection.host().is_some() {
            self.send_files(ctx, dropped);
        } else if !dropped.is_empty() {
            self.send(Command::OpenAny(dropped));
        }
    }

    /// Shows what the state asks to reveal, once per request.
    fn reveal(&mut self, state: &State) {
        let Some(target) = state.reveal.take_new(&mut self.revealed) else { return };
        match target {
            RevealTarget::Probe => self.layout.show_probe(&self.panels.0),
            RevealTarget::Compare(_) => self.show(COMPARE),
            RevealTarget::Accuracies => self.show(ACCURACIES),
            RevealTarget::Order => self.show(scan_path::ID),
            RevealTarget::Token(token) => self.pinned.token = token,
        }
        if let Some(pane) = self.start_pane.clone() {
            self.show(&pane);
        }
    }

    /// Draws the whole window; the orders that follow from it.
    pub fn ui(&mut self, ui: &mut Ui, state: &State) -> Vec<WindowOrder> {
        let is_key = |event: &egui::Event| matches!(event, egui::Event::Key { .. });
        if !self.asks() && ui.input(|input| input.pointer.any_pressed() || input.events.iter().any(is_key)) {
            self.start_pane = None;
        }
        press::allow_slow_clicks(ui.ctx());
        widgets::skip_edges(ui);
        self.take_files(ui.ctx(), state);
        self.reveal(state);
        let theme = style::theme(ui);
        let dialog = ui.ctx().memory(egui::Memory::top_modal_layer).is_some();
        self.pinned.keys(ui, dialog);
        let mut hover = TokenHover {
            token: state.selection.hover.token,
            pinned: self.pinned.token,
            ..TokenHover::default()
        };
        let mut actions = Vec::new();
        let shown = ShownImages::from_state(state, self.shown.take());
        let mut cx = PanelContext {
            state,
            theme: &theme,
            focus: state.focus(),
            shown: &shown,
            titles: OnceCell::new(),
            hover: &mut hover,
            actions: &mut actions,
        };
        // Shortcuts do nothing while a dialog is open.
        if !dialog && self.dialogs.palette.is_none() && self.dialogs.finding.is_none() {
            menu::keys(ui.ctx(), &mut cx);
        }
        let ctx = ui.ctx().clone();
        let has_focus = ctx.memory(|memory| memory.focused().is_some()); // a field that takes Enter gives it up
        dialog::draw_below(&ctx, || self.draw_panels(ui, &mut cx));
        self.shown = Some(shown);
        let lifts = self.dialogs.tour.as_ref().map_or(0.0, |tour| tour.lifts);
        self.toasts.ui(ui, state, self.jobs_height + lifts, &mut actions);
        self.named.settle(state);
        self.draw_dialogs(ui, state, &mut actions);
        match self.dialogs.tour.as_mut().map(|tour| tour.ui(ui, self.jobs_height, has_focus)) {
            None | Some(dialog::Answer::Open) => {}
            Some(dialog::Answer::Given(pane)) => self.show(pane),
            Some(dialog::Answer::Closed) => self.dialogs.tour = None,
        }
        if ui.input(|i| !i.raw.hovered_files.is_empty()) {
            drop_overlay::ui(ui, &theme);
        }
        if let Some(token) = hover.clicked {
            self.pinned.click(token);
            ui.ctx().request_repaint();
        }
        let token = hover.found;
        if token != state.selection.hover.token {
            self.send(Command::Hover(Hover { token, ..Hover::default() }));
        }
        // Layout changes come before the actions: one may be to undo them.
        self.orders.extend(self.layout.take_changes().into_iter().map(WindowOrder::Command));
        for action in actions {
            self.act(ui.ctx(), action, state);
        }
        self.orders.extend(self.layout.take_changes().into_iter().map(WindowOrder::Command));
        self.take_orders()
    }

    fn draw_panels(&mut self, ui: &mut Ui, cx: &mut PanelContext<'_>) {
        let panel = color32(style::panel(cx.theme));
        let frame = |x: i8, y: i8| Frame::new().fill(panel).inner_margin(Margin::symmetric(x, y));
        egui::Panel::top("menu").frame(frame(8, 4)).show(ui, |ui| menu::bar(self, ui, cx));
        if self.jobs {
            self.read_warnings = cx.state.warnings; // the log shows them
        }
        let unread = cx.state.warnings - self.read_warnings;
        egui::Panel::bottom("status")
            .frame(frame(8, 2))
            .show(ui, |ui| status::ui(ui, cx, &mut self.pinned, unread));
        let zoom = (100.0 * ui.ctx().zoom_factor()) as u32;
        if self.jobs {
            let below = egui::Panel::bottom(("jobs", zoom)).frame(frame(10, 4)).resizable(true);
            // In a small or zoomed window it leaves more than half to the panes.
            let below = below.default_size((0.4 * ui.available_height()).min(190.0));
            let shown = below.show(ui, |ui| self.draw_place(ui, cx, PanelPlace::Below));
            self.jobs_height = shown.response.rect.height();
        } else {
            self.jobs_height = 0.0;
        }
        let left = egui::Panel::left(("library", zoom)).frame(frame(10, 6)).resizable(true);
        // The default is a share of the width: a small or zoomed window leaves more to the panes.
        let left = left
            .default_size((0.23 * ui.available_width()).clamp(LIBRARY_PX, 300.0))
            .size_range(LIBRARY_PX..=620.0);
        left.show(ui, |ui| {
            // Content wider than the panel is clipped: it must not take width from the panes.
            let room = ui.available_rect_before_wrap();
            let mut inside = ui.new_child(UiBuilder::new().max_rect(room));
            inside.set_clip_rect(room.expand(2.0).intersect(ui.clip_rect()));
            let place = if self.findings { PanelPlace::OverLibrary } else { PanelPlace::Left };
            self.draw_place(&mut inside, cx, place);
            ui.advance_cursor_after_rect(room);
        });
        CentralPanel::default().frame(frame(0, 0)).show(ui, |ui| {
            Frame::new().inner_margin(Margin::symmetric(10, 6)).show(ui, |ui| toolbar::ui(self, ui, cx));
            connection_bar::ui(ui, cx);
            token_mismatch::ui(ui, cx);
            self.layout.ui(ui, &mut self.panels.0, cx);
        });
    }

    fn draw_place(&mut self, ui: &mut Ui, cx: &mut PanelContext<'_>, place: PanelPlace) {
        for panel in self.panels.0.iter_mut().filter(|panel| panel.place() == place) {
            panel.ui(ui, cx);
        }
    }
}
