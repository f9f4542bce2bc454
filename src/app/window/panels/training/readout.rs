//! The tooltip of a plot: the value of every curve at the epoch under the pointer, the best first.

use std::fmt::Write;

use crate::app::jobs::history::{Band, Curve};

/// Most curves that are listed.
const MAX_LINES: usize = 14;

/// The text on these curves, each with its name, at `epoch`; `None` if none has a point within half an epoch of it.
pub fn at(curves: &[(&str, &Curve)], epoch: f64, loss: bool, band: Band) -> Option<String> {
    let near = |curve: &Curve| {
        let far = |at: &f64| (at - epoch).abs();
        let place = (0..curve.at.len()).min_by(|a, b| far(&curve.at[*a]).total_cmp(&far(&curve.at[*b])))?;
        (far(&curve.at[place]) <= 0.5).then_some(place)
    };
    let mut found: Vec<(&str, &Curve, usize)> =
        curves.iter().filter_map(|(name, curve)| Some((*name, *curve, near(curve)?))).collect();
    let mean = |(_, curve, place): &(&str, &Curve, usize)| curve.mean[*place];
    found.sort_by(|a, b| if loss { mean(a).total_cmp(&mean(b)) } else { mean(b).total_cmp(&mean(a)) });
    let (_, first, place) = found.first()?;
    let mut text = format!("Epoch {:.1}", first.at[*place]);
    for &(name, curve, place) in found.iter().take(MAX_LINES) {
        let half = band.half_width(curve.spread[place], curve.seeds[place]);
        let value = curve.mean[place];
        let spread = |digits: usize| if half > 0.0 { format!(" ± {half:.digits$}") } else { String::new() };
        let shown =
            if loss { format!("{value:.4}{}", spread(4)) } else { format!("{value:.1}{} %", spread(1)) };
        write!(text, "\n{name}: {shown}").ok()?;
    }
    match found.len().saturating_sub(MAX_LINES) {
        0 => {}
        more => write!(text, "\nand {more} more").ok()?,
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_comes_first_with_its_interval() {
        let curve = |mean: [f64; 2], spread: f64| Curve {
            at: vec![1.0, 2.0],
            mean: mean.into(),
            spread: vec![0.0, spread],
            seeds: vec![1, 4],
        };
        let curves = [("gap", &curve([40.0, 50.0], 2.0)), ("sinkhorn", &curve([30.0, 60.0], 0.0))];
        let said = at(&curves, 1.8, false, Band::Deviation).expect("values");
        assert_eq!(said, "Epoch 2.0\nsinkhorn: 60.0 %\ngap: 50.0 ± 2.0 %");
        // 3.182 of Student's t for three degrees of freedom, times 2 over the root of 4.
        let said = at(&curves, 2.0, false, Band::Interval).expect("values");
        assert!(said.ends_with("gap: 50.0 ± 3.2 %"), "{said}");
        let said = at(&curves, 1.0, true, Band::Deviation).expect("values");
        assert_eq!(said, "Epoch 1.0\nsinkhorn: 30.0000\ngap: 40.0000");
        assert_eq!(at(&curves, 4.0, false, Band::Deviation), None);
    }
}
