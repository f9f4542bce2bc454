//! What a run comes to, told as it goes: a line for every image and probe, a warning for what was left out.

use std::path::PathBuf;
use std::process::ExitCode;

use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Value, json};

use crate::app::jobs::inspect::{Event, Failure};
use crate::app::terminal::stdout;
use crate::app::terminal::stdout::say;
use crate::model::io::escape::shown;
use crate::model::reading::Reading;

/// Tells what a run comes to.
pub struct Report {
    out: PathBuf,
    images: usize,
    failed: Vec<usize>,
    rows: usize,
    json: bool,
    bar: ProgressBar,
}

impl Report {
    /// A report of a run over `images` images into the folder `out`.
    pub fn new(out: PathBuf, images: usize, json: bool) -> Self {
        // Hidden by itself where standard error is no terminal.
        let bar = ProgressBar::new(images as u64);
        let template = "{wide_bar} {pos} of {len} images, {eta} left";
        bar.set_style(ProgressStyle::with_template(template).expect("a valid template"));
        Self { out, images, failed: Vec::new(), rows: 0, json, bar }
    }

    /// What the job tells.
    pub fn tell(&mut self, event: Event) -> anyhow::Result<()> {
        match event {
            Event::Explained(document) => {
                self.rows += 1;
                self.print(if self.json { line("result", document) } else { words(&document) })
            }
            Event::Failed(failure) => self.failure(failure),
            Event::Note(text) => {
                self.bar.suspend(|| say!("{text}"));
                Ok(())
            }
            Event::Passed(images) => {
                self.bar.inc(images as u64);
                Ok(())
            }
        }
    }

    fn failure(&mut self, failure: Failure) -> anyhow::Result<()> {
        let Failure { image, path, probe, error } = failure;
        let through = probe.as_ref().map_or(String::new(), |probe| format!(" through {probe}"));
        // Errors of files name the file themselves.
        let place = if error.starts_with(&path) && probe.is_none() {
            String::new()
        } else {
            format!("{path}{through}: ")
        };
        self.bar.suspend(|| say!("warning: left out: {}", shown(&format!("{place}{error}"))));
        self.failed.push(image);
        if self.json {
            self.print(line("failure", json!({"image": path, "probe": probe, "error": error})))?;
        }
        Ok(())
    }

    /// Says how many images there are. The exit code is a failure's if nothing was explained.
    pub fn finish(mut self) -> anyhow::Result<ExitCode> {
        self.bar.finish_and_clear();
        self.failed.sort_unstable();
        self.failed.dedup();
        let done = self.bar.position() as usize - self.failed.len(); // it may have been stopped
        let out = self.out.display().to_string();
        if self.json {
            let end = json!({"out": out, "images": self.images, "images_done": done, "results": self.rows});
            self.print(line("end", end))?;
        }
        say!("{done} of {} images explained, {} results in {out}", self.images, self.rows);
        Ok(if self.rows == 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS })
    }

    /// A line to standard output. Whoever stops reading it does not stop the run.
    fn print(&self, line: String) -> anyhow::Result<()> {
        self.bar.suspend(|| stdout::line(line))
    }
}

/// One line of JSON, `event` first.
fn line(event: &str, document: Value) -> String {
    let mut line = json!({"event": event});
    if let (Value::Object(line), Value::Object(document)) = (&mut line, document) {
        line.extend(document);
    }
    line.to_string()
}

/// Image, probe, predicted class and its probability.
fn words(document: &Value) -> String {
    let best = &document["prediction"][0];
    let [image, probe, class] = [&document["image"], &document["probe"], &best["name"]]
        .map(|name| shown(name.as_str().unwrap_or_default()));
    let mut line =
        format!("{image}\t{probe}\t{class}\t{:.4}", best["probability"].as_f64().unwrap_or(f64::NAN));
    if let Some(reading) =
        document["reading"].as_str().filter(|reading| *reading != Reading::default().to_string())
    {
        line = format!("{line}\t{}", shown(reading));
    }
    line
}
