//! The window: `logic` drains what the worker says into the state, `ui` draws the state; nothing
//! else.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use eframe::egui;

use super::engine::{self, Engine};
use super::style;
use super::{MainWindow, WindowOrder};
use crate::app::demo;
use crate::app::jobs::train::TrainSettings;
use crate::app::jobs::{Compute, Event, Request};
use crate::app::log;
use crate::app::session::{Last, Session};
use crate::app::state::command::Command;
use crate::app::state::connection::{Connection, Host};
use crate::app::state::settings::{Settings, SettingsError, ThemeChoice};
use crate::app::state::workspace::Workspace;
use crate::app::state::{Severity, State};

/// How long a frame waits for what it was asked to show: with known tokens an answer takes a millisecond
/// or two, and the frame is drawn once instead of twice. Nobody notices it where the answer takes longer.
const EXPLAIN_WAIT: Duration = Duration::from_millis(8);

/// How long settings stand still before they are written.
const SAVE_DELAY: Duration = Duration::from_secs(1);

/// How long after a change the session is written: a crash loses no more.
const SESSION_DELAY: Duration = Duration::from_secs(2);

/// The program's window.
pub struct App {
    /// What it shows.
    pub state: State,
    /// How it is arranged.
    pub window: MainWindow,
    engine: Box<dyn Engine>,
    ctx: egui::Context,
    /// Where settings are kept, where they are, and what was kept there.
    settings: Option<(PathBuf, Settings)>,
    /// Settings that are not kept yet, and since when they stand so.
    unkept: Option<(Settings, Instant)>,
    /// Where the session is kept, and since when something has changed in it.
    session: Option<Session>,
    changed: Option<Instant>,
    /// Whether it was said that the session cannot be kept: a disk that is full stays so for a while.
    session_failed: bool,
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
        let session = settings.map(Session::beside);
        let window = MainWindow::default();
        Self {
            state,
            window,
            engine,
            ctx: ctx.clone(),
            settings: kept,
            unkept: None,
            session,
            changed: None,
            session_failed: false,
            shown: None,
        }
    }

    /// Does a command, as if it had been chosen.
    pub fn dispatch(&mut self, command: Command) {
        if !matches!(command, Command::Hover(_) | Command::ShowThumbnails(_)) {
            self.changed.get_or_insert_with(Instant::now);
            log::asked(&command);
        }
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
        if !matches!(
            event,
            Event::ThumbnailReady { .. } | Event::ThumbnailFailed { .. } | Event::Progress(..)
        ) {
            self.changed.get_or_insert_with(Instant::now);
        }
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
            WindowOrder::Restore(path, mut workspace) => {
                // What was kept of a session knows the file it is of, and is not that file.
                if self.session.as_ref().is_none_or(|session| !session.is_previous(&path)) {
                    (workspace.saved_as, workspace.unsaved) = (Some(path.clone()), false);
                }
                if self.take(*workspace) {
                    self.state.remember_workspace(path);
                }
            }
            WindowOrder::Shared(job, written) => self.state.end_share(job, written),
            WindowOrder::Saved(path) => self.state.remember_workspace(path),
            WindowOrder::Demo => self.start_demo(),
            WindowOrder::Connect(host) => self.connect(host),
            WindowOrder::ConnectNow => self.engine.connect(),
        }
    }

    /// Lets a worker elsewhere compute, or this program again, with nothing open: paths are of other machines.
    pub fn connect(&mut self, host: Option<Host>) {
        if self.state.connection.host() == host.as_ref() {
            return self.engine.connect();
        }
        if self.attach(host) {
            self.window.forget_workspace();
            self.restore(self.empty());
        }
    }

    /// Lets somebody else be asked, and who was asked before end, for what takes the place of all that is open, which is kept;
    /// whether that was possible: what is in the way is noted.
    fn attach(&mut self, host: Option<Host>) -> bool {
        if self.state.connection.host() == host.as_ref() {
            self.keep_previous();
            return true;
        }
        let wake = self.ctx.clone();
        let busy = self.state.training.active.as_ref().is_some_and(|run| !run.detached);
        let started = match busy {
            true => Err("A training runs: stop it before something else computes".to_owned()),
            false => engine::start(host.as_ref(), Arc::new(move || wake.request_repaint())),
        };
        let attached = started.map(|engine| {
            self.keep_previous();
            self.state.let_training_go();
            std::mem::replace(&mut self.engine, engine).end();
            self.state.set_connection(host.map_or(Connection::Here, Connection::Connecting));
        });
        attached.map_err(|why| self.state.note(Severity::Error, why)).is_ok()
    }

    /// A workspace with nothing in it.
    fn empty(&self) -> Workspace {
        let device = self.state.settings.device.clone();
        Workspace { training: TrainSettings { device, ..TrainSettings::default() }, ..Workspace::default() }
    }

    /// How it stands with the way to who computes, and what was said there.
    fn keep_connected(&mut self, ctx: &egui::Context) {
        while let Some(line) = self.engine.log() {
            self.state.far_line(&line);
        }
        let now = self.engine.connection();
        if let Connection::Lost { retry: Some(_), .. } = now {
            ctx.request_repaint_after(Duration::from_millis(250));
        }
        if now != self.state.connection {
            ctx.request_repaint();
            self.state.set_connection(now);
        }
    }

    /// Puts a workspace in the place of all that is open, with its layout and the file it is of; whether that was possible.
    fn take(&mut self, workspace: Workspace) -> bool {
        let possible = self.attach(workspace.host.clone());
        if possible {
            self.window.resume(&workspace);
            self.restore(workspace);
        }
        possible
    }

    fn restore(&mut self, workspace: Workspace) {
        self.changed = Some(Instant::now());
        let requests = self.state.restore(workspace);
        requests.into_iter().for_each(|request| self.engine.send(request));
    }

    /// Opens what was open when the program ended; the demo where that was nothing, is not there or cannot be read.
    pub fn resume(&mut self) {
        match self.session.as_ref().map_or(Last::Nothing, Session::load) {
            Last::Open(workspace) => {
                let mut datasets = workspace.datasets.iter();
                let demo = demo::demo().is_ok_and(|demo| datasets.any(|one| one.path.starts_with(&demo)));
                // The demo is small enough to be evaluated again at once.
                if self.take(*workspace) && demo {
                    self.dispatch(Command::Evaluate { all: false });
                }
            }
            Last::Nothing => self.start_demo(),
            Last::Gone => {
                self.put_session_aside();
                self.start_demo();
            }
            Last::Damaged(error) => {
                self.start_demo();
                self.state.note(Severity::Error, error.to_string());
            }
        }
    }

    /// Opens the bundled demo in the place of all that is open. It is small enough to be evaluated at once.
    pub fn start_demo(&mut self) {
        if !self.attach(None) {
            return;
        }
        self.window.forget_workspace();
        if !self.state.is_empty() {
            self.restore(self.empty());
        }
        self.changed = Some(Instant::now());
        let opening = demo::opening();
        let evaluate = (!opening.is_empty()).then_some(Command::Evaluate { all: false });
        let requests = self.state.open_demo(opening.into_iter().chain(evaluate).collect());
        requests.into_iter().for_each(|request| self.engine.send(request));
    }

    /// Puts the last session aside, where something else was asked for; it stays among what was recently
    /// used.
    pub fn put_session_aside(&mut self) {
        let aside = self.session.as_ref().and_then(Session::put_aside);
        aside.into_iter().for_each(|path| self.state.remember_workspace(path));
    }

    /// Keeps what is open before something else takes its place, unless a file has it.
    fn keep_previous(&mut self) {
        let named = self.window.workspace().is_some();
        let nothing = self.state.is_empty() || demo::demo().is_ok_and(|demo| self.state.is_untouched(&demo));
        let kept = nothing || named && !self.window.is_unsaved(&self.state);
        let Some(session) = self.session.as_ref().filter(|_| !kept) else { return };
        match session.keep_previous(&self.window.session(&self.state)) {
            Ok(path) => self.state.remember_workspace(path),
            Err(error) => self.state.note(Severity::Warning, error.to_string()),
        }
    }

    /// Keeps the session once something has changed in it a while ago: beside the window, and only what is
    /// new.
    fn keep_session_soon(&mut self, ctx: &egui::Context) {
        let Some(session) = &mut self.session else { return };
        if let Err(error) = session.written() {
            self.changed.get_or_insert_with(Instant::now); // it is tried again
            if !std::mem::replace(&mut self.session_failed, true) {
                self.state.note(Severity::Warning, error.to_string());
            }
        }
        let Some(since) = self.changed else { return };
        let left = SESSION_DELAY.saturating_sub(since.elapsed());
        if left > Duration::ZERO {
            return ctx.request_repaint_after(left);
        }
        if session.is_writing() {
            return; // the frame after it sees to this
        }
        self.changed = None;
        let wake = ctx.clone();
        session.write_beside(self.window.session(&self.state), move || wake.request_repaint());
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
        self.keep_connected(ctx);
        for order in self.window.drain(ctx, &self.state) {
            self.carry_out(order);
        }
        self.dress(ctx);
        self.keep_settings_soon(ctx);
        self.keep_session_soon(ctx);
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
    fn logic(&mut self, ctx: &egui::Context, frame: &mut eframe::Frame) {
        if let Some(gpu) = frame.wgpu_render_state() {
            // Only then wgpu forgets what views and bindings destroyed textures had; egui never asks it to.
            let _ = gpu.device.poll(wgpu::PollType::Poll); // waits for nothing
        }
        self.advance(ctx);
    }

    fn ui(&mut self, ui: &mut egui::Ui, _frame: &mut eframe::Frame) {
        self.draw(ui);
    }

    fn on_exit(&mut self) {
        if let Err(error) = self.keep_settings() {
            eprintln!("warning: {error}");
        }
        let session = self.window.session(&self.state);
        if let Some(Err(error)) = self.session.as_mut().map(|kept| kept.write_last(&session)) {
            eprintln!("warning: {error}");
        }
    }
}
