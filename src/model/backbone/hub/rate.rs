//! The least rate of a download: one that brings next to nothing would never end.

use std::time::{Duration, Instant};

/// Bytes that have to arrive within a [`Rate`]'s time.
pub(super) const MIN_BYTES: u64 = 64 << 10;

pub(super) struct Rate {
    within: Duration,
    since: Instant,
    before: u64,
}

impl Rate {
    /// At least [`MIN_BYTES`] bytes are to arrive in every `within` from `now` on.
    pub fn new(within: Duration, now: Instant) -> Self {
        Self { within, since: now, before: 0 }
    }

    /// Whether too little came in the last stretch of time, `done` bytes being there `now`. What was
    /// there at the beginning counts as having come in the first stretch.
    pub fn slow(&mut self, done: u64, now: Instant) -> bool {
        if now.duration_since(self.since) < self.within {
            return false;
        }
        let came = done.saturating_sub(self.before);
        (self.since, self.before) = (now, done);
        came < MIN_BYTES
    }

    /// What is wrong with one that is too slow.
    pub fn reason(&self) -> String {
        format!("less than {MIN_BYTES} bytes came within {:.0?}", self.within)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stretch_needs_its_bytes_and_the_last_one_does_not_help() {
        let (begun, minute) = (Instant::now(), Duration::from_mins(1));
        let mut rate = Rate::new(minute, begun);
        assert!(!rate.slow(1, begun + minute / 2), "the minute is not over");
        assert!(!rate.slow(MIN_BYTES, begun + minute));
        assert!(!rate.slow(MIN_BYTES + 1, begun + minute * 3 / 2));
        assert!(rate.slow(MIN_BYTES + 2, begun + minute * 2));
        // A file that was cut back to nothing counts from there.
        assert!(rate.slow(0, begun + minute * 3));
    }
}
