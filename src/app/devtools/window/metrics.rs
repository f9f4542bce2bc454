//! What was measured: times of single things, processor time of frames, memory.

use std::time::Duration;

use serde_json::Value;

use crate::app::processor_time;
use crate::model::stats::quantiles;

/// What came out, by name, in the order it was measured.
#[derive(Default)]
pub struct Sheet {
    values: Vec<(&'static str, f64)>,
    /// Why the script did not come to its end.
    pub failed: Option<String>,
}

impl Sheet {
    /// Puts a value down.
    pub fn put(&mut self, name: &'static str, value: f64) {
        self.values.push((name, value));
    }

    /// As one JSON object.
    pub fn json(&self) -> Value {
        let rounded = |v: f64| Value::from((v * 100.0).round() / 100.0);
        self.values.iter().map(|(name, v)| ((*name).to_owned(), rounded(*v))).collect()
    }

    /// As lines.
    pub fn text(&self) -> String {
        self.values.iter().map(|(name, value)| format!("{name:<24} {value:>10.1}\n")).collect()
    }
}

/// Milliseconds of a duration.
pub fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// The processor time of frames, on the thread that draws them.
#[derive(Default)]
pub struct Frames {
    last: Option<Duration>,
    /// Milliseconds of every frame that counts.
    taken: Vec<f64>,
}

impl Frames {
    /// A frame begins, so that the one before is over; it counts if `counts`.
    pub fn begin(&mut self, counts: bool) {
        let now = processor_time::of_thread();
        if let Some(last) = self.last.replace(now).filter(|_| counts) {
            self.taken.push(ms(now.saturating_sub(last)));
        }
    }

    /// How many counted.
    pub fn len(&self) -> usize {
        self.taken.len()
    }

    /// What each took, in milliseconds.
    pub fn all(self) -> Vec<f64> {
        self.taken
    }

    /// Quantiles of what they took, and a new start; not numbers where none was measured.
    pub fn take<const M: usize>(&mut self, at: [f64; M]) -> [f64; M] {
        match std::mem::take(&mut self.taken) {
            taken if taken.is_empty() => [f64::NAN; M],
            taken => quantiles(&taken, at),
        }
    }
}

/// How many tasks wanted a processor over the last minute; absent where the system does not say.
pub fn load() -> Option<f64> {
    std::fs::read_to_string("/proc/loadavg").ok()?.split_whitespace().next()?.parse().ok()
}
