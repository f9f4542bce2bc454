//! A headless window over a worker behind the relay, driven frame by frame as a person would use it.

use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use tempfile::TempDir;

use super::tally::{self, CountingLink, Message, Phases};
use crate::app::demo;
use crate::app::devtools::prelude::*;
use crate::app::devtools::window::load::SyntheticLibrary;
use crate::app::devtools::window::metrics::{Frames, ms};
use crate::app::devtools::{all_explained, draw_off_screen, gallery_scroll, is_idle};
use crate::app::format::shell_path;
use crate::app::jobs::ImageId;
use crate::app::paths::program;
use crate::app::remote::Link;
use crate::app::state::State;
use crate::app::state::command::Command;
use crate::app::state::connection::Host;

/// Frames in which the gallery is scrolled, and the time of each: sixty a second.
const SCROLLED: usize = 600;
const FRAME: Duration = Duration::from_micros(16_667);
/// Timeout of one step: longer than any takes, even on a busy machine.
const TIMEOUT: Duration = Duration::from_mins(5);
/// Longest wait for a wake-up before the next frame is drawn.
const MAX_WAIT: Duration = Duration::from_millis(50);
/// All thumbnails have arrived if none has for this long.
const QUIET: Duration = Duration::from_secs(2);

/// A headless window, and the thread that counts its messages.
pub struct RelayedWindow {
    app: App,
    ctx: egui::Context,
    begun: Instant,
    woken: Receiver<()>,
    /// When egui wants the next frame, counted from the last.
    repaint_delay: Duration,
    messages: SyncSender<Message>,
    counting: JoinHandle<Phases>,
    folders: Vec<TempDir>,
}

impl RelayedWindow {
    /// Opens the bundled demo over a relay with `delay` milliseconds each way, and waits until it is shown.
    pub fn open(delay: u64) -> anyhow::Result<Self> {
        let folder = temporary::folder().context("cannot create a folder for the relay")?;
        let program = relay(folder.path(), delay)?;
        let (wake, woken) = sync_channel(1);
        let waker = Arc::new(move || {
            let _ = wake.try_send(()); // one pending wake-up is enough
        });
        let host = Host { place: "local".to_owned(), program: Some(program) };
        let link = Link::start(host, waker).map_err(anyhow::Error::msg)?;
        let (messages, counting) = tally::start()?;
        let ctx = egui::Context::default();
        let app = App::new(&ctx, Box::new(CountingLink { link, messages: messages.clone() }), None);
        let (begun, repaint_delay, folders) = (Instant::now(), Duration::ZERO, vec![folder]);
        let mut window = Self { app, ctx, begun, woken, repaint_delay, messages, counting, folders };
        window.draw(Vec::new());
        demo::opening().into_iter().for_each(|command| window.app.dispatch(command));
        if window.app.state.jobs.is_empty() {
            bail!("the bundled demo was not found");
        }
        window.until("the demo", |state| all_explained(state) && is_idle(state))?;
        Ok(window)
    }

    /// Adds images until the library holds `images`.
    pub fn fill(&mut self, images: usize) -> anyhow::Result<()> {
        let missing = images.saturating_sub(self.app.state.library.images.len());
        let (folder, commands) = SyntheticLibrary { images: missing, probes: 0 }.make()?;
        self.folders.push(folder);
        commands.into_iter().for_each(|command| self.app.dispatch(command));
        self.until("the library", move |state| state.library.images.len() >= images && is_idle(state))
    }

    /// Selects `looks` images for the first time, then the same again: milliseconds until each is shown.
    pub fn look(&mut self, looks: usize) -> anyhow::Result<[Vec<f64>; 2]> {
        let all: Vec<ImageId> = self.app.state.library.images.keys().copied().collect();
        // Never the first image: it is shown already.
        let images: Vec<ImageId> = (1..=looks).map(|at| all[at * (all.len() - 1) / looks]).collect();
        let mut taken = [Vec::new(), Vec::new()];
        for (taken, name) in taken.iter_mut().zip(["first look", "second look"]) {
            self.phase(name, images.len());
            for image in &images {
                let begun = Instant::now();
                self.app.dispatch(Command::SelectImage(*image));
                self.until("a look", all_explained)?;
                taken.push(ms(begun.elapsed()));
                self.until("the end of a look", is_idle)?;
            }
        }
        Ok(taken)
    }

