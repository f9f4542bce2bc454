//! Measured values: times of single steps, processor time of frames, load of the machine.

use std::time::Duration;

use serde_json::Value;

use crate::app::processor_time;
use crate::model::stats::quantiles;

/// Measured values by name, in the order of measurement.
#[derive(Default)]
pub struct Sheet {
    values: Vec<(&'static str, f64)>,
    /// Why the script did not come to its end.
    pub failed: Option<String>,
}

impl Sheet {
    pub fn record(&mut self, name: &'static str, value: f64) {
        self.values.push((name, value));
    }

    /// The values as one JSON object, rounded to hundredths.
    pub fn json(&self) -> Value {
        let rounded = |v: f64| Value::from((v * 100.0).round() / 100.0);
        self.values.iter().map(|(name, v)| ((*name).to_owned(), rounded(*v))).collect()
    }

    /// The values as lines of text, rounded to tenths.
    pub fn text(&self) -> String {
        self.values.iter().map(|(name, value)| format!("{name:<24} {value:>10.1}\n")).collect()
    }
}

pub fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// The processor time of frames, on the thread that draws them.
#[derive(Default)]
pub struct Frames {
    last: Option<Duration>,
    /// Milliseconds of every frame that counts.
    pub taken: Vec<f64>,
}

impl Frames {
    /// Begins a frame and so ends the one before, which counts if `counts`.
    pub fn begin(&mut self, counts: bool) {
        let now = processor_time::of_thread();
        if let Some(last) = self.last.replace(now).filter(|_| counts) {
            self.taken.push(ms(now.saturating_sub(last)));
        }
    }

    /// Quantiles of the frames that counted, in milliseconds, and forgets them; NaN where there were none.
    pub fn take<const M: usize>(&mut self, at: [f64; M]) -> [f64; M] {
        match std::mem::take(&mut self.taken) {
            taken if taken.is_empty() => [f64::NAN; M],
            taken => quantiles(&taken, at),
        }
    }
}

/// Load average of the last minute; `None` where the system does not report it.
pub fn load_average() -> Option<f64> {
    std::fs::read_to_string("/proc/loadavg").ok()?.split_whitespace().next()?.parse().ok()
}
