//! The rate of a job, and its remaining time.

use std::time::{Duration, Instant};

/// How far a job is, and how fast.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pace {
    /// Images done, those of earlier attempts included.
    pub done: usize,
    pub total: usize,
    /// Images a second since this attempt began.
    pub rate: f64,
    pub left: Duration,
}

/// Measures the rate of one attempt at a job.
pub struct RateMeter {
    total: usize,
    start: usize,
    begun: Instant,
}

impl RateMeter {
    /// Starts the clock, with `start` of `total` images done by earlier attempts.
    pub fn new(total: usize, start: usize) -> Self {
        Self { total, start, begun: Instant::now() }
    }

    /// Runs something that is not part of the job, and excludes its time.
    pub fn without<T>(&mut self, other: impl FnOnce() -> T) -> T {
        let begun = Instant::now();
        let done = other();
        self.begun += begun.elapsed();
        done
    }

    pub fn at(&self, done: usize) -> Pace {
        let seconds = self.begun.elapsed().as_secs_f64().max(1e-6);
        let rate = done.saturating_sub(self.start) as f64 / seconds;
        let left = if rate > 0.0 { self.total.saturating_sub(done) as f64 / rate } else { 0.0 };
        Pace { done, total: self.total, rate, left: Duration::from_secs_f64(left.min(1e9)) }
    }
}
