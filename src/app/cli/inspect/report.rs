//! The output of `inspect`: a line for every image and probe, a warning for what was left out, and the files.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::sync::{Mutex, MutexGuard, PoisonError};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::app::cli::event;
use crate::app::cli::prelude::*;
use crate::app::jobs::inspect::{Explained, Failure, InspectEvent, Summary};
use crate::model::io::{atomic_file, escape::shown};
use crate::model::reading::Reading;

/// Prints the events of the job, and writes its files.
pub struct Report {
    out: PathBuf,
    json: bool,
    bar: ProgressBar,
    progress: Mutex<Progress>,
}

/// The state of the job so far.
#[derive(Default)]
struct Progress {
    images: usize,
    /// Images that failed, through at least one probe.
    failed: BTreeSet<usize>,
    rows: usize,
    summary: Option<Summary>,
}

impl Report {
    /// A report that writes to the folder `out`.
    pub fn new(out: PathBuf, json: bool) -> Self {
        // Hidden by itself where standard error is no terminal, and until it is known how many images there are.
        let bar = ProgressBar::hidden();
        let template = "{wide_bar} {pos} of {len} images, {eta} left";
        bar.set_style(ProgressStyle::with_template(template).expect("a valid template"));
        Self { out, json, bar, progress: Mutex::default() }
    }

    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Prints an event or writes its file, on any thread.
    pub fn print_event(&self, told: InspectEvent) -> anyhow::Result<()> {
        match told {
            InspectEvent::Begun(images) => {
                atomic_file::make_folder(&self.out).with_context(|| {
                    format!("{}: the output folder cannot be created", self.out.display())
                })?;
                self.bar.set_length(images as u64);
                self.bar.set_draw_target(ProgressDrawTarget::stderr());
                let summary = Some(Summary::new(&self.out)?);
                *self.progress() = Progress { images, summary, ..Progress::default() };
                Ok(())
            }
            InspectEvent::File(file) => file.save(&self.out),
            InspectEvent::Explained(Explained { mut document, cells, files }) => {
                let mut progress = self.progress();
                progress.rows += 1;
                progress.summary.as_mut().map_or(Ok(()), |summary| summary.row(&cells))?;
                let files = files.map(|file| self.out.join(file).display().to_string());
                document["files"] = files.to_vec().into();
                if self.json {
                    self.print(event("result", document))
                } else {
                    self.print(text_line(&document))
                }
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
        self.progress().failed.insert(image);
        if self.json {
            self.print(event("failure", json!({"image": path, "probe": probe, "error": error})))?;
        }
        Ok(())
    }

    /// Writes the summary and prints the number of images. The exit code is a failure's if nothing was explained.
    pub fn finish(&self) -> anyhow::Result<ExitCode> {
        let _working = interrupt::working();
        let passed = self.bar.position() as usize; // before the bar is finished, which sets it to its length
        self.bar.finish_and_clear();
        let Progress { images, failed, rows, summary } = std::mem::take(&mut *self.progress());
        summary.map_or(Ok(()), Summary::finish)?;
        let done = passed.saturating_sub(failed.len()); // a stopped job may have failed images that did not pass
        let out = self.out.display().to_string();
        if self.json {
            let end = json!({"out": out, "images": images, "images_done": done, "results": rows});
            self.print(event("end", end))?;
        }
        let (all, results) = (counted(images, "image", "images"), counted(rows, "result", "results"));
        say!("{done} of {all} explained, {results} in {out}");
        Ok(if rows == 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS })
    }

    /// Prints a line to standard output; a closed pipe does not stop the run.
    fn print(&self, line: impl Display) -> anyhow::Result<()> {
        self.bar.suspend(|| stdout::line(line))
    }
}

/// Image, probe, predicted class, its probability and any reading but the default, with tabs between.
fn text_line(document: &Value) -> String {
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
