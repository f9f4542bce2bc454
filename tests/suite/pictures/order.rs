//! Pictures of an order: the assignment matrix, the ranks of the tokens, and the scores behind it.

use ssmprobe::viz::Rows;

use super::marks::over;
use super::prelude::*;
use super::small::{BEST, BY_SCORE, SCORES, USED, share};

/// The share at the end of the colour scale: with 12 tokens, the fourth largest of all.
fn brightest() -> f64 {
    let mut shares: Vec<f32> = (0..N * N).map(|at| share(at / N, at % N)).collect();
    shares.sort_by(|a, b| b.total_cmp(a));
    f64::from(shares[3])
}

#[test]
pub fn assignment() {
    let trace = small::planned();
    let raster: [usize; N] = std::array::from_fn(|i| i);
    let all = [
        (Rows::Raster, raster, "Token (raster)"),
        (Rows::Score, BY_SCORE, "Token (by score)"),
        (Rows::Argmax, small::by_best(), "Token (by its best position)"),
    ];
    for (theme, log) in looks().into_iter().flat_map(|theme| [(theme.clone(), false), (theme, true)]) {
        for (rows, tokens, name) in all {
            let options = Options { rows, log, ..Options::default() };
            let marks = drawn("assignment", &trace, &options, &theme);
            let (axes, bar) = (marks.axes(0), marks.bar());
            assert_eq!((&*axes.x_name, &*axes.y_name), ("Position (last is read last)", name));
            assert!(axes.x.rises() && axes.y.rises(), "position 0 at the left, row 0 at the top");
            let (place, raster) = marks.rasters(N, N).remove(0);
            over(place, axes.area);
            for (row, token) in tokens.into_iter().enumerate() {
                for k in 0..N {
                    // The pixel of the image at the middle of the cell, located by the ticks.
                    let [x, y] = axes.at(k as f64, row as f64);
                    let part =
                        [(x - place.x) / place.w, (y - place.y) / place.h].map(|t| (t * N as f32) as usize);
                    assert_eq!(part, [k, row]);
                    let own = pixel(&raster, part[0], part[1]);
                    let expected = bar.color(f64::from(share(token, k)).min(brightest()));
                    assert!(
                        apart(own, expected) <= SHADE,
                        "P[{token}, {k}] in row {row}: {own:?}, not {expected:?}"
                    );
                }
            }
            assert_eq!(bar.ruler.is_log(), log);
            assert_close("upper end of the bar", bar.ends()[1], brightest(), 1e-4);
            assert_close("lower end of the bar", bar.ends()[0], if log { 0.01 } else { 0.0 }, 1e-5);
            let scale = if log { "Share, logarithmic" } else { "Share" };
            let largest = (0..N).map(|i| share(i, BEST[i])).fold(0.0, f32::max);
            assert_eq!(bar.name, format!("{scale} (largest {largest:.3})"));
        }
    }
}

#[test]
fn a_cell_of_the_assignment_matrix_is_where_it_should_be() {
    // Token 2 goes to position 5, and much less of token 5 to position 2.
    let options = Options { rows: Rows::Raster, ..Options::default() };
    let marks = drawn("assignment", &small::planned(), &options, &Theme::light());
    let (_, raster) = marks.rasters(N, N).remove(0);
    let [own, turned] = [pixel(&raster, 5, 2), pixel(&raster, 2, 5)].map(Color::lightness);
    assert!(own > turned + 20.0, "P[2, 5] is bright and P[5, 2] is dark: {own} {turned}");
}

#[test]
fn sums_that_are_not_one_stand_out_beside_their_row_and_above_their_column() {
    let theme = Theme::light();
    let options = Options { rows: Rows::Score, ..Options::default() };
    let marks = drawn("assignment", &small::planned(), &options, &theme);
    let area = marks.axes(0).area;
    let sum = |of: &dyn Fn(usize) -> f32| (0..N).map(|at| f64::from(of(at))).sum::<f64>();
    let rows: [f64; N] = std::array::from_fn(|i| (sum(&|k| share(i, k)) - 1.0).abs());
    let columns: [f64; N] = std::array::from_fn(|k| (sum(&|i| share(i, k)) - 1.0).abs());
    let most = rows.iter().chain(&columns).copied().fold(0.0, f64::max);
    let outlines = marks.areas(theme.series(0));
    assert_eq!(outlines.len(), 2);
    // Two corners per row or column, between the two on the base line.
    let corners =
        |outline: &[Point]| outline[1..=2 * N].chunks(2).map(|pair| pair[0]).collect::<Vec<Point>>();
    let right = corners(outlines[0]);
    let found: Vec<f64> = right.iter().map(|[x, _]| f64::from(x - outlines[0][0][0])).collect();
    assert_close("rows", found, BY_SCORE.map(|i| rows[i] / most * 8.0), 1e-3);
    assert!(right.iter().all(|[x, _]| *x >= area.right()) && near(right[0][1], area.y));
    let above = corners(outlines[1]);
    let found: Vec<f64> = above.iter().map(|[_, y]| f64::from(outlines[1][0][1] - y)).collect();
    assert_close("columns", found, columns.map(|off| off / most * 8.0), 1e-3);
    assert!(above.iter().all(|[_, y]| *y <= area.y) && near(above[0][0], area.x));
    assert!(marks.has(&format!("Row and column sums: off by at most {most:.3}")), "{most}");
}

