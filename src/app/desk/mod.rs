//! How the window is arranged: menu bar, library, panes, jobs, status bar, and the dialogs above.
//!
//! The desk holds what belongs to the window alone (layout, focus, open dialogs); everything that is
//! worth keeping or testing without one is in the [`State`].

mod choose;
pub mod clipboard;
mod dialog;
mod export;
mod hub;
mod layout;
mod locate;
mod menu;
mod palette;
mod paste;
mod status;
mod strip;
mod tiles;
mod toasts;

use std::path::PathBuf;

use eframe::egui;
use egui::{CentralPanel, Frame, Margin, Ui};

use self::choose::{Chooser, For};
use self::export::{Decision, Export, Exporter, Outcome};
use self::layout::Layout;
use self::locate::Locate;
use self::palette::{Chosen, Palette};
use super::command::{Ask, Command};
use super::job::ColumnId;
use super::look;
use super::panel::{self, Cx, Lit, Panel, Place, Wish};
use super::state::{State, Weight};
use super::training::Draft;
use super::workspace::Workspace;
use crate::viz::hover::Hover;
use crate::viz::paint::color32;
use crate::viz::theme::Theme;

/// What the desk wants of the program around it.
pub enum Order {
    /// The state does it.
    Command(Command),
    /// Note this.
    Note(Weight, String),
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
pub struct Desk {
    panels: Vec<Box<dyn Panel>>,
    layout: Layout,
    focus: Option<ColumnId>,
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
    workspace: Option<PathBuf>,
}

impl Default for Desk {
    fn default() -> Self {
        Self {
            panels: panel::all(),
            layout: Layout::default(),
            focus: None,
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
            workspace: None,
        }
    }
}

impl Desk {
    /// Shows the pane of a panel.
    pub fn show(&mut self, id: &str) {
        let Some(panel) = self.panels.iter().find(|panel| panel.id() == id) else { return };
        match panel.place() {
            Place::Middle => self.layout.show(&**panel),
            Place::Below => self.jobs = true,
            Place::Left => {}
        }
    }

    /// What came in since the last frame: files that were chosen, exports that are done.
    pub fn drain(&mut self, ctx: &egui::Context, state: &State) -> Vec<Order> {
        let mut orders = Vec::new();
        while let Some(outcome) = self.exporter.outcome() {
            match outcome {
                Outcome::Written(path) => {
                    orders.push(Order::Note(Weight::Info, format!("Wrote {}", path.display())));
                }
                Outcome::Image(image) => {
                    ctx.copy_image(image);
                    orders.push(Order::Note(Weight::Info, "Copied the image".to_owned()));
                }
                Outcome::Pasted(path) => orders.push(Order::Command(Command::OpenImages(vec![path]))),
                Outcome::Failed(why) => orders.push(Order::Note(Weight::Error, why)),
            }
        }
        if let Some((what, paths)) = self.chooser.answer()
            && !paths.is_empty()
        {
            self.chosen(what, paths, state, &mut orders);
        }
        orders.extend(paste::orders(ctx, &self.exporter));
        let dropped = ctx.input(|i| i.raw.dropped_files.clone());
        let dropped: Vec<PathBuf> = dropped.into_iter().map(|file| file.path().to_owned()).collect();
        if !dropped.is_empty() {
            orders.push(Order::Command(Command::OpenAny(dropped)));
        }
        orders
    }

