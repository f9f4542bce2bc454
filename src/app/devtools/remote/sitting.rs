//! The window without a screen, over a worker behind the relay: what a person does, frame by frame.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use eframe::{App as _, egui};
use egui::{Pos2, RawInput, Rect};
use tempfile::TempDir;

use super::tally::{self, Counted, Sizes, Weighed};
use crate::app::devtools::gallery_scroll;
use crate::app::devtools::window::load::SyntheticLibrary;
use crate::app::devtools::window::metrics::{Frames, ms};
use crate::app::jobs::ImageId;
use crate::app::remote::Link;
use crate::app::state::command::Command;
use crate::app::state::connection::Host;
use crate::app::state::{ColumnState, State, Status};
use crate::app::{App, demo};
use crate::model::io::atomic_file;

/// The window, in points.
const SIZE: [f32; 2] = [1440.0, 900.0];
/// Frames in which the gallery is scrolled, sixty a second.
const SCROLLED: usize = 600;
const FRAME: Duration = Duration::from_micros(16_667);
/// Longer than anything here takes, also on a busy machine.
const PATIENCE: Duration = Duration::from_mins(5);
/// A window that nobody wakes looks around this often.
const REST: Duration = Duration::from_millis(50);
/// Nothing more comes if nothing has come for so long.
const QUIET: Duration = Duration::from_secs(2);

/// A window and who weighs its messages.
pub struct Sitting {
    app: App,
    ctx: egui::Context,
    frame: eframe::Frame,
    begun: Instant,
    woken: Receiver<()>,
    /// How long the window would sleep.
    rests: Duration,
    scale: SyncSender<Weighed>,
    weighing: JoinHandle<Vec<(&'static str, usize, Sizes)>>,
    folders: Vec<TempDir>,
}

impl Sitting {
    /// On the demo, connected.
    pub fn open(delay: u64) -> anyhow::Result<Self> {
        let folder = tempfile::tempdir().context("cannot make a folder for the relay")?;
        let program = relay(folder.path(), delay)?;
        let (wake, woken) = sync_channel(1);
        let waker = Arc::new(move || {
            let _ = wake.try_send(()); // one is enough
        });
        let host = Host { place: "local".to_owned(), program: Some(program) };
        let link = Link::start(host, waker).map_err(anyhow::Error::msg)?;
        let (scale, weighing) = tally::start()?;
        let ctx = egui::Context::default();
        let app = App::new(&ctx, Box::new(Counted { link, scale: scale.clone() }), None);
        let (frame, begun, rests) = (eframe::Frame::_new_kittest(), Instant::now(), Duration::ZERO);
        let mut sitting =
            Self { app, ctx, frame, begun, woken, rests, scale, weighing, folders: vec![folder] };
        sitting.draw(Vec::new());
        demo::opening().into_iter().for_each(|command| sitting.app.dispatch(command));
        if sitting.app.state.jobs.is_empty() {
            bail!("the bundled demo is not there");
        }
        sitting.until("the demo", |state| shown(state) && quiet(state))?;
        Ok(sitting)
    }

    /// Adds images, until there are so many.
    pub fn fill(&mut self, images: usize) -> anyhow::Result<()> {
        let missing = images.saturating_sub(self.app.state.library.images.len());
        let (folder, commands) = SyntheticLibrary { images: missing, probes: 0 }.make()?;
        self.folders.push(folder);
        commands.into_iter().for_each(|command| self.app.dispatch(command));
        self.until("the library", move |state| state.library.images.len() >= images && quiet(state))
    }

    /// Looks at images for the first time, then at the same again: milliseconds of each.
    pub fn look(&mut self, looks: usize) -> anyhow::Result<[Vec<f64>; 2]> {
        let all: Vec<ImageId> = self.app.state.library.images.keys().copied().collect();
        // The one that is shown now is known.
        let images: Vec<ImageId> = (1..=looks).map(|at| all[at * (all.len() - 1) / looks]).collect();
        let mut taken = [Vec::new(), Vec::new()];
        for (taken, name) in taken.iter_mut().zip(["first look", "second look"]) {
            self.phase(name, images.len());
            for image in &images {
                let begun = Instant::now();
                self.app.dispatch(Command::SelectImage(*image));
                self.until("a look", shown)?;
                taken.push(ms(begun.elapsed()));
                self.until("the end of a look", quiet)?;
            }
        }
        Ok(taken)
    }

