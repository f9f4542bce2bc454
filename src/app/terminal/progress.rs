//! Progress on standard error: a bar on a terminal, a line now and then elsewhere.

use std::io::{IsTerminal, stderr};
use std::time::{Duration, Instant};

use indicatif::{HumanDuration, ProgressBar, ProgressStyle};

use super::stdout;
use crate::app::format;
use crate::app::jobs;
use crate::app::jobs::extract::{self, Line, Messages, Spent};
use crate::app::rate::Progress;
use crate::app::terminal::stdout::say;
use crate::model::io::escape::{shown, shown_line};
use crate::model::train::HeadTrainer;

/// How long nothing is said where there is no terminal.
const SILENCE: Duration = Duration::from_secs(15);
/// How long after one line the next may come.
const PAUSE: Duration = Duration::from_secs(2);

/// Shows how a job goes.
pub struct Display {
    bar: ProgressBar,
    terminal: bool,
    told: Instant,
    verifying: Instant,
    words: Messages,
}

impl Display {
    /// Shows nothing yet.
    pub fn new() -> Self {
        let bar = ProgressBar::no_length(); // hides itself where there is no terminal
        bar.set_style(ProgressStyle::with_template("{prefix} {wide_bar} {msg}").expect("a valid template"));
        let now = Instant::now();
        Self { bar, terminal: stderr().is_terminal(), told: now, verifying: now, words: Messages::default() }
    }

    /// The bar, for who prints something else meanwhile.
    pub fn bar(&self) -> ProgressBar {
        self.bar.clone()
    }

    /// A line that stays.
    pub fn say(&self, line: &str) {
        self.bar.suspend(|| say!("{}", shown_line(line)));
    }

    /// A line of results to standard output. Whoever stops reading it does not stop the work.
    pub fn print(&self, line: &str) {
        let _ = self.bar.suspend(|| stdout::line(line));
    }

    /// Tokens are taken.
    pub fn extract(&mut self, event: &extract::Event, name: impl Fn(usize) -> String) {
        match event {
            extract::Event::Progress(progress) => self.show("tokens", progress, ""),
            extract::Event::Done(spent) => self.say(&told(spent)),
            extract::Event::Looked(progress) => self.show("looking at images", progress, ""),
            extract::Event::Verifying { read, total } => self.verify(*read, *total),
            extract::Event::Compared(progress) => self.show("comparing images", progress, ""),
            other => match self.words.of(other, name) {
                Some(Line::Warning(text)) => self.say(&format!("warning: {text}")),
                Some(Line::Note(text)) => self.say(&format!("note: {text}")),
                Some(Line::End(text)) => {
                    self.clear();
                    say!("{text}");
                }
                None => {}
            },
        }
    }

    /// How far reading kept tokens is, and how fast it went.
    fn verify(&mut self, read: u64, total: u64) {
        if read == 0 {
            self.verifying = Instant::now();
        }
        let seconds = self.verifying.elapsed().as_secs_f64();
        if self.terminal {
            self.bar.set_length(total);
            self.bar.set_position(read);
            self.bar.set_prefix("reading kept tokens");
            self.bar.set_message(format!("{} of {}", format::bytes(read), format::bytes(total)));
        }
        if read == total {
            let rate = read as f64 / seconds.max(1e-6) / 1e9;
            let read = format::bytes(read);
            self.say(&format!(
                "tokens: {read} read and compared with their digests in {seconds:.1} s ({rate:.1} GB/s)"
            ));
        } else if !self.terminal && self.told.elapsed() >= SILENCE {
            self.told = Instant::now();
            say!("reading kept tokens: {} of {}", format::bytes(read), format::bytes(total));
        }
    }

