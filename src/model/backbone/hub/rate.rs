//! The minimum rate of a download: one that receives next to nothing would never end.

use std::time::{Duration, Instant};

/// Fewest bytes that have to arrive in every interval of a [`Rate`].
pub(super) const MIN_BYTES: u64 = 64 << 10;

/// Measures a download over consecutive intervals.
pub(super) struct Rate {
    interval: Duration,
    /// Begin of the current interval.
    since: Instant,
    /// Bytes that had arrived by then.
    before: u64,
}

impl Rate {
    /// Requires [`MIN_BYTES`] bytes in every `interval` from `now` on.
    pub fn new(interval: Duration, now: Instant) -> Self {
        Self { interval, since: now, before: 0 }
    }

    /// Whether an interval has ended at `now` with too few bytes, `done` being there in all. Bytes that
    /// were there at the beginning count towards the first interval.
    pub fn slow(&mut self, done: u64, now: Instant) -> bool {
        if now.duration_since(self.since) < self.interval {
            return false;
        }
        let received = done.saturating_sub(self.before);
        (self.since, self.before) = (now, done);
        received < MIN_BYTES
    }

    /// The reason for giving up, for an error message.
    pub fn reason(&self) -> String {
        format!("less than {MIN_BYTES} bytes received in {:.0?}", self.interval)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_stretch_of_time_needs_its_own_bytes() {
        let (begun, minute) = (Instant::now(), Duration::from_mins(1));
        let mut rate = Rate::new(minute, begun);
        assert!(!rate.slow(1, begun + minute / 2), "the minute is not over");
        assert!(!rate.slow(MIN_BYTES, begun + minute));
        assert!(!rate.slow(MIN_BYTES + 1, begun + minute * 3 / 2));
        assert!(rate.slow(MIN_BYTES + 2, begun + minute * 2));
        // A file that was truncated counts from zero.
        assert!(rate.slow(0, begun + minute * 3));
    }
}
