//! Findings as files for others: one page with the author's notes, or a folder of figures with the traces that they are
//! drawn from and the commands that draw them again.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context as _;

use super::html::{FIGURES, Page, Part, WIDTH_MM, plot, probe_name};
use crate::app::jobs::Cancel;
use crate::app::state::share::{Share, ShareKind, ShareTheme, Shared, SharedFinding};
use crate::app::user_error::UserError;
use crate::model::io::atomic_file;
use crate::model::trace::Trace;
use crate::viz::draw::Theme;
use crate::viz::figures::plot::{Plot as _, stem};
use crate::viz::figures::token_map::class_name;
use crate::viz::{Figure, export, find};

/// Longest name of an image or a probe within a file's, in characters.
const NAME: usize = 60;

/// Writes them where they are to go; where that is. What was begun and called off leaves nothing behind.
///
/// # Errors
/// If it was called off, or a file cannot be written: which, why, and what to do.
pub fn write(shared: &Shared, cancel: &Cancel) -> Result<PathBuf, UserError> {
    let to = &shared.share.to;
    let written = match shared.share.kind {
        ShareKind::Page => write_page(shared, cancel),
        ShareKind::Figures => write_figures(shared, cancel),
    };
    let remedy = "Choose another place in Share…, or make room and see that you may write there";
    written.map(|()| to.clone()).map_err(|error| UserError::from_error(error).remedy(remedy))
}

/// About how many bytes `explanations` like that of `trace` come to.
pub fn estimate(share: &Share, trace: &Arc<Trace>, explanations: usize) -> u64 {
    let bytes = match share.kind {
        ShareKind::Page => {
            let size = |traces| Page { figures: figures(), ..Page::of(traces) }.html().len();
            let none = size(Vec::new());
            none + explanations * (size(vec![trace.clone()]) - none)
        }
        ShareKind::Figures => {
            let (_, theme) = theme(share.theme);
            let svg = |figure| svg(figure, trace, &[trace], &theme).map_or(0, |(svg, _)| svg.len());
            let own: usize = figures().into_iter().map(svg).sum();
            explanations * (own + json(trace).len())
        }
    };
    bytes as u64
}

/// The page.
pub fn page(shared: &Shared) -> Page {
    let part = |one: &SharedFinding| Part {
        note: Some(one.finding.note.clone()).filter(|note| !note.is_empty()),
        traces: one.traces.clone(),
    };
    Page {
        title: shared.share.title.clone(),
        parts: shared.findings.iter().map(part).collect(),
        truth: shared.truth.clone(),
        figures: figures(),
        facts: shared.facts.clone(),
        theme: Some(theme(shared.share.theme).0).filter(|theme| *theme != "print"),
        ..Page::default()
    }
}

fn write_page(shared: &Shared, cancel: &Cancel) -> anyhow::Result<()> {
    let html = page(shared).html_unless(&|| cancel.is_cancelled()).context("Cancelled")?;
    put(&shared.share.to, html.as_bytes())
}

fn write_figures(shared: &Shared, cancel: &Cancel) -> anyhow::Result<()> {
    let to = &shared.share.to;
    let was_there = to.is_dir();
    if std::fs::read_dir(to).is_ok_and(|mut entries| entries.next().is_some()) {
        anyhow::bail!("{}: holds something already; an empty folder or a new one is needed", to.display());
    }
    let written = fill(shared, cancel);
    if written.is_err() {
        // Half of them would be taken for all. What cannot be removed either is told by the first error.
        std::fs::remove_dir_all(to).ok();
        if was_there {
            atomic_file::make_folder(to)?;
        }
    }
    written
}

fn fill(shared: &Shared, cancel: &Cancel) -> anyhow::Result<()> {
    let to = &shared.share.to;
    let (name, theme) = theme(shared.share.theme);
    let mut commands = String::new();
    for (number, one) in (1..).zip(&shared.findings) {
        let image = &one.finding.image;
        let row = image.row.map_or_else(String::new, |row| format!("-row-{row}"));
        let folder = format!("{number:02}-{}{row}", plain(&stem(&image.path.to_string_lossy())));
        atomic_file::make_folder(&to.join(&folder))
            .with_context(|| format!("{}: cannot be made", to.join(&folder).display()))?;
        if !one.finding.note.is_empty() {
            put(&to.join(&folder).join("note.md"), format!("{}\n", one.finding.note).as_bytes())?;
        }
        for (number, trace) in (1..).zip(&one.traces) {
            let class = match shared.share.classes.is_empty() {
                true => String::new(),
                false => format!("-for-{}", plain(&class_name(trace))),
            };
            let file = format!("{folder}/{number}-{}{class}", plain(&probe_name(trace)));
            let row: Vec<&Arc<Trace>> =
                one.traces.iter().filter(|other| other.image == trace.image).collect();
            put(&to.join(format!("{file}.trace.json")), &json(trace))?;
            for figure in figures() {
                cancel.check().map_err(|_| anyhow::anyhow!("Cancelled"))?;
                let Some((svg, command)) = svg(figure, trace, &row, &theme) else { continue };
                let own = format!("{file}-{}.svg", figure.id());
                put(&to.join(&own), svg.as_bytes())?;
                commands.push_str(&format!(
                    "ssmprobe figures --trace {file}.trace.json {command} --width {WIDTH_MM} --theme {name} --out {own}\n"
                ));
            }
        }
    }
    put(&to.join("commands.txt"), commands.as_bytes())
}

/// A figure as `ssmprobe figures` writes it, and how it is asked to; nothing where there is nothing to see.
fn svg(
    figure: &'static dyn Figure,
    trace: &Arc<Trace>,
    row: &[&Arc<Trace>],
    theme: &Theme,
) -> Option<(String, String)> {
    let plot = plot(figure, trace, row);
    let scene = plot.draw_column(theme, export::points(WIDTH_MM)).ok()?;
    let caption = plot.caption();
    Some((export::svg(&scene, &caption.about), caption.command))
}

fn figures() -> Vec<&'static dyn Figure> {
    FIGURES.iter().filter_map(|id| find(id)).collect()
}

/// What a command line calls a theme, and it.
fn theme(theme: ShareTheme) -> (&'static str, Theme) {
    match theme {
        ShareTheme::Own => ("print", Theme::print()),
        ShareTheme::Light => ("light", Theme::light()),
        ShareTheme::Dark => ("dark", Theme::dark()),
    }
}

fn json(trace: &Trace) -> Vec<u8> {
    serde_json::to_vec(trace).expect("plain data serialises")
}

fn put(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    atomic_file::write(path, bytes).with_context(|| format!("{}: cannot be written", path.display()))
}

/// A name that any file system and any shell takes as it is.
fn plain(name: &str) -> String {
    let letter = |letter: char| if letter.is_ascii_alphanumeric() || letter == '_' { letter } else { '-' };
    let name: String = name.chars().map(letter).take(NAME).collect();
    if name.trim_matches('-').is_empty() { "unnamed".to_owned() } else { name }
}