    /// Draws everything.
    pub fn ui(&mut self, ui: &mut Ui, state: &State) -> Vec<Order> {
        self.focus = self.focus.filter(|id| state.columns.contains_key(id));
        self.focus = self.focus.or_else(|| first_to_see(state));
        let theme = look::theme(ui);
        let mut lit = Lit::of(state.selection.hover.token);
        let mut wishes = Vec::new();
        let mut cx = Cx { state, theme: &theme, focus: self.focus, lit: &mut lit, wishes: &mut wishes };
        if self.palette.is_none() {
            menu::keys(ui.ctx(), &mut cx);
        }
        self.arrange(ui, &mut cx);
        let mut orders = Vec::new();
        self.dialogs(ui, state, &mut wishes);
        self.toasts.ui(ui, state, self.below, &mut wishes);
        if ui.input(|i| !i.raw.hovered_files.is_empty()) {
            welcome(ui, &theme);
        }
        let token = lit.found();
        if token != state.selection.hover.token {
            orders.push(Order::Command(Command::Hover(Hover { token, ..Hover::default() })));
        }
        // Before the wishes: one may be to take back what was just changed.
        orders.extend(self.layout.told().into_iter().map(Order::Command));
        for wish in wishes {
            self.grant(ui.ctx(), wish, state, &mut orders);
        }
        orders.extend(self.layout.told().into_iter().map(Order::Command));
        orders
    }

    fn arrange(&mut self, ui: &mut Ui, cx: &mut Cx<'_>) {
        let panel = color32(look::panel(cx.theme));
        let frame = |x: i8, y: i8| Frame::new().fill(panel).inner_margin(Margin::symmetric(x, y));
        egui::Panel::top("menu").frame(frame(8, 4)).show(ui, |ui| menu::bar(self, ui, cx));
        egui::Panel::bottom("status").frame(frame(8, 2)).show(ui, |ui| status::ui(ui, cx));
        if self.jobs {
            let below = egui::Panel::bottom("jobs").frame(frame(10, 4)).resizable(true).default_size(190.0);
            self.below = below.show(ui, |ui| self.place(ui, cx, Place::Below)).response.rect.height();
        } else {
            self.below = 0.0;
        }
        let zoom = (100.0 * ui.ctx().zoom_factor()) as u32;
        let left = egui::Panel::left(("library", zoom)).frame(frame(10, 6)).resizable(true);
        // A small or much enlarged window leaves the panes more of itself.
        let left =
            left.default_size((0.23 * ui.available_width()).clamp(230.0, 300.0)).size_range(230.0..=620.0);
        left.show(ui, |ui| self.place(ui, cx, Place::Left));
        CentralPanel::default().frame(frame(0, 0)).show(ui, |ui| {
            Frame::new().inner_margin(Margin::symmetric(10, 6)).show(ui, |ui| strip::ui(self, ui, cx));
            self.layout.ui(ui, &mut self.panels, cx);
        });
    }

    /// Draws the panels of a place.
    fn place(&mut self, ui: &mut Ui, cx: &mut Cx<'_>, place: Place) {
        for panel in self.panels.iter_mut().filter(|panel| panel.place() == place) {
            panel.ui(ui, cx);
        }
    }

    fn dialogs(&mut self, ui: &Ui, state: &State, wishes: &mut Vec<Wish>) {
        if let Some(palette) = &mut self.palette {
            let answer = palette.ui(ui, state, &self.panels);
            if !matches!(answer, Answer::Open) {
                self.palette = None;
            }
            match answer {
                Answer::Given(Chosen::Action(action)) => wishes.push(match action.effect(state) {
                    super::command::Effect::Command(command) => Wish::Command(command),
                    super::command::Effect::Ask(ask) => Wish::Ask(ask),
                }),
                Answer::Given(Chosen::Pane(id)) => self.show(id),
                Answer::Open | Answer::Closed => {}
            }
        }
        if let Some(text) = &mut self.hub {
            match hub::ui(ui, text) {
                Answer::Open => {}
                Answer::Closed => self.hub = None,
                Answer::Given(source) => {
                    self.hub = None;
                    wishes.push(Wish::Command(Command::OpenBackbone(source)));
                }
            }
        }
        self.locate(ui, wishes);
        let Some(dialog) = &mut self.export else { return };
        let modal = dialog::show(ui.ctx(), "export", |ui| dialog.ui(ui));
        let decision = if modal.should_close() { Decision::Close } else { modal.inner };
        let started = match decision {
            Decision::Open => return,
            Decision::Close => Ok(()),
            Decision::Choose(name) => {
                self.toasts.fault = self.chooser.ask(ui.ctx(), For::Export(name)).err();
                return;
            }
            Decision::Write => {
                let dialog = dialog.clone();
                self.exporter.start(ui.ctx(), move || dialog.write())
            }
        };
        self.toasts.fault = started.err();
        self.export = None;
    }

