//! Regions: outlined over the picture and listed with their measures; over a dataset, the position of each and which is
//! read before which.

use ssmprobe::viz::draw::colormap::diverging;
use ssmprobe::viz::figures::dataset;
use ssmprobe::viz::figures::plot::EvaluationPlot;

use super::prelude::*;
use super::small::PRECEDENCE;
use super::why_nothing;

/// Corners of the grid between which an outline of the three regions runs, as (column, row) pairs from the left and top.
const EDGES: [[[usize; 2]; 2]; 18] = [
    // Token 5.
    [[1, 1], [2, 1]],
    [[1, 2], [2, 2]],
    [[1, 1], [1, 2]],
    [[2, 1], [2, 2]],
    // Tokens 4, 8 and 9.
    [[0, 1], [1, 1]],
    [[0, 1], [0, 2]],
    [[0, 2], [0, 3]],
    [[1, 1], [1, 2]],
    [[1, 2], [2, 2]],
    [[2, 2], [2, 3]],
    [[0, 3], [1, 3]],
    [[1, 3], [2, 3]],
    // Tokens 3 and 7.
    [[3, 0], [4, 0]],
    [[3, 2], [4, 2]],
    [[3, 0], [3, 1]],
    [[3, 1], [3, 2]],
    [[4, 0], [4, 1]],
    [[4, 1], [4, 2]],
];

/// The outlines in ink colour over the picture in `place`, as corners of the grid.
fn outlines(marks: &Marks, theme: &Theme, place: Box2) -> Vec<[[usize; 2]; 2]> {
    let corner = |[x, y]: [f32; 2]| {
        let found = [(x - place.x) / place.w * GRID.cols as f32, (y - place.y) / place.h * GRID.rows as f32];
        found.map(|v| {
            assert!((v - v.round()).abs() < 0.01, "{v} is no corner");
            v.round() as usize
        })
    };
    let lines = marks.lines(theme.ink, 2).into_iter();
    let mut found: Vec<_> = lines.map(|line| [corner(line[0]), corner(line[1])]).collect();
    found.sort_unstable();
    found
}

fn expected() -> Vec<[[usize; 2]; 2]> {
    let mut edges = EDGES.to_vec();
    edges.sort_unstable();
    edges
}

#[test]
pub fn regions() {
    let trace = small::planned();
    let mean = small::mean_positions();
    let place = |tokens: &[usize]| {
        let sum: f64 = tokens.iter().map(|&i| mean[i]).sum();
        format!("{:.2}", sum / tokens.len() as f64 / (N - 1) as f64)
    };
    let rows = [
        ("1 beak", ["1", &place(&[5]), "0.73", "0.730", "0.727", "0.818"]),
        ("2 wing", ["3", &place(&[4, 8, 9]), "0.35", "−0.200", "0.296", "0.370"]),
        ("3 tail", ["2", &place(&[3, 7]), "0.42", "1.330", "0.400", "0.750"]),
        ("4 nape", ["0", "–", "–", "–", "–", "–"]),
    ];
    for theme in looks() {
        let marks = drawn("regions", &trace, &Options::default(), &theme);
        let seen = marks.rasters(8, 6)[0].0;
        assert_eq!(outlines(&marks, &theme, seen), expected());
        // Each has its number in its first patch.
        for (number, (column, row)) in [("1", (1, 1)), ("2", (0, 1)), ("3", (3, 0))] {
            let patch = Box2::new(
                seen.x + column as f32 * seen.w / 4.0,
                seen.y + row as f32 * seen.h / 3.0,
                seen.w / 4.0,
                seen.h / 3.0,
            );
            let words = marks.words();
            assert!(
                words.iter().any(|word| word.text == number && patch.contains([word.at[0], height(word)]))
            );
        }
        for (name, cells) in &rows {
            let own = height(&marks.word(name));
            let mut beside: Vec<_> = marks
                .words()
                .into_iter()
                .filter(|word| near(height(word), own) && word.text != *name)
                .collect();
            beside.sort_by(|a, b| a.at[0].total_cmp(&b.at[0]));
            let beside: Vec<String> = beside.into_iter().map(|word| word.text).collect();
            assert_eq!(beside, cells.map(str::to_owned), "{name}");
        }
        let all = marks.word("All together");
        assert!(height(&all) > height(&marks.word("4 nape")));
        assert!(marks.words().iter().any(|word| word.text == "nape: beyond the crop"));
    }
    let table = find("regions").expect("a figure").table(&trace);
    assert_eq!(table.heads()[..3], ["region", "tokens", "position"]);
}

/// Other pictures have outlines on request.
#[test]
fn outlines_lie_over_pictures_where_they_are_asked_for() {
    let trace = small::planned();
    for theme in looks() {
        for (figure, times) in [("photo", 2), ("token_map", 1)] {
            let plain = drawn(figure, &trace, &Options::default(), &theme);
            let asked = Options { regions: true, ..Options::default() };
            let outlined = drawn(figure, &trace, &asked, &theme);
            let more = outlined.lines(theme.ink, 2).len() - plain.lines(theme.ink, 2).len();
            assert_eq!(more, times * EDGES.len(), "{figure}");
        }
    }
}

