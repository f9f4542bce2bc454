//! The sources of figures: files of traces and evaluations, and fixed scans, which need no image.

use std::fmt::Display;
use std::io;

use clap::Arg;

use crate::app::cli::prelude::*;
use crate::model::explain::evaluation::Evaluation;
use crate::model::grid::Grid;
use crate::model::io::atomic_file;
use crate::model::probe::router::scan::Scan;
use crate::model::trace::{Routing, Trace};

/// Largest trace file read: the plan of 4096 tokens as text stays below it.
const MAX_BYTES: u64 = 512 << 20;
/// Largest evaluation read: its vectors take at most half of this, and a third more as base64.
const MAX_EVALUATION_BYTES: u64 = 2 << 30;

/// The flags of the sources, one of which is drawn.
const SOURCES: [&str; 6] = ["trace", "scan", "run", "evaluation", "stability", "causal"];

/// Flags that not every source uses, a source's own among them, and the sources that do.
const FLAG_SOURCES: &[(&[&str], &[&str])] = &[
    (&["trace", "rows", "regions", "opacity", "limits", "proxy_limits"], &["trace"]),
    (&["scan", "patches"], &["scan"]),
    (&["run", "heads", "band"], &["run"]),
    (&["evaluation", "measure", "maps", "classes", "class_search", "class_sort"], &["evaluation"]),
    (&["vectors", "similarity", "color"], &["evaluation"]),
    (&["stability"], &["stability"]),
    (&["causal", "mode", "quantity", "ranking"], &["causal"]),
    (&["columns", "own_scales", "grid", "stills"], &["trace", "scan"]),
    (&["step"], &["trace", "scan", "causal"]),
    (&["map"], &["trace", "scan", "evaluation"]),
    (&["log"], &["trace", "run"]),
    (&["figure"], &["trace", "run", "evaluation", "stability", "causal"]),
];

/// A flag that conflicts with the sources that do not use it. `requires` would not do: clap drops it where what is
/// required conflicts with another flag, as sources do.
pub(super) fn unless_its_source_uses_it(flag: Arg) -> Arg {
    let users = FLAG_SOURCES.iter().find(|(flags, _)| flags.contains(&flag.get_id().as_str()));
    let Some((_, users)) = users else { return flag };
    flag.conflicts_with_all(SOURCES.into_iter().filter(|source| !users.contains(source)))
}

/// Reads a trace; an error if the file cannot be read, is larger than any trace, or is not one.
pub fn trace(path: &Path) -> anyhow::Result<Trace> {
    let bytes = bytes(path, MAX_BYTES)?;
    serde_json::from_slice(&bytes).map_err(|error| {
        let named = path.display();
        // A trace has no prediction: its classes are `top`.
        match serde_json::from_slice::<Value>(&bytes) {
            Ok(result) if result.get("prediction").is_some() => Usage(format!(
                "{named} is a result of `ssmprobe inspect`, not a trace: pass {}, which it writes with --save-traces",
                path.with_extension("trace.json").display()
            ))
            .into(),
            _ => anyhow::Error::new(error).context(format!(
                "{named} is not a trace, which `ssmprobe inspect --save-traces` writes (<probe>.trace.json)"
            )),
        }
    })
}

/// Reads an evaluation; an error if the file cannot be read, is too large, or is not one.
pub fn evaluation(path: &Path) -> anyhow::Result<Evaluation> {
    let text = decoded(path, bytes(path, MAX_EVALUATION_BYTES)?)?;
    Evaluation::from_json(&text).with_context(|| path.display().to_string())
}

/// Reads a file of text; an error if it cannot be read, is too large, or is not UTF-8.
pub fn text(path: &Path) -> anyhow::Result<String> {
    decoded(path, bytes(path, MAX_BYTES)?)
}

fn decoded(path: &Path, bytes: Vec<u8>) -> anyhow::Result<String> {
    String::from_utf8(bytes).with_context(|| format!("{} is not a text file", path.display()))
}

/// Reads a file of at most `limit` bytes.
fn bytes(path: &Path, limit: u64) -> anyhow::Result<Vec<u8>> {
    atomic_file::read(path, limit).map_err(|error| read_error(path.display(), error))
}

/// The error of a file that cannot be read; one that does not exist, or a folder, is a wrong use of the command line.
pub fn read_error(named: impl Display, error: io::Error) -> anyhow::Error {
    match error.kind() {
        io::ErrorKind::NotFound => Usage(format!("cannot read {named}: no such file; check the path")).into(),
        io::ErrorKind::InvalidInput => Usage(format!("cannot read {named}: {error}; check the path")).into(),
        _ => anyhow::Error::new(error).context(format!("cannot read {named}")),
    }
}

/// A trace with the orders of a fixed scan and no image, as the paper's figure of scans shows them.
pub fn scan_trace(scan: &Scan, grid: Grid) -> Trace {
    let order = |order: Vec<usize>| order.into_iter().map(|token| token as u32).collect();
    let routing = Routing::Orders(scan.orders(grid).into_iter().map(order).collect());
    Trace { head: scan.id.to_owned(), grid, routing, ..Trace::default() }
}

/// Parses a patch grid such as `14x14`, rows first: two numbers from 1 to 64.
pub fn grid(text: &str) -> Result<Grid, String> {
    let sides = text.split_once('x').and_then(|(rows, cols)| Some((rows.parse().ok()?, cols.parse().ok()?)));
    match sides {
        Some((rows, cols)) if (1..=64).contains(&rows) && (1..=64).contains(&cols) => Ok(Grid { rows, cols }),
        _ => Err("expected rows and columns, 1 to 64 of each, such as 14x14".to_owned()),
    }
}
