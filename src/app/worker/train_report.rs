//! The events of a training for the window, rate-limited to what a screen can show.

use std::path::Path;
use std::time::{Duration, Instant};

use super::event_sender::JobEvents;
use crate::app::format;
use crate::app::jobs::extract::{self, Messages};
use crate::app::jobs::history::{Failure, Steps, disk, failures_of};
use crate::app::jobs::open::BEST;
use crate::app::jobs::train::{self, Summary};
use crate::app::jobs::train_event::{TrainDelta, TrainEvent};
use crate::app::jobs::{Event, JobError, Progress, Reporter, Unit};
use crate::app::rate::Pace;
use crate::model::train::run::Metric;
use crate::model::train::{HeadTrainer, Running, TrainCursor};

/// Shortest time between two reports of steps.
const MIN_INTERVAL: Duration = Duration::from_millis(80);

/// Turns the events of a training into events for the window, at most every [`MIN_INTERVAL`].
pub(super) struct TrainReporter {
    events: JobEvents,
    epochs: usize,
    /// The running sums of every head at the last report, and its position in epochs.
    last_running: Vec<Running>,
    last_position: f64,
    delta: TrainDelta,
    progress: Option<Progress>,
    sent: Instant,
    messages: Messages,
}

impl TrainReporter {
    pub(super) fn new(events: JobEvents, epochs: usize) -> Self {
        Self {
            events,
            epochs,
            last_running: Vec::new(),
            last_position: 0.0,
            delta: TrainDelta::default(),
            progress: None,
            sent: Instant::now(),
            messages: Messages::default(),
        }
    }

    pub(super) fn receive(&mut self, event: train::Event<'_>) {
        match event {
            train::Event::Watch { host } => {
                let what = format!("Checking whether {host} is still training it");
                self.events.progress(&what, 0, None, Unit::Items);
            }
            train::Event::Plan { tokens, .. } if !tokens.complete() => {
                let what = format!("Extracting tokens, {}", format::bytes(tokens.bytes_missing));
                self.events.progress(&what, tokens.done as u64, Some(tokens.images as u64), Unit::Items);
            }
            train::Event::Extract { event: extract::Event::Progress(progress), .. } => {
                self.advance("Extracting tokens", progress);
            }
            train::Event::Extract { event: extract::Event::Checked(progress), .. } => {
                self.advance("Checking the images", progress);
            }
            train::Event::Extract { event, dataset } => {
                self.messages.tell(&mut self.events, &event, dataset);
            }
            train::Event::Begin { run, .. } => {
                self.flush();
                // If it cannot be read, the training itself reports the error.
                if let Ok(snapshot) = disk::read(run.folder()) {
                    self.events.training(TrainEvent::Begun(snapshot.into()));
                }
            }
            train::Event::Step { seed, position, steps, trainers, progress } => {
                let [epoch, epochs] = [position.epoch + 1, self.epochs].map(format::count);
                let what = format!("Seed {seed}, epoch {epoch} of {epochs}");
                self.step(seed, position, steps, trainers);
                self.advance(&what, progress);
            }
            train::Event::Between { seed, trainers } => {
                for trainer in trainers.iter().filter(|trainer| trainer.progress.failure.is_none()) {
                    let (head, epoch) = (trainer.name.clone(), trainer.progress.between.last().cloned());
                    self.delta.epochs.extend(epoch.map(|epoch| Metric { head, seed, epoch }));
                }
                self.flush_if_due();
            }
            train::Event::Epoch { seed, trainers, .. } => {
                self.epoch(seed, trainers);
                self.flush_if_due();
            }
            train::Event::Evaluation => self.flush_if_due(),
            train::Event::Seed => self.flush(),
            train::Event::Waiting { why, first: true } => self.events.warn(why.waited_for()),
            train::Event::Plan { .. } | train::Event::Waiting { .. } => {}
        }
    }

