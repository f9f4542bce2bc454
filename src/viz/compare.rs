//! Several probes side by side: one column a trace, one row a figure, all of a row on the same
//! scale, in one scene.

use super::{Empty, Figure, MARGIN, Options, Size, marked, shared};
use crate::model::trace::Trace;
use crate::viz::draw::{Anchor, Box2, Scene, Theme, check::check, font, frame};

/// Gap between columns and between rows, in points.
const GAP_PT: f32 = 14.0;
/// Width of the strip that names the rows.
const NAME_PT: f32 = 12.0;

/// Draws `figures` of `traces` on a page of `width` points.
///
/// # Errors
/// If there is no trace or no figure to compare, or nothing of them to see.
pub fn scene(
    traces: &[&Trace],
    figures: &[&dyn Figure],
    options: &Options,
    theme: &Theme,
    width: f32,
) -> Result<Scene, Empty> {
    Ok(inside(traces, figures, options, theme, width - 2.0 * MARGIN)?.framed(MARGIN))
}

/// The same without an edge around it.
pub(super) fn inside(
    traces: &[&Trace],
    figures: &[&dyn Figure],
    options: &Options,
    theme: &Theme,
    width: f32,
) -> Result<Scene, Empty> {
    if traces.is_empty() || figures.is_empty() {
        return Err(Empty("Choose at least one trace and one figure to compare".to_owned()));
    }
    let cell = ((width - NAME_PT + GAP_PT) / traces.len() as f32 - GAP_PT).max(40.0);
    let titles = theme.title + 5.0;
    let mut cells: Vec<Vec<Result<Scene, Empty>>> = Vec::new();
    for figure in figures {
        let whole: Vec<&Trace> = traces.iter().copied().filter(|t| check(t).is_ok()).collect();
        let options = options.clone().within(shared(*figure, whole.iter().copied()));
        let draw = |trace: &&Trace| {
            check(trace)?;
            let size = Size { width: cell, height: figure.height(trace, &options, cell) };
            marked(*figure, trace, &options, theme, size)
        };
        cells.push(traces.iter().map(draw).collect());
    }
    if cells.iter().flatten().all(Result::is_err) {
        let first = cells.into_iter().flatten().find_map(Result::err);
        return Err(first.unwrap_or_else(|| Empty("There is nothing to compare".to_owned())));
    }
    let heights: Vec<f32> = cells
        .iter()
        .map(|row| row.iter().filter_map(|c| c.as_ref().ok()).map(|s| s.height).fold(30.0, f32::max))
        .collect();
    let height = titles + heights.iter().sum::<f32>() + GAP_PT * (heights.len() - 1) as f32;
    let mut scene = Scene::new(width, height, "Comparison of probes", theme.background);
    for (c, trace) in traces.iter().enumerate() {
        let x = NAME_PT + c as f32 * (cell + GAP_PT);
        let name = if trace.probe.is_empty() { &trace.head } else { &trace.probe };
        let stem = std::path::Path::new(name).file_stem().and_then(|s| s.to_str()).unwrap_or(name);
        let text = font::fit(stem, theme.title, cell);
        let base = theme.title * font::CAP + 0.5;
        scene.text([x + cell / 2.0, base], text, theme.title, theme.ink, Anchor::Middle);
    }
    let mut y = titles;
    for ((row, figure), row_height) in cells.into_iter().zip(figures).zip(&heights) {
        let text = font::fit(figure.title(), theme.label, row_height + GAP_PT);
        scene.text_up([theme.label, y + row_height / 2.0], text, theme.label, theme.muted);
        for (c, drawn) in row.into_iter().enumerate() {
            let x = NAME_PT + c as f32 * (cell + GAP_PT);
            let drawn = drawn.unwrap_or_else(|why| frame::message(theme, cell, *row_height, "", &why.0));
            let clip = Box2::new(-2.0, -2.0, cell + 4.0, row_height + 4.0);
            scene.place(drawn, [x, y], Some(clip));
        }
        y += row_height + GAP_PT;
    }
    Ok(scene)
}