#[test]
pub fn ranks() {
    let trace = small::planned();
    for theme in looks() {
        let marks = drawn("ranks", &trace, &Options::default(), &theme);
        let axes = marks.axes(0);
        let names = (&*axes.x_name, &*axes.y_name);
        assert_eq!(names, ("Best position (the last is read last)", "Tokens"));
        assert!(axes.x.rises() && !axes.y.rises());
        let bars: Vec<_> = marks.fills(marks.swatch("Tokens by best position"));
        let bars: Vec<_> =
            bars.into_iter().filter(|bar| bar.y >= axes.area.y - 0.1 && bar.x >= axes.area.x).collect();
        assert_eq!(bars.len(), USED.iter().filter(|used| **used > 0).count(), "nobody's position has no bar");
        let half = 0.5 * axes.area.w / N as f32;
        for (k, used) in USED.into_iter().enumerate().filter(|(_, used)| *used > 0) {
            let over = axes.x.at(k as f64);
            let bar = bars.iter().find(|bar| bar.x < over && over < bar.right()).expect("a bar");
            assert!(
                bar.x >= over - half - 0.1 && bar.right() <= over + half + 0.1,
                "it stands over {k} alone"
            );
            assert!(
                near(bar.y, axes.y.at(used as f64)) && near(bar.bottom(), axes.area.bottom()),
                "position {k}"
            );
        }
        let edges = marks.fills(theme.band.alpha(0.55));
        assert_eq!(edges.len(), 2);
        for (edge, k) in edges.iter().zip([0.0, 11.0]) {
            assert!(
                near(edge.center()[0], axes.x.at(k)) && near(edge.w, 2.0 * half),
                "a tenth, rounded down: 1"
            );
        }
        assert!(marks.has("First and last position") && marks.has("Rank coverage"));
    }
    let shared = Options { limits: Some((0.0, 6.0)), ..Options::default() };
    let axes = drawn("ranks", &trace, &shared, &Theme::light()).axes(0);
    assert_close("a shared scale", axes.y.number(axes.area.y), 6.24, 1e-2);
    let low = Options { limits: Some((0.0, 1.0)), ..Options::default() };
    let marks = drawn("ranks", &trace, &low, &Theme::light());
    let (area, bars) = (marks.axes(0).area, marks.fills(marks.swatch("Tokens by best position")));
    assert!(
        bars.iter().all(|bar| bar.y > area.y - 0.1 || bar.bottom() < area.y),
        "bars end at the edge: {bars:?}"
    );
}

#[test]
pub fn scores() {
    let trace = small::planned();
    for theme in looks() {
        let marks = drawn("scores", &trace, &Options::default(), &theme);
        let (axes, side) = (marks.axes(0), marks.axes(1));
        let names = (&*axes.x_name, &*axes.y_name);
        assert_eq!(names, ("Rank by score (the highest is read last)", "Score (standardised)"));
        assert!(axes.x.rises() && !axes.y.rises() && side.x.rises() && side.x_name == "Density");
        let tokens = marks.swatch("Tokens");
        let dots = marks.dots(tokens).into_iter().map(|dot| dot.at);
        let dots: Vec<Point> = dots.filter(|dot| axes.area.contains(*dot)).collect();
        let expected =
            BY_SCORE.iter().enumerate().map(|(k, token)| axes.at(k as f64, f64::from(SCORES[*token])));
        assert_close("the dots", dots, expected.collect::<Vec<Point>>(), 0.02);
        // The bars beside the scores: as long as the density at their height.
        let bars: Vec<_> = marks.fills(tokens.alpha(0.8)).into_iter().filter(|bar| bar.w > 0.01).collect();
        let bin = (axes.y.number(axes.area.y) - axes.y.number(axes.area.bottom())) / 24.0;
        let mut counted = 0;
        for bar in bars {
            let [low, high] = [axes.y.number(bar.bottom()), axes.y.number(bar.y)];
            let inside =
                SCORES.iter().filter(|score| (low - 0.02..high).contains(&f64::from(**score))).count();
            let density = inside as f64 / (N as f64 * bin);
            assert!(
                near(bar.x, side.area.x) && (bar.right() - side.x.at(density)).abs() < 0.05,
                "{low} to {high}"
            );
            counted += inside;
        }
        assert_eq!(counted, N, "every score is in one bar");
        let normal = marks.lines(marks.swatch("Standard normal"), 97)[0];
        let peak = normal.iter().copied().fold([0.0f32; 2], |a, b| if b[0] > a[0] { b } else { a });
        assert!((axes.y.number(peak[1])).abs() < 0.05, "it peaks at zero");
        assert_close("its peak", side.x.number(peak[0]), 0.3989, 2e-3);
    }
    let shared = Options { limits: Some((-4.0, 6.0)), ..Options::default() };
    let axes = drawn("scores", &trace, &shared, &Theme::light()).axes(0);
    assert_close("a shared scale", axes.y.number(axes.area.y), 6.5, 1e-2);
    assert_close("a shared scale", axes.y.number(axes.area.bottom()), -4.5, 1e-2);
    let within = Options { limits: Some((-0.5, 0.5)), ..Options::default() };
    let marks = drawn("scores", &trace, &within, &Theme::light());
    let (area, dots) = (marks.axes(0).area, marks.dots(marks.swatch("Tokens")));
    let shown = SCORES.iter().filter(|score| score.abs() <= 0.55).count();
    assert!(0 < shown && shown < N);
    assert_eq!(
        dots.iter().filter(|dot| area.contains(dot.at)).count(),
        shown,
        "others are not piled up at the edges"
    );
}