    /// Scrolls the gallery: what each frame takes of this thread, and how
    /// long after the last one thumbnails still come, in milliseconds.
    pub fn scroll(&mut self) -> anyhow::Result<(Vec<f64>, f64)> {
        // From the top of the images that were added: the gallery shows those of one dataset, or of none.
        let mut images = self.app.state.library.images.iter();
        let first = images.find(|(_, image)| image.label.is_none()).map(|(id, _)| *id);
        let first = first.context("only the demo's images are there: ask for more by --images")?;
        self.app.dispatch(Command::SelectImage(first));
        self.until("a look", shown)?;
        self.phase("scrolling, a frame", SCROLLED);
        let before = self.pictures();
        let mut frames = Frames::default();
        let begun = Instant::now();
        for at in 0..SCROLLED {
            frames.begin(at > 0);
            self.draw(gallery_scroll(at).into());
            std::thread::sleep((FRAME * (at as u32 + 1)).saturating_sub(begun.elapsed()));
        }
        frames.begin(true);
        let (end, mut last, mut known) = (Instant::now(), Instant::now(), self.pictures());
        while last.elapsed() < QUIET {
            self.wait();
            self.draw(Vec::new());
            if self.pictures() != known {
                (known, last) = (self.pictures(), Instant::now());
            }
        }
        if self.pictures() == before {
            bail!("no thumbnail has come: the gallery was not scrolled");
        }
        Ok((frames.all(), ms(last - end)))
    }

    /// Closes the window; what went through the pipe.
    pub fn close(self) -> Vec<(&'static str, usize, Sizes)> {
        let Self { app, scale, weighing, .. } = self;
        drop((app, scale));
        weighing.join().unwrap_or_default()
    }

    /// Thumbnails that came so far, by the latest of them.
    fn pictures(&self) -> Vec<ImageId> {
        let state = &self.app.state;
        let known = |image: &&ImageId| state.thumbnails.get(**image).is_some();
        state.library.images.keys().filter(known).copied().collect()
    }

    fn phase(&self, name: &'static str, times: usize) {
        let _ = self.scale.send(Weighed::Phase(name, times)); // who weighs has failed: its table is empty
    }

    /// Draws frames until it is so, and has been drawn.
    fn until(&mut self, what: &str, so: impl Fn(&State) -> bool) -> anyhow::Result<()> {
        let begun = Instant::now();
        loop {
            self.draw(Vec::new());
            if so(&self.app.state) {
                self.draw(Vec::new());
                return Ok(());
            }
            let failed = self.app.state.jobs.values().find_map(|job| job.error.as_ref());
            if let Some(error) = failed {
                bail!("{what}: {error}");
            }
            if begun.elapsed() > PATIENCE {
                bail!("{what} took more than {} s", PATIENCE.as_secs());
            }
            self.wait();
        }
    }

    /// Until the window wants to be drawn.
    fn wait(&self) {
        let _ = self.woken.recv_timeout(self.rests.min(REST)); // woken or not, it looks around
    }

    fn draw(&mut self, events: Vec<egui::Event>) {
        let screen_rect = Some(Rect::from_min_size(Pos2::ZERO, SIZE.into()));
        let time = Some(self.begun.elapsed().as_secs_f64());
        let input = RawInput { screen_rect, time, events, ..RawInput::default() };
        let (app, frame) = (&mut self.app, &mut self.frame);
        let output = self.ctx.run_ui(input, |ui| {
            let ctx = ui.ctx().clone();
            app.logic(&ctx, frame);
            app.ui(ui, frame);
        });
        let _ = self.ctx.tessellate(output.shapes, output.pixels_per_point);
        self.rests = output.viewport_output.values().map(|view| view.repaint_delay).min().unwrap_or(REST);
    }
}

/// A program that is the relay before this one.
fn relay(folder: &Path, delay: u64) -> anyhow::Result<String> {
    let program = std::env::current_exe().context("this program does not know where it lies")?;
    let program = program.to_str().context("this program lies where no text leads")?.replace('\'', r"'\''");
    let script = folder.join("relay");
    let text = format!("#!/bin/sh\nexec '{program}' bench relay --delay {delay} -- \"$@\"\n");
    atomic_file::write(&script, text.as_bytes())?;
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755))?;
    Ok(script.to_str().context("temporary files lie where no text leads")?.to_owned())
}

fn shown(state: &State) -> bool {
    !state.columns.is_empty()
        && state.columns.values().all(|column| matches!(column.shown, ColumnState::Ready(_)))
}

/// Whether nothing is being opened or listed any more.
fn quiet(state: &State) -> bool {
    let opening = |status: &Status<_>| matches!(status, Status::Opening(_));
    !state.library.probes.values().any(|probe| opening(&probe.status)) && state.jobs.is_empty()
}
