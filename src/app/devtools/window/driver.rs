//! Wraps the window for the script: feeds it the simulated pointer's events, and times its frames.

use std::cell::RefCell;
use std::rc::Rc;
use std::thread::Builder;
use std::time::{Duration, Instant};

use eframe::egui;
use tempfile::TempDir;

use super::load::SyntheticLibrary;
use super::metrics::{Frames, Sheet};
use super::script::{Selecting, Stage};
use crate::app::App;
use crate::app::devtools::is_real_pointer;

/// Timeout of a stage: longer than any takes, even on a busy machine.
const TIMEOUT: Duration = Duration::from_mins(10);
/// How long the window may take to come to rest.
const SETTLE: Duration = Duration::from_secs(2);
/// How long the frames of the resting window are counted then.
const IDLE_TIME: Duration = Duration::from_secs(3);

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
    /// When this frame began, which is when the one before had been handed to the screen.
    pub(super) now: Instant,
    frame: usize,
    /// The first frame that drew what is waited for.
    drawn: Option<usize>,
    stage_began: Instant,
    /// When the window was left alone, and how many frames it drew of itself once it had come to rest.
    left_alone: Option<Instant>,
    idle_frames: usize,
    sheet: Rc<RefCell<Sheet>>,
}

impl Driver {
    pub(super) fn new(
        app: App,
        begun: Instant,
        synthetic: SyntheticLibrary,
        sheet: Rc<RefCell<Sheet>>,
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
            left_alone: None,
            idle_frames: 0,
            sheet,
        }
    }

    pub(super) fn record(&self, name: &'static str, value: f64) {
        self.sheet.borrow_mut().record(name, value);
    }

    /// Whether a frame that was drawn while `there` held has been handed to the screen.
    pub(super) fn drawn(&mut self, there: bool) -> bool {
        self.drawn = if there { self.drawn.or(Some(self.frame)) } else { None };
        self.drawn.is_some_and(|drawn| self.frame > drawn)
    }

    pub(super) fn go_to(&mut self, stage: Stage) {
        (self.stage, self.drawn, self.stage_began) = (stage, None, self.now);
    }

    pub(super) fn fail(&mut self, why: String) {
        self.sheet.borrow_mut().failed = Some(why);
        self.go_to(Stage::Over);
    }

    /// Whether frames are left to the window's own requests for a repaint.
    fn is_passive(&self) -> bool {
        // As after a person's click: frames that the script forces would delay the answer.
        let clicked = self.stage == Stage::Select && self.selecting.since.is_some() && self.drawn.is_none();
        clicked || self.stage == Stage::Idle
    }

    /// Leaves the window alone, and starts a thread that wakes it afterwards: a timer of the window would itself draw frames.
    pub(super) fn watch(&mut self, ctx: &egui::Context) {
        self.left_alone = Some(Instant::now());
        let ctx = ctx.clone();
        let timer = move || {
            std::thread::sleep(SETTLE + IDLE_TIME);
            ctx.request_repaint();
        };
        if let Err(error) = Builder::new().name("watch".into()).spawn(timer) {
            self.fail(error.to_string());
        }
    }

    /// Frames drawn at rest, once they have been counted.
    pub(super) fn idle_frames(&self) -> Option<usize> {
        let is_over = self.left_alone?.elapsed() >= SETTLE + IDLE_TIME;
        is_over.then_some(self.idle_frames)
    }
}

impl eframe::App for Driver {
    fn raw_input_hook(&mut self, _ctx: &egui::Context, input: &mut egui::RawInput) {
        self.now = Instant::now();
        self.frame += 1;
        self.frames.begin(self.stage.counts_frames());
        let is_counted = |alone: Instant| (SETTLE..SETTLE + IDLE_TIME).contains(&alone.elapsed());
        self.idle_frames += usize::from(self.left_alone.is_some_and(is_counted));
        input.events.retain(|event| !is_real_pointer(event));
        input.events.append(&mut self.events);
    }

    fn logic(&mut self, ctx: &egui::Context, frame: &mut eframe::Frame) {
        self.app.logic(ctx, frame);
        if self.stage_began.elapsed() > TIMEOUT && self.stage != Stage::Over {
            let why = format!("{} took more than {} s", self.stage.name(), TIMEOUT.as_secs());
            self.fail(why);
        }
        self.step(ctx);
        if !self.is_passive() {
            ctx.request_repaint();
        }
    }

    fn ui(&mut self, ui: &mut egui::Ui, frame: &mut eframe::Frame) {
        self.app.ui(ui, frame);
    }
}
