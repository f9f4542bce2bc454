//! Findings as files to share: one HTML page with the author's notes, or a folder of figures with the traces that they are
//! drawn from and the commands that draw them again.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context as _;

use super::html::{FIGURES, Page, Part, WIDTH_MM, plot, probe_name};
use crate::app::jobs::Cancel;
use crate::app::jobs::user_error::UserError;
use crate::app::paths;
use crate::app::state::Finding;
use crate::app::state::share::{Share, ShareKind, Shared, SharedFinding};
use crate::model::io::{atomic_file, temporary};
use crate::model::trace::Trace;
use crate::viz::draw::theme::FileTheme;
use crate::viz::draw::{Table, Theme};
use crate::viz::export::{ExportFormat, PNG_DPI};
use crate::viz::figures::plot::Plot as _;
use crate::viz::figures::token_map::class_name;
use crate::viz::figures::trace_plot::TracePlot;
use crate::viz::file_names::stem;
use crate::viz::{self, Figure, Options, difference, export};

/// Longest part of a file name that comes from an image, a probe or a class, in characters.
const MAX_NAME_CHARS: usize = 60;

/// Writes the findings and returns their path. If that fails or is cancelled, the path stays as it was.
///
/// # Errors
/// If it was cancelled, or cannot be written: why, and what to do.
pub fn write(shared: &Shared, cancel: &Cancel) -> Result<PathBuf, UserError> {
    let to = &shared.share.to;
    let written = match shared.share.kind {
        ShareKind::Page => page(shared)
            .html_unless(&|| cancel.is_cancelled())
            .context("Cancelled")
            .and_then(|html| paths::write(to, html.as_bytes())),
        ShareKind::Figures => write_figures(shared, cancel),
    };
    let remedy =
        "Choose another location in Share…, or free up disk space and check that you may write there";
    written.map(|()| to.clone()).map_err(|error| UserError::from_error(error).remedy(remedy))
}

/// Estimated sizes in bytes: without any explanation, and of each that is like that of `trace`.
pub fn estimate(share: &Share, trace: &Arc<Trace>) -> [u64; 2] {
    let sizes = match share.kind {
        ShareKind::Page => {
            let size = |traces| Page { figures: FIGURES.to_vec(), ..Page::from_traces(traces) }.html().len();
            let empty = size(Vec::new());
            [empty, size(vec![trace.clone()]) - empty]
        }
        ShareKind::Figures => {
            let theme = share.theme.theme();
            let size = |(figure, options)| {
                let plot = plot(figure, trace, &[trace], options);
                encoded(&plot, &theme, share.format).map_or(0, |file| file.map_or(0, |file| file.len()))
            };
            let figures = figures_of(share.findings.first()).into_iter().map(size);
            [0, figures.sum::<usize>() + json(trace).len()]
        }
    };
    sizes.map(|bytes| bytes as u64)
}

/// The page of the findings, one part each.
pub fn page(shared: &Shared) -> Page {
    let part = |shared: &SharedFinding| Part {
        note: Some(shared.finding.note.clone()).filter(|note| !note.is_empty()),
        traces: shared.traces.clone(),
    };
    Page {
        title: shared.share.title.clone(),
        parts: shared.findings.iter().map(part).collect(),
        truth: shared.truth.clone(),
        figures: FIGURES.to_vec(),
        facts: shared.facts.clone(),
        theme: Some(shared.share.theme).filter(|theme| *theme != FileTheme::Print).map(FileTheme::id),
        ..Page::default()
    }
}

fn write_figures(shared: &Shared, cancel: &Cancel) -> anyhow::Result<()> {
    let to = &shared.share.to;
    if temporary::is_empty(to).is_ok_and(|is_empty| !is_empty) {
        anyhow::bail!("{}: the folder is not empty; choose an empty or new one", to.display());
    }
    atomic_file::write_folder(to, |inside| fill_folder(shared, inside, cancel))
        .with_context(|| format!("{}: cannot be written", to.display()))
}

