//! `summary.csv`: a row for every image and probe.

use std::path::{Path, PathBuf};

use anyhow::Context;
use serde_json::Value;

use crate::model::explain::diagnostics::MEASURES;
use crate::model::io::atomic_file::Pending;
use crate::model::io::csv_cell::escape_formula;
use crate::model::trace::Trace;

/// The table; it appears under its final name once [`finish`](Self::finish) is called.
pub struct Summary {
    path: PathBuf,
    table: csv::Writer<Pending>,
}

impl Summary {
    /// A table in the folder `out` with its header and no rows.
    pub fn new(out: &Path) -> anyhow::Result<Self> {
        let path = out.join("summary.csv");
        let file = Pending::new(&path).with_context(|| unwritable(&path))?;
        let mut summary = Self { path, table: csv::Writer::from_writer(file) };
        summary.row(&header())?;
        Ok(summary)
    }

    /// Adds a row.
    pub fn row(&mut self, cells: &[String]) -> anyhow::Result<()> {
        self.table.write_record(cells).with_context(|| unwritable(&self.path))
    }

    /// Completes the file and moves it to its final name.
    pub fn finish(self) -> anyhow::Result<()> {
        let file = self.table.into_inner().map_err(csv::IntoInnerError::into_error);
        file.and_then(Pending::finish).with_context(|| unwritable(&self.path))
    }
}

fn unwritable(path: &Path) -> String {
    format!("{}: cannot be written", path.display())
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

/// The cells of a trace, where `image` and `probe` are the names of the results.
pub(super) fn cells(trace: &Trace, document: &Value, image: &str, probe: &str) -> Vec<String> {
    let (best, evidence) = (&trace.top[0], &trace.evidence);
    let some = |value: Option<f64>| value.map_or(String::new(), |value| value.to_string());
    let named = |name: &str| escape_formula(name).into_owned();
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
