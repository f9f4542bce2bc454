//! The reference grid of an EVA-02's rotary positions. No shape determines it; the cosines do, if they were saved.

use super::OriginalError;
use super::shapes::Encoder;
use crate::model::backbone::rotary::Rotary;
use crate::model::grid::Grid;

/// Name of the cosines of every angle of the model's own grid, `[N, p]`.
const COSINES: &str = "rope.freqs_cos";
/// Edge in patches of the reference grid of published models.
const PUBLISHED: usize = 16;
/// The base of the wavelengths.
pub(super) const BASE: f64 = 10_000.0;
/// Largest difference of saved cosines from those of a grid: they may have been saved in 16 bits.
const TOLERANCE: f64 = 5e-3;

impl Encoder<'_> {
    /// The edge of the reference grid in patches, and how it is known, for a model of `grid` with heads of width `head_dim`.
    ///
    /// # Errors
    /// If cosines were saved that belong neither to the published reference grid nor to the model's own grid.
    pub fn reference(&self, grid: Grid, head_dim: usize) -> Result<(usize, &'static str), OriginalError> {
        if self.shape(COSINES).is_none() {
            return Ok((PUBLISHED, "as published"));
        }
        let shape = self.axes::<2>(COSINES, "[patches, width of a head]")?;
        let Grid { rows, cols } = grid;
        let wrong = || {
            let expected = format!(
                "[{}, {head_dim}], the cosines with base {BASE} of a {rows} x {cols} grid, relative to \
                 {PUBLISHED} x {PUBLISHED} or {rows} x {rows}: other rotary positions are not supported",
                grid.len()
            );
            self.misshapen(COSINES, &shape, expected)
        };
        if shape != [grid.len(), head_dim] || !head_dim.is_multiple_of(4) {
            return Err(wrong());
        }
        let found = self.weights.values(&format!("{}{COSINES}", self.prefix))?;
        let is_of = |reference: &usize| {
            let rotary = Rotary::Counted { base: BASE, reference: *reference };
            let cosine = |i: usize| rotary.angle(i / head_dim, grid, i % head_dim, head_dim).0.cos();
            found.iter().enumerate().all(|(i, x)| (f64::from(*x) - cosine(i)).abs() <= TOLERANCE)
        };
        [PUBLISHED, grid.rows].into_iter().find(is_of).map(|reference| (reference, COSINES)).ok_or_else(wrong)
    }
}