    /// Adds the mean losses since the last report, when the next report is due.
    fn step(&mut self, seed: u64, position: TrainCursor, steps: usize, trainers: &[HeadTrainer]) {
        let now = position.epoch as f64 + position.step as f64 / steps as f64;
        if self.last_running.len() != trainers.len() || now < self.last_position {
            self.last_running = vec![Running::default(); trainers.len()];
            self.last_position = position.epoch as f64;
        }
        // Always at the end of an epoch, as the running sums begin anew after it.
        if self.sent.elapsed() < MIN_INTERVAL && position.step < steps {
            return;
        }
        let running = || trainers.iter().map(|trainer| trainer.progress.running);
        let losses = running().zip(&self.last_running).map(|(now, last)| now.loss_since(last)).collect();
        if self.delta.steps.is_some() {
            self.flush();
        }
        self.delta.steps = Some(Steps { seed, at: f64::midpoint(self.last_position, now), losses });
        // The sums begin anew after the last step of an epoch.
        let begins_anew = position.step == steps;
        self.last_running = running().map(|now| if begins_anew { Running::default() } else { now }).collect();
        self.last_position = now;
    }

    fn epoch(&mut self, seed: u64, trainers: &[HeadTrainer]) {
        for trainer in trainers {
            let head = trainer.name.clone();
            match (&trainer.progress.failure, trainer.progress.history.last()) {
                (Some(why), _) => self.delta.failures.push(Failure { head, seed, why: why.clone() }),
                (None, Some(epoch)) => self.delta.epochs.push(Metric { head, seed, epoch: epoch.clone() }),
                (None, None) => {}
            }
        }
    }

    fn advance(&mut self, what: &str, Pace { done, total, rate, left }: Pace) {
        (self.delta.rate, self.delta.left) = (rate, left);
        let progress = self.events.clock.progress(what, done as u64, Some(total as u64), Unit::Items);
        self.progress = Some(Progress { left: Some(left), ..progress });
        self.flush_if_due();
    }

    fn flush_if_due(&mut self) {
        if self.sent.elapsed() >= MIN_INTERVAL {
            self.flush();
        }
    }

    /// Sends everything that is collected.
    pub(super) fn flush(&mut self) {
        self.sent = Instant::now();
        if let Some(progress) = self.progress.take() {
            self.events.sender.send(Event::Progress(self.events.job, progress));
        }
        let TrainDelta { rate, left, .. } = self.delta;
        let delta = std::mem::replace(&mut self.delta, TrainDelta { rate, left, ..TrainDelta::default() });
        if delta.steps.is_some() || !delta.epochs.is_empty() || !delta.failures.is_empty() {
            self.events.training(TrainEvent::Progressed(Box::new(delta)));
        }
    }

    /// Sends the end of a training: its probes in the folder `out`, the best first, and the heads that failed.
    /// [`JobError::Cancelled`] if it was stopped before its end.
    pub(super) fn end(&self, summary: &Summary, out: &Path) -> Result<(), JobError> {
        let mut probes = disk::probes(out);
        // The best probes are opened first.
        probes.sort_by_key(|(path, _)| !path.to_string_lossy().ends_with(BEST));
        self.events.training(TrainEvent::Probes(probes));
        let (finished, failures) = (summary.finished, failures_of(&summary.outcomes));
        self.events.training(TrainEvent::Ended { finished, failures });
        if finished { Ok(()) } else { Err(JobError::Cancelled) }
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::sync::Arc;
    use std::sync::mpsc::sync_channel;

    use super::*;
    use crate::app::jobs::{Cancel, JobId};
    use crate::app::worker::event_sender::EventSender;
    use crate::model::data::{Dataset, Sample, Split};

    #[test]
    fn what_an_extraction_meets_is_warned_of_in_the_words_of_the_command_line() {
        let (sender, events) = sync_channel(2);
        let sender = EventSender::new(sender, Arc::new(|| {}), false);
        let mut reporter = TrainReporter::new(JobEvents::new(&sender, JobId(1), &Cancel::default()), 1);
        let sample = Sample { source: PathBuf::from("a.png").into(), class: 0, split: Split::Train };
        let dataset = &Dataset { samples: vec![sample], ..Dataset::default() };
        let unreadable = extract::Event::Unreadable { sample: 0, why: "a.png: is no image" };
        for event in [extract::Event::OutOfMemory { images: 4 }, unreadable] {
            reporter.receive(train::Event::Extract { event, dataset });
        }
        let told = events.try_iter().map(|event| match event {
            Event::Warning { text, .. } => text,
            other => panic!("{other:?}"),
        });
        let [memory, left_out] = &told.collect::<Vec<_>>()[..] else { panic!("two warnings") };
        assert!(memory.contains("out of memory"), "{memory}");
        assert_eq!(left_out, "left out: a.png: is no image", "the name stands there once");
    }
}
