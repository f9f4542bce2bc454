//! How the window is arranged: menu bar, library, panes, jobs, status bar, and the dialogs above.
//!
//! [`MainWindow`] holds what belongs to the window alone (layout, focus, open dialogs); everything that is
//! worth keeping or testing without one is in the [`State`].

mod app;
mod auto_tabs;
pub mod clipboard;
mod close_confirm;
mod dialog;
mod drop_overlay;
mod export;
mod exporter;
mod file_picker;
mod files;
mod hub;
mod layout;
mod menu;
pub(crate) mod native;
mod palette;
pub mod panels;
mod paste;
mod path;
mod pinned;
mod relink;
mod status;
mod style;
mod tiles;
mod toasts;
mod token_mismatch;
mod toolbar;

pub use self::app::{App, Engine};

use std::path::PathBuf;

use eframe::egui;
use egui::{CentralPanel, Frame, Margin, Ui, UiBuilder};

use self::export::{Decision, Export, Exporter, Outcome};
use self::file_picker::{Chooser, For};
use self::layout::Layout;
use self::palette::{Chosen, Palette};
use self::panels::{Panel, PanelContext, PanelPlace, TokenHover, UiAction};
use self::relink::Locate;
use super::jobs::ColumnId;
use super::state::{Severity, State};
use crate::app::state::command::{Command, Prompt};
use crate::app::state::workspace::Workspace;
use crate::viz::draw::hover::Hover;
use crate::viz::draw::paint::color32;

/// What the window wants of the program around it.
pub enum WindowOrder {
    /// The state does it.
    Command(Command),
    /// Note this.
    Note(Severity, String),
    /// Restore everything from a workspace.
    Restore(Box<Workspace>),
}

/// What a dialog says in a frame.
enum Answer<T> {
    /// Nothing yet.
    Open,
    /// It was called off.
    Closed,
    /// This.
    Given(T),
}

/// The window's own.
pub struct MainWindow {
    panels: Vec<Box<dyn Panel>>,
    layout: Layout,
    focus: Option<ColumnId>,
    held: pinned::PinnedToken,
    jobs: bool,
    /// Height of the jobs below the panes.
    below: f32,
    class_filter: String,
    palette: Option<Palette>,
    hub: Option<String>,
    export: Option<Export>,
    exporter: Exporter,
    locate: Option<Locate>,
    chooser: Chooser,
    toasts: toasts::Toasts,
    leave: close_confirm::Leave,
    workspace: Option<PathBuf>,
}

impl Default for MainWindow {
    fn default() -> Self {
        Self {
            panels: panels::all(),
            layout: Layout::default(),
            focus: None,
            held: pinned::PinnedToken::default(),
            jobs: false,
            below: 0.0,
            class_filter: String::new(),
            palette: None,
            hub: None,
            export: None,
            exporter: Exporter::default(),
            locate: None,
            chooser: Chooser::default(),
            toasts: toasts::Toasts::default(),
            leave: close_confirm::Leave::default(),
            workspace: None,
        }
    }
}

impl MainWindow {
    /// Shows the pane of a panel.
    pub fn show(&mut self, id: &str) {
        let Some(panel) = self.panels.iter().find(|panel| panel.id() == id) else { return };
        match panel.place() {
            PanelPlace::Middle => self.layout.show(&**panel),
            PanelPlace::Below => self.jobs = true,
            PanelPlace::Left => {}
        }
    }

    /// What came in since the last frame: files that were chosen, exports that are done.
    pub fn drain(&mut self, ctx: &egui::Context, state: &State) -> Vec<WindowOrder> {
        let mut orders = Vec::new();
        while let Some(outcome) = self.exporter.outcome() {
            match outcome {
                Outcome::Written(path) => {
                    self.export = None;
                    orders.push(WindowOrder::Note(Severity::Info, format!("Wrote {}", path.display())));
                }
                Outcome::Image(image) => {
                    ctx.copy_image(image);
                    orders.push(WindowOrder::Note(Severity::Info, "Copied the image".to_owned()));
                }
                Outcome::Pasted(path) => orders.push(WindowOrder::Command(Command::OpenImages(vec![path]))),
                Outcome::Failed(why) => match &mut self.export {
                    Some(export) => export.fault = Some(why),
                    None => orders.push(WindowOrder::Note(Severity::Error, why)),
                },
            }
        }
        if let Some((what, paths)) = self.chooser.answer() {
            self.chosen(what, paths, state, &mut orders);
        }
        orders.extend(paste::orders(ctx, &self.exporter));
        let dropped = ctx.input(|i| i.raw.dropped_files.clone());
        let dropped: Vec<PathBuf> = dropped.into_iter().map(|file| file.path().to_owned()).collect();
        if !dropped.is_empty() {
            orders.push(WindowOrder::Command(Command::OpenAny(dropped)));
        }
        orders
    }

