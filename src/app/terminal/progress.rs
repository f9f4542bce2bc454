//! Progress on standard error: a bar on a terminal, an occasional line elsewhere.

use std::io::{IsTerminal, stderr};
use std::time::{Duration, Instant};

use indicatif::{HumanDuration, ProgressBar, ProgressStyle};

use super::stdout;
use crate::app::format;
use crate::app::jobs;
use crate::app::jobs::extract::{self, Line, Messages, Spent};
use crate::app::rate::Pace;
use crate::app::terminal::stdout::say;
use crate::model::data::Dataset;
use crate::model::io::escape::{shown, shown_line};
use crate::model::train::HeadTrainer;

/// Time between two lines of progress where there is no terminal.
const LINE_INTERVAL: Duration = Duration::from_secs(15);
/// Shortest time between two milestones where there is no terminal.
const MILESTONE_INTERVAL: Duration = Duration::from_secs(2);

pub struct Display {
    bar: ProgressBar,
    is_terminal: bool,
    printed: Instant,
    /// When the reading of kept tokens began.
    verifying: Instant,
    messages: Messages,
}

impl Display {
    pub fn new() -> Self {
        let bar = ProgressBar::no_length(); // hidden if there is no terminal
        bar.set_style(ProgressStyle::with_template("{prefix} {wide_bar} {msg}").expect("a valid template"));
        let now = Instant::now();
        Self {
            bar,
            is_terminal: stderr().is_terminal(),
            printed: now,
            verifying: now,
            messages: Messages::default(),
        }
    }

    /// The bar, for callers that print other lines while it is shown.
    pub fn bar(&self) -> ProgressBar {
        self.bar.clone()
    }

    /// Prints a line to standard error above the bar.
    pub fn say(&self, line: &str) {
        self.bar.suspend(|| say!("{}", shown_line(line)));
    }

    /// Prints a line of results to standard output; a failure to write it is ignored, so that it does not stop the work.
    pub fn print(&self, line: &str) {
        let _ = self.bar.suspend(|| stdout::line(line));
    }

    /// Shows an event of the extraction of a dataset's tokens.
    pub fn extract(&mut self, event: &extract::Event, dataset: &Dataset) {
        match event {
            extract::Event::Progress(progress) => self.show("tokens", progress, ""),
            extract::Event::Done(spent) => self.say(&waiting_times(spent)),
            extract::Event::Checked(progress) => self.show("checking images", progress, ""),
            extract::Event::Verifying { read, total } => self.verify(*read, *total),
            extract::Event::Compared(progress) => self.show("comparing images", progress, ""),
            other => match self.messages.line(other, dataset) {
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

    /// Shows how many bytes of kept tokens were read and verified; at the end also the rate.
    fn verify(&mut self, read: u64, total: u64) {
        if read == 0 {
            self.verifying = Instant::now();
        }
        if self.is_terminal || read < total {
            let amounts = format!("{} of {}", format::bytes(read), format::bytes(total));
            self.advance("reading cached tokens", (read, Some(total)), &amounts, &amounts);
        }
        if read == total {
            let seconds = self.verifying.elapsed().as_secs_f64();
            let rate = read as f64 / seconds.max(1e-6) / 1e9;
            let read = format::bytes(read);
            self.say(&format!(
                "tokens: {read} read and verified against their digests in {seconds:.1} s ({rate:.1} GB/s)"
            ));
        }
    }

    /// Moves the bar of a terminal, between `what` and `message`; elsewhere prints `line` in place of the message, now and then.
    fn advance(&mut self, what: &str, (done, total): (u64, Option<u64>), message: &str, line: &str) {
        if self.is_terminal {
            total.into_iter().for_each(|total| self.bar.set_length(total));
            self.bar.set_position(done);
            self.bar.set_prefix(shown(what).into_owned());
            self.bar.set_message(message.to_owned());
        } else if self.printed.elapsed() >= LINE_INTERVAL {
            self.printed = Instant::now();
            say!("{}: {line}", shown_line(what));
        }
    }

    /// Shows how many images a job has done, with `more` text about it.
    pub fn show(&mut self, what: &str, pace: &Pace, more: &str) {
        let Pace { done, total, rate, left } = pace;
        let [so_far, all] = [done, total].map(|images| format::count(*images));
        let text = format!("{so_far} of {all} images, {rate:.0} images/s, {} left", HumanDuration(*left));
        if self.is_terminal {
            self.bar.set_length(*total as u64);
            self.bar.set_position(*done as u64);
            self.bar.set_prefix(shown(what).into_owned());
            self.bar.set_message(if more.is_empty() { text } else { format!("{text}\n{more}") });
        } else if self.printed.elapsed() >= LINE_INTERVAL || (done == total && more.is_empty()) {
            self.printed = Instant::now();
            let more: Vec<&str> = more.split_whitespace().collect();
            let more = more.join(" ");
            say!("{what}: {text}{}{more}", if more.is_empty() { "" } else { "; " });
        }
    }

    /// Resets the bar for the next part of a job.
    pub fn begin(&self) {
        self.bar.reset();
    }

    /// Shows the progress of a job in its own unit.
    pub fn count(&mut self, progress: &jobs::Progress) {
        let amounts = progress.amounts();
        self.advance(&progress.what, (progress.done, progress.total), &amounts, &amounts);
    }

    /// Shows how many runs of a measurement are done.
    pub fn turn(&mut self, what: &str, done: usize, total: usize) {
        let line = format!("{what}, run {done} of {total}");
        self.advance("measuring", (done as u64, Some(total as u64)), what, &line);
    }

    /// Prints a line for a step of the work: on a terminal every one, elsewhere one in [`MILESTONE_INTERVAL`] and the last.
    pub fn milestone(&mut self, line: &str, last: bool) {
        if self.is_terminal || last || self.printed.elapsed() >= MILESTONE_INTERVAL {
            self.printed = Instant::now();
            self.say(line);
        }
    }

    pub fn clear(&self) {
        self.bar.finish_and_clear();
    }
}

/// The throughput of the backbone, and how long it waited for images and for the disk.
fn waiting_times(spent: &Spent) -> String {
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

/// Loss and training accuracy in percent of every head so far in its epoch, four heads a line.
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

/// Loss and test accuracy in percent of every head after an epoch, on one line.
pub fn closed(trainers: &[HeadTrainer]) -> String {
    let cell = |trainer: &HeadTrainer| match (&trainer.progress.failure, trainer.progress.history.last()) {
        (None, Some(epoch)) => format!("{} {:.3} {:.1} %", trainer.name, epoch.loss, epoch.test),
        _ => format!("{} stopped", trainer.name),
    };
    trainers.iter().map(cell).collect::<Vec<_>>().join(", ")
}