#[test]
fn without_regions_it_says_what_to_do() {
    let why = |trace: &Trace| why_nothing("regions", trace);
    let trace = Trace { regions: None, ..small::planned() };
    assert!(why(&trace).contains("open a folder of masks"), "{}", why(&trace));
    // A damaged region is not drawn.
    let mut torn = small::planned();
    torn.regions.as_mut().expect("regions").list[1].cover.pop();
    assert!(why(&torn).contains("11 values of a region for 12 tokens"), "{}", why(&torn));
}

fn overview() -> EvaluationPlot {
    small::evaluated(dataset::find("region_order").expect("an overview"), MapOf::Positions)
}

#[test]
pub fn region_order() {
    // The earliest first; means and Student's t intervals of four, two and three numbers, with t = 3.182446, 12.706205, 4.302653,
    // cut off at 0 and 1.
    let rows = [
        ("beak", 0.25, 3.182_446 * 0.129_099_4 / 2.0),
        ("tail", 0.55, 12.706_205 * 0.070_710_7 / 2f64.sqrt()),
        ("wing", 0.8, 4.302_653 * 0.1 / 3f64.sqrt()),
    ];
    let places = [0, 2, 1];
    for theme in looks() {
        let marks = plotted(&overview(), &theme);
        let axes = marks.axes(0);
        assert!(axes.x.rises() && axes.x_name == "Mean position (0 first, 1 last)", "{}", axes.x_name);
        let dots = marks.dots(theme.series(0));
        assert_eq!(dots.len(), rows.len());
        assert!(dots.windows(2).all(|pair| pair[0].at[1] < pair[1].at[1]));
        for ((name, mean, reach), dot) in rows.iter().zip(&dots) {
            assert!(near(dot.at[0], axes.x.at(*mean)), "{name}");
            let lines = marks.lines(theme.series(0), 2);
            let line = lines.iter().find(|line| near(line[0][1], dot.at[1])).expect("an interval");
            assert_close(
                *name,
                [line[0][0], line[1][0]],
                [axes.x.at((mean - reach).max(0.0)), axes.x.at((mean + reach).min(1.0))],
                0.05,
            );
        }
        let [(area, raster)] = &marks.rasters(3, 3)[..] else { panic!("one matrix") };
        for (row, a) in places.into_iter().enumerate() {
            for (column, b) in places.into_iter().enumerate().filter(|(column, _)| *column != row) {
                let share = PRECEDENCE[a][b];
                assert_eq!(pixel(raster, column, row), diverging(&theme, 2.0 * share as f32 - 1.0));
                let middle = [
                    area.x + (column as f32 + 0.5) / 3.0 * area.w,
                    area.y + (row as f32 + 0.5) / 3.0 * area.h,
                ];
                let text = format!("{:.0}", 100.0 * share);
                let mut words = marks.words().into_iter().filter(|word| word.text == text);
                assert!(
                    words.any(|word| near(word.at[0], middle[0]) && near(height(&word), middle[1])),
                    "{text}"
                );
            }
        }
        assert!(marks.has("5 of 10 images with regions; line: 95 % interval"));
        assert!(marks.has("Row read before column, % of pairs of tokens, in 1 to 2 images"));
    }
    let plot = overview();
    let table = plot.table();
    for (row, shares) in PRECEDENCE.iter().enumerate() {
        let found: Vec<f64> =
            table.row(row)[11..].iter().map(|share| share.parse().expect("a share")).collect();
        assert_eq!(found[..3], *shares, "the row's region before the column's");
        let images =
            small::region_summary().pairs[row].iter().map(|images| *images as f64).collect::<Vec<_>>();
        assert_eq!(found[3..], images, "in so many images");
    }
    let item = |item| plot.overview.item(&plot, item);
    assert_eq!(item(1), ("beak before tail: 75.0 % in 2 images".to_owned(), vec![0, 1]));
    assert_eq!(item(3), ("tail before beak: 12.5 % in 2 images".to_owned(), vec![0, 1]));
    let wing = "wing\nMean position (0 first, 1 last): 0.8, 95 % interval 0.552 to 1";
    assert_eq!(item(9 + 2), (wing.to_owned(), vec![0, 3, 5]));
    let scene = Plot::draw_column(&plot, &Theme::light(), COLUMN).expect("a picture");
    let marks = Marks::of(&scene, &Theme::light());
    let (area, _) = &marks.rasters(3, 3)[0];
    let found = scene.hover([area.x + area.w / 2.0, area.y + area.h / 6.0]).and_then(|hover| hover.item);
    assert_eq!(found, Some(1), "row 0, column 1");
}

/// A head without an order still shows the weights of regions.
#[test]
fn of_a_head_without_an_order_weights_are_shown() {
    let mut plot = overview();
    let mut evaluation = (*plot.evaluation).clone();
    let regions = evaluation.regions.as_mut().expect("regions");
    regions.precedence.clear();
    regions.pairs.clear();
    regions.regions.iter_mut().for_each(|region| region.positions = vec![None; 10]);
    plot.evaluation = evaluation.into();
    let marks = plotted(&plot, &Theme::light());
    assert_eq!(marks.axes(0).x_name, "Token weight (1: as in GAP)");
    assert!(marks.rasters(3, 3).is_empty());
    let order = ["wing", "tail", "beak"].map(|name| height(&marks.word(name)));
    assert!(order.windows(2).all(|pair| pair[0] < pair[1]), "the lowest first");
}
