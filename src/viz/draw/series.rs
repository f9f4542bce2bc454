//! The lines of one chart: what tells each from the others, and the bands around them.

use super::scene::Stroke;
use super::{Theme, extent, pt};

/// Length of the dashes of series and of the gaps between them, in points. There are eight, and seven colours: 56 series look
/// different, and eight do without colour.
pub const DASHES: [Option<[f32; 2]>; 8] = [
    None,
    Some([4.0, 2.0]),
    Some([1.5, 1.5]),
    Some([0.8, 2.4]),
    Some([9.0, 2.0]),
    Some([1.0, 5.0]),
    Some([6.5, 4.0]),
    Some([2.5, 4.0]),
];

/// The stroke of series `i`: neighbours differ in colour and in their dashes.
pub fn stroke(theme: &Theme, i: usize) -> Stroke {
    Stroke { dash: DASHES[i % DASHES.len()], ..Stroke::new(pt::LINE * 1.2, theme.series(i)) }
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
