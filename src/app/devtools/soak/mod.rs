//! `ssmprobe bench soak`: a simulated person works in the window, faster than a real one, to see whether
//! memory, open files or frame times grow.
//!
//! The window is the real one, on a worker of its own, with the bundled demo. Without a screen everything
//! runs but the painting.

mod visitor;
mod watch;

use std::cell::Cell;
use std::rc::Rc;

use self::visitor::Visitor;
use self::watch::{Verdict, Watch};
use super::{demo_window, draw_off_screen, is_real_pointer};
use crate::app::demo;
use crate::app::devtools::prelude::*;
use crate::app::state::settings::WindowSize;
use crate::app::window::native;

/// Shortest time between frames: a real window is seldom busier, and the machine stays usable for others.
const FRAME: Duration = Duration::from_millis(40);
/// How long the demo may take to open.
const TIMEOUT: Duration = Duration::from_mins(2);

/// Use the window for an hour, and report whether memory, open files or frame times grew.
#[derive(Args)]
pub struct Soak {
    /// How long to run
    #[arg(long, value_name = "N", default_value_t = 3600, value_parser = whole_number(10_u64..))]
    seconds: u64,
    /// Seed of the random actions in the window
    #[arg(long, value_name = "SEED", default_value_t = 0, value_parser = whole_number(0_u64..))]
    seed: u64,
    /// Run without a screen: everything except painting
    #[arg(long)]
    headless: bool,
}

impl Soak {
    /// Returns once the time is over; a failure exit code if something grew or went wrong.
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let outcome = SharedVerdict::default();
        let shared = outcome.clone();
        match self.headless {
            true => self.without_screen(shared)?,
            false => native::open(WindowSize::default(), move |ctx| self.build(ctx, shared))?,
        }
        let verdict = outcome.take().context("the window was closed before the time was up")??;
        stdout::json(&verdict)?;
        Ok(if verdict.kept { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    fn build(&self, ctx: &egui::Context, outcome: SharedVerdict) -> anyhow::Result<SoakRun> {
        let app = demo_window(ctx)?;
        if app.state.library.probes.is_empty() {
            bail!("the bundled demo was not found: set {} to the folder `assets`", demo::ASSETS_VARIABLE);
        }
        let watch = Watch::new(Duration::from_secs(self.seconds))?;
        let visitor = Visitor::new(self.seed)?;
        Ok(SoakRun { app, visitor, watch, begun: Instant::now(), outcome, over: false })
    }

    fn without_screen(&self, outcome: SharedVerdict) -> anyhow::Result<()> {
        let ctx = egui::Context::default();
        let mut run = self.build(&ctx, outcome)?;
        while !run.over {
            let frame = Instant::now();
            let events = run.begin();
            draw_off_screen(&ctx, &mut run.app, run.begun, events);
            run.step(&ctx);
            std::thread::sleep(FRAME.saturating_sub(frame.elapsed()));
        }
        Ok(())
    }
}

/// Where the soak leaves its outcome: a verdict, or why there is none.
type SharedVerdict = Rc<Cell<Option<anyhow::Result<Verdict>>>>;

/// The window, the simulated person in it, and the watch over the process.
struct SoakRun {
    app: App,
    visitor: Visitor,
    watch: Watch,
    begun: Instant,
    outcome: SharedVerdict,
    over: bool,
}

impl SoakRun {
    /// Begins a frame: times it, and returns the simulated pointer's events.
    fn begin(&mut self) -> Vec<egui::Event> {
        self.watch.frame();
        self.visitor.point()
    }

    /// Lets the visitor act and the watch sample; at the end, stores the outcome and closes the window.
    fn step(&mut self, ctx: &egui::Context) {
        if self.over {
            return;
        }
        let acted = match Visitor::idle(&self.app) && self.begun.elapsed() > TIMEOUT {
            true => Err(anyhow::anyhow!("the demo did not open within {} s", TIMEOUT.as_secs())),
            false => self.visitor.act(&mut self.app),
        };
        let watched = acted.and_then(|()| self.watch.poll(&self.visitor.done(&self.app)));
        let outcome = watched.transpose();
        if outcome.is_none() {
            return ctx.request_repaint_after(FRAME);
        }
        self.over = true;
        self.outcome.set(outcome);
        ctx.send_viewport_cmd(egui::ViewportCommand::Close);
    }
}

impl eframe::App for SoakRun {
    fn raw_input_hook(&mut self, _ctx: &egui::Context, input: &mut egui::RawInput) {
        input.events.retain(|event| !is_real_pointer(event));
        input.events.extend(self.begin());
    }

    fn logic(&mut self, ctx: &egui::Context, frame: &mut eframe::Frame) {
        self.app.logic(ctx, frame);
        self.step(ctx);
    }

    fn ui(&mut self, ui: &mut egui::Ui, frame: &mut eframe::Frame) {
        self.app.ui(ui, frame);
    }
}
