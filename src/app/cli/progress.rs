//! Progress on standard error: a bar on a terminal, a line now and then elsewhere.

use std::io::{IsTerminal, stderr};
use std::time::{Duration, Instant};

use indicatif::{HumanDuration, ProgressBar, ProgressStyle};

use super::out;
use crate::app::extract::{self, Spent};
use crate::app::pace::Progress;
use crate::model::train::Learner;

/// How long nothing is said where there is no terminal.
const SILENCE: Duration = Duration::from_secs(15);
/// How long after one line the next may come.
const PAUSE: Duration = Duration::from_secs(2);
/// Unreadable images told one by one; the others are counted.
const TOLD: usize = 20;

/// Shows how a job goes.
pub struct Display {
    bar: ProgressBar,
    terminal: bool,
    told: Instant,
    unreadable: usize,
}

impl Display {
    /// Shows nothing yet.
    pub fn new() -> Self {
        let bar = ProgressBar::no_length(); // hides itself where there is no terminal
        bar.set_style(ProgressStyle::with_template("{prefix} {wide_bar} {msg}").expect("a valid template"));
        Self { bar, terminal: stderr().is_terminal(), told: Instant::now(), unreadable: 0 }
    }

    /// A line that stays.
    pub fn say(&self, line: &str) {
        self.bar.suspend(|| eprintln!("{line}"));
    }

    /// A line of results to standard output. Whoever stops reading it does not stop the work.
    pub fn print(&self, line: &str) {
        let _ = self.bar.suspend(|| out::line(line));
    }

    /// Tokens are taken.
    pub fn extract(&mut self, event: &extract::Event, name: impl Fn(usize) -> String) {
        match event {
            extract::Event::Progress(progress) => self.show("tokens", progress, ""),
            extract::Event::Done(spent) => self.say(&told(spent)),
            extract::Event::Looked(progress) => self.show("looking at images", progress, ""),
            extract::Event::Unreadable { sample, why } => {
                self.unreadable += 1;
                match self.unreadable {
                    ..=TOLD => self.say(&format!("warning: left out: {}", named(&name(*sample), why))),
                    count if count == TOLD + 1 => self.say("warning: more are left out, and counted"),
                    _ => {}
                }
            }
        }
    }

    /// How far a job is, and more about it.
    pub fn show(&mut self, what: &str, progress: &Progress, more: &str) {
        let Progress { done, total, rate, left } = progress;
        let text = format!("{done} of {total} images, {rate:.0} images/s, {} left", HumanDuration(*left));
        if self.terminal {
            self.bar.set_length(*total as u64);
            self.bar.set_position(*done as u64);
            self.bar.set_prefix(what.to_owned());
            self.bar.set_message(if more.is_empty() { text } else { format!("{text}\n{more}") });
        } else if self.told.elapsed() >= SILENCE || (done == total && more.is_empty()) {
            self.told = Instant::now();
            let more: Vec<&str> = more.split_whitespace().collect();
            let more = more.join(" ");
            eprintln!("{what}: {text}{}{more}", if more.is_empty() { "" } else { "; " });
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
            eprintln!("measuring: {what}, run {done} of {total}");
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

/// An error with the name it is about, unless it says it itself.
fn named(name: &str, why: &str) -> String {
    if why.contains(name) { why.to_owned() } else { format!("{name}: {why}") }
}

/// Loss and training accuracy of every head so far in its epoch, four a line.
pub fn running(learners: &[Learner]) -> String {
    let cell =
        |learner: &Learner| match (&learner.failure, learner.running.loss(), learner.running.accuracy()) {
            (Some(_), _, _) => format!("{} stopped", learner.name),
            (None, Some(loss), Some(accuracy)) => format!("{} {loss:.3} {accuracy:.1} %", learner.name),
            _ => learner.name.clone(),
        };
    let cells: Vec<String> = learners.iter().map(|learner| format!("{:<30}", cell(learner))).collect();
    cells.chunks(4).map(|line| line.concat().trim_end().to_owned()).collect::<Vec<_>>().join("\n")
}

/// Loss and test accuracy of every head after an epoch, on one line.
pub fn closed(learners: &[Learner]) -> String {
    let cell = |learner: &Learner| match (&learner.failure, learner.history.last()) {
        (None, Some(epoch)) => format!("{} {:.3} {:.1} %", learner.name, epoch.loss, epoch.test),
        _ => format!("{} stopped", learner.name),
    };
    learners.iter().map(cell).collect::<Vec<_>>().join(", ")
}