    /// Asks for the missing files of a workspace that is to be opened.
    fn locate(&mut self, ui: &Ui, wishes: &mut Vec<Wish>) {
        let Some(dialog) = &mut self.locate else { return };
        let modal = dialog::show(ui.ctx(), "locate", |ui| dialog.ui(ui));
        match if modal.should_close() { locate::Decision::Close } else { modal.inner } {
            locate::Decision::Open => {}
            locate::Decision::Close => self.locate = None,
            locate::Decision::Choose(entry) => {
                self.toasts.fault = self.chooser.ask(ui.ctx(), For::Locate(entry)).err();
            }
            locate::Decision::Go => {
                if let Some(Locate { path, workspace, .. }) = self.locate.take() {
                    wishes.push(Wish::Restore(path, Box::new(workspace)));
                }
            }
        }
    }

    /// Does what is the window's own; passes on what is the state's.
    fn grant(&mut self, ctx: &egui::Context, wish: Wish, state: &State, orders: &mut Vec<Order>) {
        match wish {
            Wish::Command(command) => orders.push(Order::Command(command)),
            Wish::Focus(id) => self.focus = Some(id),
            Wish::Show(panel) => self.show(panel),
            Wish::Jobs => self.jobs = !self.jobs,
            Wish::Export(figures, traces, limits) => {
                self.export = Some(Export::new(&figures, traces, &state.views, limits));
            }
            Wish::ExportPlot(plot) => self.export = Some(Export::of_plot(plot)),
            Wish::CopyPlot(plot) => {
                let export = Export::of_plot(plot);
                self.toasts.fault = self.exporter.start(ctx, move || export.image()).err();
            }
            Wish::CopyImage(figure, trace, limits) => {
                let export = Export::new(&[figure], vec![trace], &state.views, limits);
                self.toasts.fault = self.exporter.start(ctx, move || export.image()).err();
            }
            Wish::Restore(path, workspace) => self.restore(&path, *workspace, orders),
            Wish::Ask(ask) => self.asked(ctx, ask, state, orders),
        }
    }

    fn asked(&mut self, ctx: &egui::Context, ask: Ask, state: &State, orders: &mut Vec<Order>) {
        match ask {
            Ask::Palette => self.palette = Some(Palette::default()),
            Ask::HubId => self.hub = Some(String::new()),
            Ask::Arrange => self.layout.reset(),
            Ask::CopyLog => ctx.copy_text(state.log_text()),
            Ask::Paste => ctx.send_viewport_cmd(egui::ViewportCommand::RequestPaste),
            Ask::Quit => ctx.send_viewport_cmd(egui::ViewportCommand::Close),
            Ask::SaveWorkspace if self.workspace.is_some() => {
                let path = self.workspace.clone().unwrap_or_default();
                self.save(path, state, orders);
            }
            _ => self.toasts.fault = self.chooser.ask(ctx, For::Ask(ask)).err(),
        }
    }

