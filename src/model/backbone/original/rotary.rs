//! The grid that the rotary positions of an EVA-02 are counted on: no shape says it, the cosines do, where they were saved.

use super::OriginalError;
use super::shapes::Encoder;
use crate::model::backbone::rotary::Rotary;
use crate::model::grid::Grid;

/// Cosines of every angle of the own grid, `[N, p]`.
const COSINES: &str = "rope.freqs_cos";
/// Patches along an edge of the grid that published models count on.
const PUBLISHED: usize = 16;
/// The base of their wavelengths.
pub(super) const BASE: f64 = 10_000.0;
/// How far cosines may be from those of a grid: they may have been saved in halves.
const NEAR: f64 = 5e-3;

impl Encoder<'_> {
    /// The edge of that grid in patches, with how it is known, of a model of `grid` with heads of width `part`.
    ///
    /// # Errors
    /// If cosines were saved, and they are neither those of published models nor those of a model's own grid.
    pub fn reference(&self, grid: Grid, part: usize) -> Result<(usize, &'static str), OriginalError> {
        if self.shape(COSINES).is_none() {
            return Ok((PUBLISHED, "as published"));
        }
        let shape = self.axes::<2>(COSINES, "[patches, width of a head]")?;
        let name = format!("{}{COSINES}", self.prefix);
        let Grid { rows, cols } = grid;
        let wrong = || OriginalError::Shape {
            path: self.path.to_owned(),
            name: name.clone(),
            found: shape.to_vec(),
            expected: format!(
                "[{}, {part}], the cosines by base {BASE} of a grid of {rows} x {cols}, counted on one of {PUBLISHED} x \
                 {PUBLISHED} or {rows} x {rows}: other rotary positions are not read",
                grid.len()
            ),
        };
        if shape != [grid.len(), part] || !part.is_multiple_of(4) {
            return Err(wrong());
        }
        let found = self.weights.tensor(&name)?.try_into_vec::<f32>().expect("weights are read in float32");
        let is_of = |reference: &usize| {
            let rotary = Rotary::Counted { base: BASE, reference: *reference };
            let cosine = |i: usize| rotary.angle(i / part, grid, i % part, part).0.cos();
            found.iter().enumerate().all(|(i, x)| (f64::from(*x) - cosine(i)).abs() <= NEAR)
        };
        [PUBLISHED, grid.rows].into_iter().find(is_of).map(|reference| (reference, COSINES)).ok_or_else(wrong)
    }
}