    /// How far a job is, and more about it.
    pub fn show(&mut self, what: &str, progress: &Progress, more: &str) {
        let Progress { done, total, rate, left } = progress;
        let text = format!("{done} of {total} images, {rate:.0} images/s, {} left", HumanDuration(*left));
        if self.terminal {
            self.bar.set_length(*total as u64);
            self.bar.set_position(*done as u64);
            self.bar.set_prefix(shown(what).into_owned());
            self.bar.set_message(if more.is_empty() { text } else { format!("{text}\n{more}") });
        } else if self.told.elapsed() >= SILENCE || (done == total && more.is_empty()) {
            self.told = Instant::now();
            let more: Vec<&str> = more.split_whitespace().collect();
            let more = more.join(" ");
            say!("{what}: {text}{}{more}", if more.is_empty() { "" } else { "; " });
        }
    }

    /// Something begins, after what was cleared.
    pub fn begin(&self) {
        self.bar.reset();
    }

    /// How much of something is done.
    pub fn count(&mut self, progress: &jobs::Progress) {
        if self.terminal {
            progress.total.into_iter().for_each(|total| self.bar.set_length(total));
            self.bar.set_position(progress.done);
            self.bar.set_prefix(shown(&progress.what).into_owned());
            self.bar.set_message(progress.amounts());
        } else if self.told.elapsed() >= SILENCE {
            self.told = Instant::now();
            say!("{}: {}", shown_line(&progress.what), progress.amounts());
        }
    }

    /// How many runs of a measurement are done.
    pub fn turn(&mut self, what: &str, done: usize, total: usize) {
        if self.terminal {
            self.bar.set_length(total as u64);
            self.bar.set_position(done as u64);
            self.bar.set_prefix("measuring");
            self.bar.set_message(what.to_owned());
        } else if self.told.elapsed() >= SILENCE {
            self.told = Instant::now();
            say!("measuring: {what}, run {done} of {total}");
        }
    }

    /// A line for a step of the work: all of them on a terminal, elsewhere one now and then and the
    /// last.
    pub fn milestone(&mut self, line: &str, last: bool) {
        if self.terminal || last || self.told.elapsed() >= PAUSE {
            self.told = Instant::now();
            self.say(line);
        }
    }

    /// Takes the bar away.
    pub fn clear(&self) {
        self.bar.finish_and_clear();
    }
}

/// Who waited for whom while tokens were taken.
fn told(spent: &Spent) -> String {
    let Spent { backbone, first, starved, blocked, .. } = *spent;
    let share = |waited: f64| 100.0 * waited / (backbone + starved + blocked).max(1e-9);
    format!(
        "backbone: {:.1} images/s; it waited {first:.1} s for its first images, then {:.1} % of the time for more and {:.1} % \
         for the disk",
        spent.images as f64 / backbone.max(1e-9),
        share(starved),
        share(blocked)
    )
}

/// Loss and training accuracy of every head so far in its epoch, four a line.
pub fn running(trainers: &[HeadTrainer]) -> String {
    let cell = |trainer: &HeadTrainer| match (
        &trainer.progress.failure,
        trainer.progress.running.loss(),
        trainer.progress.running.accuracy(),
    ) {
        (Some(_), _, _) => format!("{} stopped", trainer.name),
        (None, Some(loss), Some(accuracy)) => format!("{} {loss:.3} {accuracy:.1} %", trainer.name),
        _ => trainer.name.clone(),
    };
    let cells: Vec<String> = trainers.iter().map(|trainer| format!("{:<30}", cell(trainer))).collect();
    cells.chunks(4).map(|line| line.concat().trim_end().to_owned()).collect::<Vec<_>>().join("\n")
}

/// Loss and test accuracy of every head after an epoch, on one line.
pub fn closed(trainers: &[HeadTrainer]) -> String {
    let cell = |trainer: &HeadTrainer| match (&trainer.progress.failure, trainer.progress.history.last()) {
        (None, Some(epoch)) => format!("{} {:.3} {:.1} %", trainer.name, epoch.loss, epoch.test),
        _ => format!("{} stopped", trainer.name),
    };
    trainers.iter().map(cell).collect::<Vec<_>>().join(", ")
}
