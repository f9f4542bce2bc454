//! `ssmprobe bench`: how fast this program is on this machine.

pub(super) mod demo;
mod machine;
pub mod microbench;
#[cfg(unix)]
mod remote;
mod soak;
mod table;
mod window;

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context as _;
use clap::{Args, Subcommand};
use eframe::egui;

use crate::app::worker::{Worker, WorkerEnv};
use crate::app::{App, demo as bundled};

/// Measure how fast this machine is: heads, look-ups, backbones, the window.
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

/// The window on the bundled demo, on a worker of its own, with nobody's settings: the same measurement for all.
fn demo_window(ctx: &egui::Context) -> anyhow::Result<App> {
    let wake = ctx.clone();
    let worker = Worker::start(WorkerEnv::default(), Arc::new(move || wake.request_repaint()))
        .context("cannot start the threads that compute")?;
    let mut app = App::new(ctx, Box::new(worker), None);
    bundled::opening().into_iter().for_each(|command| app.dispatch(command));
    Ok(app)
}

/// The wheel turned by so many lines.
fn wheel(lines: f32) -> egui::Event {
    egui::Event::MouseWheel {
        unit: egui::MouseWheelUnit::Line,
        delta: egui::vec2(0.0, lines),
        phase: egui::TouchPhase::Move,
        source: egui::MouseWheelSource::Wheel,
        modifiers: egui::Modifiers::NONE,
    }
}

/// The `at`th frame of turning the wheel over the gallery, with a longer throw now and then.
fn gallery_scroll(at: usize) -> [egui::Event; 2] {
    const GALLERY: egui::Pos2 = egui::Pos2::new(150.0, 780.0); // of a window of 1440 x 900 points
    let lines = if at % 50 == 49 { -400.0 } else { -3.0 };
    [egui::Event::PointerMoved(GALLERY), wheel(lines)]
}

/// Whether an event comes from the pointer of the real screen, which would disturb one that is driven.
fn is_real_pointer(event: &egui::Event) -> bool {
    matches!(event, egui::Event::PointerMoved(_) | egui::Event::PointerGone)
}

impl Bench {
    /// Measures and prints what came out.
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
