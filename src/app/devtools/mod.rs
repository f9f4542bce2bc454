//! `ssmprobe bench`: how fast this program is on this machine.

pub(super) mod demo;
mod machine;
mod microbench;
#[cfg(unix)]
mod remote;
mod soak;
mod table;
mod window;

use std::sync::Arc;

use clap::Subcommand;

use self::prelude::*;
use crate::app::demo as bundled;
use crate::app::state::{ColumnState, State};
use crate::app::worker::{Worker, WorkerEnv};

/// What most benchmarks import.
mod prelude {
    pub(super) use std::path::{Path, PathBuf};
    pub(super) use std::process::ExitCode;
    pub(super) use std::time::{Duration, Instant};

    pub(super) use anyhow::{Context as _, bail};
    pub(super) use burn::tensor::Device;
    pub(super) use clap::Args;
    pub(super) use eframe::egui;

    pub(super) use crate::app::App;
    pub(super) use crate::app::jobs::user_error::refuse;
    pub(super) use crate::app::terminal::stdout;
    pub(super) use crate::app::value_parser::whole_number;
    pub(super) use crate::model::io::{atomic_file, temporary};
}

/// Benchmark this machine: heads, explanations, backbones, the window.
#[derive(Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Bench {
    #[command(subcommand)]
    what: Option<What>,
    #[command(flatten)]
    machine: machine::Machine,
}

/// What else is measured than the maths.
#[derive(Subcommand)]
enum What {
    Window(window::Window),
    Soak(soak::Soak),
    #[cfg(unix)]
    Remote(remote::Remote),
    #[cfg(unix)]
    #[command(hide = true)]
    Relay(remote::Relay),
}

/// Opens the window on the bundled demo, with its own worker and default settings, so that results compare; evaluations are always
/// computed, and none is stored among the user's.
fn demo_window(ctx: &egui::Context) -> anyhow::Result<App> {
    let wake = ctx.clone();
    let env = WorkerEnv { build: None, ..WorkerEnv::default() };
    let worker = Worker::start(env, Arc::new(move || wake.request_repaint()))
        .context("cannot start the worker threads")?;
    let mut app = App::new(ctx, Box::new(worker), None);
    bundled::opening().into_iter().for_each(|command| app.dispatch(command));
    Ok(app)
}

/// The event of a mouse wheel turned by `lines` lines.
fn wheel(lines: f32) -> egui::Event {
    egui::Event::MouseWheel {
        unit: egui::MouseWheelUnit::Line,
        delta: egui::vec2(0.0, lines),
        phase: egui::TouchPhase::Move,
        source: egui::MouseWheelSource::Wheel,
        modifiers: egui::Modifiers::NONE,
    }
}

/// Input of frame `at` of scrolling through the gallery: 3 lines a frame, and 400 every 50th frame.
fn gallery_scroll(at: usize) -> [egui::Event; 2] {
    const GALLERY: egui::Pos2 = egui::Pos2::new(150.0, 780.0); // of a window of 1440 x 900 points
    let lines = if at % 50 == 49 { -400.0 } else { -3.0 };
    [egui::Event::PointerMoved(GALLERY), wheel(lines)]
}

/// Whether there are columns and all of them show an explanation.
fn all_explained(state: &State) -> bool {
    !state.columns.is_empty()
        && state.columns.values().all(|column| matches!(column.shown, ColumnState::Ready(_)))
}

/// Whether no probe is being opened, and no job runs any more.
fn is_idle(state: &State) -> bool {
    !state.library.probes.values().any(|probe| probe.status.is_opening())
        && state.jobs.values().all(|job| job.error.is_some())
}

/// Lays out and tessellates a frame of a window without a screen; returns how soon it wants the next.
fn draw_off_screen(ctx: &egui::Context, app: &mut App, begun: Instant, events: Vec<egui::Event>) -> Duration {
    const SIZE: egui::Vec2 = egui::vec2(1440.0, 900.0);
    let input = egui::RawInput {
        screen_rect: Some(egui::Rect::from_min_size(egui::Pos2::ZERO, SIZE)),
        time: Some(begun.elapsed().as_secs_f64()),
        events,
        ..egui::RawInput::default()
    };
    let output = ctx.run_ui(input, |ui| {
        app.advance(ui.ctx());
        app.draw(ui);
    });
    drop(ctx.tessellate(output.shapes, output.pixels_per_point));
    output.viewport_output.values().map(|view| view.repaint_delay).min().unwrap_or(Duration::MAX)
}

/// Whether an event comes from the real pointer, which would disturb the simulated one.
fn is_real_pointer(event: &egui::Event) -> bool {
    matches!(event, egui::Event::PointerMoved(_) | egui::Event::PointerGone)
}

impl Bench {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        match self.what {
            Some(What::Window(verb)) => verb.run(),
            Some(What::Soak(verb)) => verb.run(),
            #[cfg(unix)]
            Some(What::Remote(verb)) => verb.run(),
            #[cfg(unix)]
            Some(What::Relay(verb)) => verb.run(),
            None => self.machine.run(),
        }
    }
}