    /// What becomes of files that were chosen.
    fn chosen(&mut self, what: For, paths: Vec<PathBuf>, state: &State, orders: &mut Vec<Order>) {
        let first = paths.first().cloned().unwrap_or_default();
        let draft = |draft: Draft| Command::SetDraft(Box::new(draft));
        let filled = state.training.draft.clone();
        orders.push(Order::Command(match what {
            For::Export(_) => {
                if let Some(export) = &mut self.export {
                    export.put(&first);
                }
                return;
            }
            For::Locate(entry) => {
                if let Some(locate) = &mut self.locate {
                    locate.found(entry, &first);
                }
                return;
            }
            For::Ask(Ask::BackboneFolder) => Command::OpenBackbone(first.display().to_string()),
            For::Ask(Ask::RunFolder) => Command::OpenRun(first),
            For::Ask(Ask::ProbeFiles) => Command::OpenProbes(paths),
            For::Ask(Ask::ImageFiles | Ask::ImageFolder) => Command::OpenImages(paths),
            For::Ask(Ask::DatasetFolder) => draft(Draft { data: Some(first), ..filled }),
            For::Ask(Ask::RunOutput) => draft(Draft { out: Some(first), ..filled }),
            For::Ask(Ask::CacheFolder) => draft(Draft { cache: Some(first), ..filled }),
            For::Ask(Ask::OpenDatasetFolder) => Command::OpenDataset(first, None),
            For::Ask(Ask::OpenWorkspace) => return self.open(&first, orders),
            For::Ask(Ask::SaveWorkspace | Ask::SaveWorkspaceAs) => return self.save(first, state, orders),
            For::Ask(Ask::HubId | Ask::Palette | Ask::Arrange | Ask::CopyLog | Ask::Paste | Ask::Quit) => {
                return;
            }
        }));
    }

    /// Restores a workspace: its layout here, the rest by whom the desk tells. Asks for missing files
    /// first.
    pub fn open(&mut self, path: &std::path::Path, orders: &mut Vec<Order>) {
        match Workspace::load(path) {
            Ok(workspace) => match Locate::new(path, &workspace) {
                Some(locate) => self.locate = Some(locate),
                None => self.restore(path, workspace, orders),
            },
            Err(error) => orders.push(Order::Note(Weight::Error, error.to_string())),
        }
    }

    /// Takes the layout of a workspace and passes on the rest of it.
    fn restore(&mut self, path: &std::path::Path, workspace: Workspace, orders: &mut Vec<Order>) {
        self.layout.put(&workspace.layout);
        self.workspace = Some(path.to_owned());
        orders.push(Order::Restore(Box::new(workspace)));
    }

    fn save(&mut self, path: PathBuf, state: &State, orders: &mut Vec<Order>) {
        let path =
            if path.extension().is_none() { path.with_extension(super::workspace::EXTENSION) } else { path };
        orders.push(match state.workspace(self.layout.value()).save(&path) {
            Ok(()) => Order::Note(Weight::Info, format!("Wrote {}", path.display())),
            Err(error) => Order::Note(Weight::Error, error.to_string()),
        });
        self.workspace = Some(path);
    }
}

/// The column to look at where none was chosen: the first that learned an order, which has most to
/// show.
fn first_to_see(state: &State) -> Option<ColumnId> {
    let routed =
        |probe| state.library.probes.get(probe).and_then(|p| p.status.ready()).is_some_and(|f| f.routed);
    let found = state.columns.iter().find(|(_, column)| routed(&column.probe));
    found.or_else(|| state.columns.first()).map(|(id, _)| *id)
}

/// Files are held over the window: says what letting go does.
fn welcome(ui: &Ui, theme: &Theme) {
    let id = egui::Id::unique("drop");
    egui::Area::new(id).order(egui::Order::Foreground).fixed_pos(ui.max_rect().min).show(ui.ctx(), |ui| {
        let whole = ui.ctx().content_rect();
        ui.painter().rect_filled(whole, 0.0, color32(theme.ground.alpha(0.82)));
        let edge = egui::Stroke::new(2.0, color32(theme.series(0)));
        ui.painter().rect_stroke(whole.shrink(10.0), 10.0, edge, egui::StrokeKind::Inside);
        let words = "Drop to open: images, folders, datasets, backbones, probes, runs";
        ui.put(whole, egui::Label::new(egui::RichText::new(words).heading()));
    });
}