    /// Draws everything.
    pub fn ui(&mut self, ui: &mut Ui, state: &State) -> Vec<WindowOrder> {
        self.focus = self.focus.filter(|id| state.columns.contains_key(id));
        self.focus = self.focus.or_else(|| auto_tabs::first_to_see(state));
        let theme = style::theme(ui);
        let dialog =
            self.palette.is_some() || self.hub.is_some() || self.export.is_some() || self.locate.is_some();
        self.held.keys(ui, dialog);
        let mut lit = TokenHover::of(state.selection.hover.token, self.held.token);
        let mut wishes = Vec::new();
        let mut cx =
            PanelContext { state, theme: &theme, focus: self.focus, lit: &mut lit, wishes: &mut wishes };
        if self.palette.is_none() {
            menu::keys(ui.ctx(), &mut cx);
        }
        self.arrange(ui, &mut cx);
        let mut orders = Vec::new();
        self.dialogs(ui, state, &mut wishes);
        if let Some((what, paths)) = self.chooser.ui(ui, &state.settings.recent) {
            self.chosen(what, paths, state, &mut orders);
        }
        self.toasts.ui(ui, state, self.below, &mut wishes);
        self.leave.ui(ui, state, &mut wishes);
        if ui.input(|i| !i.raw.hovered_files.is_empty()) {
            drop_overlay::ui(ui, &theme);
        }
        if let Some(token) = lit.clicked() {
            self.held.click(token);
            ui.ctx().request_repaint();
        }
        let token = lit.found();
        if token != state.selection.hover.token {
            orders.push(WindowOrder::Command(Command::Hover(Hover { token, ..Hover::default() })));
        }
        // Before the wishes: one may be to take back what was just changed.
        orders.extend(self.layout.told().into_iter().map(WindowOrder::Command));
        for wish in wishes {
            self.grant(ui.ctx(), wish, state, &mut orders);
        }
        orders.extend(self.layout.told().into_iter().map(WindowOrder::Command));
        orders
    }

    fn arrange(&mut self, ui: &mut Ui, cx: &mut PanelContext<'_>) {
        let panel = color32(style::panel(cx.theme));
        let frame = |x: i8, y: i8| Frame::new().fill(panel).inner_margin(Margin::symmetric(x, y));
        egui::Panel::top("menu").frame(frame(8, 4)).show(ui, |ui| menu::bar(self, ui, cx));
        egui::Panel::bottom("status").frame(frame(8, 2)).show(ui, |ui| status::ui(ui, cx, &mut self.held));
        if self.jobs {
            let below = egui::Panel::bottom("jobs").frame(frame(10, 4)).resizable(true).default_size(190.0);
            self.below = below.show(ui, |ui| self.place(ui, cx, PanelPlace::Below)).response.rect.height();
        } else {
            self.below = 0.0;
        }
        let zoom = (100.0 * ui.ctx().zoom_factor()) as u32;
        let left = egui::Panel::left(("library", zoom)).frame(frame(10, 6)).resizable(true);
        // A small or much enlarged window leaves the panes more of itself.
        let left =
            left.default_size((0.23 * ui.available_width()).clamp(230.0, 300.0)).size_range(230.0..=620.0);
        left.show(ui, |ui| {
            // What stands in it takes the room there is: the panes beside it keep theirs.
            let room = ui.available_rect_before_wrap();
            let mut inside = ui.new_child(UiBuilder::new().max_rect(room));
            inside.set_clip_rect(room.expand(2.0).intersect(ui.clip_rect()));
            self.place(&mut inside, cx, PanelPlace::Left);
            ui.advance_cursor_after_rect(room);
        });
        CentralPanel::default().frame(frame(0, 0)).show(ui, |ui| {
            Frame::new().inner_margin(Margin::symmetric(10, 6)).show(ui, |ui| toolbar::ui(self, ui, cx));
            token_mismatch::ui(ui, cx);
            self.layout.ui(ui, &mut self.panels, cx);
        });
    }

    /// Draws the panels of a place.
    fn place(&mut self, ui: &mut Ui, cx: &mut PanelContext<'_>, place: PanelPlace) {
        for panel in self.panels.iter_mut().filter(|panel| panel.place() == place) {
            panel.ui(ui, cx);
        }
    }

