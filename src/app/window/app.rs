//! The eframe app: `logic` drains the worker's events into the state, `ui` draws the state; nothing else.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use eframe::egui;

use super::dialogs::leaving::Leaving;
use super::dialogs::relink::LoadedWorkspace;
use super::session::SessionWarning;
use super::settings_file::SettingsFile;
use super::title::Title;
use super::{MainWindow, WindowOrder, style};
use crate::app::jobs::train::TrainSettings;
use crate::app::jobs::{Compute, Event, Request};
use crate::app::log;
use crate::app::remote::{self, AnyWorker};
use crate::app::session::Session;
use crate::app::state::command::Command;
use crate::app::state::connection::{Connection, Host};
use crate::app::state::settings::{Settings, ThemeChoice, WindowSize};
use crate::app::state::workspace::Workspace;
use crate::app::state::{Severity, State};
use crate::app::{crash, demo};
use crate::model::io::catch_panic::catch_foreign;

/// How long a frame waits for an explanation that was just requested: with cached tokens it takes a
/// millisecond or two, and one frame is drawn instead of two. Too short to be noticed if it takes longer.
const EXPLAIN_WAIT: Duration = Duration::from_millis(8);

/// The program's window.
pub struct App {
    /// What the window shows, as plain data.
    pub state: State,
    /// Layout, focus and dialogs.
    pub window: MainWindow,
    title: Title,
    worker: Box<dyn AnyWorker>,
    ctx: egui::Context,
    /// The settings' file; `None` where settings are not kept.
    settings: Option<SettingsFile>,
    /// The session's files, and when what is open first differed from what was written.
    pub(super) session: Option<Session>,
    pub(super) changed: Option<Instant>,
    /// The warning shown since the session was last written.
    pub(super) session_warning: SessionWarning,
    /// The file of what was open before; `None` if nothing was, or if no file has it.
    pub(super) put_aside_in: Option<PathBuf>,
    /// Theme and zoom factor that egui was last given.
    shown: Option<(ThemeChoice, f32)>,
    /// The zoom factor that egui had last.
    zoom: f32,
}

impl App {
    /// A window on `ctx` whose requests `worker` answers. Settings are kept in the file `settings`, if any.
    pub fn new(ctx: &egui::Context, worker: Box<dyn AnyWorker>, settings: Option<&Path>) -> Self {
        style::install(ctx);
        let loaded = settings.map_or_else(|| Ok(Settings::default()), Settings::load);
        let (remembered, error) = loaded.map_or_else(|e| (Settings::default(), Some(e)), |s| (s, None));
        let mut state = State::new(remembered.clone());
        // A file that cannot be read is left for the user to repair, never overwritten.
        let kept = settings.filter(|_| error.is_none());
        let kept = kept.map(|path| SettingsFile::new(path.to_owned(), remembered));
        if let Some(error) = error {
            state.note(Severity::Warning, error.to_string());
        }
        let session = settings.map(Session::beside);
        Self {
            state,
            window: MainWindow::default(),
            title: Title::default(),
            worker,
            ctx: ctx.clone(),
            settings: kept,
            session,
            changed: None,
            session_warning: SessionWarning::Nothing,
            put_aside_in: None,
            shown: None,
            zoom: 1.0,
        }
    }

    /// Applies a command and sends the requests that follow from it.
    pub fn dispatch(&mut self, command: Command) {
        if !matches!(command, Command::Hover(_) | Command::ShowThumbnails(_)) {
            self.changed.get_or_insert_with(Instant::now);
            log::request(&command);
        }
        let requests = self.state.dispatch(command);
        let explains =
            requests.iter().any(|request| matches!(request, Request::Compute(_, Compute::Explain(_))));
        requests.into_iter().for_each(|request| self.worker.send(request));
        if explains {
            self.await_explanation();
        }
    }

    /// Applies a command, after the workspace that is being opened if that asks something first.
    pub fn dispatch_afterwards(&mut self, command: Command) {
        match self.window.asks() {
            true => self.window.afterwards.push(command),
            false => self.dispatch(command),
        }
    }

    /// Applies events for up to [`EXPLAIN_WAIT`], until every requested explanation is there: with cached
    /// tokens it takes no longer, and no frame shows the previous one.
    fn await_explanation(&mut self) {
        let begun = Instant::now();
        while self.state.is_explaining() {
            let left = EXPLAIN_WAIT.saturating_sub(begun.elapsed());
            let Some(event) = self.worker.recv_timeout(left) else { return };
            self.apply(event);
        }
    }

    fn apply(&mut self, event: Event) {
        use Event::{Progress, ThumbnailFailed, ThumbnailReady};
        if !matches!(event, ThumbnailReady { .. } | ThumbnailFailed { .. } | Progress(..)) {
            self.changed.get_or_insert_with(Instant::now);
        }
        let requests = self.state.apply(event);
        requests.into_iter().for_each(|request| self.worker.send(request));
    }

