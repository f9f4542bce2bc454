//! A reading step by step as files: an animated GIF, and a series of stills for a page.

use std::path::{Path, PathBuf};

use super::Empty;
use super::draw::{Scene, Theme};
use super::export::{self, Animation, ExportError};
use super::figures::plot::Plot;

/// Why a reading was not written.
#[derive(Debug, thiserror::Error)]
pub enum AnimationError {
    /// There is none to see.
    #[error(transparent)]
    Empty(#[from] Empty),
    /// It cannot be put into a file.
    #[error(transparent)]
    Export(#[from] ExportError),
}

/// How it is drawn: the look, the width in points, dots an inch.
#[derive(Clone, Copy)]
pub struct Drawn<'a> {
    /// The look.
    pub theme: &'a Theme,
    /// In points.
    pub width: f32,
    /// Dots an inch of what has pixels.
    pub dpi: f32,
    /// What it was made of, for the files' metadata.
    pub about: &'a str,
}

impl Drawn<'_> {
    fn scene(&self, plot: &dyn Plot, step: usize) -> Result<Scene, AnimationError> {
        Ok(plot.draw_step(step, self.theme, self.width)?)
    }
}

/// How many tokens are read, or why that is not seen.
fn tokens(plot: &dyn Plot) -> Result<usize, Empty> {
    let tokens = Some(plot.steps()).filter(|tokens| *tokens > 0);
    tokens.ok_or_else(|| Empty(format!("{} does not show a reading step by step", plot.caption().title)))
}

/// Writes the animation; which steps it shows.
///
/// # Errors
/// If the picture shows no steps, or the file cannot be made.
pub fn save_gif(plot: &dyn Plot, path: &Path, drawn: Drawn<'_>) -> Result<Animation, AnimationError> {
    let (animation, bytes) = gif(plot, drawn)?;
    export::write(path, &bytes)?;
    Ok(animation)
}

/// Which steps the animation shows, and its file.
///
/// # Errors
/// If the picture shows no steps.
pub fn gif(plot: &dyn Plot, drawn: Drawn<'_>) -> Result<(Animation, Vec<u8>), AnimationError> {
    let animation = Animation::of(tokens(plot)?);
    let bytes = export::gif(&animation, drawn.about, drawn.dpi, |step| drawn.scene(plot, step))?;
    Ok((animation, bytes))
}

/// The stills that go with `path`: the number of tokens that each shows as read, and its file. Those of a GIF are PNGs.
pub fn stills(plot: &dyn Plot, path: &Path, count: usize) -> Vec<(usize, PathBuf)> {
    let tokens = plot.steps();
    let digits = tokens.to_string().len();
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
    let ending = if ending.eq_ignore_ascii_case("gif") { "png" } else { ending };
    let file = |step: usize| path.with_file_name(format!("{stem}-step-{step:0digits$}.{ending}"));
    Animation::stills(tokens, count).into_iter().map(|step| (step, file(step))).collect()
}

/// Writes the stills.
///
/// # Errors
/// If the picture shows no steps, or a file cannot be made.
pub fn save_stills(
    plot: &dyn Plot,
    path: &Path,
    count: usize,
    drawn: Drawn<'_>,
) -> Result<(), AnimationError> {
    tokens(plot)?;
    for (step, file) in stills(plot, path, count) {
        export::save(&file, &drawn.scene(plot, step)?, &plot.table(), drawn.about, drawn.dpi)?;
    }
    Ok(())
}