fn fill_folder(shared: &Shared, to: &Path, cancel: &Cancel) -> anyhow::Result<()> {
    let (theme_name, theme) = (shared.share.theme.id(), shared.share.theme.theme());
    let mut commands = String::new();
    for (number, SharedFinding { finding, traces, pinned }) in (1..).zip(&shared.findings) {
        let image = &finding.image;
        let row = image.row.map_or_else(String::new, |row| format!("-row-{row}"));
        let folder = format!("{number:02}-{}{row}", file_safe(stem(&image.path.to_string_lossy())));
        atomic_file::make_folder(&to.join(&folder))?;
        if !finding.note.is_empty() {
            atomic_file::write(&to.join(&folder).join("note.md"), format!("{}\n", finding.note).as_bytes())?;
        }
        let views = finding.view.as_ref().map(|view| &view.views);
        let shares_scales = views.is_none_or(|views| views.shared);
        let prefix = |(number, trace): (usize, &Arc<Trace>)| {
            let class = match shared.share.classes.is_empty() {
                true => String::new(),
                false => format!("-for-{}", file_safe(&class_name(trace))),
            };
            format!("{folder}/{number}-{}{class}", file_safe(&probe_name(trace, std::iter::empty())))
        };
        let prefixes: Vec<String> = (1..).zip(traces).map(prefix).collect();
        for (trace, prefix) in traces.iter().zip(&prefixes) {
            let same_class = |own: &&Arc<Trace>| own.evidence.class == trace.evidence.class;
            let pinned = pinned.iter().find(same_class).or(pinned.first());
            let pinned = pinned.filter(|_| views.is_some_and(|views| views.difference));
            let is_pinned = pinned.is_some_and(|pinned| Arc::ptr_eq(pinned, trace));
            // Beside differences, what they are from is alone on its scale.
            let shares_scale = shares_scales && !is_pinned;
            let of_row = |other: &&Arc<Trace>| {
                if shares_scale { other.image == trace.image } else { Arc::ptr_eq(other, trace) }
            };
            let place = |pinned: &Arc<Trace>| traces.iter().position(|one| Arc::ptr_eq(one, pinned));
            let against = pinned.filter(|_| !is_pinned).and_then(place);
            let (minus, from) = against.map_or_else(Default::default, |at| {
                ("-difference", format!(" --against {}.trace.json", prefixes[at]))
            });
            let row: Vec<&Arc<Trace>> = traces.iter().filter(of_row).collect();
            atomic_file::write(&to.join(format!("{prefix}.trace.json")), &json(trace))?;
            for (figure, options) in figures_of(Some(finding)) {
                cancel.check().map_err(|_| anyhow::anyhow!("Cancelled"))?;
                let plot = drawn(figure, trace, &row, options, against.map(|at| &traces[at]));
                let Some(bytes) = encoded(&plot, &theme, shared.share.format)? else { continue };
                let file = format!("{prefix}-{}{minus}.{}", figure.id(), shared.share.format.id());
                atomic_file::write(&to.join(&file), &bytes)?;
                let command = plot.caption().command;
                commands.push_str(&format!(
                    "ssmprobe figures --trace {prefix}.trace.json{from} {command} --width {WIDTH_MM} --theme {theme_name} --out {file}\n"
                ));
            }
        }
    }
    if commands.is_empty() {
        anyhow::bail!(
            "none of the figures that are shown can be drawn for these probes; show others, and share again"
        );
    }
    Ok(atomic_file::write(&to.join("commands.txt"), commands.as_bytes())?)
}

/// The plot of a trace, or of its difference from `against`, on the scale of those of `row`.
fn drawn(
    figure: &'static dyn Figure,
    trace: &Arc<Trace>,
    row: &[&Arc<Trace>],
    options: Options,
    against: Option<&Arc<Trace>>,
) -> TracePlot {
    let Some(against) = against else { return plot(figure, trace, row, options) };
    let others = row.iter().filter(|other| !Arc::ptr_eq(other, against));
    let minus = |other: &&Arc<Trace>| difference::shown(figure, other, against).ok().map(Arc::new);
    let differences: Vec<Arc<Trace>> = others.filter_map(minus).collect();
    let own = minus(&trace).unwrap_or_else(|| trace.clone());
    let plot = plot(figure, &own, &differences.iter().collect::<Vec<_>>(), options);
    TracePlot { traces: vec![trace.clone()], against: Some(against.clone()), ..plot }
}

/// The figures of a finding's comparison; the default ones of a page where it has none.
fn figures_of(finding: Option<&Finding>) -> Vec<(&'static dyn Figure, Options)> {
    let views = finding.and_then(|finding| Some(&finding.view.as_ref()?.views));
    let Some(views) = views.filter(|views| !views.rows.is_empty()) else {
        return FIGURES.map(|figure| (figure, Options::default())).to_vec();
    };
    let shown = viz::FIGURES.iter().filter(|figure| views.rows.contains(figure.id()));
    shown.map(|figure| (*figure, views.figure_options(figure.id()))).collect()
}

/// A figure as `ssmprobe figures` writes it in a format; `None` if there is nothing to draw.
fn encoded(plot: &TracePlot, theme: &Theme, format: ExportFormat) -> anyhow::Result<Option<Vec<u8>>> {
    let Ok(scene) = plot.draw_column(theme, export::points(WIDTH_MM)) else { return Ok(None) };
    let (file, about) = (Path::new("figure").with_extension(format.id()), plot.caption().about);
    Ok(Some(export::encoded(&file, &scene, &Table::default(), &about, PNG_DPI)?))
}

fn json(trace: &Trace) -> Vec<u8> {
    serde_json::to_vec(trace).expect("plain data serialises")
}

/// A name for any file system and shell, in which `-` replaces all but ASCII letters, digits and `_`.
fn file_safe(name: &str) -> String {
    let replace = |c: char| if c.is_ascii_alphanumeric() || c == '_' { c } else { '-' };
    let name: String = name.chars().map(replace).take(MAX_NAME_CHARS).collect();
    if name.trim_matches('-').is_empty() { "unnamed".to_owned() } else { name }
}
