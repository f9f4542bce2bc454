//! Samples memory, open files, threads and frame times during the soak, and judges their growth at the
//! end.

use std::time::{Duration, Instant};

use anyhow::Context as _;
use serde::Serialize;

use crate::app::devtools::window::metrics::Frames;
use crate::app::process_memory;
use crate::app::terminal::stdout::say;

/// Most growth of memory over the second half, in percent.
const MAX_MEMORY_GROWTH: f64 = 5.0;
/// Most growth of open files and of threads over the second half.
const MAX_COUNT_GROWTH: f64 = 2.0;
/// Most growth of the time of slow frames over the second half, in percent.
const MAX_FRAME_GROWTH: f64 = 50.0;
/// How often the process is sampled, and how often a line is printed.
const SAMPLE_INTERVAL: Duration = Duration::from_secs(1);
const PRINT_INTERVAL: Duration = Duration::from_mins(1);

#[derive(Clone, Debug, Default, Serialize)]
pub struct Done {
    pub looks: u64,
    pub evaluations: usize,
    pub trainings: usize,
    /// The first error in the log, which is a fault.
    #[serde(skip)]
    pub error: Option<String>,
}

#[derive(Clone, Copy, Debug)]
struct Sample {
    memory: f64,
    handles: f64,
    threads: f64,
}

#[derive(Clone, Debug, Serialize)]
pub struct Verdict {
    seconds: u64,
    frames: usize,
    #[serde(flatten)]
    done: Done,
    /// This and the next three: values at the middle and the end of a line fitted to the second half.
    memory_mb: [f64; 2],
    handles: [f64; 2],
    threads: [f64; 2],
    frame_ms_p99: [f64; 2],
    /// Growth of memory over the second half, in percent.
    memory_growth_percent: f64,
    faults: Vec<String>,
    /// Whether there are no faults.
    pub kept: bool,
}

pub struct Watch {
    length: Duration,
    begun: Instant,
    sampled: Instant,
    printed: Instant,
    frames: Frames,
    drawn: usize,
    samples: Vec<Sample>,
    /// 99th percentile of frame times between two printed lines, in milliseconds.
    slow: Vec<f64>,
}

impl Watch {
    /// Starts watching; an error where the system does not report memory, open files or threads.
    pub fn new(length: Duration) -> anyhow::Result<Self> {
        sample().context("this system does not report a program's memory and open files")?;
        let now = Instant::now();
        let (frames, samples, slow) = (Frames::default(), Vec::new(), Vec::new());
        Ok(Self { length, begun: now, sampled: now, printed: now, frames, drawn: 0, samples, slow })
    }

    /// Marks the beginning of a frame.
    pub fn frame(&mut self) {
        self.frames.begin(true);
        self.drawn += 1;
    }

    /// Samples and prints where due; the verdict, once the time is over.
    pub fn poll(&mut self, done: &Done) -> anyhow::Result<Option<Verdict>> {
        if self.sampled.elapsed() >= SAMPLE_INTERVAL.min(self.length / 60) {
            self.sampled = Instant::now();
            self.samples
                .push(sample().context("the system no longer reports the program's memory and open files")?);
        }
        if self.printed.elapsed() >= PRINT_INTERVAL.min(self.length / 12) {
            self.printed = Instant::now();
            self.print(done);
        }
        let over = self.begun.elapsed() >= self.length;
        Ok(over.then(|| judge(self.length, self.drawn, &self.samples, &self.slow, done)))
    }

    fn print(&mut self, done: &Done) {
        let [slow] = self.frames.take([0.99]);
        self.slow.push(slow);
        let Some(Sample { memory, handles, threads }) = self.samples.last() else { return };
        let Done { looks, evaluations, trainings, .. } = done;
        say!(
            "{:>6.0} s  {memory:>7.1} MB  {handles:>4} files  {threads:>4} threads  {slow:>6.1} ms p99  \
             {looks} explanations, {evaluations} evaluations, {trainings} trainings",
            self.begun.elapsed().as_secs_f64()
        );
    }
}

fn sample() -> Option<Sample> {
    let entries = |folder: &str| Some(std::fs::read_dir(folder).ok()?.count() as f64);
    let memory = process_memory::resident()? as f64 / 1e6;
    // The folder of open files is itself open while it is read.
    Some(Sample { memory, handles: entries("/proc/self/fd")? - 1.0, threads: entries("/proc/self/task")? })
}

