//! Writes a scene to a file: SVG and PDF as vector graphics with text as text, PNG at a chosen resolution;
//! its numbers as CSV or NPZ. The same scene gives the same bytes on every machine: no format stores a
//! time. PDF and PNG contain the typeface; an SVG names it. Only letters that it lacks are set in a font of the machine. Files
//! are written atomically.

mod convert;
mod format;
mod gif;
mod indexed;
mod numbers;
mod svg;
mod system_fonts;

use std::collections::BTreeSet;
use std::fmt::Display;
use std::path::{Path, PathBuf};

pub use convert::{pdf, png};
pub use format::{ExportFormat, has_extension};
pub use gif::{GIF_DPI, PNG_DPI, gif, steps};
pub use indexed::HEAD as INDEXED_HEAD;
pub use numbers::{csv, npz, tsv};
pub use svg::{escape_markup, svg};
pub use system_fonts::{SystemFont, system_font};

use crate::model::io::atomic_file;
use crate::viz::Empty;
use crate::viz::draw::scene::Item;
use crate::viz::draw::{Scene, Shape, Table, font};

/// Why nothing was written.
#[expect(missing_docs, reason = "each message says what it is and what its fields are")]
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    #[error("cannot write {path}: {source}")]
    Write { path: PathBuf, source: std::io::Error },
    #[error("{path}: cannot tell the format from its extension; use .svg, .pdf, .png, .gif, .csv or .npz")]
    Ending { path: PathBuf },
    #[error(
        "{path}: a GIF animates the reading step by step: pass --trace or --scan, and scan_path, evidence, kernel or assignment as --figure"
    )]
    Still { path: PathBuf },
    #[error(
        "{width} x {height} pixels are too many (at most {MAX_PIXELS} each way); lower the dpi or the width"
    )]
    Large { width: u32, height: u32 },
    #[error("the figure could not be converted to {format}: {why}; this is a bug, please report it")]
    Convert { format: &'static str, why: String },
    /// The figure has nothing to show, or shows no steps.
    #[error(transparent)]
    Empty(#[from] Empty),
    #[error("Cancelled")]
    Cancelled,
}

/// The error of a converter to `format`.
fn failed<E: Display>(format: &'static str) -> impl Fn(E) -> ExportError {
    move |error| ExportError::Convert { format, why: error.to_string() }
}

/// Most pixels of a side of a PNG.
pub const MAX_PIXELS: u32 = 16_384;
/// Name and version of this program, for the files' metadata.
pub const MADE_BY: &str = concat!("SSMProbe ", env!("CARGO_PKG_VERSION"));
const POINTS_PER_MM: f32 = 72.0 / 25.4;

/// A length in millimetres, in points.
pub fn points(mm: f32) -> f32 {
    mm * POINTS_PER_MM
}

/// Height of the text area of an A4 page, in mm.
const PAGE_MM: f32 = 247.0;

/// A warning for a picture that is taller than a page; `None` for others.
pub fn higher_than_page(scene: &Scene) -> Option<String> {
    let height = scene.height / POINTS_PER_MM;
    let what = "draw fewer figures at a time, or more probes side by side";
    (height > PAGE_MM).then(|| format!("It is {height:.0} mm high, more than a page ({PAGE_MM} mm): {what}"))
}

/// The letters of a scene that the typeface lacks.
fn foreign_letters(scene: &Scene) -> BTreeSet<char> {
    fn collect(items: &[Item], missing: &mut BTreeSet<char>) {
        for item in items {
            match &item.shape {
                Shape::Text { text, .. } => missing.extend(text.chars().filter(|c| !font::has(*c))),
                Shape::Group { items, .. } => collect(items, missing),
                _ => {}
            }
        }
    }
    let mut missing = BTreeSet::new();
    collect(&scene.items, &mut missing);
    missing
}

/// A warning for a picture with letters that neither the typeface nor a font of the machine has; `None` for others.
pub fn missing_letters(scene: &Scene) -> Option<String> {
    let missing = foreign_letters(scene).into_iter().filter(|letter| system_font(*letter).is_none());
    let some: String = missing.take(20).collect();
    let what = "No font of this machine has some characters, which become empty boxes in PDF, PNG and GIF; an SVG shows them \
                where a font has them";
    (!some.is_empty()).then(|| format!("{what}: {some}"))
}

/// Why the numbers of a comparison are not written.
pub const NO_NUMBERS: &str = "numbers are written for one trace and one figure at a time: draw that figure by itself, or \
                              choose SVG, PDF or PNG";

/// Writes the figure or its numbers to `path`, in the format of its extension.
pub fn save(path: &Path, scene: &Scene, table: &Table, about: &str, dpi: f32) -> Result<(), ExportError> {
    write(path, &encoded(path, scene, table, about, dpi)?)
}

/// The bytes that [`save`] writes.
pub fn encoded(
    path: &Path,
    scene: &Scene,
    table: &Table,
    about: &str,
    dpi: f32,
) -> Result<Vec<u8>, ExportError> {
    match ExportFormat::of(path) {
        Some(ExportFormat::Svg) => Ok(svg(scene, about).into_bytes()),
        Some(ExportFormat::Pdf) => pdf(scene, about),
        Some(ExportFormat::Png) => png(scene, about, dpi),
        Some(ExportFormat::Gif) => Err(ExportError::Still { path: path.to_owned() }),
        Some(ExportFormat::Csv) => csv(table, &scene.title, about),
        Some(ExportFormat::Npz) => npz(table, &scene.title, about),
        None => Err(ExportError::Ending { path: path.to_owned() }),
    }
}

/// Writes a file atomically: to a temporary file beside it, which then takes its place.
pub fn write(path: &Path, bytes: &[u8]) -> Result<(), ExportError> {
    atomic_file::write(path, bytes).map_err(|source| ExportError::Write { path: path.to_owned(), source })
}