    fn dialogs(&mut self, ui: &Ui, state: &State, wishes: &mut Vec<UiAction>) {
        if let Some(palette) = &mut self.palette {
            let answer = palette.ui(ui, state, self.focus, &self.panels);
            if !matches!(answer, Answer::Open) {
                self.palette = None;
            }
            match answer {
                Answer::Given(Chosen::Action(action)) => wishes.push(match action.effect(state) {
                    crate::app::state::command::Effect::Command(command) => UiAction::Command(command),
                    crate::app::state::command::Effect::Prompt(ask) => UiAction::Prompt(ask),
                }),
                Answer::Given(Chosen::Pane(id)) => self.show(id),
                Answer::Given(Chosen::UiAction(wish)) => wishes.push(*wish),
                Answer::Open | Answer::Closed => {}
            }
        }
        if let Some(text) = &mut self.hub {
            match hub::ui(ui, text) {
                Answer::Open => {}
                Answer::Closed => self.hub = None,
                Answer::Given(source) => {
                    self.hub = None;
                    wishes.push(UiAction::Command(Command::OpenBackbone(source)));
                }
            }
        }
        self.locate(ui, wishes);
        let Some(dialog) = &mut self.export else { return };
        let modal = dialog::show(ui.ctx(), "export", |ui| dialog.ui(ui));
        let decision = if modal.should_close() { Decision::Close } else { modal.inner };
        match decision {
            Decision::Open => {}
            Decision::Close => self.export = None,
            Decision::Choose(name) => {
                self.toasts.fault = self.chooser.ask(ui.ctx(), For::Export(name)).err();
            }
            // It stays until what it is for is written.
            Decision::Write => {
                let written = dialog.clone();
                dialog.fault = self.exporter.start(ui.ctx(), move || written.write()).err();
            }
        }
    }

    /// Asks for the missing files of a workspace that is to be opened.
    fn locate(&mut self, ui: &Ui, wishes: &mut Vec<UiAction>) {
        let Some(dialog) = &mut self.locate else { return };
        let modal = dialog::show(ui.ctx(), "locate", |ui| dialog.ui(ui));
        match if modal.should_close() { relink::Decision::Close } else { modal.inner } {
            relink::Decision::Open => {}
            relink::Decision::Close => self.locate = None,
            relink::Decision::Choose(entry) => {
                self.toasts.fault = self.chooser.ask(ui.ctx(), For::Locate(entry)).err();
            }
            relink::Decision::Go => {
                if let Some(Locate { path, workspace, .. }) = self.locate.take() {
                    wishes.push(UiAction::Restore(path, Box::new(workspace)));
                }
            }
        }
    }

    /// Does what is the window's own; passes on what is the state's.
    fn grant(&mut self, ctx: &egui::Context, wish: UiAction, state: &State, orders: &mut Vec<WindowOrder>) {
        match wish {
            UiAction::Command(command) => orders.push(WindowOrder::Command(command)),
            UiAction::Focus(id) => self.focus = Some(id),
            UiAction::Show(panel) => self.show(panel),
            UiAction::Jobs => self.jobs = !self.jobs,
            UiAction::Export(figures, traces, limits) => {
                self.export = Some(Export::new(&figures, traces, &state.views, limits));
            }
            UiAction::ExportPlot(plot) => self.export = Some(Export::of_plot(plot)),
            UiAction::CopyPlot(plot) => {
                let export = Export::of_plot(plot);
                self.toasts.fault = self.exporter.start(ctx, move || export.image()).err();
            }
            UiAction::CopyImage(figure, trace, limits) => {
                let export = Export::new(&[figure], vec![trace], &state.views, limits);
                self.toasts.fault = self.exporter.start(ctx, move || export.image()).err();
            }
            UiAction::Restore(path, workspace) => self.restore(&path, *workspace, orders),
            UiAction::Prompt(ask) => self.asked(ctx, ask, state, orders),
        }
    }

    fn asked(&mut self, ctx: &egui::Context, ask: Prompt, state: &State, orders: &mut Vec<WindowOrder>) {
        match ask {
            Prompt::Palette => self.palette = Some(Palette::default()),
            Prompt::HubId => self.hub = Some(String::new()),
            Prompt::Arrange => self.layout.reset(),
            Prompt::CopyLog => ctx.copy_text(state.log_text()),
            Prompt::Paste => ctx.send_viewport_cmd(egui::ViewportCommand::RequestPaste),
            Prompt::Quit => ctx.send_viewport_cmd(egui::ViewportCommand::Close),
            Prompt::SaveWorkspace if self.workspace.is_some() => {
                let path = self.workspace.clone().unwrap_or_default();
                self.save(path, state, orders);
            }
            _ => self.toasts.fault = self.chooser.ask(ctx, For::Prompt(ask)).err(),
        }
    }
}
