//! What a run comes to, told as it goes: a row of the summary for every image and probe, a warning
//! for what was left out.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Value, json};

use crate::app::terminal::stdout;
use crate::app::terminal::stdout::say;
use crate::model::explain::diagnostics::MEASURES;
use crate::model::io::atomic_file::Pending;
use crate::model::io::csv_cell::word;
use crate::model::io::escape::shown;
use crate::model::trace::Trace;

/// What one image through one probe came to.
pub struct Row {
    cells: Vec<String>,
    line: String,
    document: Value,
}

/// Something that was left out.
pub struct Failure {
    /// Index of the image among the sources.
    pub image: usize,
    /// The image file.
    pub path: String,
    /// The probe file, where only it failed on the image.
    pub probe: Option<String>,
    /// Why.
    pub error: String,
}

/// Tells what a run comes to.
pub struct Report {
    out: PathBuf,
    images: usize,
    failed: Vec<usize>,
    rows: usize,
    json: bool,
    table: csv::Writer<Pending>,
    bar: ProgressBar,
}

impl Report {
    /// A report of a run over `images` images into the folder `out`.
    pub fn new(out: &Path, images: usize, json: bool) -> anyhow::Result<Self> {
        let file = Pending::new(&out.join(SUMMARY)).with_context(|| unwritable(out))?;
        let mut table = csv::Writer::from_writer(file);
        table.write_record(header()).with_context(|| unwritable(out))?;
        // Hidden by itself where standard error is no terminal.
        let bar = ProgressBar::new(images as u64);
        let template = "{wide_bar} {pos} of {len} images, {eta} left";
        bar.set_style(ProgressStyle::with_template(template).expect("a valid template"));
        Ok(Self { out: out.to_owned(), images, failed: Vec::new(), rows: 0, json, table, bar })
    }

    /// One image went through one probe.
    pub fn row(&mut self, row: Row) -> anyhow::Result<()> {
        self.table.write_record(&row.cells).with_context(|| unwritable(&self.out))?;
        self.rows += 1;
        self.print(if self.json { event("result", row.document) } else { row.line })
    }

    /// Something was left out.
    pub fn failure(&mut self, failure: Failure) -> anyhow::Result<()> {
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
            self.print(event("failure", json!({"image": path, "probe": probe, "error": error})))?;
        }
        Ok(())
    }

    /// So many images are done with, one way or the other.
    pub fn passed(&self, images: usize) {
        self.bar.inc(images as u64);
    }

    /// Puts the summary in its place and says how many images there are. The exit code is a
    /// failure's if nothing was explained.
    pub fn finish(mut self) -> anyhow::Result<ExitCode> {
        self.bar.finish_and_clear();
        self.failed.sort_unstable();
        self.failed.dedup();
        let done = self.bar.position() as usize - self.failed.len(); // it may have been stopped
        let out = self.out.display().to_string();
        if self.json {
            let end = json!({"out": out, "images": self.images, "images_done": done, "results": self.rows});
            self.print(event("end", end))?;
        }
        let file = self.table.into_inner().map_err(csv::IntoInnerError::into_error);
        file.and_then(Pending::finish).with_context(|| unwritable(&self.out))?;
        say!("{done} of {} images explained, {} results in {out}", self.images, self.rows);
        Ok(if self.rows == 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS })
    }

    /// A line to standard output. Whoever stops reading it does not stop the run.
    fn print(&self, line: String) -> anyhow::Result<()> {
        self.bar.suspend(|| stdout::line(line))
    }
}

const SUMMARY: &str = "summary.csv";

fn unwritable(out: &Path) -> String {
    format!("{}: cannot be written", out.join(SUMMARY).display())
}

/// One line of JSON, `event` first.
fn event(name: &str, document: Value) -> String {
    let mut line = json!({"event": name});
    if let (Value::Object(line), Value::Object(document)) = (&mut line, document) {
        line.extend(document);
    }
    line.to_string()
}

impl Row {
    /// A row of what was explained and written to `folder`, with `image` and `probe` being what
    /// the results are called. The line says image, probe, predicted class and its probability.
    pub fn new(trace: &Trace, mut document: Value, folder: &Path, image: &str, probe: &str) -> Self {
        let files = ["npz", "json"].map(|kind| folder.join(format!("{probe}.{kind}")).display().to_string());
        document["files"] = json!(files);
        let best = &trace.top[0];
        let [photo, by, class] = [&trace.image, &trace.probe, &best.name].map(|name| shown(name));
        let mut line = format!("{photo}\t{by}\t{class}\t{:.4}", best.probability);
        if !trace.reading.is_as_trained() {
            line = format!("{line}\t{}", shown(&trace.reading.to_string()));
        }
        Self { cells: cells(trace, &document, image, probe), line, document }
    }
}

fn header() -> Vec<String> {
    let fixed = [
        "image",
        "probe",
        "image_name",
        "probe_name",
        "head",
        "predicted_index",
        "predicted_name",
        "logit",
        "probability",
        "class_index",
        "class_name",
        "class_logit",
        "bias",
        "radius",
        "reading",
    ];
    let parts = ["", "_null_p5", "_null_p95", "_untrained", "_untrained_p5", "_untrained_p95"];
    let measures = MEASURES.iter().flat_map(|m| parts.map(|part| format!("{}{part}", m.name)));
    fixed.map(String::from).into_iter().chain(measures).collect()
}

fn cells(trace: &Trace, document: &Value, image: &str, probe: &str) -> Vec<String> {
    let (best, evidence) = (&trace.top[0], &trace.evidence);
    let some = |value: Option<f64>| value.map_or(String::new(), |value| value.to_string());
    let named = |name: &str| word(name).into_owned();
    let mut cells = vec![
        named(&trace.image),
        named(&trace.probe),
        named(image),
        named(probe),
        trace.head.clone(),
        best.index.to_string(),
        named(&best.name),
        best.logit.to_string(),
        best.probability.to_string(),
        evidence.class.to_string(),
        named(document["class"]["name"].as_str().unwrap_or_default()),
        trace.logits[evidence.class].to_string(),
        evidence.bias.to_string(),
        trace.radius.map_or(String::new(), |radius| radius.to_string()),
        named(&trace.reading.to_string()),
    ];
    for measure in MEASURES {
        let found = trace.diagnostics.get(measure.name);
        let null = found.and_then(|d| d.null);
        let fresh = found.and_then(|d| d.untrained_band);
        cells.extend([
            some(found.map(|d| d.value)),
            some(null.map(|n| n.0)),
            some(null.map(|n| n.1)),
            some(found.and_then(|d| d.untrained)),
            some(fresh.map(|n| n.0)),
            some(fresh.map(|n| n.1)),
        ]);
    }
    cells
}
