//! The output of `inspect`: a line for every image and probe, a warning for what was left out, and the files.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::fs;
use std::sync::{Mutex, MutexGuard, PoisonError};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::app::cli::event;
use crate::app::cli::prelude::*;
use crate::app::jobs::inspect::{Explained, Failure, InspectEvent, Summary};
use crate::app::jobs::result_file::ResultFile;
use crate::model::io::{atomic_file, escape::shown, if_there};
use crate::model::reading::Reading;

/// Endings of the files that flags add to those of an image and probe.
const ADDED: [&str; 5] = [".stability.json", ".causal.npz", ".causal.json", ".trace.json", ".gif"];
/// Largest earlier file that is compared, in bytes.
const MAX_BYTES: u64 = 16 << 20;

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
    /// Files that flags have added, until those of the same image and probe that need no flag are written.
    added: BTreeSet<PathBuf>,
    /// Number of files of earlier calls that were removed.
    outdated: usize,
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
    pub fn print_event(&self, inspected: InspectEvent) -> anyhow::Result<()> {
        match inspected {
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
            InspectEvent::File(file) => self.save(&file),
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

    /// Writes a file. If it replaces other numbers, the files that an earlier call added to those are removed: they would be taken
    /// for files of the new numbers.
    fn save(&self, file: &ResultFile) -> anyhow::Result<()> {
        let path = self.out.join(&file.path);
        let is_added = ADDED.iter().any(|ending| path.to_string_lossy().ends_with(ending));
        let stem = path.to_str().and_then(|path| path.strip_suffix(".json")).filter(|_| !is_added);
        let before = stem.and_then(|_| atomic_file::read(&path, MAX_BYTES).ok());
        file.save(&self.out)?;
        let mut progress = self.progress();
        if is_added {
            progress.added.insert(path);
        } else if let Some(stem) = stem {
            let are_others = before.is_some_and(|before| numbers(&before) != numbers(&file.bytes));
            for added in ADDED.map(|ending| PathBuf::from(format!("{stem}{ending}"))) {
                if !progress.added.remove(&added) && are_others {
                    let removed = if_there(fs::remove_file(&added));
                    let removed =
                        removed.with_context(|| format!("{}: cannot be removed", added.display()))?;
                    progress.outdated += usize::from(removed.is_some());
                }
            }
        }
        Ok(())
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
        let Progress { images, failed, rows, summary, outdated, .. } = std::mem::take(&mut *self.progress());
        summary.map_or(Ok(()), Summary::finish)?;
        let done = passed.saturating_sub(failed.len()); // a stopped job may have failed images that did not pass
        let out = self.out.display().to_string();
        if self.json {
            let end = json!({"out": out, "images": images, "images_done": done, "results": rows});
            self.print(event("end", end))?;
        }
        let (all, results) = (counted(images, "image", "images"), counted(rows, "result", "results"));
        if outdated > 0 {
            let files = counted(outdated, "file", "files");
            say!(
                "removed {files} that an earlier call had added to other numbers of the same images and probes"
            );
        }
        say!("{done} of {all} explained, {results} in {out}");
        Ok(if rows == 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS })
    }

    /// Prints a line to standard output; a closed pipe does not stop the run.
    fn print(&self, line: impl Display) -> anyhow::Result<()> {
        self.bar.suspend(|| stdout::line(line))
    }
}

/// What one image and probe have whatever flags there are, and by whatever paths they are named.
fn numbers(json: &[u8]) -> Option<Value> {
    let mut document: Value = serde_json::from_slice(json).ok()?;
    if let Some(fields) = document.as_object_mut() {
        let others = ["image", "probe", "backbone", "attributions", "regions"];
        fields.retain(|name, _| !others.contains(&name.as_str()));
    }
    Some(document)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_earlier_call_added_goes_with_its_numbers() {
        let folder = tempfile::tempdir().unwrap();
        let call = |files: &[&str], content: &str| {
            let report = Report::new(folder.path().into(), false);
            for name in files {
                let file = ResultFile { path: PathBuf::from("image").join(name), bytes: content.into() };
                report.print_event(InspectEvent::File(file)).unwrap();
            }
            let there = fs::read_dir(folder.path().join("image")).unwrap();
            there.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect::<BTreeSet<_>>()
        };
        let set = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<BTreeSet<_>>();
        let first = ["p.npz", "p.trace.json", "p.gif", "p.json", "q.trace.json", "q.json"];
        assert_eq!(call(&first, r#"{"radius": 1}"#), set(&first));
        let again = ["p.causal.npz", "p.causal.json", "p.npz", "p.json"];
        assert_eq!(
            call(&again, r#"{"radius": 1, "image": "by another path", "attributions": {}}"#),
            set(&[&first[..], &again].concat()),
            "the same numbers"
        );
        let others = ["p.npz", "p.trace.json", "p.json"];
        assert_eq!(
            call(&others, r#"{"radius": 2}"#),
            set(&["p.npz", "p.trace.json", "p.json", "q.trace.json", "q.json"])
        );
    }
}