    /// Scrolls the gallery: processor time of each frame on this thread, and the time from
    /// the last frame to the last thumbnail, in milliseconds.
    pub fn scroll(&mut self) -> anyhow::Result<(Vec<f64>, f64)> {
        // From the top of the images that were added: the gallery shows those of one dataset, or of none.
        let mut images = self.app.state.library.images.iter();
        let first = images.find(|(_, image)| image.label.is_none()).map(|(id, _)| *id);
        let first = first.context("there are only the demo's images: request more with --images")?;
        self.app.dispatch(Command::SelectImage(first));
        self.until("a look", all_explained)?;
        self.phase("scrolling, a frame", SCROLLED);
        let before = self.thumbnails();
        let mut frames = Frames::default();
        let begun = Instant::now();
        for at in 0..SCROLLED {
            frames.begin(at > 0);
            self.draw(gallery_scroll(at).into());
            std::thread::sleep((FRAME * (at as u32 + 1)).saturating_sub(begun.elapsed()));
        }
        frames.begin(true);
        let (end, mut last, mut known) = (Instant::now(), Instant::now(), self.thumbnails());
        while last.elapsed() < QUIET {
            self.wait();
            self.draw(Vec::new());
            if self.thumbnails() != known {
                (known, last) = (self.thumbnails(), Instant::now());
            }
        }
        if self.thumbnails() == before {
            bail!("no thumbnail arrived: the gallery was not scrolled");
        }
        Ok((frames.taken, ms(last - end)))
    }

    /// Closes the window; returns the pipe's traffic by phase.
    pub fn close(self) -> Phases {
        let Self { app, messages, counting, .. } = self;
        drop((app, messages));
        counting.join().unwrap_or_default()
    }

    /// Images whose thumbnail has arrived.
    fn thumbnails(&self) -> Vec<ImageId> {
        let state = &self.app.state;
        let known = |image: &&ImageId| state.thumbnails.get(**image).is_some();
        state.library.images.keys().filter(known).copied().collect()
    }

    fn phase(&self, name: &'static str, times: usize) {
        let _ = self.messages.send(Message::Phase(name, times)); // fails once counting has: its table is empty then
    }

    /// Draws frames until `condition` holds, and one more; an error if a job fails, or after [`TIMEOUT`].
    fn until(&mut self, what: &str, condition: impl Fn(&State) -> bool) -> anyhow::Result<()> {
        let begun = Instant::now();
        loop {
            self.draw(Vec::new());
            let failed = self.app.state.jobs.values().find_map(|job| job.error.as_ref());
            if let Some(error) = failed {
                bail!("{what}: {error}");
            }
            if condition(&self.app.state) {
                self.draw(Vec::new());
                return Ok(());
            }
            if begun.elapsed() > TIMEOUT {
                bail!("{what} took more than {} s", TIMEOUT.as_secs());
            }
            self.wait();
        }
    }

    /// Waits until the next frame is due.
    fn wait(&self) {
        let _ = self.woken.recv_timeout(self.repaint_delay.min(MAX_WAIT)); // woken or timed out: a frame is drawn
    }

    fn draw(&mut self, events: Vec<egui::Event>) {
        self.repaint_delay = draw_off_screen(&self.ctx, &mut self.app, self.begun, events);
    }
}

/// Writes a script that runs this program behind the relay; its path.
fn relay(folder: &Path, delay: u64) -> anyhow::Result<String> {
    let program = shell_path(&program()?);
    let script = folder.join("relay");
    let text = format!("#!/bin/sh\nexec {program} bench relay --delay {delay} -- \"$@\"\n");
    atomic_file::write(&script, text.as_bytes())?;
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755))?;
    Ok(script.to_str().context("the path of temporary files is not valid Unicode")?.to_owned())
}
