//! The lines of one chart: what tells each from the others, and the bands around them.

use super::scene::Stroke;
use super::{Theme, extent, pt};

/// Dash pattern of a series. There are eight, and seven colours: 56 series look different, and eight do without colour.
#[expect(missing_docs, reason = "in the order of series, called what they look like")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dash {
    Solid,
    Loose,
    Dense,
    Dots,
    Long,
    FarDots,
    Wide,
    Sparse,
}

impl Dash {
    /// The dash pattern of series `i`.
    pub fn new(i: usize) -> Self {
        let all = [
            Self::Solid,
            Self::Loose,
            Self::Dense,
            Self::Dots,
            Self::Long,
            Self::FarDots,
            Self::Wide,
            Self::Sparse,
        ];
        all[i % all.len()]
    }
}

/// The stroke of series `i`: neighbours differ in colour and in their dashes.
pub fn stroke(theme: &Theme, i: usize) -> Stroke {
    let line = Stroke::new(pt::LINE * 1.2, theme.series(i));
    match Dash::new(i) {
        Dash::Solid => line,
        Dash::Loose => line.dashed(4.0, 2.0),
        Dash::Dense => line.dashed(1.5, 1.5),
        Dash::Dots => line.dashed(0.8, 2.4),
        Dash::Long => line.dashed(9.0, 2.0),
        Dash::FarDots => line.dashed(1.0, 5.0),
        Dash::Wide => line.dashed(6.5, 4.0),
        Dash::Sparse => line.dashed(2.5, 4.0),
    }
}

/// The edges of a band of half width `spread` around `mean`, the lower edge first; `None` if no spread is above zero. For a
/// logarithmic axis that is fitted to them, those at or below zero are moved to half of the lowest that is above.
pub fn band(mean: &[f64], spread: &[f64], log: bool) -> Option<[Vec<f64>; 2]> {
    if spread.len() != mean.len() || !spread.iter().any(|spread| *spread > 0.0) {
        return None;
    }
    let edge = |sign: f64| mean.iter().zip(spread).map(|(m, s)| m + sign * s.max(0.0)).collect::<Vec<f64>>();
    let mut edges = [edge(-1.0), edge(1.0)];
    if log {
        let lowest = edges.iter().flatten().copied().filter(|v| *v > 0.0).fold(f64::INFINITY, f64::min);
        edges.iter_mut().flatten().filter(|v| **v <= 0.0).for_each(|v| *v = 0.5 * lowest);
    }
    Some(edges)
}

/// What the legend says of bands: their meaning, and over how many seeds they are; numbers below two have none.
pub fn bands(interval: bool, seeds: impl Iterator<Item = usize>) -> String {
    let over = match extent(seeds.filter(|seeds| *seeds > 1).map(|seeds| seeds as f64)) {
        Some((fewest, most)) if fewest < most => format!(" over {fewest} to {most} seeds"),
        Some((seeds, _)) => format!(" over {seeds} seeds"),
        None => String::new(),
    };
    let meaning = if interval { "95 % interval of the mean" } else { "one standard deviation" };
    format!("Bands: {meaning}{over}")
}
