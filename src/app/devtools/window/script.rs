//! The script that drives the window, one stage after the other.

use std::time::Instant;

use eframe::egui;
use egui::{Event, Pos2};

use super::driver::Driver;
use super::metrics::{load_average, ms};
use crate::app::devtools::{all_explained, gallery_scroll, is_idle};
use crate::app::jobs::ImageId;
use crate::app::process_memory;
use crate::app::state::ColumnState;
use crate::app::state::command::Command;
use crate::app::window::panels::COMPARE;
use crate::model::explain::intervention::Intervention;

/// Images that are selected.
const IMAGES: usize = 12;
const SIDE_BY_SIDE: usize = 8;
/// Frames in which the pointer moves over the columns.
const HOVERED: usize = 200;
/// Frames in which the gallery is scrolled.
const SCROLLED: usize = 200;

/// A stage of the script; it ends when what its [`name`](Stage::name) says is there or over.
#[derive(Clone, Copy, PartialEq)]
pub enum Stage {
    First,
    Demo,
    /// Selects images for the first time, so that their tokens are cached.
    Warm,
    /// Selects them again, and times it.
    Select,
    Columns,
    Hover,
    Fill,
    Scroll,
    Idle,
    Over,
}

#[derive(Default)]
pub struct Selecting {
    /// Images that are still to be selected.
    left: Vec<ImageId>,
    /// When the image that is waited for was selected.
    pub(super) since: Option<Instant>,
    /// Milliseconds until the others were explained, and until they were drawn.
    taken: [Vec<f64>; 2],
}

impl Stage {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::First => "the first frame",
            Self::Demo => "the demo",
            Self::Warm => "looking at images",
            Self::Select => "selecting images",
            Self::Columns => "probes side by side",
            Self::Hover => "pointing",
            Self::Fill => "filling the library",
            Self::Scroll => "scrolling",
            Self::Idle => "resting",
            Self::Over => "closing",
        }
    }

    /// Whether its frames are measured.
    pub(super) fn counts_frames(self) -> bool {
        matches!(self, Self::Select | Self::Hover | Self::Scroll)
    }
}

impl Driver {
    /// Advances the script by one frame.
    pub(super) fn step(&mut self, ctx: &egui::Context) {
        let state = &self.app.state;
        if let Some(ColumnState::Failed(error)) =
            state.columns.values().map(|c| &c.shown).find(|s| matches!(s, ColumnState::Failed(_)))
        {
            let why = error.to_string();
            return self.fail(why);
        }
        let ready = all_explained(state) && is_idle(state);
        match self.stage {
            Stage::First => {
                if self.drawn(true) {
                    self.record("first_frame_ms", ms(self.now - self.begun));
                    self.go_to(Stage::Demo);
                }
            }
            Stage::Demo => {
                if state.library.probes.is_empty() {
                    return self.fail("the bundled demo was not found".to_owned());
                }
                if self.drawn(all_explained(&self.app.state)) {
                    self.record("demo_shown_ms", ms(self.now - self.begun));
                    self.selecting.left = self.images();
                    self.go_to(Stage::Warm);
                }
            }
            Stage::Warm if !ready => {}
            Stage::Warm => match self.selecting.left.pop() {
                Some(image) => self.app.dispatch(Command::SelectImage(image)),
                None => {
                    self.selecting.left = self.images();
                    self.begin_frames(Stage::Select);
                }
            },
            Stage::Select => self.select(),
            Stage::Columns => {
                if self.drawn(ready) {
                    self.begin_frames(Stage::Hover);
                }
            }
            Stage::Hover => self.hover(ctx),
            Stage::Fill => {
                let there = state.library.images.len() >= self.synthetic.images && is_idle(state);
                if self.drawn(there) {
                    self.begin_frames(Stage::Scroll);
                }
            }
            Stage::Scroll => self.scroll(ctx),
            Stage::Idle => {
                if let Some(frames) = self.idle_frames() {
                    self.record("idle_repaints", frames as f64);
                    self.record_memory("peak_memory_mb", process_memory::peak());
                    if let Some(load) = load_average() {
                        self.record("load", load);
                    }
                    self.go_to(Stage::Over);
                }
            }
            Stage::Over => ctx.send_viewport_cmd(egui::ViewportCommand::Close),
        }
    }

    fn images(&self) -> Vec<ImageId> {
        self.app.state.library.images.keys().copied().take(IMAGES).collect()
    }

    /// Enters a stage whose frames are measured, and forgets the frames before it.
    fn begin_frames(&mut self, stage: Stage) {
        self.frames.take([]);
        self.go_to(stage);
    }

