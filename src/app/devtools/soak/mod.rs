//! `ssmprobe bench soak`: hours of a person at the window in fewer, to see whether memory, open files or
//! the time of a frame grow.
//!
//! The window is the real one, on a worker of its own, with the bundled demo. Without a screen everything
//! runs but the painting of what was laid out.

mod visitor;
mod watch;

use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use clap::Args;
use eframe::egui;

use self::visitor::Visitor;
use self::watch::{Verdict, Watch};
use super::{demo_window, is_real_pointer};
use crate::app::terminal::stdout;
use crate::app::value_parser::whole_number;
use crate::app::window::native;
use crate::app::{App, demo};

/// Frames come no faster: the window of somebody who works is seldom busier, and the hour leaves the
/// machine to others.
const FRAME: Duration = Duration::from_millis(40);
/// The window without a screen, in points.
const SIZE: egui::Vec2 = egui::vec2(1440.0, 900.0);
/// How long the demo may take to open.
const PATIENCE: Duration = Duration::from_mins(2);

/// Works in the window for an hour, and says whether memory, open files or frame times grew.
#[derive(Args)]
pub struct Soak {
    /// How long
    #[arg(long, value_name = "N", default_value_t = 3600, value_parser = whole_number(10_u64..))]
    seconds: u64,
    /// Which of many random ways through the window
    #[arg(long, value_name = "SEED", default_value_t = 0)]
    seed: u64,
    /// Without a screen: everything but the painting
    #[arg(long)]
    headless: bool,
}

impl Soak {
    /// Returns once the time is over; a failure where something grew, or went wrong.
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let told = Arc::new(Mutex::new(None));
        match self.headless {
            true => self.without_screen(told.clone())?,
            false => {
                let told = told.clone();
                native::open(move |ctx| self.build(ctx, told))?;
            }
        }
        let verdict = told.lock().unwrap_or_else(PoisonError::into_inner).take();
        let verdict = verdict.context("the window was closed before its time was over")??;
        stdout::text(format_args!("{}\n", serde_json::to_string_pretty(&verdict)?))?;
        Ok(if verdict.kept { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    fn build(&self, ctx: &egui::Context, told: SharedVerdict) -> anyhow::Result<Soaking> {
        let app = demo_window(ctx)?;
        if app.state.library.probes.is_empty() {
            bail!("the bundled demo is not there: set {} to the folder `assets`", demo::ASSETS_VARIABLE);
        }
        let watch = Watch::new(Duration::from_secs(self.seconds))?;
        Ok(Soaking {
            app,
            visitor: Visitor::new(self.seed)?,
            watch,
            begun: Instant::now(),
            told,
            over: false,
        })
    }

    fn without_screen(&self, told: SharedVerdict) -> anyhow::Result<()> {
        let ctx = egui::Context::default();
        let mut soaking = self.build(&ctx, told)?;
        while !soaking.over {
            let frame = Instant::now();
            let mut input = egui::RawInput {
                screen_rect: Some(egui::Rect::from_min_size(egui::Pos2::ZERO, SIZE)),
                time: Some(soaking.begun.elapsed().as_secs_f64()),
                ..egui::RawInput::default()
            };
            soaking.begin(&mut input);
            let output = ctx.run_ui(input, |ui| {
                soaking.app.advance(ui.ctx());
                soaking.app.draw(ui);
            });
            soaking.go_on(&ctx);
            drop(ctx.tessellate(output.shapes, output.pixels_per_point));
            std::thread::sleep(FRAME.saturating_sub(frame.elapsed()));
        }
        Ok(())
    }
}

/// Where the end of it is told: a verdict, or why there is none.
type SharedVerdict = Arc<Mutex<Option<anyhow::Result<Verdict>>>>;

/// The window, somebody who works in it, and somebody who watches.
struct Soaking {
    app: App,
    visitor: Visitor,
    watch: Watch,
    begun: Instant,
    told: SharedVerdict,
    over: bool,
}

impl Soaking {
    /// A frame begins: what the pointer does goes in.
    fn begin(&mut self, input: &mut egui::RawInput) {
        self.watch.frame();
        input.events.extend(self.visitor.point());
    }

    fn go_on(&mut self, ctx: &egui::Context) {
        if self.over {
            return;
        }
        let seen = match Visitor::idle(&self.app) && self.begun.elapsed() > PATIENCE {
            true => Err(anyhow::anyhow!("the demo did not open within {} s", PATIENCE.as_secs())),
            false => self.visitor.act(&mut self.app),
        };
        let seen = seen.and_then(|()| self.watch.look(&self.visitor.done(&self.app)));
        let end = match seen {
            Ok(None) => {
                ctx.request_repaint_after(FRAME);
                return;
            }
            Ok(Some(verdict)) => Ok(verdict),
            Err(error) => Err(error),
        };
        self.over = true;
        *self.told.lock().unwrap_or_else(PoisonError::into_inner) = Some(end);
        ctx.send_viewport_cmd(egui::ViewportCommand::Close);
    }
}

impl eframe::App for Soaking {
    fn raw_input_hook(&mut self, _ctx: &egui::Context, input: &mut egui::RawInput) {
        input.events.retain(|event| !is_real_pointer(event));
        self.begin(input);
    }

    fn logic(&mut self, ctx: &egui::Context, frame: &mut eframe::Frame) {
        self.app.logic(ctx, frame);
        self.go_on(ctx);
    }

    fn ui(&mut self, ui: &mut egui::Ui, frame: &mut eframe::Frame) {
        self.app.ui(ui, frame);
    }
}
