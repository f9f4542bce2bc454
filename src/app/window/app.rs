//! The window: `logic` drains what the worker says into the state, `ui` draws the state; nothing
//! else.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use eframe::egui;

use super::style;
use super::{MainWindow, WindowOrder};
use crate::app::jobs::{Compute, Event, Request};
use crate::app::state::command::Command;
use crate::app::state::settings::{Settings, SettingsError, ThemeChoice};
use crate::app::state::{Severity, State};
use crate::app::worker::Worker;

/// Who answers requests: the worker, or a test in its place.
pub trait Engine {
    /// Takes a request; never waits.
    fn send(&mut self, request: Request);

    /// The next event, if there is one; never waits.
    fn event(&mut self) -> Option<Event>;

    /// The next event, if one comes in time.
    fn soon(&mut self, at_most: Duration) -> Option<Event>;
}

/// How long a frame waits for what it was asked to show: with known tokens an answer takes a millisecond
/// or two, and the frame is drawn once instead of twice. Nobody notices it where the answer takes longer.
const EXPLAIN_WAIT: Duration = Duration::from_millis(4);

/// How long settings stand still before they are written.
const SAVE_DELAY: Duration = Duration::from_secs(1);

impl Engine for Worker {
    fn send(&mut self, request: Request) {
        Worker::send(self, request);
    }

    fn event(&mut self) -> Option<Event> {
        Worker::event(self)
    }

    fn soon(&mut self, at_most: Duration) -> Option<Event> {
        Worker::soon(self, at_most)
    }
}

/// The program's window.
pub struct App {
    /// What it shows.
    pub state: State,
    /// How it is arranged.
    pub window: MainWindow,
    engine: Box<dyn Engine>,
    /// Where settings are kept, where they are, and what was kept there.
    settings: Option<(PathBuf, Settings)>,
    /// Settings that are not kept yet, and since when they stand so.
    unkept: Option<(Settings, Instant)>,
    shown: Option<(ThemeChoice, f32)>,
}

impl App {
    /// A window on `ctx` over what `engine` answers. Settings are kept in `settings`, if anywhere.
    pub fn new(ctx: &egui::Context, engine: Box<dyn Engine>, settings: Option<&Path>) -> Self {
        style::install(ctx);
        let loaded = settings.map_or_else(|| Ok(Settings::default()), Settings::load);
        let (remembered, error) = loaded.map_or_else(|e| (Settings::default(), Some(e)), |s| (s, None));
        let mut state = State::new(remembered.clone());
        // A file that cannot be read is somebody's to mend: it is not written over.
        let kept = settings.filter(|_| error.is_none()).map(|path| (path.to_owned(), remembered));
        if let Some(error) = error {
            state.note(Severity::Warning, error.to_string());
        }
        Self { state, window: MainWindow::default(), engine, settings: kept, unkept: None, shown: None }
    }

    /// Does a command, as if it had been chosen.
    pub fn dispatch(&mut self, command: Command) {
        let requests = self.state.dispatch(command);
        let looks =
            requests.iter().any(|request| matches!(request, Request::Compute(_, Compute::Explain(_))));
        requests.into_iter().for_each(|request| self.engine.send(request));
        if looks {
            self.await_look();
        }
    }

    /// Waits a moment for the look that was asked for: where tokens are known it takes no longer, and
    /// no frame shows the one before.
    fn await_look(&mut self) {
        let begun = Instant::now();
        while self.state.is_explaining() {
            let left = EXPLAIN_WAIT.saturating_sub(begun.elapsed());
            let Some(event) = self.engine.soon(left) else { return };
            self.hear(event);
        }
    }

    fn hear(&mut self, event: Event) {
        let requests = self.state.apply(event);
        requests.into_iter().for_each(|request| self.engine.send(request));
    }

    /// Puts a workspace in the place of all that is open.
    pub fn open_workspace(&mut self, path: &Path) {
        let mut orders = Vec::new();
        self.window.open(path, &mut orders);
        orders.into_iter().for_each(|order| self.carry_out(order));
    }

    fn carry_out(&mut self, order: WindowOrder) {
        match order {
            WindowOrder::Command(command) => self.dispatch(command),
            WindowOrder::Note(severity, text) => self.state.note(severity, text),
            WindowOrder::Restore(workspace) => {
                let requests = self.state.restore(*workspace);
                requests.into_iter().for_each(|request| self.engine.send(request));
            }
        }
    }

    /// Theme and size as they are set now.
    fn dress(&mut self, ctx: &egui::Context) {
        let wanted = (self.state.settings.theme, self.state.settings.scale);
        if self.shown != Some(wanted) {
            self.shown = Some(wanted);
            ctx.set_theme(match wanted.0 {
                ThemeChoice::System => egui::ThemePreference::System,
                ThemeChoice::Light => egui::ThemePreference::Light,
                ThemeChoice::Dark => egui::ThemePreference::Dark,
            });
            ctx.set_zoom_factor(wanted.1);
        }
    }

    /// Keeps the settings once they have stood still for a while: a slider that is dragged is written once.
    fn keep_settings_soon(&mut self, ctx: &egui::Context) {
        let now = &self.state.settings;
        if self.settings.as_ref().is_none_or(|(_, kept)| kept == now) {
            self.unkept = None;
        } else if let Some((_, since)) = self.unkept.as_ref().filter(|(unkept, _)| unkept == now) {
            if since.elapsed() >= SAVE_DELAY {
                self.unkept = None;
                if let Err(error) = self.keep_settings() {
                    self.state.note(Severity::Warning, error.to_string());
                }
            }
        } else {
            self.unkept = Some((now.clone(), Instant::now()));
            ctx.request_repaint_after(SAVE_DELAY);
        }
    }

    /// Keeps the settings if they changed.
    fn keep_settings(&mut self) -> Result<(), SettingsError> {
        let Some((path, kept)) = &mut self.settings else { return Ok(()) };
        if *kept == self.state.settings {
            return Ok(());
        }
        // Said once: a disk that is full now is full at the next frame too.
        kept.clone_from(&self.state.settings);
        self.state.settings.save(path)
    }

    /// Takes in what the worker and the window have to say: before every frame.
    pub fn advance(&mut self, ctx: &egui::Context) {
        while let Some(event) = self.engine.event() {
            self.hear(event);
        }
        for order in self.window.drain(ctx, &self.state) {
            self.carry_out(order);
        }
        self.dress(ctx);
        self.keep_settings_soon(ctx);
    }

    /// Draws the state, and does what is wished.
    pub fn draw(&mut self, ui: &mut egui::Ui) {
        let orders = self.window.ui(ui, &self.state);
        if orders.is_empty() {
            return;
        }
        // What they change is seen in the next frame.
        ui.ctx().request_repaint();
        let before = self.state.explained_count();
        orders.into_iter().for_each(|order| self.carry_out(order));
        if self.state.explained_count() != before {
            // Or in this one: what it shows is no longer what is asked for.
            ui.ctx().request_discard("a look was answered at once");
        }
    }
}

impl eframe::App for App {
    fn logic(&mut self, ctx: &egui::Context, _frame: &mut eframe::Frame) {
        self.advance(ctx);
    }

    fn ui(&mut self, ui: &mut egui::Ui, _frame: &mut eframe::Frame) {
        self.draw(ui);
    }

    fn on_exit(&mut self) {
        if let Err(error) = self.keep_settings() {
            eprintln!("warning: {error}");
        }
    }
}
