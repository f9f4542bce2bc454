//! Writes a figure at successive steps of the reading: as an animated GIF, and as a series of stills for a page.

use std::path::{Path, PathBuf};

use super::Empty;
use super::draw::{Scene, Theme};
use super::export::{self, Animation, ExportError};
use super::figures::plot::Plot;

/// Why an animation or its stills were not written.
#[derive(Debug, thiserror::Error)]
pub enum AnimationError {
    /// The figure shows no steps, or has nothing to show of this trace.
    #[error(transparent)]
    Empty(#[from] Empty),
    /// It was cancelled.
    #[error("Cancelled")]
    Cancelled,
    /// Encoding failed, or the file could not be written.
    #[error(transparent)]
    Export(#[from] ExportError),
}

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
    fn scene(&self, plot: &dyn Plot, step: usize) -> Result<Scene, AnimationError> {
        match (self.cancelled)() {
            true => Err(AnimationError::Cancelled),
            false => Ok(plot.draw_step(step, self.theme, self.width)?),
        }
    }
}

/// The number of tokens that are read; an error where the figure does not show them step by step.
fn token_count(plot: &dyn Plot) -> Result<usize, Empty> {
    let tokens = Some(plot.steps()).filter(|tokens| *tokens > 0);
    tokens.ok_or_else(|| Empty(format!("{} does not show a reading step by step", plot.caption().title)))
}

/// Writes the animation to `path`.
pub fn save_gif(plot: &dyn Plot, path: &Path, drawn: Drawn<'_>) -> Result<(), AnimationError> {
    Ok(export::write(path, &gif(plot, drawn)?)?)
}

/// The bytes of the animation's GIF.
pub fn gif(plot: &dyn Plot, drawn: Drawn<'_>) -> Result<Vec<u8>, AnimationError> {
    let animation = Animation::for_tokens(token_count(plot)?);
    export::gif(&animation, drawn.about, drawn.dpi, |step| drawn.scene(plot, step))
}

/// About `count` stills named after `path`: for each the number of tokens read so far, and its file (PNG where `path` is a GIF).
pub fn stills(plot: &dyn Plot, path: &Path, count: usize) -> Vec<(usize, PathBuf)> {
    let tokens = plot.steps();
    let digits = tokens.to_string().len();
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
    let extension = if extension.eq_ignore_ascii_case("gif") { "png" } else { extension };
    let file = |step: usize| path.with_file_name(format!("{stem}-step-{step:0digits$}.{extension}"));
    Animation::stills(tokens, count).into_iter().map(|step| (step, file(step))).collect()
}

/// Writes the files that [`stills`] names.
pub fn save_stills(
    plot: &dyn Plot,
    path: &Path,
    count: usize,
    drawn: Drawn<'_>,
) -> Result<(), AnimationError> {
    token_count(plot)?;
    for (step, file) in stills(plot, path, count) {
        export::save(&file, &drawn.scene(plot, step)?, &plot.table(), drawn.about, drawn.dpi)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::viz::Size;
    use crate::viz::draw::Table;
    use crate::viz::figures::plot::Caption;

    /// An empty page, a hundred times.
    struct Blank;

    impl Plot for Blank {
        fn caption(&self) -> Caption {
            Caption::default()
        }

        fn height(&self, width: f32) -> f32 {
            width
        }

        fn scene(&self, _: &Theme, size: Size) -> Result<Scene, Empty> {
            Ok(Scene::new(size.width, size.height, "", None))
        }

        fn table(&self) -> Table {
            Table::default()
        }

        fn steps(&self) -> usize {
            100
        }
    }

    #[test]
    fn an_animation_that_is_cancelled_draws_no_more_and_is_not_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("blank.gif");
        let (theme, asked) = (Theme::print(), AtomicUsize::new(0));
        let cancelled = || asked.fetch_add(1, Ordering::Relaxed) >= 2;
        let drawn = Drawn { theme: &theme, width: 60.0, dpi: 72.0, about: "", cancelled: &cancelled };
        let written = save_gif(&Blank, &path, drawn);
        assert!(matches!(written, Err(AnimationError::Cancelled)) && !path.exists());
        assert_eq!(asked.into_inner(), 3);
    }
}