    /// Replaces everything that is open by the workspace in the file `path`, before the window is first drawn.
    pub fn open_workspace(&mut self, path: &Path) {
        let read = LoadedWorkspace::load(path.to_owned(), self.is_session(path));
        self.window.open(read, &self.state);
        self.window.take_orders().into_iter().for_each(|order| self.carry_out(order));
    }

    /// Whether a path is a session file of this user.
    fn is_session(&self, path: &Path) -> bool {
        self.session.as_ref().is_some_and(|session| session.is_session(path))
    }

    fn carry_out(&mut self, order: WindowOrder) {
        match order {
            WindowOrder::Command(command) => self.dispatch(command),
            WindowOrder::Note(severity, text) => self.state.note(severity, text),
            WindowOrder::Wrote(path) => self.state.note_written(path),
            // This window's own session is open already, and its file may lack the last seconds.
            WindowOrder::Restore(path, _) if self.session.as_ref().is_some_and(|own| own.is_own(&path)) => {}
            WindowOrder::Restore(path, mut workspace) => {
                // An earlier session names its workspace file itself; its own path is not that file.
                if !self.is_session(&path) {
                    (workspace.saved_as, workspace.unsaved) = (Some(path.clone()), false);
                    workspace.host.iter_mut().for_each(|host| self.state.drop_unknown_program(host));
                }
                if self.replace(*workspace) {
                    self.session.iter_mut().for_each(|session| session.continue_in(&path));
                    self.state.remember_workspace(path);
                }
            }
            WindowOrder::Shared(job, written) => self.state.end_share(job, written),
            WindowOrder::Saved(path) => {
                self.state.remember_workspace(path);
                self.changed.get_or_insert_with(Instant::now); // the session keeps what the file holds by now
            }
            WindowOrder::Leave(Leaving::Quit) => self.window.dialogs.close.close_now(&self.ctx),
            WindowOrder::Leave(Leaving::Demo) => self.start_demo(),
            WindowOrder::Leave(Leaving::Workspace(path)) => {
                let own = self.is_session(&path);
                self.window.load(&self.ctx, path, own);
            }
            WindowOrder::Leave(Leaving::Host(host)) => self.connect(host),
            WindowOrder::ConnectNow => self.worker.connect(),
        }
    }

    /// Connects to the worker at `host`, or to this program's own, with nothing open: paths are of one machine. From a host that was
    /// never reached it goes back to what was open before, if only the demo.
    pub fn connect(&mut self, host: Option<Host>) {
        if self.state.connection.host() == host.as_ref() {
            return self.worker.connect();
        }
        let unreached = self.state.is_empty() && self.state.connection.is_unreached();
        let (before, here) = (self.put_aside_in.take().filter(|_| unreached), host.is_none());
        if !self.attach(host) {
            self.put_aside_in = before; // the connection is as it was
            return;
        }
        self.window.forget_workspace();
        self.restore(self.empty());
        match before {
            Some(path) if here => {
                let own = self.is_session(&path);
                self.window.load(&self.ctx, path, own);
            }
            None if here && unreached => self.start_demo(),
            before => self.put_aside_in = self.put_aside_in.take().or(before),
        }
    }

    /// Keeps what is open as an earlier session, and replaces the worker unless `host` is the current one; false, with a note, if it cannot.
    fn attach(&mut self, host: Option<Host>) -> bool {
        if self.state.connection.host() == host.as_ref() {
            return self.put_aside();
        }
        let wake = self.ctx.clone();
        let started = match self.state.training.runs_here() {
            true => Err("A training is running: stop it before switching where to compute".to_owned()),
            false => remote::start(host.as_ref(), Arc::new(move || wake.request_repaint())),
        };
        let Ok(worker) = started.map_err(|why| self.state.note(Severity::Error, why)) else { return false };
        if !self.put_aside() {
            worker.end();
            return false;
        }
        self.state.unfollow_training();
        std::mem::replace(&mut self.worker, worker).end();
        self.state.set_connection(host.map_or(Connection::Here, Connection::Connecting));
        true
    }

    /// A workspace with nothing in it.
    fn empty(&self) -> Workspace {
        let device = self.state.settings.device.clone();
        Workspace { training: TrainSettings { device, ..TrainSettings::default() }, ..Workspace::default() }
    }

    /// Takes over the state of the connection, and the log lines of a remote worker.
    fn poll_connection(&mut self, ctx: &egui::Context) {
        while let Some(line) = self.worker.log() {
            self.state.record_remote(&line);
        }
        let now = self.worker.connection();
        if let Connection::Lost { retry: Some(_), .. } = now {
            ctx.request_repaint_after(Duration::from_millis(250));
        }
        if now != self.state.connection {
            ctx.request_repaint();
            self.state.set_connection(now);
        }
    }

