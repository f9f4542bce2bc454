//! Writes a figure at successive steps of the reading: as an animated GIF, and as a series of stills for a page.

use std::path::{Path, PathBuf};

use super::Empty;
use super::draw::{Scene, Theme};
use super::export::{self, ExportError};
use super::figures::plot::Plot;
use super::figures::trace_plot::TracePlot;

/// How the steps are drawn.
#[derive(Clone, Copy)]
pub struct Drawn<'a> {
    /// Colours.
    pub theme: &'a Theme,
    /// Width of a picture, in points.
    pub width: f32,
    /// Dots per inch of GIFs and PNGs.
    pub dpi: f32,
    /// Where the picture comes from, for the files' metadata.
    pub about: &'a str,
    /// Whether to stop, asked before every picture, of which a reading has hundreds.
    pub cancelled: &'a (dyn Fn() -> bool + Sync),
}

impl Drawn<'_> {
    fn scene(&self, plot: &TracePlot, step: usize) -> Result<Scene, ExportError> {
        match (self.cancelled)() {
            true => Err(ExportError::Cancelled),
            false => Ok(plot.at_step(step).draw_column(self.theme, self.width)?),
        }
    }
}

/// The figures of traces that a plot is, and how many tokens are read; an error where they are not shown step by step.
fn moving(plot: &dyn Plot) -> Result<(&TracePlot, usize), Empty> {
    let moving = plot.as_traces().map(|traces| (traces, traces.steps())).filter(|(_, tokens)| *tokens > 0);
    moving.ok_or_else(|| Empty(format!("{} does not show a reading step by step", plot.caption().title)))
}

/// Writes the animation to `path`.
pub fn save_gif(plot: &dyn Plot, path: &Path, drawn: Drawn<'_>) -> Result<(), ExportError> {
    export::write(path, &gif(plot, drawn)?)
}

/// The bytes of the animation's GIF.
pub fn gif(plot: &dyn Plot, drawn: Drawn<'_>) -> Result<Vec<u8>, ExportError> {
    let (traces, tokens) = moving(plot)?;
    export::gif(tokens, drawn.about, drawn.dpi, |step| drawn.scene(traces, step))
}

/// About `count` stills named after `path`: for each the number of tokens read so far, and its file (PNG where `path` is a GIF).
pub fn stills(plot: &dyn Plot, path: &Path, count: usize) -> Vec<(usize, PathBuf)> {
    let tokens = moving(plot).map_or(0, |(_, tokens)| tokens);
    let digits = tokens.to_string().len();
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
    let extension = if extension.eq_ignore_ascii_case("gif") { "png" } else { extension };
    let file = |step: usize| path.with_file_name(format!("{stem}-step-{step:0digits$}.{extension}"));
    export::steps(tokens, count).into_iter().map(|step| (step, file(step))).collect()
}

/// Writes the files that [`stills`] names.
pub fn save_stills(plot: &dyn Plot, path: &Path, count: usize, drawn: Drawn<'_>) -> Result<(), ExportError> {
    let (traces, _) = moving(plot)?;
    for (step, file) in stills(plot, path, count) {
        export::save(&file, &drawn.scene(traces, step)?, &plot.table(), drawn.about, drawn.dpi)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::model::grid::Grid;
    use crate::model::trace::{Routing, Trace};
    use crate::viz::figures::scan_path::ScanPath;
    use crate::viz::{COLUMN, Options};

    #[test]
    fn an_animation_that_is_cancelled_draws_no_more_and_is_not_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("path.gif");
        let routing = Routing::Orders(vec![(0..100).collect()]);
        let trace = Arc::new(Trace { grid: Grid::new(10, 10), routing, ..Trace::default() });
        let plot = TracePlot::new(&ScanPath, &trace, Options::default());
        let (theme, asked) = (Theme::print(), AtomicUsize::new(0));
        let cancelled = || asked.fetch_add(1, Ordering::Relaxed) >= 2;
        let drawn = Drawn { theme: &theme, width: COLUMN, dpi: 72.0, about: "", cancelled: &cancelled };
        let written = save_gif(&plot, &path, drawn);
        assert!(matches!(written, Err(ExportError::Cancelled)) && !path.exists());
        assert_eq!(asked.into_inner(), 3);
    }
}
