//! Puts the script between the system and the window: what the pointer does goes in, frames are
//! timed on their way out.

use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::Builder;
use std::time::{Duration, Instant};

use eframe::egui;
use tempfile::TempDir;

use super::load::SyntheticLibrary;
use super::metrics::{Frames, Sheet};
use super::script::{Selecting, Stage};
use crate::app::App;
use crate::app::devtools::is_real_pointer;

/// Longer than anything here takes, also on a busy machine.
const PATIENCE: Duration = Duration::from_mins(10);
/// How long the window may take to come to rest.
const SETTLE: Duration = Duration::from_secs(2);
/// How long it is watched then.
const WATCH: Duration = Duration::from_secs(3);

/// The window under the script.
pub struct Driver {
    pub(super) app: App,
    pub(super) synthetic: SyntheticLibrary,
    /// The folder of the synthetic library, for as long as the window shows it.
    pub(super) folder: Option<TempDir>,
    pub(super) begun: Instant,
    pub(super) stage: Stage,
    pub(super) selecting: Selecting,
    pub(super) frames: Frames,
    /// What the pointer does in the next frame.
    pub(super) events: Vec<egui::Event>,
    /// When this frame began, which is when the one before had been handed over.
    pub(super) now: Instant,
    frame: usize,
    /// The first frame that drew what is waited for.
    drawn: Option<usize>,
    stage_began: Instant,
    rest: Arc<Rest>,
    sheet: Arc<Mutex<Sheet>>,
}

/// What is known of a window at rest: 0 not yet, 1 watched, 2 over; and the frames it drew.
#[derive(Default)]
struct Rest {
    phase: AtomicU8,
    frames: AtomicUsize,
}

impl Driver {
    pub(super) fn new(
        app: App,
        begun: Instant,
        synthetic: SyntheticLibrary,
        sheet: Arc<Mutex<Sheet>>,
    ) -> Self {
        Self {
            app,
            synthetic,
            folder: None,
            begun,
            stage: Stage::First,
            selecting: Selecting::default(),
            frames: Frames::default(),
            events: Vec::new(),
            now: begun,
            frame: 0,
            drawn: None,
            stage_began: begun,
            rest: Arc::default(),
            sheet,
        }
    }

    fn sheet(&self) -> MutexGuard<'_, Sheet> {
        self.sheet.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn put(&self, name: &'static str, value: f64) {
        self.sheet().put(name, value);
    }

    /// Whether a frame that was drawn while `there` held has been handed over.
    pub(super) fn drawn(&mut self, there: bool) -> bool {
        self.drawn = if there { self.drawn.or(Some(self.frame)) } else { None };
        self.drawn.is_some_and(|drawn| self.frame > drawn)
    }

    pub(super) fn go_to(&mut self, stage: Stage) {
        (self.stage, self.drawn, self.stage_began) = (stage, None, self.now);
    }

    pub(super) fn fail(&mut self, why: String) {
        self.sheet().failed = Some(why);
        self.go_to(Stage::Over);
    }

    /// Whether nothing is drawn until the program itself wants it.
    fn waits(&self) -> bool {
        // As for a person who clicked: frames that nobody asked for would stand in the way.
        let clicked = self.stage == Stage::Select && self.selecting.since.is_some() && self.drawn.is_none();
        clicked || self.stage == Stage::Idle
    }

    /// Watches the window from a thread of its own, so that watching wakes nobody.
    pub(super) fn watch(&mut self, ctx: &egui::Context) {
        let (rest, ctx) = (self.rest.clone(), ctx.clone());
        let watching = move || {
            std::thread::sleep(SETTLE);
            rest.phase.store(1, Ordering::SeqCst);
            std::thread::sleep(WATCH);
            rest.phase.store(2, Ordering::SeqCst);
            ctx.request_repaint();
        };
        if let Err(error) = Builder::new().name("watch".into()).spawn(watching) {
            self.fail(error.to_string());
        }
    }

    /// Frames drawn while nothing went on, once that is known.
    pub(super) fn rested(&self) -> Option<usize> {
        let over = self.rest.phase.load(Ordering::SeqCst) == 2;
        over.then(|| self.rest.frames.load(Ordering::SeqCst))
    }
}

impl eframe::App for Driver {
    fn raw_input_hook(&mut self, _ctx: &egui::Context, input: &mut egui::RawInput) {
        self.now = Instant::now();
        self.frame += 1;
        self.frames.begin(self.stage.counts_frames());
        if self.rest.phase.load(Ordering::SeqCst) == 1 {
            self.rest.frames.fetch_add(1, Ordering::SeqCst);
        }
        input.events.retain(|event| !is_real_pointer(event));
        input.events.append(&mut self.events);
    }

    fn logic(&mut self, ctx: &egui::Context, frame: &mut eframe::Frame) {
        self.app.logic(ctx, frame);
        if self.stage_began.elapsed() > PATIENCE && self.stage != Stage::Over {
            let why = format!("{} took more than {} s", self.stage.name(), PATIENCE.as_secs());
            self.fail(why);
        }
        self.step(ctx);
        if !self.waits() {
            ctx.request_repaint();
        }
    }

    fn ui(&mut self, ui: &mut egui::Ui, frame: &mut eframe::Frame) {
        self.app.ui(ui, frame);
    }
}
