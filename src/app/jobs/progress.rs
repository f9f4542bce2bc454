//! How far a job is, and the flag that ends it early or lets it come to the end of a step.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::JobError;
use crate::app::format;

/// How far a job is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// What is being done, in words.
    pub what: String,
    /// How much is done.
    pub done: u64,
    /// How much there is to do; `None` if it is not known.
    pub total: Option<u64>,
    /// What both are counted in.
    pub unit: Unit,
    /// How long `done` takes at the speed so far.
    pub elapsed: Duration,
    /// The time left, if the job measures it; else it follows from `elapsed`.
    #[serde(default)]
    pub left: Option<Duration>,
}

/// What progress is counted in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Unit {
    /// Bytes of a download.
    Bytes,
    /// What the progress says is being done: images, findings, epochs.
    #[serde(rename = "Files")] // its first name, which other versions send
    Items,
}

impl Progress {
    /// The part that is done, 0 to 1, if it is known.
    pub fn fraction(&self) -> Option<f32> {
        let total = self.total.filter(|total| *total > 0)?;
        Some((self.done as f64 / total as f64).clamp(0.0, 1.0) as f32)
    }

    /// How far in words: `12.0 of 345.1 MB, 0:40 left`.
    pub fn amounts(&self) -> String {
        let left = self.left().map_or(String::new(), |left| format!(", {} left", format::clock(left)));
        format!("{}{left}", self.counts())
    }

    /// How far, and then what is done, of which a narrow line may cut the end: `12.0 of 345.1 MB, 0:40 left · Downloading a.bin`.
    pub fn line(&self) -> String {
        format!("{} · {}", self.amounts(), self.what)
    }

    /// How far in words, without the time left: `12.0 of 345.1 MB`.
    pub fn counts(&self) -> String {
        let amount = |n: u64| match self.unit {
            Unit::Bytes => format!("{:.1}", n as f64 / 1e6),
            Unit::Items => format::count(n as usize).to_string(),
        };
        let unit = if self.unit == Unit::Bytes { " MB" } else { "" };
        let of = self.total.map_or(String::new(), |total| format!(" of {}", amount(total)));
        format!("{}{of}{unit}", amount(self.done))
    }

    /// The time left, if it can be estimated.
    pub fn left(&self) -> Option<Duration> {
        let total = self.total?;
        if self.left.is_some() || self.done == 0 || self.elapsed < MIN_ELAPSED {
            return self.left;
        }
        let rest = total.saturating_sub(self.done) as f64 / self.done as f64;
        Duration::try_from_secs_f64(self.elapsed.as_secs_f64() * rest).ok()
    }
}

/// Time before which no speed is estimated.
const MIN_ELAPSED: Duration = Duration::from_millis(500);

/// When the current part of a job began, and how much of it was done before.
#[derive(Clone, Copy)]
pub struct Clock {
    begun: Instant,
    before: u64,
}

impl Clock {
    /// The clock of a part that begins now.
    pub fn start(before: u64) -> Self {
        Self { begun: Instant::now(), before }
    }

    /// The progress when `done` of the job is done.
    pub fn progress(&self, what: &str, done: u64, total: Option<u64>, unit: Unit) -> Progress {
        Progress { what: what.to_owned(), done, total, unit, elapsed: self.time_taken(done), left: None }
    }

    /// How long `done` takes at the speed so far, which does not count what was done before the clock began.
    fn time_taken(&self, done: u64) -> Duration {
        let elapsed = self.begun.elapsed();
        match done.saturating_sub(self.before) {
            _ if self.before == 0 || elapsed < MIN_ELAPSED => elapsed,
            0 => Duration::ZERO,
            new => Duration::try_from_secs_f64(elapsed.as_secs_f64() * done as f64 / new as f64)
                .unwrap_or(Duration::MAX),
        }
    }
}

/// Whether a job should end early, which is only ever set, and whether a step is worth waiting for. Shared by
/// the job and whoever may cancel it.
#[derive(Clone, Debug, Default)]
pub struct Cancel {
    cancelled: Arc<AtomicBool>,
    /// Steps under way.
    working: Arc<AtomicUsize>,
}

/// A step that is worth waiting for, until it is dropped: it reads no file of others, and what comes
/// of it is kept.
#[must_use]
pub struct Working(Arc<AtomicUsize>);

impl Drop for Working {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Cancel {
    /// Asks the job to end.
    pub fn cancel(&self) {
        self.cancelled.store(true, Ordering::SeqCst);
    }

    /// Whether the job was asked to end.
    pub fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }

    /// Begins a step that is worth waiting for.
    pub fn working(&self) -> Working {
        self.working.fetch_add(1, Ordering::SeqCst);
        Working(self.working.clone())
    }

    /// Whether a step that is worth waiting for is under way.
    pub fn is_working(&self) -> bool {
        self.working.load(Ordering::SeqCst) > 0
    }

    /// Whether the work should continue or stop.
    pub fn flow(&self) -> ControlFlow<()> {
        if self.is_cancelled() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    /// [`JobError::Cancelled`] if the job was asked to end.
    pub fn check(&self) -> Result<(), JobError> {
        if self.is_cancelled() { Err(JobError::Cancelled) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rest_takes_as_long_as_the_speed_so_far_says() {
        let mut progress = Progress {
            what: "Downloading".into(),
            done: 25,
            total: Some(100),
            unit: Unit::Bytes,
            elapsed: Duration::from_secs(10),
            left: None,
        };
        assert_eq!((progress.fraction(), progress.left()), (Some(0.25), Some(Duration::from_secs(30))));
        progress.elapsed = Duration::from_millis(100);
        assert_eq!(progress.left(), None, "too early to tell");
        progress.left = Some(Duration::from_secs(7));
        assert_eq!(progress.left(), progress.left, "as the job measured it");
        progress.total = Some(0);
        assert_eq!(progress.fraction(), None);
    }

    #[test]
    fn what_was_done_before_does_not_count_as_speed() {
        let begun = Instant::now().checked_sub(Duration::from_secs(10)).unwrap();
        let left = |before, done| {
            let progress = Clock { begun, before }.progress("", done, Some(1000), Unit::Bytes);
            progress.left().map(|left| left.as_secs())
        };
        assert_eq!(left(0, 100), Some(90));
        assert_eq!(left(800, 900), Some(10), "100 in 10 s, and 100 are left");
        assert_eq!((left(800, 800), left(800, 700)), (None, None));
        assert_eq!(Clock::start(800).time_taken(801).as_secs(), 0, "too early to tell");
    }

    #[test]
    fn amounts_are_read_at_a_glance() {
        let progress = Progress {
            what: "Downloading".into(),
            done: 12_000_000,
            total: Some(345_100_000),
            unit: Unit::Bytes,
            elapsed: Duration::from_secs(2),
            left: None,
        };
        assert_eq!(progress.amounts(), "12.0 of 345.1 MB, 0:55 left");
        assert_eq!(progress.line(), "12.0 of 345.1 MB, 0:55 left · Downloading");
        let files = Progress { unit: Unit::Items, done: 3000, total: None, ..progress };
        assert_eq!(files.amounts(), "3,000");
    }
}
