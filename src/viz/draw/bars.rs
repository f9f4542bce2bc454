//! Bars of a histogram. Wide bars have gaps between them; thin ones touch, because a gap thinner than
//! a pixel would show between some of them and not between others.

/// Width from which bars have gaps, in points.
const GAP_FROM_PT: f32 = 6.0;

/// Left edge and width of every bar, in cells of width `cell` starting at `from`. A thin bar is extended
/// under a taller neighbour of the same sign: that hides the seam and leaves the outline as it is.
pub fn spans(values: &[f32], from: f32, cell: f32) -> Vec<(f32, f32)> {
    let overlap = |k: usize, neighbour: Option<usize>| {
        let neighbour = neighbour.and_then(|at| values.get(at));
        let hidden = neighbour.is_some_and(|b| b * values[k] > 0.0 && b.abs() >= values[k].abs());
        if hidden { 0.5 * cell } else { 0.0 }
    };
    let span = |k: usize| {
        let x = from + k as f32 * cell;
        if cell >= GAP_FROM_PT {
            return (x + 0.04 * cell, 0.92 * cell);
        }
        let (left, right) = (overlap(k, k.checked_sub(1)), overlap(k, Some(k + 1)));
        (x - left, cell + left + right)
    };
    (0..values.len()).map(span).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thin_bars_reach_under_higher_ones_of_their_side_and_wide_ones_stand_apart() {
        let thin = spans(&[1.0, 2.0, -3.0, -3.0, 0.0], 10.0, 2.0);
        assert_eq!(thin, [(10.0, 3.0), (12.0, 2.0), (14.0, 3.0), (15.0, 3.0), (18.0, 2.0)]);
        for (at, (left, width)) in spans(&[1.0, 2.0], 0.0, 10.0).into_iter().enumerate() {
            // Centred on their ticks.
            assert!((left + width / 2.0 - (10.0 * at as f32 + 5.0)).abs() < 1e-4 && width < 9.5);
        }
    }
}