fn judge(length: Duration, frames: usize, samples: &[Sample], slow: &[f64], done: &Done) -> Verdict {
    let line = |value: fn(&Sample) -> f64| second_half_trend(&samples.iter().map(value).collect::<Vec<_>>());
    let (memory, handles, threads) = (line(|s| s.memory), line(|s| s.handles), line(|s| s.threads));
    let frame = second_half_trend(slow);
    let percent = |[from, to]: [f64; 2]| 100.0 * (to - from) / from;
    let mut faults: Vec<String> = done.error.iter().cloned().collect();
    let mut limit = |what: &str, grew: f64, most: f64, unit: &str| {
        // NaN, where nothing was measured, is a fault too.
        if grew.is_nan() || grew > most {
            faults.push(format!("{what} grew by {grew:.1}{unit} over the second half; at most {most}{unit}"));
        }
    };
    limit("memory", percent(memory), MAX_MEMORY_GROWTH, " %");
    limit("the number of open files", handles[1] - handles[0], MAX_COUNT_GROWTH, "");
    limit("the number of threads", threads[1] - threads[0], MAX_COUNT_GROWTH, "");
    limit("the 99th percentile of frames", percent(frame), MAX_FRAME_GROWTH, " %");
    for (what, count) in [
        ("explanation", done.looks),
        ("evaluation", done.evaluations as u64),
        ("training", done.trainings as u64),
    ] {
        if count == 0 {
            faults.push(format!("no {what} finished: nothing was measured"));
        }
    }
    let rounded = |pair: [f64; 2]| pair.map(|value| (value * 100.0).round() / 100.0);
    Verdict {
        seconds: length.as_secs(),
        frames,
        done: done.clone(),
        memory_mb: rounded(memory),
        handles: rounded(handles),
        threads: rounded(threads),
        frame_ms_p99: rounded(frame),
        memory_growth_percent: rounded([percent(memory); 2])[0],
        kept: faults.is_empty(),
        faults,
    }
}

/// Both ends of the least-squares line through the second half of `values`, which averages out a sawtooth.
fn second_half_trend(values: &[f64]) -> [f64; 2] {
    let half = &values[values.len() / 2..];
    let n = half.len() as f64;
    let (mean_x, mean_y) = ((n - 1.0) / 2.0, half.iter().sum::<f64>() / n);
    let [xy, xx] = half.iter().enumerate().fold([0.0; 2], |[xy, xx], (x, y)| {
        let x = x as f64 - mean_x;
        [xy + x * (y - mean_y), xx + x * x]
    });
    let slope = if xx > 0.0 { xy / xx } else { 0.0 };
    [mean_y - slope * mean_x, mean_y + slope * mean_x]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The verdict on a sawtooth of 20 MB that grows by so much in the second half of an hour.
    fn judged(memory: f64, handles: f64, slow: f64) -> Verdict {
        let samples: Vec<Sample> = (0..3600)
            .map(|second| {
                let late = f64::from((second - 1800).max(0)) / 1800.0;
                let saw = f64::from(second % 40) / 2.0;
                // Warming up is no growth.
                let warm = 100.0 * f64::from(second.min(1200)) / 1200.0;
                Sample {
                    memory: 200.0 + warm + saw + memory * late,
                    handles: 30.0 + handles * late,
                    threads: 20.0,
                }
            })
            .collect();
        let frames: Vec<f64> =
            (0..60).map(|minute| 10.0 + slow * (f64::from(minute) - 30.0).max(0.0) / 30.0).collect();
        let done = Done { looks: 9, evaluations: 2, trainings: 1, error: None };
        judge(Duration::from_hours(1), 9, &samples, &frames, &done)
    }

    #[test]
    fn what_grows_in_the_second_half_is_told_and_a_saw_is_no_growth() {
        let flat = judged(0.0, 0.0, 0.0);
        assert!(flat.kept && flat.faults.is_empty(), "{flat:?}");
        assert!(flat.memory_growth_percent.abs() < 0.2, "{flat:?}");
        assert!((flat.memory_mb[0] - 309.75).abs() < 0.5, "{flat:?}");
        for (verdict, what) in [
            (judged(20.0, 0.0, 0.0), "memory grew by 6."), // 20 of 310 MB
            (judged(0.0, 4.0, 0.0), "open files grew by 4.0"),
            (judged(0.0, 0.0, 8.0), "frames grew by"),
        ] {
            assert_eq!(verdict.faults.len(), 1, "{verdict:?}");
            assert!(!verdict.kept && verdict.faults[0].contains(what), "{verdict:?}");
        }
        let nothing = judge(Duration::from_secs(10), 0, &[], &[], &Done::default());
        assert!(!nothing.kept, "nothing was seen: {nothing:?}");
    }
}