    /// Replaces everything that is open by a workspace, its layout and file name included; whether it could.
    pub(super) fn replace(&mut self, workspace: Workspace) -> bool {
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
        requests.into_iter().for_each(|request| self.worker.send(request));
    }

    /// Replaces everything that is open by the bundled demo, which is small enough to be evaluated at once.
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
        requests.into_iter().for_each(|request| self.worker.send(request));
    }

    /// Gives egui the theme and the zoom factor of the settings, if they changed. The keys that egui itself zooms by, Ctrl+= and
    /// those pressed in a dialog, change the settings.
    fn apply_style(&mut self, ctx: &egui::Context) {
        let zoom = ctx.zoom_factor();
        let before = std::mem::replace(&mut self.zoom, zoom);
        // egui applies a zoom factor from the next frame on.
        let is_same = |known: f32| known.to_bits() == zoom.to_bits();
        if !is_same(before) && self.shown.is_some_and(|(_, scale)| !is_same(scale)) {
            self.dispatch(Command::SetScale(zoom));
            self.shown = None; // the settings have limits
        }
        let wanted = (self.state.settings.theme, self.state.settings.scale);
        if self.shown != Some(wanted) {
            self.shown = Some(wanted);
            let theme = match wanted.0 {
                ThemeChoice::System => egui::ThemePreference::System,
                ThemeChoice::Light => egui::ThemePreference::Light,
                ThemeChoice::Dark => egui::ThemePreference::Dark,
            };
            if ctx.options(|options| options.theme_preference) != theme {
                ctx.set_theme(theme);
                // Half of what this frame draws has the colours it began with.
                ctx.request_discard("the theme has changed");
            }
            ctx.set_zoom_factor(wanted.1);
        }
    }

    /// Notes the window's size, or that it fills the screen, for the next start.
    fn remember_size(&mut self, ctx: &egui::Context) {
        let is = |flag: fn(&egui::ViewportInfo) -> Option<bool>| {
            ctx.input(|input| flag(input.viewport()) == Some(true))
        };
        if is(|window| window.minimized) {
            return;
        }
        let kept = &mut self.state.settings.window;
        let maximized = is(|window| window.maximized) || is(|window| window.fullscreen);
        let whole = ctx.viewport_rect().size() * ctx.zoom_factor();
        let points = if maximized { kept.points } else { whole.into() };
        let size = WindowSize { points, maximized };
        if *kept != size {
            *kept = size;
            ctx.request_repaint(); // to be saved
        }
    }

    /// Runs before every frame: applies the worker's events and the window's pending orders.
    pub fn advance(&mut self, ctx: &egui::Context) {
        while let Some(event) = self.worker.event() {
            self.apply(event);
        }
        self.poll_connection(ctx);
        for order in self.window.drain(ctx, &self.state) {
            self.carry_out(order);
        }
        self.keep_notes(ctx);
        self.title.update(ctx, &self.state, self.window.workspace());
        self.apply_style(ctx);
        if let Some(file) = &mut self.settings
            && let Err(error) = file.save_if_due(&self.state.settings, ctx)
        {
            self.state.note(Severity::Warning, error.to_string());
        }
        self.save_session_if_due(ctx);
    }

    /// Draws the state, and executes what the user chose.
    pub fn draw(&mut self, ui: &mut egui::Ui) {
        let orders = self.window.ui(ui, &self.state);
        if orders.is_empty() {
            return;
        }
        // The effects of the orders show in the next frame.
        ui.ctx().request_repaint();
        let before = self.state.explained_count();
        orders.into_iter().for_each(|order| self.carry_out(order));
        if self.state.explained_count() != before {
            // An explanation came at once: what this frame shows is outdated, so it is laid out again.
            ui.ctx().request_discard("an explanation was computed at once");
        }
    }
}

impl eframe::App for App {
    fn logic(&mut self, ctx: &egui::Context, frame: &mut eframe::Frame) {
        if let Some(gpu) = frame.wgpu_render_state() {
            // wgpu frees views and bindings of destroyed textures only when polled, which egui never does; a GPU that is lost panics.
            let polled = catch_foreign(|| gpu.device.poll(wgpu::PollType::Poll)); // does not block
            if polled.is_err() {
                // Nothing is painted any more.
                eframe::App::on_exit(self);
                crash::end_without_gpu("Restart the program: it reopens what was open");
            }
        }
        self.advance(ctx);
    }

    fn ui(&mut self, ui: &mut egui::Ui, _frame: &mut eframe::Frame) {
        self.remember_size(ui.ctx());
        self.draw(ui);
    }

    fn on_exit(&mut self) {
        for order in self.window.end_saving(&self.ctx, &self.state) {
            self.carry_out(order);
        }
        if let Some(Err(error)) = self.settings.as_mut().map(|file| file.save(&self.state.settings)) {
            eprintln!("warning: {error}");
        }
        if let Err(error) = self.save_session() {
            eprintln!("warning: {error}");
        }
    }
}
