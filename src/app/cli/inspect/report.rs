//! What a run comes to, told as it goes: a line for every image and probe, a warning for what was left out.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Mutex, MutexGuard, PoisonError};

use anyhow::Context;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::{Value, json};

use crate::app::jobs::inspect::{Explained, Failure, InspectEvent, Summary};
use crate::app::terminal::stdout::say;
use crate::app::terminal::{interrupt, stdout};
use crate::model::io::{atomic_file, escape::shown};
use crate::model::reading::Reading;

/// Tells what a run comes to, and keeps its files.
pub struct Report {
    out: PathBuf,
    json: bool,
    bar: ProgressBar,
    run: Mutex<Run>,
}

/// What a run has come to so far.
#[derive(Default)]
struct Run {
    images: usize,
    failed: BTreeSet<usize>,
    rows: usize,
    summary: Option<Summary>,
}

impl Report {
    /// A report of a run into the folder `out`.
    pub fn new(out: PathBuf, json: bool) -> Self {
        // Hidden by itself where standard error is no terminal, and until it is known how many images there are.
        let bar = ProgressBar::hidden();
        let template = "{wide_bar} {pos} of {len} images, {eta} left";
        bar.set_style(ProgressStyle::with_template(template).expect("a valid template"));
        Self { out, json, bar, run: Mutex::default() }
    }

    fn run(&self) -> MutexGuard<'_, Run> {
        self.run.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the job tells, on whichever thread.
    pub fn tell(&self, told: InspectEvent) -> anyhow::Result<()> {
        match told {
            InspectEvent::Begun(images) => {
                atomic_file::make_folder(&self.out)
                    .with_context(|| format!("{}: the output folder cannot be made", self.out.display()))?;
                self.bar.set_length(images as u64);
                self.bar.set_draw_target(ProgressDrawTarget::stderr());
                *self.run() = Run { images, summary: Some(Summary::new(&self.out)?), ..Run::default() };
                Ok(())
            }
            InspectEvent::File(file) => file.save(&self.out),
            InspectEvent::Explained(Explained { mut document, cells, files }) => {
                let mut run = self.run();
                run.rows += 1;
                run.summary.as_mut().map_or(Ok(()), |summary| summary.row(&cells))?;
                let files = files.map(|file| self.out.join(file).display().to_string());
                document["files"] = files.to_vec().into();
                self.print(if self.json { line("result", document) } else { words(&document) })
            }
            InspectEvent::Failed(failure) => self.failure(failure),
            InspectEvent::Note(text) => {
                self.bar.suspend(|| say!("{text}"));
                Ok(())
            }
            InspectEvent::Passed(images) => {
                self.bar.inc(images as u64);
                Ok(())
            }
        }
    }

    fn failure(&self, failure: Failure) -> anyhow::Result<()> {
        let Failure { image, path, probe, error } = failure;
        let through = probe.as_ref().map_or(String::new(), |probe| format!(" through {probe}"));
        // Errors of files name the file themselves.
        let place = if error.starts_with(&path) && probe.is_none() {
            String::new()
        } else {
            format!("{path}{through}: ")
        };
        self.bar.suspend(|| say!("warning: left out: {}", shown(&format!("{place}{error}"))));
        self.run().failed.insert(image);
        if self.json {
            self.print(line("failure", json!({"image": path, "probe": probe, "error": error})))?;
        }
        Ok(())
    }

    /// Writes the summary and says how many images there are. The exit code is a failure's if nothing was explained.
    pub fn finish(&self) -> anyhow::Result<ExitCode> {
        let _working = interrupt::working();
        let passed = self.bar.position() as usize; // the end of a bar makes it whole
        self.bar.finish_and_clear();
        let Run { images, failed, rows, summary } = std::mem::take(&mut *self.run());
        summary.map_or(Ok(()), Summary::finish)?;
        let done = passed.saturating_sub(failed.len()); // it may have been stopped
        let out = self.out.display().to_string();
        if self.json {
            let end = json!({"out": out, "images": images, "images_done": done, "results": rows});
            self.print(line("end", end))?;
        }
        say!("{done} of {images} images explained, {rows} results in {out}");
        Ok(if rows == 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS })
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