    fn select(&mut self) {
        let known = all_explained(&self.app.state);
        if let Some(since) = self.selecting.since {
            let [found, drawn] = &mut self.selecting.taken;
            if known && found.len() == drawn.len() {
                found.push(ms(since.elapsed()));
            }
            if !self.drawn(known) {
                return;
            }
            self.selecting.taken[1].push(ms(self.now - since));
            self.selecting.since = None;
        }
        if let Some(image) = self.selecting.left.pop() {
            let asked = Instant::now();
            self.app.dispatch(Command::SelectImage(image));
            // An answer that came at once is in the frame drawn next.
            let known = all_explained(&self.app.state);
            if known {
                self.selecting.taken[0].push(ms(asked.elapsed()));
            }
            self.selecting.since = Some(asked);
            self.go_to(Stage::Select);
            self.drawn(known);
            return;
        }
        let mut taken = std::mem::take(&mut self.selecting.taken);
        taken.iter_mut().for_each(|times| times.sort_by(f64::total_cmp));
        let median = |times: &[f64]| times.get(times.len() / 2).copied().unwrap_or(f64::NAN);
        let [known, drawn] = taken;
        self.record("select_known_ms", median(&known));
        self.record("select_ms", median(&drawn));
        self.record("select_ms_max", drawn.last().copied().unwrap_or(f64::NAN));
        let [frame] = self.frames.take([1.0]);
        self.record("select_frame_ms_max", frame);
        self.add_columns();
        self.go_to(Stage::Columns);
    }

    /// Fills the columns up to [`SIDE_BY_SIDE`], with routed probes first.
    fn add_columns(&mut self) {
        let state = &self.app.state;
        let mut probes: Vec<_> = state
            .library
            .probes
            .iter()
            .filter(|(id, _)| state.columns.values().all(|column| column.probe != **id))
            .filter_map(|(id, probe)| Some((!probe.status.ready()?.routed, *id)))
            .collect();
        probes.sort();
        let missing = SIDE_BY_SIDE.saturating_sub(state.columns.len());
        for (_, probe) in probes.into_iter().take(missing) {
            self.app.dispatch(Command::AddColumn { probe, image: None, change: Intervention::None });
        }
        self.app.window.show(COMPARE);
    }

    /// Moves the pointer over the columns; enters the next stage after the last frame.
    fn hover(&mut self, ctx: &egui::Context) {
        let at = self.frames.taken.len();
        if at < HOVERED {
            let t = at as f32 / HOVERED as f32;
            let sway = (t * 23.0).sin();
            self.events.push(Event::PointerMoved(Pos2::new(340.0 + 1060.0 * t, 460.0 + 320.0 * sway)));
            return;
        }
        let [slow, median] = self.frames.take([0.99, 0.5]);
        self.record("frame_ms_p99", slow);
        self.record("frame_ms_p50", median);
        self.record("columns", self.app.state.columns.len() as f64);
        self.record_memory("memory_mb", process_memory::resident());
        if !self.synthetic.is_wanted() {
            return self.rest(ctx);
        }
        match self.synthetic.make() {
            Ok((folder, commands)) => {
                self.folder = Some(folder);
                commands.into_iter().for_each(|command| self.app.dispatch(command));
                self.go_to(Stage::Fill);
            }
            Err(error) => self.fail(format!("{error:#}")),
        }
    }

    fn scroll(&mut self, ctx: &egui::Context) {
        let at = self.frames.taken.len();
        if at < SCROLLED {
            self.events.extend(gallery_scroll(at));
            return;
        }
        let [slow, median] = self.frames.take([0.99, 0.5]);
        let library = &self.app.state.library;
        self.record("library_images", library.images.len() as f64);
        self.record("library_probes", library.probes.len() as f64);
        self.record("scroll_ms_p99", slow);
        self.record("scroll_ms_p50", median);
        self.record("thumbnails_held", self.app.state.thumbnails.count() as f64);
        self.record_memory("library_memory_mb", process_memory::resident());
        self.rest(ctx);
    }

    fn record_memory(&self, name: &'static str, bytes: Option<u64>) {
        if let Some(bytes) = bytes {
            self.record(name, bytes as f64 / 1e6);
        }
    }

    /// Takes the pointer off the window and watches it idle.
    fn rest(&mut self, ctx: &egui::Context) {
        self.events.push(Event::PointerGone);
        self.go_to(Stage::Idle);
        ctx.request_repaint();
        self.watch(ctx);
    }
}
